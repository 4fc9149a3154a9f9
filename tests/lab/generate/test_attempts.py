"""Failed attempts in sources: which closings they are, and what is left when they are cut."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.inference.signals import signal_at
from tempoloc_nb.lab.generate.attempts import cut_attempts, find_attempts, treat_attempts
from tempoloc_nb.lab.generate.scenes import action_to_pose
from tempoloc_nb.lab.generate.sources import Source
from tempoloc_nb.lab.generate.trials import Setting, run_trials

TASK = "stack-three"  # grasp, release, grasp, and a last subtask that ends with the demonstration


def source(*shut: tuple[int, int], steps: int = 200, times: tuple[float, ...] = (3.2, 4.6, 6.2)) -> Source:
    """The hand is closed in these steps, low while it is about to close, and 20 cm higher half-way between."""
    closed = np.zeros(steps, dtype=bool)
    low = [0]
    for first, last in shut:
        closed[first:last] = True
        low += [first, last]
    places = sorted({*low, *[(a + b) // 2 for a, b in pairwise(low)], steps - 1})
    height = np.interp(np.arange(steps), places, [0.0 if p in low and p else 0.2 for p in places])
    hand = np.tile(np.eye(4), (steps, 1, 1))
    hand[:, 0, 3], hand[:, 2, 3] = np.linspace(0, 0.5, steps), height
    thing = np.tile(np.eye(4), (steps, 1, 1))
    thing[:, 1, 3] = np.arange(steps)  # says which step a pose is from
    actions = np.c_[np.zeros((steps, 6)), np.where(closed, 1.0, -1.0)]
    target = hand.copy()
    target[:, 0, 3] += 0.02  # it leads
    return Source("s", actions, hand, target, {"cubeA": thing}, times, signal_at(np.where(closed, 0, 1), 20.0))


WHOLE = source((60, 90), (120, 150))
FAILED = source((20, 30), (60, 90), (120, 150))


def test_closings_that_end_no_subtask_are_attempts() -> None:
    assert find_attempts(WHOLE, WHOLE.boundaries, TASK) == ()
    (found,) = find_attempts(FAILED, FAILED.boundaries, TASK)
    assert (found.subtask, found.shut, found.opened, found.counts) == (0, 20, 30, 60)
    early = tuple(t - 0.4 for t in FAILED.boundaries)  # a model's boundaries, before the hand closes
    assert find_attempts(FAILED, early, TASK) == (found,)


def test_a_hand_that_never_opens_again_failed_at_nothing() -> None:
    assert find_attempts(source((60, 90), (120, 150), (190, 200)), WHOLE.boundaries, TASK) == ()


def test_what_is_cut_has_no_attempt_and_goes_on_smoothly() -> None:
    short, times = cut_attempts(FAILED, FAILED.boundaries, TASK) or (None, ())
    assert short is not None
    assert times == short.boundaries
    assert find_attempts(short, times, TASK) == ()
    gone = (len(FAILED.actions) - len(short.actions)) / 20.0
    assert gone > 1
    assert times == pytest.approx([t - gone for t in FAILED.boundaries])
    for poses, own in ((short.hand, FAILED.hand), (short.target, FAILED.target)):
        steps, before = (np.linalg.norm(np.diff(p[:, :3, 3], axis=0), axis=1).max() for p in (poses, own))
        assert steps <= max(before, 0.25 / 20) + 1e-9
    kept = len(FAILED.actions) - round(times[0] * 20 + gone * 20)
    assert np.array_equal(short.hand[-kept:], FAILED.hand[-kept:])  # what follows is as it was
    lengths = {len(a) for a in (short.actions, short.hand, short.target, short.things["cubeA"], short.opening.opening)}
    assert len(lengths) == 1


def test_objects_stand_where_the_attempt_left_them() -> None:
    short, _ = cut_attempts(FAILED, FAILED.boundaries, TASK) or (FAILED, ())
    from_step = short.things["cubeA"][:, 1, 3]
    assert from_step[0] >= 30  # not as they stood before the attempt
    assert np.all(np.diff(from_step) >= 0)
    assert from_step[-1] == 199


def test_actions_lead_along_the_line() -> None:
    short, _ = cut_attempts(FAILED, FAILED.boundaries, TASK) or (FAILED, ())
    line = np.flatnonzero(short.actions[:, :6].any(axis=1))  # the made-up rest has no actions
    assert len(line) > 1
    for k in line:
        assert np.allclose(action_to_pose(short.hand[k], short.actions[k]), short.target[k], atol=1e-9)


def test_two_attempts_in_a_row_and_one_in_a_later_subtask() -> None:
    two = source((15, 22), (35, 42), (60, 90), (120, 150))
    assert len(find_attempts(two, two.boundaries, TASK)) == 2
    later = source((20, 30), (60, 90), (100, 108), (140, 170), times=(3.2, 4.6, 7.2))
    assert [t.subtask for t in find_attempts(later, later.boundaries, TASK)] == [0, 2]
    for each in (two, later):
        short, times = cut_attempts(each, each.boundaries, TASK) or (each, ())
        assert find_attempts(short, times, TASK) == ()
        assert list(times) == sorted(times)


def test_an_object_that_was_dropped_cannot_be_cut_out() -> None:
    dropped = source((60, 70), (76, 90), (120, 150))  # grasped at 60, dropped, and grasped anew before its release
    assert [t.counts for t in find_attempts(dropped, dropped.boundaries, TASK)] == [None]
    assert cut_attempts(dropped, dropped.boundaries, TASK) is None
    assert treat_attempts([dropped], [dropped.boundaries], TASK, "cut") == ([dropped], [None])


def test_sources_keep_their_places() -> None:
    sources, times = [WHOLE, FAILED, FAILED], [WHOLE.boundaries, FAILED.boundaries, None]
    assert treat_attempts(sources, times, TASK, "keep") == (sources, times)
    assert treat_attempts(sources, times, TASK, "leave-out") == (sources, [WHOLE.boundaries, None, None])
    cut, known = treat_attempts(sources, times, TASK, "cut")
    assert len(cut[0].actions) == len(WHOLE.actions) > len(cut[1].actions)
    assert [t is None for t in known] == [False, False, True]


def test_trials_of_another_treatment_are_not_mixed_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tempoloc_nb.lab.generate import trials

    assert Setting().mark == {}
    assert Setting(attempts="cut").mark == {"attempts": "cut"}
    monkeypatch.setattr(trials, "read_sources", lambda *_: (WHOLE,))
    monkeypatch.setattr(trials, "isaac_mimic", lambda: None)
    out = tmp_path / "trials.jsonl"
    row = '{"task": "stack-three", "offset": [0, 0], "boundaries": "truth", "trial": 0'
    row += ', "attempts": "cut", "success": true, "source": 0, "ends": [1], "mae": 0.0, "bias": 0.0}\n'
    out.write_text(row)
    found = {TASK: {"truth": [WHOLE.boundaries]}}
    options = {"offsets": ((0, 0),), "trials": 1, "workers": 1}
    with pytest.raises(TempolocError, match="another --attempts"):
        run_trials(tmp_path, out, found, **options)  # type: ignore[arg-type]
    assert out.read_text() == row
    (same,) = run_trials(tmp_path, out, found, setting=Setting(attempts="cut"), **options)  # type: ignore[arg-type]
    assert same.success == (True,)
