"""What tempoloc-tiny says is held in each frame pair of the clips of `which`, each pair shown alone.

    python benchmarks/which_frames.py VIDEOS [--model tempoloc-tiny] [--every 1] [--output FILE.jsonl.xz]

VIDEOS is the folder of their videos (`tempoloc simulate --benchmark which`). The model's training had the question
"Describe the frame."; its answer ends with what the hand holds. Nothing here knows what a clip is asked for. The output
has a line a clip: `held`, what each pair is said to show, run by run, [name, number of pairs]. Study 17 decodes it.
"""

from __future__ import annotations

import argparse
import json
import re
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.core.files import write_jsonl
from tempoloc_nb.core.settings import data_dir
from tempoloc_nb.engines.qwen import fit, mrope_positions, prepare
from tempoloc_nb.models.locate import load_model, locate_model
from tempoloc_nb.video.view import ClipInputs, View, clip_inputs

FPS, BATCH, NEW = 8.0, 64, 72
ASKED = [{"role": "user", "content": [{"type": "video"}, {"type": "text", "text": "Describe the frame."}]}]
SHIPPED = data_dir() / "benchmarks" / "which" / "frames.jsonl.xz"


def pair_of(frames: ClipInputs, j: int) -> ClipInputs:
    """Frame pair `j` alone."""
    return ClipInputs(frames.images[2 * j : 2 * j + 2], frames.times[2 * j : 2 * j + 2], frames.fps, frames.budget)


def described(net: Any, processor: Any, frames: ClipInputs) -> list[str]:
    """The model's description of each pair of frames, greedily, without the others."""
    texts = []
    for begin in range(0, frames.pairs, BATCH):
        pairs = range(begin, min(begin + BATCH, frames.pairs))
        shown = [fit(prepare(pair_of(frames, j), ASKED, processor), processor) for j in pairs]
        inputs = processor(
            text=[s.text for s in shown], videos=[s.images.transpose(0, 3, 1, 2) for s in shown],
            video_metadata=[s.metadata for s in shown], return_tensors="pt", do_sample_frames=False, size=shown[0].size,
        ).to(net.device)  # fmt: skip
        ids, grids = inputs["input_ids"].cpu().numpy(), inputs["video_grid_thw"].cpu()
        places = [mrope_positions(i, net.config, g, 2 / frames.fps) for i, g in zip(ids, grids, strict=True)]
        with torch.inference_mode():
            out = net.generate(
                **inputs, position_ids=torch.from_numpy(np.stack(places, axis=1)).to(net.device), max_new_tokens=NEW,
                do_sample=False,
            )  # fmt: skip
        texts += processor.batch_decode(out[:, ids.shape[1] :], skip_special_tokens=True)
    return texts


def held(text: str) -> str:
    """What a description says is held, "" where it does not say."""
    found = re.search(r"holds ([a-z ]+?)\s*$", text.strip())
    return found.group(1) if found else ""


def main() -> None:
    """Ask about every clip, and write the runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos", type=Path)
    parser.add_argument("--model", default="tempoloc-tiny")
    parser.add_argument("--every", type=int, default=1, help="every so many clips")
    parser.add_argument("--output", type=Path, default=SHIPPED)
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    net, processor, _ = load_model(locate_model(given.model).path, device, "float32")
    asked = list(dict.fromkeys(str(clip.extra["shown"]) for clip in load_benchmark("which").clips))[:: given.every]
    lines = []
    for n, name in enumerate(asked):
        frames = clip_inputs(given.videos / f"{name}.mp4", processor, FPS, View("frame"), None)
        texts = described(net, processor, frames)
        runs = [[key, len(list(same))] for key, same in groupby(map(held, texts))]
        lines.append({"clip": name, "model": given.model, "fps": frames.fps, "held": runs})
        print(f"{n + 1} of {len(asked)}  {json.dumps(lines[-1])}", flush=True)
    write_jsonl(given.output, lines, force=True)


if __name__ == "__main__":
    main()
