"""Logs of trials and of windows become one, event by event."""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path

import pytest

from tempoloc_nb.inference.segment import combine_logs, join_windows, log_agreement
from tempoloc_nb.scoring.logs import EventLog, LoggedEvent, settled
from tempoloc_nb.video.windows import Window


def log(*events: tuple[float, str], end: float | None = None) -> EventLog:
    return EventLog(settled(LoggedEvent(t, name) for t, name in events), (), end)


def times(found: EventLog) -> list[tuple[float, str]]:
    return [(e.time, e.numbered) for e in found.events]


def test_what_half_of_the_trials_have_stands_at_the_median() -> None:
    trials = [log((1.0, "grasping"), (4.0, "pouring"), end=6.0), log((1.2, "grasping"), end=6.4),
              log((1.3, "grasping"), (3.9, "pouring"), (5.0, "waving"), end=6.2), log((9.0, "grasping"))]  # fmt: skip
    found = combine_logs(trials)
    assert times(found) == [(1.2, "grasping"), (3.9, "pouring")]
    assert [(e.agreement, e.spread_s) for e in found.events] == [
        (0.75, pytest.approx(0.1)), (0.5, pytest.approx(0.05)),
    ]  # fmt: skip
    assert (found.status, found.end) == ("ok", 6.2)


def test_one_trial_is_its_own_log_without_a_share() -> None:
    one = log((1.0, "grasping"), (2.0, "grasping"))
    assert combine_logs([one]).events == one.events


def test_repeated_events_stay_apart_and_a_straggler_is_left() -> None:
    trials = [log((1.0, "grasping"), (3.0, "grasping")), log((1.1, "grasping"), (3.2, "grasping")),
              log((2.2, "grasping"), (3.1, "grasping"))]  # fmt: skip
    assert times(combine_logs(trials)) == [(1.0, "grasping"), (3.1, "grasping for the second time")]
    late = [log((2.0, "a")), log((2.9, "a")), log((3.0, "a")), log((3.05, "a")), log((3.1, "a"))]
    (event,) = combine_logs(late).events
    assert (event.time, event.agreement) == (3.0, 0.8)


def test_logs_that_cannot_be_read_count_as_trials_without_the_event() -> None:
    bad = EventLog(settled([LoggedEvent(1.0, "waving")]), status="malformed", faults=("'x' has no label",))
    good = log((1.0, "grasping"))
    found = combine_logs([good, bad, good])
    assert ([(e.time, e.agreement) for e in found.events], found.faults) == ([(1.0, pytest.approx(2 / 3))], bad.faults)
    most = combine_logs([good, bad, bad])
    assert (most.status, most.events, most.usable) == ("malformed", (), False)
    assert combine_logs([]).status == "missing"


def test_logs_with_little_in_common_tell_nothing() -> None:
    one, late = log((1.0, "grasping"), (4.0, "pouring")), log((1.2, "grasping"), (5.0, "pouring"))
    assert log_agreement([one, one]) == log_agreement([one]) == log_agreement([]) == 1
    assert log_agreement([one, late]) == 0.5  # the grasp alone is within a frame pair
    assert log_agreement([one, one, late]) == pytest.approx(2 / 3)  # of three pairs
    assert log_agreement([one, log()]) == log_agreement([log(), log()]) == 0  # that nothing happens is no agreement
    moved = EventLog((), settled([LoggedEvent(1.0, "arriving at the cup")]))
    assert log_agreement([log(), moved]) == log_agreement([moved, moved]) == log_agreement([late, moved]) == 0
    assert times(combine_logs([one, late], least=0.5)) == times(combine_logs([one, late]))
    unclear = combine_logs([one, late], least=0.6)
    assert (unclear.status, unclear.events, unclear.usable) == ("missing", (), False)
    assert "too little in common (alike: 50%, needed: 60%)" in unclear.faults[0]


def test_outcomes_follow_from_what_stands() -> None:
    whole = log((1.0, "grasping the cup"), (3.0, "releasing the cup"))
    cut = log((1.0, "grasping the cup"))
    assert combine_logs([whole, whole, cut]).events[0].outcome == "succeeded"
    assert combine_logs([whole, cut, cut]).events[0].outcome == "unknown"


def windows(*spans: tuple[float, float]) -> list[Window]:
    return [Window(Path("long.mp4"), *span) for span in spans]


def test_an_event_near_a_border_is_taken_once_from_where_it_is_more_inside() -> None:
    first = log((5.0, "a"), (20.8, "b"), (21.3, "c"), (23.9, "d"))
    second = log((18.1, "a"), (21.2, "b"), (20.9, "c"), (30.0, "e"))
    found = join_windows(windows((0, 24), (18, 42)), [first, second])
    # b: 20.8 and 21.2, mean 21.0: the second window decides; c: 21.3 and 20.9, mean 21.1: the second, too
    assert times(found) == [(5.0, "a"), (20.9, "c"), (21.2, "b"), (30.0, "e")]


def test_times_and_occurrences_are_those_of_the_whole() -> None:
    logs = [log((1.0, "grasping the cup")), log((30.0, "grasping the cup"), (31.0, "releasing the cup"))]
    found = join_windows(windows((0, 24), (18, 42)), logs)
    assert times(found)[1] == (30.0, "grasping the cup for the second time")
    assert [e.outcome for e in found.events] == ["unknown", "succeeded", "unknown"]


@pytest.mark.parametrize("seed", range(20))
def test_windows_of_a_true_log_give_the_log_however_they_overlap(seed: int) -> None:
    rng = random.Random(seed)
    length, step = 24.0, rng.uniform(8.0, 18.0)
    count = rng.randint(1, 8)
    spans = [(k * step, k * step + length) for k in range(count)]
    end = spans[-1][1]
    true = [(rng.uniform(0, end), rng.choice("abc")) for _ in range(40)]
    near = rng.uniform(0.0, 0.3)  # s: how far a window may put an event
    logs = [log(*((t + rng.uniform(-near, near), name) for t, name in true if a <= t < b)) for a, b in spans]
    if near * 2 < min((abs(t - u) for t, n in true for u, m in true if n == m and t != u), default=9.0):
        found = join_windows(windows(*spans), logs)
        assert len(found.events) == len(true)
        assert sorted(n for _, n in true) == sorted(e.label for e in found.events)
    exact = [log(*((t, name) for t, name in true if a <= t < b)) for a, b in spans]
    assert [e.time for e in join_windows(windows(*spans), exact).events] == sorted(t for t, _ in true)


def test_work_is_linear_in_the_number_of_windows() -> None:
    def calls(count: int) -> int:
        """Functions called, C's too: a clock would say how busy the machine is."""
        made = Counter[str]()
        spans = [(18.0 * k, 18.0 * k + 24.0) for k in range(count)]
        trials = [[log(*((a + 0.5 * j, f"event {j % 5}") for j in range(48))) for _ in range(3)] for a, _ in spans]
        before = sys.getprofile()
        sys.setprofile(lambda frame, event, arg: made.update([event]))
        try:
            join_windows(windows(*spans), [combine_logs(own) for own in trials])
        finally:
            sys.setprofile(before)
        return made["call"] + made["c_call"]

    assert 4 * calls(20) < calls(160) < 9 * calls(20)
