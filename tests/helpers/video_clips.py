"""Small synthetic clips for the video and overlay tests: textured, moving, encoded by libav itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt


def scene(n: int, width: int, height: int, seed: int = 0) -> Iterator[npt.NDArray[np.uint8]]:
    """`n` RGB frames of discs that move over a textured ground."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    ground = 120 + 40 * np.sin(x / 37 + seed) + 30 * np.cos(y / 23) + rng.normal(0, 5, (height, width))
    ground = np.repeat(np.clip(ground, 0, 255).astype(np.uint8)[..., None], 3, axis=2)
    colours = ([220, 40, 30], [40, 200, 60], [40, 60, 220])
    for i in range(n):
        frame = ground.copy()
        for k, colour in enumerate(colours):
            cx, cy = width * (0.5 + 0.35 * np.sin(i / (17 + 3 * k) + k)), height * (0.5 + 0.35 * np.cos(i / 19 + k))
            frame[(x - cx) ** 2 + (y - cy) ** 2 < (min(width, height) * (0.08 + 0.02 * k)) ** 2] = colour
        yield frame


def write_clip(
    path: Path,
    n: int = 60,
    size: tuple[int, int] = (128, 96),
    *,
    pts: Sequence[int] | None = None,
    time_base: Fraction = Fraction(1, 30),
    rate: Fraction | int = 30,
    codec: str = "libx264",
    pixel_format: str = "yuv420p",
    seed: int = 0,
    options: dict[str, str] | None = None,
) -> Path:
    """A clip of `n` frames with the given PTS (default 0, 1, 2, … in units of `time_base`)."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=rate, options=options or {})
        stream.width, stream.height, stream.pix_fmt = size[0], size[1], pixel_format
        stream.codec_context.time_base = time_base
        for tick, image in zip(pts if pts is not None else range(n), scene(n, *size, seed), strict=True):
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            frame.pts, frame.time_base = tick, time_base
            for packet in stream.encode(frame):
                container.mux(packet)
        for packet in stream.encode(None):
            container.mux(packet)
    return path


def write_audio(path: Path) -> Path:
    """An MP4 with a tone and no picture."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=44_100)
        samples = np.zeros((1, 1024), dtype=np.float32)
        for k in range(20):
            frame = av.AudioFrame.from_ndarray(samples, format="fltp", layout="mono")
            frame.sample_rate, frame.pts = 44_100, 1024 * k
            for packet in stream.encode(frame):
                container.mux(packet)
        for packet in stream.encode(None):
            container.mux(packet)
    return path


def broken_files(folder: Path) -> dict[str, str]:
    """File name → what its error must say, after writing each bad file into `folder`."""
    whole = write_clip(folder / "whole.mp4", 60, (256, 192)).read_bytes()
    (folder / "no_index.mp4").write_bytes(whole[: len(whole) // 2])
    moved = write_clip(folder / "moved.mp4", 60, (256, 192), options={"bf": "0"})
    index_first = {"movflags": "faststart"}
    with av.open(str(moved)) as source, av.open(str(folder / "fast.mp4"), "w", options=index_first) as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.size:
                packet.stream = stream
                target.mux(packet)
    fast = (folder / "fast.mp4").read_bytes()
    (folder / "cut_off.mp4").write_bytes(fast[: int(len(fast) * 0.6)])
    damaged = bytearray(whole)
    start = len(damaged) // 3
    damaged[start : start + 4000] = b"\xff" * 4000
    (folder / "damaged.mp4").write_bytes(damaged)
    (folder / "empty.mp4").write_bytes(b"")
    (folder / "text.mp4").write_text("not a video")
    write_audio(folder / "audio.mp4")
    for name in ("whole.mp4", "moved.mp4", "fast.mp4"):
        (folder / name).unlink()
    return {
        "no_index.mp4": "damaged",
        "cut_off.mp4": "cut off",
        "damaged.mp4": "damaged",
        "empty.mp4": "empty",
        "text.mp4": "damaged",
        "audio.mp4": "no video stream",
    }
