"""Generation from sources that fail first: stack-three whose demonstrations have detours, boundaries of seven origins.

    tempoloc simulate --task stack-three-detours --split detours --n 10 --no-render -o SOURCES
    python benchmarks/detour_trials.py SOURCES TRIALS.jsonl [--trials 100] [--workers 2]

Runs where Isaac Lab Mimic's generator is (`make env-mimic`) and goes on with its own TRIALS.jsonl. Origins: the truth;
the gripper rule, forward and backward; tempoloc-tiny's committed answers, as they are and fused with the signal; and
the median of the other sources, by length, as it is and fused with the signal (no-video). Writes
data/generation/detours.csv, which study 13 reads.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tempoloc_nb.clips.manifest import load_benchmark, read_manifest, write_manifest
from tempoloc_nb.core.settings import data_dir
from tempoloc_nb.inference.consensus import Combined, CombinedEvent, combine_trials
from tempoloc_nb.inference.fuse import fuse_answer
from tempoloc_nb.inference.signals import event_kinds, find_transitions, gripper_rule
from tempoloc_nb.lab.generate.outcomes import write_outcomes
from tempoloc_nb.lab.generate.sources import Source, read_sources
from tempoloc_nb.lab.generate.trials import run_trials

TASK, FAMILY = "stack-three", "stack-three-detours"


def as_task(sources: Path, folder: Path) -> Path:
    """The same sources in `folder` under the task's own name, by which the generator knows its scene."""
    clips = [c for c in read_manifest(sources / "manifest.jsonl") if c.task == FAMILY]
    named = [replace(c, clip=c.clip.replace(FAMILY, TASK), task=TASK, video=None) for c in clips]
    write_manifest(folder / "manifest.jsonl", named)
    (folder / "hdf5").mkdir()
    (folder / "hdf5" / f"{TASK}.hdf5").symlink_to((sources / "hdf5" / f"{FAMILY}.hdf5").resolve())
    return folder


def whole(times: Sequence[float | None]) -> tuple[float, ...] | None:
    """Boundaries that are all known and in order, or None, and the source is left out."""
    known = tuple(float(t) for t in times if t is not None)
    return known if len(known) == len(times) and all(np.diff(known) > 0) else None


def origins(sources: Sequence[Source]) -> dict[str, list[tuple[float, ...] | None]]:
    """Boundaries by where they come from, a source each."""
    detours = load_benchmark(data_dir() / "benchmarks" / "detours" / "manifest.jsonl.xz")
    labels = detours.clips[0].labels
    kinds, shares = event_kinds(labels), np.array([np.divide(s.boundaries, s.seconds) for s in sources])
    said = {a.clip.replace(FAMILY, TASK): a for a in combine_trials(detours.root / "tempoloc-tiny.jsonl.xz", detours)}

    def fused(answer: Combined, source: Source) -> tuple[float, ...] | None:
        return whole([e.boundary for e in fuse_answer(answer, source.opening)[0].events])

    def guess(i: int) -> list[float]:
        return (np.median(np.delete(shares, i, axis=0), axis=0) * sources[i].seconds).tolist()

    def guessed(i: int) -> Combined:
        events = tuple(CombinedEvent(n, t, None, None, 0.0, 1) for n, t in zip(labels, guess(i), strict=True))
        return Combined(sources[i].name, TASK, "no-video", 8.0, "start", 1, events)

    moves = [find_transitions(s.opening) for s in sources]
    return {
        "truth": [s.boundaries for s in sources],
        "gripper": [whole(gripper_rule(kinds, m)) for m in moves],
        "gripper-backward": [whole(gripper_rule(kinds, m, backward=True)) for m in moves],
        "tempoloc-tiny": [whole([e.boundary for e in said[s.name].events]) for s in sources],
        "fusion": [fused(said[s.name], s) for s in sources],
        "no-video": [whole(guess(i)) for i in range(len(sources))],
        "no-video-fused": [fused(guessed(i), s) for i, s in enumerate(sources)],
    }


def main() -> None:
    """Try, and write the outcomes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=Path)
    parser.add_argument("trials_file", type=Path)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = as_task(given.sources, Path(made))
        found = origins(read_sources(folder, TASK))
        for name, times in found.items():
            print(name, sum(t is not None for t in times), "sources")
        outcomes = run_trials(
            folder, given.trials_file, {TASK: found}, trials=given.trials, workers=given.workers
        )  # fmt: skip
    write_outcomes(data_dir() / "generation" / "detours.csv", outcomes)
    for o in outcomes:
        print(o.task, o.offset, o.boundaries, f"{o.succeeded} of {o.tried}")


if __name__ == "__main__":
    main()
