"""A small LeRobot v3.0 dataset, made without LeRobot: the notebooks and the tests read it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from tempoloc_nb.video.files import Image, encode

FPS = 10
CAMERA = "observation.images.front"
_PLACE = "chunk-{chunk_index:03d}/file-{file_index:03d}"


def small_dataset(
    root: Path, clips: Sequence[Sequence[Image]], names: Sequence[Sequence[str]] = (), per_file: int = 100
) -> Path:
    """Episodes of these pictures, `per_file` in a file; `names` are the subtasks of their frames, if they have any."""
    listed = list(dict.fromkeys(name for per_frame in names for name in per_frame))
    columns = ["frame_index", "episode_index", "index", "task_index", *(["subtask_index"] if listed else [])]
    episodes: list[dict[str, Any]] = []
    begin = 0
    for file, first in enumerate(range(0, len(clips), per_file)):
        some = clips[first : first + per_file]
        encode(root / f"videos/{CAMERA}" / f"{_PLACE.format(chunk_index=0, file_index=file)}.mp4",
               (frame for clip in some for frame in clip), FPS, options={"crf": "10"})  # fmt: skip
        rows: dict[str, list[Any]] = {name: [] for name in ["timestamp", *columns]}
        start = 0
        for e, clip in enumerate(some, first):
            for k in range(len(clip)):
                index = [listed.index(names[e][k])] if listed else []
                for column, value in zip(rows, [k / FPS, k, e, begin + k, 0, *index], strict=True):
                    rows[column].append(value)
            where = {f"videos/{CAMERA}/{part}": value for part, value in {
                "chunk_index": 0, "file_index": file, "from_timestamp": start / FPS,
                "to_timestamp": (start + len(clip)) / FPS}.items()}  # fmt: skip
            where |= {"data/chunk_index": 0, "data/file_index": file, "dataset_from_index": begin}
            where |= {"dataset_to_index": begin + len(clip), "meta/episodes/chunk_index": 0}
            episodes.append({"episode_index": e, "tasks": ["stack"], "length": len(clip), **where})
            begin, start = begin + len(clip), start + len(clip)
        path = root / "data" / f"{_PLACE.format(chunk_index=0, file_index=file)}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        types = [("timestamp", pa.float32()), *((name, pa.int64()) for name in columns)]
        pq.write_table(pa.table(rows, schema=pa.schema(types)), path)
    _write_meta(root, clips, episodes, columns, listed)
    return root


def _write_meta(
    root: Path, clips: Sequence[Sequence[Image]], episodes: list[dict[str, Any]], columns: list[str], listed: list[str]
) -> None:
    meta = root / "meta"
    (meta / "episodes" / "chunk-000").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(episodes), meta / "episodes" / "chunk-000" / "file-000.parquet")
    pd.DataFrame({"task_index": [0]}, index=["stack"]).to_parquet(meta / "tasks.parquet")
    if listed:
        by_name = pd.DataFrame({"subtask_index": range(len(listed))}, index=pd.Index(listed, name="subtask"))
        by_name.to_parquet(meta / "subtasks.parquet")
    number = {"dtype": "int64", "shape": [1], "names": None}
    features: dict[str, Any] = {
        CAMERA: {"dtype": "video", "shape": list(clips[0][0].shape), "names": ["height", "width", "channels"]},
        "timestamp": {**number, "dtype": "float32"}, **dict.fromkeys(columns, number),
    }  # fmt: skip
    info = {
        "codebase_version": "v3.0", "fps": FPS, "features": features, "robot_type": "panda", "total_tasks": 1,
        "total_episodes": len(episodes), "total_frames": sum(map(len, clips)), "data_path": f"data/{_PLACE}.parquet",
        "video_path": f"videos/{{video_key}}/{_PLACE}.mp4",
    }  # fmt: skip
    (meta / "info.json").write_text(json.dumps(info, indent=4))
