"""Tasks, manifests and benchmarks: bad files are named, good ones round-trip."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
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

AB = 'key = "mug"\nevents = ["a", "b"]\n'
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
        ('key = "mug"\nevents = []', "no events: a task needs at least one"),
        ('key = " "\nevents = ["a"]', "the key is empty"),
        ('key = "mug"\nevents = ["a", "a"]', "distinct"),
        ('key = "mug"\nevents = ["a", " "]', "non-empty"),
        ('key = "mug"\nevents = ["a"]\ncolour = "red"', "unknown key 'colour'"),
        ('key = "mug"\nevents = ["a"]\nfps = "30"', r'mug.toml: fps = "30" is not a number'),
        ('key = "mug"\nevents = ["a"]\nfps = -3', "fps = -3: should be greater than 0"),
        ('key = "mug"\nevents = ["a"]\nboundary_is = "middle"', "boundary_is = \"middle\" is none of 'start' or 'end'"),
        ('key = "mug"\nevents = ["a"]\nclip_pattern = "("', "not a regular expression"),
        ('key = "mug"\nevents = ["a"]\nclip_pattern = "x"', "group named clip"),
        ('key = "mug"\nevents = ["a", "b"]\n[boundaries]\n1 = [1.0]', "2 events need 2 boundaries"),
        ('key = "mug"\nevents = ["a", "b"]\n[boundaries]\n1 = [2.0, 1.0]', "must increase"),
        ('key = "mug"\nevents = ["a"]\n[boundaries]\n1 = [0.0]', "after 0"),
        ('key = "mug"\nevents = ["a"]\n[boundaries]\n1 = [nan]', "boundaries.1: 0 = NaN is not a finite number"),
        ("key = ", "not valid TOML"),
        ('key = "../mug"\nevents = ["a"]', r"the key '\.\./mug' holds '/'"),
        ('key = "mug"\nevents = ["a"]\nfps = 1e400', "fps = Infinity is not a finite number"),
        (f'key = "mug"\nevents = ["a"]\nfps = {"1" * 5000}', "mug.toml is not valid TOML: a number is too large"),
        (f'key = "mug"\nevents = ["a"]\nnotes = {"[" * 100_000}', "mug.toml is nested too deep"),
        (f'{AB}subtasks = [{{name = "x/y", end = "a"}}]', r"the subtask 'x/y': names must be distinct"),
        (f'{AB}subtasks = [{{name = "x", end = "c"}}]', "'c' is none of the task's events"),
        (f'{AB}subtasks = [{{name = "x", start = "b", end = "a"}}]', "'a' must be an event after the one before it"),
        (f'{AB}subtasks = [{{name = "x"}}, {{name = "y", end = "b"}}]', "'x' has no end: only the last of arm"),
        (f'{AB}subtasks = [{{name = "x", eef = ""}}]', "eef must not be empty"),
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
    with pytest.raises(TempolocError, match="unknown benchmark"):
        load_benchmark(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"manifest\.jsonl:2 is not JSON"),
        (json.dumps(GOOD).replace("{", '{"fps": 5, "fps": 9, ', 1), r"2 is not JSON: the key 'fps' stands twice"),
        ("{}", "lacks 'events'"),
        (json.dumps({**GOOD, "clip": "cup/1"}), "must start with its task"),
        (json.dumps({**GOOD, "events": [{"label": "x", "boundary": -1}]}), "after 0"),
        (json.dumps({**GOOD, "events": [{"label": "x", "boundary": "1"}]}), r'0: boundary = "1" is not a number'),
        (json.dumps({**GOOD, "events": [{"label": "x", "boundry": 1}]}), "'boundry'; did you mean 'boundary'"),
        (json.dumps({**GOOD, "events": [{"label": " "}]}), "an event's label is empty"),
        (json.dumps({**GOOD, "events": [{"label": "x", "boundary": 1}, {"label": "y"}]}), "1 of 2 events have a"),
        (json.dumps({**GOOD, "duration": 9}).replace("1.5", "1500"), "is at 1500 s, the clip lasts 9 s: are these sec"),
        (json.dumps({**GOOD, "duration": 9, "fps": 5, "label_fps": 50}), "is at 15 s, the clip lasts 9 s"),
        (json.dumps({**GOOD, "events": [{"label": "x", "boundary": 1, "start": 4, "end": 3}]}), "'x' ends before it"),
        (json.dumps({**GOOD, "events": [{"label": "x", "start": 1, "end": 3}]}), "'x' has a start or an end, and no"),
        (json.dumps({**GOOD, "events": {}}), "events = {} is not a list"),
        (json.dumps({**GOOD, "clip": 7}), "clip = 7 is not text"),
        (json.dumps({**GOOD, "clip": "mug/"}), "name the clip"),
        (json.dumps({**GOOD, "fps": -30}), "fps = -30: should be greater than 0"),
        (json.dumps({**GOOD, "duration": float("nan")}), "NaN is not a JSON number"),
        ('{"clip": 1' + "0" * 400 + "}", "clip = 10+... is not text"),
        (json.dumps(GOOD).replace("1.5", "1" + "0" * 400), "boundary = 10+... is not a"),
        ("[" * 100_000, "nested too deep"),
        ("7", "is not a JSON object: 7"),
        (json.dumps({k: v for k, v in GOOD.items() if k != "task"}), "lacks 'task'"),
        (json.dumps(GOOD), "twice"),
        (json.dumps({**GOOD, "note": 1}).replace(": 1}", ": 1e999}"), "a number is too large"),
        (json.dumps(GOOD).replace("1.5", "1" * 5000), r"manifest\.jsonl:2 is not JSON: a number is too large"),
        (json.dumps({**GOOD, "clip": "mug/\ud800"}), r"manifest\.jsonl:2 holds half of a character, \\ud800"),
        (json.dumps({**GOOD, "\udfff": 1}), r"manifest\.jsonl:2 holds half of a character, \\udfff"),
        (json.dumps({**GOOD, "video": "a\0.mp4"}), "its id or its video holds a NUL byte"),
        (json.dumps({**GOOD, "note": 1}).replace(": 1}", ": " + "[" * 10**5 + "]" * 10**5 + "}"), "nested too deep"),
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
        duration=12.0,
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


def test_each_fault_of_a_manifest_has_a_line(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    lines = [GOOD, {}, {**GOOD, "fps": 0, "seed": "1"}, {**GOOD, "clip": "mug/2"}]
    path.write_text("\n".join(map(json.dumps, lines)).replace("{}", "{\n"))
    with pytest.raises(TempolocError) as told:
        read_manifest(path)
    assert [line.split(" ")[0] for line in str(told.value).splitlines()] == ["m.jsonl:2", "m.jsonl:4:", "m.jsonl:4:"]
    path.write_text(json.dumps({**GOOD, "clip": "a\u2028b"}, ensure_ascii=False))
    with pytest.raises(TempolocError) as told:
        read_manifest(path)
    assert len(str(told.value).split("\n")) == 1
    path.write_text("\n" * 3)
    with pytest.raises(TempolocError, match=r"m.jsonl is empty: a manifest has one clip per line"):
        read_manifest(path)


def test_only_a_newline_ends_a_line(tmp_path: Path) -> None:
    odd = enumerate("\u2028\u2029\x85\x0b\x1c")
    clips = tuple(Clip(f"mug/{i}", "mug", (Event(f"one{mark}two", 1.0),)) for i, mark in odd)
    write_manifest(tmp_path / "m.jsonl", clips)
    assert read_manifest(tmp_path / "m.jsonl") == clips
    text = (tmp_path / "m.jsonl").read_bytes()
    (tmp_path / "m.jsonl").write_bytes(text.replace(b"\n", b"\r\n"))
    assert read_manifest(tmp_path / "m.jsonl") == clips


def test_a_clip_without_truth(tmp_path: Path) -> None:
    clip = Clip("mug/1", "mug", (Event("a"), Event("b")), fps=10.0, label_fps=30.0)
    write_manifest(tmp_path / "m.jsonl", [clip])
    assert '"events": [{"label": "a"}, {"label": "b"}]' in (tmp_path / "m.jsonl").read_text()
    assert read_manifest(tmp_path / "m.jsonl") == (clip,)
    assert not clip.labelled
    assert not Clip("mug/1", "mug", ()).labelled
    for name in ("boundaries", "source_boundaries", "subtask_durations"):
        with pytest.raises(TempolocError, match="mug/1 has no truth: find or label its events first"):
            getattr(clip, name)
        assert getattr(Clip("mug/1", "mug", ()), name) == ()
    with pytest.raises(TempolocError, match="the event 'a' has no boundary"):
        _ = clip.events[0].time


@pytest.mark.parametrize("mark", [True, False])
def test_placeholders_of_old_manifests_are_no_truth(tmp_path: Path, mark: bool) -> None:
    (tmp_path / "m.jsonl").write_text(json.dumps({**GOOD, "placeholder": mark, "note": 1}) + "\n")
    (clip,) = read_manifest(tmp_path / "m.jsonl")
    assert clip.labels == ("grasping the mug",)
    assert clip.labelled is not mark
    assert clip.extra == {"note": 1}


def test_a_task_file_without_boundaries_is_a_benchmark_of_the_videos_beside_it(tmp_path: Path) -> None:
    path = task_file(tmp_path, 'key = "mug"\nevents = ["a"]\nclip_pattern = "take(?P<clip>.+)"')
    with pytest.raises(TempolocError, match=r"has no \[boundaries\], and no video beside its file fits"):
        load_benchmark(path)
    for name in ("take1.mp4", "holiday.mp4"):
        (tmp_path / name).touch()
    (clip,) = load_benchmark(path).clips
    assert (clip.clip, clip.video, clip.labelled) == ("mug/1", "take1.mp4", False)
    listed = task_file(tmp_path, 'key = "mug"\nevents = ["a"]\n[boundaries]\n1 = []\n2 = [2.0]')
    assert [c.labelled for c in load_benchmark(listed).clips] == [False, True]


@pytest.mark.parametrize("boundary", [float("nan"), "1.5", -1.0])
def test_a_manifest_that_could_not_be_read_again_is_not_written(tmp_path: Path, boundary: Any) -> None:
    clip = Clip("mug/a", "mug", (Event("grasping the mug", boundary),))
    with pytest.raises(TempolocError, match="the manifest to be written"):
        write_manifest(tmp_path / "m.jsonl", [clip])
    assert not (tmp_path / "m.jsonl").exists()


def test_numbers_of_numpy_are_written_and_read(tmp_path: Path) -> None:
    write_manifest(tmp_path / "m.jsonl", [Clip("mug/a", "mug", (Event("grasping the mug", np.float32(1.5)),))])
    assert read_manifest(tmp_path / "m.jsonl")[0].times == (1.5,)


def test_one_clip_by_its_name_is_that_clip_alone() -> None:
    (first, *_) = load_benchmark("sim").clips
    assert load_benchmark("sim").only(first.clip).clips == (first,)
    assert load_benchmark("sim").only(f"{first.clip}1").clips == ()
