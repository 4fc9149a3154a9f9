"""Scores of prediction files: the recipe's numbers, strict costs, conventions, and errors that name the line."""

from __future__ import annotations

import gzip
import json
import lzma
import pickle
import random
import re
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tempoloc_nb.clips.manifest import Clip, Clips, load_benchmark
from tempoloc_nb.clips.tasks import Event, Task
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.formats.convert import import_recipe
from tempoloc_nb.scoring import trials as predictions
from tempoloc_nb.scoring.evaluation import Evaluation, absence, compare, evaluate, evaluation_json, evaluation_lines
from tempoloc_nb.scoring.trials import line_of

LABELS = ("grasp", "lift", "release")
TRUTH = (2.0, 5.0, 6.0)
TASK = Task("toy", LABELS, fps=30.0)


def toy(*clips: Clip) -> Clips:
    return Clips("toy", Path(), {"toy": TASK}, clips or (clip("0"),))


def clip(name: str, boundaries: Sequence[float] = TRUTH, duration: float | None = 10.0, **kwargs: Any) -> Clip:
    events = tuple(Event(label, b) for label, b in zip(LABELS, boundaries, strict=True))
    return replace(Clip(f"toy/{name}", "toy", events, fps=30.0, duration=duration), **kwargs)


def text(*spans: tuple[float, float] | None) -> str:
    lines = [f"Event {i}: <{s[0]}> <{s[1]}> {LABELS[i - 1]}" for i, s in enumerate(spans, 1) if s]
    return "<answer>\n" + "\n".join(lines) + "\n</answer>"


def row(answer: str, name: str = "0", **kwargs: Any) -> dict[str, Any]:
    return {"clip": name, "task": "toy", "model": "m", "fps": 8, "trial": 0, "text": answer, **kwargs}


def write(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    return path


def score(
    tmp_path: Path, rows: Iterable[dict[str, Any]], benchmark: Clips | None = None, *args: Any, **kw: Any
) -> Evaluation:
    return evaluate(write(tmp_path / "p.jsonl", rows), benchmark or toy(), *args, resamples=50, **kw)


def values(evaluation: Evaluation, *names: str) -> list[float | None]:
    run = evaluation.run()
    return [run.estimate(n, run.tasks[0]).value for n in names]


def of_events(evaluation: Evaluation, score: str = "mae_s") -> list[float | None]:
    """A score of each event of the only task."""
    lines = evaluation.table[(evaluation.table["score"] == score) & (evaluation.table["event"] != "")]
    return [None if v != v else v for v in lines["value"]]


# --- strict mode ---

GOOD = ((2.1, 5.0), (4.8, 6.0), (6.0, 10.0))
STRICT = {
    "good": (text(*GOOD), [0.1, 0.2, 0.0]),
    "missing": (text(GOOD[0], None, GOOD[2]), [0.1, 5.0, 0.0]),
    "nothing": ("", [8.0, 5.0, 6.0]),
    "malformed": (text(*GOOD).replace("<4.8>", "<x>"), [0.1, 5.0, 0.0]),
    "reversed": (text(GOOD[0], (4.8, 4.0), GOOD[2]), [0.1, 5.0, 0.0]),
    "out_of_range": (text(GOOD[0], GOOD[1], (10.2, 11.0)), [0.1, 0.2, 6.0]),
    "negative": (text((-1.0, 2.0), *GOOD[1:]), [8.0, 0.2, 0.0]),
    "order": (text(GOOD[0], (7.0, 8.0), (6.0, 9.0)), [0.1, 2.0, 6.0]),
    "order after a gap": (text((3.0, 4.0), None, (2.5, 3.0)), [1.0, 5.0, 6.0]),
    "equal boundaries": (text((5.0, 5.0), (5.0, 6.0), (6.0, 7.0)), [3.0, 0.0, 0.0]),
    "duplicate": (text(*GOOD).replace("</answer>", "Event 1: <9.0> <9.9> grasp\n</answer>"), [0.1, 0.2, 0.0]),
    "late end": (text(*GOOD[:2], (6.0, 99.0)), [0.1, 0.2, 0.0]),
    "units and clock": ("Event 1: 2.1 s - 5.0 s\nEvent 2: 00:04.80 - 00:06.00\nEvent 3: <6.0s>", [0.1, 0.2, 0.0]),
}


@pytest.mark.parametrize("name", STRICT)
def test_strict_costs(tmp_path: Path, name: str) -> None:
    answer, errors = STRICT[name]
    run = score(tmp_path, [row(answer)])
    assert of_events(run) == pytest.approx(errors)
    mre = 100 * np.mean(np.array(errors) / [2, 3, 1])
    assert values(run, "mae_s", "mre_pct", "worst_s") == pytest.approx([np.mean(errors), mre, max(errors)])
    assert run.clips["worst_event"].tolist() == [int(np.argmax(errors))]


def test_no_failure_is_better_than_any_answer_within_the_clip(tmp_path: Path) -> None:
    rng = random.Random(0)
    nothing = values(score(tmp_path, [row("")]), "mae_s", "mre_pct")
    for _ in range(30):
        times = sorted(rng.uniform(0, 10) for _ in range(3))
        found = values(score(tmp_path, [row(text(*((t, 10.0) for t in times)))]), "mae_s", "mre_pct")
        assert all(a is not None and b is not None and a <= b for a, b in zip(found, nothing, strict=True))


def test_trials_then_demonstrations_then_events(tmp_path: Path) -> None:
    benchmark = toy(clip("0"), clip("1"))
    shifted = [text(*((a + s, 10.0) for a in TRUTH)) for s in (0.1, 0.3, 0.6)]
    rows = [row(shifted[0]), row(shifted[1], trial=1), row(shifted[2], "1")]
    assert values(score(tmp_path, rows, benchmark), "mae_s", "bias_s") == pytest.approx([(0.2 + 0.6) / 2] * 2)
    clips = score(tmp_path, rows, benchmark).clips
    assert clips[["clip", "trials", "scored"]].to_numpy().tolist() == [["toy/0", 2, 2], ["toy/1", 1, 1]]
    assert clips["mae_s"][0] == pytest.approx(0.2)


def statuses(evaluation: Evaluation) -> dict[str, float]:
    lines = evaluation.table[(evaluation.table["task"] == "toy") & evaluation.table["score"].str.startswith("status_")]
    return {str(s).removeprefix("status_"): v for s, v in zip(lines["score"], lines["value"], strict=True)}


def test_rates(tmp_path: Path) -> None:
    answers = [
        text(*GOOD),
        text(GOOD[0], None, GOOD[2]),
        text(GOOD[0], (7.0, 8.0), (6.0, 9.0)),
        "Event 9: <1.0> <2.0> waving",
    ]
    evaluation = score(tmp_path, [row(a, trial=i) for i, a in enumerate(answers)])
    names = ("compliance", "recall", "labelled", "usable", "order_violations", "extra_events")
    assert values(evaluation, *names) == pytest.approx([2 / 4, 8 / 12, 8 / 12, 7 / 12, 1 / 4, 1 / 4])
    assert statuses(evaluation) == {
        "ok": 8,
        "missing": 4,
        "malformed": 0,
        "out_of_range": 0,
        "reversed": 0,
        "duplicate": 0,
        "absent": 0,
        "other_event": 0,
        "dropped": 0,
    }


def test_hits(tmp_path: Path) -> None:
    answer = text((2.1, 5.0), (5.25, 6.0), (6.26, 10.0))
    found = score(tmp_path, [row(answer)])
    hits = {n: found.estimate(n, "toy").value for n in found.table["score"].unique() if n.startswith("hit@")}
    # errors 0.1, 0.25 and 0.26 s; the recipe's window at 8 fps is 0.25625 s; a frame is 1/30 s
    third = pytest.approx(1 / 3)
    assert hits == {
        "hit@recipe": pytest.approx(2 / 3),
        "hit@0.1s": third,
        "hit@0.25s": pytest.approx(2 / 3),
        "hit@0.5s": 1.0,
        "hit@1f": 0.0,
        "hit@2f": 0.0,
        "hit@5f": third,
    }


def test_a_penalty_is_never_a_hit(tmp_path: Path) -> None:
    benchmark = toy(clip("0", (0.1, 0.2, 0.3), duration=0.4))
    assert values(score(tmp_path, [row("")], benchmark), "hit@0.5s", "mae_s") == pytest.approx(
        [0.0, np.mean([0.3, 0.2, 0.3])]
    )


def test_quantiles_pool_trials_and_events(tmp_path: Path) -> None:
    shifts = (0.1, 0.2, 0.3, 0.9)
    rows = [row(text(*((a + s, 10.0) for a in TRUTH)), trial=i) for i, s in enumerate(shifts)]
    assert values(score(tmp_path, rows), "p50_s", "p90_s") == pytest.approx([0.2, 0.9])


def test_tiou_only_where_the_truth_has_intervals(tmp_path: Path) -> None:
    answer = text(*GOOD)
    assert values(score(tmp_path, [row(answer)]), "miou", "R@0.3", "R@0.5", "R@0.7") == [None] * 4
    events = tuple(Event(label, b, b, b + 2) for label, b in zip(LABELS, TRUTH, strict=True))
    both = toy(replace(clip("0"), events=events), clip("1"))
    rows = [row(answer), row(answer, "1"), row("", trial=1)]
    ious = np.array([1.9 / 3.0, 1.0 / 2.2, 2.0 / 4.0])
    found = values(score(tmp_path, rows, both), "miou", "R@0.3", "R@0.5", "R@0.7")
    assert found == pytest.approx([ious.mean() / 2, 1 / 2, 1 / 3, 0.0])


def test_segmental_f1(tmp_path: Path) -> None:
    # segments 0-4, 4-5, 5-6 against 0-2, 2-5, 5-6: IoU 0.5, 1/3, 1
    rows = [row(text((4.0, 5.0), (5.0, 6.0), (6.0, 10.0)))]
    assert values(score(tmp_path, rows), "F1@10", "F1@25", "F1@50") == pytest.approx([1.0, 1.0, 2 / 3])
    assert values(score(tmp_path, [row("")]), "F1@10") == [0.0]


def test_events_that_nobody_asked_for_are_false_positives(tmp_path: Path) -> None:
    exact = text(*((a, 10.0) for a in TRUTH))
    names = ("F1@50", "edit", "frame_accuracy", "boundary_precision@0.25s", "boundary_recall@0.25s")
    assert values(score(tmp_path, [row(exact)]), *names) == [1.0] * 5
    two = exact.replace("</answer>", "Event 7: <8.0> <9.0> waving\nEvent 8: <9.0> <9.5> bowing\n</answer>")
    assert values(score(tmp_path, [row(two)]), *names) == pytest.approx([0.75, 0.6, 0.7, 0.6, 1.0])
    again = exact.replace("</answer>", "Event 2: <9.0> <9.5> lift\n</answer>")  # written twice
    assert values(score(tmp_path, [row(again)]), *names) == pytest.approx([6 / 7, 0.75, 0.7, 0.75, 1.0])
    late = exact.replace("</answer>", "Event 7: <80.0> <90.0> waving\nEvent 8: <9.0> <8.0> bowing\n</answer>")
    assert values(score(tmp_path, [row(late)]), *names) == [1.0] * 5  # no boundary that could be used


@pytest.mark.parametrize("side", ["start", "end"])
def test_an_interval_that_ends_at_no_event_is_not_compared(tmp_path: Path, side: str) -> None:
    edges = [(2.0, 5.0), (5.0, 6.0), (6.0, 8.0)] if side == "start" else [(0.5, 2.0), (2.0, 5.0), (5.0, 6.0)]
    events = tuple(Event(label, b, *e) for label, b, e in zip(LABELS, TRUTH, edges, strict=True))
    benchmark = replace(toy(replace(clip("0"), events=events)), tasks={"toy": replace(TASK, boundary_is=side)})
    run = score(tmp_path, [row(text(*edges))], benchmark)
    assert of_events(run, "miou") == ([1.0, 1.0, None] if side == "start" else [None, 1.0, 1.0])
    assert run.estimate("miou").value == 1.0


def test_success(tmp_path: Path) -> None:
    good, far = text(*GOOD), text((4.0, 5.0), (4.8, 6.0), (6.0, 9.0))
    benchmark = toy(clip("0"), clip("1"))

    def verdict(*rows: dict[str, Any]) -> bool:
        return bool(score(tmp_path, rows, benchmark).estimate("success").value)

    assert verdict(row(good), row(good, "1"))
    assert not verdict(row(good))  # clip 1 has no answer
    assert not verdict(row(far), row(far, "1"))
    many = [row(good, n, trial=t) for n in "01" for t in range(200)]
    missed = row(text(GOOD[0], GOOD[1], None), trial=200)
    assert not verdict(*many, missed)
    assert verdict(*many)


def test_unscored_clips_are_named(tmp_path: Path) -> None:
    found = score(tmp_path, [row("")], toy(clip("0"), clip("1")))
    assert found.clips.loc[found.clips["scored"] == 0, "clip"].tolist() == ["toy/1"]
    assert json.loads(evaluation_json(found))["runs"][0]["tasks"][0]["unscored"] == ["toy/1"]


def test_strict_needs_a_length(tmp_path: Path) -> None:
    benchmark = toy(clip("0", duration=None))
    with pytest.raises(TempolocError, match="length of toy/0"):
        score(tmp_path, [row(text(*GOOD))], benchmark)
    assert values(score(tmp_path, [row(text(*GOOD))], benchmark, "recipe"), "mae_s") == pytest.approx([0.1])
    from_task = replace(benchmark, tasks={"toy": replace(TASK, frames=(200, 300))})
    assert values(score(tmp_path, [row("")], from_task), "mae_s") == pytest.approx([np.mean([8, 5, 6])])


def test_clips_with_fewer_events(tmp_path: Path) -> None:
    short = replace(clip("1"), events=clip("1").events[:2])
    rows = [row(text(*((a + 0.3, 9.0) for a in TRUTH))), row(text((2.5, 5.0), (5.1, 6.0)), "1")]
    evaluation = score(tmp_path, rows, toy(clip("0"), short))
    assert of_events(evaluation) == pytest.approx([0.4, 0.2, 0.3])
    assert values(evaluation, "mae_s", "recall") == pytest.approx([0.3, 1.0])


# --- recipe mode ---


def recipes_scorer(
    results: dict[str, list[Any]], truth: dict[str, list[float]], fps: int, use_end: bool
) -> tuple[np.ndarray, ...]:
    """Mean error (s, %) and hit rate of each event, by the rules the recipe states, and how many trials it dropped."""
    seconds, percent, hits, dropped = [], [], [], 0
    for demo, gt in truth.items():
        rows = []
        for answer in results.get(demo, []):
            answer = (answer[0] if answer else "") if isinstance(answer, list) else answer
            tagged = re.search(r"<answer>(.*?)</answer>", answer or "", re.DOTALL | re.IGNORECASE)
            lines = [x for x in (tagged.group(1) if tagged else answer or "").split("\n") if "Event" in x]
            pairs = [re.findall(r"<([+-]?\d*\.?\d+)>", x)[:2] for x in lines]
            if len(pairs) == len(gt) and all(len(p) == 2 for p in pairs):
                rows.append([float(p[use_end]) for p in pairs])
            else:
                dropped += 1
        if rows:
            error = np.abs(np.array(rows) - gt)
            seconds.append(error.mean(axis=0))
            percent.append((error / np.diff(gt, prepend=0) * 100).mean(axis=0))
            hits.append((error < 4.1 * (1 / fps) / 2).mean(axis=0))
    return np.mean(seconds, axis=0), np.mean(percent, axis=0), np.mean(hits, axis=0), np.array(dropped)


def noisy_answer(gt: Sequence[float], labels: Sequence[str], rng: random.Random) -> Any:
    """An answer as models write them, sometimes one that the recipe drops."""
    times = [round(b + rng.gauss(0, 0.3), 2) for b in [*gt, gt[-1] + 1]]
    lines = [f"Event {i + 1}: <{times[i]}> <{times[i + 1]}> {label}" for i, label in enumerate(labels)]
    kind = rng.randrange(12)
    if kind == 0:
        return None
    if kind == 1:
        lines.pop()
    elif kind == 2:
        lines[0] = lines[0].replace(">", "s>")
    elif kind == 3:
        lines.append("Event 9: more")
    elif kind == 4:
        rng.shuffle(lines)
    answer = "\n".join(lines)
    if kind > 5:
        answer = f"<think>\nEvent 1: <0.0> <1.0>\n</think>\n<answer>\n{answer}\n</answer>"
    return [answer] if kind == 5 else answer


@pytest.mark.parametrize("key", ["cube", "nut", "bridge", "toaster", "chips", "fork", "cup"])
@pytest.mark.parametrize("use_end", [False, True])
def test_recipe_mode_is_the_recipe(tmp_path: Path, key: str, use_end: bool) -> None:
    benchmark, rng = load_benchmark("recipe"), random.Random(key)
    clips = benchmark.of_task(key)
    truth = {c.name: list(c.boundaries) for c in clips}
    results = {c.name: [noisy_answer(c.boundaries, c.labels, rng) for _ in range(10)] for c in clips}
    for name, texts in results.items():
        stem = f"demo{name}" if name.isdigit() else name
        (tmp_path / f"results_{stem}.pkl").write_bytes(pickle.dumps({"fps8": texts, "model": "m"}))
    import_recipe(tmp_path, benchmark.tasks[key], tmp_path / "p.jsonl")
    found = evaluate(tmp_path / "p.jsonl", benchmark, "recipe", boundary_is="end" if use_end else "start", resamples=50)
    seconds, percent, hits, dropped = recipes_scorer(results, truth, 8, use_end)
    assert dropped > 0
    assert values(found, "dropped", "status_dropped") == [dropped, dropped * len(clips[0].events)]
    for name, wanted in (("mae_s", seconds), ("mre_pct", percent), ("hit@recipe", hits)):
        assert of_events(found, name) == pytest.approx(wanted)
        assert values(found, name) == [pytest.approx(wanted.mean())]


def test_recipe_mode_pays_for_failing_and_strict_mode_does_not(tmp_path: Path) -> None:
    bad = text((4.0, 5.0), (7.0, 8.0), (8.0, 9.0))
    rows = [row(text(*GOOD)), row(bad, trial=1)]
    dropped = [rows[0], row("I cannot tell", trial=1)]
    worse, better = (values(score(tmp_path, r, None, "recipe"), "mae_s")[0] for r in (rows, dropped))
    assert worse is not None
    assert better is not None
    assert better < worse
    worse, better = (values(score(tmp_path, r), "mae_s")[0] for r in (dropped, rows))
    assert worse is not None
    assert better is not None
    assert better < worse


def test_recipe_mode_with_nothing_to_score(tmp_path: Path) -> None:
    evaluation = score(tmp_path, [row("?")], None, "recipe")
    assert values(evaluation, "mae_s", "p50_s", "compliance", "recall") == [None, None, 0.0, 0.0]
    assert values(evaluation, "success", "unscored") == [0, 1]
    assert evaluation.clips.loc[evaluation.clips["scored"] == 0, "clip"].tolist() == ["toy/0"]


# --- time bases ---


def test_time_bases(tmp_path: Path) -> None:
    """BridgeData: stamped as if at 30 fps, shot at 5 fps. One answer in either base is one answer."""
    benchmark = load_benchmark("recipe")
    labels, base = benchmark.tasks["bridge"].events, {"clip": "0", "task": "bridge", "model": "m", "fps": 8}
    answer = "Event 1: <{:.1f}> <{:.1f}> " + labels[0] + "\nEvent 2: <{:.1f}> <{:.1f}> " + labels[1]
    rows = [
        {**base, "trial": 0, "text": answer.format(0.7, 1.2, 1.2, 1.5), "time_base": "label"},
        {**base, "trial": 1, "text": answer.format(4.2, 7.2, 7.2, 9.0), "time_base": "source"},
        {**base, "trial": 2, "text": answer.format(4.2, 7.2, 7.2, 9.0)},
    ]  # the truth is 0.6 and 1.1 s in the label base
    for chosen in rows:
        strict = score(tmp_path, [chosen], benchmark)
        recipe = score(tmp_path, [chosen], benchmark, "recipe")
        assert (strict.time_base, recipe.time_base) == ("source", "label")
        assert values(strict, "mae_s", "mre_pct") == pytest.approx([0.6, 100 * (0.1 / 0.6 + 0.1 / 0.5) / 2])
        assert values(recipe, "mae_s", "mre_pct") == pytest.approx([0.1, 100 * (0.1 / 0.6 + 0.1 / 0.5) / 2])
    wrong = score(tmp_path, [{**rows[1], "time_base": "label"}], benchmark)
    assert values(wrong, "status_out_of_range") == [2]  # 4.2 s in a clip of 47 frames, 1.57 s in that base


# --- the boundary convention ---


def test_convention_of_a_row(tmp_path: Path) -> None:
    rows = [row(text((0.0, 2.0), (2.0, 5.0), (5.0, 6.0)), boundary_is="end")]
    with pytest.raises(TempolocError, match=r"p\.jsonl:1 answers with the boundary as the end.*--use-end-time"):
        score(tmp_path, rows)
    assert values(score(tmp_path, rows, boundary_is="end"), "mae_s") == [0.0]
    assert values(score(tmp_path, rows, boundary_is="start"), "mae_s") != [0.0]
    ends = replace(toy(), tasks={"toy": replace(TASK, boundary_is="end")})
    assert values(score(tmp_path, rows, ends), "mae_s") == [0.0]


def test_convention_of_run_json(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"boundary_is": "end"}')
    with pytest.raises(TempolocError, match="--use-end-time"):
        score(tmp_path, [row(text(*GOOD))])
    assert score(tmp_path, [row(text(*GOOD), boundary_is="start")]).runs  # the row knows better
    (tmp_path / "run.json").write_text('{"boundary_is": "middle"}')
    with pytest.raises(TempolocError, match=r"run\.json beside p\.jsonl: boundary_is = \"middle\" is none of"):
        score(tmp_path, [row(text(*GOOD))])
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(TempolocError, match=r"run\.json beside p\.jsonl is not JSON"):
        score(tmp_path, [row(text(*GOOD))])


# --- lines that cannot be scored ---

BAD_ROWS = {
    "unknown clip": (row("", "9"), "is about the clip '9' of task 'toy'"),
    "unknown task": ({**row(""), "task": "kitchen"}, "of task 'kitchen'"),
    "two tasks": ({**row(""), "clip": "toy/0", "task": "kitchen"}, "gives the task 'kitchen' for the clip toy/0"),
    "no trial": ({k: v for k, v in row("").items() if k != "trial"}, "lacks 'trial'"),
    "fps as text": (row("", fps="8"), 'fps = "8" is not a number'),
    "fps zero": (row("", fps=0), "fps = 0: should be greater than 0"),
    "fps true": (row("", fps=True), "fps = true is not a number"),
    "trial below zero": (row("", trial=-1), "trial = -1: should be greater than or equal to 0"),
    "huge trial": (row("", trial=2**70), f"trial = {2**70}: should be less than"),
    "trial 1.5": (row("", trial=1.5), "trial = 1.5 is not a whole number"),
    "no text": (row("", text=None), "text = null is not text"),
    "odd base": (row("", time_base="frames"), "time_base = \"frames\" is none of 'source' or 'label'"),
    "odd convention": (row("", boundary_is="middle"), "boundary_is = \"middle\" is none of 'start' or 'end'"),
    "a list": ([1], "[1] is not a table"),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_bad_rows_are_named(tmp_path: Path, name: str) -> None:
    bad, message = BAD_ROWS[name]
    with pytest.raises(TempolocError, match=r"^p\.jsonl:3[: ]") as caught:
        score(tmp_path, [row("", trial=1), row("", trial=2), bad])  # type: ignore[list-item]
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_broken_json_is_named(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps(row("")) + '\n{"clip": \n' + json.dumps(row("", trial=1)) + "\n")
    with pytest.raises(TempolocError, match=r"^p\.jsonl:2 is not JSON.*; delete that line, and the command that"):
        evaluate(path, toy())
    path.write_bytes(json.dumps(row("")).encode() + b"\n\xff\xfe\n")
    with pytest.raises(TempolocError, match=r"^p\.jsonl:2 is not UTF-8: save the file as UTF-8"):
        evaluate(path, toy())


TWICE = {
    "clip": ('"clip": "0"', '"clip": "0", "clip": "1"'),
    "in another place": ("}", ', "text": ""}'),
    "before a space": ("}", ', "text" : ""}'),
    "before a tab": ("}", ', "text"\t: ""}'),
    "escaped": ("}", ', "te\\u0078t": ""}'),
    "another key": ('"note": 1', '"note": 1, "note": 2'),
    "in place of another": ('"note": 1', '"fps": 8'),
    "within": ('"note": 1', '"note": {"a": 1, "a": 2}'),
}


@pytest.mark.parametrize("way", TWICE)
@pytest.mark.parametrize("place", [0, 2])
def test_a_key_that_stands_twice_is_refused(tmp_path: Path, way: str, place: int) -> None:
    """JSON's readers keep the last one: the row was scored for another clip, say."""
    lines = [json.dumps(row(text(*GOOD) + ' {"a": 1}', trial=k, note=1)) for k in range(4)]
    path = tmp_path / "p.jsonl"
    path.write_text("\n".join(lines) + "\n")
    assert evaluate(path, toy(), resamples=10).truncated == 0
    head, found, tail = lines[place].rpartition(TWICE[way][0])
    assert found
    lines[place] = head + TWICE[way][1] + tail
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(TempolocError, match=rf"^p\.jsonl:{place + 1}: the key '\w+' stands twice"):
        evaluate(path, toy())


def test_a_file_with_a_mark_is_read_and_another_encoding_is_said(tmp_path: Path) -> None:
    path, written = tmp_path / "p.jsonl", "".join(json.dumps(row(text(*GOOD), trial=k)) + "\n" for k in range(2))
    path.write_text(written, encoding="utf-8-sig")
    assert values(evaluate(path, toy(), resamples=10), "trials") == [2]
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32"):
        for content in (written, written.splitlines()[0]):
            path.write_text(content, encoding=encoding)
            with pytest.raises(TempolocError, match=r"^p\.jsonl:1 is UTF-16 or UTF-32: save the file as UTF-8$"):
                evaluate(path, toy())
    path.write_bytes(json.dumps(row("déjà"), ensure_ascii=False).encode("latin-1") + b"\n")
    with pytest.raises(TempolocError, match=r"^p\.jsonl:1 is not UTF-8: save the file as UTF-8$"):
        evaluate(path, toy())


def test_a_cut_off_last_line_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps(row(text(*GOOD))) + "\n" + json.dumps(row("", trial=1))[:-9])
    found = evaluate(path, toy(), resamples=10)
    assert (found.truncated, *values(found, "trials")) == (1, 1)
    path.write_text(json.dumps(row(text(*GOOD))))  # whole, only without its line break
    found = evaluate(path, toy(), resamples=10)
    assert (found.truncated, *values(found, "trials")) == (0, 1)


def test_repeated_trials_are_refused(tmp_path: Path) -> None:
    rows = [row(""), row("", trial=1), row("", model="n"), row("", fps=4), row("again", clip="toy/0")]
    with pytest.raises(TempolocError, match=r"p\.jsonl:5 repeats p\.jsonl:1: clip toy/0, model m, fps 8, trial 0"):
        score(tmp_path, rows)
    one, two = write(tmp_path / "a.jsonl", rows[:1]), write(tmp_path / "b.jsonl", rows[1:2] + rows[:1])
    with pytest.raises(TempolocError, match=r"b\.jsonl:2 repeats a\.jsonl:1"):
        evaluate([one, two], toy())


@pytest.mark.parametrize(
    ("content", "message"), [(None, "no prediction file"), ("", "is empty"), ("\n\n", "no row is about")]
)
def test_files_without_predictions(tmp_path: Path, content: str | None, message: str) -> None:
    path = tmp_path / "p.jsonl"
    if content is not None:
        path.write_text(content)
    with pytest.raises(TempolocError, match=message):
        evaluate(path, toy())


def test_other_tasks_of_the_benchmark_are_left_out(tmp_path: Path) -> None:
    benchmark = load_benchmark("recipe")
    base = {"model": "m", "fps": 8, "trial": 0, "text": ""}
    rows = [{**base, "clip": "0", "task": "nut"}, {**base, "clip": "cube/0", "task": "cube"}]
    assert score(tmp_path, rows, benchmark).tasks == ("nut", "cube")
    assert score(tmp_path, rows, benchmark, task="cube").tasks == ("cube",)
    with pytest.raises(TempolocError, match="no row is about"):
        score(tmp_path, rows, benchmark, task="cup")
    with pytest.raises(TempolocError, match="unknown task 'kitchen'"):
        score(tmp_path, rows, benchmark, task="kitchen")


def test_bad_arguments(tmp_path: Path) -> None:
    with pytest.raises(TempolocError, match="unknown mode 'fair'"):
        score(tmp_path, [row("")], None, "fair")
    rows: list[Any] = [row(text((2, 2), (5, 5), (6, 6)))]
    for name, number in (("resamples", 0), ("workers", 0), ("seed", -1)):
        with pytest.raises(TempolocError, match=f"{name} must be . or more, got {number}"):
            evaluate(rows, toy(), **{name: number})
    odd: Any = "toy"
    for score_it in (evaluate, absence):
        with pytest.raises(TempolocError, match="not 'toy'"):
            score_it(rows, odd)
        for number in (0, 1.5, "many"):
            with pytest.raises(TempolocError, match=f"resamples must be .*, got {number!r}"):
                score_it(rows, toy(), resamples=number)  # type: ignore[arg-type]
    with pytest.raises(TempolocError, match="unknown boundary 'toy'"):
        evaluate(rows, toy(), boundary_is=odd)
    (run,) = evaluate(rows, toy(), resamples=2).runs
    for name, number in (("resamples", 0), ("seed", -1)):
        with pytest.raises(TempolocError, match=f"{name} must be . or more, got {number}"):
            compare(run, run, **{name: number})
    with pytest.raises(TempolocError, match="a run is its scores, as evaluate gives them, not 'toy'"):
        compare(run, odd)
    for event, confidence in ((-1, 0.95), (0, 95)):
        with pytest.raises(TempolocError, match="events count from 0, and 95 % are"):
            compare(run, run, event=event, confidence=confidence)


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        (None, "predictions are files .*, not None"),
        (3, "predictions are files .*, not 3"),
        ([Path("a.jsonl"), 3], "predictions are files .*, not 3"),
        ([], "nothing to score"),
        ([row("") | {"of": Path("a")}], "row 1 holds a value that JSON cannot: a PosixPath is neither text"),
        ([row(""), row("", trial=1) | {"fps": "8"}], 'row 2: fps = "8" is not a number'),
    ],
)
def test_predictions_that_are_neither_files_nor_rows_are_named(odd: Any, said: str) -> None:
    with pytest.raises(TempolocError, match=said):
        evaluate(odd, toy())


def test_rows_of_numpy_and_pandas_score_as_plain_ones_do() -> None:
    plain = [row(text(*GOOD), trial=i, labels=list(LABELS)) for i in range(2)]
    scored = evaluate(plain, toy(), resamples=5)
    numbers = {"fps": np.float32(8), "labels": np.array(LABELS), "note": np.arange(3)}
    assert evaluate([r | numbers | {"trial": np.int64(i)} for i, r in enumerate(plain)], toy(), resamples=5) == scored
    table = pd.DataFrame(plain)
    assert evaluate(table, toy(), resamples=5) == scored
    assert evaluate([line for _, line in table.iterrows()], toy(), resamples=5) == scored
    assert evaluate((r for r in plain), toy(), resamples=5) == scored
    with_gaps = pd.DataFrame([plain[0], {k: v for k, v in plain[1].items() if k != "labels"}])
    assert evaluate(with_gaps, toy(), resamples=5) == scored
    assert evaluate(plain[0], toy(), resamples=5) == evaluate(plain[:1], toy(), resamples=5)
    assert type(evaluate(plain, toy(), resamples=5, seed=np.int64(3)).seed) is int


# --- pieces, output, comparison ---


def many_rows(count: int = 300) -> list[dict[str, Any]]:
    rng = random.Random(1)
    rows = []
    for i in range(count):
        times = [max(0.0, b + rng.gauss(0, 0.5)) for b in TRUTH]
        rows.append(
            row(
                text(*((round(t, 2), 9.9) for t in times)),
                str(i % 5),
                trial=i // 10,
                model="mn"[i // 5 % 2],
                note="é" * (i % 7),
            )
        )
    return rows


@pytest.mark.parametrize("workers", [1, 2])
def test_pieces_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    benchmark = toy(*(clip(str(i)) for i in range(5)))
    path = write(tmp_path / "p.jsonl", many_rows())
    whole = evaluate(path, benchmark, resamples=50)
    for size in (997, 20_000) if workers == 1 else (20_000,):
        monkeypatch.setattr(predictions, "_CHUNK_BYTES", size)
        assert evaluate(path, benchmark, resamples=50, workers=workers) == whole
    split = [write(tmp_path / "a.jsonl", many_rows()[:100]), write(tmp_path / "b.jsonl", many_rows()[100:])]
    assert evaluate(split, benchmark, resamples=50) == whole


def test_every_line_is_read_once_whatever_the_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "p.jsonl", many_rows(20))
    for size in range(1, 700, 31):
        monkeypatch.setattr(predictions, "_CHUNK_BYTES", size)
        runs = evaluate(path, toy(*(clip(str(i)) for i in range(5))), resamples=2).runs
        assert sum(run.estimate("trials").value or 0 for run in runs) == 20


def test_line_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(b"aaa\nbb\n\ncccc\n")
    monkeypatch.setattr(predictions, "_CHUNK_BYTES", 2)
    assert [line_of(path, n) for n in (0, 4, 7, 8)] == [1, 2, 3, 4]


def test_json_says_everything(tmp_path: Path) -> None:
    evaluation = score(tmp_path, many_rows(), toy(*(clip(str(i)) for i in range(5))))
    found = json.loads(evaluation_json(evaluation))
    assert found["runs"][0]["tasks"][0]["scores"]["miou"] == {"value": None, "low": None, "high": None}
    assert found["runs"][1]["tasks"][0]["demos"][0]["clip"] == "toy/0"
    task = evaluation.runs[0].of_task("toy")
    assert found["runs"][0]["tasks"][0]["scores"]["mre_pct"]["low"] == task.estimate("mre_pct").low
    assert found["seed"] == evaluation.seed


def test_same_seed_same_intervals(tmp_path: Path) -> None:
    benchmark = toy(*(clip(str(i)) for i in range(5)))
    one, same, other = (score(tmp_path, many_rows(), benchmark, seed=s) for s in (1, 1, 2))
    assert one == same
    assert one.runs[0].estimate("mae_s") != other.runs[0].estimate("mae_s")
    assert one.runs[0].estimate("mae_s").value == other.runs[0].estimate("mae_s").value
    estimate = one.runs[0].estimate("mae_s")
    assert estimate.low is not None
    assert estimate.value is not None
    assert estimate.high is not None
    assert estimate.low < estimate.value < estimate.high


def test_run_is_found_by_model_and_rate(tmp_path: Path) -> None:
    evaluation = score(tmp_path, [row(""), row("", fps=4), row("", model="n")])
    assert evaluation.run("n").fps == 8
    assert evaluation.run("m", 4).fps == 4
    assert evaluation.run("m at 4 fps") == evaluation.run("m", 4)  # as the message below calls it
    with pytest.raises(TempolocError, match="2 runs of the model 'm': choose one of m at 8 fps, m at 4 fps"):
        evaluation.run("m")
    assert evaluation.run("n").of_task("toy") == evaluation.run("n")
    with pytest.raises(TempolocError, match="unknown task 'boy': did you mean toy"):
        evaluation.run("n").of_task("boy")


def test_compare_pairs_demonstrations(tmp_path: Path) -> None:
    benchmark = toy(*(clip(str(i)) for i in range(6)))
    shifts = [0.2, 0.3, 0.1, 0.4, 0.3, 0.2]
    a = [row(text(*((t + s, 9.9) for t in TRUTH)), str(i)) for i, s in enumerate(shifts)]
    b = [row(text(*((t + 0.1, 9.9) for t in TRUTH)), str(i), model="n") for i in range(5)]
    evaluation = score(tmp_path, a + b, benchmark)
    one, every = compare(evaluation.run("m"), evaluation.run("n"), "mae_s").itertuples()
    assert (one.task, every.task, one.demos) == ("toy", "", 5)
    assert (one.a, one.b) == pytest.approx((0.26, 0.1))
    assert one.difference == pytest.approx(0.16)
    assert (one.difference, one.low, one.high) == (every.difference, every.low, every.high)
    assert one.p == 4 / 2**5  # all flips of the four differences that are not 0: all + and all −, twice
    back = compare(evaluation.run("n"), evaluation.run("m"), "mae_s").iloc[0]
    assert back.difference == pytest.approx(-0.16)
    with pytest.raises(TempolocError, match="share no demonstration with the score 'miou'"):
        compare(evaluation.run("m"), evaluation.run("n"), "miou")


# --- events asked in another order ---


def asked_text(labels: Sequence[str], times: Sequence[float]) -> str:
    lines = [f"Event {i}: <{t}> <{t + 1}> {label}" for i, (label, t) in enumerate(zip(labels, times, strict=True), 1)]
    return "<answer>\n" + "\n".join(lines) + "\n</answer>"


@pytest.mark.parametrize("mode", ["strict", "recipe"])
def test_swapped_answers_score_as_unswapped_ones(tmp_path: Path, mode: str) -> None:
    times = dict(zip(LABELS, (2.1, 4.8, 6.0), strict=True))
    swapped = ("release", "lift", "grasp")
    plain = score(tmp_path, [row(asked_text(LABELS, list(times.values())))], None, mode)
    turned = row(asked_text(swapped, [times[label] for label in swapped]), labels=list(swapped))
    assert score(tmp_path, [turned], None, mode) == plain
    assert values(plain, "mae_s", "compliance", "recall") == pytest.approx([0.1, 1.0, 1.0])
    if mode == "strict":  # without `labels` these are named right, but not in the form asked for
        assert values(score(tmp_path, [{k: v for k, v in turned.items() if k != "labels"}]), "compliance") == [0.0]


def test_json_is_in_form_where_it_was_asked_for(tmp_path: Path) -> None:
    spans = zip(LABELS, TRUTH, strict=True)
    events = [{"event": i, "label": label, "start": t, "end": t + 1} for i, (label, t) in enumerate(spans, 1)]
    lines, answer = asked_text(LABELS, TRUTH), json.dumps({"events": events})
    for told, form, compliance in (
        (answer, "json", 1.0), (answer, "lines", 0.0), (answer, None, 0.0),
        (lines, "json", 0.0), (lines, "lines", 1.0), (lines, None, 1.0),
    ):  # fmt: skip
        rows = [row(told, **({"form": form} if form else {}))]
        assert values(score(tmp_path, rows), "mae_s", "compliance", "recall") == [0.0, compliance, 1.0]
    with pytest.raises(TempolocError, match=r"^p\.jsonl:1: form = \"xml\" is none of 'lines', 'json' or 'log'"):
        score(tmp_path, [row(lines, form="xml")])


@pytest.mark.parametrize("mode", ["strict", "recipe"])
def test_answers_that_ignore_the_swap_are_penalized(tmp_path: Path, mode: str) -> None:
    """Times in their usual order under the exchanged names; the recipe's rule goes by place alone."""
    swapped = ("release", "lift", "grasp")
    found = score(tmp_path, [row(asked_text(swapped, TRUTH), labels=list(swapped))], None, mode)
    # grasp at 6 s; in strict mode lift (5 s) and release (2 s) then break the order: max(5, 5) and max(6, 4)
    assert of_events(found) == pytest.approx([4.0, 5.0, 6.0] if mode == "strict" else [4.0, 0.0, 4.0])


def test_the_recipes_rule_goes_by_place(tmp_path: Path) -> None:
    """An answer with the usual names and times to a swapped question: named right, at the wrong places."""
    answer = row(asked_text(LABELS, TRUTH), labels=["lift", "grasp", "release"])
    assert values(score(tmp_path, [answer]), "mae_s", "compliance") == [0.0, 0.0]
    assert values(score(tmp_path, [answer], None, "recipe"), "mae_s") == pytest.approx([2.0])


@settings(max_examples=40)
@given(st.data())
def test_no_permutation_changes_a_score(data: st.DataObject) -> None:
    """All scores, also of missing, late and disordered events, and for clips that have a label twice."""
    labels = data.draw(st.lists(st.sampled_from(["grasp", "lift", "release", "push", "wipe"]), min_size=2, max_size=5))
    boundaries = [1.0 + i for i in range(len(labels))]
    events = tuple(Event(label, b) for label, b in zip(labels, boundaries, strict=True))
    benchmark = toy(Clip("toy/0", "toy", events, fps=30.0, duration=8.0))
    distinct = len(set(labels)) == len(labels)
    some = st.one_of(st.floats(0, 9).map(lambda t: round(t, 2)), st.none())
    times = data.draw(st.lists(some if distinct else some.filter(lambda t: t is not None),
                               min_size=len(labels), max_size=len(labels)))  # fmt: skip
    order = data.draw(st.permutations(range(len(labels))))
    if not distinct:  # occurrences of one label keep their order
        order = [sorted(j for j in order if labels[j] == labels[i])[
            [j for j in order if labels[j] == labels[i]].index(i)] for i in order]  # fmt: skip

    def answer(places: Sequence[int]) -> str:
        lines = [
            f"Event {n}: <{times[i]}> <{round(times[i] + 1, 2)}> {labels[i]}"
            for n, i in enumerate(places, 1)
            if times[i] is not None
        ]
        return "<answer>\n" + "\n".join(lines) + "\n</answer>"

    with tempfile.TemporaryDirectory() as folder:
        for mode in ("strict", "recipe"):
            plain = score(Path(folder), [row(answer(range(len(labels))))], benchmark, mode)
            turned = row(answer(order), labels=[labels[i] for i in order])
            assert score(Path(folder), [turned], benchmark, mode) == plain


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["grasp", "lift"], " asks for 'grasp', 'lift'; labels must be those of toy/0 in another order: 'grasp'"),
        (["grasp", "lift", "lift"], " asks for 'grasp', 'lift', 'lift'"),
        (["grasp", "lift", "release", "push"], ".*'push'; labels must be those"),
        (["Grasp", "lift", "release"], " asks for 'Grasp'"),
        ([], r": labels = \[\]: "),
        ("grasp", ': labels = "grasp" is not a list'),
        (None, ": labels = null is not a list"),
        (["grasp", "lift", 3], r", labels: 2 = 3 is not text"),
    ],
)
def test_labels_must_be_the_clips_own(tmp_path: Path, labels: Any, message: str) -> None:
    for mode in ("strict", "recipe"):
        with pytest.raises(TempolocError, match=rf"^p\.jsonl:2{message}"):
            score(tmp_path, [row("", trial=1), row("", labels=labels)], None, mode)


# --- compressed files ---


@pytest.mark.parametrize(("suffix", "opened"), [(".xz", lzma.open), (".gz", gzip.open)])
def test_compressed_files_are_read_alike(
    tmp_path: Path, suffix: str, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    benchmark = toy(*(clip(str(i)) for i in range(5)))
    plain = write(tmp_path / "p.jsonl", many_rows())
    whole = evaluate(plain, benchmark, resamples=50)
    packed = tmp_path / f"p.jsonl{suffix}"
    with opened(packed, "wb") as out:
        out.write(plain.read_bytes())
    assert packed.stat().st_size < plain.stat().st_size / 2
    monkeypatch.setattr(predictions, "_CHUNK_BYTES", 997)
    assert evaluate(packed, benchmark, resamples=50) == whole
    other = write(tmp_path / "q.jsonl", [{**r, "model": r["model"] * 2} for r in many_rows(20)])
    assert [r.model for r in evaluate([packed, other], benchmark, resamples=5).runs] == ["m", "n", "mm", "nn"]


@pytest.mark.parametrize(("suffix", "opened"), [(".xz", lzma.open), (".gz", gzip.open)])
def test_errors_in_compressed_files_name_the_line(tmp_path: Path, suffix: str, opened: Any) -> None:
    packed = tmp_path / f"p.jsonl{suffix}"

    def pack(*rows: dict[str, Any]) -> None:
        with opened(packed, "wt") as out:
            out.write("".join(json.dumps(r) + "\n" for r in rows))

    pack(row(""), row("", trial=1), row("", "9"))
    with pytest.raises(TempolocError, match=rf"^p\.jsonl\{suffix}:3 is about the clip '9'"):
        evaluate(packed, toy())
    pack(row(""), row("", trial=1), row(""))
    with pytest.raises(TempolocError, match=rf"^p\.jsonl\{suffix}:3 repeats p\.jsonl\{suffix}:1"):
        evaluate(packed, toy())
    pack(*(row(text(*GOOD), trial=i) for i in range(2000)))
    packed.write_bytes(packed.read_bytes()[:-60])
    with pytest.raises(TempolocError, match=rf"^p\.jsonl\{suffix} is damaged or cut off"):
        evaluate(packed, toy())
    packed.write_bytes(b"no archive at all")
    with pytest.raises(TempolocError, match=rf"^p\.jsonl\{suffix} is damaged or cut off"):
        evaluate(packed, toy())


def test_errors_in_frames(tmp_path: Path) -> None:
    assert values(score(tmp_path, [row(text(*GOOD))]), "mae_frames") == pytest.approx([30 * 0.1])
    unknown = toy(clip("0", fps=None))
    assert values(score(tmp_path, [row(text(*GOOD))], unknown), "mae_frames") == [None]
    bridge = load_benchmark("recipe")  # 5 fps; the truth 0.6 and 1.1 s was stamped as if at 30 fps
    answer = {"clip": "0", "task": "bridge", "model": "m", "fps": 8, "trial": 0}
    answer |= {"text": "Event 1: <4.2> <7.2> grasping the cube\nEvent 2: <7.2> <9.0> releasing the cube"}
    for mode in ("strict", "recipe"):  # 0.6 s of the source are 3 frames, and so are 0.1 s of the label base
        assert values(score(tmp_path, [answer], bridge, mode), "mae_frames") == pytest.approx([3.0])


def test_clips_that_nobody_has_labelled_are_passed_over(tmp_path: Path) -> None:
    blank = replace(clip("1"), events=tuple(Event(label) for label in LABELS))
    mixed, answer = toy(clip("0"), blank), text(*GOOD)
    found = score(tmp_path, [row(answer), row(answer, "1")], mixed)
    assert found.unlabelled == ("toy/1",)
    assert found.table.equals(score(tmp_path, [row(answer)]).table)
    assert values(found, "unscored") == [0]
    with pytest.raises(TempolocError, match=r"no row is about the clips to score: toy/0$"):
        score(tmp_path, [row(answer, "1")], mixed)
    assert evaluation_lines(found)[-1] == "1 clips have no truth and were not scored: toy/1"
    with pytest.raises(TempolocError, match=r"no truth here: no clip of toy is labelled\. tempoloc dataset"):
        score(tmp_path, [row(answer, "1")], toy(blank))


# --- rows without a file, one table ---


def test_rows_are_scored_as_their_file_is(tmp_path: Path) -> None:
    benchmark = toy(*(clip(str(i)) for i in range(5)))
    assert evaluate(iter(many_rows()), benchmark, resamples=50) == score(tmp_path, many_rows(), benchmark)
    for rows, message in (
        ([row(""), row("", "9")], "row 2 is about the clip '9' of task 'toy'"),
        ([row(""), row("", trial=1), row("")], "row 3 repeats row 1: clip toy/0"),
        ([row(""), row("", fps=0)], "row 2: fps = 0: should be greater than 0"),
        ([], "give prediction files, or the rows of one: there is nothing to score"),
        ([row(""), "p.jsonl"], "give prediction files, or the rows of one"),
    ):
        with pytest.raises(TempolocError, match=f"^{message}"):
            evaluate(rows, benchmark)  # type: ignore[arg-type]


def test_one_table_has_every_number(tmp_path: Path) -> None:
    found = score(tmp_path, many_rows(), toy(*(clip(str(i)) for i in range(5))))
    table = found.table
    assert list(table) == ["model", "fps", "task", "event", "score", "value", "low", "high", "n"]
    assert not table.duplicated(["model", "fps", "task", "event", "score"]).any()
    assert set(table["event"]) == {"", "1: grasp", "2: lift", "3: release"}
    assert (table["n"] == 5).all()
    of = table[table["score"] == "mre_pct"].set_index(["model", "task", "event"])["value"]
    assert of["m", "toy", ""] == of["m", "", ""] == pytest.approx(of["m", "toy"].drop("").mean())
    assert found.run("m").by_task("mre_pct")["value"].to_dict() == {"toy": of["m", "toy", ""], "": of["m", "", ""]}
    with pytest.raises(TempolocError, match="unknown score 'mre': did you mean mre_pct"):
        found.run("m").estimate("mre")


def test_events_that_are_absent_are_scored_apart(tmp_path: Path) -> None:
    labels = ("grasping the mug", "grasping the red cube")
    absent = Event(labels[0], absent=True)
    clips = (
        Clip("mug/0", "mug", (absent,), duration=9.0), Clip("mug/1", "mug", (absent,), duration=9.0),
        Clip("mug/2", "mug", (Event(labels[0], 4.0),), duration=9.0),
        Clip("both/0", "both", (Event(labels[1], 6.0), Event(labels[0], 2.0)), duration=9.0, in_order=False),
    )  # fmt: skip
    tasks = {"mug": Task("mug", labels[:1]), "both": Task("both", labels[::-1])}
    benchmark = Clips("absent", tmp_path, tasks, clips)
    texts = ["Event 1: <absent> grasping the mug", "Event 1: <2.0> <3.0> grasping the mug"]
    texts += ["Event 1: <absent> grasping the mug", "Event 1: <6.0> <7.0> grasping the red cube\nEvent 2: <2.0> <3.0>"]
    rows = [
        {"clip": c.clip, "task": c.task, "model": "m", "fps": 8, "trial": 0, "text": t}
        for c, t in zip(clips, texts, strict=True)
    ]
    table = absence(rows, benchmark, resamples=50).set_index("score")
    assert table["value"].to_dict() == pytest.approx({"absent_recall": 0.5, "present_denied": 1 / 3, "absence_f1": 0.5})
    assert table["n"].tolist() == [2, 2, 2]
    scores = evaluate(rows, benchmark, resamples=50)
    assert scores.tasks == ("mug", "both")  # of mug, the one clip that has it
    assert scores.estimate("mae_s", "mug").value == pytest.approx(5.0)  # denied: a miss costs max(b, T - b)
    assert scores.estimate("mae_s", "both").value == pytest.approx(0.0)  # asked in another order, and right
    with pytest.raises(TempolocError, match="absent from its clip, and has no boundary"):
        _ = clips[0].boundaries
    with pytest.raises(TempolocError, match="no answer is about an event that is absent"):
        absence(rows[2:], benchmark)
