"""Doubt: what it is, how well it ranks, and a limit that is chosen on one benchmark and tried on another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from study_cells import study_functions

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.inference.consensus import Combined, CombinedEvent

TRUST = study_functions("14")
SIM = load_benchmark("sim")
FOUR = replace(SIM, clips=SIM.of_task("stack-three")[:4])


def answers(errors: list[float], spreads: list[float]) -> list[Combined]:
    found = []
    for clip, by, spread in zip(FOUR.clips, errors, spreads, strict=True):
        events = tuple(
            CombinedEvent(label, t + by, None, spread, 1.0, 3)
            for label, t in zip(clip.labels, clip.source_boundaries, strict=True)
        )
        found.append(Combined(clip.clip, clip.task, "m", 8.0, "start", 3, events))
    return found


def test_a_limit_from_one_benchmark_is_tried_on_another() -> None:
    chosen = {
        "one": answers([0.0, 0.0, 0.0, 1.0], [0.1, 0.2, 0.3, 0.0]),
        "three": answers([0, 0, 0, 1], [0, 0.2, 0.1, 1]),
    }
    tried = {"one": answers([0.0] * 4, [0.0] * 4), "three": answers([0.0, 0.0, 1.0, 1.0], [0.1, 0.3, 0.2, 0.9])}
    table = TRUST.kept_table((chosen, FOUR), (tried, FOUR), 0.8, whole=True).set_index("disagreement")
    assert table.loc["one", ["kept_pct", "right_pct"]].tolist() == [0.0, 100.0]  # no limit keeps the promise
    assert table["limit_s"].isna().tolist() == [True, False]
    assert table.loc["three", ["limit_s", "kept_pct", "kept_right_pct"]].tolist() == [0.2, 50.0, 50.0]


def test_how_much_more_is_told_on_the_same_clips() -> None:
    kinds = {"one": answers([0, 1, 0, 1], [0.3, 0.1, 0.2, 0.4]), "three": answers([0, 1, 0, 1], [0.1, 0.3, 0.2, 0.4])}
    table = TRUST.auroc_table(kinds, FOUR, 40)
    assert table["auroc"].tolist() == [0.5, 1.0]
    assert table["more"].tolist() == [pytest.approx(float("nan"), nan_ok=True), 0.5]
    assert 0 <= table["more_low"][1] <= 0.5 <= table["more_high"][1] <= 1


CLIP = SIM.clips[0]


def answer(spreads: list[float | None], errors: list[float]) -> Combined:
    events = tuple(
        CombinedEvent(label, None if s is None else t + by, None, s, 1.0, 3)
        for label, t, s, by in zip(CLIP.labels, CLIP.source_boundaries, spreads, errors, strict=True)
    )
    return Combined(CLIP.clip, CLIP.task, "m", 8.0, "start", 3, events)


def test_a_missing_event_is_wrong_and_most_doubtful() -> None:
    answers = [answer([0.1, None, 0.3], [0.25, 0.0, 0.26])]
    (doubt, wrong), *rest = TRUST.doubts(answers, SIM).values()
    assert not rest
    assert doubt.tolist() == [0.1, np.inf, 0.3]
    assert wrong.tolist() == [False, True, True]
    (doubt, wrong), *_ = TRUST.doubts([answer([0.1, 0.0, 0.3], [0.0, 0.3, 0.0])], SIM, whole=True).values()
    assert (doubt.tolist(), wrong.tolist()) == ([0.3], [True])
    blank = replace(SIM, clips=tuple(replace(c, events=tuple(replace(e, boundary=None) for e in c.events))
                                     for c in SIM.clips[:1]))  # fmt: skip
    assert TRUST.doubts(answers, blank) == {}


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.2, 0.5, np.inf]), st.booleans()), min_size=1, max_size=12))
def test_auroc_is_the_share_of_pairs(pairs: list[tuple[float, bool]]) -> None:
    doubt, wrong = np.array([d for d, _ in pairs]), np.array([w for _, w in pairs])
    each = [(a > b) + (a == b) / 2 for a in doubt[wrong] for b in doubt[~wrong]]
    assert TRUST.auroc(doubt, wrong) == pytest.approx(np.mean(each) if each else np.nan, nan_ok=True)


def test_the_limit_keeps_its_promise_where_it_was_chosen() -> None:
    doubt, wrong = np.array([0.0, 0.0, 0.1, 0.1, 0.4, np.inf]), np.array([False, False, True, False, False, True])
    assert TRUST.most_doubt(doubt, wrong, 1.0) == 0.0
    assert TRUST.most_doubt(doubt, wrong, 0.8) == 0.4
    assert TRUST.most_doubt(doubt, ~wrong, 0.9) == -np.inf
    assert TRUST.most_doubt(np.array([np.inf]), np.array([True]), 0.0) == -np.inf
    assert TRUST.most_doubt(np.array([0.1, 0.2, 0.2, 0.9]), np.array([False, False, True, True]), 0.6) == 0.2
    assert TRUST.auroc(np.array([0.1, 0.2, 0.2, 0.9]), np.array([False, False, True, True])) == 3.5 / 4


def test_an_auroc_of_fewer_than_five_wrong_events_is_not_told() -> None:
    few = {"one": answers([0, 1, 0, 0], [0.1, 0.3, 0.2, 0.4]), "three": answers([0, 1, 0, 1], [0.1, 0.3, 0.2, 0.4])}
    table = TRUST.auroc_table(few, FOUR, 20).set_index("disagreement")
    assert np.isnan(table.loc["one", ["auroc", "low", "high"]].to_numpy(float)).all()
    assert table.loc["three", "auroc"] > 0.5
    assert np.isnan(table.loc["three", "more"])


def test_isotonic_regression_pools_what_falls() -> None:
    agree = np.array([0.2, 0.2, 0.4, 0.4, 0.6, 0.8, 0.8])
    levels, shares = TRUST.isotonic(agree, np.array([False, False, True, False, False, True, True]))
    assert levels.tolist() == [0.2, 0.4, 0.6, 0.8]
    assert shares == pytest.approx([0.0, 1 / 3, 1 / 3, 1.0])


@given(st.lists(st.tuples(st.sampled_from([0.2, 0.4, 0.6, 0.8, 1.0]), st.booleans()), min_size=1, max_size=30))
def test_isotonic_regression_rises_and_keeps_the_mean(pairs: list[tuple[float, bool]]) -> None:
    agree, right = np.array([a for a, _ in pairs]), np.array([r for _, r in pairs])
    levels, shares = TRUST.isotonic(agree, right)
    assert (np.diff(shares) >= -1e-12).all()
    assert np.interp(agree, levels, shares).mean() == pytest.approx(right.mean())


def test_a_time_of_an_absent_event_is_wrong() -> None:
    which = load_benchmark("which")
    absent = next(c for c in which.clips if c.extra["kind"] == "untouched")
    alone = next(c for c in which.clips if c.extra["kind"] == "alone")
    numbers = {"confidence": [1.0], "spread_s": [0.0]}
    rows = [{"clip": absent.clip, "boundary_s": [1.0], **numbers},
            {"clip": alone.clip, "boundary_s": [alone.boundaries[0] + 0.2], **numbers},
            {"clip": alone.clip, "boundary_s": [None], **numbers}]  # fmt: skip
    times = TRUST.time_table(rows, which)
    assert times["given"].tolist() == [True, True, False]
    assert times["right"].tolist() == [False, True, False]


def test_miscalibration_is_the_distance_weighted_by_times() -> None:
    shown, right = np.array([1.0, 1.0, 1.0, 0.2]), np.array([True, False, False, False])
    assert TRUST.miscalibration(shown, right) == pytest.approx((3 * (1 - 1 / 3) + 0.2) / 4)
