"""Speed, quality and memory of `tempoloc overlay` against a plain transcode and the recipe's own script.

One run, two cores for every program, the same preset, crf and stamp size (28 and 20 pixels × 1.5, as the recipe's
script writes). It needs, besides this package:

- an `ffmpeg` binary with libx264;
- the recipe's `add_timestamps_to_all_videos_adaptive.py`, unmodified, from a checkout of nvidia-cosmos/cosmos-cookbook
  (--recipe-script or TEMPOLOC_RECIPE_SCRIPT), and a Python with opencv-python-headless, matplotlib, pillow and numpy to
  run it (--recipe-python or TEMPOLOC_RECIPE_PYTHON). Without them the rows about the recipe are left out, and the
  script says so.

The recipe's script imports one configuration class from cosmos_reason1_utils, which would import torch. A stand-in of
those five fields takes its place, in a temporary folder: the recipe's time then leaves out the import of torch.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import av
import numpy as np

from tempoloc_nb.core.settings import data_dir
from tempoloc_nb.video.files import probe, video_frames
from tempoloc_nb.video.overlay import OverlayOptions, stamp_video

OPTIONS = OverlayOptions(fps=8, coefficient=1.5)  # the recipe's border and font
CORES = 2
STAND_IN = '''
from dataclasses import dataclass

@dataclass
class OverlayConfig:
    border_height: int = 28
    temporal_path_size: int = 2
    font_family: str = "DejaVu Sans Mono"
    font_size: int = 20
    font_color: str = "white"
'''
OURS = f"""
import sys
from tempoloc_nb.video.overlay import OverlayOptions, stamp_videos
summary = stamp_videos(sys.argv[1], sys.argv[2], OverlayOptions(**{asdict(OPTIONS)}), workers={CORES})
sys.exit(bool(summary.failed))
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one command with all its children: seconds, and the largest resident set of any one process (MB)."""

    wall: float
    cpu: float
    rss: float


def measure(commands: list[list[str]], env: dict[str, str] | None = None) -> Cost:
    """Run the commands one after the other; raises if one fails."""
    wall = cpu = rss = 0.0
    for command in commands:
        began = time.perf_counter()
        with tempfile.TemporaryFile() as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **(env or {})})
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode:
                log.seek(0)
                raise SystemExit(f"{command[0]} failed:\n{log.read().decode(errors='replace')[-2000:]}")
        wall += time.perf_counter() - began
        cpu += usage.ru_utime + usage.ru_stime
        rss = max(rss, usage.ru_maxrss / 1024)
    return Cost(wall, cpu, rss)


def ours(source: Path, target: Path) -> Cost:
    shutil.rmtree(target, ignore_errors=True)
    return measure([[sys.executable, "-c", OURS, str(source), str(target)]])


def transcode(source: Path, target: Path) -> Cost:
    """A single-pass ffmpeg transcode of each clip, nothing drawn."""
    target.mkdir(exist_ok=True)
    settings = ["-c:v", "libx264", "-preset", OPTIONS.preset, "-crf", str(OPTIONS.crf), "-threads", str(CORES)]
    return measure([
        ["ffmpeg", "-v", "error", "-y", "-i", str(clip), *settings, str(target / clip.name)]
        for clip in sorted(source.glob("*.mp4"))
    ])


def recipe(source: Path, target: Path, python: str, script: Path, utils: Path) -> Cost:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    return measure([[python, str(script), "-i", str(source), "-o", str(target)]], {"PYTHONPATH": str(utils)})


def luma(path: Path, height: int, width: int) -> Iterator[np.ndarray]:
    for _, frame in video_frames(path, probe(path)):
        plane = frame.to_ndarray(format="yuv420p")
        yield plane[:height, :width].astype(np.float32)


def psnr(source: Path, result: Path) -> float:
    """Of the luma of the picture area, over all frames (dB)."""
    info = probe(source)
    size = (info.height, info.width)
    errors = [
        float(np.mean((a - b) ** 2)) for a, b in zip(luma(source, *size), luma(result, *size), strict=True)
    ]
    return 10 * math.log10(255**2 / statistics.fmean(errors))


def psnr_at(source: Path, size: int, folder: Path) -> float:
    """Our PSNR where our file has `size` bytes, interpolated over crf in log bytes."""
    points = []
    for crf in range(18, 33, 2):
        target = folder / f"crf{crf}.mp4"
        stamp_video(source, target, replace(OPTIONS, crf=crf))
        points.append((math.log(target.stat().st_size), psnr(source, target)))
    points.sort()
    return float(np.interp(math.log(size), *zip(*points, strict=True)))


def pick_clips(videos: Path, n: int, folder: Path) -> list[Path]:
    """`n` clips spread over the families of `videos`, copied flat into `folder` as the recipe's script wants them."""
    found = sorted(videos.rglob("*.mp4"))
    if not found:
        raise SystemExit(f"{videos}: no .mp4 files")
    chosen = [found[i * len(found) // n] for i in range(n)] if n < len(found) else found
    folder.mkdir()
    return [Path(shutil.copy(clip, folder / f"{clip.parent.name}-{clip.name}")) for clip in chosen]


def long_clip(clip: Path, minutes: float, target: Path) -> Path:
    """`clip` over and over, without re-encoding."""
    loop = ["ffmpeg", "-v", "error", "-y", "-stream_loop", "-1", "-i", str(clip), "-t", str(60 * minutes)]
    measure([[*loop, "-c", "copy", str(target)]])
    return target


def repeat(runs: int, programs: dict[str, Callable[[], Cost]]) -> dict[str, list[Cost]]:
    """Each program `runs` times, in turns, so that what else the machine does falls on all of them."""
    costs: dict[str, list[Cost]] = {name: [] for name in programs}
    for turn in range(runs):
        for name, program in programs.items():
            cost = program()
            costs[name].append(cost)
            print(f"  run {turn + 1}, {name}: {cost.wall:.2f} s wall, {cost.cpu:.2f} s CPU", flush=True)
    return costs


def row(name: str, value: float, reference: float, ratio: float, target: str, met: bool) -> dict[str, object]:
    return {"measure": name, "ours": value, "reference": reference, "ratio": ratio, "target": target, "met": met}


def benchmark(arguments: argparse.Namespace, folder: Path) -> list[dict[str, object]]:
    clips = pick_clips(arguments.videos, arguments.clips, folder / "in")
    source = folder / "in"
    programs: dict[str, Callable[[], Cost]] = {
        "ours": lambda: ours(source, folder / "ours"),
        "transcode": lambda: transcode(source, folder / "transcode"),
    }
    if arguments.recipe_script:
        package = folder / "utils" / "cosmos_reason1_utils"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "vision.py").write_text(STAND_IN)
        programs["recipe"] = lambda: recipe(
            source, folder / "recipe", arguments.recipe_python, arguments.recipe_script, folder / "utils"
        )
    costs = repeat(arguments.repeats, programs)
    middle = {name: {key: statistics.median(asdict(c)[key] for c in runs) for key in ("wall", "cpu", "rss")}
              for name, runs in costs.items()}
    mine, plain = middle["ours"], middle["transcode"]
    rows = [row("CPU seconds against a transcode", mine["cpu"], plain["cpu"], mine["cpu"] / plain["cpu"], "≤ 1.15",
                mine["cpu"] <= 1.15 * plain["cpu"])]
    if "recipe" in middle:
        theirs = middle["recipe"]
        faster = theirs["wall"] / mine["wall"]
        rows.append(row("wall seconds against the recipe (ratio: times faster)", mine["wall"], theirs["wall"], faster,
                        "≥ 1.5", faster >= 1.5))
        gains = []
        for clip in clips[:: max(1, len(clips) // arguments.quality_clips)]:
            output = folder / "recipe" / clip.name
            gains.append((psnr_at(clip, output.stat().st_size, folder), psnr(clip, output)))
        a, b = (statistics.fmean(values) for values in zip(*gains, strict=True))
        rows.append(row("PSNR (dB) at the recipe's bytes (ratio: dB gained)", a, b, a - b, "≥ 0", a >= b))
    single = folder / "long"
    for minutes in (arguments.minutes / 10, arguments.minutes):
        shutil.rmtree(single, ignore_errors=True)
        single.mkdir()
        long_clip(clips[0], minutes, single / "long.mp4")
        rss = ours(single, folder / "long_out").rss
        rows.append(row(f"peak memory (MB), one {minutes:g} min clip", rss, 300, rss / 300, "< 300 MB", rss < 300))
    rows.append(row("peak memory (MB), two clips at a time", mine["rss"], 300, mine["rss"] / 300, "< 300 MB",
                    mine["rss"] < 300))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--videos", type=Path, default=data_dir() / "benchmarks" / "sim" / "videos")
    parser.add_argument("--clips", type=int, default=16)
    parser.add_argument("--quality-clips", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=10.0, help="length of the clip for the memory row")
    parser.add_argument("--recipe-script", type=Path, default=os.environ.get("TEMPOLOC_RECIPE_SCRIPT"))
    parser.add_argument("--recipe-python", default=os.environ.get("TEMPOLOC_RECIPE_PYTHON", sys.executable))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "overlay_speed.json")
    arguments = parser.parse_args()
    if not shutil.which("ffmpeg"):
        raise SystemExit("this benchmark compares with ffmpeg: install the ffmpeg binary")
    if not arguments.recipe_script:
        print("no --recipe-script: the rows about the recipe are left out")
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    with tempfile.TemporaryDirectory() as folder:
        rows = benchmark(arguments, Path(folder))
    lines = ["| measure | ours | reference | ratio | target | met |", "|---|---:|---:|---:|---|---|"]
    lines += [f"| {r['measure']} | {r['ours']:.2f} | {r['reference']:.2f} | {r['ratio']:.2f} | {r['target']}"
              f" | {'yes' if r['met'] else '**no**'} |" for r in rows]
    print("\n".join(lines))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps({
        "options": asdict(OPTIONS), "cores": CORES, "clips": arguments.clips, "repeats": arguments.repeats,
        "python": platform.python_version(), "pyav": av.__version__, "rows": rows,
    }, indent=1) + "\n")


if __name__ == "__main__":
    main()
