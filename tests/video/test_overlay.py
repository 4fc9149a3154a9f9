"""Stamps in memory and in files: sizes, times, colours, bad input, and reading them back as the model would."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import replace
from fractions import Fraction

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont
from study_cells import study_functions
from video_clips import broken_files, scene, write_audio, write_clip

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.settings import data_dir
from tempoloc_nb.video import files as video
from tempoloc_nb.video import overlay
from tempoloc_nb.video import stamp as stamps
from tempoloc_nb.video.overlay import OverlayOptions
from tempoloc_nb.video.stamp import StampStyle, read_stamp, stamp, stamp_style

PIXELS = study_functions("03")

RECIPE = {4: 1.07, 8: 1.5, 12: 1.85, 16: 2.13}


# --- sizes


@pytest.mark.parametrize(("fps", "c"), RECIPE.items())
def test_the_recipe_is_the_special_case(fps, c):
    assert stamp_style(512, 512, 7 * fps) == StampStyle(int(28 * c), int(20 * c))
    assert stamps.stamp_coefficient(512, 512, 7 * fps) == pytest.approx(c, abs=0.013)


@given(st.integers(160, 2000), st.integers(160, 2000), st.floats(1, 3000), st.floats(0.1, 2000))
def test_style_fits_and_stays_legible(width, height, frames, longest):
    style = stamp_style(width, height, frames, longest)
    assert style.border <= height / 4 + 1
    font = stamps._load_font(style.font)
    assert font.getlength(stamps.stamp_text(longest)) <= width
    strip = np.zeros((style.border, width), np.uint8)
    stamps.draw_stamp(strip, stamps.stamp_text(longest), style.font)
    assert strip.max() > 200


@given(st.integers(160, 2000), st.integers(160, 2000), st.floats(1, 3000), st.floats(0.1, 2000))
def test_a_text_fits_half_the_width_under_a_border_of_the_same_height(width, height, frames, longest):
    style, plain = (stamp_style(width, height, frames, longest, stamps=s) for s in ("alternate", "frame"))
    assert (style.border, style.font <= plain.font) == (plain.border, True)
    strip = np.zeros((style.border, width), np.uint8)
    for k in (0, 1):
        stamps.draw_stamp(strip, stamps.stamp_text(longest), style.font, column=(k, 2))
        halves = strip[:, : width // 2], strip[:, width // 2 :]
        assert (halves[k].max() > 200, halves[1 - k].max()) == (True, 0)


def test_the_font_alone_shrinks_for_half_the_width():
    assert stamp_style(256, 256, 1, coefficient=64 / 28) == StampStyle(64, 45)
    assert stamp_style(256, 256, 1, coefficient=64 / 28, stamps="alternate") == StampStyle(64, 33)
    with pytest.raises(TempolocError, match="too small"):
        stamp_style(60, 120, 10, stamps="alternate")


def test_too_small():
    with pytest.raises(TempolocError, match="too small"):
        stamp_style(24, 24, 10)


# --- drawing


@pytest.mark.parametrize("size", [9, 20, 30, 37, 61])
@pytest.mark.parametrize("text", ["0.00s", "12.34s", "5678.90s"])
def test_cached_glyphs_draw_what_pillow_draws(size, text):
    width = size * 8
    strip = np.zeros((2 * size, width), np.uint8)
    stamps.draw_stamp(strip, text, size)
    whole = Image.new("L", (width, 3 * size))
    path = data_dir() / "fonts" / "DejaVuSansMono-digits.ttf"
    font = ImageFont.truetype(str(path), size, layout_engine=ImageFont.Layout.BASIC)
    ImageDraw.Draw(whole).text((0, 0), text, font=font, fill=255)
    ours = Image.fromarray(strip)
    np.testing.assert_array_equal(np.asarray(ours.crop(ours.getbbox())), np.asarray(whole.crop(whole.getbbox())))
    left, top, right, bottom = ours.getbbox()
    assert abs(left - (width - right)) <= size / 4  # centred, up to the characters' side bearings
    assert abs(top - (2 * size - bottom)) <= 3


def test_drawing_refuses_what_does_not_fit():
    with pytest.raises(TempolocError, match="does not fit"):
        stamps.draw_stamp(np.zeros((20, 40), np.uint8), "12.34s", 20)
    with pytest.raises(TempolocError, match="does not fit a border of 65×28"):
        stamps.draw_stamp(np.zeros((28, 130), np.uint8), "12.34s", 20, column=(1, 2))


@pytest.mark.parametrize("scale", [1.0, 0.6])
@pytest.mark.parametrize("text", ["0.00s", "12.34s", "110.17s"])
@pytest.mark.parametrize("column", [(0, 1), (0, 2), (1, 2)])
def test_a_stamp_is_read_wherever_it_stands(column, text, scale):
    strip = np.zeros((42, 301), np.uint8)
    stamps.draw_stamp(strip, text, 30, column=column)
    size = round(301 * scale), round(42 * scale)
    seen = np.asarray(Image.fromarray(strip).resize(size, Image.Resampling.BICUBIC), dtype=np.float32)
    assert read_stamp(seen, 30, (size[0] / 301, size[1] / 42)) == text


@pytest.mark.parametrize(
    ("shape", "dtype", "time", "match"),
    [
        ((2, 64, 64, 4), np.uint8, 0.0, r"not \(64, 64, 4\) of uint8"),
        ((2, 64, 64), np.uint8, 0.0, r"not \(64, 64\) of uint8"),
        ((2, 64, 64, 3), np.float32, 0.0, "of float32"),
        ((2, 64, 64, 3), np.uint8, float("nan"), "not nan"),
        ((2, 64, 64, 3), np.uint8, -1.0, "not -1"),
    ],
)
def test_other_pictures_and_times_are_refused(shape: tuple[int, ...], dtype: type, time: float, match: str) -> None:
    with pytest.raises(TempolocError, match=match):
        stamp(np.zeros(shape, dtype), [time, 1.0])


@pytest.mark.parametrize("width", [256, 511, 640])
def test_alternate_places_the_ink_as_nvidias_tool_does(width):
    """Under a border of 28 pixels, at a font of 20, `overlay_text` of Cosmos-Reason1 centres frame i in half i % 2.

    Its "0.00s" has ink in columns 99 to 155 of 512, and "0.12s" in 355 to 411; the ink is 15 rows high, from row 10 on.
    Ours is centred from top to bottom, as for the other kinds: 4 rows higher.
    """
    out = stamp(np.zeros((4, 64, width, 3), np.uint8), [0.0, 0.125, 0.25, 0.375], StampStyle(28, 20), "alternate")
    for k, border in enumerate(out[:, 64:, :, 0]):
        rows, columns = np.nonzero(border > 110)
        shift = k % 2 * (width // 2) + width // 4 - 128
        assert abs(columns.min() - (99 + shift)) <= 1
        assert abs(columns.max() - (155 + shift)) <= 1
        assert (rows.min(), rows.max()) == (10 - 4, 24 - 4)


# --- in memory


def test_stamp_shapes_and_pixels():
    frames = np.stack(list(scene(5, 130, 97)))
    before = frames.copy()
    style = StampStyle(28, 20)
    out = stamp(frames, [0.0, 0.1, 0.2, 0.3, 0.4], style)
    assert out.shape == (5, 97 + 28, 130, 3)
    np.testing.assert_array_equal(out[:, :97], before)
    np.testing.assert_array_equal(frames, before)
    border = out[:, 97:]
    assert (border[..., 0] == border[..., 1]).all()
    assert (border.max(axis=(1, 2, 3)) == 255).all()
    assert [read_stamp(b[..., 0].astype(np.float32), 20) for b in border] == [
        "0.00s",
        "0.10s",
        "0.20s",
        "0.30s",
        "0.40s",
    ]


def test_stamp_by_pair():
    frames = list(scene(5, 160, 120))
    times = [0.0, 0.125, 0.25, 0.375, 0.5]
    assert stamps.pair_times(times) == [0.0625, 0.0625, 0.3125, 0.3125, 0.5]
    out = stamp(frames, times, stamps="pair")[:, 120:]
    assert (out[0] == out[1]).all()
    assert (out[2] == out[3]).all()
    assert (out[1] != out[2]).any()


def test_both_times_of_a_pair_are_read_after_its_frames_are_merged():
    times = [12.25, 12.38, 12.5, 12.62]
    style = stamp_style(256, 256, 4, max(times), stamps="alternate")
    out = stamp(np.zeros((4, 256, 256, 3), np.uint8), times, style, "alternate")[:, 256:, :, 0].astype(np.float32)
    merged = out.reshape(2, 2, style.border, 2, 128).mean(axis=1)  # (pair, row, half, column)
    read = [read_stamp(merged[pair, :, half], style.font) for pair in (0, 1) for half in (0, 1)]
    assert read == [stamps.stamp_text(t) for t in times]
    assert [read_stamp(border, style.font) for border in out] == read


def test_stamp_bad_input():
    frames = list(scene(3, 160, 120))
    with pytest.raises(TempolocError, match="3 frames and 2 times"):
        stamp(frames, [0.0, 0.1])
    with pytest.raises(TempolocError, match="0 frames"):
        stamp([], [])
    with pytest.raises(TempolocError, match="unknown stamps 'none': choose one of alternate, frame, pair"):
        stamp(frames, [0.0, 0.1, 0.2], stamps="none")


@pytest.mark.parametrize(
    "bad",
    [
        {"stamps": "none"}, {"fps": 0}, {"fps": float("nan")}, {"assume_fps": -1}, {"coefficient": 0}, {"crf": 99},
        {"preset": "quick"},
    ],
)
def test_bad_options(bad):
    with pytest.raises(TempolocError, match=next(iter(bad))):
        OverlayOptions(**bad)


# --- which time


def test_times_of_a_file(tmp_path):
    info = video.probe(write_clip(tmp_path / "a.mp4", 30, pts=[45 + 6 * i for i in range(30)]))  # 5 fps from 1.5 s on
    assert overlay.frame_stamps(info, OverlayOptions()) == pytest.approx([i / 5 for i in range(30)])
    assert overlay.frame_stamps(info, OverlayOptions(assume_fps=30)) == [i / 30 for i in range(30)]
    pairs = overlay.frame_stamps(info, OverlayOptions(stamps="pair"))
    assert pairs == pytest.approx([0.1 + 0.4 * (i // 2) for i in range(30)])
    sides = OverlayOptions(stamps="alternate")
    assert overlay.frame_stamps(info, sides) == overlay.frame_stamps(info, OverlayOptions())
    assert overlay._frame_columns(info, sides) == [(i % 2, 2) for i in range(30)]
    assert set(overlay._frame_columns(info, OverlayOptions(stamps="pair"))) == {(0, 1)}


@pytest.mark.parametrize("fps", [3, 4, 8, 12])
def test_a_sampled_file_alternates_and_its_frames_are_those_stamped_in_memory(tmp_path, fps):
    source, target = write_clip(tmp_path / "a.mp4", 60, (256, 256)), tmp_path / "out.mp4"
    options = OverlayOptions(fps=fps, stamps="alternate", crf=8)
    overlay.stamp_video(source, target, options)
    style, frames = overlay.video_style(video.probe(source), options), video.read(source, fps)
    memory = stamp(frames.images, frames.times, style, "alternate")[:, 256:, :, 0]
    file = video.read(target, fps).images[:, 256:].mean(axis=3).astype(np.float32)[:, : style.border]
    assert np.abs(file - memory).mean() < 4
    assert [read_stamp(border, style.font) for border in file] == [stamps.stamp_text(t) for t in frames.times]
    ink = [np.flatnonzero((border > 110).any(axis=0)).mean() > 128 for border in file]
    assert ink == [k % 2 == 1 for k in range(len(file))]


def test_readers_that_spread_their_frames_meet_one_side_twice_in_some_pairs(tmp_path):
    """qwen-vl-utils takes frames evenly from the first to the last: `sft.facts` warns of it."""
    info = video.probe(write_clip(tmp_path / "a.mp4", 240, (64, 64)))
    sides = [number for number, _ in overlay._frame_columns(info, OverlayOptions(fps=8, stamps="alternate"))]
    seen = np.array([sides[round(i)] for i in np.linspace(0, info.n_frames - 1, 64)]).reshape(-1, 2)
    assert (seen[:, 0] == seen[:, 1]).mean() == 0.25


def test_pairs_of_a_file_agree_with_pairs_in_memory(tmp_path):
    info = video.probe(write_clip(tmp_path / "a.mp4", 60))
    for fps in (4, 8, 12):
        written = overlay.frame_stamps(info, OverlayOptions(fps=fps, stamps="pair"))
        sampled = video.sample_indices(info.times, info.duration, fps)
        assert [written[i] for i in sampled] == stamps.pair_times([info.times[i] for i in sampled])
        assert written == sorted(written)


# --- files


@pytest.mark.parametrize(
    ("name", "pts", "base", "size"),
    [
        ("ntsc.mp4", [i * 1001 for i in range(40)], Fraction(1, 24_000), (160, 120)),
        ("late.mkv", [45 + i for i in range(40)], Fraction(1, 30), (160, 120)),
        ("uneven.mp4", [0, 10, 20, 30, 60, 90, 95, 100, 200, 300], Fraction(1, 300), (160, 120)),
        ("five.mp4", [6 * i for i in range(20)], Fraction(1, 30), (160, 120)),
    ],
)
def test_pts_are_kept(tmp_path, name, pts, base, size):
    source = write_clip(tmp_path / name, len(pts), size, pts=pts, time_base=base)
    target = tmp_path / "out.mp4"
    assert overlay.stamp_video(source, target)
    before, after = video.probe(source), video.probe(target)
    assert after.times == pytest.approx(before.times, abs=1e-6)
    assert after.first_pts == pytest.approx(before.first_pts, abs=1e-6)
    assert after.variable_rate == before.variable_rate
    assert (after.codec, after.pixel_format, after.width) == ("h264", "yuv420p", size[0])


@pytest.mark.parametrize("size", [(160, 120), (161, 120), (160, 121), (161, 121)])
@pytest.mark.parametrize("pixel_format", ["yuv420p", "yuv444p"])
def test_the_picture_is_kept(tmp_path, size, pixel_format):
    codec = "libx264" if pixel_format == "yuv444p" else "ffv1"  # H.264 cannot hold odd sizes in yuv420p
    suffix = "mp4" if codec == "libx264" else "mkv"
    source = write_clip(tmp_path / f"a.{suffix}", 12, size, codec=codec, pixel_format=pixel_format)
    target = tmp_path / "out.mp4"
    overlay.stamp_video(source, target, OverlayOptions(crf=10))
    before, after = video.read(source).images, video.read(target).images
    height, width = size[1] + size[1] % 2, size[0] + size[0] % 2
    style = stamp_style(*size, 12 / 30 * 8)
    assert after.shape == (12, height + style.border + style.border % 2, width, 3)
    picture = after[:, : size[1] - 1, : size[0] - 1].astype(int)  # the last share chroma with padding
    assert np.abs(picture - before[:, : size[1] - 1, : size[0] - 1]).mean() < 4
    border = after[:, height:].mean(axis=3)
    assert border[:, :2].max() < 24
    assert [read_stamp(b.astype(np.float32), style.font) for b in border] == [
        stamps.stamp_text(i / 30) for i in range(12)
    ]


def test_full_range_and_rotation(tmp_path):
    """A yuvj420p source keeps its brightness; a rotated one is stamped upright."""
    source = write_clip(tmp_path / "full.mp4", 6, (160, 120), pixel_format="yuvj420p")
    overlay.stamp_video(source, tmp_path / "full_out.mp4", OverlayOptions(crf=8))
    before, after = video.read(source).images, video.read(tmp_path / "full_out.mp4").images
    assert abs(after[:, :119].mean() - before[:, :119].mean()) < 2
    assert after[:, 122:].min() < 8
    assert after[:, 122:].max() > 245
    plain = write_clip(tmp_path / "a.mp4", 6, (160, 120))
    data = plain.read_bytes()
    word = lambda *values: b"".join(v.to_bytes(4, "big", signed=True) for v in values)  # noqa: E731
    unit = word(65_536, 0, 0, 0, 65_536, 0, 0, 0, 1 << 30)
    where = data.index(unit, data.index(b"tkhd"))
    turned = tmp_path / "turned.mp4"
    turned.write_bytes(data[:where] + word(0, -65_536, 0, 65_536, 0, 0, 0, 0, 1 << 30) + data[where + 36 :])
    overlay.stamp_video(turned, tmp_path / "turned_out.mp4", OverlayOptions(crf=8))
    result = video.probe(tmp_path / "turned_out.mp4")
    assert (result.rotation, result.width) == (0, 120)
    upright = video.read(tmp_path / "turned_out.mp4").images[:, :160]
    assert np.abs(upright.astype(int) - video.read(turned).images).mean() < 4


@pytest.mark.parametrize("matrix", [1, 5])  # ITU-R BT.709 and BT.601
def test_colours_are_kept(tmp_path, matrix):
    """The file's colour matrix is copied: without it a BT.709 clip would change its colours."""
    frames = [np.full((96, 160, 3), colour, np.uint8) for colour in ([200, 30, 40], [20, 190, 60], [30, 60, 210])]
    with av.open(str(tmp_path / "a.mp4"), "w") as container:
        stream = container.add_stream("libx264", rate=30, options={"crf": "5"})
        stream.width, stream.height, stream.pix_fmt = 160, 96, "yuv420p"
        stream.codec_context.colorspace = matrix
        for image in frames:
            for packet in stream.encode(
                av.VideoFrame.from_ndarray(image, format="rgb24").reformat(format="yuv420p", dst_colorspace=matrix)
            ):
                container.mux(packet)
        for packet in stream.encode(None):
            container.mux(packet)
    overlay.stamp_video(tmp_path / "a.mp4", tmp_path / "b.mp4", OverlayOptions(crf=5))
    stamped = video.read(tmp_path / "b.mp4").images[:, :94].astype(int)
    assert np.abs(stamped - np.stack(frames)[:, :94]).max() < 12


def folder_of_clips(folder):
    folder.mkdir()
    for k in range(3):
        write_clip(folder / f"c{k}.mp4", 20 + k, (160, 120), seed=k)
    (folder / "deep").mkdir()
    write_clip(folder / "deep" / "d.mkv", 20, (160, 120))
    (folder / "notes.txt").write_text("not a video")
    return folder


def test_folder(tmp_path):
    source, target = folder_of_clips(tmp_path / "in"), tmp_path / "out"
    summary = overlay.stamp_videos(source, target, workers=2)
    assert summary.written == ("c0.mp4", "c1.mp4", "c2.mp4", "deep/d.mkv")
    assert (summary.up_to_date, summary.failed) == ((), ())
    assert sorted(str(p.relative_to(target)) for p in target.rglob("*") if p.is_file()) == [
        "c0.mp4",
        "c1.mp4",
        "c2.mp4",
        "deep/d.mp4",
    ]
    assert "4 stamped, 0 up to date, 0 failed" in str(summary)


def test_up_to_date_files_are_skipped_and_only_those(tmp_path):
    source, target = folder_of_clips(tmp_path / "in"), tmp_path / "out"
    overlay.stamp_videos(source, target)
    again = overlay.stamp_videos(source, target)
    assert (again.written, len(again.up_to_date)) == ((), 4)
    write_clip(source / "c1.mp4", 25, (160, 120), seed=9)  # a changed source
    again = overlay.stamp_videos(source, target)
    assert again.written == ("c1.mp4",)
    assert len(overlay.stamp_videos(source, target, force=True).written) == 4


@pytest.mark.parametrize("kind", ["frame", "pair", "alternate"])
def test_records_are_those_of_earlier_versions_and_only_alternate_adds_to_them(tmp_path, kind):
    source, target = write_clip(tmp_path / "a.mp4", 10, (160, 120)), tmp_path / "out.mp4"
    record = {
        "assume_fps": None, "coefficient": None, "crf": 23, "fps": 8.0, "overlay": 1, "pairs": kind == "pair",
        "preset": "medium", "source_sha256": overlay.file_hash(source), "total_pixels": 6422528,
    } | ({"stamps": kind} if kind == "alternate" else {})  # fmt: skip
    options = OverlayOptions(stamps=kind)
    assert overlay.stamp_video(source, target, options)
    with av.open(str(target)) as container:
        assert container.metadata["comment"] == json.dumps(record, sort_keys=True)
    assert overlay.stamp_video(source, target, options) is False
    assert overlay.is_stamped_so(target, options)
    others = {"frame", "pair", "alternate"} - {kind}
    assert not any(overlay.is_stamped_so(target, OverlayOptions(stamps=s)) for s in others)
    assert overlay.recorded_stamps(record) == kind


def test_two_at_once_make_the_same(tmp_path, monkeypatch):
    source = write_clip(tmp_path / "a.mp4", 10, (64, 64))
    target, other = tmp_path / "out.mp4", tmp_path / "other.mp4"
    overlay.stamp_video(source, other)

    class Late(overlay.VideoWriter):
        def write(self, frame):
            if not target.exists():  # another process has finished
                target.write_bytes(other.read_bytes())
            super().write(frame)

    monkeypatch.setattr(overlay, "VideoWriter", Late)
    assert overlay.stamp_video(source, target) is False
    assert target.read_bytes() == other.read_bytes()
    assert {p.name for p in tmp_path.iterdir()} == {"a.mp4", "out.mp4", "other.mp4"}


def test_only_what_was_stamped_so_is_replaced(tmp_path):
    source, target = folder_of_clips(tmp_path / "in"), tmp_path / "out"
    overlay.stamp_videos(source, target)
    refused = dict(overlay.stamp_videos(source, target, OverlayOptions(fps=4)).failed)
    assert len(refused) == 4
    assert refused["c0.mp4"].endswith("c0.mp4 is there already: give another name, or --force to replace it")
    mine = target / "c2.mp4"
    mine.write_bytes(mine.read_bytes()[:500])  # somebody else's, or cut off by something else
    assert [name for name, _ in overlay.stamp_videos(source, target).failed] == ["c2.mp4"]
    assert mine.stat().st_size == 500
    assert len(overlay.stamp_videos(source, target, OverlayOptions(fps=4), force=True).written) == 4
    link = tmp_path / "link.mp4"
    link.symlink_to(source / "c0.mp4")
    with pytest.raises(TempolocError, match="read and written at once"):
        overlay.stamp_video(source / "c0.mp4", link, force=True)


def test_bad_files_are_named_and_the_others_finish(tmp_path):
    source, target = folder_of_clips(tmp_path / "in"), tmp_path / "out"
    expected = broken_files(source)
    target.mkdir()
    (target / "empty.mp4").write_bytes(b"kept")
    summary = overlay.stamp_videos(source, target, workers=2)
    failed = dict(summary.failed)
    assert sorted(failed) == sorted(expected)
    for name, words in expected.items():
        assert words in failed[name]
        assert "\n" not in failed[name]
    assert len(summary.written) == 4
    assert (target / "empty.mp4").read_bytes() == b"kept"
    assert not [p for p in target.rglob("*") if p.name.startswith(".")]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_unreadable_file(tmp_path):
    source = folder_of_clips(tmp_path / "in")
    (source / "c0.mp4").chmod(0)
    summary = overlay.stamp_videos(source, tmp_path / "out")
    assert [name for name, _ in summary.failed] == ["c0.mp4"]
    assert "permission" in summary.failed[0][1].lower()


def test_unwritable_output_is_reported_per_file(tmp_path):
    source = folder_of_clips(tmp_path / "in")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "deep").write_text("a file where a folder must be")
    summary = overlay.stamp_videos(source, tmp_path / "out")
    assert [name for name, _ in summary.failed] == ["deep/d.mkv"]
    assert len(summary.written) == 3


def test_bad_folders(tmp_path):
    source = folder_of_clips(tmp_path / "in")
    (tmp_path / "none").mkdir()
    (tmp_path / "file").write_text("")
    for a, b, message in [
        (tmp_path / "missing", tmp_path / "out", "no such video or folder"),
        (source / "c0.mp4", source, "input folder"),
        (tmp_path / "none", tmp_path / "out", "no videos"),
        (source, source, "input folder"),
        (source, tmp_path / "file", "must be a folder"),
        (source / "c0.mp4", tmp_path / "stamped.mp4", "must be a folder"),
    ]:
        with pytest.raises(TempolocError, match=message):
            overlay.stamp_videos(a, b)
    write_clip(source / "c0.mkv", 5, (160, 120))
    with pytest.raises(TempolocError, match=r"would both become c0\.mp4"):
        overlay.stamp_videos(source, tmp_path / "out")


def test_one_video_is_stamped_alone(tmp_path):
    source = folder_of_clips(tmp_path / "in")
    done = overlay.stamp_videos(source / "c0.mp4", tmp_path / "out")
    assert done.written == ("c0.mp4",)
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["c0.mp4"]


def test_output_inside_input_is_not_read_again(tmp_path):
    source = folder_of_clips(tmp_path / "in")
    overlay.stamp_videos(source, source / "stamped")
    assert len(overlay.stamp_videos(source, source / "stamped").up_to_date) == 4


def test_an_interrupt_leaves_nothing_behind(tmp_path):
    source = write_clip(tmp_path / "a.mp4", 20, (160, 120))
    stop = threading.Event()
    stop.set()
    with pytest.raises(TempolocError, match="interrupted"):
        overlay.stamp_video(source, tmp_path / "out" / "a.mp4", stop=stop)
    assert list((tmp_path / "out").iterdir()) == []


def test_audio_is_dropped(tmp_path):
    tone, silent = write_audio(tmp_path / "tone.mp4"), write_clip(tmp_path / "silent.mp4", 20, (160, 120))
    with av.open(str(tone)) as a, av.open(str(silent)) as v, av.open(str(tmp_path / "both.mp4"), "w") as out:
        streams = [out.add_stream_from_template(c.streams[0]) for c in (v, a)]
        for container, stream in zip((v, a), streams, strict=True):
            for packet in container.demux(0):
                if packet.size:
                    packet.stream = stream
                    out.mux(packet)
    assert video.probe(tmp_path / "both.mp4").has_audio
    overlay.stamp_video(tmp_path / "both.mp4", tmp_path / "out.mp4")
    assert not video.probe(tmp_path / "out.mp4").has_audio


# --- legibility: after H.264 and after the model's resize


@pytest.mark.parametrize(
    ("size", "n", "rate"), [((256, 256), 210, 30), ((512, 512), 84, 12), ((640, 360), 90, 12), ((320, 240), 60, 5)]
)
def test_digits_survive(tmp_path, size, n, rate):
    clip = write_clip(tmp_path / "a.mp4", n, size, time_base=Fraction(1, rate), rate=rate)
    for fps in (4, 8, 12):
        results = PIXELS.read_back(clip, OverlayOptions(fps=fps))
        assert {r["rule"] for r in results} == {"recipe", "qwen2.5-vl", "qwen3-vl"}
        assert min(r["digits"] for r in results) >= 3 * min(fps, rate) * n / rate * 0.9
        assert sum(r["right"] for r in results) >= 0.999 * sum(r["digits"] for r in results), fps


def test_a_long_video_stays_legible(tmp_path):
    """A minute at 8 fps is shrunk to 112 pixels by the recipe's arithmetic: 480 stamps."""
    clip = write_clip(tmp_path / "a.mp4", 480, (192, 192), time_base=Fraction(1, 8), rate=8)
    (result,) = PIXELS.read_back(clip, OverlayOptions(fps=8), rules=["recipe"])
    assert result["right"] >= 0.999 * result["digits"] > 0


def test_the_size_matters(tmp_path):
    """The control: stamps of a fixed 20 pixels are lost where adapted ones are read."""
    clip = write_clip(tmp_path / "a.mp4", 120, (640, 480), time_base=Fraction(1, 12), rate=12)
    options = OverlayOptions(fps=12)
    adapted = PIXELS.read_back(clip, options, rules=["recipe"])[0]
    fixed = PIXELS.read_back(clip, replace(options, coefficient=1.0), rules=["recipe"])[0]
    assert adapted["right"] == adapted["digits"]
    assert fixed["right"] < 0.99 * fixed["digits"]


def test_by_pair_is_legible_when_the_frames_of_a_pair_are_merged(tmp_path):
    clip = write_clip(tmp_path / "a.mp4", 72, (256, 256), time_base=Fraction(1, 8), rate=8)
    own = PIXELS.read_back(clip, OverlayOptions(fps=8), rules=["qwen2.5-vl"], blend=True)[0]
    pair = PIXELS.read_back(clip, OverlayOptions(fps=8, stamps="pair"), rules=["qwen2.5-vl"], blend=True)[0]
    assert pair["right"] == pair["digits"]
    assert own["right"] < 0.97 * own["digits"]


def test_the_reader_can_be_wrong():
    """What is not there is not read: an empty border, and a stamp that is another time."""
    assert read_stamp(np.zeros((28, 200), np.float32), 20) == ""
    assert PIXELS.count_right("12.34s", "12.84s") == (4, 3)
    assert PIXELS.count_right("12.34s", "2.34s") == (4, 0)


def test_one_frame_and_its_time_are_told_to_be_lists() -> None:
    with pytest.raises(TempolocError, match=r"stamp\(\[frame\], \[time\]\) for one"):
        stamp(np.zeros((64, 64, 3), np.uint8), 1.0)  # type: ignore[arg-type]
