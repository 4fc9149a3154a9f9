"""The gripper's signal from other people's files: which numbers, which way is open, what is said if there is none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tempoloc_nb.clips.manifest import Clip, load_benchmark
from tempoloc_nb.clips.tasks import Event
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.settings import data_dir
from tempoloc_nb.formats.gripper import read_gripper
from tempoloc_nb.inference.signals import find_transitions, gripper_rule
from tempoloc_nb.sim.benchmark import SIGNAL_HZ, read_clip_signals

h5py = pytest.importorskip("h5py")
CLIP = Clip("cup/demo_0", "cup", (Event("grasping the cup"), Event("releasing the cup")))
STEPS = np.arange(120)
CLOSED = ((STEPS >= 40) & (STEPS < 80)).astype(float)
FOLLOWS = np.interp(STEPS, [0, 40, 50, 80, 86, 119], [0, 0, 1, 1, 0, 0])  # share closed


def write_demo(path: Path, command: Any, group: str = "datagen_info", args: Any = None, **obs: Any) -> Path:
    with h5py.File(path, "w") as file:
        file.create_dataset("data/demo_0/actions", data=np.stack([np.zeros(120), command], 1))
        file["data/demo_0"].create_group(group)
        for name, values in obs.items():
            file.create_dataset(f"data/demo_0/obs/{name}", data=values)
        file["data"].attrs["env_args"] = json.dumps(args or {"env_kwargs": {"control_freq": 20}})
    return path


@pytest.mark.parametrize(
    "joints",
    [
        np.stack([0.04 * (1 - FOLLOWS), -0.04 * (1 - FOLLOWS)], 1),  # a Panda's, larger when open
        np.stack([0.1 * FOLLOWS, 0.8 * FOLLOWS, -0.8 * FOLLOWS], 1),  # a Robotiq's, larger when closed
        1 - FOLLOWS,
    ],
)
def test_finger_joints_are_turned_as_the_command_is(tmp_path: Path, joints: Any) -> None:
    hand = np.arange(360.0).reshape(120, 3)
    path = write_demo(tmp_path / "d.hdf5", 2 * CLOSED - 1, robot0_gripper_qpos=joints, robot0_eef_pos=hand)
    signal = read_gripper(path, [CLIP])[CLIP.clip]
    assert gripper_rule(("close", "open"), find_transitions(signal)) == pytest.approx((2.465, 4.015), abs=0.02)
    assert signal.hand is not None
    assert (signal.hand == hand).all()


@pytest.mark.parametrize("group", ["obs/datagen_info/object_pose", "datagen_info/object_poses"])
def test_the_ways_of_objects_and_of_the_hand_are_read_from_their_poses(tmp_path: Path, group: str) -> None:
    path, poses = write_demo(tmp_path / "d.hdf5", 2 * CLOSED - 1), np.tile(np.eye(4), (120, 1, 1))
    poses[:, 0, 3] = STEPS
    with h5py.File(path, "a") as file:
        file[f"data/demo_0/{group}/cup"] = poses
        file["data/demo_0/obs/datagen_info/eef_pose/arm"] = 2 * poses
    signal = read_gripper(path, [CLIP])[CLIP.clip]
    assert signal.things["cup"].tolist() == [[k, 0, 0] for k in STEPS]
    assert signal.hand is not None
    assert (signal.hand[:, 0] == 2 * STEPS).all()


@pytest.mark.parametrize(
    ("group", "args", "closes"),
    [
        ("datagen_info", {}, 1.0),
        ("obs/datagen_info", {}, 1.0),
        ("obs/datagen_info", {"sim_args": {"dt": 0.01, "decimation": 5}}, -1.0),
    ],
    ids=["robosuite", "robosuite in Isaac Lab's layout", "Isaac Lab"],
)
def test_without_joints_the_command_is_read(tmp_path: Path, group: str, args: Any, closes: float) -> None:
    path = write_demo(tmp_path / "d.hdf5", closes * (2 * CLOSED - 1), group, args)
    found = find_transitions(read_gripper(path, [CLIP])[CLIP.clip])
    assert [(t.kind, t.time) for t in found] == [("close", 2.0), ("open", 4.0)]


def test_an_archive_of_simulated_signals() -> None:
    clips, path = load_benchmark("sim").clips, data_dir() / "benchmarks" / "sim" / "signals.npz"
    ours, theirs = read_gripper(path, clips), read_clip_signals(path)
    assert ours.keys() == theirs.keys()
    for name in list(ours)[::50]:
        np.testing.assert_allclose(ours[name].opening * 1e-5, theirs[name].aperture, rtol=1e-9)
        assert ours[name].times[-1] == pytest.approx((len(theirs[name].aperture) - 1) / SIGNAL_HZ)


def write_dataset(root: Path, names: Any) -> Path:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    (root / "meta").mkdir(parents=True)
    (root / "data" / "chunk-000").mkdir(parents=True)
    state = {"dtype": "float32", "shape": [2], "names": names}
    info = {"codebase_version": "v3.0", "fps": 20, "features": {"observation.state": state}}
    info["data_path"] = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
    (root / "meta" / "info.json").write_text(json.dumps(info))
    episodes = root / "meta" / "episodes" / "chunk-000"
    episodes.mkdir(parents=True)
    parquet.write_table(arrow.table({"episode_index": [0, 1], "length": [120, 120]}), episodes / "file-000.parquet")
    rows = {
        "episode_index": np.repeat([0, 1], 120), "timestamp": np.tile(STEPS / 20 + 3, 2).astype(np.float32),
        "observation.state": [[0.5, v] for v in np.tile(1 - FOLLOWS, 2).tolist()],
    }  # fmt: skip
    parquet.write_table(arrow.table(rows), root / "data" / "chunk-000" / "file-000.parquet")
    return root


@pytest.mark.parametrize("names", [["waist", "gripper.pos"], {"motors": ["main_waist", "main_gripper"]}])
def test_the_gripper_among_a_state(tmp_path: Path, names: Any) -> None:
    root = write_dataset(tmp_path / "set", names)
    clip = Clip("cup/episode_000001", "cup", CLIP.events, extra={"episode_index": 1})
    read = read_gripper(root, [clip])
    assert list(read) == [clip.clip]
    assert gripper_rule(("close", "open"), find_transitions(read[clip.clip])) == pytest.approx((2.465, 4.015), abs=0.02)
    turned = find_transitions(read_gripper(root, [clip], inverted=True)[clip.clip])
    assert [t.kind for t in turned] == ["open", "close"]


def test_what_has_no_gripper_is_said(tmp_path: Path) -> None:
    path = write_demo(tmp_path / "d.hdf5", CLOSED)
    with pytest.raises(TempolocError, match=r"d\.hdf5 has the gripper of none of the clips, such as cup/demo_7"):
        read_gripper(path, [Clip("cup/demo_7", "cup", CLIP.events)])
    with pytest.raises(TempolocError, match="is not there"):
        read_gripper(tmp_path / "no.hdf5", [CLIP])
    with pytest.raises(TempolocError, match=r"0 of the numbers .* waist, wrist"):
        read_gripper(write_dataset(tmp_path / "set", ["waist", "wrist"]), [CLIP])
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    with pytest.raises(TempolocError, match=r"other\.npz holds no signals"):
        read_gripper(tmp_path / "other.npz", [CLIP])
