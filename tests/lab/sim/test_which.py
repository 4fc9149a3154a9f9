"""`which`: plans, questions and files that nothing but the video can answer."""

from __future__ import annotations

import hashlib
import lzma
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tempoloc_nb.clips.manifest import Clip, load_benchmark
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.formats.gripper import read_gripper
from tempoloc_nb.lab.sim.benchmark import write_logs
from tempoloc_nb.lab.sim.tasks import THINGS, find_families
from tempoloc_nb.lab.sim.which_plan import HELD_OUT, ClipPlan, draw_plan
from tempoloc_nb.lab.sim.which_questions import KINDS, event_label, log_events, which_questions
from tempoloc_nb.scoring.logs import read_true_logs

SPLITS = ("which", "which-validation")
ABSENT = ("untouched", "elsewhere", "verb")


def test_training_never_sees_what_is_held_out() -> None:
    plans = [draw_plan(np.random.default_rng(seed), held_out=False) for seed in range(400)]
    assert not any((a.verb, a.thing) in HELD_OUT or a.before == "bottle" for plan in plans for a in plan.actions)
    shown = [draw_plan(np.random.default_rng(seed), held_out=True) for seed in range(400)]
    assert {(a.verb, a.thing) for plan in shown for a in plan.actions} >= HELD_OUT


@pytest.mark.parametrize("held_out", [True, False])
def test_a_plan_spares_an_object_and_handles_none_more_than_twice(held_out: bool) -> None:
    for seed in range(300):
        plan = draw_plan(np.random.default_rng(seed), held_out)
        handled = Counter(name for a in plan.actions for name in (a.thing, a.before) if name in THINGS)
        assert 3 <= len(plan.things) <= 6
        assert len(handled) < len(plan.things)
        assert max(handled.values(), default=0) <= 3  # the second time with another one's mishap before it


def told(plan: ClipPlan) -> str:
    return f"{plan.things} {plan.props} {[(a.verb, a.thing, a.place, a.before) for a in plan.actions]}"


def test_plans_without_visits_are_those_of_the_shipped_clips() -> None:
    """The benchmark's clips are made from their seeds: what a plan draws must not change."""
    plans = [draw_plan(np.random.default_rng(seed), held_out) for seed in range(100) for held_out in (True, False)]
    assert not any(a.visit for plan in plans for a in plan.actions)
    assert hashlib.sha256("\n".join(map(told, plans)).encode()).hexdigest()[:16] == "09f062d263e60892"


def test_visits_are_added_to_the_same_plan() -> None:
    visits = list[str]()
    for seed in range(300):
        plain, more = (draw_plan(np.random.default_rng(seed), False, visits=v) for v in (False, True))
        assert told(plain) == told(more)
        assert {a.visit for a in more.actions} - {""} <= set(more.things)
        visits += [a.visit for a in more.actions]
    assert 0.4 < np.mean([v != "" for v in visits]) < 0.6
    assert "bottle" in visits  # held out of what is picked, and still visited
    assert visits.count("bread") > 2 * visits.count("milk")  # stand in as many scenes


@pytest.mark.parametrize("name", SPLITS)
def test_the_shipped_questions_say_what_the_log_says(name: str) -> None:
    benchmark = load_benchmark(name)
    by_clip: dict[str, dict[str, list[Clip]]] = {}
    for clip in benchmark.clips:
        by_clip.setdefault(clip.extra["shown"], {}).setdefault(clip.extra["kind"], []).append(clip)
    assert (len(by_clip), len(benchmark.clips)) == {"which": (235, 1649), "which-validation": (79, 555)}[name]
    assert {kind for kinds in by_clip.values() for kind in kinds} == set(KINDS)
    for kinds in by_clip.values():
        true = {e.label: e.boundary for c in kinds.get("all", ()) for e in c.events}
        assert len(kinds["alone"]) == 2
        for clip in (c for clips in kinds.values() for c in clips):
            assert clip.labelled
            absent = [e for e in clip.events if e.absent]
            assert len(absent) == (clip.extra["kind"] in ABSENT)
            for event in clip.events if true and not absent else ():
                assert true[event.label] == event.boundary
        for ordered, swapped in zip(kinds.get("ordered", ()), kinds.get("swapped", ()), strict=True):
            assert ordered.in_order
            assert not swapped.in_order
            assert sorted(ordered.labels) == sorted(swapped.labels)


def test_no_clip_of_a_split_is_in_another() -> None:
    seeds = {name: {c.seed for c in load_benchmark(name).clips} for name in (*SPLITS, "sim", "validation", "detours")}
    for name in SPLITS:
        own = {seed for family in find_families(name) for seed in family.seeds}
        assert seeds[name] <= own
        assert not any(own & (other - {None}) for key, other in seeds.items() if key != name)
    shown = [c for c in load_benchmark("which-validation").clips if c.extra["kind"] not in ABSENT]
    assert not any(c.extra.get("held_out") for c in shown)


def test_every_clip_has_its_signal() -> None:
    benchmark = load_benchmark("which")
    signals = read_gripper(benchmark.root / "signals.npz", benchmark.clips)
    assert set(signals) == {c.clip for c in benchmark.clips}
    for clip in benchmark.clips[::50]:
        assert signals[clip.clip].times[-1] == pytest.approx(clip.duration, abs=0.2)


def test_an_event_that_comes_again_is_numbered() -> None:
    log = [["grasp", "can", 1.0], ["release", "can", 2.0], ["grasp", "can", 3.0]]
    first, _, again = log_events(log)
    assert (first.label, again.label) == ("grasping the can for the first time", "grasping the can for the second time")
    assert event_label("press", "green") == "pressing the green button"
    extra = {"log": log, "things": ["can", "milk"]}
    clip = Clip("which-panda/001", "which-panda", log_events(log), None, 15.0, duration=4.0, seed=3, extra=extra)
    assert list(which_questions(clip)) == list(which_questions(clip))


def test_the_manifest_is_small() -> None:
    root = load_benchmark("which").root
    assert len(lzma.compress((root / "manifest.jsonl.xz").read_bytes())) < 60_000


def test_true_logs_are_written_as_they_are_read(tmp_path: Path) -> None:
    log = [["grasp", "red_cube", 1.0], ["release", "red_cube", 2.5], ["press", "green", 4.0]]
    clip = Clip("which-panda/000", "which-panda", (), duration=6.0, extra={"log": log})
    write_logs(tmp_path / "logs.jsonl.xz", [clip])
    (found,) = read_true_logs(tmp_path / "logs.jsonl.xz").items()
    assert found[0] == "which-panda/000"
    assert [(e.time, e.label) for e in found[1].events] == [
        (1.0, f"grasping {THINGS['red_cube'].label}"), (2.5, f"releasing {THINGS['red_cube'].label}"),
        (4.0, "pressing the green button"),
    ]  # fmt: skip
    assert found[1].events[0].outcome == "succeeded"
    for bad in (replace(clip, extra={}), replace(clip, duration=None)):
        with pytest.raises(TempolocError, match="which-panda/000 has no log of what happened, or no duration"):
            write_logs(tmp_path / "logs.jsonl.xz", [bad])
