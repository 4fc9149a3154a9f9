"""Many trials become one answer, and what it says of itself is true."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tempoloc_nb.clips.manifest import Clip, Clips, load_benchmark
from tempoloc_nb.clips.tasks import BoundaryIs, Event, Task
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.inference.consensus import (
    Combined,
    CombinedEvent,
    _combine_events,
    combine,
    combine_answers,
    combine_trials,
    move_events,
)
from tempoloc_nb.inference.record import pack_predictions, read_record, write_record
from tempoloc_nb.scoring.answers import answer_text, parse_answer
from tempoloc_nb.scoring.evaluation import evaluate

SIM = load_benchmark("sim")
FEW = replace(SIM, clips=SIM.with_videos()[:4])
CLIP = FEW.clips[0]
NAN = float("nan")


def line(clip: Clip, trial: int, text: str, **more: Any) -> dict[str, Any]:
    row = {"clip": clip.clip, "task": clip.task, "model": "m", "fps": 8, "trial": trial, "text": text}
    return row | more


def shifted(clip: Clip, by: float) -> str:
    return answer_text(clip.labels, [b + by for b in clip.boundaries], clip.duration or 99.0, digits=4)


def write(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def one(boundaries: list[float], others: list[float] | None = None, pair: float = 0.25, side: Any = "start") -> Any:
    columns = [np.array(c, dtype=float)[:, None] for c in (boundaries, others or [NAN] * len(boundaries))]
    return _combine_events(["e"], columns[0], columns[1], pair, side)[0]


def test_median_spread_and_confidence() -> None:
    event = one([1.0, 1.2, 1.4, 9.0], [2.0, 2.0, 3.0, NAN])
    assert (event.boundary, event.other, event.given) == (1.2, 2.0, 4)  # of an even number, the earlier in the middle
    assert event.spread_s == pytest.approx((0.2 + 0.0 + 0.2 + 7.8) / 4)
    assert event.confidence == 3 / 4
    assert one([1.0, 1.3, 1.4]).confidence == 2 / 3  # 1.0 is 0.3 s away, more than a pair
    assert one([1.0, 1.25]).confidence == 1.0
    single = one([2.0])
    assert (single.boundary, single.confidence, single.spread_s) == (2.0, 1.0, 0.0)


def test_an_event_of_fewer_than_half_of_the_trials_is_missing() -> None:
    assert one([1.0, 1.0, NAN, NAN]).boundary == 1.0
    assert one([1.0, 1.0, NAN, NAN]).confidence == 0.5  # silent trials do not agree
    for times in ([1.0, 1.0, NAN, NAN, NAN], [NAN]):
        event = one(times)
        assert (event.boundary, event.other, event.spread_s, event.confidence) == (None, None, None, 0.0)


def test_an_interval_stays_one() -> None:
    assert one([1.0, 5.0, 5.0], [2.0, NAN, NAN]).other == 5.0
    assert one([5.0, 1.0, 1.0], [4.0, NAN, NAN], side="end").other == 1.0


def test_unusable_times_are_no_votes() -> None:
    texts = ["Event 1: <1.0> <2.0> a", "Event 1: <3.0> <2.0> a", "Event 1: <99.0> <99.5> a", "Event 1: <1.1> a"]
    (event,) = combine_answers([parse_answer(t, ["a"], 5.0) for t in texts], 0.25)
    assert (event.given, event.boundary, event.other) == (2, 1.0, 2.0)
    (end,) = combine_answers([parse_answer(t, ["a"], 5.0, "end") for t in texts[:1]], 0.25, "end")
    assert (end.boundary, end.other) == (2.0, 1.0)
    with pytest.raises(TempolocError, match="no answers"):
        combine_answers([], 0.25)


@given(
    st.lists(st.lists(st.floats(0, 30), min_size=3, max_size=3).map(sorted), min_size=1, max_size=9),
    st.floats(0.01, 2),
)
def test_medians_of_ordered_trials_are_ordered(trials: list[list[float]], pair: float) -> None:
    times = np.array(trials)
    events = _combine_events("abc", times, np.full_like(times, NAN), pair)
    found = [e.boundary for e in events if e.boundary is not None]
    assert found == sorted(found)
    assert all(b in column for b, column in zip(found, times.T, strict=True))  # a time that some trial gave
    assert len(found) == 3
    assert all(0 <= e.confidence <= 1 for e in events)


def test_files_and_answers_are_combined_alike(tmp_path: Path) -> None:
    texts = [shifted(CLIP, by) for by in (0.0, 0.1, 0.9)]
    texts[1] = texts[1].replace("Event 2", "Nothing").replace(CLIP.labels[1], "else")
    file = write(tmp_path / "p.jsonl", [line(CLIP, t, text) for t, text in enumerate(texts)])
    (found,) = combine_trials(file, FEW)
    answers = [parse_answer(t, CLIP.labels, CLIP.duration) for t in texts]
    assert found.events == combine_answers(answers, 2 / 8)
    assert [e.given for e in found.events] == [3, 2, 3]


def test_trials_asked_in_another_order_are_sorted_back(tmp_path: Path) -> None:
    turned = list(reversed(CLIP.labels))
    text = "\n".join(f"Event {i}: <{t:.3f}> <9> {label}" for i, (label, t) in
                     enumerate(zip(turned, reversed(CLIP.boundaries), strict=True), 1))  # fmt: skip
    (found,) = combine_trials(write(tmp_path / "p.jsonl", [line(CLIP, 0, text, labels=turned)]), FEW)
    assert [e.boundary for e in found.events] == pytest.approx(CLIP.boundaries)


def test_a_pair_is_no_shorter_than_the_source_allows(tmp_path: Path) -> None:
    slow = replace(CLIP, fps=5.0)
    rows = [line(slow, t, shifted(slow, by), fps=30) for t, by in enumerate((0.0, 0.0, 0.3))]
    (found,) = combine_trials(write(tmp_path / "p.jsonl", rows), replace(FEW, clips=(slow,)))
    assert found.events[0].confidence == 1.0  # 2 / 5 s, not 2 / 30


def scattered(clips: Iterable[Clip], trials: int = 5) -> list[dict[str, Any]]:
    """The last clip's trials disagree; the others' agree and are right."""
    found = list(clips)
    return [line(c, t, shifted(c, 0.7 * t * (c is found[-1]))) for c in found for t in range(trials)]


def test_combine_writes_what_evaluate_reads(tmp_path: Path) -> None:
    file = write(tmp_path / "p.jsonl", scattered(FEW.clips))
    write_record(file, {"settings": {"prompt": "asked"}, "experiment": {}})
    done = combine(file, tmp_path / "new" / "c.jsonl", benchmark=FEW)
    assert (done.clips, done.trials, done.events, done.missing, done.abstained) == (4, 20, 12, 0, 0)
    rows = [json.loads(text) for text in done.output.read_text().splitlines()]
    assert {"confidence", "spread_s", "trials", "abstained"} <= set(rows[0])
    assert rows[0]["confidence"] == [1.0, 1.0, 1.0]
    assert rows[-1]["confidence"] == [0.2, 0.2, 0.2]
    run = evaluate(done.output, FEW, resamples=10).run("m/median")
    expected = (3 * 0.0 + 1.4) / 4
    assert run.estimate("mae_s").value == pytest.approx(expected, abs=2e-3)
    assert run.estimate("compliance").value == 1.0
    assert run.estimate("miou").value is not None
    record = read_record(done.output)["settings"]
    assert record["prompt"] == "asked"
    assert record["combined"]["from"] == "p.jsonl"
    assert pack_predictions(done.output, tmp_path / "packed").is_file()


def test_abstained_events_are_left_out_and_cost(tmp_path: Path) -> None:
    file = write(tmp_path / "p.jsonl", scattered(FEW.clips))
    done = combine(file, tmp_path / "c.jsonl", benchmark=FEW, threshold=0.5)
    assert done.abstained == 3
    last = json.loads(done.output.read_text().splitlines()[-1])
    assert last["abstained"] == [True, True, True]
    assert last["text"] == "<answer>\n</answer>"
    assert last["boundary_s"] == pytest.approx([b + 1.4 for b in FEW.clips[-1].boundaries], abs=1e-3)
    combine(file, tmp_path / "all.jsonl", benchmark=FEW)
    careful, whole = (evaluate(tmp_path / n, FEW, resamples=10) for n in ("c.jsonl", "all.jsonl"))
    assert (careful.estimate("mae_s").value or 0) > (whole.estimate("mae_s").value or 0)
    assert careful.estimate("usable").value == 0.75


def test_left_out_events_keep_the_others_numbers(tmp_path: Path) -> None:
    same = replace(CLIP, events=tuple(replace(e, label="pushing") for e in CLIP.events))
    texts = []
    for by in (0.0, 0.6, 1.2):
        b = [same.boundaries[0] + by, same.boundaries[1], same.boundaries[2]]
        texts.append(answer_text(same.labels, b, 9.0, digits=3))
    bench = replace(FEW, clips=(same,))
    file = write(tmp_path / "p.jsonl", [line(same, t, text) for t, text in enumerate(texts)])
    done = combine(file, tmp_path / "c.jsonl", benchmark=bench, threshold=0.5)
    text = json.loads(done.output.read_text())["text"]
    assert [e.boundary() for e in parse_answer(text, same.labels).events] == [None, *same.boundaries[1:]]


def test_runs_in_one_file_stay_apart(tmp_path: Path) -> None:
    rows = [line(CLIP, t, shifted(CLIP, 0.0), model=m, fps=f) for m in "ab" for f in (4, 8) for t in range(2)]
    found = combine_trials(write(tmp_path / "p.jsonl", rows), FEW)
    assert sorted((c.model, c.fps, c.trials) for c in found) == [("a", 4, 2), ("a", 8, 2), ("b", 4, 2), ("b", 8, 2)]


def test_trials_of_several_files_are_one_models(tmp_path: Path) -> None:
    offsets = {"a": (0.0, 0.1), "b": (0.4, 0.5), "c": (2.0, 2.0)}
    files = []
    for name, each in offsets.items():
        rows = [line(CLIP, t, shifted(CLIP, by), model=name) for t, by in enumerate(each)]
        files.append(write(tmp_path / f"{name}.jsonl", rows))
        write_record(files[-1], {"settings": {"model": name, "prompt": "asked"}, "trials": 2, "wanted": 8})
    done = combine(files, tmp_path / "all.jsonl", benchmark=FEW)
    row = json.loads(done.output.read_text())
    assert (done.trials, row["model"]) == (6, "a + b + c/median")
    assert row["boundary_s"] == pytest.approx([b + 0.4 for b in CLIP.boundaries], abs=1e-3)  # one of them gave it
    assert row["confidence"] == pytest.approx([2 / 6] * 3, abs=1e-3)
    record = read_record(done.output)["settings"]
    assert record["combined"]["from"] == ["a.jsonl", "b.jsonl", "c.jsonl"]
    assert record["prompt"] == "asked"
    assert "model" not in record


def test_disordered_medians_are_counted(tmp_path: Path) -> None:
    text = f"Event 1: <6.0> <6.5> {CLIP.labels[0]}\nEvent 2: <2.0> <6.5> {CLIP.labels[1]}"
    done = combine(write(tmp_path / "p.jsonl", [line(CLIP, 0, text)]), tmp_path / "c.jsonl", benchmark=FEW)
    assert (done.disordered, done.missing) == (1, 1)
    assert "1 missing, 0 abstained from, 1 out of order" in str(done)


def test_a_told_side_is_kept_for_the_scorer(tmp_path: Path) -> None:
    file = write(tmp_path / "p.jsonl", [line(CLIP, 0, shifted(CLIP, 0.0))])
    done = combine(file, tmp_path / "c.jsonl", benchmark=FEW, boundary_is="end")
    row = json.loads(done.output.read_text())
    assert row["boundary_is"] == "end"
    assert row["boundary_s"][0] == pytest.approx(CLIP.boundaries[1], abs=1e-3)
    with pytest.raises(TempolocError, match="--use-end-time"):
        evaluate(done.output, FEW, resamples=10)


@pytest.mark.parametrize(
    ("out", "threshold", "said"),
    [("p.jsonl", 0.0, "read and written at once"), ("c.json", 0.0, "another .jsonl"), ("c.jsonl", 1.5, "0 to 1")],
)
def test_bad_input_is_refused(tmp_path: Path, out: str, threshold: float, said: str) -> None:
    file = write(tmp_path / "p.jsonl", [line(CLIP, 0, shifted(CLIP, 0.0))])
    with pytest.raises(TempolocError, match=said):
        combine(file, tmp_path / out, benchmark=FEW, threshold=threshold)


def combined(tmp_path: Path, benchmark: Clips) -> list[Combined]:
    return combine_trials(write(tmp_path / "p.jsonl", scattered(benchmark.clips)), benchmark)






def test_clips_without_truth_are_combined_too(tmp_path: Path) -> None:
    events = tuple(replace(e, boundary=None, start=None, end=None) for e in FEW.clips[1].events)
    blank = replace(FEW, clips=(CLIP, replace(FEW.clips[1], events=events)))
    rows = [line(c, t, shifted(c, 0.1 * t)) for c in FEW.clips[:2] for t in range(3)]
    file = write(tmp_path / "p.jsonl", rows)
    assert combine_trials(file, blank) == combine_trials(file, FEW)
    assert combine(file, tmp_path / "c.jsonl", benchmark=blank).clips == 2


@pytest.mark.parametrize(
    ("side", "others", "expected"),
    [("start", (2.0, 5.0), (2.5, 5.0)), ("start", (1.5, 2.0), (1.5, 2.5)), ("end", (0.0, 1.0), (0.0, 1.2))],
)
def test_intervals_follow_their_neighbours(
    side: BoundaryIs, others: Sequence[float], expected: Sequence[float]
) -> None:
    events = tuple(CombinedEvent("e", b, o, 0.0, 1.0, 1) for b, o in zip((1.0, 2.0), others, strict=True))
    moved = move_events(Combined("t/c", "t", "m", 8, side, 1, events), [1.2, 2.5])
    assert [e.boundary for e in moved.events] == [1.2, 2.5]
    assert [e.other for e in moved.events] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("statuses", "absent", "confidence"),
    [("aaa", True, 1.0), ("aat", True, 2 / 3), ("att", False, 2 / 3), ("at", False, 0.5), ("amm", False, 0.0),
     ("aam", True, 2 / 3), ("atm", False, 0.0), ("aatmm", False, 0.0)],
)  # fmt: skip
def test_an_event_is_absent_where_half_say_so_and_more_than_give_a_time(
    tmp_path: Path, statuses: str, absent: bool, confidence: float
) -> None:
    lines = {"a": "Event 1: <absent> grasping", "t": "Event 1: <1.0> <2.0> grasping", "m": "I cannot tell."}
    (event,) = combine_answers([parse_answer(lines[s], ("grasping",), 4.0) for s in statuses], 0.25)
    assert event.absent == absent
    if absent or event.boundary is not None:
        assert event.confidence == pytest.approx(confidence)
    task, clip = Task("g", ("grasping",)), Clip("g/0", "g", (Event("grasping", 1.0),), fps=30, duration=4.0)
    benchmark = Clips("g", tmp_path, {"g": task}, (clip,))
    rows = [{"clip": "g/0", "task": "g", "model": "m", "fps": 8.0, "trial": t, "text": lines[s]}
            for t, s in enumerate(statuses)]  # fmt: skip
    (combined,) = combine_trials(write(tmp_path / "p.jsonl", rows), benchmark)
    assert combined.events == (event,)  # a file is read as answers are
    (read,) = parse_answer(combined.text(), ("grasping",), 4.0).events
    assert (read.status == "absent") == absent
    summary = combine(tmp_path / "p.jsonl", tmp_path / "c.jsonl", benchmark=benchmark)
    assert (summary.absent, summary.missing) == (int(absent), int(not absent and event.boundary is None))
