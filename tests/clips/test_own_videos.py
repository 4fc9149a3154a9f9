"""Own videos become a benchmark without truth."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tempoloc_nb.clips.manifest import clips_of_videos, load_benchmark
from tempoloc_nb.clips.tasks import Task, load_task
from tempoloc_nb.clips.videos import videos_here
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.video.files import encode


def video(path: Path, seconds: float = 1.0) -> Path:
    return encode(path, np.zeros((round(10 * seconds), 32, 48, 3), np.uint8), fps=10)


def test_one_video_and_one_event(tmp_path: Path) -> None:
    found = clips_of_videos(str(video(tmp_path / "demo.mp4", 2.0)), "grasping the mug")
    (clip,) = found.clips
    assert (clip.clip, clip.labels, clip.labelled) == ("own/demo", ("grasping the mug",), False)
    assert (clip.fps, clip.duration) == (10.0, 2.0)
    assert clip.video_path(found.root) == tmp_path / "demo.mp4"
    assert found.tasks == {"own": Task("own", ("grasping the mug",))}
    assert found.with_videos() == found.clips


def test_a_folder_and_names_that_differ_by_folder(tmp_path: Path) -> None:
    for name in ("left/demo.mp4", "right/demo.mp4", "right/deep/two.mov", "right/.hidden.mp4"):
        video(tmp_path / name)
    (tmp_path / "notes.txt").touch()
    found = clips_of_videos(tmp_path, ["a", "b"], task="mug")
    assert [c.clip for c in found.clips] == ["mug/left/demo", "mug/right/deep/two", "mug/right/demo"]
    several = clips_of_videos([tmp_path / "left", tmp_path / "right" / "deep" / "two.mov"], load_task("cube"))
    assert [c.clip for c in several.clips] == ["cube/demo", "cube/two"]
    assert len(several.with_videos()) == 2
    video(tmp_path / "left" / "demo.mov")
    both = clips_of_videos(tmp_path / "left", ["a"])
    assert [c.clip for c in both.clips] == ["own/demo.mov", "own/demo.mp4"]
    assert len(clips_of_videos([tmp_path / "left", tmp_path / "left" / "demo.mov"], ["a"]).clips) == 2


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    good, empty, missing = video(tmp_path / "a.mp4"), tmp_path / "b.mp4", tmp_path / "c.mp4"
    empty.touch()
    with pytest.raises(TempolocError) as told:
        clips_of_videos([good, empty, missing], ["a"])
    lines = str(told.value).splitlines()
    assert len(lines) == 2
    assert "b.mp4: the file is empty" in lines[0]
    assert "c.mp4: no such file" in lines[1]
    (tmp_path / "none").mkdir()
    with pytest.raises(TempolocError, match=r"no video in .*none: give video files"):
        clips_of_videos(tmp_path / "none", ["a"])
    with pytest.raises(TempolocError, match="no video in an empty list"):
        clips_of_videos([], ["a"])


@pytest.mark.parametrize(
    ("events", "said"),
    [([], "no events"), (["a", " "], "label is empty"), (["a", "a"], "'a' is listed twice"), ("", "label is empty")],
)
def test_events_are_checked(tmp_path: Path, events: list[str] | str, said: str) -> None:
    with pytest.raises(TempolocError, match=f"the events to be found: .*{said}"):
        clips_of_videos(video(tmp_path / "a.mp4"), events)


def manifest(folder: Path, key: str, label: str) -> Path:
    video(folder / "a.mp4")
    path = folder / "manifest.jsonl"
    line = {"clip": f"{key}/a", "task": key, "events": [{"label": label}], "video": "a.mp4"}
    path.write_text(json.dumps(line) + "\n", encoding="utf-8")
    return path


def test_a_manifest_of_a_task_of_its_own_needs_no_other_file(tmp_path: Path) -> None:
    found = load_benchmark(manifest(tmp_path, "mugs", "grasping the mug"))
    assert found.tasks == {"mugs": Task("mugs", ("grasping the mug",))}


def test_an_own_task_called_like_a_shipped_one_is_never_the_shipped_one(tmp_path: Path) -> None:
    path = manifest(tmp_path, "cube", "grasping the mug")
    with pytest.raises(TempolocError, match="'grasping the mug' is no event of the shipped task cube: give your task"):
        load_benchmark(path)
    (tmp_path / "cube.toml").write_text('key = "cubes"\nevents = ["grasping the mug"]', encoding="utf-8")
    with pytest.raises(TempolocError, match=r"cube\.toml beside the manifest has the key 'cubes'"):
        load_benchmark(path)
    (tmp_path / "cube.toml").write_text('key = "cube"\nevents = ["grasping the mug"]', encoding="utf-8")
    assert load_benchmark(path).tasks["cube"].events == ("grasping the mug",)


def test_a_folder_called_like_a_shipped_benchmark_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("recipe").mkdir()
    assert len(load_benchmark("recipe").clips) == 60
    manifest(Path("recipe"), "mugs", "grasping the mug")
    with pytest.raises(TempolocError, match=r"a shipped benchmark, and a folder here: write \./recipe for the folder"):
        load_benchmark("recipe")
    assert [c.clip for c in load_benchmark("./recipe").clips] == ["mugs/a"]


def test_videos_are_no_benchmark_and_say_the_way(tmp_path: Path) -> None:
    path = video(tmp_path / "a.mp4")
    with pytest.raises(TempolocError, match=r"a\.mp4 is a video, not a benchmark: tempoloc find .*a\.mp4 -e EVENT"):
        load_benchmark(path)
    with pytest.raises(TempolocError, match=r"is a folder of videos, not a benchmark: .* a task file"):
        load_benchmark(tmp_path)


def test_datasets_and_files_of_demonstrations_are_no_benchmark_and_say_the_way(tmp_path: Path) -> None:
    (tmp_path / "mugs" / "meta").mkdir(parents=True)
    (tmp_path / "mugs" / "meta" / "info.json").write_text("{}")
    (tmp_path / "demos.hdf5").write_bytes(b"\x89HDF")
    for name, kind in (("mugs", "lerobot"), ("demos.hdf5", "hdf5")):
        with pytest.raises(TempolocError, match=f"not a benchmark: tempoloc dataset import {kind} .*{name}"):
            load_benchmark(tmp_path / name)


def test_a_dataset_to_train_on_is_no_benchmark_and_says_the_way(tmp_path: Path) -> None:
    video(tmp_path / "a.mp4")
    (tmp_path / "dataset_dict.json").write_text("{}")
    with pytest.raises(TempolocError, match=r"a dataset to train on, not a benchmark: give the manifest"):
        load_benchmark(tmp_path)


def test_open_places_of_a_task_take_any_words() -> None:
    task = Task("stack", ("grasping the {colour} cube", "done (really)"))
    fitting = ("grasping the red cube", "grasping the {colour} cube", "done (really)")
    assert [task.fits(label) for label in (*fitting, "grasping the cube", "done really")] == [True] * 3 + [False] * 2


def test_clips_without_events_have_those_of_their_tasks_file(tmp_path: Path) -> None:
    line = {"clip": "mugs/a", "task": "mugs", "events": [], "video": "a.mp4"}
    (tmp_path / "manifest.jsonl").write_text(json.dumps(line), encoding="utf-8")
    with pytest.raises(TempolocError, match=r"no clip of mugs has events: name them in mugs\.toml beside the manifest"):
        load_benchmark(tmp_path)
    (tmp_path / "mugs.toml").write_text('key = "mugs"\nevents = ["lift", "put down"]', encoding="utf-8")
    (clip,) = load_benchmark(tmp_path).clips
    assert (clip.labels, clip.labelled) == (("lift", "put down"), False)


def test_one_video_shows_what_many_questions_are_about(tmp_path: Path) -> None:
    which = load_benchmark("which")
    path = video(tmp_path / "made" / "which-panda" / "099.mp4")
    found = videos_here(which, tmp_path)
    asked = {c.clip for c in which.clips if c.extra["shown"] == "which-panda/099"}
    assert len(asked) > 1
    assert found == dict.fromkeys(asked, path)
