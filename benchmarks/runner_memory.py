"""What the runner itself costs: memory for the keys of earlier answers, memory and time a request.

Every measurement is a fresh process; memory is its peak resident set above that of a run with nothing to do. The back
end answers at once with an answer of usual length, so that all of the time is the runner's: planning, hashing, writing
and syncing. All clips share one video, which is read once.

With `--engine MODEL` a vLLM engine answers instead, each request decoded and shown to it, a clip of a second, with
answers of two tokens: the memory of a whole run, of this process and of the engine's together (on Linux). The engine's
grows until vLLM's cache of frames, 0.5 GB (`backend_vllm.engine_arguments`), is full.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.engines.protocol import Request, Response, row_seed
from tempoloc_nb.inference.run import answer_clips
from tempoloc_nb.inference.store import read_keys
from tempoloc_nb.models.ask import AskConfig, Sampling
from tempoloc_nb.scoring.answers import answer_text
from tempoloc_nb.video.files import encode

TRIALS = 10


class Instant:
    """Answers at once."""

    name, model = "instant", "instant"

    def settings(self) -> dict[str, Any]:
        return {}

    def stream(self, requests: Sequence[Request], sampling: Sampling) -> Iterator[tuple[Request, list[Response]]]:
        for r in requests:
            text = answer_text(r.labels, [1.0 + i for i in range(len(r.labels))], 60.0)
            yield r, [Response(t, text, row_seed(0, r.clip, t), "stop", 900, 100, 560, r.fps, 0.3) for t in r.trials]


def peak_mb() -> float:
    """Peak resident set of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6


def measure_run(clips: int) -> dict[str, float | int]:
    """Ask about `clips` clips."""
    sim = load_benchmark("sim")
    clip = sim.with_videos()[0]
    many = replace(sim, clips=tuple(replace(clip, clip=f"{clip.task}/{i:06d}") for i in range(clips)))
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        written = answer_clips(many, Path(folder, "p.jsonl"), AskConfig(trials=TRIALS), Instant()).written
        seconds = time.monotonic() - began
    return {"requests": clips, "answers": written, "seconds": round(seconds, 3), "peak_mb": round(peak_mb(), 1)}


def engine_mb() -> float:
    """Peak resident sets of the processes that this one and those have started, added up; what is shared, twice."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # ended since
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found: set[int] = set()
    while more := {p for p, parent in parents.items() if parent in {os.getpid(), *found}} - found:
        found |= more
    texts = [Path(f"/proc/{p}/status").read_text() for p in found]
    return sum(int(kb) for text in texts for kb in re.findall(r"VmHWM:\s+(\d+) kB", text)) * 1024 / 1e6


def measure_engine(clips: int, model: str) -> dict[str, float | int]:
    """Ask a vLLM engine about `clips` clips, once each, in two tokens."""
    from tempoloc_nb.engines.vllm_offline import VLLMBackend

    sim = load_benchmark("sim")
    frames = np.random.default_rng(0).integers(0, 256, (8, 112, 112, 3), dtype=np.uint8)
    backend = VLLMBackend(model)
    with tempfile.TemporaryDirectory() as folder:
        encode(Path(folder, "second.mp4"), frames, fps=8)
        clip = replace(sim.with_videos()[0], video="second.mp4", duration=1.0)
        clips_of = tuple(replace(clip, clip=f"{clip.task}/{i:06d}") for i in range(clips))
        many = replace(sim, root=Path(folder), clips=clips_of)
        began, ask = time.monotonic(), AskConfig(prompt="tiny", fps=2).changed(max_new_tokens=2)
        done = answer_clips(many, Path(folder, "p.jsonl"), ask, backend)
        seconds, engine = time.monotonic() - began, engine_mb()
    backend.close()
    return {
        "requests": clips, "answers": done.written, "seconds": round(seconds, 1), "peak_mb": round(peak_mb(), 1),
        "engine_peak_mb": round(engine, 1),
    }  # fmt: skip


def write_keys(path: Path, count: int) -> None:
    """A predictions file of `count` answers, ten a request, in the runner's order."""
    draw = random.Random(0)
    rest = {"clip": "stack-three/000000", "task": "stack-three", "text": "x" * 120, "model": "m", "fps": 8.0}
    with path.open("w", encoding="utf-8") as file:
        for _ in range(0, count, TRIALS):
            row = {**rest, "request_id": f"{draw.getrandbits(64):016x}"}
            file.writelines(json.dumps({**row, "trial": t}) + "\n" for t in range(TRIALS))


def measure_keys(path: Path, as_set: bool) -> dict[str, float | int]:
    """Read the keys of a file: as the runner does, or into a set of tuples."""
    before, began = peak_mb(), time.monotonic()
    if as_set:
        with path.open(encoding="utf-8") as file:
            count = len({(row["request_id"], row["trial"]) for row in map(json.loads, file)})
    else:
        count = len(read_keys(path)[0])
    return {"keys": count, "seconds": round(time.monotonic() - began, 1), "mb": round(peak_mb() - before, 1)}


def fresh(*arguments: str) -> dict[str, Any]:
    """This script's measurement in a process of its own."""
    command = [sys.executable, __file__, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def keep(path: Path | None, numbers: dict[str, Any]) -> None:
    """Write the numbers, and the machine that they were measured on."""
    machine = {"machine": platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()}
    if path:
        path.write_text(json.dumps({"on": machine, **numbers}, indent=1) + "\n")


def main() -> None:
    """Measure and print; `--output` keeps it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--keys", type=int, default=10_000_000)
    parser.add_argument("--engine", metavar="MODEL", help="measure only this: runs with a vLLM engine of a model")
    parser.add_argument("--output", type=Path, help="write the numbers as JSON")
    parser.add_argument("--one-run", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--one-read", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one_run is not None:
        one = measure_engine(given.one_run, given.engine) if given.engine else measure_run(given.one_run)
        print(json.dumps(one))
        return
    if given.one_read:
        print(json.dumps(measure_keys(Path(given.one_read[0]), given.one_read[1] == "set")))
        return
    engine = ["--engine", given.engine] if given.engine else []
    runs = [fresh("--one-run", str(n), *engine) for n in given.requests]
    for run in runs:
        spent = 1000 * run["seconds"] / run["answers"]
        more = f", the engine's {run['engine_peak_mb']} MB" if engine else ""
        print(f"{run['requests']:6} requests: peak {run['peak_mb']} MB{more}, {spent:.3f} ms an answer")
    if engine:
        keep(given.output, {"runs": runs, "model": Path(given.engine).name})
        return
    reads = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "keys.jsonl")
        write_keys(path, given.keys)
        print(f"file of {path.stat().st_size / 1e9:.2f} GB")
        for kind in ("arrays", "set"):
            reads[kind] = fresh("--one-read", str(path), kind)
            print(f"{reads[kind]['keys']} keys as {kind}: {reads[kind]['mb']} MB, {reads[kind]['seconds']} s")
    growth = runs[-1]["peak_mb"] - runs[0]["peak_mb"]
    print(f"from {runs[0]['requests']} to {runs[-1]['requests']} requests: {growth:.1f} MB more")
    print(f"a set of keys takes {reads['set']['mb'] / reads['arrays']['mb']:.1f} times the memory of the arrays")
    keep(given.output, {"runs": runs, "reads": reads})


if __name__ == "__main__":
    main()
