"""Making many clips: parallel, resumable, counted, as video and HDF5."""

from __future__ import annotations

import ctypes.util
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import h5py
import numpy as np
import pytest

from tempoloc_nb.clips.manifest import load_benchmark, read_manifest, write_manifest
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.files import sole_writer
from tempoloc_nb.lab.sim import make as simulate
from tempoloc_nb.lab.sim.demonstration import load_episode
from tempoloc_nb.lab.sim.episode import EpisodeFailed
from tempoloc_nb.lab.sim.make import SimulationSummary, render_episodes, simulate_clips
from tempoloc_nb.lab.sim.render import choose_gl, write_moving
from tempoloc_nb.lab.sim.tasks import find_families

FAMILY = find_families("sft", "stack-two")[0]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SimulationSummary]:
    """Two clips, the first rendered at 128²; the family's first seed is said to have failed before."""
    out = tmp_path_factory.mktemp("clips")
    folder = out / "episodes" / FAMILY.key
    folder.mkdir(parents=True)
    (folder / f"{FAMILY.first_seed:09d}.failed").write_text("sneezed")
    return out, simulate_clips(FAMILY, 2, out, size=128, workers=2, render=1)


def seeds_of(out: Path) -> dict[int, int]:
    return {int(c.name): c.seed or 0 for c in read_manifest(out / "manifest.jsonl")}


def test_failures_are_counted_and_clips_are_the_next_seeds(made: tuple[Path, SimulationSummary]) -> None:
    out, summary = made
    assert summary.clips == 2
    assert summary.failed["sneezed"] == 1
    assert "1× sneezed" in str(summary)
    assert FAMILY.first_seed not in seeds_of(out).values()
    assert [*seeds_of(out)] == [0, 1]
    assert [*seeds_of(out).values()] == sorted(seeds_of(out).values())


def test_clips_of_a_benchmark_have_the_numbers_of_their_seeds(tmp_path: Path) -> None:
    """A seed that fails on this processor leaves its number free: the next clips keep theirs."""
    family = find_families("validation", "stack-two")[0]
    shipped = {int(c.name): c.seed or 0 for c in load_benchmark("validation").of_task("stack-two")}
    folder = tmp_path / "episodes" / family.key
    folder.mkdir(parents=True)
    (folder / f"{shipped[1]:09d}.failed").write_text("slipped here")
    summary = simulate_clips(family, 3, tmp_path, workers=2, render=False)
    assert (summary.clips, summary.failed["slipped here"]) == (2, 1)
    assert seeds_of(tmp_path) == {0: shipped[0], 2: shipped[2]}
    assert sorted(p.name for p in (tmp_path / "hdf5" / family.key).iterdir()) == ["000.hdf5", "002.hdf5"]


def test_a_failed_demonstration_leaves_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise EpisodeFailed("slipped")

    monkeypatch.setattr(simulate, "simulate_episode", fails)
    folder = tmp_path / "episodes" / FAMILY.key
    folder.mkdir(parents=True)
    assert simulate._attempt(FAMILY, 5, tmp_path) == "slipped"
    assert [p.name for p in folder.iterdir()] == ["000000005.failed"]
    monkeypatch.setattr(simulate, "simulate_episode", lambda *_: pytest.fail("ran a seed whose outcome is known"))
    assert simulate._attempt(FAMILY, 5, tmp_path) == "slipped"


def test_an_interrupted_run_continues(made: tuple[Path, SimulationSummary], tmp_path: Path) -> None:
    out, _ = made
    first, second = sorted((out / "episodes" / FAMILY.key).glob("*.npz"))[:2]
    untouched, lost = first.stat().st_mtime_ns, load_episode(second)
    second.unlink()
    again = simulate_clips(FAMILY, 2, out, workers=1, render=False, states=False)  # other number of workers, too
    assert again.clips == 2
    assert first.stat().st_mtime_ns == untouched
    assert load_episode(second).qpos.tobytes() == lost.qpos.tobytes()
    assert load_episode(second).meta == lost.meta


def test_what_somebody_changed_stays(made: tuple[Path, SimulationSummary], tmp_path: Path) -> None:
    out, text = tmp_path / "clips", (made[0] / "manifest.jsonl").read_text()
    shutil.copytree(made[0], out)
    with sole_writer(out), pytest.raises(TempolocError, match="clips is being written by process"):
        simulate_clips(FAMILY, 2, out, workers=1, render=False)
    path, demos = out / "manifest.jsonl", out / "hdf5" / f"{FAMILY.key}.hdf5"
    clips = read_manifest(path)
    first = clips[0].events[0]
    write_manifest(path, [replace(clips[0], events=(replace(first, boundary=0.5), *clips[0].events[1:])), *clips[1:]])
    with pytest.raises(TempolocError, match=r"somebody changed stack-two/000: give another -o, or --force"):
        simulate_clips(FAMILY, 2, out, workers=1, render=False)
    path.write_text(text)
    with h5py.File(demos, "r+") as file:
        file["data/demo_0"].create_dataset("datagen_info/subtask_term_signals/grasp", data=[0, 1])
    with pytest.raises(TempolocError, match=r"stack-two\.hdf5 has signals that are not the simulation's"):
        simulate_clips(FAMILY, 2, out, workers=1, render=False)
    assert simulate_clips(FAMILY, 2, out, workers=1, render=False, force=True).clips == 2
    assert simulate_clips(FAMILY, 2, out, workers=1, render=False).clips == 2
    assert path.read_text() == text


def test_manifest(made: tuple[Path, SimulationSummary]) -> None:
    out, _ = made
    clips = read_manifest(out / "manifest.jsonl")
    assert [c.clip for c in clips] == ["stack-two/000", "stack-two/001"]
    assert [c.video for c in clips] == ["videos/stack-two/000.mp4", None]
    for clip in clips:
        first, second = clip.labels
        assert first.startswith("grasping the ")
        assert second == first.replace("grasping", "releasing")
        assert clip.events[0].end == clip.events[1].boundary
        assert clip.robot == "Panda"
        assert clip.split == "sft"
        assert clip.duration is not None
        assert clip.boundaries[-1] < clip.duration


def test_video_moves_and_frame_k_is_time_k_over_fps(made: tuple[Path, SimulationSummary]) -> None:
    out, _ = made
    clip = read_manifest(out / "manifest.jsonl")[0]
    with av.open(str(clip.video_path(out))) as container:
        stream = container.streams.video[0]
        frames = list(container.decode(stream))
        times = [f.time for f in frames]
    assert (frames[0].width, frames[0].height) == (128, 128)
    np.testing.assert_allclose(times, np.arange(len(times)) / 30, atol=1e-6)
    assert clip.duration is not None
    assert len(frames) == round(clip.duration * 30)
    pictures = [f.to_ndarray(format="rgb24").astype(int) for f in frames]
    assert np.abs(pictures[0] - pictures[len(pictures) // 2]).mean() > 0.5
    assert np.abs(pictures[-1] - pictures[len(pictures) // 2]).mean() > 0.5


def test_recorded_states_are_at_exact_times(made: tuple[Path, SimulationSummary]) -> None:
    out, _ = made
    episode = load_episode(next(iter(sorted((out / "episodes" / FAMILY.key).glob("*.npz")))))
    control_times = episode.demo["states"][:, 0]  # MuJoCo's time is the first entry of a flattened state
    np.testing.assert_allclose(control_times - control_times[0], np.arange(len(control_times)) / 20, atol=1e-9)
    # control step 2k is at k/10 s, which is frame 3k
    positions = episode.demo["states"][::2, 1 : 1 + episode.qpos.shape[1]]
    np.testing.assert_allclose(episode.qpos[::3][: len(positions)], positions[: len(episode.qpos[::3])], atol=1e-6)


def test_rendering_apart(made: tuple[Path, SimulationSummary]) -> None:
    out, _ = made
    assert render_episodes(out, FAMILY, seeds_of(out), size=128, workers=1) == 1  # only the missing one
    assert all(c.video for c in read_manifest(out / "manifest.jsonl"))
    assert render_episodes(out, FAMILY, seeds_of(out), size=128, workers=1) == 0


def test_hdf5_is_laid_out_as_robomimic_expects(made: tuple[Path, SimulationSummary]) -> None:
    out, _ = made
    clips = read_manifest(out / "manifest.jsonl")
    with (
        h5py.File(out / "hdf5" / "stack-two.hdf5") as merged,
        h5py.File(out / "hdf5" / "stack-two" / "001.hdf5") as one,
    ):
        assert list(merged["data"]) == ["demo_0", "demo_1"]
        env_args = json.loads(merged["data"].attrs["env_args"])
        assert env_args["env_name"] == "Stack"
        assert env_args["env_kwargs"]["control_freq"] == 20
        assert merged["data"].attrs["total"] == sum(d.attrs["num_samples"] for d in merged["data"].values())
        for demo, clip in zip(merged["data"].values(), clips, strict=True):
            steps = demo.attrs["num_samples"]
            assert demo["actions"].shape == (steps, 7)
            assert np.abs(demo["actions"]).max() <= 1.0
            assert len(demo["states"]) == steps
            assert {"robot0_eef_pos", "robot0_eef_quat", "robot0_gripper_qpos", "object"} <= set(demo["obs"])
            assert all(len(values) == steps for values in demo["obs"].values())
            assert demo.attrs["model_file"].startswith("<mujoco")
            assert [t for _, t in json.loads(demo.attrs["events"])] == list(clip.boundaries)
        np.testing.assert_array_equal(one["data/demo_0/states"], merged["data/demo_1/states"])


def test_states_replay_in_the_stored_model(made: tuple[Path, SimulationSummary]) -> None:
    """The stored model and states are the demonstration: hand and objects are where `obs` says."""
    import mujoco

    out, _ = made
    with h5py.File(out / "hdf5" / "stack-two" / "000.hdf5") as file:
        demo = file["data/demo_0"]
        model = mujoco.MjModel.from_xml_string(demo.attrs["model_file"])
        data = mujoco.MjData(model)
        for row in (0, len(demo["states"]) // 2):
            data.qpos[:] = demo["states"][row, 1 : 1 + model.nq]
            mujoco.mj_forward(model, data)
            # as in robosuite, positions are those at the start of the last physics step, 2 ms before
            np.testing.assert_allclose(data.body("cubeA_main").xpos, demo["obs/object"][row, :3], atol=2e-3)
            np.testing.assert_allclose(
                data.site("gripper0_right_grip_site").xpos, demo["obs/robot0_eef_pos"][row], atol=2e-3
            )


@pytest.mark.parametrize(("gl", "library"), [("egl", "EGL"), ("osmesa", "OSMesa")])
def test_a_process_that_has_rendered_ends_in_silence(
    made: tuple[Path, SimulationSummary], tmp_path: Path, gl: str, library: str
) -> None:
    """The renderer is closed before mujoco, at the end of the process, takes its OpenGL away."""
    if not ctypes.util.find_library(library):
        pytest.skip(f"no lib{library}")
    (model,) = (made[0] / "models").iterdir()
    episode = min((made[0] / "episodes" / FAMILY.key).glob("*.npz"))
    job = ", ".join(f"Path({str(path)!r})" for path in (episode, model, tmp_path / "clip.mp4"))
    imports = "from pathlib import Path\nfrom tempoloc_nb.lab.sim.render import process_pool, render_job"
    code = f"{imports}\nwith process_pool(1) as pool:\n    assert pool.submit(render_job, ({job}, 64, 2, 40)).result()"
    # mujoco, once it has rendered in this process, holds its children to the same library
    environment = {k: v for k, v in os.environ.items() if k != "PYOPENGL_PLATFORM"} | {"MUJOCO_GL": gl}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_a_still_video_is_refused(tmp_path: Path) -> None:
    still = np.full((64, 64, 3), 90, dtype=np.uint8)
    with pytest.raises(TempolocError, match="shows no motion"):
        write_moving(tmp_path / "still.mp4", iter([still] * 5), 30)
    assert list(tmp_path.iterdir()) == []


def test_missing_opengl_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: None)
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    with pytest.raises(TempolocError, match="apt-get install libosmesa6"):
        choose_gl()
    with pytest.raises(TempolocError, match="libegl1"):  # before anything is simulated
        simulate_clips(FAMILY, 1, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_another_arm_or_size_does_not_mix_in(made: tuple[Path, SimulationSummary]) -> None:
    out, _ = made
    other = find_families("validation", "stack-two-kinova3")[0]
    with pytest.raises(TempolocError, match=r"episodes/stack-two holds what was made with .*choose another folder"):
        simulate_clips(replace(other, key="stack-two"), 1, out, render=False)
    with pytest.raises(TempolocError, match=r"videos/stack-two holds what was made with .*\"size\": 128"):
        render_episodes(out, FAMILY, seeds_of(out), size=64)


def test_bad_requests(tmp_path: Path) -> None:
    with pytest.raises(TempolocError, match="cannot make 0 clips"):
        simulate_clips(FAMILY, 0, tmp_path)
    with pytest.raises(TempolocError, match=r"unknown family of the split test 'lift': choose one of nut-assembly, "):
        find_families("test", "lift")
    with pytest.raises(TempolocError, match=r"unknown split 'tset': did you mean test\?"):
        find_families("tset")
    broken = tmp_path / "000000001.npz"
    broken.write_bytes(b"nonsense")
    with pytest.raises(TempolocError, match=r"000000001.npz is not a saved episode"):
        load_episode(broken)
