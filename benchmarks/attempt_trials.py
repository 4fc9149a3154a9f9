"""Generation with failed attempts in the sources: as they are, cut, and left out.

    python benchmarks/attempt_trials.py FOLDER [--trials 200] [--workers 1]

Runs where Isaac Lab Mimic's generator is (`make env-mimic`), and continues in its own FOLDER. It simulates stacking
three cubes with ten seeds, twice: in `clean` nothing fails, in `failing` a first attempt does (a cube is grasped and
put back, and half of the time the gripper closes on air). Scenes, cubes and the seconds of each subtask are the same,
so attempts alone set the two apart. In `half`, every other demonstration is the failing one. Boundaries are true ones.
Writes data/generation/attempts.csv.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from itertools import cycle
from pathlib import Path

from tempoloc_nb.clips.manifest import read_manifest, write_manifest
from tempoloc_nb.core.optional import import_optional
from tempoloc_nb.core.settings import data_dir
from tempoloc_nb.lab.generate.attempts import Treatment
from tempoloc_nb.lab.generate.outcomes import write_outcomes
from tempoloc_nb.lab.generate.sources import FAMILIES, read_sources
from tempoloc_nb.lab.generate.trials import Setting, run_trials
from tempoloc_nb.lab.sim.make import simulate_clips

TASK, SOURCES = "stack-three", 10
CONDITIONS: dict[str, tuple[str, Treatment]] = {
    "none fails": ("clean", "keep"), "all fail": ("failing", "keep"), "all fail, cut": ("failing", "cut"),
    "half fail": ("half", "keep"), "half fail, cut": ("half", "cut"), "half fail, left out": ("half", "leave-out"),
}  # fmt: skip


def mix(folders: tuple[Path, Path], out: Path) -> None:
    """Write a folder whose demonstrations come in turn from two others that have the same seeds."""
    if (out / "manifest.jsonl").exists():
        return
    turns = cycle(folders)
    clips = [(next(turns), clip) for clip in read_manifest(folders[0] / "manifest.jsonl")]
    named = [next(c for c in read_manifest(folder / "manifest.jsonl") if c.seed == clip.seed) for folder, clip in clips]
    (out / "hdf5").mkdir(parents=True, exist_ok=True)
    h5py, name = import_optional("h5py", "data"), f"hdf5/{TASK}.hdf5"
    with h5py.File(out / name, "w") as file:
        for i, (folder, clip) in enumerate(clips):
            with h5py.File(folder / name) as whole:
                demo = next(d for d in whole["data"].values() if d.attrs["seed"] == clip.seed)
                whole.copy(demo, file, f"data/demo_{i}")
    write_manifest(out / "manifest.jsonl", named)


def main() -> None:
    """Simulate the sources, try them, and write the outcomes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    for name, fail in (("clean", False), ("failing", True)):
        family = replace(FAMILIES[TASK], detours=fail)
        print(simulate_clips(family, SOURCES, given.folder / name, workers=given.workers, render=False))
    mix((given.folder / "failing", given.folder / "clean"), given.folder / "half")
    outcomes = []
    for condition, (name, attempts) in CONDITIONS.items():
        folder, out = given.folder / name, given.folder / f"{name}-{attempts}.jsonl"
        found = {TASK: {"truth": [s.boundaries for s in read_sources(folder, TASK)]}}
        tried = run_trials(
            folder, out, found, trials=given.trials, setting=Setting(attempts=attempts), workers=given.workers
        )  # fmt: skip
        outcomes += [replace(o, boundaries=condition) for o in tried]
        for o in tried:
            print(f"{condition}, offsets {o.offset}: {o.succeeded} of {o.tried}", flush=True)
    write_outcomes(data_dir() / "generation" / "attempts.csv", outcomes)


if __name__ == "__main__":
    main()
