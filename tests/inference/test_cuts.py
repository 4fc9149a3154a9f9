"""Cuts without a model: from a gripper's signal, from the pixels' motion, and from both."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tempoloc_nb as tl
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.inference.cuts import Cut, find_cuts, gripper_cuts, merge_cuts
from tempoloc_nb.inference.signals import Signal, rests, signal_at
from tempoloc_nb.video.files import encode

HZ = 20.0


def opening(*changes: tuple[float, float], seconds: float = 10.0) -> Signal:
    """A gripper that is at 1, and goes to each value within 0.2 s from each time on."""
    times, values = np.arange(0, seconds, 1 / HZ), np.ones(int(seconds * HZ))
    for begin, value in changes:
        way = np.clip((times - begin) / 0.2, 0, 1)
        values = np.where(times >= begin, values + way * (value - values), values)
    return signal_at(values, HZ)


def moving(path: Path, rest: tuple[tuple[float, float], ...], seconds: float = 8.0, fps: float = 20.0) -> Path:
    """A video in which a bright bar moves, but not during each `rest` (s)."""
    frames, place = [], 0.0
    for k in range(int(seconds * fps)):
        place += 0.0 if any(a <= k / fps < b for a, b in rest) else 40.0 / fps
        frame = np.full((64, 128, 3), 30, np.uint8)
        frame[:, int(place) % 112 : int(place) % 112 + 16] = 230
        frames.append(frame)
    return encode(path, frames, fps)


def test_a_gripper_cuts_where_it_closes_and_opens_and_not_for_attempts_on_air() -> None:
    cuts = gripper_cuts(opening((2.0, 0.0), (4.0, 1.0), (6.0, 0.0), (6.25, 1.0)))
    assert [c.label for c in cuts] == ["close", "open"]
    assert [c.time for c in cuts] == pytest.approx([2.19, 4.01], abs=0.06)
    assert [c.score for c in cuts] == [1.0, 1.0]
    assert gripper_cuts(opening()) == []
    both = Signal(np.stack([opening((2.0, 0.0)).opening, opening((5.0, 0.0)).opening], axis=1), opening().times,
                  arms=("left", "right"))  # fmt: skip
    assert [(c.label, round(c.time)) for c in gripper_cuts(both)] == [("close left", 2), ("close right", 5)]


def test_a_rest_is_cut_where_the_motion_rises_again() -> None:
    times = np.arange(1, 200) / 20
    motion = np.where((times > 3) & (times < 5), 0.0, 4.0)
    ((time, depth),) = rests(times, motion)
    assert time == pytest.approx(5.0, abs=0.2)  # smoothing lets it rise a little earlier
    assert depth > 0.9
    assert rests(times, motion + 20) == []  # a share of the motion, not so many grey values
    assert rests(times, 0 * motion) == rests(times[:2], motion[:2]) == []
    late = times + 4000.0
    assert rests(late, motion)[0][0] == pytest.approx(time + 4000)


def test_a_long_recording_is_smoothed_in_parts_as_in_one() -> None:
    times = np.arange(1, 4000) / 20
    motion = 4 * np.abs(np.sin(times)) ** 2
    whole, part = [t for t, _ in rests(times, motion)], [t for t, _ in rests(times[:900], motion[:900])]
    assert part[:-1] == pytest.approx(whole[: len(part) - 1], abs=0.01)
    assert len(whole) == int(times[-1] / np.pi)  # the motion is 0 once in each half turn


def test_merged_cuts_have_all_of_the_first_and_others_that_are_far() -> None:
    first, others = [Cut(2.0, "close", 1.0)], [Cut(2.4, "rest", 0.9), Cut(1.0, "rest", 0.9), Cut(2.5, "rest", 0.8)]
    assert [(c.time, c.label) for c in merge_cuts(first, others)] == [(1.0, "rest"), (2.0, "close"), (2.5, "rest")]


def test_recordings_are_cut_by_motion_and_by_both(tmp_path: Path) -> None:
    video = moving(tmp_path / "a.mp4", ((2.0, 3.0), (5.0, 6.0)))
    found = tl.segment(video, by="motion")
    assert [(e.name, e.status, e.outcome, e.confidence) for e in found.events] == [
        ("rest", "ok", None, None), ("rest for the second time", "ok", None, None),
    ]  # fmt: skip
    assert found.boundaries == pytest.approx((3.0, 6.0), abs=0.2)
    assert str(found).splitlines()[0] == "a.mp4 (8.0 s), motion of the pixels"
    assert found.clip.labels == ("rest", "rest for the second time")
    signal = opening((2.8, 0.0), (3.5, 1.0), (7.0, 0.0), (7.1, 1.0), seconds=8.0)
    (both,) = find_cuts([video], "both", {video: signal})
    assert [e.label for e in both.events] == ["close", "open", "rest"]
    assert both.warnings == ("left out: 1 closing of less than 0.3 s",)
    longer = opening((2.8, 0.0), (3.5, 1.0), (9.0, 0.0), seconds=10.0)
    (cut,) = find_cuts([video], "gripper", {video: longer})
    assert ([e.label for e in cut.events], cut.warnings) == (
        ["close", "open"], ("left out: 1 cut after the end of the video",),
    )  # fmt: skip
    still = moving(tmp_path / "b.mp4", ((0.0, 9.0),))
    assert str(tl.segment(still, by="motion")).splitlines()[0] == "b.mp4 (8.0 s), motion of the pixels"
    assert (tl.segment(still, by="motion").events, tl.segment(still, by="motion").warnings) == (
        (), ("the picture never rests: no cut",),
    )  # fmt: skip


def test_what_cannot_be_cut_is_an_error_or_one_line(tmp_path: Path) -> None:
    video = moving(tmp_path / "a.mp4", ((2.0, 3.0),))
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"no video")
    one, other = tl.segment([video, broken], by="motion")
    assert (len(one.events), other.events) == (1, ())
    assert "broken.mp4" in other.error
    (lacks,) = find_cuts([video], "gripper")
    assert lacks.error.endswith("has no gripper's signal: cut it --by motion")
    for wrong, words in (
        ({"by": "gripper"}, "a.mp4 is a video, which has no gripper: cut videos by motion"),
        ({"by": "grip"}, "did you mean gripper"),
        ({"by": "motion", "trials": 3}, "do not read --trials"),
        ({"by": "motion", "engine": "vllm"}, "do not read --engine"),
        ({"by": "motion", "gripper": "state[7]"}, "do not read --gripper"),
        ({"by": "motion", "temperature": 0}, "do not read --temperature"),
    ):
        with pytest.raises(TempolocError, match=words.replace("[", r"\[")):
            tl.segment(video, **wrong)
