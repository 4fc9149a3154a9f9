"""The motion of the pixels in videos of `which`, for study 18: the committed `motion.jsonl.xz`.

    python benchmarks/which_motion.py VIDEOS [--output FILE.jsonl.xz]

VIDEOS is the folder of their videos (`tempoloc simulate --benchmark which`). Only clips are read whose manifest has
every event, the questions `all`; one whose video is missing is left out, and counted.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.core.files import write_jsonl
from tempoloc_nb.inference.signals import pixel_motion


def main() -> None:
    """Read every video, and write a line each: its times (s), and its motion in thousandths of a grey value."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos", type=Path)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    which = load_benchmark("which")
    asked = sorted(str(c.extra["shown"]) for c in which.clips if c.extra["kind"] == "all")
    rows = []
    for name in (name for name in asked if (given.videos / f"{name}.mp4").is_file()):
        times, motion = pixel_motion(given.videos / f"{name}.mp4")
        thousandths = (1000 * motion).round().astype(int).tolist()
        rows.append({"clip": name, "times": times.round(4).tolist(), "motion": thousandths})
    out = given.output or which.root / "motion.jsonl.xz"
    write_jsonl(out, rows, force=True)
    print(f"{out}: {len(rows)} of {len(asked)} clips")


if __name__ == "__main__":
    main()
