"""Fusion: which transition each event takes, what stays where it was, and what the file says of it."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tempoloc_nb.clips.manifest import Clip, Clips, load_benchmark
from tempoloc_nb.clips.tasks import Event, Subtask, Task
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.files import read_object, write_jsonl
from tempoloc_nb.core.settings import data_dir
from tempoloc_nb.inference import fuse as fusion
from tempoloc_nb.inference.fuse import _fuse_times, fuse
from tempoloc_nb.inference.signals import Kind, Signal, Transition, event_arms, find_transitions, signal_at
from tempoloc_nb.lab.sim.benchmark import read_clip_signals
from tempoloc_nb.scoring.answers import parse_answer, write_answer
from tempoloc_nb.scoring.evaluation import evaluate

PICKS = ("close", "open", "close")


def moves(*pairs: tuple[float, float]) -> tuple[Transition, ...]:
    """A closing and an opening for each hold (from, to) in s."""
    found = []
    for a, b in pairs:
        found += [Transition("close", a - 0.3, a, a, b - a), Transition("open", b, b + 0.2, b, b - a)]
    return tuple(found)


TWO = moves((1.0, 2.5), (4.0, 6.0))


@pytest.mark.parametrize("times", [(1.0, 2.5, 4.0), (0.6, 2.9, 4.4), (1.4, 3.9, 5.0), (1.1, 4.1, 4.2)])
def test_times_move_to_their_transitions(times: tuple[float, ...]) -> None:
    """The last but one puts the release where the next grasp is, as models do with an arm that they do not know."""
    assert _fuse_times(times, PICKS, TWO) == ((1.0, 2.5, 4.0), ("moved",) * 3)


def test_the_model_says_which_of_several_holds() -> None:
    """The same gripper, another object first: only the model's times tell the two apart."""
    three = moves((1.0, 2.0), (3.5, 5.0), (7.0, 9.0))
    assert _fuse_times((1.2, 2.3, 6.6), PICKS, three)[0] == (1.0, 2.0, 7.0)
    assert _fuse_times((3.1, 4.6, 6.6), PICKS, three)[0] == (3.5, 5.0, 7.0)


def test_a_grasp_on_air_is_avoided() -> None:
    assert _fuse_times((1.4, 4.0), PICKS[:2], moves((1.0, 1.1), (2.0, 4.2)))[0] == (2.0, 4.2)


def test_what_was_grasped_is_released_by_the_next_opening() -> None:
    assert _fuse_times((1.1, 3.6), PICKS[:2], moves((1.0, 2.2), (2.9, 4.0)))[0] in ((1.0, 2.2), (2.9, 4.0))


def test_beyond_the_reach_the_models_own_time_stays() -> None:
    found, outcomes = _fuse_times((1.1, 2.4, 9.0), PICKS, TWO, reach_s=4)
    assert found == (1.0, 2.5, 9.0)
    assert outcomes == ("moved", "moved", "far")
    assert _fuse_times((1.1, 2.4, 9.0), PICKS, TWO, reach_s=6)[0] == (1.0, 2.5, 4.0)


def test_missing_events_stay_missing_and_hidden_ones_where_they_are() -> None:
    kinds: tuple[Kind | None, ...] = ("close", None, "open", "close")
    found, outcomes = _fuse_times((1.2, 1.9, None, 4.1), kinds, TWO)
    assert found == (1.0, 1.9, None, 4.0)
    assert outcomes == ("moved", "not shown", "missing", "moved")
    assert _fuse_times((None, None), PICKS[:2], TWO) == ((None, None), ("missing", "missing"))
    assert _fuse_times((1.0, 2.0), PICKS[:2], ()) == ((1.0, 2.0), ("far", "far"))


@pytest.mark.parametrize("seed", range(20))
def test_the_assignment_is_the_cheapest_of_all(seed: int) -> None:
    """Against trying every one, with made-up transitions and times."""
    rng = np.random.default_rng(seed)
    cuts = np.sort(rng.uniform(0, 12, 8))
    made = moves(*((a, b) for a, b in zip(cuts[::2].tolist(), cuts[1::2].tolist(), strict=True)))
    times = np.sort(rng.uniform(0, 12, 3)).tolist()
    choices = [fusion._choices(t, k, made, np.inf) for t, k in zip(times, PICKS, strict=True)]

    def cost(chosen: tuple[fusion._Choice, ...]) -> float:
        pairs = (fusion._between(a, b, made, True) for a, b in itertools.pairwise(chosen))
        return sum(c.cost for c in chosen) + sum(pairs)

    best = min(itertools.product(*choices), key=cost)
    assert _fuse_times(times, PICKS, made)[0] == tuple(c.time for c in best)


def small(tmp_path: Path) -> tuple[Clips, Path, Clip]:
    """A benchmark of two clips, and a file with two trials of each."""
    events = (Event("grasping the cup", 1.0), Event("tilting the cup", 2.0), Event("releasing the cup", 3.0))
    clips = tuple(Clip(f"cup/{i}", "cup", events, fps=30, duration=5.0) for i in range(2))
    benchmark = Clips("cups", tmp_path, {"cup": Task("cup", clips[0].labels)}, clips)
    path = tmp_path / "p.jsonl"
    rows = [
        {"clip": c.clip, "task": "cup", "model": "m", "fps": 8.0, "trial": t,
         "text": write_answer(c.labels, [(1.3, 2.0), (2.0, 3.4), (3.4, 5.0)])}
        for c in clips for t in range(2)
    ]  # fmt: skip
    write_jsonl(path, rows)
    return benchmark, path, clips[0]


def test_a_file_says_what_became_of_each_event(tmp_path: Path) -> None:
    benchmark, path, clip = small(tmp_path)
    signal = signal_at(np.interp(np.arange(150) / 30, [0, 0.8, 1, 3, 3.2, 5], [8, 8, 4, 4, 8, 8]), 30)
    summary = fuse(path, tmp_path / "f.jsonl", benchmark=benchmark, signals={clip.clip: signal})
    counts, moved = "2 clips, events: 2 moved, 1 not shown, 3 no signal", "moved by 0.352 s in the median"
    assert f"{counts}, {moved}; 2 of 2 would be moved there from evenly spread times" in str(summary)
    first, second = (json.loads(line) for line in (tmp_path / "f.jsonl").read_text().splitlines())
    assert first["model"] == second["model"] == "m/fused"
    assert first["coarse_s"] == [1.3, 2.0, 3.4]
    assert first["outcome"] == ["moved", "not shown", "moved"]
    assert second["outcome"] == ["no signal"] * 3
    read = parse_answer(first["text"], clip.labels, 5.0).events
    assert [e.start for e in read] == pytest.approx(first["boundary_s"], abs=1e-3)
    assert read[1].end == read[2].start  # intervals that met still meet
    assert read[0].start == pytest.approx(0.99, abs=0.01)
    record = read_object(tmp_path / "f.run.json", "record")
    assert record["settings"]["fused"] == {"from": "p.jsonl", "reach_s": None}


def test_what_a_guess_would_get_is_counted(tmp_path: Path) -> None:
    """Of two grasps the middle of the signal leads to the second, which is a little nearer."""
    x, y = (0, 1, 1.2, 4, 4.2, 8, 8.2, 10), (8, 8, 4, 4, 8, 8, 4, 4)
    opening = np.interp(np.arange(300) / 30, x, y)
    clip = Clip("cup/0", "cup", (Event("grasping the cup", 8.2),), fps=30, duration=10.0)
    benchmark = Clips("cups", tmp_path, {"cup": Task("cup", clip.labels)}, (clip,))
    for name, said, guessed in (("late", 8.5, 1), ("early", 2.0, 0)):
        row = {"clip": clip.clip, "task": "cup", "model": "m", "fps": 8.0, "trial": 0}
        write_jsonl(path := tmp_path / f"{name}.jsonl", [row | {"text": write_answer(clip.labels, [(said, 9.0)])}])
        signals = {clip.clip: signal_at(opening, 30)}
        summary = fuse(path, tmp_path / f"{name}-fused.jsonl", benchmark=benchmark, signals=signals)
        assert (summary.outcomes["moved"], summary.guessed) == (1, guessed)


@pytest.mark.parametrize("missed", [False, True])
def test_the_start_of_a_skill_goes_with_its_end(tmp_path: Path, missed: bool) -> None:
    labels = ("arriving at the cup", "grasping the cup", "arriving with the cup", "tilting the cup")
    clip = Clip("cup/0", "cup", tuple(Event(label) for label in labels), fps=30, duration=5.0)
    benchmark = Clips("cups", tmp_path, {"cup": Task("cup", labels)}, (clip,))
    text = write_answer(labels, [None if missed else (0.2, 0.5), (0.5, 2.0), (2.0, 3.4), (3.4, 5.0)])
    row = {"clip": clip.clip, "task": "cup", "model": "m", "fps": 8.0, "trial": 0, "text": text}
    write_jsonl(tmp_path / "p.jsonl", [row])
    times = np.arange(150) / 30
    x = np.interp(times, [0, 1, 5], [0.25, 0, 0])
    signal = signal_at(np.interp(times, [0, 1, 1.2, 5], [8, 8, 4, 4]), 30, np.stack([x, 0 * x, 0 * x], axis=1))
    fuse(tmp_path / "p.jsonl", tmp_path / "f.jsonl", benchmark=benchmark, signals={clip.clip: signal})
    (fused,) = (json.loads(line) for line in (tmp_path / "f.jsonl").read_text().splitlines())
    assert fused["outcome"] == ["moved", "moved", "far", "not shown"]
    assert fused["boundary_s"] == pytest.approx([0.8, 1.19, 2.0, 3.4], abs=0.01)
    assert parse_answer(fused["text"], labels, 5.0).events[0].start == pytest.approx(0.8, abs=0.01)


def test_the_start_of_a_skill_that_no_gripper_shows_is_at_its_object(tmp_path: Path) -> None:
    labels = ("arriving at the button", "pressing the button")
    clip = Clip("press/0", "press", tuple(Event(label) for label in labels), fps=30, duration=5.0)
    press = Subtask("press", *labels, object_ref="Button")
    benchmark = Clips("presses", tmp_path, {"press": Task("press", labels, subtasks=(press,))}, (clip,))
    text = write_answer(labels, [(0.2, 2.6), (2.6, 5.0)])
    row = {"clip": clip.clip, "task": "press", "model": "m", "fps": 8.0, "trial": 0, "text": text}
    write_jsonl(tmp_path / "p.jsonl", [row])
    x = np.interp(np.arange(150) / 30, [0, 1, 2, 5], [0.3, 0.3, 0, 0])
    button = {"Button": np.zeros((150, 3))}
    signal = signal_at(np.ones(150), 30, np.stack([x, 0 * x, 0 * x], axis=1), button)
    fuse(tmp_path / "p.jsonl", tmp_path / "f.jsonl", benchmark=benchmark, signals={clip.clip: signal})
    (fused,) = (json.loads(line) for line in (tmp_path / "f.jsonl").read_text().splitlines())
    assert fused["outcome"] == ["moved", "not shown"]
    assert fused["boundary_s"] == pytest.approx([2 - 0.05 / 0.3, 2.6], abs=0.01)


def test_what_cannot_be_fused(tmp_path: Path) -> None:
    benchmark, path, clip = small(tmp_path)
    with pytest.raises(TempolocError, match=r"no clip of p\.jsonl has a signal, such as cup/0"):
        fuse(path, tmp_path / "f.jsonl", benchmark=benchmark, signals={})
    with pytest.raises(TempolocError, match="reach"):
        fuse(path, tmp_path / "f.jsonl", benchmark=benchmark, signals={clip.clip: signal_at([1, 2], 3)}, reach_s=0)
    with pytest.raises(TempolocError, match=r"p\.jsonl"):
        fuse(path, path, benchmark=benchmark, signals={})


def test_fused_answers_of_the_small_model(tmp_path: Path) -> None:
    """The gripper makes every family of the 400 test clips better, cubes below 1 %; what is denied stays denied."""
    sim = load_benchmark("sim")
    read = read_clip_signals(data_dir() / "benchmarks" / "sim" / "signals.npz")
    signals = {name: signal_at(s.aperture, 30.0) for name, s in read.items()}
    predictions = data_dir() / "predictions" / "sft.jsonl.xz"
    fuse(predictions, tmp_path / "f.jsonl", benchmark=sim, signals=signals)
    fused, alone = evaluate([tmp_path / "f.jsonl", predictions], sim, resamples=10).runs
    for family in fused.tasks:
        value, before = (run.estimate("mre_pct", family).value for run in (fused, alone))
        assert value is not None, family
        assert before is not None, family
        assert value < (1 if family.startswith("stack") else before), family


def test_a_hand_that_a_label_names_is_the_one_that_moves() -> None:
    """The right hand moves nearer to the model's times; a label without a hand takes the nearest of both."""
    hands = {"left": ((1.0, 2.5),), "right": ((1.6, 3.0),)}
    both = tuple(replace(t, arm=arm) for arm, pairs in hands.items() for t in moves(*pairs))
    both = tuple(sorted(both, key=lambda t: t.start))
    for arm, ((closed, opened),) in hands.items():
        found, outcomes = _fuse_times((1.5, 2.9), PICKS[:2], both, arms=(arm, arm))
        assert (found, outcomes) == ((closed, opened), ("moved", "moved"))
    assert _fuse_times((1.5, 2.9), PICKS[:2], both)[0] == (1.6, 3.0)
    assert _fuse_times((1.5, 2.6), PICKS[:2], both)[0] in ((1.0, 2.5), (1.6, 3.0))  # one hand grasps and releases
    left = tuple(t for t in both if t.arm == "left")
    assert _fuse_times((1.6, 3.0), PICKS[:2], left, arms=("right", "right"))[1] == ("far", "far")


def test_labels_name_hands() -> None:
    labels = ("grasping the cup with the left hand", "placing it left", "the Right arm releases it", "left gripper")
    assert event_arms(labels) == ("left", "", "right", "left")
    assert event_arms(["from the left hand to the right hand", "grasping the right cup"]) == ("", "")
    opening = np.stack([np.interp(np.arange(60), [0, 20, 24, 59], [1, 1, 0, 0]), np.ones(60)], axis=1)
    signal = Signal(opening, np.arange(60) / 20, arms=("left", "right"))
    assert [(t.arm, t.kind) for t in find_transitions(signal)] == [("left", "close")]
    with pytest.raises(TempolocError, match="one number a time"):
        Signal(opening, np.arange(60) / 20, arms=("left",))


def test_an_event_that_is_said_to_be_absent_is_not_moved(tmp_path: Path) -> None:
    benchmark, path, clip = small(tmp_path)
    signal = signal_at(np.interp(np.arange(150) / 30, [0, 0.8, 1, 3, 3.2, 5], [8, 8, 4, 4, 8, 8]), 30)
    text = write_answer(clip.labels, [(1.3, 2.0), (2.0, 3.4), ()])
    row = {"clip": clip.clip, "task": "cup", "model": "m", "fps": 8.0, "trial": 0, "text": text}
    write_jsonl(path, [row], force=True)
    done = fuse(path, tmp_path / "f.jsonl", benchmark=benchmark, signals={clip.clip: signal})
    assert (done.outcomes["absent"], done.outcomes["missing"], done.outcomes["moved"]) == (1, 0, 1)
    assert "Event 3: <absent> releasing the cup" in json.loads((tmp_path / "f.jsonl").read_text())["text"]
