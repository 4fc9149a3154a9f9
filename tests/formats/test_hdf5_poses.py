"""Poses for Isaac Lab's parser: kept, computed, or named as missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tempoloc_nb.clips.manifest import Clip
from tempoloc_nb.clips.tasks import Event
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.formats.hdf5_poses import INFO, _action_scale, find_poses
from tempoloc_nb.formats.hdf5_write import SignalOptions, write_signals

h5py = pytest.importorskip("h5py", reason="h5py is not installed (extra data)")

STEPS = 40
OSC = {"type": "OSC_POSE", "output_max": [0.05] * 3 + [0.5] * 3, "output_min": [-0.05] * 3 + [-0.5] * 3}
STACK = {"env_name": "Stack", "env_kwargs": {"control_freq": 20, "robots": ["Panda"], "controller_configs": OSC}}
POSE = np.tile(np.eye(4), (STEPS, 1, 1))
HAND = {"obs/robot0_eef_pos": np.full((STEPS, 3), 0.5), "obs/robot0_eef_quat": np.tile([0.0, 0, 0, 1], (STEPS, 1))}
OBJECT = {"obs/object": np.tile([*[1.0, 2, 3, 0, 0, 0, 1] * 2, 9.0], (STEPS, 1))}
MIMICGEN = {f"datagen_info/{n}": POSE for n in ("eef_pose", "target_pose", "object_poses/cubeA")}
CLIP = Clip("stack/0", "stack", (Event("grasping", 1.0),))


def demo_file(path: Path, fields: dict[str, Any], args: Any = STACK) -> Path:
    with h5py.File(path, "w") as file:
        file.create_group("data").attrs["env_args"] = json.dumps(args)
        demo = file.create_group("data/demo_0")
        demo["actions"] = np.tile([1.0, 0, 0, 0, 0, 0, -1], (STEPS, 1))
        for name, values in fields.items():
            demo[name] = values
    return path


@pytest.mark.parametrize(
    ("fields", "lacking"),
    [
        ({}, ("eef_pose/arm", "target_eef_pose/arm", "object_pose/cubeA")),
        (HAND, ("object_pose/cubeA",)),
        (HAND | OBJECT, ()),
        (MIMICGEN, ()),
        (HAND | {"obs/cubeA_pos": np.zeros((STEPS, 3)), "obs/cubeA_quat": np.ones((STEPS, 4))}, ()),
        (HAND | {"obs/object": OBJECT["obs/object"][:, :6]}, ("object_pose/cubeA",)),
        (HAND | {"obs/object": np.zeros((STEPS, 14))}, ("object_pose/cubeA",)),  # no rotation has length 0
        ({f"{INFO}/eef_pose": POSE} | OBJECT, ("eef_pose/arm", "target_eef_pose/arm")),  # no group
        ({n: v[1:] for n, v in HAND.items()} | OBJECT, ("eef_pose/arm", "target_eef_pose/arm")),
    ],
)
def test_poses_are_computed_from_what_is_there(tmp_path: Path, fields: Any, lacking: tuple[str, ...]) -> None:
    with h5py.File(demo_file(tmp_path / "d.hdf5", fields)) as file:
        found = find_poses(file["data/demo_0"], STEPS, ["arm"], ["cubeA"], ["cubeA", "cubeB"])
    assert found.lacking == lacking
    assert all(pose.shape == (STEPS, 4, 4) and pose.dtype == np.float32 for pose in found.new.values())
    if fields.keys() == (HAND | OBJECT).keys() and not lacking:
        assert set(found.new) == {f"{INFO}/{n}" for n in (
            "eef_pose/arm", "target_eef_pose/arm", "object_pose/cubeA", "object_pose/cubeB"
        )}  # fmt: skip
        assert np.allclose(found.new[f"{INFO}/target_eef_pose/arm"][:, :3, 3], [0.55, 0.5, 0.5])


def test_isaac_labs_own_poses_are_kept_and_wrong_lengths_refused(tmp_path: Path) -> None:
    own = {f"{INFO}/eef_pose/franka": POSE, f"{INFO}/target_eef_pose/franka": POSE, f"{INFO}/object_pose/cube_2": POSE}
    path = demo_file(tmp_path / "d.hdf5", own)
    done = write_signals(path, [CLIP], ["grasp"], options=SignalOptions(layout="isaaclab", create=True))
    assert done.notes == ()
    with h5py.File(path) as file:
        poses = {"eef_pose", "object_pose", "target_eef_pose"}
        assert set(file[f"data/demo_0/{INFO}"]) == {"subtask_term_signals", *poses}
        assert list(file[f"data/demo_0/{INFO}/eef_pose"]) == ["franka"]
    demo_file(path, own | {f"{INFO}/eef_pose/franka": POSE[1:]})
    before = path.read_bytes()
    with pytest.raises(TempolocError, match="demo_0: obs/datagen_info/eef_pose/franka has 39 values for 40 actions"):
        write_signals(path, [CLIP], ["grasp"], options=SignalOptions(layout="isaaclab", create=True))
    assert path.read_bytes() == before


def test_what_is_missing_is_named_in_one_line(tmp_path: Path) -> None:
    path = demo_file(tmp_path / "d.hdf5", HAND, {"env_name": "Stack", "env_kwargs": {"control_freq": 20}})
    (line,) = write_signals(path, [CLIP], ["grasp"], options=SignalOptions(layout="isaaclab", create=True)).notes
    assert line.startswith("Isaac Lab cannot load d.hdf5: demo_0 yet: obs/datagen_info lacks target_eef_pose/arm, obj")
    assert "robosuite's OSC_POSE among the env_args" in line


@pytest.mark.parametrize(
    "change",
    [
        {"type": "JOINT_POSITION"}, {"control_delta": False}, {"output_min": [-1.0] * 6}, {"input_max": 2},
        {"impedance_mode": "variable"}, {"output_max": "far"},
    ],
)  # fmt: skip
def test_other_controllers_have_no_scale(change: dict[str, Any]) -> None:
    told = {"env_kwargs": {"robots": "Panda", "controller_configs": OSC}}
    scale = _action_scale(json.dumps(told))
    assert scale is not None
    assert scale.tolist() == [0.05] * 3 + [0.5] * 3
    assert _action_scale(json.dumps({"env_kwargs": {"robots": "Panda", "controller_configs": OSC | change}})) is None
    assert _action_scale(json.dumps({"env_kwargs": told["env_kwargs"] | {"robots": ["Panda", "Panda"]}})) is None
    assert _action_scale("[]") is None
