"""Tasks, manifests and benchmarks: bad files are named, good ones round-trip."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tempoloc_nb.clips.manifest import Clip, load_benchmark, read_manifest, write_manifest
from tempoloc_nb.clips.tasks import (
    Event,
    Interval,
    boundary_of,
    intervals_from_boundaries,
    list_tasks,
    load_task,
    read_task,
)
from tempoloc_nb.core.errors import TempolocError

GOOD = {"clip": "mug/1", "task": "mug", "video": None, "events": [{"label": "grasping the mug", "boundary": 1.5}]}


def task_file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mug.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('events = ["a"]', "lacks 'key'"),
        ('key = "mug"', "lacks 'events'"),
        ('key = "mug"\nevents = []', "lacks 'events'"),
        ('key = "mug"\nevents = ["a", "a"]', "distinct"),
        ('key = "mug"\nevents = ["a", " "]', "non-empty"),
        ('key = "mug"\nevents = ["a"]\ncolour = "red"', "unknown key 'colour'"),
        ('key = "mug"\nevents = ["a"]\nfps = "30"', "fps = '30' has the wrong type"),
        ('key = "mug"\nevents = ["a"]\nboundary_is = "middle"', "'start' or 'end'"),
        ('key = "mug"\nevents = ["a"]\nclip_pattern = "("', "not a regular expression"),
        ('key = "mug"\nevents = ["a"]\nclip_pattern = "x"', "group named clip"),
        ('key = "mug"\nevents = ["a", "b"]\n[boundaries]\n1 = [1.0]', "2 events need 2 boundaries"),
        ('key = "mug"\nevents = ["a", "b"]\n[boundaries]\n1 = [2.0, 1.0]', "must increase"),
        ('key = "mug"\nevents = ["a"]\n[boundaries]\n1 = [0.0]', "after 0"),
        ('key = "mug"\nevents = ["a"]\n[boundaries]\n1 = [nan]', "after 0"),
        ("key = ", "not valid TOML"),
    ],
)
def test_a_bad_task_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TempolocError, match=message):
        read_task(task_file(tmp_path, text))


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(TempolocError, match=r"cannot read the task file mug\.toml"):
        read_task(tmp_path / "mug.toml")
    with pytest.raises(TempolocError, match="unknown task 'mug'"):
        load_task("mug")
    with pytest.raises(TempolocError, match="no benchmark"):
        load_benchmark(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"manifest\.jsonl:2 is not JSON"),
        ("{}", "lacks 'events'"),
        (json.dumps({**GOOD, "clip": "cup/1"}), "must start with its task"),
        (json.dumps({**GOOD, "events": [{"label": "x"}]}), "is not a clip"),
        (json.dumps({**GOOD, "events": [{"label": "x", "boundary": -1}]}), "after 0"),
        (json.dumps({k: v for k, v in GOOD.items() if k != "task"}), "is not a clip"),
        (json.dumps(GOOD), "twice"),
    ],
)
def test_a_bad_manifest_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "manifest.jsonl"
    path.write_text(json.dumps(GOOD) + "\n" + line + "\n")
    with pytest.raises(TempolocError, match=message):
        read_manifest(path)


def test_a_manifest_round_trips(tmp_path: Path) -> None:
    clip = Clip(
        clip="mug/1",
        task="mug",
        events=(Event("grasping the mug", 1.5, start=1.5, end=2.0),),
        fps=5.0,
        label_fps=30.0,
        duration=9.0,
        seed=0,
        instants={"grasp": 1.5},
        extra={"camera": "front"},
    )
    write_manifest(tmp_path / "manifest.jsonl", [clip])
    assert read_manifest(tmp_path / "manifest.jsonl") == (clip,)
    assert clip.source_boundaries == (9.0,)
    assert not list(tmp_path.glob("*.part"))


def test_shipped_benchmarks_round_trip(tmp_path: Path) -> None:
    for name in ("recipe", "sim"):
        benchmark = load_benchmark(name)
        write_manifest(tmp_path / f"{name}.jsonl", benchmark.clips)
        assert read_manifest(tmp_path / f"{name}.jsonl") == benchmark.clips


def test_every_recipe_clip_has_its_tasks_events() -> None:
    benchmark = load_benchmark("recipe")
    assert {t.key for t in list_tasks("recipe")} == set(benchmark.tasks)
    for clip in benchmark.clips:
        assert clip.labels == benchmark.tasks[clip.task].events
        assert benchmark.tasks[clip.task].boundary_is == "start"
        assert all(d > 0 for d in clip.subtask_durations)


@pytest.mark.parametrize("end_or_start", ["start", "end"])
def test_both_conventions_keep_the_boundaries(end_or_start: str) -> None:
    spans = intervals_from_boundaries([1.0, 2.5, 4.0], 5.0, end_or_start)  # type: ignore[arg-type]
    assert [boundary_of(s, end_or_start) for s in spans] == [1.0, 2.5, 4.0]  # type: ignore[arg-type]


def test_tiou() -> None:
    assert Interval(0, 2).tiou(Interval(1, 3)) == pytest.approx(1 / 3)
    assert Interval(0, 1).tiou(Interval(2, 3)) == 0
    assert Interval(1, 1).tiou(Interval(1, 1)) == 0


def test_a_clip_without_video_says_what_to_give() -> None:
    clip = load_benchmark("recipe").clips[0]
    with pytest.raises(TempolocError, match="video_root"):
        clip.video_path(Path())


@pytest.mark.parametrize(
    ("task", "name", "clip"),
    [
        ("cube", "cube_stacking_demo0.mp4", "cube/0"),
        ("bridge", "bridge_demo4.mp4", "bridge/4"),
        ("nut", "nut_pouring_demo12.mp4", "nut/12"),
        ("toaster", "cut_682545_head_color_fixed.mp4", "toaster/cut_682545_head_color_fixed"),
        ("mimicgen-coffee", "coffee_d0_demo2_agentview.mp4", "mimicgen-coffee/d0_demo2"),
    ],
)
def test_the_recipes_file_names(task: str, name: str, clip: str) -> None:
    assert load_task(task).clip_id(name) == clip


def test_a_strange_file_name_is_refused() -> None:
    with pytest.raises(TempolocError, match="does not fit the file names of toaster"):
        load_task("toaster").clip_id("holiday.mp4")
