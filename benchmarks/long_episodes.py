"""A model's logs of long recordings: what they find, and what they cost, against the recording's length.

    tempoloc simulate --benchmark which-validation -o CLIPS
    python benchmarks/long_episodes.py CLIPS --model MODEL [--minutes 1 3 10 30] [-o RESULT.json]

A recording of so many minutes is whole clips one after the other, in an order drawn from `--seed`, each as often as any
other. `alone` is each clip by itself. Logs of each are asked for as `tempoloc segment` asks, without chance, in windows
of `--window` seconds. Events count as found within 0.25 s and 0.5 s of a true one of the same name, one to one; cuts
are the same whatever the name. A closing on air that a log has counts as found, and is not in the truth. Each length
runs in a process of its own, whose processor time (of all its threads, so that others on the machine change little) and
peak resident memory are given.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine_speed import machine
from runner_memory import peak_mb

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.engines.make import EngineConfig
from tempoloc_nb.formats.recordings import clips_of
from tempoloc_nb.inference.found import Found
from tempoloc_nb.inference.segment import LOG_PROMPT, LogOptions, find_events
from tempoloc_nb.models.locate import ask_config
from tempoloc_nb.scoring.logs import LoggedEvent, match_logs, read_true_logs, settled
from tempoloc_nb.video.files import Image, encode, probe, read

LENIENT, STRICT = 0.5, 0.25  # s


@dataclass(frozen=True)
class Recording:
    """A video and what happens in it, by time."""

    video: Path
    truth: tuple[LoggedEvent, ...]


def alone(folder: Path) -> list[Recording]:
    """Each clip of a folder that was simulated."""
    logs = read_true_logs(folder / "logs.jsonl.xz")
    videos = {name: folder / "videos" / name.partition("/")[0] / f"{name.rpartition('/')[2]}.mp4" for name in logs}
    recordings = [Recording(video, logs[name].events) for name, video in videos.items() if video.is_file()]
    if not recordings:
        raise TempolocError(f"{folder} has no videos: make them with tempoloc simulate --benchmark which-validation")
    return recordings


def joined(clips: Sequence[Recording], minutes: float, seed: int, target: Path) -> Recording:
    """Clips one after the other until the recording has so many `minutes`."""
    left, chosen, starts, length = list[Recording](), list[Recording](), list[float](), 0.0
    draw = random.Random(seed)
    while length < 60 * minutes:
        left = left or draw.sample(clips, len(clips))
        chosen.append(left.pop())
        starts.append(length)
        length += probe(chosen[-1].video).duration

    def frames() -> Iterator[Image]:
        for clip in chosen:
            yield from read(clip.video).images

    pairs = list(zip(starts, chosen, strict=True))
    times = (start + t for start, clip in pairs for t in probe(clip.video).times)
    events = [replace(e, time=e.time + start) for start, clip in pairs for e in clip.truth]
    return Recording(encode(target, frames(), times=times, options={"crf": "12"}), settled(events))


def counts(found: Found, truth: Sequence[LoggedEvent]) -> dict[str, float]:
    """What is found of the events of one recording."""
    log = settled(LoggedEvent(e.boundary or 0.0, e.label, e.outcome or "unknown") for e in found.events)
    pairs = match_logs(log, truth, LENIENT).pairs
    return {
        "true": len(truth), "found": len(log),
        "within_0.25_s": len(match_logs(log, truth, STRICT).pairs), "within_0.5_s": len(pairs),
        "cuts_within_0.25_s": len(match_logs(log, truth, STRICT, names=False).pairs),
        "error_s": sum(abs(log[i].time - truth[j].time) for i, j in pairs),
        "gaps_s": sum(end - begin for begin, end in found.gaps), "errors": int(bool(found.error)),
        "asked": len(found.texts),
    }  # fmt: skip


def measure(recordings: Sequence[Recording], given: argparse.Namespace) -> dict[str, Any]:
    """Logs of some recordings, scored together."""
    options = {"trials": given.trials, "prompt": LOG_PROMPT, "temperature": 0.0, "max_new_tokens": given.tokens}
    ask, engine = ask_config(given.model, **options), EngineConfig(given.backend)
    by_video, began, spent = {r.video: r for r in recordings}, time.monotonic(), time.process_time()
    each = find_events(clips_of(list(by_video), ()), ask, engine, LogOptions(window=given.window))
    rows = [counts(found, by_video[found.path].truth) for found in each]
    total = {key: sum(row[key] for row in rows) for key in rows[0]}
    minutes = sum(probe(r.video).duration for r in recordings) / 60
    hits, named = total["within_0.25_s"], total["within_0.5_s"]
    return {
        "minutes": round(minutes, 2), "recordings": len(recordings), **total,
        "recall_0.25_s": hits / total["true"], "precision_0.25_s": hits / max(total["found"], 1),
        "mean_error_s": total["error_s"] / max(named, 1), "seconds": round(time.monotonic() - began, 1),
        "seconds_per_minute": (time.monotonic() - began) / minutes,
        "cpu_s_per_minute": (time.process_time() - spent) / minutes, "peak_mb": peak_mb(),
    }  # fmt: skip


def main() -> None:
    """Make the recordings, ask about them, and write what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clips", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--backend", default="hf")
    parser.add_argument("--minutes", type=float, nargs="*", default=[1, 3, 10, 30])
    parser.add_argument("--window", type=float, default=24.0)
    parser.add_argument("--tokens", type=int, default=1500)
    parser.add_argument("--trials", type=int, default=5, help="logs of each window; tempoloc-tiny needs two or more")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    clips, rows = alone(given.clips), dict[str, dict[str, Any]]()
    with tempfile.TemporaryDirectory() as folder:
        kinds = {"alone": clips}
        for minutes in given.minutes:
            name = f"{minutes:g} min"
            kinds[name] = [joined(clips, minutes, given.seed, Path(folder, f"{minutes:g}.mp4"))]
        for name, recordings in kinds.items():
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                rows[name] = pool.submit(measure, recordings, given).result()
            print(name, json.dumps(rows[name]), flush=True)
            if given.output:  # after each length: what was measured stays
                result = {"model": given.model, "window_s": given.window, "trials": given.trials}
                result |= {"machine": machine(), "rows": rows}
                given.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
