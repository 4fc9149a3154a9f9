"""What a model is shown: sampling, stamps within the budget, and the views that take something away."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tiny_models import qwen3, qwen25
from video_clips import broken_files, write_clip

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.optional import import_transformers
from tempoloc_nb.video.budget import _qwen25_budget, qwen3_budget
from tempoloc_nb.video.view import (
    Mark,
    View,
    clip_inputs,
    crop_box,
    draw_timeline,
    enlarge,
    fitting_coefficient,
    frame_pixels,
)


def small(longest: int = 112 * 140) -> Any:
    """A stand-in for the small model's processor."""
    return SimpleNamespace(video_processor=SimpleNamespace(size={"shortest_edge": 7840, "longest_edge": longest}))


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return write_clip(tmp_path / "clip.mp4", 61, (256, 256))


def test_frames_are_sampled_even_and_never_faster_than_the_source(tmp_path: Path, clip: Path) -> None:
    shown = clip_inputs(clip, small(), 8)  # 61 frames at 30 fps: 2.03 s, 17 ticks, the last frame twice
    assert len(shown.images) == len(shown.times) == 18
    assert shown.times[-1] == shown.times[-2]
    assert np.array_equal(shown.images[-1], shown.images[-2])
    assert shown.fps == 8
    slow = write_clip(tmp_path / "slow.mp4", 20, (256, 256), time_base=_tick(5), rate=5)
    shown = clip_inputs(slow, small(), 8)
    assert (len(shown.images), round(shown.fps, 6), shown.seconds_per_pair) == (20, 5, pytest.approx(0.4))


def _tick(rate: int) -> Any:
    from fractions import Fraction

    return Fraction(1, rate)


def test_the_stamp_is_one_row_of_tokens_that_nothing_else_reaches(clip: Path) -> None:
    """Through the real processor: the scene changes no pixel of the last row's middle, the stamp none of the others."""
    processor = import_transformers().AutoProcessor.from_pretrained(qwen25())

    def rows(view: View) -> Any:
        shown = clip_inputs(clip, processor, 8, view)
        made = processor.video_processor(
            [shown.images.transpose(0, 3, 1, 2)], return_tensors="pt", do_sample_frames=False
        )
        assert made["video_grid_thw"].tolist() == [[9, 10, 8]]
        # (pair, row of tokens, column, 2×2 patches, colour, frame, 14, 14)
        return made["pixel_values_videos"].view(9, 5, 4, 2, 2, 3, 2, 14, 14)

    scene, blank, late = rows(View()), rows(View(content="blank")), rows(View(shift=5))
    difference = (scene - blank).abs()
    assert float(difference[:, :4].amax()) > 0.5
    assert float(difference[:, 4, :, 1].max()) < 1e-6  # lower half of the last row
    assert float(difference[:, 4].mean()) < 0.02  # its upper edge touches the scene
    moved = (scene - late).abs()
    assert float(moved[:, 4].amax()) > 0.5
    assert float(moved[:, :4, :, 0].max()) < 1e-6


def test_a_crop_fills_the_frame_and_leaves_its_stamp_and_time(clip: Path) -> None:
    whole, *crops = (clip_inputs(clip, small(), 8, View(crop=k)) for k in range(4))
    for k, crop in enumerate(crops):
        assert crop.times == whole.times
        assert np.array_equal(crop.images[:, 256:], whole.images[:, 256:])
        others = [whole, *crops[:k]]
        assert not any(np.array_equal(crop.images[:, :256], other.images[:, :256]) for other in others)


@pytest.mark.parametrize("number", [1, 2, 5, 1000])
def test_a_crops_pixels_come_from_its_box(number: int) -> None:
    height, width = 120, 160
    across, down = np.meshgrid(np.arange(width), np.arange(height))
    frames = np.stack([across, down, across], axis=-1)[None].astype(np.uint8)
    left, top, right, bottom = crop_box(width, height, number)
    assert 0 <= left < right <= width
    assert 0 <= top < bottom <= height
    enlarge(frames, (left, top, right, bottom))
    middle = slice(10, -10)  # at its edges a filter sees less
    x = left + (np.arange(width) + 0.5) * (right - left) / width - 0.5
    y = top + (np.arange(height) + 0.5) * (bottom - top) / height - 0.5
    assert np.abs(frames[0, 60, middle, 0] - x[middle]).max() <= 1
    assert np.abs(frames[0, middle, 80, 1] - y[middle]).max() <= 1


@pytest.mark.parametrize(
    ("size", "bars"), [((320, 240), (12, 12, 0, 0)), ((64, 48), (12, 12, 0, 0)), ((60, 120), (0, 0, 24, 24))]
)
def test_frames_of_any_size_are_fitted_into_a_square(
    tmp_path: Path, size: tuple[int, int], bars: tuple[int, int, int, int]
) -> None:
    video = write_clip(tmp_path / "v.mp4", 12, size)
    shown, other = clip_inputs(video, small(), 8, View(side=96)), clip_inputs(video, small(), 8)
    assert (shown.times, shown.fps) == (other.times, other.fps)
    border = shown.images.shape[1] - 96
    assert shown.images.shape[2] == 96
    assert border == clip_inputs(write_clip(tmp_path / "s.mp4", 12, (96, 96)), small(), 8).images.shape[1] - 96
    top, bottom, left, right = bars
    frames = shown.images[:, :96]
    inside = frames[:, top : 96 - bottom, left : 96 - right]
    assert inside.min(axis=(0, 2, 3)).any()  # no row of it is all black
    black = frames.copy()
    black[:, top : 96 - bottom, left : 96 - right] = 0
    assert not black.any()


def test_crops_are_numbered_from_one() -> None:
    with pytest.raises(TempolocError, match="crops are numbered from 1, and 0 is the whole frame: -1 is neither"):
        View(crop=-1)


def test_views_take_away_what_they_say(clip: Path) -> None:
    plain, none = (clip_inputs(clip, small(), 8, View(s)) for s in ("frame", "none"))
    pair, empty = (clip_inputs(clip, small(), 8, View(s)) for s in ("pair", "empty"))
    sides = clip_inputs(clip, small(), 8, View("alternate"))
    blank = clip_inputs(clip, small(), 8, View(content="blank"))
    mixed, again, other = (clip_inputs(clip, small(), 8, View(content="shuffled", seed=s)) for s in (1, 1, 2))
    assert none.images.shape[1:3] == (256, 256)
    assert np.array_equal(plain.images[:, :256], none.images)
    assert not empty.images[:, 256:].any()
    assert np.array_equal(empty.images[:, :256], none.images)
    assert np.array_equal(pair.images[::2, 256:], pair.images[1::2, 256:])
    assert not np.array_equal(plain.images[0, 256:], plain.images[1, 256:])
    assert sides.images.shape == plain.images.shape
    assert np.array_equal(sides.images[:, :256], none.images)
    assert not sides.images[::2, 256:, 128:].any()
    assert not sides.images[1::2, 256:, :128].any()
    assert np.ptp(blank.images[:, :256]) == 0
    for changed in (blank, mixed):
        assert np.array_equal(changed.images[:, 256:], plain.images[:, 256:])
        assert changed.times == plain.times
    assert np.array_equal(mixed.images, again.images)
    assert not np.array_equal(mixed.images, other.images)
    key = lambda frames: sorted(f[:256].tobytes() for f in frames.images)  # noqa: E731
    assert key(mixed) == key(plain)
    assert not np.array_equal(mixed.images[:, :256], plain.images[:, :256])


@pytest.mark.parametrize(("size", "n"), [((512, 512), 56), ((640, 480), 120), ((1280, 720), 20), ((256, 256), 64)])
def test_pixels_a_frame_are_those_of_the_models_rules(size: tuple[int, int], n: int) -> None:
    """The processors of Cosmos-Reason1 and Qwen3-VL, as their configurations have them."""
    qwen = SimpleNamespace(video_processor=SimpleNamespace(size={"shortest_edge": 100_352, "longest_edge": 602_112}))
    assert frame_pixels(qwen, n, 6_422_528) == int(_qwen25_budget(*size, n).pixel_limit)
    three = type("Qwen3VLProcessor", (), {"video_processor": None})()
    three.video_processor = SimpleNamespace(size={"shortest_edge": 4096, "longest_edge": 25_165_824})
    assert frame_pixels(three, n) == int(qwen3_budget(*size, n).pixel_limit)
    budget = frame_pixels(qwen, n, 6_422_528)
    c = fitting_coefficient(*size, budget)
    assert c == 1 or size[0] * (size[1] + 28 * c) == pytest.approx(c * c * budget)


def test_qwen3_is_recognised_by_its_processor() -> None:
    processor = import_transformers().AutoProcessor.from_pretrained(qwen3())
    assert frame_pixels(processor, 12) == 128 * 128 * 24 // 12
    assert frame_pixels(processor, 12, 128 * 128 * 6) == 128 * 128 * 6 // 12


def test_bad_input_is_named(tmp_path: Path, clip: Path) -> None:
    for name, why in broken_files(tmp_path).items():
        with pytest.raises(TempolocError, match=why) as caught:
            clip_inputs(tmp_path / name, small(), 8)
        assert name in str(caught.value)
    for bad in ({"stamps": "big"}, {"content": "audio"}, {"shift": -1.0}, {"shift": float("nan")}):
        with pytest.raises(TempolocError):
            View(**bad)  # type: ignore[arg-type]
    with pytest.raises(TempolocError, match="too small"):
        clip_inputs(write_clip(tmp_path / "icon.mp4", 10, (32, 32)), small(), 8)


@pytest.mark.parametrize(("count", "last"), [(3, None), (12, None), (12, 1234.56)])
def test_a_gap_is_between_the_number_of_a_mark_and_its_time(count: int, last: float | None) -> None:
    frames = np.zeros((2, 96, 300, 3), np.uint8)
    marks = [*(Mark("e", 1.0) for _ in range(count - 1)), Mark("e", last)]
    line = np.asarray(draw_timeline(frames, 2000.0, marks).convert("L"))[-24:-4, :160]
    inked = (line < 200).any(axis=0)
    number = 4 + (8 if count < 10 else 16)
    assert inked[4:number].any()
    assert not inked[number + 1 : number + 5].any()
