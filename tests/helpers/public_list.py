"""A benchmark of public recordings, small: its list of files, and what a mirror has of it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tempoloc_nb.clips.manifest import Clip, Clips, load_benchmark, write_manifest
from tempoloc_nb.clips.public import HOST
from tempoloc_nb.clips.tasks import Event
from tempoloc_nb.video.files import encode

REPOSITORY, COMMIT = "somebody/recordings", "0123abc"


def line(path: str, content: bytes, **changed: Any) -> dict[str, Any]:
    """A line of the list, of a file that is called alike there and here."""
    values = {
        "path": path, "repository": REPOSITORY, "commit": COMMIT, "source": path,
        "url": f"{HOST}/{REPOSITORY}/{COMMIT}/{path}", "size": len(content),
        "sha256": hashlib.sha256(content).hexdigest(), "licence": "MIT",
    }  # fmt: skip
    return values | changed


def gif(path: Path, count: int = 12) -> bytes:
    """A picture of `count` frames, each of a brightness of its own, ten a second."""
    frames = [Image.new("RGB", (32, 32), (20 * i, 20 * i, 20 * i)) for i in range(count)]
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=100, loop=0)
    return path.read_bytes()


@pytest.fixture
def listed(tmp_path: Path) -> tuple[Clips, dict[str, bytes]]:
    """A benchmark of one video and two spans of a picture, and the files that a mirror has of it."""
    video = encode(tmp_path / "take.mp4", np.zeros((10, 32, 32, 3), np.uint8), fps=10).read_bytes()
    files = {"one/take.mp4": video, "one/LICENSE": b"MIT", "two/grasps.gif": gif(tmp_path / "grasps.gif")}
    folder = tmp_path / "mine"
    folder.mkdir()
    event = (Event("grasping the cup", 0.3),)
    spans = {"a": (0, 5), "b": (5, 7)}
    clips = [Clip("one/take", "one", event, "one/take.mp4", 10.0, duration=1.0)]
    for name, (first, count) in spans.items():
        cut = {"file": "two/grasps.gif", "first": first, "count": count}
        clips.append(
            Clip(f"two/{name}", "two", event, f"two/{name}.mp4", 10.0, duration=count / 10, extra={"cut": cut})
        )
    write_manifest(folder / "manifest.jsonl", clips)
    lines = [line(path, content) for path, content in files.items()]
    (folder / "files.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    return load_benchmark(folder), {f"/{REPOSITORY}/{COMMIT}/{path}": content for path, content in files.items()}
