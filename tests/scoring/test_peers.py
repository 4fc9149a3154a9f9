"""Our figures against the field's: mir_eval's own code, and the formulas of MS-TCN, TimeLens and sed_eval.

The references are slow and obvious, written from the papers. They read the committed answers through the parser alone;
everything after it is theirs.
"""

from __future__ import annotations

import itertools
import json
import lzma
import math
from collections.abc import Iterator, Sequence
from typing import Any

import mir_eval
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tempoloc_nb.clips.manifest import Clip, load_benchmark
from tempoloc_nb.core.settings import data_dir
from tempoloc_nb.scoring.answers import Answer, answer_from_log, parse_answer
from tempoloc_nb.scoring.evaluation import Evaluation, evaluate
from tempoloc_nb.scoring.logs import read_log
from tempoloc_nb.scoring.metrics import (
    SLACK,
    edit_scores,
    edit_share,
    frames_right,
    matched,
    segment_counts,
    segment_starts,
)

SIM = load_benchmark("sim")
CLIPS = {c.clip: c for c in SIM.clips}
# Good logs, bad answers in words with events that nobody asked for, good ones with intervals, and logs without stamps.
RUNS = ("sft", "base", "former", "sft-none")
LOGS = ("sft", "sft-none")
COLLARS = (0.1, 0.25, 0.5)
OVERLAPS = ("miou", "R@0.3", "R@0.5", "R@0.7")


def trials_of(name: str) -> Iterator[tuple[Clip, Answer]]:
    """The committed trials of the first clips of each family, parsed."""
    with lzma.open(data_dir() / f"predictions/{name}.jsonl.xz", "rt") as lines:
        for row in map(json.loads, lines):
            if row["clip"][-3:] < "015":
                clip = CLIPS[row["clip"]]
                if row.get("form") == "log":
                    yield clip, answer_from_log(read_log(row["text"], clip.duration), clip.labels)
                else:
                    yield clip, parse_answer(row["text"], clip.labels, clip.duration)


@pytest.fixture(scope="module", params=RUNS)
def scored(request: Any, tmp_path_factory: Any) -> tuple[list[tuple[Clip, Answer]], Evaluation]:
    """Those trials, and our scores of the same lines."""
    path = tmp_path_factory.mktemp("peers") / "p.jsonl"
    with lzma.open(data_dir() / f"predictions/{request.param}.jsonl.xz", "rt") as lines:
        path.write_text("".join(line for line in lines if json.loads(line)["clip"][-3:] < "015"), encoding="utf-8")
    run = evaluate(path, SIM, resamples=2)
    return list(trials_of(request.param)), run


def of_task(trials: Sequence[tuple[Clip, Answer]], task: str) -> list[tuple[Clip, Answer]]:
    return [(c, a) for c, a in trials if c.task == task]


def boundaries(answer: Answer) -> list[float]:
    """What an answer gives for each event asked for (s), NaN where it cannot be used."""
    return [e.start if e.usable and e.start is not None else math.nan for e in answer.events]


# --- MS-TCN: labels of frames ---


def label_frames(asked: Sequence[float], invented: Sequence[float], frames: int, rate: float) -> list[str]:
    """The label of each frame: the subtask that ends next, or background. An event out of order has no subtask."""
    cuts, last = [], 0.0
    for i, b in enumerate(asked):
        if b > last:
            cuts.append((b, f"event {i}"))
            last = b
    cuts += [(b, f"invented {i}") for i, b in enumerate(invented)]
    cuts.sort(key=lambda cut: (cut[0], cut[1][0]))  # of two at one instant, the asked one
    places = np.searchsorted([b - 1e-9 for b, _ in cuts], np.arange(frames) / rate, side="right")
    names = [*(name for _, name in cuts), "background"]
    return [names[i] for i in places]


def runs_of(frames: Sequence[str]) -> list[tuple[str, int, int]]:
    """Label, first frame and end of each stretch of one label, without background."""
    found, at = [], 0
    for label, group in itertools.groupby(frames):
        n = len(list(group))
        found += [] if label == "background" else [(label, at, at + n)]
        at += n
    return found


def ms_tcn_counts(predicted: Sequence[str], truth: Sequence[str], overlap: float) -> tuple[int, int, int]:
    """TP, FP and FN: each predicted segment takes the best true one of its label, once."""
    true, taken = runs_of(truth), set()
    tp = fp = 0
    for label, start, end in runs_of(predicted):
        ious = [
            (min(end, e) - max(start, s)) / (max(end, e) - min(start, s)) if own == label else 0.0 for own, s, e in true
        ]
        best = int(np.argmax(ious))
        if ious[best] >= overlap and best not in taken:
            tp += 1
            taken.add(best)
        else:
            fp += 1
    return tp, fp, len(true) - len(taken)


def levenshtein_share(a: Sequence[str], b: Sequence[str]) -> float:
    """1 − Levenshtein distance of two lists of labels over the longer one's length, as MS-TCN's `levenstein` has it."""
    table = [[i + j if not i * j else 0 for j in range(len(b) + 1)] for i in range(len(a) + 1)]
    for i, j in itertools.product(range(1, len(a) + 1), range(1, len(b) + 1)):
        changed = table[i - 1][j - 1] + (a[i - 1] != b[j - 1])
        table[i][j] = min(table[i - 1][j] + 1, table[i][j - 1] + 1, changed)
    return 1 - table[-1][-1] / max(len(a), len(b), 1)


def ms_tcn_edit(predicted: Sequence[str], truth: Sequence[str]) -> float:
    """The edit score of the segments' labels."""
    return levenshtein_share(*([label for label, _, _ in runs_of(own)] for own in (predicted, truth)))


whole_frames = st.integers(0, 60) | st.just(None)


@settings(max_examples=400, deadline=None)
@given(
    st.lists(whole_frames, min_size=3, max_size=3),
    st.lists(st.integers(1, 60), max_size=4, unique=True),
    st.lists(st.integers(1, 55), min_size=3, max_size=3, unique=True).map(sorted),
    st.sampled_from([10.0, 25.0, 50.0]),
)
def test_segments_are_ms_tcns(
    predicted: list[int | None], invented: list[int], truth: list[int], overlap: float
) -> None:
    given_at = np.array([[math.nan if p is None else float(p) for p in predicted]])
    others, true = np.array([invented], dtype=float).reshape(1, -1), np.array([truth], dtype=float)
    theirs = label_frames(given_at[0].tolist(), invented, 60, 1.0), label_frames(truth, [], 60, 1.0)
    starts, also = segment_starts(given_at, others)
    found = tuple(int(n[0]) for n in segment_counts(starts, given_at, also, true, overlap))
    assert found == ms_tcn_counts(*theirs, overlap / 100)
    assert math.isclose(edit_scores(given_at, starts, others, also, true)[0], ms_tcn_edit(*theirs))
    right = frames_right(starts, given_at, also, others, true, np.array([60.0]), np.array([[1.0]]))
    assert right[0] == sum(a == b for a, b in zip(*theirs, strict=True))


def test_committed_answers_have_ms_tcns_scores(scored: tuple[list[tuple[Clip, Answer]], Evaluation]) -> None:
    """All of a run have as many trials, so sums over trials and over demonstrations' means are the same ratios."""
    trials, run = scored
    for task in run.tasks:
        counts, edits, right, total = {k: np.zeros(3) for k in (10, 25, 50)}, [], 0, 0
        for clip, answer in of_task(trials, task):
            rate, length = clip.fps or 0.0, clip.duration or 0.0
            answers = boundaries(answer), answer.invented
            fine = [label_frames(*cuts, round(length * 1000), 1000) for cuts in (answers, (clip.boundaries, ()))]
            edits.append(ms_tcn_edit(*fine))
            for k, n in counts.items():
                n += ms_tcn_counts(*fine, k / 100)
            frames = round(length * rate)
            coarse = [label_frames(*cuts, frames, rate) for cuts in (answers, (clip.boundaries, ()))]
            right, total = right + sum(a == b for a, b in zip(*coarse, strict=True)), total + frames
        for k, (tp, fp, fn) in counts.items():
            assert run.estimate(f"F1@{k}", task).value == pytest.approx(2 * tp / (2 * tp + fp + fn))
        assert run.estimate("edit", task).value == pytest.approx(np.mean(edits))
        assert run.estimate("frame_accuracy", task).value == pytest.approx(right / total)


# --- boundaries without labels ---


def sed_eval_pairs(truth: Sequence[float], given_at: Sequence[float], collar: float) -> int:
    """sed_eval's optimal matching: the most pairs within a collar, by augmenting paths."""
    near = [[j for j, p in enumerate(given_at) if abs(p - t) <= collar + SLACK] for t in truth]
    owner: dict[int, int] = {}

    def place(i: int, seen: set[int]) -> bool:
        for j in near[i]:
            if j not in seen:
                seen.add(j)
                if j not in owner or place(owner[j], seen):
                    owner[j] = i
                    return True
        return False

    return sum(place(i, set()) for i in range(len(truth)))


times = st.floats(0, 6).map(lambda t: round(t, 1))


@settings(max_examples=300, deadline=None)
@given(st.lists(times, max_size=6), st.lists(times, min_size=1, max_size=4), st.sampled_from(COLLARS))
def test_matching_is_mir_evals_and_sed_evals(given_at: list[float], truth: list[float], collar: float) -> None:
    found = matched(np.array([given_at], dtype=float).reshape(1, -1), np.array([truth]), collar)[0]
    assert found == sed_eval_pairs(truth, given_at, collar)
    onsets = np.array(sorted(truth)), np.array(sorted(given_at), dtype=float)
    _, precision, recall = mir_eval.onset.f_measure(*onsets, window=collar + SLACK)
    assert (found / max(len(given_at), 1), found / len(truth)) == (precision, recall)


def test_committed_answers_have_mir_evals_boundaries(scored: tuple[list[tuple[Clip, Answer]], Evaluation]) -> None:
    trials, run = scored
    for task, collar in itertools.product(run.tasks, COLLARS):
        hits = given_sum = true_sum = 0.0
        for clip, answer in of_task(trials, task):
            given_at = np.sort([b for b in [*boundaries(answer), *answer.invented] if not math.isnan(b)])
            _, _, recall = mir_eval.onset.f_measure(np.array(clip.boundaries), given_at, window=collar + SLACK)
            hits += recall * len(clip.boundaries)
            given_sum, true_sum = given_sum + len(given_at), true_sum + len(clip.boundaries)
        parts = {"precision": (hits, given_sum), "recall": (hits, true_sum), "f1": (2 * hits, given_sum + true_sum)}
        for name, (a, b) in parts.items():
            found = run.estimate(f"boundary_{name}@{collar:g}s", task).value
            assert (found is None) if b == 0 else found == pytest.approx(a / b)


def test_what_a_log_tells_beside_what_was_asked_is_not_invented(
    scored: tuple[list[tuple[Clip, Answer]], Evaluation], request: pytest.FixtureRequest
) -> None:
    """Peers and scores above count no such event; of answers in words they count each."""
    trials, run = scored
    name = request.node.callspec.params["scored"]
    assert any(answer.invented for _, answer in trials) == (name == "base")
    extra = {task: bool(run.estimate("extra_events", task).value) for task in run.tasks}
    assert extra == {task: any(answer.extra for _, answer in of_task(trials, task)) for task in run.tasks}
    assert any(extra.values()) == (name == "base")
    if name in LOGS:
        with lzma.open(data_dir() / f"predictions/{name}.jsonl.xz", "rt") as lines:
            logs = [(CLIPS[row["clip"]], read_log(row["text"])) for row in map(json.loads, lines)]
        assert any(len(log.events) > len(clip.events) for clip, log in logs)


# --- TimeLens: overlap of intervals ---


def test_committed_answers_have_timelens_overlaps(
    scored: tuple[list[tuple[Clip, Answer]], Evaluation], request: pytest.FixtureRequest
) -> None:
    """mIoU and R1@m of its evaluation: intersection over union, 0 for an answer that cannot be read or is reversed.

    A log tells moments alone: of intervals it says nothing, and has none of these scores.
    """
    trials, run = scored
    logs = request.node.callspec.params["scored"] in LOGS
    first = run.of_task(run.tasks[0]).table.query("score == 'miou' and event != ''")
    assert first["value"].isna().tolist() == [logs, logs, True]
    assert all(e.end is None for _, answer in trials for e in answer.events) == logs
    if logs:
        assert all(run.estimate(s, task).value is None for s in OVERLAPS for task in (*run.tasks, ""))
        return
    for task in run.tasks:
        ious: list[list[float]] = [[] for _ in CLIPS[trials[0][0].clip].events]
        for clip, answer in of_task(trials, task):
            for i, (e, true) in enumerate(zip(answer.events, clip.events[:-1], strict=False)):
                assert true.start is not None
                assert true.end == clip.events[i + 1].boundary  # the last one ends at no event: it is not compared
                iou = 0.0
                if e.usable and e.start is not None and e.end is not None and e.start <= e.end:
                    inter = max(0.0, min(e.end, true.end) - max(e.start, true.start))
                    iou = inter / (e.end - e.start + true.end - true.start - inter)
                ious[i].append(iou)
        closed = [np.array(own) for own in ious if own]
        assert run.estimate("miou", task).value == pytest.approx(np.mean([own.mean() for own in closed]))
        for m in (0.3, 0.5, 0.7):
            assert run.estimate(f"R@{m:g}", task).value == pytest.approx(np.mean([(own >= m).mean() for own in closed]))


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=9), st.lists(st.sampled_from("abc"), max_size=9))
@settings(max_examples=300, deadline=None)
def test_the_edit_score_of_free_lists_is_ms_tcns(found: list[str], truth: list[str]) -> None:
    assert edit_share(found, truth) == levenshtein_share(found, truth)


def test_the_edit_score_of_two_empty_lists_is_whole() -> None:
    assert (edit_share([], []), edit_share([], ["a"])) == (1.0, 0.0)
