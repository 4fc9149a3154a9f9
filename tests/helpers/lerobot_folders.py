"""A small LeRobot dataset, version 3.0 or 2.1, made without LeRobot: the notebooks and the tests read it."""

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
PATHS = {  # by version: of rows, of videos
    "3": (f"data/{_PLACE}.parquet", f"videos/{{video_key}}/{_PLACE}.mp4"),
    "2": ("data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
          "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"),
}  # fmt: skip


def small_dataset(
    root: Path, clips: Sequence[Sequence[Image]], names: Sequence[Sequence[str]] = (), per_file: int = 100,
    version: str = "v3.0", chunk: int = 1000,
) -> Path:  # fmt: skip
    """Episodes of these pictures, `per_file` in a file; `names` are the subtasks of their frames, if they have any.

    In version 2, a file has one episode, and a folder `chunk` of them.
    """
    listed = list(dict.fromkeys(name for per_frame in names for name in per_frame))
    columns = ["frame_index", "episode_index", "index", "task_index", *(["subtask_index"] if listed else [])]
    data_path, video_path = PATHS[version[1]]
    per_file = 1 if version.startswith("v2") else per_file
    episodes: list[dict[str, Any]] = []
    begin = 0
    for file, first in enumerate(range(0, len(clips), per_file)):
        some = clips[first : first + per_file]
        place = {"chunk_index": 0, "file_index": file, "episode_chunk": file // chunk, "episode_index": file}
        encode(root / video_path.format(video_key=CAMERA, **place),
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
        path = root / data_path.format(**place)
        path.parent.mkdir(parents=True, exist_ok=True)
        types = [("timestamp", pa.float32()), *((name, pa.int64()) for name in columns)]
        pq.write_table(pa.table(rows, schema=pa.schema(types)), path)
    (_write_lines if version.startswith("v2") else _write_tables)(root / "meta", episodes, listed)
    _write_info(root, clips, columns, version, chunk)
    return root


def _write_tables(meta: Path, episodes: list[dict[str, Any]], listed: list[str]) -> None:
    (meta / "episodes" / "chunk-000").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(episodes), meta / "episodes" / "chunk-000" / "file-000.parquet")
    pd.DataFrame({"task_index": [0]}, index=["stack"]).to_parquet(meta / "tasks.parquet")
    if listed:
        by_name = pd.DataFrame({"subtask_index": range(len(listed))}, index=pd.Index(listed, name="subtask"))
        by_name.to_parquet(meta / "subtasks.parquet")


def _write_lines(meta: Path, episodes: list[dict[str, Any]], listed: list[str]) -> None:
    meta.mkdir(parents=True)
    short = [{key: row[key] for key in ("episode_index", "tasks", "length")} for row in episodes]
    subtasks = [{"subtask_index": i, "subtask": name} for i, name in enumerate(listed)]
    tasks = [{"task_index": 0, "task": "stack"}]
    for name, rows in (("episodes", short), ("tasks", tasks), *([("subtasks", subtasks)] if listed else [])):
        (meta / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def _write_info(root: Path, clips: Sequence[Sequence[Image]], columns: list[str], version: str, chunk: int) -> None:
    number = {"dtype": "int64", "shape": [1], "names": None}
    features: dict[str, Any] = {
        CAMERA: {"dtype": "video", "shape": list(clips[0][0].shape), "names": ["height", "width", "channels"]},
        "timestamp": {**number, "dtype": "float32"}, **dict.fromkeys(columns, number),
    }  # fmt: skip
    data_path, video_path = PATHS[version[1]]
    info = {
        "codebase_version": version, "fps": FPS, "features": features, "robot_type": "panda", "total_tasks": 1,
        "total_episodes": len(clips), "total_frames": sum(map(len, clips)), "data_path": data_path,
        "video_path": video_path, "chunks_size": chunk,
    }  # fmt: skip
    (root / "meta" / "info.json").write_text(json.dumps(info, indent=4))
