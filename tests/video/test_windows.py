"""Windows of a long recording show the frames of the whole, whatever the file is."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import av
import numpy as np
import pytest

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.video import pictures
from tempoloc_nb.video.files import VideoPart, encode, probe, read
from tempoloc_nb.video.windows import _RecordingPart, recording_part, video_windows

RNG = np.random.default_rng(0)
IMAGES = [RNG.integers(0, 255, (48, 64, 3)).astype(np.uint8) for _ in range(100)]


def coded(path: Path, codec: str, options: dict[str, str]) -> Path:
    """100 frames, 20 a second, as `codec` and the container of the path's suffix hold them."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=20, options=options)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"  # type: ignore[attr-defined]
        for image in IMAGES:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))  # type: ignore[attr-defined]
        container.mux(stream.encode(None))  # type: ignore[attr-defined]
    return path


def uneven(path: Path) -> Path:
    return encode(path, IMAGES, times=np.cumsum(RNG.uniform(0.02, 0.09, len(IMAGES))).tolist())


FILES: dict[str, Callable[[Path], Path]] = {
    "one-key.mp4": lambda p: coded(p, "libx264", {"bf": "3", "g": "250"}),
    "keys.mp4": lambda p: coded(p, "libx264", {"bf": "3", "g": "12"}),
    "b.mkv": lambda p: coded(p, "libx264", {"bf": "2"}),
    "old.avi": lambda p: coded(p, "mpeg4", {}),
    "uneven.mp4": uneven,
}


@pytest.mark.parametrize("name", FILES)
def test_a_window_has_the_frames_of_the_whole(name: str, tmp_path: Path) -> None:
    path = FILES[name](tmp_path / name)
    info, whole = probe(path), read(path)
    windows = video_windows(path, info, 2.0, 0.5)
    assert (windows[0].begin, windows[-1].end) == (0.0, info.duration)
    assert all(a.end - b.begin >= 0.4 for a, b in pairwise(windows))
    for window in windows:
        assert window.length == pytest.approx(2.0, abs=0.1)
        part = probe(window.video)
        assert (part.times[0], part.duration) == (0.0, pytest.approx(window.length))
        frames = read(window.video, fps=7)
        for time, image in zip(frames.times, frames.images, strict=True):
            k = int(np.argmin(np.abs(np.array(whole.times) - window.begin - time)))
            assert (image == whole.images[k]).all()


def test_time_is_linear_in_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each window decodes what it shows, and little before it: from its last key frame on."""
    path = FILES["keys.mp4"](tmp_path / "keys.mp4")
    decoded = list[int]()
    shown = pictures.pictures

    def counted(*given: object) -> object:
        for frame in shown(*given):  # type: ignore[arg-type]
            decoded.append(1)
            yield frame

    monkeypatch.setattr("tempoloc_nb.video.windows.pictures", counted)
    windows = video_windows(path, probe(path), 1.0, 0.25)
    for window in windows:
        decoded.clear()
        read(window.video)
        assert len(decoded) <= 20 + 12 + 2


def test_an_episode_is_sought_in_its_file(tmp_path: Path) -> None:
    path = FILES["keys.mp4"](tmp_path / "keys.mp4")
    episode = VideoPart(tmp_path, "episode_000001", "front", path, 1.0, 60, 20.0)
    windows = video_windows(episode, probe(episode), 1.5, 0.3)
    whole = read(path)
    for window in windows:
        assert isinstance(window.video, VideoPart)
        first = round(20 * (1.0 + window.begin))
        assert (read(window.video).images == whole.images[first : first + window.video.count]).all()


def test_what_is_short_is_one_window(tmp_path: Path) -> None:
    path = encode(tmp_path / "a.mp4", IMAGES[:20], 10)
    (window,) = video_windows(path, probe(path), 2.0, 0.5)
    assert (window.video, window.begin, window.end) == (path, 0.0, 2.0)


def test_a_window_of_a_pause_has_two_frames(tmp_path: Path) -> None:
    path = encode(tmp_path / "pause.mp4", IMAGES[:20], times=[*np.arange(10) / 10, *(30 + np.arange(10) / 10)])
    assert all(probe(w.video).n_frames >= 2 for w in video_windows(path, probe(path), 4.0, 1.0))


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    path = encode(tmp_path / "a.mp4", IMAGES, 10)
    info = probe(path)
    with pytest.raises(TempolocError, match="windows of 2 s cannot overlap by 1 s"):
        video_windows(path, info, 2.0, 1.0)
    part = recording_part(path, info, 40, 60)
    assert isinstance(part, _RecordingPart)
    assert part.resolve().files() == (path.resolve(),)
    encode(path, IMAGES[:30], 10)
    with pytest.raises(TempolocError, match="no frame 40 where its packets say"):
        read(part, info=part.info())
