"""Recordings as people have them: LeRobot datasets and HDF5 files with images, their frames exactly, and back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tempoloc_nb.clips.tasks import Subtask, Task
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.formats.found import copy_of, plan_write, write_back
from tempoloc_nb.formats.hdf5 import read_signals
from tempoloc_nb.formats.hdf5_frames import DemoFrames
from tempoloc_nb.formats.lerobot import read_episodes, read_info
from tempoloc_nb.formats.lerobot_rows import read_subtasks
from tempoloc_nb.formats.recordings import Choice, find_recordings, localize, pick_camera
from tempoloc_nb.inference.baselines import BaselineBackend
from tempoloc_nb.inference.found import Found, FoundEvent
from tempoloc_nb.video.files import FrameSource, Image, decode, probe, read
from tests.helpers.demo_files import image_file
from tests.helpers.lerobot_folders import CAMERA, FPS, small_dataset
from tests.helpers.video_clips import scene, write_clip

pytest.importorskip("h5py", reason="h5py is not installed (extra data)")
LABELS = ("grasping it", "releasing it", "pushing it")


def pictures(*lengths: int) -> list[list[Image]]:
    return [list(scene(n, 64, 48, seed)) for seed, n in enumerate(lengths)]


def found_in(video: Any, *times: float | None) -> Found:
    events = tuple(FoundEvent(name, t, "missing" if t is None else "ok") for name, t in zip(LABELS, times, strict=True))
    return Found(video, events, "tiny", probe(video).duration, 8.0)


# --- HDF5 ---


@pytest.mark.parametrize(
    ("kind", "camera"), [("robomimic", "agentview_image"), ("libero", "agentview_rgb"), ("isaaclab", "table_cam")]
)
def test_images_of_every_layout_are_the_frames_upright(tmp_path: Path, kind: Any, camera: str) -> None:
    demos, said = pictures(30, 41), list[str]()
    path = image_file(tmp_path / "demos.hdf5", demos, kind)
    found = find_recordings([path], say=said.append)
    assert [str(v) for v in found] == [f"{path}/demo_0", f"{path}/demo_1"]
    info = probe(found[1])
    assert (info.n_frames, info.fps, info.duration, info.width, info.height) == (41, 20, 41 / 20, 64, 48)
    for video, given in zip(found, demos, strict=True):
        assert (read(video).images == np.stack(given)).all()
    times, images = zip(*decode(found[1], fps=8), strict=True)
    assert times[:3] == (0.0, 0.1, 0.25)
    assert (images[2] == demos[1][5]).all()
    assert f"2 of 2 demonstrations, 20 frames a second, camera {camera}; not " in said[0]
    assert ("turned upright, as the file says" in said[0]) is (kind == "libero")


def test_the_camera_the_demonstration_and_the_flip_are_chosen(tmp_path: Path) -> None:
    demos = pictures(20, 20)
    path = image_file(tmp_path / "demos.hdf5", demos)
    (one,) = find_recordings([path], Choice(("1",), "eye_in_hand", flip=True, rate=10))
    assert isinstance(one, DemoFrames)
    assert (one.name, one.camera, probe(one).fps) == ("demo_1", "robot0_eye_in_hand_image", 10)
    assert (read(one).images == 255 - np.stack(demos[1])[:, ::-1]).all()


def test_channels_first_floats_and_alpha_are_read(tmp_path: Path) -> None:
    import h5py

    (images,) = pictures(12)
    path = image_file(tmp_path / "demos.hdf5", [images])
    stack = np.stack(images)
    with h5py.File(path, "r+") as file:
        obs = file["data/demo_0/obs"]
        obs["rgb/first"] = (stack / 255).astype(np.float32).transpose(0, 3, 1, 2)
        obs["rgb/alpha"] = np.concatenate([stack, stack[..., :1]], -1)
    for camera in ("rgb/first", "alpha"):
        (one,) = find_recordings([path], Choice(camera=camera))
        assert (read(one).images == stack).all()


def test_a_first_camera_stands_still() -> None:
    assert pick_camera(["wrist_cam", "table_cam", "side_cam"], None, "f") == "table_cam"
    assert pick_camera(["wrist_cam"], None, "f") == "wrist_cam"
    assert pick_camera(["observation.images.top", "observation.images.topview"], "top", "f") == "observation.images.top"


# --- LeRobot ---


@pytest.mark.parametrize("per_file", [1, 2, 3])
def test_episodes_of_shared_files_are_the_frames(tmp_path: Path, per_file: int) -> None:
    clips, said = pictures(23, 31, 17), list[str]()
    root = small_dataset(tmp_path / "set", clips, per_file=per_file)
    found = find_recordings([root], say=said.append)
    assert [str(v) for v in found] == [f"{root}/episode_{k:06d}" for k in range(3)]
    for video, given in zip(found, clips, strict=True):
        info = probe(video)
        assert (info.n_frames, info.fps, info.duration) == (len(given), FPS, len(given) / FPS)
        off = np.abs(read(video).images.astype(int) - np.stack(given))
        assert off.mean() < 6  # the encoder's loss; a neighbour's frame differs by more
        moved = np.abs(read(video).images[1:].astype(int) - np.stack(given)[:-1])
        assert moved.mean() > off.mean()
    assert said == [f"set: 3 of 3 episodes, 10 frames a second, camera {CAMERA}"]
    (one,) = find_recordings([root], Choice((2,), "front"))
    assert one.name == "episode_000002"


def test_a_file_that_ends_early_says_which_frame_is_missing(tmp_path: Path) -> None:
    root = small_dataset(tmp_path / "set", pictures(10, 10))
    last = find_recordings([root])[1]
    with pytest.raises(TempolocError, match=r"no frame 10 of episode_000001 at 2\.000 s"):
        read(replace(last, count=14))  # type: ignore[type-var]


# --- misuse ---


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with one of each."""
    demos = pictures(12, 12)
    image_file(tmp_path / "demos.hdf5", demos)
    small_dataset(tmp_path / "set", demos)
    write_clip(tmp_path / "a.mp4", 12)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "choice", "told"),
    [
        ("demos.hdf5", {"camera": "agentveiw"}, "unknown camera 'agentveiw': did you mean agentview_image"),
        ("demos.hdf5", {"episode": ("dmeo_1",)}, "demos.hdf5 has no episode 'dmeo_1': did you mean demo_1"),
        ("demos.hdf5", {"episode": ("7",)}, "it has 2, demo_0 to demo_1"),
        ("set", {"camera": "frnt"}, f"unknown camera 'frnt'.*{CAMERA}"),
        ("set", {"episode": (9,)}, "set has no episode '9': .*it has 2, episode_000000 to episode_000001"),
        ("a.mp4", {"camera": "front"}, "only LeRobot datasets and HDF5 files have episodes"),
        ("set", {"rate": 20.0}, "only HDF5 files have a rate and a flip to choose"),
        ("a.mp4", {"flip": True}, "only HDF5 files have a rate and a flip to choose"),
        ("none.hdf5", {}, "none.hdf5: no such video"),
    ],
)
def test_a_wrong_name_is_one_line_with_the_nearest(place: Path, name: str, choice: dict[str, Any], told: str) -> None:
    with pytest.raises(TempolocError, match=told) as error:
        find_recordings([place / name], Choice(**choice))
    assert len(str(error.value).splitlines()) == 1


def test_what_has_no_pictures_says_so(place: Path) -> None:
    import h5py

    with h5py.File(place / "demos.hdf5", "r+") as file:
        for demo in file["data"].values():
            for name in [n for n in demo["obs"] if n.endswith("_image")]:
                del demo["obs"][name]
    with pytest.raises(TempolocError, match=r"has no images: demo_0 has the observations agentview_depth, object"):
        find_recordings([place / "demos.hdf5"])
    shutil.rmtree(place / "set" / "videos")
    with pytest.raises(TempolocError, match=r"set: 2 of 2 episodes have no video \(videos/.*: download"):
        find_recordings([place / "set"])
    with h5py.File(place / "empty.h5", "w") as file:
        file.create_group("data")
    with pytest.raises(TempolocError, match=r"empty\.h5 holds no demonstrations"):
        find_recordings([place / "empty.h5"])
    info = json.loads((place / "set/meta/info.json").read_text())
    info["features"][CAMERA]["dtype"] = "image"
    (place / "set/meta/info.json").write_text(json.dumps(info))
    with pytest.raises(TempolocError, match="set has no video: its pictures are in its Parquet files"):
        find_recordings([place / "set"])


# --- and back ---


def sources(path: Path, choice: Choice | None = None) -> Sequence[FrameSource]:
    return [v for v in find_recordings([path], choice) if isinstance(v, FrameSource)]


@pytest.mark.parametrize("kind", ["robomimic", "isaaclab"])
def test_signals_go_into_the_file_and_what_does_not_fit_is_left(tmp_path: Path, kind: Any) -> None:
    path = image_file(tmp_path / "demos.hdf5", pictures(40, 40, 40), kind, signals=("grasp", "release"))
    videos = sources(path)
    targets = plan_write(videos, LABELS)
    assert targets == {path: ("grasp", "release")}
    times = ((0.5, 1.0, 1.5), (1.0, 0.5, 1.5), (0.5, None, 1.5))
    written, left = write_back([found_in(v, *t) for v, t in zip(videos, times, strict=True)], targets)
    assert written == [
        "demos.hdf5: grasp, release in 1 demonstrations, 2 moved by up to 0.900 s; the file as it was: demos.hdf5.bak"
    ]
    assert left[0] == "demos.hdf5: 2 demonstrations keep what they had (demos.hdf5/demo_1, demos.hdf5/demo_2)"
    assert "has no boundary for releasing it" in left[2]
    assert [d.boundaries for d in read_signals(path)] == [(0.5, 1.0), (0.05, 0.1), (0.05, 0.1)]
    assert [d.boundaries for d in read_signals(path.with_name("demos.hdf5.bak"))] == [(0.05, 0.1)] * 3


@pytest.mark.parametrize("kind", ["robomimic", "isaaclab"])
def test_signals_may_be_new(tmp_path: Path, kind: Any) -> None:
    path = image_file(tmp_path / "demos.hdf5", pictures(40), kind)
    (video,) = sources(path)
    with pytest.raises(TempolocError, match=r"demos\.hdf5 has no signals yet: .* with --signal"):
        plan_write([video], LABELS)
    with pytest.raises(TempolocError, match=r"has 1 signals \(a\) for 3 events"):
        plan_write([video], LABELS, ["a"])
    write_back([found_in(video, 0.5, 1.0, 1.5)], plan_write([video], LABELS, ["a", "b"]))
    assert [(d.signals, d.boundaries) for d in read_signals(path)] == [(("a", "b"), (0.5, 1.0))]


def test_a_tasks_subtasks_go_into_the_file_with_their_starts(tmp_path: Path) -> None:
    task = Task("cups", tuple(LABELS), subtasks=(Subtask("grasp", *LABELS[:2]), Subtask("place", LABELS[2])))
    path = image_file(tmp_path / "demos.hdf5", pictures(40, 40), "isaaclab")
    videos = sources(path)
    targets = plan_write(videos, LABELS, task=task)
    assert targets == {path: task}
    written, left = write_back([found_in(videos[0], 0.5, 1.0, 1.5), found_in(videos[1], 0.5, 1.0, 1.02)], targets)
    assert written[0].startswith("demos.hdf5: grasp, place in 1 demonstrations")
    assert "demo_1: 'grasp' ends at step 21 " in left[1]
    assert "SkillGen needs steps between them" in left[1]
    first, second = read_signals(path)
    assert (first.boundaries, first.starts, second.boundaries) == ((1.0,), {"grasp": 0.5, "place": 1.5}, ())
    old = image_file(tmp_path / "old.hdf5", pictures(40), "robomimic", signals=("grasp",))
    with pytest.raises(TempolocError, match=r"old.hdf5 has MimicGen's layout, but the starts of cups are SkillGen's"):
        plan_write(sources(old), LABELS, task=task)


def test_a_copy_of_the_dataset_gets_the_subtasks(tmp_path: Path) -> None:
    root = small_dataset(tmp_path / "set", pictures(20, 20))
    videos = sources(root)
    with pytest.raises(TempolocError, match="set is written with all its 2 episodes: leave --episode out"):
        plan_write(videos[:1], LABELS)
    targets = plan_write(videos, LABELS)
    _, left = write_back([found_in(videos[0], 0.5, 1.0, 1.5), found_in(videos[1], 0.5, None, 1.5)], targets)
    assert left == ["set: nothing written, 1 of 2 episodes are not whole (set/episode_000001 lacks an event)"]
    written, left = write_back([found_in(v, 0.5, 1.0, 1.5) for v in videos], targets)
    assert not left
    assert "2 episodes" in written[0]
    info = read_info(copy_of(root))
    spans = read_subtasks(info, read_episodes(info))
    assert [k for k, _ in spans[1]] == [0, 5, 10, 15]
    with pytest.raises(TempolocError, match="set-subtasks is there already: move it away"):
        plan_write(videos, LABELS)


def test_what_cannot_be_written_is_said_before_a_model_is_asked(place: Path) -> None:
    with pytest.raises(TempolocError, match=r"a\.mp4 is a video, which holds no boundaries: .* -o"):
        plan_write(find_recordings([place / "a.mp4"]), LABELS)
    (place / "demos.hdf5").chmod(0o444)
    with pytest.raises(TempolocError, match=r"demos\.hdf5 is a read-only file: copy it"):
        plan_write(sources(place / "demos.hdf5"), LABELS, ["a", "b"])


# --- one call ---


def test_localize_takes_a_file_of_demonstrations(tmp_path: Path) -> None:
    from tempoloc_nb.clips.manifest import load_benchmark

    sim = load_benchmark("sim")
    clip = sim.of_task("stack-three")[0]
    frames = read(clip.video_path(sim.root), fps=20).images[:115]  # to half a second after its third event
    path = image_file(tmp_path / "demos.hdf5", [list(frames)] * 2)
    (found,) = localize(path, clip.labels, episode=1, trials=2)
    assert (found.name, found.episode, found.path) == ("demos.hdf5/demo_1", "demo_1", path)
    assert all(abs(b - t) < 0.5 for b, t in zip(found.boundaries, clip.boundaries, strict=True))
    assert found.clip.clip == "own/demo_1"
    assert found.picture().width > 100


def test_the_options_are_in_the_signature_and_a_slip_is_answered_with_the_near_name(tmp_path: Path) -> None:
    named = {p.name for p in signature(localize).parameters.values() if p.kind is p.KEYWORD_ONLY}
    assert {"model", "engine", "trials", "fps", "seed", "episode", "fuse"} <= named
    assert {"batch", "device", "servers", "concurrency", "camera", "gripper", "stamps", "structured"} <= named
    assert "backend" not in named
    slips = {"trails": "trials", "episodes": "episode", "bach": "batch", "data_paralel": "data_parallel"}
    for slip, near in slips.items():
        with pytest.raises(TempolocError, match=f"'{slip}': did you mean {near}\\?"):
            localize(tmp_path / "none.mp4", ["x"], **{slip: 1})
    with pytest.raises(TempolocError, match="concurrency is an option of openai and ray, not of hf"):
        localize(tmp_path / "none.mp4", ["x"], concurrency=2)
    with pytest.raises(TempolocError, match="fuse, too"):
        localize(tmp_path / "none.mp4", ["x"], inverted=True)
    with pytest.raises(TempolocError, match="an engine that is made does not read device"):
        localize(tmp_path / "none.mp4", ["x"], engine=BaselineBackend("m", "baseline", []), device="cpu")


@pytest.mark.parametrize(
    ("videos", "events", "said"),
    [
        (None, ["grasping the mug"], "videos are paths, alone or in a list, not None"),
        ([3], ["grasping the mug"], "videos are paths, alone or in a list, not 3"),
        ("a.mp4", 3, "give them in a list, not 3"),
        ("a.mp4", "grasping the mug", "an event that is alone is given in a list, too, ['grasping the mug']"),
    ],
)
def test_what_is_no_video_and_no_event_is_named(tmp_path: Path, videos: Any, events: Any, said: str) -> None:
    write_clip(tmp_path / "a.mp4")
    given = str(tmp_path / videos) if isinstance(videos, str) else videos
    with pytest.raises(TempolocError) as told:
        localize(given, events)
    assert said in str(told.value)
