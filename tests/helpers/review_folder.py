"""Three clips to be reviewed, in which it is seen which frame is shown."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from tempoloc_nb.clips.manifest import Clip, write_manifest
from tempoloc_nb.clips.tasks import Event
from tempoloc_nb.video.files import encode

LABELS = ("grasp the cup", "lift it", "put it down")
TIMES = tuple(np.cumsum([0, *[0.05, 0.05, 0.2, 0.1] * 15]).round(3).tolist())  # of no rate
GREYS = tuple(30 + 3 * k for k in range(len(TIMES)))  # which frame is seen


def make_folder(folder: Path) -> Path:
    """Three clips of variable rate, with truth, a model's trials, and one that lacks an event of the model."""
    frames = [np.full((64, 96, 3), grey, np.uint8) for grey in GREYS]
    events = tuple(Event(label, t) for label, t in zip(LABELS, (TIMES[10], TIMES[25], TIMES[40]), strict=True))
    clips, rows = [], []
    for n, name in enumerate("abc"):
        encode(folder / f"{name}.mp4", frames, times=TIMES, options={"crf": "1"})
        clips.append(Clip(f"tidy/{name}", "tidy", events, f"{name}.mp4", 10.0, duration=TIMES[-1] + 0.1))
        for trial in range(4):
            off = 0.3 * trial * (n == 1)  # the model is not sure of b
            times = [TIMES[10] + off, TIMES[25], TIMES[40]]
            lines = [f"Event {i}: <{t:.2f}> <{t + 0.4:.2f}> {LABELS[i - 1]}" for i, t in enumerate(times, 1)]
            text = "\n".join(lines[: 2 if n == 2 else 3])
            rows.append(
                {"clip": f"tidy/{name}", "task": "tidy", "model": "m", "fps": 8.0, "trial": trial, "text": text}
            )
    write_manifest(folder / "manifest.jsonl", clips)
    (folder / "predictions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder
