"""Time of `tempoloc dataset build` for as many samples as the recipe trains on (3,644).

The shipped clips under other names. So that none is taken for a copy of another, the words in which x264 notes its
settings in the coded pictures are different in each; no decoder reads them. Times are wall time of whole commands in
fresh processes: copying the videos, linking them, and copying with every frame decoded. Stamping encodes each clip and
is measured on fewer; for the recipe that is a step of its own (`tempoloc overlay`).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from tempoloc_nb.clips.manifest import load_benchmark, write_manifest
from tempoloc_nb.core.files import write_json
from tempoloc_nb.core.settings import data_dir

SAMPLES = 3644
TARGET_S = 120.0
RUN = "import sys; from tempoloc_nb.cli.data import app; app(sys.argv[1:])"


def make_clips(folder: Path, count: int) -> Path:
    """A manifest of `count` clips whose videos differ in the text that x264 left in the first picture."""
    benchmark = load_benchmark("sim")
    shipped = benchmark.with_videos()
    made = []
    (folder / "videos").mkdir(parents=True)
    for number in range(count):
        clip = shipped[number % len(shipped)]
        name, note = f"videos/{number}.mp4", b"x264 - core"
        data = clip.video_path(benchmark.root).read_bytes()
        assert data.count(note) == 1, clip.clip
        (folder / name).write_bytes(data.replace(note, f"{number:011d}".encode()))
        made.append(replace(clip, clip=f"{clip.task}/{number}", video=name, seed=number))
    for task in benchmark.tasks:
        (folder / f"{task}.toml").write_bytes((data_dir() / "tasks" / "sim" / f"{task}.toml").read_bytes())
    write_manifest(folder / "manifest.jsonl", made)
    return folder / "manifest.jsonl"


def run(manifest: Path, output: Path, *options: str) -> tuple[float, dict[str, object]]:
    """Seconds of one command, and its summary."""
    began = time.monotonic()
    arguments = ["build", "--manifest", str(manifest), "-o", str(output), *options]
    subprocess.run([sys.executable, "-c", RUN, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began, json.loads((output / "summary.json").read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=SAMPLES)
    parser.add_argument("--stamped", type=int, default=60, help="clips that are stamped; 0 for none")
    parser.add_argument("--json", type=Path, help="write the figures here")
    given = parser.parse_args()
    ways = {"copy": [], "link": ["--link"], "copy, every frame decoded": ["--check-frames"]}
    results: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        manifest = make_clips(folder / "clips", given.samples)
        for way, options in ways.items():
            seconds, summary = run(manifest, folder / way.replace(" ", "_"), "--stamping", "later", *options)
            kept = summary["kept"]
            assert kept == given.samples, summary["dropped"]
            print(f"{way:28} {seconds:7.1f} s for {kept} of {given.samples} samples")
            results[way] = {"seconds": round(seconds, 1), "samples": kept}
        if given.stamped:
            few = make_clips(folder / "few", given.stamped)
            seconds, summary = run(few, folder / "stamped", "--stamps", "pair")
            print(f"{'stamped':28} {seconds:7.1f} s for {summary['samples']} samples")
            results["stamped"] = {"seconds": round(seconds, 1), "samples": summary["kept"]}
    took = results["copy"]["seconds"]  # type: ignore[index]
    print(f"target: {TARGET_S:g} s on 2 cores; {took / TARGET_S:.2f} of it on {len(os.sched_getaffinity(0))}")
    if given.json:
        machine = {"cores": len(os.sched_getaffinity(0)), "python": platform.python_version()}
        write_json(given.json, {"target_seconds": TARGET_S, "machine": machine, "results": results})


if __name__ == "__main__":
    main()
