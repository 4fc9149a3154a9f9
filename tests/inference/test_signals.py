"""The gripper rule: transitions of made-up signals, whole and noisy, and what it gives on clips with known truth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tempoloc_nb.clips.manifest import Clip, Clips, load_benchmark
from tempoloc_nb.clips.tasks import Event, Subtask, Task
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.settings import data_dir
from tempoloc_nb.inference.baselines import gripper_answers, signal_rows
from tempoloc_nb.inference.signals import (
    _LEAD,
    Signal,
    approach,
    arrival,
    event_kinds,
    find_transitions,
    gripper_rule,
    motion_minima,
    pixel_motion,
    signal_at,
    starts_of,
    with_starts,
)
from tempoloc_nb.lab.sim.benchmark import read_clip_signals
from tempoloc_nb.scoring.answers import parse_answer
from tempoloc_nb.video.files import encode


def ramps(*corners: tuple[float, float], hz: float = 30.0, noise: float = 0.0) -> Signal:
    """Straight lines between corners (s, opening), with noise of a fixed seed."""
    times = np.arange(0, corners[-1][0], 1 / hz)
    values = np.interp(times, *zip(*corners, strict=True))
    return Signal(values + noise * np.random.default_rng(0).standard_normal(len(times)), times)


TWICE = ((0, 8), (1.0, 8), (1.3, 4), (3.0, 4), (3.2, 8), (5.0, 8), (5.3, 2), (8.0, 2))


def test_closings_and_openings_in_order_with_holds() -> None:
    found = find_transitions(ramps(*TWICE))
    assert [t.kind for t in found] == ["close", "open", "close"]
    assert [t.time for t in found] == pytest.approx([1.0 + 0.93 * 0.3, 3.0 + 0.05 * 0.2, 5.0 + 0.93 * 0.3], abs=0.02)
    assert [t.hold for t in found] == pytest.approx([1.7, 1.7, np.inf], abs=0.06)


@pytest.mark.parametrize("scale", [1e-3, 1.0, -40.0])
def test_units_do_not_matter_but_which_way_is_open_does(scale: float) -> None:
    signal = ramps(*TWICE)
    found = find_transitions(Signal(scale * signal.opening + 5, signal.times))
    assert [t.kind for t in found] == (["close", "open", "close"] if scale > 0 else ["open", "close", "open"])


def test_noise_and_uneven_times() -> None:
    signal = ramps(*TWICE, hz=100, noise=0.02)
    keep = np.random.default_rng(1).random(len(signal.times)) < 0.4
    found = find_transitions(Signal(signal.opening[keep], signal.times[keep]))
    assert [t.kind for t in found] == ["close", "open", "close"]
    assert [t.time for t in found] == pytest.approx([1.28, 3.01, 5.28], abs=0.06)


def test_a_command_jumps_at_its_sample() -> None:
    command = np.where(np.arange(100) < 40, 1.0, -1.0)
    (closing,) = find_transitions(signal_at(command, 20))
    assert (closing.kind, closing.time) == ("close", 2.0)


@pytest.mark.parametrize("opening", [[], [1.0], [3.0] * 50, list(np.linspace(0, 1, 200))])
def test_a_gripper_that_never_moves_or_creeps_has_no_transitions(opening: list[float]) -> None:
    assert find_transitions(signal_at(opening, 30)) == ()


@pytest.mark.parametrize(
    ("opening", "times", "said"),
    [([1, 2], [0], "one number a time"), ([1, np.nan], [0, 1], "NaN"), ([1, 2], [1, 1], "must increase")],
)
def test_what_is_no_signal(opening: list[float], times: list[float], said: str) -> None:
    with pytest.raises(TempolocError, match=said):
        Signal(np.array(opening, dtype=float), np.array(times, dtype=float))


def test_a_grasp_on_air_is_passed_over() -> None:
    air = ((0, 8), (0.5, 8), (0.7, 0), (0.8, 0), (1.0, 8))
    rest = tuple((t + 1.0, v) for t, v in TWICE[1:])
    found = gripper_rule(("close", "open", "close"), find_transitions(ramps(*air, *rest)))
    assert found == pytest.approx((2.28, 4.01, 6.28), abs=0.02)


def test_the_rule_read_backward_takes_the_last_attempt() -> None:
    moves = find_transitions(ramps(*TWICE, (8.3, 8), (9.0, 8)))
    kinds = ("close", "open")
    first, last = gripper_rule(kinds, moves), gripper_rule(kinds, moves, backward=True)
    assert first == (moves[0].time, moves[1].time) != last == (moves[-2].time, moves[-1].time)


def test_events_that_the_gripper_does_not_show_have_no_boundary() -> None:
    labels = ["grasping the cube", "lifting the cube", "releasing the cube", "grasping the lid"]
    assert event_kinds(labels) == ("close", None, "open", "close")
    assert event_kinds(labels, {"lifting the cube": "open", labels[3]: None}) == ("close", "open", "open", None)
    with pytest.raises(TempolocError, match="kind of event"):
        event_kinds(labels, {labels[0]: "shut"})  # type: ignore[dict-item]
    found = gripper_rule(event_kinds(labels), find_transitions(ramps(*TWICE[:6])))
    assert found[1] is None
    assert found[3] is None


SIM = load_benchmark("sim")


def test_the_rule_on_the_test_clips() -> None:
    """The gripper shows every event of the 400 clips, and 1,197 of their 1,200 boundaries to a quarter of a second."""
    read = read_clip_signals(data_dir() / "benchmarks" / "sim" / "signals.npz")
    answers = gripper_answers(SIM, {name: signal_at(s.aperture, 30.0) for name, s in read.items()})
    off = [abs(b - t) for c in SIM.clips for b, t in zip(answers[c.clip], c.source_boundaries, strict=True) if b]
    assert len(off) == 1200
    assert sum(e > 0.25 for e in off) == 3
    assert max(off) < 0.4
    assert np.median(off) < 0.02


def way_of(*corners: tuple[float, float]) -> np.ndarray:
    """A hand's way (150, 3) along x through corners (s, m), at 30 Hz."""
    x = np.interp(np.arange(150) / 30, *zip(*corners, strict=True))
    return np.stack([x, 0 * x, 0 * x], axis=1)


def test_a_skill_starts_where_the_hand_is_near_its_end_for_good() -> None:
    kinds = event_kinds(("arriving at the cup", "grasping the cup", "arriving with the cup", "releasing the cup"))
    assert kinds == ("start", "close", "start", "open")
    # near the cup at 0.5 s, and gone again
    hand = way_of((0, 0.3), (0.5, 0.02), (1, 0.3), (2, 0), (2.3, 0), (3, 0.35), (4, 0.35))
    signal = signal_at(np.ones(150), 30, hand)
    found = with_starts(kinds, (None, 2.2, None, 3.5), signal)
    assert found == pytest.approx((2 - 0.05 / 0.3, 2.2, 3 - 0.1, 3.5), abs=0.001)
    assert with_starts(kinds, (None, 2.2, None, None), signal)[2] is None
    still = signal_at(np.ones(150), 30, way_of((0, 0), (5, 0)))
    assert with_starts(kinds, (None, 2.2, None, 3.5), still) == (0.0, 2.2, 2.2, 3.5)  # not before the event before it
    lacking = with_starts(kinds, (None, 2.2, None, 2.4), signal_at(np.ones(150), 30))
    assert lacking == pytest.approx((2.2 - _LEAD, 2.2, 2.2, 2.4))
    with pytest.raises(TempolocError, match="hand is three numbers a time"):
        signal_at(np.ones(150), 30, hand[:100])
    with pytest.raises(TempolocError, match="cup is three numbers a time"):
        signal_at(np.ones(150), 30, hand, {"cup": hand[:100]})


def test_a_late_end_does_not_move_a_start_at_an_object() -> None:
    hand, times = way_of((0, 0.3), (1, 0.3), (2, 0), (3, 0), (4, 0.4)), np.arange(150) / 30
    cup = way_of((0, -0.04), (2.5, -0.04), (3, -0.04), (4, 0.36))  # 4 cm below the hand, which takes it along
    for end in (2.2, 2.6, 3.5):
        assert approach(hand, cup, times, end) == pytest.approx(2 - 0.05 / 0.3, abs=0.001)
    assert arrival(hand, times, 3.5) > 3


def test_a_task_says_which_events_start_a_skill() -> None:
    reach = "reaching the {first} cup"
    task = Task("cups", (reach, "grasping it"), subtasks=(Subtask("grasp", reach),))
    labels = ("reaching the red cup", "grasping it")
    assert starts_of(task, labels) == {"reaching the red cup": "start"}
    clip = Clip("cups/0", "cups", tuple(Event(label) for label in labels), fps=30, duration=5.0)
    opening = np.interp(np.arange(150) / 30, [0, 2, 2.4, 5], [8, 8, 2, 2])
    signal = signal_at(opening, 30, way_of((0, 0.3), (2, 0), (5, 0)))
    benchmark = Clips("cups", Path(), {"cups": task}, (clip,))
    start, grasp = gripper_answers(benchmark, {clip.clip: signal})[clip.clip]
    assert grasp == pytest.approx(2.37, abs=0.01)
    assert start == pytest.approx(2 - 0.05 / 0.15, abs=0.01)
    hidden = gripper_answers(benchmark, {clip.clip: signal}, {labels[1]: None})
    assert hidden[clip.clip] == (None, None)


def test_rows_leave_out_what_is_not_known() -> None:
    clip = SIM.clips[0]
    (row,) = signal_rows(SIM, {clip.clip: (1.0, None, 2.5)}, "signal/gripper", 8)
    assert row["backend"] == "signal"
    read = parse_answer(row["text"], clip.labels, clip.duration).events
    assert [(e.status, e.start, e.end) for e in read] == [
        ("ok", 1.0, 2.5), ("missing", None, None), ("ok", 2.5, clip.duration),
    ]  # fmt: skip


def test_a_wobble_in_a_closing_is_part_of_it() -> None:
    """A Robotiq's fingers swing back when they start: 0.1 s of opening within a closing of 0.6 s."""
    found = find_transitions(ramps((0, 11), (1, 11), (1.06, 8), (1.12, 10.5), (1.5, 4), (3, 4), (3.3, 11), (4, 11)))
    assert [t.kind for t in found] == ["close", "open"]
    assert found[0].hold == pytest.approx(1.5, abs=0.1)


def moving(path: Path, stops: Sequence[float], fps: float = 30.0) -> Path:
    """4 s of a bright square that goes round and stands still for a moment at each of the `stops` (s)."""
    times = np.arange(round(4 * fps)) / fps
    speed = 1 - sum(np.exp(-0.5 * ((times - s) / 0.12) ** 2) for s in stops)
    frames = []
    for x in np.cumsum(speed) / fps:
        frame = np.zeros((96, 96, 3), dtype=np.uint8)
        row, column = int(40 + 30 * np.sin(2 * x)), int(40 + 30 * np.cos(2 * x))
        frame[row : row + 16, column : column + 16] = 255
        frames.append(frame)
    return encode(path, frames, fps)


def test_motion_minima_are_where_a_video_stands_still(tmp_path: Path) -> None:
    times, motion = pixel_motion(moving(tmp_path / "v.mp4", (1.0, 2.4)))
    assert len(times) == len(motion) == 119
    assert motion_minima(times, motion, 2) == pytest.approx((1.0, 2.4), abs=0.08)
    assert motion_minima(times[:2], motion[:2], 2) == (None, None)
    still = motion_minima(times, np.ones(119), 3)
    assert still == (None, None, None)


@pytest.mark.parametrize("every", [1, 3, 4, 5])
def test_a_sensor_that_is_slower_than_its_rows_moves_once(every: int) -> None:
    """Readings that are repeated in the rows between two of them: one closing and one opening, not a stair of each."""
    rows = np.arange(240) / 30
    seen = np.interp(rows[np.arange(240) // every * every], [0, 2, 2.8, 5, 5.9, 8], [1, 1, 0, 0, 1, 1])
    found = find_transitions(Signal(seen, rows))
    assert [t.kind for t in found] == ["close", "open"]
    assert [t.time for t in found] == pytest.approx([2.74, 5.04], abs=every / 30)
