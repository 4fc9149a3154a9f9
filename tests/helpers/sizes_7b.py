"""The sizes of the models that the study is about, on untrained ones: how many tokens frames must become."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

from video_clips import write_clip

from tempoloc_nb.engines.protocol import Request
from tempoloc_nb.models.ask import load_prompt
from tempoloc_nb.video.view import View

SIZES = {
    # 128 and 768 tokens a frame pair; all pixels of a video
    "qwen25": {"shortest_edge": 100_352, "longest_edge": 602_112},
    "qwen3": {"shortest_edge": 4096, "longest_edge": 25_165_824},
}


def clip_request(folder: Path, n: int, size: tuple[int, int], view: View | None = None) -> Request:
    """A made-up clip of `n` frames at 8 fps, all of them asked for."""
    path = folder / f"{n}-{size[0]}x{size[1]}.mp4"
    write_clip(path, n, size, time_base=Fraction(1, 8), rate=8, options={"preset": "ultrafast"})
    return Request("c/0", "c", path, ("grasping",), load_prompt("tiny"), 8.0, view or View("pair"))


def tokens_made(shown: Any, processor: Any) -> tuple[int, int]:
    """(frame pairs, vision tokens) that the processor itself makes of a clip."""
    grid = processor.video_processor(
        [shown.images.transpose(0, 3, 1, 2)], size=shown.size, do_sample_frames=False, return_tensors="pt"
    )["video_grid_thw"][0]
    return int(grid[0]), int(grid.prod()) // processor.video_processor.merge_size**2
