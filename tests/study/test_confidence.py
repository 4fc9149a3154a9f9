"""Doubt: how well it ranks, what agreement is worth, and what the shipped answers and videos of nothing come to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from study_cells import study_functions

from tempoloc_nb.clips.manifest import Clip, load_benchmark
from tempoloc_nb.core.settings import data_dir
from tempoloc_nb.inference.consensus import CombinedEvent, combine_trials
from tempoloc_nb.study.questions import event_lines

TRUST = study_functions("14")
WHICH = load_benchmark("which")


def asked(kind: str) -> Clip:
    """The first question of a kind."""
    return next(c for c in WHICH.clips if c.extra["kind"] == kind)


# --- answers, right or wrong ---


def said(boundary: float | None, agree: float = 1.0, absent: bool = False) -> CombinedEvent:
    return CombinedEvent("", boundary, None, None, agree, 5, absent)


def right(kind: str, event: CombinedEvent) -> bool:
    (line,) = event_lines({asked(kind).clip: [event]}, WHICH)["right"]
    return bool(line)


def test_a_time_is_right_within_a_frame_pair_and_a_missing_or_denied_event_is_wrong() -> None:
    (time,) = asked("alone").source_boundaries
    assert [right("alone", said(time + by)) for by in (-0.25, 0.0, 0.25, 0.26, -0.26)] == [True] * 3 + [False] * 2
    assert not right("alone", said(None, 0.0))
    assert not right("alone", said(None, absent=True))


@pytest.mark.parametrize("kind", ["untouched", "elsewhere", "verb"])
def test_a_time_of_an_absent_event_is_wrong(kind: str) -> None:
    assert right(kind, said(None, absent=True))
    assert not right(kind, said(1.0))
    assert not right(kind, said(None, 0.0))  # it says nothing of it


def test_a_line_says_what_the_answer_and_the_truth_are() -> None:
    alone, verb = asked("alone"), asked("verb")
    answers = {verb.clip: [said(2.0, 0.6)], alone.clip: [said(None, 0.8, absent=True)]}
    lines = event_lines(answers, WHICH).set_index("kind")
    assert lines["label"].to_dict() == {"alone": alone.labels[0], "verb": verb.labels[0]}
    assert lines["shown"].to_dict() == {"alone": alone.extra["shown"], "verb": verb.extra["shown"]}
    assert lines.loc["alone", ["absent", "denied", "agree", "right"]].tolist() == [False, True, 0.8, False]
    assert lines.loc["verb", ["absent", "denied", "agree", "right"]].tolist() == [True, False, 0.6, False]


def test_shipped_answers_are_one_line_an_event_of_the_trials_chosen() -> None:
    files = [data_dir() / "predictions" / f"{name}.jsonl.xz" for name in ("which", "which-seed1", "which-seed2")]
    lines, first = TRUST.answers_to(files[:1], WHICH), TRUST.answers_to(files[:1], WHICH, 1)
    assert len(lines) == len(first) == sum(len(c.events) for c in WHICH.clips)
    assert {0.6, 0.8, 1.0} <= set(lines["agree"]) <= {k / 5 for k in range(6)}  # of five crops
    assert set(first["agree"]) == {1.0}  # of one answer
    assert lines["doubt"].tolist() == (1 - lines["agree"]).tolist()
    assert lines.groupby("shown")["differ"].nunique().max() == 1  # of the whole clip
    assert set(first["differ"]) == {0.0}  # one log is like itself
    three = TRUST.answers_to(files, WHICH, 1)
    assert {2 / 3, 1.0} <= set(three["agree"]) <= {k / 3 for k in range(4)}


# --- how well doubt ranks ---


def table(*lines: tuple[str, float, bool]) -> pd.DataFrame:
    found = pd.DataFrame(lines, columns=["shown", "agree", "right"])
    return found.assign(doubt=1 - found["agree"])


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.2, 0.5, np.inf]), st.booleans()), min_size=1, max_size=12))
def test_auroc_is_the_share_of_pairs(pairs: list[tuple[float, bool]]) -> None:
    doubt, wrong = np.array([d for d, _ in pairs]), np.array([w for _, w in pairs])
    each = [(a > b) + (a == b) / 2 for a in doubt[wrong] for b in doubt[~wrong]]
    assert TRUST.auroc(doubt, wrong) == pytest.approx(np.mean(each) if each else np.nan, nan_ok=True)


def test_an_auroc_is_of_all_videos_and_its_interval_is_drawn_from_them() -> None:
    """Doubt is right in one video and says nothing in the other: the pairs are of both, the draws one, both or each."""
    good = [("a", 1.0, True), ("a", 0.2, False)]
    poor = [("b", 0.6, True), ("b", 0.6, False)]
    found = TRUST.drawn_auroc(table(*good, *poor), 200)
    assert found.value == pytest.approx(3.5 / 4)
    assert (found.low, found.high) == (pytest.approx(0.5), pytest.approx(1.0))
    assert TRUST.drawn_auroc(table(*good, ("b", 1.0, True), ("b", 0.4, False)), 50).value == 1.0
    backwards = TRUST.drawn_auroc(table(("a", 0.2, True), ("a", 1.0, False), ("b", 0.2, True), ("b", 1.0, False)), 50)
    assert (backwards.value, backwards.low, backwards.high) == (0.0, 0.0, 0.0)


def test_the_gain_of_a_second_doubt_is_paired() -> None:
    """Trials that agree about all hide what is wrong; the logs of its clip differ."""
    lines = table(*[(clip, 1.0, clip > "b") for clip in "abcdef"]).assign(differ=[0.5, 0.4, 0.0, 0.0, 0.0, 0.4])
    (row,) = TRUST.doubt_table({"here": lines}, 50).to_dict("records")
    assert (row["answers"], row["events"], row["wrong"]) == ("here", 6, 2)
    assert (row["trials"], row["logs"], row["both"]) == (0.5, pytest.approx(7.5 / 8), pytest.approx(7.5 / 8))
    assert row["gain"] == pytest.approx(row["both"] - row["trials"])
    assert row["gain_low"] <= row["gain"] <= row["gain_high"]


def test_an_auroc_without_a_wrong_answer_is_not_told() -> None:
    found = TRUST.drawn_auroc(table(("a", 1.0, True), ("b", 0.6, True)), 20)
    assert (found.value, found.low, found.high) == (None, None, None)


# --- what agreement is worth ---


def test_isotonic_regression_pools_what_falls() -> None:
    agree = np.array([0.2, 0.2, 0.4, 0.4, 0.6, 0.8, 0.8])
    levels, shares = TRUST.isotonic(agree, np.array([False, False, True, False, False, True, True]))
    assert levels.tolist() == [0.2, 0.4, 0.6, 0.8]
    assert shares == pytest.approx([0.0, 1 / 3, 1 / 3, 1.0])


@given(st.lists(st.tuples(st.sampled_from([0.2, 0.4, 0.6, 0.8, 1.0]), st.booleans()), min_size=1, max_size=30))
def test_isotonic_regression_rises_and_keeps_the_mean(pairs: list[tuple[float, bool]]) -> None:
    agree, hits = np.array([a for a, _ in pairs]), np.array([r for _, r in pairs])
    levels, shares = TRUST.isotonic(agree, hits)
    assert (np.diff(shares) >= -1e-12).all()
    assert np.interp(agree, levels, shares).mean() == pytest.approx(hits.mean())


def test_miscalibration_is_the_distance_weighted_by_answers() -> None:
    shown, hits = np.array([1.0, 1.0, 1.0, 0.2]), np.array([True, False, False, False])
    assert TRUST.miscalibration(shown, hits) == pytest.approx((3 * (1 - 1 / 3) + 0.2) / 4)


# --- out of scope ---

LOG = "1.00 grasping the can 1.00\n2.00 releasing the can 2.00\n3.00 end\n</think>"
OTHER = "1.00 grasping the can 1.00\n2.60 releasing the can 2.60\n3.00 end\n</think>"
CUT = "1.00 grasping the can 1.00"


def alike(*texts: str) -> dict[str, Any]:
    """What the logs of a clip's trials have in common, by the study."""
    clip = asked("alone")
    rows = [{"clip": clip.clip, "model": "m", "trial": t, "text": text} for t, text in enumerate(texts)]
    found: dict[str, Any] = TRUST.alike(rows, WHICH)
    assert list(found) == [clip.extra["shown"]]
    return found


def test_what_logs_have_in_common_is_the_mean_over_pairs_and_nothing_where_most_are_unreadable() -> None:
    assert list(alike(LOG, LOG, LOG).values()) == [1.0]
    assert list(alike(LOG, OTHER).values()) == [0.5]
    assert list(alike(LOG, LOG, OTHER).values()) == [pytest.approx((1 + 0.5 + 0.5) / 3)]
    assert list(alike(LOG, LOG, CUT).values()) == [1.0]
    assert list(alike(LOG, CUT, CUT).values()) == [0.0]


def test_the_table_counts_the_clips_below_the_limit() -> None:
    found = {"near": {"a": 0.9, "b": 0.6, "c": 0.7}, "far": {"a": 0.1, "b": 0.59, "c": 0.2, "d": 0.3}}
    lines = TRUST.alike_table(found, 0.6).set_index("clips of")
    assert lines.loc["near", ["clips", "least", "median", "below"]].tolist() == [3, 0.6, 0.7, 0]
    assert lines.loc["far", ["clips", "least", "median", "below"]].tolist() == [4, 0.1, 0.25, 4]
    assert lines.loc["near", "5th percentile"] == pytest.approx(0.61)


# --- nonsense ---


def test_nonsense_is_of_the_clips_size_and_has_none_of_its_motion() -> None:
    images = np.random.default_rng(1).integers(0, 256, (5, 8, 6, 3), dtype=np.uint8)
    made = TRUST.nonsense(images)
    assert list(made) == ["still", "one frame repeated", "noise", "black", "upside down"]
    assert {(each.shape, each.dtype) for each in made.values()} == {(images.shape, images.dtype)}
    assert (made["still"] == images[0]).all()
    assert (made["one frame repeated"] == images[2]).all()
    assert not made["black"].any()
    assert (made["upside down"][:, ::-1] == images).all()
    assert np.abs(np.diff(made["noise"].astype(int), axis=0)).mean() > 50


def test_what_becomes_of_nonsense_is_told_by_kind_and_over_all() -> None:
    lines = pd.DataFrame(
        [("still", "ok", 0.4), ("still", "absent", 0.9), ("noise", "missing", 0.0), ("noise", "ok", 0.2)],
        columns=["video", "status", "confidence"],
    )
    found = TRUST.nonsense_table(lines).set_index("video")
    assert found.loc["still"].tolist() == [2, 50.0, 50.0, 40.0]
    assert found.loc["noise"].tolist() == [2, 50.0, 0.0, 20.0]
    assert found.loc["all of them"].tolist() == pytest.approx([4, 50.0, 25.0, 30.0])


def test_the_clips_that_nonsense_is_made_of_are_there_and_are_answered_well() -> None:
    """So what is said of nonsense is not what is said of any clip."""
    clips = [c for c in WHICH.with_videos() if c.extra["kind"] == "all"]
    assert clips
    part = replace(WHICH, clips=tuple(clips))
    rows = TRUST.read_rows(TRUST.data_dir() / "predictions" / "which.jsonl.xz")
    mine = [row for row in rows if row["clip"] in {c.clip for c in clips}]
    lines = event_lines({a.clip: a.events for a in combine_trials(mine, part)}, part)
    assert lines["right"].mean() > 0.8
