"""What an action segmentation network finds in `which` if somebody tells it the order of all events, for study 17.

    tempoloc simulate --benchmark which-validation -o LEARN
    tempoloc simulate --benchmark which -o ASK
    python benchmarks/segment_which.py LEARN ASK [--seeds 0 1 2] [--steps 1500] [--device cpu] [--output FILE.jsonl.xz]

MS-TCN networks learn from the clips in LEARN, on the features of tempoloc-tiny-base's frame encoder, and are kept
there. Each finds the events of the clips in ASK that the benchmark asks for everything, in the order of that question;
a clip whose video is missing is left out, and counted. The answers are the committed `which/segmentation.jsonl.xz`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from tempoloc_nb.clips.manifest import load_benchmark, read_manifest
from tempoloc_nb.core.files import write_jsonl
from tempoloc_nb.lab.segmentation.network import Segmenter, SegmentTraining, load_segmenter, train_segmenter
from tempoloc_nb.lab.segmentation.run import FrameEncoder, see_video

RATE = 8.0  # frames a second from which it answers, as the study's models do


def plain(label: str) -> str:
    """A label without the number of its occurrence: a frame does not show which time it is."""
    return label.partition(" for the ")[0]


def networks(learn: Path, encoder: FrameEncoder, seeds: list[int], steps: int) -> Iterator[tuple[int, Segmenter]]:
    """A network for each seed: the one that is kept in the folder `learn`, or one that learns from its clips now."""
    paths = {seed: learn / f"segmenter-{steps}-{seed}.safetensors" for seed in seeds}
    if not all(path.exists() for path in paths.values()):
        seen = []
        for clip in read_manifest(learn / "manifest.jsonl"):
            events = tuple(replace(event, label=plain(event.label)) for event in clip.events)
            seen.append(see_video(replace(clip, events=events), learn, encoder, rate=15.0))
            print(f"{clip.clip}: {len(seen)} to learn from", flush=True)
        for seed, path in paths.items():
            if not path.exists():
                plan = SegmentTraining(steps, seed=seed)
                train_segmenter(seen, plan, encoder.device, lambda *line: print(*line, flush=True)).save(path)
    for seed, path in paths.items():
        yield seed, load_segmenter(path, encoder.device)


def main() -> None:
    """Train what is not kept, ask every network about every clip, and write a line for each clip and seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("learn", type=Path)
    parser.add_argument("ask", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=SegmentTraining().steps)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    which, encoder = load_benchmark("which"), FrameEncoder(device=given.device)
    trained, rows = list(networks(given.learn, encoder, given.seeds, given.steps)), []
    every = [replace(c, video=f"videos/{c.extra['shown']}.mp4") for c in which.clips if c.extra["kind"] == "all"]
    asked = [clip for clip in every if clip.video_path(given.ask).is_file()]
    for clip in asked:
        seen = see_video(clip, given.ask, encoder, rate=RATE)
        times = np.arange(len(seen.features)) / seen.rate
        for seed, network in trained:
            found = network.find(seen.features, times, [plain(label) for label in clip.labels])
            events = [[label, round(time, 3)] for label, time in zip(clip.labels, found, strict=True)]
            rows.append({"clip": clip.extra["shown"], "seed": seed, "events": events})
        print(f"{clip.clip}: {len(rows) // len(trained)} of {len(asked)} asked", flush=True)
    out = given.output or which.root / "segmentation.jsonl.xz"
    write_jsonl(out, rows, force=True)
    print(f"{out}: {len(asked)} of {len(every)} clips, {len(trained)} networks")


if __name__ == "__main__":
    main()
