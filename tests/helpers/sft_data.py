"""A conversations dataset of shipped clips, small enough to make in a test."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.sft.dataset import Sample, sample_of, save_samples


def make_dataset(folder: Path, n: int = 2, changes: dict[str, Any] | None = None, **options: Any) -> list[Sample]:
    """Write a dataset of `n` clips of different families to `folder`, with the last one for validation."""
    sim = load_benchmark("sim")
    clips = [c for c in sim.clips if c.video]
    (folder / "videos").mkdir(parents=True)
    samples = []
    for number, clip in enumerate(clips[:: max(1, len(clips) // n)][:n]):
        video = f"videos/{clip.clip.replace('/', '-')}.mp4"
        shutil.copy(clip.video_path(sim.root), folder / video)
        split = "validation" if number and number == n - 1 else "train"
        made = sample_of(clip, video=video, **{"fps": 8, "stamps": "none", **options})
        samples.append(replace(made, split=split, **changes or {}))
    save_samples(samples, folder)
    return samples
