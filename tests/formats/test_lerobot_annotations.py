"""The file in which LeRobot's visualizer keeps what people write: read, changed, and nothing of theirs lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tempoloc_nb.clips.manifest import Clip
from tempoloc_nb.clips.tasks import Event
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.formats.lerobot import LeRobotInfo, read_info
from tempoloc_nb.formats.lerobot_rows import REST, _annotations_path, read_annotations, write_annotations

pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra data)")
from lerobot_folders import small_dataset


@pytest.fixture
def info(tmp_path: Path) -> LeRobotInfo:
    pictures = [[np.full((48, 64, 3), 40, np.uint8)] * 20] * 2
    return read_info(small_dataset(tmp_path / "cups", pictures))


def clip(*times: float, episode: int = 0) -> Clip:
    events = tuple(Event(label, t) for label, t in zip(("grasp", "lift"), times, strict=True))
    return Clip(f"cups/{episode}", "cups", events, fps=10.0, extra={"episode_index": episode})


def atom(style: str | None, content: str | None, timestamp: float) -> dict[str, Any]:
    return {
        "role": "assistant", "content": content, "style": style, "timestamp": timestamp, "camera": None,
        "tool_calls": None,
    }  # fmt: skip


def test_subtasks_go_and_come_at_frames(info: LeRobotInfo) -> None:
    assert read_annotations(info) == {}
    path = write_annotations(info, [clip(0.62, 1.4), clip(0.5, 2.0, episode=1)])
    assert path == _annotations_path(info)
    found = json.loads(path.read_text())
    assert found["version"] == 2
    assert found["episodes"]["0"]["atoms"] == [
        atom("subtask", "grasp", 0.0), atom("subtask", "lift", 0.6), atom("subtask", REST, 1.4)
    ]  # fmt: skip
    assert read_annotations(info) == {0: [(0, "grasp"), (6, "lift"), (14, REST)], 1: [(0, "grasp"), (5, "lift")]}


def test_what_others_wrote_stays(info: LeRobotInfo) -> None:
    plan = atom("plan", "1. grasp 2. lift", 0.0)
    said = {**atom(None, None, 0.7), "tool_calls": [{"type": "function", "function": {"name": "say"}}]}
    other = {"atoms": [atom("subtask", "wave", 0.0)]}
    theirs = {"version": 2, "schema": {"persistent_styles": ["mine"]}, "note": 1, "episodes": {
        "0": {"atoms": [plan, atom("subtask", "old", 0.0), said]}, "1": other}}  # fmt: skip
    path = _annotations_path(info)
    path.write_text(json.dumps(theirs))
    write_annotations(info, [clip(0.5, 2.0)])
    found = json.loads(path.read_text())
    assert (found["note"], found["schema"], found["episodes"]["1"]) == (1, theirs["schema"], other)
    kept = found["episodes"]["0"]["atoms"]
    assert plan in kept
    assert said in kept
    assert [a["content"] for a in kept if a["style"] == "subtask"] == ["grasp", "lift"]
    assert json.loads(path.with_name(f"{path.name}.bak").read_text()) == theirs


def test_the_first_version_is_read(info: LeRobotInfo) -> None:
    subtasks = [{"label": "lift", "start": 0.6, "end": 2.0}, {"label": "grasp", "start": 0.0, "end": 0.6}]
    _annotations_path(info).write_text(json.dumps({"episodes": {"0": {"subtasks": subtasks, "high_levels": []}}}))
    assert read_annotations(info) == {0: [(0, "grasp"), (6, "lift")]}


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"version": 3, "episodes": {}}', '{"version": 2}', '{"episodes": {"x": {"atoms": []}}}',
     '{"episodes": {"0": 3}}', '{"episodes": {"0": {"atoms": [{"style": "subtask"}]}}}',
     '{"episodes": {"0": {"atoms": [{"style": "subtask", "timestamp": "soon", "content": "x"}]}}}'],
)  # fmt: skip
def test_a_damaged_file_is_named_and_left_alone(info: LeRobotInfo, text: str) -> None:
    path = _annotations_path(info)
    path.write_text(text)
    with pytest.raises(TempolocError, match="lerobot_annotations"):
        read_annotations(info)
    assert path.read_text() == text


def test_a_clip_that_does_not_fit_changes_nothing(info: LeRobotInfo) -> None:
    write_annotations(info, [clip(0.5, 2.0)])
    before = _annotations_path(info).read_bytes()
    for wrong in (clip(0.5, 2.3), clip(0.5, 0.52), clip(0.5, 1.0, episode=7)):
        with pytest.raises(TempolocError):
            write_annotations(info, [clip(0.4, 1.9), wrong])
    assert _annotations_path(info).read_bytes() == before
