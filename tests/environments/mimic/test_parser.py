"""What Isaac Lab's own parser says of our signals, poses and rules."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from isaac_lab_parser import accepts, pool_of

from tempoloc_nb.clips.manifest import Clip, read_manifest, write_manifest
from tempoloc_nb.clips.tasks import Event, Subtask
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.formats.convert import export_dataset, task_text
from tempoloc_nb.formats.hdf5_rules import Ranges, check_order, check_skills, signal_of
from tempoloc_nb.lab.sim.make import simulate_clips
from tempoloc_nb.lab.sim.motion import rotation_vector
from tempoloc_nb.lab.sim.scene import CONTROL_HZ, MAX_STEP
from tempoloc_nb.lab.sim.tasks import find_families

TRIES = 3000


def episode(length: int, ends: Sequence[int], starts: Sequence[int] = ()) -> dict[str, Any]:
    """A demonstration of one arm with the signals s0, s1, ..."""
    poses = torch.eye(4).repeat(length, 1, 1)

    def signals(steps: Sequence[int]) -> dict[str, Any]:
        return {f"s{i}": torch.tensor(signal_of(step, length, bool)) for i, step in enumerate(steps)}

    info = {"eef_pose": {"arm": poses}, "object_pose": {}, "target_eef_pose": {"arm": poses}}
    info |= {"subtask_term_signals": signals(ends)} | ({"subtask_start_signals": signals(starts)} if starts else {})
    return {"actions": torch.zeros(length, 7), "obs": {"datagen_info": info}}


def offset(rng: random.Random, most: int = 3) -> tuple[int, int]:
    low = rng.randint(-most, most)
    return low, low + rng.randint(0, most)


def test_the_order_check_is_isaac_labs() -> None:
    rng, taken = random.Random(0), 0
    for _ in range(TRIES):
        count, length = rng.randint(1, 4), rng.randint(4, 30)
        steps = [rng.randint(-1, length + 1) for _ in range(count)]
        steps = sorted(steps) if rng.random() < 0.8 else steps
        offsets = tuple(offset(rng) for _ in range(count))
        names = [f"s{i}" for i in range(count)]
        try:
            check_order("demo", steps, length, names, offsets)
            ours = True
        except TempolocError:
            ours = False
        named = zip(names, offsets, strict=True)
        parts = [{"subtask_term_signal": n, "subtask_term_offset_range": o} for n, o in named]
        theirs = accepts(pool_of({"arm": [*parts, {}]}), episode(length, steps))
        assert ours == theirs, (steps, length, offsets)
        taken += theirs
    assert taken > TRIES // 10


def test_the_check_of_skills_is_isaac_labs_and_keeps_starts_at_0_or_later() -> None:
    rng, taken, stricter = random.Random(1), 0, 0
    for _ in range(TRIES):
        count, length = rng.randint(1, 3), rng.randint(6, 40)
        steps = [rng.randint(0, length) for _ in range(2 * count)]
        steps = sorted(steps) if rng.random() < 0.9 else steps
        starts, ends = steps[::2], steps[1::2]
        ranges = [Ranges(offset(rng, 2), offset(rng, 2)) for _ in range(count)]
        ranges[-1] = Ranges(ranges[-1].start)  # the generator moves no last end
        names = [f"s{i}" for i in range(count)]
        try:
            check_skills("demo", names, starts, ends, length, ranges)
            ours = True
        except TempolocError:
            ours = False
        if any(s + r.start[0] < 0 for s, r in zip(starts, ranges, strict=True)) or not 0 < ends[-1] < length:
            assert not ours  # the parser looks at neither
            stricter += 1
            continue
        parts = [
            {"subtask_term_signal": n, "subtask_start_offset_range": r.start, "subtask_term_offset_range": r.end}
            for n, r in zip(names, ranges, strict=True)
        ]
        theirs = accepts(pool_of({"arm": parts}, skillgen=True), episode(length, ends, starts))
        assert ours == theirs, (starts, ends, length, ranges)
        taken += theirs
    assert taken > TRIES // 20
    assert stricter < TRIES // 2


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[Event, ...]]:
    """A demonstration of stacking two cubes, as `tempoloc simulate` writes it, and its events."""
    folder = tmp_path_factory.mktemp("simulated")
    simulate_clips(find_families("sft", "stack-two")[0], 1, folder, render=False, workers=1)
    (clip,) = read_manifest(folder / "manifest.jsonl")
    return folder / "hdf5" / "stack-two.hdf5", tuple(Event(e.label, e.boundary) for e in clip.events)


def test_an_export_loads_in_isaac_labs_parser(simulated: tuple[Path, tuple[Event, ...]], tmp_path: Path) -> None:
    path, events = simulated
    write_manifest(tmp_path / "m.jsonl", [Clip("stack-two/0", "stack-two", events)])
    out = tmp_path / "demos.hdf5"
    out.write_bytes(path.read_bytes())
    done = export_dataset(tmp_path / "m.jsonl", out, "hdf5", signal=["grasp"], layout="isaaclab", create=True)
    assert "lacks" not in str(done)
    pool = pool_of({"arm": [{"object_ref": "cubeA", "subtask_term_signal": "grasp"}, {"object_ref": "cubeB"}]})
    pool.load_from_dataset_file(str(out))
    (info,), steps = pool.datagen_infos, round(events[0].time * CONTROL_HZ)
    with h5py.File(out) as file:
        actions, seen = file["data/demo_0/actions"][()], file["data/demo_0/obs/robot0_eef_pos"][()]
    assert pool.subtask_boundaries == {"arm": [[(0, steps + 1), (steps + 1, len(actions))]]}
    eef, target = (np.asarray(p["arm"], dtype=np.float64) for p in (info.eef_pose, info.target_eef_pose))
    assert np.abs(eef[:, :3, 3] - seen).max() < 1e-6
    assert {n: tuple(p.shape) for n, p in info.object_poses.items()} == dict.fromkeys(
        ("cubeA", "cubeB"), (len(actions), 4, 4)
    )
    assert all(p.dtype == torch.float32 for p in info.object_poses.values())
    for now, sent, action in zip(eef, target, actions, strict=True):  # what the simulator was told, back from the poses
        again = [(sent - now)[:3, 3] / MAX_STEP[0], rotation_vector(sent[:3, :3], now[:3, :3]) / MAX_STEP[1]]
        assert np.abs(np.concatenate(again) - action[:6]).max() < 1e-4


def test_starts_of_several_arms_load_in_isaac_labs_parser(tmp_path: Path) -> None:
    events, steps, length = ("reach", "grasp", "hold", "bring", "place", "let go"), (12, 20, 22, 31, 44, 47), 60
    parts = [
        Subtask("grasp", "reach", "grasp", "cube", "left"), Subtask("place", "bring", "place", "box", "left"),
        Subtask("hold", "hold", "let go", "box", "right"),
    ]  # fmt: skip
    (tmp_path / "two.toml").write_text(task_text("two", events, parts))
    marks = tuple(Event(e, s / 20) for e, s in zip(events, steps, strict=True))
    write_manifest(tmp_path / "m.jsonl", [Clip("two/0", "two", marks)])
    poses, quaternions = np.tile(np.eye(4, dtype=np.float32), (length, 1, 1)), np.tile([0.0, 0, 0, 1], (length, 1))
    with h5py.File(tmp_path / "two.hdf5", "w") as file:
        file.create_group("data").attrs["env_args"] = '{"env_name": "Two", "env_kwargs": {"control_freq": 20}}'
        demo = file.create_group("data/demo_0")
        demo["actions"] = np.zeros((length, 14), np.float32)
        for i, eef in enumerate(("left", "right")):
            demo[f"obs/robot{i}_eef_pos"], demo[f"obs/robot{i}_eef_quat"] = np.full((length, 3), i), quaternions
            demo[f"obs/datagen_info/target_eef_pose/{eef}"] = poses
        for name in ("cube", "box"):
            demo[f"obs/{name}_pos"], demo[f"obs/{name}_quat"] = np.zeros((length, 3)), quaternions
    how = {"create": True, "layout": "isaaclab", "index": True}
    done = export_dataset(tmp_path / "m.jsonl", tmp_path / "two.hdf5", "hdf5", **how)
    assert "lacks" not in str(done)
    configs = {e: [{"object_ref": s.object_ref, "subtask_term_signal": s.name} for s in parts if s.eef == e]
               for e in ("left", "right")}  # fmt: skip
    pool = pool_of(configs, skillgen=True)
    pool.load_from_dataset_file(str(tmp_path / "two.hdf5"))
    assert pool.subtask_boundaries == {"left": [[(12, 21), (31, length)]], "right": [[(22, length)]]}
    assert {n: float(p[0, 0, 3]) for n, p in pool.datagen_infos[0].eef_pose.items()} == {"left": 0.0, "right": 1.0}
