"""Names and outcomes in study 18: what is right is counted once, on the events that it is about, against habits."""

from __future__ import annotations

import numpy as np
import pytest
from study_cells import study_functions

from tempoloc_nb.inference.cuts import Cut
from tempoloc_nb.inference.signals import signal_at
from tempoloc_nb.scoring.logs import LoggedEvent, log_of

PAGE = study_functions("18")
TRUTH = [
    (1.0, "grasping the can"), (2.0, "releasing the can"), (4.0, "grasping the milk carton"),
    (5.0, "releasing the milk carton"),
]  # fmt: skip
LOG = log_of(
    [(1.1, "grasping the can"), (2.1, "inserting the can"), (4.4, "grasping the milk carton"), (8.0, "pushing the can")]
).events


@pytest.mark.parametrize(
    ("cell", "wanted"),
    [
        # two cuts are near, one verb and both objects right; within 1 s a second name; one is right in time and name
        (None, (2, 1, 2, 1, 2, 4, 1, 8)),
        ({"grasping the can"}, (1, 1, 1, 1, 1, 1, 1, 8)),
        ({"grasping the milk carton"}, (0, 0, 0, 0, 1, 1, 1, 8)),
    ],
)
def test_names_are_counted_on_matched_cuts_of_a_cell(cell: set[str] | None, wanted: tuple[int, ...]) -> None:
    assert PAGE.name_counts(LOG, TRUTH, cell) == wanted


def test_habits_know_the_other_clips_alone() -> None:
    """A clip's own names are not among those that its cuts get."""
    others = [(1.0, "grasping the bottle"), (2.0, "releasing the bottle")]
    cuts = {name: [Cut(1.0, "close", 1.0), Cut(2.0, "open", 1.0), Cut(3.0, "close", 1.0)] for name in "abc"}
    for named in PAGE.named_by_others(cuts, {"a": TRUTH, "b": others, "c": others}):
        assert [e.label for e in named["a"]] == ["grasping the bottle", "releasing the bottle", "grasping the bottle"]
    usual, ordered = PAGE.named_by_others(cuts, {"a": others, "b": TRUTH, "c": TRUTH})
    assert [e.label for e in usual["a"]] == ["grasping the can", "releasing the can", "grasping the can"]
    assert [e.label for e in ordered["a"]] == ["grasping the can", "releasing the can", "grasping the milk carton"]


def test_a_log_names_the_cuts_near_its_events_and_no_others() -> None:
    named = PAGE.named_by_log([Cut(1.0, "close", 1.0), Cut(6.5, "open", 1.0)], LOG)
    assert [e.label for e in named] == ["grasping the can", "open"]


def test_closings_on_air_are_told_from_grasps_and_pushes() -> None:
    """The hand closes on a can, on air, and to push; in the first 0.1 s it does what it likes."""
    opening = np.interp(np.arange(300) / 30, [0, 0.1, 1, 1.2, 2, 2.2, 4, 4.2, 4.6, 4.8, 7, 7.2, 9, 9.2],
                        [0.7, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1])  # fmt: skip
    own = [(1.2, "grasping the can"), (2.0, "releasing the can"), (8.0, "pushing the can")]
    tries = [*PAGE.closings(signal_at(opening, 30.0), own)]
    assert [(round(t), on) for t, on in tries] == [(1, True), (4, False)]
    said = log_of([(1.2, "grasping the can"), (4.2, "missing the can")]).events
    assert PAGE.attempt_counts(said, tries) == [1, 1, 1, 1, 1, 1]
    assert PAGE.attempt_counts([LoggedEvent(4.2, "grasping")], tries) == [1, 0, 1, 0, 0, 1]
