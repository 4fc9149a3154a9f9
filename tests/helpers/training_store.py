"""A made-up frame store and a model small enough to train in a second."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tempoloc_nb.core.optional import import_transformers
from tempoloc_nb.lab.tiny.architecture import TinyShape
from tempoloc_nb.lab.tiny.frame_store import MAX_OBJECTS, FrameStore, Recording
from tempoloc_nb.lab.tiny.plan import Stage, TrainOptions

SMALL = TinyShape(
    hidden=64,
    layers=2,
    heads=2,
    kv_heads=1,
    intermediate=96,
    vision_hidden=64,
    vision_layers=2,
    vision_heads=2,
    vision_intermediate=96,
)


EVENTS = (("grasping the can", 2.1), ("releasing the can", 3.3), ("grasping the cube", 4.6))


def made_up_store(seed: int = 0) -> FrameStore:
    rng = np.random.default_rng(seed)
    recordings, n = [], 0
    for i in range(4):
        names = ("can", "cube")
        recordings.append(Recording(f"clip{i}", "clip", "base", "lift", "Panda", 15.0, n, 105, names, EVENTS, 5.5))
        n += 105
    for i in range(20):
        recordings.append(Recording(f"scene{i}", "scene", "base", "lift", "Panda", 8.0, n, 2, ("can",)))
        n += 2
    seen = np.zeros((n, MAX_OBJECTS), np.bool_)
    seen[:, 0] = True
    return FrameStore(
        tuple(recordings), rng.integers(0, 255, (n, 112, 112, 3), np.uint8), rng.random((n, 2), np.float32),
        rng.random(n, np.float32), rng.random((n, MAX_OBJECTS, 2), np.float32), seen, np.full(n, -1, np.int8),
    )  # fmt: skip


def load(folder: Path) -> tuple[object, object]:
    transformers = import_transformers()
    model = transformers.AutoModelForImageTextToText.from_pretrained(folder)
    return model, transformers.AutoProcessor.from_pretrained(folder)


OPTIONS = TrainOptions(
    (
        Stage("frame", 3, {"frame": 1.0}, (1, 1)),
        Stage("clips", 6, {"walk": 0.3, "localize": 0.5, "scenes": 0.2}, (4, 10)),
        Stage("again", 3, {"localize": 1.0}, (4, 10), restart=True),
    ),
    tokens=900,
    warmup=2,
)
