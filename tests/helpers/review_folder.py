"""Three clips to be reviewed, in whose pictures it is written which frame they are."""

from __future__ import annotations

import json
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt

from tempoloc_nb.clips.manifest import Clip, write_manifest
from tempoloc_nb.clips.tasks import Event
from tempoloc_nb.video.files import encode

LABELS = ("grasp the cup", "lift it", "put it down")
TIMES = tuple(np.cumsum([0, *[0.05, 0.05, 0.2, 0.1] * 15]).round(3).tolist())  # of no rate
STEP = 28  # of grey between one digit and the next
# Frames 4, 5, 6 and so on lie between others in the file's order, as a camera's encoder leaves them.
B_FRAMES = {"crf": "1", "x264-params": "scenecut=0:b-adapt=0:bframes=3:keyint=250"}


def picture(frame: int) -> npt.NDArray[np.uint8]:
    """A frame that says its number: in base 8, a digit of grey in its left half and one in its right."""
    image = np.empty((64, 96, 3), np.uint8)
    image[:, :48], image[:, 48:] = (30 + STEP * digit for digit in divmod(frame, 8))
    return image


def write_video(path: Path, count: int = len(TIMES), begin: float = 0.0) -> None:
    """So many of the pictures, the first at `begin` (s), some of them as B-frames."""
    encode(path, [picture(k) for k in range(count)], times=[t + begin for t in TIMES[:count]], options=B_FRAMES)
    with av.open(str(path)) as container:
        kinds = [frame.pict_type for frame in container.decode(video=0)]
    assert kinds.count(av.video.frame.PictureType.B) > count // 2


def make_folder(folder: Path) -> Path:
    """Three clips of variable rate, with truth, a model's trials, and one that lacks an event of the model."""
    events = tuple(Event(label, t) for label, t in zip(LABELS, (TIMES[10], TIMES[25], TIMES[40]), strict=True))
    clips, rows = [], []
    for n, name in enumerate("abc"):
        write_video(folder / f"{name}.mp4")
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
