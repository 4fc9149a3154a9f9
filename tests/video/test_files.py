"""Times, sampling, rotation, round trips and bad files, on real encoded clips."""

from __future__ import annotations

import os
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from video_clips import broken_files, scene, write_clip

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.video import budget as pixels
from tempoloc_nb.video import files as video

NTSC = [i * 1001 for i in range(48)]
UNEVEN = [0, 10, 20, 30, 60, 90, 95, 100, 200, 300]


@pytest.mark.parametrize(
    ("name", "pts", "base", "rate", "expected"),
    [
        ("ntsc.mp4", NTSC, Fraction(1, 24_000), Fraction(24_000, 1001), [p / 24_000 for p in NTSC]),
        ("late.mp4", [45 + i for i in range(30)], Fraction(1, 30), 30, [i / 30 for i in range(30)]),
        ("late.mkv", [45 + i for i in range(30)], Fraction(1, 30), 30, [i / 30 for i in range(30)]),
        ("uneven.mp4", UNEVEN, Fraction(1, 300), 30, [p / 300 for p in UNEVEN]),
        ("uneven.mkv", UNEVEN, Fraction(1, 300), 30, [p / 300 for p in UNEVEN]),
    ],
)
def test_times_are_true_pts(tmp_path, name, pts, base, rate, expected):
    """B-frames are on (libx264's default): packets come out of order and must be sorted."""
    info = video.probe(write_clip(tmp_path / name, len(pts), pts=pts, time_base=base, rate=rate))
    assert info.times == pytest.approx(expected, abs=6e-4)  # mkv rounds to milliseconds
    assert info.first_pts == pytest.approx(pts[0] * float(base), abs=6e-4)
    assert info.variable_rate == name.startswith("uneven")
    assert [t for t, _ in video.decode(info.path)] == list(info.times)
    with av.open(str(info.path)) as container:
        decoded = [f.time for f in container.decode(video=0)]
    assert [t + info.first_pts for t in info.times] == pytest.approx(decoded, abs=1e-9)


def test_lossless_keeps_every_pixel_and_odd_sizes(tmp_path):
    frames = np.stack(list(scene(6, 65, 47)))
    kept = video.read(video.encode(tmp_path / "kept.mp4", frames, fps=8, lossless=True, options={"preset": "veryfast"}))
    assert np.array_equal(kept.images, frames)
    assert kept.fps == pytest.approx(8)
    assert not np.array_equal(video.read(video.encode(tmp_path / "a.mp4", frames, fps=8)).images[:, :47, :65], frames)


def test_an_unknown_codec_is_said(tmp_path):
    odd = tmp_path / "odd.mp4"
    odd.write_bytes(write_clip(tmp_path / "a.mp4", 4).read_bytes().replace(b"avc1\0\0", b"zzzz\0\0"))
    with pytest.raises(TempolocError, match=r"odd\.mp4: FFmpeg here has no decoder"):
        video.probe(odd)


def test_rates(tmp_path):
    ntsc = video.probe(
        write_clip(tmp_path / "a.mp4", 48, pts=NTSC, time_base=Fraction(1, 24_000), rate=Fraction(24_000, 1001))
    )
    assert ntsc.fps == pytest.approx(24_000 / 1001)
    assert ntsc.duration == pytest.approx(48 * 1001 / 24_000)
    assert [video._exact_rate(f) for f in (30, 29.97, 23.976, 59.94, 12.5, 5.0)] == [
        Fraction(30),
        Fraction(30_000, 1001),
        Fraction(24_000, 1001),
        Fraction(60_000, 1001),
        Fraction(25, 2),
        Fraction(5),
    ]


def test_one_frame(tmp_path):
    info = video.probe(write_clip(tmp_path / "one.mp4", 1))
    assert (info.n_frames, info.times) == (1, (0.0,))
    assert info.duration > 0
    assert video.read(info.path, fps=8).images.shape == (1, 96, 128, 3)


def test_hidden_frames_are_left_out(tmp_path):
    """An edit list that starts inside a group of pictures hides the frames before it."""
    source = write_clip(tmp_path / "a.mp4", 60)
    with av.open(str(source)) as inp, av.open(str(tmp_path / "b.mp4"), "w") as out:
        stream = out.add_stream_from_template(inp.streams.video[0])
        for packet in inp.demux(video=0):
            if packet.size:
                packet.pts -= 15 * 512
                packet.dts -= 15 * 512
                packet.stream = stream
                out.mux(packet)
    info = video.probe(tmp_path / "b.mp4")
    assert info.n_frames == 45
    assert len(list(video.decode(info.path))) == 45


@pytest.mark.parametrize("fps", [1, 4, 7.3, 8, 12, 29.97])
def test_sampling_takes_the_nearest_frame(fps):
    times = [i / 30 for i in range(210)]
    picked = video.sample_indices(times, 7.0, fps)
    assert len(picked) == int(np.ceil(7 * fps - 1e-6))
    for k, index in enumerate(picked):
        assert abs(times[index] - min(k / fps, times[-1])) <= 1 / 60 + 1e-6


def test_sampling_is_capped_at_the_source():
    times = [i / 5 for i in range(40)]
    assert video.sample_indices(times, 8.0, 8) == list(range(40))
    assert video.sample_indices(times, 8.0, None) == list(range(40))


@pytest.mark.parametrize("fps", [0, -1, float("nan"), float("inf")])
def test_bad_rate(fps):
    with pytest.raises(TempolocError, match="fps"):
        video.sample_indices([0.0, 0.1], 0.2, fps)


@given(
    st.lists(st.floats(0.001, 2.0), min_size=1, max_size=60).map(lambda gaps: np.cumsum([0.0, *gaps]).tolist()),
    st.floats(0.5, 60),
)
def test_sampling_properties(times, fps):
    duration = times[-1] + 0.05
    picked = video.sample_indices(times, duration, fps)
    assert picked[0] == 0
    assert all(a < b for a, b in pairwise(picked))
    if len(picked) < len(times):
        assert len(picked) <= np.ceil(duration * fps)


def test_decode_picks_the_frames_it_names(tmp_path):
    """Frame i is flat with grey 4·i: what comes back must be the frame whose time is given."""
    images = [np.full((64, 64, 3), 4 * i, np.uint8) for i in range(60)]
    path = video.encode(tmp_path / "grey.mp4", images, fps=30, options={"crf": "5"})
    frames = video.read(path, fps=8)
    assert frames.fps == pytest.approx(8)
    for image, time in zip(frames.images, frames.times, strict=True):
        assert abs(image.mean() - 4 * round(time * 30)) < 2


def test_frame_and_time(tmp_path):
    info = video.probe(write_clip(tmp_path / "a.mp4", len(UNEVEN), pts=UNEVEN, time_base=Fraction(1, 300)))
    for i, t in enumerate(info.times):
        assert video.nearest(info.times, t) == i
    assert video.nearest(info.times, 0.5) == 7  # 0.333 is nearer than 0.667


@pytest.mark.parametrize("turn", [90, 180, 270])
def test_rotation(tmp_path, turn):
    """A display matrix written into the track header of an MP4, read as a player would."""
    path = write_clip(tmp_path / "a.mp4", 5, (128, 64))
    plain = video.read(path).images[0]
    matrices = {90: (0, -1, 1, 0), 180: (-1, 0, 0, -1), 270: (0, 1, -1, 0)}
    a, b, c, d = (v * 65_536 for v in matrices[turn])
    data = path.read_bytes()
    unit = b"".join(v.to_bytes(4, "big", signed=True) for v in (65_536, 0, 0, 0, 65_536, 0, 0, 0, 1 << 30))
    turned = b"".join(v.to_bytes(4, "big", signed=True) for v in (a, b, 0, c, d, 0, 0, 0, 1 << 30))
    where = data.index(unit, data.index(b"tkhd"))
    path.write_bytes(data[:where] + turned + data[where + 36 :])
    info = video.probe(path)
    assert info.rotation == turn
    assert (info.width, info.height) == ((64, 128) if turn % 180 else (128, 64))
    np.testing.assert_array_equal(video.read(path).images[0], np.rot90(plain, turn // 90))


@pytest.mark.parametrize(
    ("codec", "pixel_format", "suffix"),
    [
        ("mpeg4", "yuv420p", "avi"),
        ("libx264", "yuv444p", "mp4"),
        ("libx264", "yuv420p10le", "mp4"),
        ("libx264rgb", "rgb24", "mkv"),
    ],
)
def test_other_formats(tmp_path, codec, pixel_format, suffix):
    path = write_clip(tmp_path / f"a.{suffix}", 20, (64, 48), codec=codec, pixel_format=pixel_format)
    frames = video.read(path)
    truth = np.stack(list(scene(20, 64, 48)))
    assert frames.images.shape == truth.shape
    assert np.abs(frames.images.astype(int) - truth).mean() < 12


@pytest.mark.parametrize("size", [(64, 48), (63, 47)])
def test_encode_keeps_the_picture(tmp_path, size):
    images = list(scene(30, *size))
    path = video.encode(tmp_path / "a.mp4", images, fps=30, options={"crf": "12"})
    back = video.read(path).images[:, : size[1], : size[0]]
    assert np.abs(back.astype(int) - np.stack(images)).mean() < 6
    assert not list(tmp_path.glob(".*"))


def test_encode_bad_input(tmp_path):
    images = list(scene(3, 64, 48))
    for frames, arguments, message in [
        (images, {}, "either fps or times"),
        (images, {"fps": 30, "times": [0, 1, 2]}, "either fps or times"),
        ([], {"fps": 30}, "no frames"),
        ([*images, images[0][:40]], {"fps": 30}, "frame 3"),
        (images, {"times": [0.0, 0.1]}, "2 times"),
        (images, {"times": [0.0, 0.1, 0.2, 0.3]}, "more times"),
    ]:
        with pytest.raises(TempolocError, match=message):
            video.encode(tmp_path / "bad.mp4", frames, **arguments)
    assert list(tmp_path.iterdir()) == []  # neither the video nor its part is left behind


def test_bad_files_are_named(tmp_path):
    for name, message in broken_files(tmp_path).items():
        with pytest.raises(TempolocError, match=message) as caught:
            list(video.decode(tmp_path / name))
        assert name in str(caught.value)
        assert "\n" not in str(caught.value)


def test_missing_and_folder(tmp_path):
    with pytest.raises(TempolocError, match="no such file"):
        video.probe(tmp_path / "none.mp4")
    with pytest.raises(TempolocError, match="a folder"):
        video.probe(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_unreadable(tmp_path):
    path = write_clip(tmp_path / "a.mp4", 3)
    path.chmod(0)
    with pytest.raises(TempolocError, match="permission"):
        video.probe(path)


def test_raw_stream_without_timestamps(tmp_path):
    with pytest.raises(TempolocError, match="no timestamps"):
        video.probe(write_clip(tmp_path / "a.h264", 10))


def test_decode_stops_early(tmp_path):
    """A caller that takes two frames of a long clip does not pay for the rest, and nothing stays open."""
    path = write_clip(tmp_path / "a.mp4", 60)
    stream = video.decode(path)
    assert [next(stream)[0], next(stream)[0]] == [0.0, pytest.approx(1 / 30)]
    stream.close()
    assert Path(path).exists()


def test_pixel_rules_bad_input():
    for call in (
        lambda: pixels.recipe_budget(0, 10, 5),
        lambda: pixels._qwen25_budget(10, 10, 0),
        lambda: pixels.qwen3_budget(10_000, 10, 4),
        lambda: pixels.frame_budget("gpt", 10, 10, 1.0, 8),
        lambda: pixels.temporal_ids(3, 0),
    ):
        with pytest.raises(TempolocError):
            call()


@given(st.integers(28, 3000), st.integers(28, 3000), st.integers(1, 768))
def test_pixel_rules_keep_their_limits(width, height, frames):
    recipe = pixels.recipe_budget(width, height, frames)
    assert recipe.width * recipe.height <= max(recipe.pixel_limit, 14 * max(width, height))
    assert recipe.width <= width
    assert recipe.height <= height
    qwen = pixels._qwen25_budget(width, height, frames)
    assert qwen.width % 28 == qwen.height % 28 == 0
    # rounding a small frame up to the grid may pass the limit where it was just inside, never by a row and column
    assert qwen.width * qwen.height <= qwen.pixel_limit + 28 * (qwen.width + qwen.height)
    qwen3 = pixels.qwen3_budget(width, height, frames)
    assert qwen3.width % 32 == qwen3.height % 32 == 0


def with_edits(source: Path, path: Path, *edits: tuple[int, int, int]) -> Path:
    """A copy of an MP4 file with other edits: (ticks, first tick of the medium, speed)."""
    data = bytearray(source.read_bytes())
    box = b"".join(
        n.to_bytes(4, "big", signed=True) + at.to_bytes(4, "big", signed=True) + bytes([0, v, 0, 0])
        for n, at, v in edits
    )
    at = data.index(b"edts") - 4
    old = int.from_bytes(data[at : at + 4])
    box = (16 + len(box)).to_bytes(4) + b"elst" + bytes(4) + len(edits).to_bytes(4) + box
    data[at : at + old] = (8 + len(box)).to_bytes(4) + b"edts" + box
    for name in (b"moov", b"trak"):
        place = data.index(name) - 4
        data[place : place + 4] = (int.from_bytes(data[place : place + 4]) + 8 + len(box) - old).to_bytes(4)
    path.write_bytes(data)
    return path


def test_edits_that_players_follow_and_libav_does_not_are_refused(tmp_path):
    """A part that is slowed down was read at its old times, and after a pause the video began again."""
    video.encode(
        one := tmp_path / "a.mp4",
        [np.full((48, 64, 3), 9 * k, np.uint8) for k in range(20)],
        fps=10,
        options={"bf": "0"},
    )
    for name, edits in {
        "slow": [(1000, 0, 1), (1000, 10240, 0)],
        "pause": [(1000, 0, 1), (500, -1, 1), (1000, 0, 1)],
    }.items():
        with pytest.raises(TempolocError, match=rf"{name}\.mp4: its edits pause it, or change its speed"):
            video.probe(with_edits(one, tmp_path / f"{name}.mp4", *edits))
    late = with_edits(one, tmp_path / "late.mp4", (500, -1, 1), (1000, 0, 1))
    assert video.probe(late).n_frames == 10


def test_two_videos_in_one_file_are_refused(tmp_path):
    """Only the first of them was read, without a word."""
    one, both = tmp_path / "a.mp4", tmp_path / "both.mkv"
    video.encode(one, [np.full((48, 64, 3), 9 * k, np.uint8) for k in range(10)], fps=10)
    with av.open(str(both), "w") as out, av.open(str(one)) as source:
        streams = [out.add_stream_from_template(source.streams.video[0]) for _ in range(2)]
        for stream in streams:
            source.seek(0)
            for packet in source.demux(video=0):
                if packet.dts is not None:
                    packet.stream = stream
                    out.mux(packet)
    with pytest.raises(TempolocError, match=r"both.mkv holds 2 videos, 0:0 \(h264\) and 0:1 \(h264\): keep"):
        video.probe(both)
    twice = tmp_path / "twice.mp4"
    twice.write_bytes(2 * one.read_bytes())
    with pytest.raises(TempolocError, match=r"twice.mp4: .*: are there two recordings in one file\?"):
        video.probe(twice)
    assert video.probe(one).n_frames == 10
