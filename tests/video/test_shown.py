"""Which pictures of a file are shown, when and which way up: as a player does, or one clear error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.video import files as video
from tempoloc_nb.video.files import VideoPart
from tempoloc_nb.video.overlay import stamp_video

CLOSED = {"x264-params": "keyint=8:min-keyint=8:scenecut=0"}
OPEN = {"x264-params": "keyint=8:min-keyint=8:scenecut=0:open-gop=1:bframes=3:b-adapt=0"}


def grey(k: int, size: tuple[int, int] = (64, 48)) -> npt.NDArray[np.uint8]:
    """Frame `k`: grey of 10·k, and white at the top left."""
    image = np.full((size[1], size[0], 3), 10 * k, np.uint8)
    image[:16, :16] = 255
    return image


def write(path: Path, ticks: Iterable[int], codec: str = "libx264", first: int = 0, **how: Any) -> Path:
    """Greys at `ticks` tenths of a second; `how` has size, pix, options and sar."""
    size = how.get("size", (64, 48))
    kind = {".ts": "mpegts"}.get(path.suffix)
    with av.open(str(path), "w", format=kind) as out:
        stream = out.add_stream(codec, rate=10, options=how.get("options", {}))
        stream.width, stream.height, stream.pix_fmt = *size, how.get("pix", "yuv420p")
        if how.get("sar"):
            stream.sample_aspect_ratio = how["sar"]
        stream.codec_context.time_base = Fraction(1, 10)
        for k, tick in enumerate(ticks, first):
            frame = av.VideoFrame.from_ndarray(grey(k, size), format="rgb24")
            frame.pts, frame.time_base = tick, Fraction(1, 10)
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    return path


def copy(source: Path, target: Path, skip: int = 0, shift: int = 0, **options: str) -> Path:
    """The packets of `source` from key frame `skip` on, `shift` ticks later."""
    kind, keys = {".ts": "mpegts"}.get(target.suffix), -1
    with av.open(str(source)) as inp, av.open(str(target), "w", format=kind, options=options) as out:
        stream = out.add_stream_from_template(inp.streams.video[0])
        for packet in inp.demux(video=0):
            keys += bool(packet.size and packet.is_keyframe)
            if packet.size and keys >= skip:
                assert packet.pts is not None
                assert packet.dts is not None
                packet.pts, packet.dts = packet.pts + shift, packet.dts + shift
                packet.stream = stream
                out.mux(packet)
    return target


def numbers(path: Path) -> list[int]:
    """The number of each shown frame, by its grey."""
    return [round(float(image[32:, 32:].mean()) / 10) for image in video.read(path).images]


def matrix(path: Path, values: Sequence[float]) -> Path:
    """The MP4 with the display matrix (a, b, c, d) in its track header."""
    data, place = bytearray(path.read_bytes()), path.read_bytes().index(b"tkhd") + 44
    for at, value in zip((0, 4, 12, 16), values, strict=True):
        data[place + at : place + at + 4] = int(value * 65536).to_bytes(4, "big", signed=True)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ((-1, 0, 0, 1), "top right"),
        ((1, 0, 0, -1), "bottom left"),
        ((-1, 0, 0, -1), "bottom right"),
        ((0, 1, 1, 0), "top left"),
        ((0, -1, 1, 0), "bottom left"),
        ((0, 1, -1, 0), "top right"),
        ((0, -1, -1, 0), "bottom right"),
    ],
)
def test_the_mark_stands_where_a_player_shows_it(tmp_path: Path, values: tuple[int, ...], place: str) -> None:
    path = matrix(write(tmp_path / "a.mp4", range(3)), values)
    info = video.probe(path)
    assert (info.width, info.height) == ((48, 64) if values[0] == 0 else (64, 48))
    stamp_video(path, tmp_path / "stamped.mp4")
    for footage in (path, tmp_path / "stamped.mp4", VideoPart(tmp_path, "e", "front", path, 0.0, 3, 10.0)):
        image = video.read(footage).images[0]
        rows, columns = np.nonzero(image[: info.height, : info.width].mean(axis=2) > 180)
        vertical = "top" if rows.mean() < info.height / 2 else "bottom"
        assert f"{vertical} {'left' if columns.mean() < info.width / 2 else 'right'}" == place


def test_a_slanted_picture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TempolocError, match="no quarter turn"):
        video.probe(matrix(write(tmp_path / "a.mp4", range(3)), (0.8, 0.6, -0.6, 0.8)))


@pytest.mark.parametrize(("ratio", "size"), [(Fraction(4, 3), (85, 48)), (Fraction(1, 2), (64, 96))])
def test_long_pixels_are_stretched(tmp_path: Path, ratio: Fraction, size: tuple[int, int]) -> None:
    path = write(tmp_path / "a.mp4", range(3), sar=ratio)
    info = video.probe(path)
    assert (info.width, info.height) == size
    assert video.read(path).images.shape[1:3] == size[::-1]
    stamp_video(path, tmp_path / "stamped.mp4")
    assert video.probe(tmp_path / "stamped.mp4").width == size[0] + size[0] % 2


@pytest.mark.parametrize("name", ["cut.ts", "cut.mkv", "cut.mp4", "pieces.mp4"])
def test_a_recording_that_was_cut_begins_with_its_first_whole_picture(tmp_path: Path, name: str) -> None:
    pieces = {"movflags": "frag_keyframe+empty_moov"} if name == "pieces.mp4" else {}
    if name == "cut.ts":
        data = write(tmp_path / "whole.ts", range(24), options=OPEN).read_bytes()
        path = tmp_path / name
        path.write_bytes(data[188 * (len(data) // 188 // 5) :])
    else:
        path = copy(write(tmp_path / "whole.mp4", range(24), options=OPEN), tmp_path / name, skip=1, **pieces)
    info = video.probe(path)
    assert numbers(path) == list(range(8, 24))
    assert info.times == pytest.approx([k / 10 for k in range(16)], abs=1e-6)


@pytest.mark.parametrize("suffix", [".ts", ".mkv", ".mp4"])
def test_two_recordings_in_one_file_are_refused(tmp_path: Path, suffix: str) -> None:
    pieces = {"movflags": "frag_keyframe+empty_moov+default_base_moof"} if suffix == ".mp4" else {}
    one = copy(write(tmp_path / "whole.mp4", range(16), options=CLOSED), tmp_path / f"one{suffix}", **pieces)
    both = tmp_path / f"both{suffix}"
    both.write_bytes(one.read_bytes() * 2)
    with pytest.raises(TempolocError, match=r"both.*times start again"):
        video.probe(both)


def test_an_earlier_clock_after_a_later_one_is_no_gap_of_a_day(tmp_path: Path) -> None:
    early = write(tmp_path / "early.ts", range(8))
    late = copy(early, tmp_path / "late.ts", shift=90_000 * 500)
    (tmp_path / "both.ts").write_bytes(late.read_bytes() + early.read_bytes())
    with pytest.raises(TempolocError, match="times start again at frame 8"):
        video.probe(tmp_path / "both.ts")
    (tmp_path / "gap.ts").write_bytes(early.read_bytes() + late.read_bytes())
    assert video.probe(tmp_path / "gap.ts").times[8] == pytest.approx(500)


def test_the_clock_of_a_transport_stream_may_wrap(tmp_path: Path) -> None:
    path = copy(write(tmp_path / "a.ts", range(20)), tmp_path / "b.ts", shift=2**33 - 90_000)
    assert video.probe(path).times == pytest.approx([k / 10 for k in range(20)])


@pytest.mark.parametrize(
    ("codec", "pix", "options"),
    [("mjpeg", "yuvj420p", {}), ("libx264", "yuv420p", {"bf": "0"}), ("mpeg4", "yuv420p", {})],
)
def test_an_empty_slot_of_avi_keeps_the_picture_before_it(
    tmp_path: Path, codec: str, pix: str, options: dict[str, str]
) -> None:
    slots = [0, 1, 2, 5, 6, 11, 12, 20]
    path = write(tmp_path / "a.avi", slots, codec, pix=pix, options=options)
    info = video.probe(path)
    assert info.times == pytest.approx([s / 10 for s in slots])
    assert info.duration == pytest.approx(2.1)
    assert numbers(path) == list(range(8))
    stamp_video(path, tmp_path / "b.mp4")
    assert video.probe(tmp_path / "b.mp4").times == pytest.approx(info.times)


def test_b_frames_of_avi(tmp_path: Path) -> None:
    """Without empty slots their order is certain, with them nobody knows it."""
    path = write(tmp_path / "a.avi", range(20), options={"bf": "2"})
    assert numbers(path) == list(range(20))
    assert video.probe(path).times == pytest.approx([k / 10 for k in range(20)])
    stamp_video(path, tmp_path / "b.mp4")
    assert video.probe(tmp_path / "b.mp4").times == pytest.approx([k / 10 for k in range(20)])
    for codec in ("libx264", "mpeg4"):
        with pytest.raises(TempolocError, match="empty slots"):
            video.probe(write(tmp_path / "c.avi", [0, 1, 2, 3, 9, 10, 11, 12], codec, options={"bf": "2"}))


def test_a_cut_off_avi(tmp_path: Path) -> None:
    path = write(tmp_path / "a.avi", range(20), "mjpeg", pix="yuvj420p")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(TempolocError, match=r"cut off|damaged"):
        video.probe(path)


def test_a_size_that_changes_is_one_error(tmp_path: Path) -> None:
    small, large = write(tmp_path / "a.ts", range(6)), write(tmp_path / "b.ts", range(6, 12), size=(96, 64))
    both = tmp_path / "both.ts"
    both.write_bytes(small.read_bytes() + large.read_bytes())
    for use in (video.probe, video.read, lambda path: stamp_video(path, tmp_path / "out.mp4")):
        with pytest.raises(TempolocError, match=r"both\.ts: its pictures change from 64×48 to 96×64 at 0\.600 s"):
            use(both)


def test_what_is_no_video_is_said_in_one_line(tmp_path: Path) -> None:
    for name, kind in {"a.png": "png", "b.mp4": "jpeg", "c.webp": "webp"}.items():
        Image.fromarray(grey(3)).save(tmp_path / name, kind)
        with pytest.raises(TempolocError, match=f"{name}: no video but a still picture"):
            video.probe(tmp_path / name)
    (tmp_path / "d.mp4").write_text("1\n00:00:01,000 --> 00:00:02,000\ngrasping\n")
    with pytest.raises(TempolocError, match="no video stream"):
        video.probe(tmp_path / "d.mp4")


def test_the_cover_of_a_song_is_no_video(tmp_path: Path) -> None:
    path = tmp_path / "song.mp4"
    with av.open(str(path), "w") as out:
        sound = out.add_stream("aac", rate=44_100)
        cover = out.add_stream("mjpeg", rate=1)
        cover.width, cover.height, cover.pix_fmt = 64, 48, "yuvj420p"
        cover.disposition = av.stream.Disposition.attached_pic
        out.mux(cover.encode(av.VideoFrame.from_ndarray(grey(3), format="rgb24")))
        for k in range(5):
            frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
            frame.sample_rate, frame.pts = 44_100, 1024 * k
            out.mux(sound.encode(frame))
        out.mux(cover.encode(None))
        out.mux(sound.encode(None))
    with pytest.raises(TempolocError, match="no video stream"):
        video.probe(path)


def test_frames_that_h264_does_not_take(tmp_path: Path) -> None:
    wide = [np.zeros((16, 16_400, 3), np.uint8)]
    with pytest.raises(TempolocError, match="16384 pixels a side, not 16400×16"):
        video.encode(tmp_path / "wide.mp4", wide, fps=10)
    with pytest.raises(TempolocError, match=r"back\.mp4: cannot be encoded"):
        video.encode(tmp_path / "back.mp4", [grey(1)] * 3, times=[0.0, 1.0, 0.5], options={"bf": "0"})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["a.mkv", "a.webm"])
def test_a_cut_off_matroska(tmp_path: Path, name: str) -> None:
    codec = "libvpx-vp9" if name == "a.webm" else "libx264"
    path = write(tmp_path / name, range(20), codec)
    assert video.probe(path).n_frames == 20
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(TempolocError, match="cut off, 200 bytes"):
        video.probe(path)


def test_a_hole_that_mp4_cannot_hold(tmp_path: Path) -> None:
    path = write(tmp_path / "hole.ts", [0, 1, 2, 300_000, 300_001], options={"bf": "0"})
    assert video.probe(path).times[3] == pytest.approx(30_000)
    with pytest.raises(TempolocError, match="cannot hold 30000 s between two frames"):
        stamp_video(path, tmp_path / "out.mp4")
    assert not (tmp_path / "out.mp4").exists()
