"""A user's own MimicGen: what it is given and asked, with a generator of the same interface, or with the real one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import h5py
import pytest

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.lab.generate.generators import as_hdf5, mimicgen
from tempoloc_nb.lab.generate.scenes import Scene
from tempoloc_nb.lab.generate.sources import Source, read_sources
from tempoloc_nb.lab.generate.trials import Setting, run_trial

TASK = "pick-place"
REAL = os.environ.get("MIMICGEN")  # a checkout: the tests take it instead of the generator below
PARTS = {
    "__init__.py": '__version__ = "9.9"\nraise AssertionError("this file is not run")\n',
    "configs/__init__.py": 'raise AssertionError("this file is not run")\n',
    "datagen/__init__.py": "",
    "datagen/datagen_info.py": """
class DatagenInfo:
    def __init__(self, eef_pose, object_poses): self.eef_pose, self.object_poses = eef_pose, object_poses
""",
    "configs/task_spec.py": """
class MG_TaskSpec(list):
    def add_subtask(self, **said): self.append(said)
""",
    # replays the first source and moves its hand as the first object lies
    "datagen/data_generator.py": """
import gdown, robomimic.utils.tensor_utils
from robomimic.utils.file_utils import url_is_alive
import h5py, numpy as np
class DataGenerator:
    def __init__(self, spec, path, keys): self.spec, self.path, self.keys = spec, path, keys
    def randomize_subtask_boundaries(self):
        with h5py.File(self.path) as f:
            demos = [f["data"][k] for k in self.keys]
            rise = [int(np.argmax(d["datagen_info/subtask_term_signals/event_0"][:])) + 1 for d in demos]
            steps = [len(d["actions"]) for d in demos]
            self.demo = {k: demos[0]["datagen_info"][k][:] for k in ("target_pose", "gripper_action")}
            self.lay = demos[0]["datagen_info/object_poses/" + self.spec[0]["object_ref"]][0]
        return np.array([[[0, a], [a, b]] for a, b in zip(rise, steps)])
    def select_source_demo(self): return 0
    def generate(self, env, env_interface):
        env.reset()
        ends = self.randomize_subtask_boundaries()[self.select_source_demo(), :, 1]
        move = env_interface.get_datagen_info().object_poses[self.spec[0]["object_ref"]] @ np.linalg.inv(self.lay)
        success = False
        for k, (target, grip) in enumerate(zip(self.demo["target_pose"], self.demo["gripper_action"])):
            wanted = move @ target if k < ends[0] else target
            env.step(np.concatenate([env_interface.target_pose_to_action(target_pose=wanted), grip]))
            success = success or env.is_success()["task"]
        return {"success": success}
""",
}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if REAL:
        return Path(REAL)
    folder = tmp_path_factory.mktemp("checkout")
    for name, text in PARTS.items():
        path = folder / "mimicgen" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_true_boundaries_generate(folder: Path, checkout: Path) -> None:
    sources, scene = read_sources(folder, TASK), Scene(TASK)
    times = [s.boundaries for s in sources]

    def tried(layout: int) -> dict[str, object]:
        return run_trial(scene, sources, times, offset=(0, 0), layout=layout, setting=Setting(checkout=checkout))

    rows = [tried(k) for k in range(3)]
    assert any(row["success"] for row in rows)
    assert rows[0] == tried(0)
    ends = round(sources[rows[0]["source"]].boundaries[0] * 20)  # type: ignore[call-overload]
    assert abs(rows[0]["ends"][0] - ends) <= 1  # type: ignore[index]


def test_its_parser_gets_signals_that_rise_where_subtasks_end(folder: Path) -> None:
    sources: tuple[Source, ...] = read_sources(folder, TASK)
    with h5py.File(as_hdf5(sources[:1], TASK, [(40,)])) as file:
        info = file["data/demo_0/datagen_info"]
        assert info["subtask_term_signals/event_0"][39:41].tolist() == [0, 1]
        assert info["eef_pose"].shape == info["target_pose"].shape == (len(sources[0].actions), 4, 4)


def test_the_command_says_what_is_wrong_with_a_checkout(folder: Path, checkout: Path, tmp_path: Path) -> None:
    out = tmp_path / "trials.jsonl"

    def said(where: Path) -> list[str]:
        options = f"generate {folder} --trials 1 --workers 1 -o {out} --mimicgen {where}".split()
        done = subprocess.run([sys.executable, "-m", "tempoloc_nb", *options], capture_output=True, text=True)
        assert done.returncode == (0 if where == checkout else 1), done.stderr
        return done.stderr.splitlines()

    said(checkout)
    assert '"generator": "mimicgen ' in out.read_text()
    assert "no checkout of MimicGen" in said(tmp_path)[-1]
    broken = tmp_path / "broken"
    (broken / "mimicgen" / "datagen").mkdir(parents=True)
    (broken / "mimicgen" / "__init__.py").write_text("")
    (broken / "mimicgen" / "datagen" / "data_generator.py").write_text("from robomimic import nothing")
    with pytest.raises(TempolocError, match=r"unknown in .*broken cannot be imported here .*nothing"):
        mimicgen(broken)
