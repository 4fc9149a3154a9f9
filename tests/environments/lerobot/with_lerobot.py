"""Run by LeRobot's own Python: `make FOLDER` records a dataset with it, `load FOLDER` prints what its loader gives."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from lerobot.datasets.lerobot_dataset import LeRobotDataset

LENGTHS = (23, 31, 17)


def picture(episode: int, k: int) -> Any:
    """Eight dark or bright stripes that say which frame of which episode it is."""
    bits = [(episode * 64 + k) >> i & 1 for i in range(8)]
    return np.repeat(np.tile(np.array(bits, np.uint8)[:, None] * 200 + 20, (64, 1, 3)), 8, axis=1)


def number(image: Any) -> int:
    """What the stripes of a (3, height, width) picture say."""
    bits = np.asarray(image).reshape(3, 64, 8, 8).mean(axis=(0, 1, 3)) > 0.5
    return int(sum(2**i for i in range(8) if bits[i]))


def make(root: Path) -> None:
    """Three episodes; LeRobot decides on codec and files."""
    shape = {"dtype": "float32", "shape": (2,), "names": ["x", "y"]}
    image = {"dtype": "video", "shape": (64, 64, 3), "names": ["height", "width", "channels"]}
    features = {"observation.images.front": image, "observation.state": shape, "action": shape}
    dataset = LeRobotDataset.create("me/cups", fps=10, features=features, root=root, robot_type="panda")
    for e, length in enumerate(LENGTHS):
        for k in range(length):
            frame = {"observation.images.front": picture(e, k), "observation.state": np.full(2, k, np.float32)}
            dataset.add_frame({**frame, "action": np.full(2, e, np.float32), "task": "put the cup down"})
        dataset.save_episode()
    dataset.finalize()


def load(root: Path) -> None:
    """Every frame: its numbers, its picture's number, and its subtask by each of LeRobot's annotations."""
    dataset = LeRobotDataset("me/cups", root=root)
    frames = []
    for item in (dataset[i] for i in range(len(dataset))):
        frame = {"episode": int(item["episode_index"]), "time": float(item["timestamp"]), "task": item["task"]}
        frame |= {"state": float(item["observation.state"][0]), "picture": number(item["observation.images.front"])}
        if "subtask_index" in item:
            frame["index"] = int(item["subtask_index"])
            frame["subtask"] = item.get("subtask")  # up to LeRobot 0.5
        if "language_persistent" in item:
            from lerobot.datasets.language_render import active_at

            row = active_at(frame["time"], persistent=item["language_persistent"], style="subtask")
            frame["subtask"] = row and row["content"]
        frames.append(frame)
    print(json.dumps(frames))


def sarm(root: Path) -> None:
    """What SARM's training takes from the stages: names, proportions, and stage plus progress of every frame."""
    from types import SimpleNamespace

    from lerobot.rewards.sarm.modeling_sarm import SARMRewardModel
    from lerobot.rewards.sarm.processor_sarm import SARMEncodingProcessorStep
    from lerobot.rewards.sarm.sarm_utils import find_stage_and_tau

    meta = LeRobotDataset("me/cups", root=root).meta
    model = SimpleNamespace(config=SimpleNamespace(annotation_mode="dual"))
    model._load_proportions_from_json = lambda *of: SARMRewardModel._load_proportions_from_json(model, *of)
    SARMRewardModel._load_temporal_proportions(model, meta)
    config, step, said = model.config, SARMEncodingProcessorStep, {}
    this = SimpleNamespace(dataset_meta=meta, _annotations_are_usable=step._annotations_are_usable)
    this._resolve_annotation_column = step._resolve_annotation_column
    this.sparse_subtask_names, this.dense_subtask_names = config.sparse_subtask_names, config.dense_subtask_names
    step._validate_annotation_columns(this)  # raises where no episode has usable annotations
    episodes = meta.episodes.to_pandas()
    for kind in ("sparse", "dense"):
        names = getattr(config, f"{kind}_subtask_names")
        shares = dict(zip(names, getattr(config, f"{kind}_temporal_proportions"), strict=True))
        targets = []
        for e, length in enumerate(LENGTHS):
            found = step._load_episode_annotations(this, e, episodes, kind, names)
            targets.append([find_stage_and_tau(k, length, *found, names, shares) for k in range(length)])
        said[kind] = {"proportions": shares, "targets": targets}
    print(json.dumps(said))


{"make": make, "load": load, "sarm": sarm}[sys.argv[1]](Path(sys.argv[2]))
