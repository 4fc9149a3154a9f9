"""The gripper's signal from other people's files: which numbers, which way is open, what is said if there is none."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tempoloc_nb.clips.manifest import Clip, load_benchmark
from tempoloc_nb.clips.tasks import Event
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.settings import data_dir
from tempoloc_nb.formats.gripper import GripperFile, Reading, read_gripper
from tempoloc_nb.inference.signals import find_transitions, gripper_rule
from tempoloc_nb.lab.sim.benchmark import SIGNAL_HZ, read_clip_signals

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


@pytest.mark.parametrize("duration", [None, 5.6, 6.0, 6.4])
def test_a_video_may_be_a_little_longer_than_its_demonstration(tmp_path: Path, duration: float | None) -> None:
    path = write_demo(tmp_path / "d.hdf5", 2 * CLOSED - 1, robot0_gripper_qpos=1 - FOLLOWS)
    assert read_gripper(path, [replace(CLIP, duration=duration)])


@pytest.mark.parametrize("duration", [5.0, 7.0])
def test_the_gripper_of_a_demonstration_of_another_length_is_not_the_clips(tmp_path: Path, duration: float) -> None:
    """No time is better than one of another demonstration."""
    path = write_demo(tmp_path / "d.hdf5", 2 * CLOSED - 1, robot0_gripper_qpos=1 - FOLLOWS)
    with pytest.raises(TempolocError, match=rf"demo_0 lasts 6\.0 s, and cup/demo_0 {duration} s: is it another clip"):
        read_gripper(path, [replace(CLIP, duration=duration)])


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


def write_dataset(root: Path, names: Any, rows: Any = None, **more: tuple[Any, Any]) -> Path:
    """Two episodes with the same `rows` (120, n) of a state with these names, and `more` features: (names, rows)."""
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    (root / "meta").mkdir(parents=True)
    (root / "data" / "chunk-000").mkdir(parents=True)
    rows = np.stack([np.full(120, 0.5), 1 - FOLLOWS], 1) if rows is None else rows
    given = {"observation.state": (names, rows), **{k.replace("__", "."): v for k, v in more.items()}}
    features, table = {}, {}
    for group, (own, values) in given.items():
        shape = list(np.shape(values)[1:])
        features[group] = {"dtype": "float32", "shape": shape, "names": own}
        table[group] = np.concatenate([values, values]).tolist()
    info = {"codebase_version": "v3.0", "fps": 20, "features": features}
    info["data_path"] = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
    (root / "meta" / "info.json").write_text(json.dumps(info))
    (root / "meta" / "episodes" / "chunk-000").mkdir(parents=True)
    episodes = arrow.table({"episode_index": [0, 1], "length": [120, 120]})
    parquet.write_table(episodes, root / "meta" / "episodes" / "chunk-000" / "file-000.parquet")
    index, times = np.repeat([0, 1], 120), np.tile(STEPS / 20 + 3, 2).astype(np.float32)
    path = root / "data" / "chunk-000" / "file-000.parquet"
    parquet.write_table(arrow.table({"episode_index": index, "timestamp": times, **table}), path)
    return root


def kinds(path: Path, clip: Clip = CLIP, **how: Any) -> list[str]:
    """What the gripper does, with whose arm it is: "close", "right open"."""
    moves = find_transitions(read_gripper(path, [clip], **how)[clip.clip])
    return [f"{t.arm} {t.kind}".strip() for t in moves]


EPISODE = Clip("cup/episode_000001", "cup", CLIP.events, extra={"episode_index": 1})


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


def two_robots(path: Path, turned: int = 1) -> Path:
    """robot0 closes at 2 and opens at 4 s; robot1, whose command is the last, closes at 1 and opens at 5 s."""
    actions, other = np.zeros((120, 14)), ((STEPS >= 20) & (STEPS < 100)).astype(float)
    actions[:, 6], actions[:, 13] = 2 * CLOSED - 1, 2 * other - 1
    with h5py.File(path, "w") as file:
        file.create_dataset("data/demo_0/actions", data=actions)
        for k, closed in enumerate((FOLLOWS, np.convolve(other, np.ones(4) / 4, "same"))):
            fingers = turned * np.stack([0.04 * (1 - closed), -0.04 * (1 - closed)], 1)
            file[f"data/demo_0/obs/robot{k}_gripper_qpos"] = fingers
            file[f"data/demo_0/obs/robot{k}_gripper_qvel"] = np.gradient(fingers, axis=0)
        file["data"].attrs["env_args"] = json.dumps({"env_kwargs": {"control_freq": 20}})
    return path


@pytest.mark.parametrize("turned", [1, -1], ids=["larger is open", "larger is closed"])
def test_each_of_two_robots_is_turned_by_its_own_command(tmp_path: Path, turned: int) -> None:
    path = two_robots(tmp_path / "d.hdf5", turned)
    with pytest.raises(TempolocError, match=r"d\.hdf5 has 2 grippers, robot0 .*, robot1 .*--gripper"):
        read_gripper(path, [CLIP])
    for name in ("robot0_gripper_qpos", "obs/robot0_gripper_qpos[1]", "action[6]", "actions[-8]"):
        signal = read_gripper(path, [CLIP], gripper=name)[CLIP.clip]
        assert [t.kind for t in find_transitions(signal)] == ["close", "open"], name
        assert gripper_rule(("close", "open"), find_transitions(signal)) == pytest.approx((2.3, 4.02), abs=0.31)
        assert kinds(path, gripper=name, inverted=True) == ["open", "close"]
    both = ("robot0_gripper_qpos", "robot1_gripper_qpos")
    assert kinds(path, gripper=both) == ["robot1 close", "robot0 close", "robot0 open", "robot1 open"]
    assert kinds(path, gripper=("left=action[6]", "right=action[13]")) == [
        "right close", "left close", "left open", "right open"
    ]  # fmt: skip


def test_inverted_turns_what_is_read_from_every_kind_of_file(tmp_path: Path) -> None:
    paths = [write_demo(tmp_path / "a.hdf5", 2 * CLOSED - 1)]
    paths += [write_demo(tmp_path / "b.hdf5", 2 * CLOSED - 1, robot0_gripper_qpos=1 - FOLLOWS)]
    np.savez(tmp_path / "own.npz", aperture=(1 - FOLLOWS) * 4000, frames=[120], clip=[CLIP.clip])
    for path in (*paths, tmp_path / "own.npz"):
        assert (kinds(path), kinds(path, inverted=True)) == (["close", "open"], ["open", "close"]), path.name
    with pytest.raises(TempolocError, match=r"own\.npz holds one gripper, without a name: leave --gripper out"):
        read_gripper(tmp_path / "own.npz", [CLIP], gripper="x")


def test_a_command_that_is_not_certainly_the_grippers_is_not_believed(tmp_path: Path) -> None:
    odd = {"values of 0 and 1": CLOSED, "values up to 255": 255 * CLOSED}
    for name, command in odd.items():
        path = write_demo(tmp_path / f"{name}.hdf5", command)
        with pytest.raises(TempolocError, match=r"nothing says whether .* is larger .* --gripper.* --inverted"):
            read_gripper(path, [CLIP])
        assert kinds(path, gripper="action[1]", inverted=True) == ["close", "open"]
    fingers = {"robot0_gripper_qpos": 1 - FOLLOWS}
    other = write_demo(tmp_path / "unlike.hdf5", np.where(STEPS % 7 < 3, 1.0, -1.0), **fingers)
    with pytest.raises(TempolocError, match="nothing says whether"):  # the last action is a mobile base's, say
        read_gripper(other, [CLIP])
    assert kinds(other, gripper="robot0_gripper_qpos") == ["close", "open"]
    with h5py.File(other, "a") as file:
        del file["data/demo_0/actions"], file["data/demo_0/obs"]
        file["data/demo_0/actions"] = np.tile((2 * CLOSED - 1)[:, None], (1, 14))
    with pytest.raises(TempolocError, match="nothing says which of its numbers is the gripper"):
        read_gripper(other, [CLIP])


def test_a_state_that_rests_gives_way_to_the_command(tmp_path: Path) -> None:
    lines: list[str] = []
    action = {"action__gripper_position": (None, FOLLOWS)}
    root = write_dataset(tmp_path / "set", ["waist", "gripper"], np.zeros((120, 2)), **action)
    assert kinds(root, EPISODE, inverted=True, say=lines.append) == ["close", "open"]
    said = "set: the gripper is action.gripper_position, since observation.state/gripper does not move; larger is more"
    assert lines == [f"{said} closed (as --inverted says)"]
    assert kinds(root, EPISODE, gripper="gripper_position", say=lines.append) == ["open", "close"]
    assert lines[-1].endswith("larger is more open (else --inverted); so it is closed at the start of 1 of 1")
    path = write_demo(tmp_path / "d.hdf5", 2 * CLOSED - 1, robot0_gripper_qpos=np.full(120, 0.04))
    assert kinds(path, say=lines.append) == ["close", "open"]
    assert "is actions[1], since obs/robot0_gripper_qpos does not move" in lines[-1]
    with h5py.File(path, "a") as file:
        file["data/demo_0/actions"][:] = -1
    assert kinds(path, say=lines.append) == []
    assert lines[-1].endswith("does not move, or hardly: nothing is read from it")


HAND = [[f"k{side}{part}" for side in ("Left", "Right") for part in ("Elbow", "HandPinky", "HandThumbBend")]]


def test_the_fingers_of_a_hand_are_read_as_their_mean(tmp_path: Path) -> None:
    lines: list[str] = []
    rows = np.stack([STEPS, 0.9 + 0.001 * np.sin(STEPS), STEPS * 0.0, STEPS, 1 - FOLLOWS, 0.8 - 0.5 * FOLLOWS], 1)
    root = write_dataset(tmp_path / "g", HAND, rows)
    for name in ((), "kRightHand", "state[4:6]", "state[4,5]", "kRightHandPinky,kRightHandThumbBend"):
        read = read_gripper(root, [EPISODE], gripper=name, say=lines.append)[EPISODE.clip]
        assert read.opening == pytest.approx(0.9 - 0.75 * FOLLOWS, abs=1e-6)
        assert read.arms == ("right",)
    assert lines[0].startswith("g: the gripper of the right arm is observation.state/kRightHandPinky to")
    assert "kLeftHandThumbBend, the mean of 2 does not move" in lines[1]
    with pytest.raises(TempolocError, match=r"'Hand' fits .*: name those of one arm"):
        read_gripper(root, [EPISODE], gripper="Hand")
    with pytest.raises(TempolocError, match="g has no 'kRigthHand' for --gripper: it has kLeftElbow"):
        read_gripper(root, [EPISODE], gripper="kRigthHand")
    with pytest.raises(TempolocError, match=r"state has 6 numbers, 0 to 5, not \[9\]"):
        read_gripper(root, [EPISODE], gripper="state[9]")
    with pytest.raises(TempolocError, match="are of one arm: put commas between fingers"):
        read_gripper(root, [EPISODE], gripper=("kRightHandPinky", "kRightHandThumbBend"))


def test_two_arms_that_both_move_must_be_named(tmp_path: Path) -> None:
    late = np.interp(STEPS, [0, 60, 65, 100, 105, 119], [1, 1, 0, 0, 1, 1])
    rows = np.stack([1 - FOLLOWS, late], 1)
    root = write_dataset(tmp_path / "a", ["left_gripper.pos", "right_gripper.pos"], rows)
    with pytest.raises(TempolocError, match=r"a has 2 grippers, left \(.*left_gripper\.pos\), right .*--gripper"):
        read_gripper(root, [EPISODE])
    assert kinds(root, EPISODE, gripper="right_gripper.pos") == ["right close", "right open"]
    both = ("left_gripper.pos", "right_gripper.pos")
    assert kinds(root, EPISODE, gripper=both) == ["left close", "right close", "left open", "right open"]
    bare = write_dataset(tmp_path / "b", None, np.tile(rows, (1, 7)))
    with pytest.raises(TempolocError, match=r"0 of the numbers .*; name it with --gripper"):
        read_gripper(bare, [EPISODE])
    assert kinds(bare, EPISODE, gripper="state[13]") == ["close", "open"]


def test_numbers_that_are_missing_or_not_finite_are_said(tmp_path: Path) -> None:
    odd = np.where(STEPS == 7, np.nan, 1 - FOLLOWS)
    path = write_demo(tmp_path / "d.hdf5", 2 * CLOSED - 1, robot0_gripper_qpos=odd)
    with pytest.raises(TempolocError, match=r"d\.hdf5: demo_0: obs/robot0_gripper_qpos is nan at step 7"):
        read_gripper(path, [CLIP])
    root = write_dataset(tmp_path / "set", ["waist", "gripper"], np.stack([odd, odd], 1))
    with pytest.raises(TempolocError, match=r"episode 1: observation\.state.* lacks a number"):
        read_gripper(root, [EPISODE])
    longer = np.concatenate([1 - FOLLOWS, [1.0]])
    path = write_demo(tmp_path / "e.hdf5", 2 * CLOSED - 1, robot0_gripper_qpos=longer)
    assert kinds(path) == ["close", "open"]  # an observation more than actions, after the last


@pytest.mark.parametrize("count", [60, 119, 240])
@pytest.mark.parametrize("name", [(), "robot0_gripper_qpos", "left=obs/robot0_gripper_qpos[0]"])
def test_a_gripper_of_another_length_than_the_actions_is_an_error(tmp_path: Path, count: int, name: Any) -> None:
    """The command, or a joint, was read instead of it, without a word."""
    fingers = np.interp(np.linspace(0, 119, count), STEPS, 1 - FOLLOWS)
    other = {"robot0_gripper_qpos": fingers, "gripper_view": np.zeros((3, 9999))}
    path = write_demo(tmp_path / "f.hdf5", 2 * CLOSED - 1, **other)
    with pytest.raises(TempolocError, match=rf"obs/robot0_gripper_qpos has {count} rows for 120 actions: .*--gripper"):
        read_gripper(path, [CLIP], gripper=name)
    assert kinds(path, gripper="actions[1]") == ["close", "open"]


def test_a_name_may_say_which_way_its_numbers_go(tmp_path: Path) -> None:
    lines: list[str] = []
    rows = np.stack([FOLLOWS, 1 - FOLLOWS], 1)
    for i, name in enumerate(("gripper_closed", "gripper_open")):
        root = write_dataset(tmp_path / name, ["waist", name], rows[:, [1, 0]] if i == 0 else rows)
        assert kinds(root, EPISODE, say=lines.append) == ["close", "open"]
        assert lines[-1].endswith(("is more closed (as its name says)", "is more open (as its name says)")[i])
        assert kinds(root, EPISODE, inverted=True) == ["open", "close"]


CLOSING = (
    "gripper_closedness", "gripper_closed", "gripper_closing", "gripper_closure", "gripper_close_ratio",
    "gripper_is_grasping",
    "gripperClosed", "gripper_is_shut", "gripper_not_open", "gripper_unopened",
)  # fmt: skip


@pytest.mark.parametrize("name", CLOSING)
def test_a_column_of_closedness_is_larger_when_closed(tmp_path: Path, name: str) -> None:
    root = write_dataset(tmp_path / "in names", ["waist", name], np.stack([STEPS / 120, FOLLOWS], 1))
    assert kinds(root, EPISODE) == ["close", "open"]
    group = {f"observation__{name}": (None, FOLLOWS), f"observation__{name}_2": (["value"], FOLLOWS[:, None])}
    root = write_dataset(tmp_path / "in groups", ["waist", "wrist"], **group)
    for own in group:
        assert kinds(root, EPISODE, gripper=own.replace("__", ".")) == ["close", "open"]
    path = write_demo(tmp_path / "d.hdf5", np.zeros(120), **{name: FOLLOWS})
    assert kinds(path) == ["close", "open"]


STEPPED = np.where((STEPS >= 40) & (STEPS < 46), -1.0, np.where((STEPS >= 80) & (STEPS < 86), 1.0, 0.0))


@pytest.mark.parametrize("steps", [STEPPED, STEPPED + 1, 0.01 * STEPPED], ids=["-1 to 1", "0 to 2", "metres"])
def test_steps_of_a_gripper_are_no_opening(tmp_path: Path, steps: Any) -> None:
    """Each closing was followed by an opening that did not happen."""
    rows = np.stack([STEPS / 120, np.ones(120)], 1)
    root = write_dataset(
        tmp_path / "a", ["waist", "gripper"], rows, action=(["delta_x", "gripper"], rows * steps[:, None])
    )
    for how in ({}, {"gripper": ("action[1]",)}, {"inverted": True}):
        with pytest.raises(
            TempolocError, match=r"action/gripper rests between its ends and comes back .*: name another"
        ):
            read_gripper(root, [EPISODE], **how)
    held = np.interp(STEPS, [0, 40, 50, 80, 86, 119], [0.2, 0.2, 0.5, 0.5, 1, 1])  # on a thing, and no step
    rows = np.stack([STEPS, held], 1)
    assert kinds(write_dataset(tmp_path / "b", ["waist", "gripper"], rows), EPISODE) == ["open", "open"]


@pytest.mark.parametrize("name", ["gripper_delta", "gripper_contact", "gripper_status", "is_gripper_moving"])
def test_what_else_is_said_of_a_gripper_is_no_opening(tmp_path: Path, name: str) -> None:
    with pytest.raises(TempolocError, match=rf"0 of the numbers .* are called gripper; they are: waist, {name}"):
        read_gripper(write_dataset(tmp_path / "a", ["waist", name], np.stack([STEPS, FOLLOWS], 1)), [EPISODE])


def test_demonstrations_whose_grippers_go_opposite_ways_are_not_read_as_one(tmp_path: Path) -> None:
    """Both were read as the second."""
    path = write_demo(tmp_path / "d.hdf5", 2 * CLOSED - 1, gripper=1 - FOLLOWS)
    with h5py.File(path, "a") as file:
        file["data/demo_1/actions"] = file["data/demo_0/actions"][:]
        file["data/demo_1/obs/gripper"] = FOLLOWS
    clips = [Clip(f"cup/demo_{k}", "cup", CLIP.events) for k in (0, 1)]
    with pytest.raises(TempolocError, match=r"obs/gripper is larger when open in some .*: read them apart"):
        read_gripper(path, clips)
    assert [kinds(path, clip) for clip in clips] == 2 * [["close", "open"]]


def test_a_name_and_a_command_that_disagree_are_asked_about(tmp_path: Path) -> None:
    path = write_demo(tmp_path / "d.hdf5", 2 * CLOSED - 1, gripper_closedness=1 - FOLLOWS)
    with pytest.raises(TempolocError, match=r"obs/gripper_closedness says .* closed, and its command the contrary"):
        read_gripper(path, [CLIP])
    assert kinds(path, gripper="gripper_closedness", inverted=True) == ["close", "open"]


def test_an_arm_without_a_gripper_is_asked_about(tmp_path: Path) -> None:
    path = tmp_path / "d.hdf5"
    with h5py.File(path, "w") as file:
        file["data/demo_0/actions"] = np.sin(STEPS[:, None] / [9, 8, 7, 6, 5, 4])  # six joints
        file["data/demo_0/obs/robot0_joint_pos"] = np.zeros((120, 6))
        file["data"].attrs["env_args"] = json.dumps({"env_kwargs": {"control_freq": 20}})
    with pytest.raises(TempolocError, match="nothing says which of its numbers is the gripper: name it with --gripper"):
        read_gripper(path, [CLIP])
    for name in ("", ",", "left="):
        with pytest.raises(TempolocError, match=r"--gripper .* names nothing"):
            read_gripper(path, [CLIP], gripper=(name,))


SLOW = np.random.default_rng(0)
JOINTS = {
    "noise": SLOW.normal(0, 0.3, 120), "a sine": np.sin(STEPS / 15), "a ramp": STEPS / 60 - 1,
    "two poses of a joint": 1.3 * FOLLOWS - 0.6, "signs of noise": np.sign(SLOW.normal(0, 1, 120)),
}  # fmt: skip


@pytest.mark.parametrize("joint", JOINTS)
def test_a_seventh_joint_is_no_gripper(tmp_path: Path, joint: str) -> None:
    path = tmp_path / "d.hdf5"
    with h5py.File(path, "w") as file:
        for k, values in enumerate((np.zeros(120), JOINTS[joint])):  # that it rests in one says nothing
            file[f"data/demo_{k}/actions"] = np.stack([*np.sin(STEPS / [[9], [8], [7], [6], [5], [4]]), values], 1)
        file["data"].attrs["env_args"] = json.dumps({"env_kwargs": {"control_freq": 20}})
    clips = [Clip(f"cup/demo_{k}", "cup", CLIP.events) for k in (0, 1)]
    with pytest.raises(TempolocError, match=r"which .* --gripper.* \(actions\[6\], the last, does not rest"):
        read_gripper(path, clips)
    assert read_gripper(path, clips, gripper="actions[6]")[clips[1].clip].opening.shape == (120,)
    with h5py.File(path, "a") as file:  # nor where the fingers rest
        for k in (0, 1):
            file[f"data/demo_{k}/obs/robot0_gripper_qpos"] = np.full((120, 2), 0.04)
    assert not any(map(find_transitions, read_gripper(path, clips).values()))


@pytest.mark.parametrize("name", ["finger_width", "jaw", "Claw.pos", "hand_index_joint", "aperture", "GripperPosition"])
def test_other_words_for_a_gripper(tmp_path: Path, name: str) -> None:
    rows = np.stack([STEPS, STEPS, 1 - FOLLOWS, STEPS], 1)
    root = write_dataset(tmp_path / "a", ["gripper_x", "hand_yaw", name, "gripper_velocity"], rows)
    assert kinds(root, EPISODE) == ["close", "open"]


@pytest.mark.parametrize("width", [7, 12], ids=["a command that rests", "no command of its own"])
def test_joints_without_a_command_are_marked_as_taken_for_open(tmp_path: Path, width: int) -> None:
    lines: list[str] = []
    path = tmp_path / "d.hdf5"
    with h5py.File(path, "w") as file:
        file["data/demo_0/actions"] = np.zeros((120, 7)) if width == 7 else np.tile(2 * CLOSED - 1, (12, 1)).T
        file["data/demo_0/obs/robot0_gripper_qpos"] = np.stack([0.04 * (1 - FOLLOWS), -0.04 * (1 - FOLLOWS)], 1)
        file["data"].attrs["env_args"] = json.dumps({"env_kwargs": {"control_freq": 20}})
    assert kinds(path, say=lines.append) == ["close", "open"]
    assert lines[0].endswith("larger is more open (else --inverted)")
    assert kinds(path, inverted=True, say=lines.append) == ["open", "close"]
    assert lines[1].endswith("is more closed (as --inverted says); so it is closed at the start of 1 of 1")


def test_a_linkage_whose_command_is_not_known_is_asked_about(tmp_path: Path) -> None:
    """A Robotiq's joints grow as it closes, a hand's as well: nothing makes them larger when open."""
    path = tmp_path / "d.hdf5"
    with h5py.File(path, "w") as file:
        file["data/demo_0/actions"] = np.tile(2 * CLOSED - 1, (12, 1)).T
        file["data/demo_0/obs/robot0_gripper_qpos"] = np.repeat(0.8 * FOLLOWS[:, None], 6, axis=1)
        file["data"].attrs["env_args"] = json.dumps({"env_kwargs": {"control_freq": 20}})
    with pytest.raises(TempolocError, match=r"nothing says whether .* is larger when the gripper is more open"):
        kinds(path)
    assert kinds(path, inverted=True) == ["close", "open"]


def test_a_gripper_that_is_true_or_false(tmp_path: Path) -> None:
    path = write_demo(tmp_path / "d.hdf5", np.zeros(120), gripper_open=CLOSED < 1)
    assert kinds(path) == ["close", "open"]


@pytest.mark.parametrize(
    ("frames", "names", "message"),
    [([60], ["cup/demo_0"], "count 60"), ([90.0], ["cup/demo_0"], "count"), ([45, 45], ["a", "a"], "twice")],
)
def test_an_archive_that_does_not_add_up(tmp_path: Path, frames: Any, names: Any, message: str) -> None:
    np.savez(tmp_path / "s.npz", aperture=np.ones(90), frames=np.array(frames), clip=np.array(names))
    with pytest.raises(TempolocError, match=message):
        read_gripper(tmp_path / "s.npz", [CLIP])


def test_kinds_of_events_that_no_clip_has_or_that_are_told_twice() -> None:
    with pytest.raises(TempolocError, match="no clip has the event 'grasping teh cube' of --event-kind; they have "):
        GripperFile(event_kind=("grasping teh cube=close",)).read(load_benchmark("sim"), Reading())
    with pytest.raises(TempolocError, match="'a' is given two kinds of event"):
        _ = GripperFile(event_kind=("a=close", "a=open")).told
