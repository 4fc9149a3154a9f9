"""SkillGen's starts and ends in HDF5 files, and AutoData's descriptors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tempoloc_nb.clips.manifest import Clip, load_benchmark, write_manifest
from tempoloc_nb.clips.tasks import Event, Subtask, Task, load_task
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.formats.convert import export_dataset, import_dataset, task_text
from tempoloc_nb.formats.hdf5 import read_signals
from tempoloc_nb.formats.hdf5_rules import Ranges, _descriptor_text, read_descriptor, subtask_index
from tempoloc_nb.formats.hdf5_write import SignalOptions, write_signals

h5py = pytest.importorskip("h5py", reason="h5py is not installed (extra data)")

EVENTS = ("reaching", "grasping", "bringing over", "releasing")
SKILLS = (Subtask("grasp", *EVENTS[:2], "cubeA"), Subtask("place", *EVENTS[2:], "cubeB"))
TASK = Task("stack", EVENTS, subtasks=SKILLS)
STEPS = (20, 30, 45, 60)
LENGTH = 80
INFO = "data/demo_0/obs/datagen_info"


def demo_file(path: Path, demos: int = 1) -> Path:
    args = {"env_name": "Isaac-Stack", "type": 2, "sim_args": {"dt": 0.01, "decimation": 5}}
    with h5py.File(path, "w") as file:
        file.create_group("data").attrs["env_args"] = json.dumps(args)
        for i in range(demos):
            file[f"data/demo_{i}/actions"] = np.zeros((LENGTH, 7))
    return path


def clip(steps: Sequence[float] = STEPS, labels: Sequence[str] = EVENTS, demo: int = 0) -> Clip:
    events = tuple(Event(label, step / 20) for label, step in zip(labels, steps, strict=True))
    return Clip(f"stack/demo_{demo}", "stack", events)


def write(path: Path, clips: Sequence[Clip], task: Task = TASK, **how: Any) -> Any:
    own = {f.name: how.pop(f.name) for f in fields(SignalOptions) if f.name in how}
    options = SignalOptions(**{"layout": "isaaclab", "create": True, **own})
    return write_signals(path, clips, {"stack": task}, options=options, **how)


def test_starts_and_ends_are_written_read_and_written_again(tmp_path: Path) -> None:
    path = demo_file(tmp_path / "d.hdf5", 2)
    done = write(path, [clip(), clip((21, 31, 44, 61), demo=1)], index=True)
    assert done.signals == ("grasp", "place")
    with h5py.File(path) as file:
        info = file[INFO]
        assert set(info) == {"subtask_start_signals", "subtask_term_signals", "subtask_index"}
        rises = {f"{g}/{n}": int(np.argmax(info[g][n][()])) for g in list(info)[1:] for n in info[g]}
        assert list(rises.values()) == [20, 45, 30, 60]
        index = info["subtask_index/arm"][()]
        assert [int(index[k]) for k in (19, 20, 30, 31, 44, 45, 79)] == [-1, 0, 0, -1, -1, 1, 1]
        assert json.loads(info["subtask_start_signals"].attrs["tempoloc"])["steps"] == {"grasp": 20, "place": 45}
    made = import_dataset(path, tmp_path / "m.jsonl", "hdf5", task="other")
    assert made.kept == 2
    benchmark = load_benchmark(tmp_path / "m.jsonl")
    task = benchmark.tasks["other"]
    assert task.events == ("grasp starts", "grasp", "place starts", "place")
    assert task.subtasks == (Subtask("grasp", "grasp starts", "grasp"), Subtask("place", "place starts", "place"))
    assert [c.boundaries for c in benchmark.clips] == [(1.0, 1.5, 2.25, 3.0), (1.05, 1.55, 2.2, 3.05)]
    again = export_dataset(tmp_path / "m.jsonl", path, "hdf5", index=True)  # by the task's subtasks
    assert "none moved" in str(again)


@pytest.mark.parametrize(
    ("steps", "how", "message"),
    [
        ((20, 30, 31, 60), {}, "'grasp' ends at step 31 .*, 'place' starts at 31 .*: SkillGen needs steps between"),
        ((20, 30, 45, 80), {}, "a signal of 'place' would rise at step 80, not from 1 to 79"),
        ((0.2, 30, 45, 60), {}, "a signal of 'grasp' would rise at step 0"),
        (STEPS, {"ranges": {"grasp": Ranges(start=(-30, 0))}}, "'grasp' starts at step 20, .* at the earliest at -10"),
        (STEPS, {"ranges": {"grasp": Ranges(start=(0, 12))}}, r"'grasp' starts at step 20 \(at the latest at 32\)"),
        (STEPS, {"ranges": {"stack": Ranges()}}, "stack has no subtask 'stack'; it has grasp, place"),
        (STEPS, {"layout": "mimicgen"}, "stack has starts, which are SkillGen's, in Isaac Lab's layout alone"),
        (STEPS, {"task": Task("stack", EVENTS)}, r"the task stack has no subtasks: add \[\[subtasks\]\]"),
        (
            STEPS,
            {"task": Task("stack", EVENTS, subtasks=(SKILLS[0], Subtask("place", None, EVENTS[3])))},
            "the subtask 'place' of stack has no start",
        ),
    ],
)
def test_what_skillgen_would_refuse_is_refused_before(
    tmp_path: Path, steps: Any, how: dict[str, Any], message: str
) -> None:
    path = demo_file(tmp_path / "d.hdf5")
    before = path.read_bytes()
    with pytest.raises(TempolocError, match=message):
        write(path, [clip(steps)], **how)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_an_event_that_a_clip_lacks_is_named(tmp_path: Path) -> None:
    path, labels = demo_file(tmp_path / "d.hdf5"), ("reaching", "grasping", "releasing")
    with pytest.raises(TempolocError, match="has no event 'bringing over', which is the start of the subtask 'place'"):
        write(path, [clip((20, 30, 60), labels)])


def test_two_arms_are_checked_each_by_itself(tmp_path: Path) -> None:
    parts = (
        Subtask("grasp", None, "grasping", "cube", "left"), Subtask("rest", None, None, "", "left"),
        Subtask("hold", None, "holding", "box", "right"), Subtask("let_go", None, "letting go", "box", "right"),
    )  # fmt: skip
    task = Task("stack", ("holding", "grasping", "letting go"), subtasks=parts)
    path = demo_file(tmp_path / "d.hdf5")
    write(path, [clip((20, 30, 60), task.events)], task, index=True)
    assert read_signals(path)[0].signals == ("hold", "grasp", "let_go")
    with h5py.File(path) as file:
        index = {name: rows[()].tolist() for name, rows in file[f"{INFO}/subtask_index"].items()}
    assert index == {"left": [0] * 31 + [1] * 49, "right": [0] * 21 + [1] * 59}
    with pytest.raises(TempolocError, match=r"'grasp' ends at step 31 .* 'the end' at 80"):
        write(path, [clip((20, 30, 60), task.events)], task, ranges={"grasp": Ranges(end=(0, 50))})


def test_signals_of_another_length_are_refused_on_reading(tmp_path: Path) -> None:
    path = demo_file(tmp_path / "d.hdf5")
    write(path, [clip()])
    with h5py.File(path, "r+") as file:
        del file[f"{INFO}/subtask_start_signals/place"]
        file[f"{INFO}/subtask_start_signals/place"] = np.ones(7)
    with pytest.raises(TempolocError, match="demo_0: the signal 'place' has 7 values for 80 actions"):
        read_signals(path)
    with h5py.File(path, "r+") as file:
        del file[f"{INFO}/subtask_start_signals/place"]
        file[f"{INFO}/subtask_start_signals/place"] = np.ones(LENGTH)
    with pytest.raises(TempolocError, match="demo_0: the signal 'place' never goes from 0 to 1"):
        read_signals(path)
    with h5py.File(path, "r+") as file:
        del file[f"{INFO}/subtask_start_signals/place"]
        file[f"{INFO}/subtask_start_signals/place"] = np.where(np.arange(LENGTH) < 40, np.nan, 1)
    with pytest.raises(TempolocError, match="demo_0: the signal 'place' has values that are no numbers"):
        read_signals(path)


def test_the_index_of_a_demonstration_without_signals() -> None:
    assert subtask_index([], 4).tolist() == [0, 0, 0, 0]
    assert subtask_index([1], 4).tolist() == [0, 0, 1, 1]
    assert subtask_index([1], 6, [0, 3]).tolist() == [0, 0, -1, 1, 1, 1]


def test_a_task_goes_through_autodatas_descriptor(tmp_path: Path) -> None:
    (tmp_path / "stack.toml").write_text(task_text("stack", EVENTS, SKILLS))
    assert load_task(tmp_path / "stack.toml") == TASK
    export_dataset(tmp_path / "stack.toml", tmp_path / "stack.yaml", "autodata")
    found = read_descriptor(tmp_path / "stack.yaml").task
    assert [(s.name, s.end, s.object_ref, s.eef) for s in found.subtasks] == [
        (s.name, s.end, s.object_ref, s.eef) for s in SKILLS
    ]
    assert [s.start for s in found.subtasks] == ["starting to grasping", "starting to releasing"]
    import_dataset(tmp_path / "stack.yaml", tmp_path / "again.toml", "autodata")
    assert load_task(tmp_path / "again.toml") == found
    with pytest.raises(TempolocError, match=r"written to a \.toml file"):
        import_dataset(tmp_path / "stack.yaml", tmp_path / "again.json", "autodata")


def test_offsets_come_from_autodatas_descriptor(tmp_path: Path) -> None:
    path = demo_file(tmp_path / "d.hdf5")
    write_manifest(tmp_path / "m.jsonl", [clip()])
    (tmp_path / "stack.toml").write_text(task_text("stack", EVENTS, SKILLS))
    spec, how = tmp_path / "spec.yaml", {"layout": "isaaclab", "create": True}
    spec.write_text(_descriptor_text(TASK, {"grasp": Ranges((0, 5), (-2, 13))}))
    export_dataset(tmp_path / "m.jsonl", path, "hdf5", task_spec=spec, **how)
    spec.write_text(_descriptor_text(TASK, {"grasp": Ranges((0, 5), (-2, 14))}))
    with pytest.raises(TempolocError, match=r"'grasp' ends at step 31 \(at the latest at 45\), 'place' starts at 45"):
        export_dataset(tmp_path / "m.jsonl", path, "hdf5", task_spec=spec, **how)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: [", "spec.yaml is not valid YAML: "),
        ("- 1", "spec.yaml"),
        ("name: a\nalgo: mimicgen", "lacks 'subtasks'"),
        ("name: a\nalgo: mimicgen\nsubtasks: {arm: [{}]}", "no subtask has a subtask_term_signal"),
        ("name: a\nalgo: mimicgen\nsubtasks: {arm: [{}, {}]}", "subtask 1 of arm has no subtask_term_signal"),
        ("name: a\nalgo: skillgen\nsubtasks: {arm: [{subtask_term_offset_range: 3}]}", "subtask_term_offset_range"),
    ],
)
def test_a_bad_descriptor_gets_one_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "spec.yaml").write_text(text)
    with pytest.raises(TempolocError, match=message):
        read_descriptor(tmp_path / "spec.yaml")


def test_what_autodata_does_not_take_is_not_written() -> None:
    two = Task("stack", EVENTS, subtasks=(SKILLS[0], Subtask("place", *EVENTS[2:], "cubeB", "left")))
    with pytest.raises(TempolocError, match="takes one end-effector, but stack has arm, left"):
        _descriptor_text(two)
    with pytest.raises(TempolocError, match="the task stack has no subtasks"):
        _descriptor_text(Task("stack", EVENTS))
