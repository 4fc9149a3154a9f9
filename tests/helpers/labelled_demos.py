"""Small HDF5 files that a generator would take: a hand that brings one cube onto another and then grasps a third."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tempoloc_nb.formats.hdf5_rules import Layout, signal_of

NAMES = ("grasp_1", "stack_1", "grasp_2")
LAST = "lift_2"
RATE = 20
ROBOSUITE = {"env_name": "Stack", "type": 1, "env_kwargs": {"control_freq": RATE}}
ISAACLAB = {"env_name": "Isaac-Stack", "type": 2, "sim_args": {"dt": 0.01, "decimation": 5}}
PLACE: dict[Layout, str] = {"mimicgen": "datagen_info", "isaaclab": "obs/datagen_info"}
CLOSING = 6  # steps from the command to the touch


def poses(places: Any) -> Any:
    """Poses (T, 4, 4) that are nowhere turned, at places (T, 3)."""
    made = np.tile(np.eye(4, dtype=np.float32), (len(places), 1, 1))
    made[:, :3, 3] = places
    return made


def demo_arrays(seed: int) -> tuple[dict[str, Any], tuple[int, ...], tuple[int, ...]]:
    """(arrays of a demonstration by what they are, the steps of its signals, the steps at which its skills start)."""
    rng = np.random.default_rng(seed)
    lengths = (rng.normal([32, 30, 34, 40], [2.5, 2.5, 2.5, 3]).round().astype(int)).clip(20)
    *ends, steps = np.cumsum(lengths).tolist()
    a, b, c = rng.uniform(-0.1, 0.1, (3, 3)) * [1, 1, 0] + [[0, 0, 0.02], [0.25, 0, 0.02], [0, 0.25, 0.02]]
    up, start = np.array([0, 0, 0.15]), rng.uniform([0.05, 0.05, 0.2], [0.15, 0.15, 0.3])
    on_b = b + up / 4
    # where the hand is when: it stands still while its fingers close, from CLOSING steps before a signal on
    marks = [(0, start), (ends[0] - CLOSING, a), (ends[0], a), ((ends[0] + ends[1]) // 2, (a + b) / 2 + up)]
    marks += [(ends[1] - 4, on_b), (ends[1], on_b), (ends[1] + 8, on_b + up)]
    marks += [(ends[2] - CLOSING, c), (ends[2], c), (steps - 1, c + up)]
    at = np.arange(steps)
    hand = np.stack([np.interp(at, [m for m, _ in marks], [p[i] for _, p in marks]) for i in range(3)], 1)
    things = {"cubeA": np.tile(a, (steps, 1)), "cubeB": np.tile(b, (steps, 1)), "cubeC": np.tile(c, (steps, 1))}
    things["cubeA"][ends[0] : ends[1]] = hand[ends[0] : ends[1]]
    things["cubeA"][ends[1] :] = on_b
    things["cubeC"][ends[2] :] = hand[ends[2] :]
    closed = ((at >= ends[0] - CLOSING) & (at < ends[1])) | (at >= ends[2] - CLOSING)
    width = np.interp(at, [0, ends[0] - CLOSING, ends[0], ends[1] - 1, ends[1] + 3, ends[2] - CLOSING, ends[2], steps],
                      [0.04, 0.04, 0.02, 0.02, 0.04, 0.04, 0.02, 0.02])  # fmt: skip
    starts = (ends[0] - 12, ends[1] - 10, ends[2] - 12, ends[2] + 10)
    return {"hand": hand, "things": things, "closed": closed, "width": width}, tuple(ends), starts


def label_file(path: Path, layout: Layout = "isaaclab", demos: int = 8, seed: int = 0, skillgen: bool = False) -> Path:
    """A file without a fault: `demos` demonstrations with the signals `NAMES`, and start signals with `skillgen`."""
    import h5py

    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        data.attrs["env_args"] = json.dumps(ISAACLAB if layout == "isaaclab" else ROBOSUITE)
        for i in range(demos):
            arrays, ends, starts = demo_arrays(1000 * seed + i)
            write_demo(data.create_group(f"demo_{i}"), layout, arrays, ends, starts if skillgen else ())
    return path


def write_demo(demo: Any, layout: Layout, arrays: dict[str, Any], ends: Sequence[int], starts: Sequence[int]) -> None:
    steps, isaac = len(arrays["hand"]), layout == "isaaclab"
    grip = np.where(arrays["closed"], -1.0, 1.0) * (1 if isaac else -1)
    demo["actions"] = np.concatenate([np.zeros((steps, 6)), grip[:, None]], 1)
    demo["obs/gripper_pos" if isaac else "obs/robot0_gripper_qpos"] = arrays["width"][:, None]
    info = demo.create_group(PLACE[layout])
    info["eef_pose/arm" if isaac else "eef_pose"] = poses(arrays["hand"])
    info["target_eef_pose/arm" if isaac else "target_pose"] = poses(arrays["hand"])
    if not isaac:
        info["gripper_action"] = grip[:, None]
    for name, places in arrays["things"].items():
        info[f"{'object_pose' if isaac else 'object_poses'}/{name}"] = poses(places)
    for name, step in zip(NAMES, ends, strict=True):
        info[f"subtask_term_signals/{name}"] = signal_of(step, steps, np.bool_ if isaac else np.int64)
    for name, step in zip((*NAMES, LAST), starts, strict=False):
        info[f"subtask_start_signals/{name}"] = signal_of(step, steps, np.bool_)
