"""The rows of LeRobot datasets: numbers with their names, times that must agree, subtasks that may be missing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tempoloc_nb.clips.manifest import Clip, load_benchmark
from tempoloc_nb.clips.tasks import Event
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.formats.found import plan_write
from tempoloc_nb.formats.gripper import read_gripper
from tempoloc_nb.formats.lerobot import _flat_names, number_names, read_episodes, read_info
from tempoloc_nb.formats.lerobot_convert import _read_lerobot, write_lerobot_subtasks
from tempoloc_nb.formats.lerobot_rows import (
    LANGUAGE,
    REST,
    SUBTASK_INDEX,
    _annotations_path,
    events_of,
    read_annotations,
    read_numbers,
    read_subtasks,
)
from tempoloc_nb.formats.recordings import find_recordings

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra data)")
pq = pytest.importorskip("pyarrow.parquet")
from lerobot_folders import FPS, small_dataset  # noqa: E402

LENGTH = 20
PICTURES = [[np.full((48, 64, 3), 9 * k, np.uint8) for k in range(LENGTH)]] * 2
NAMES = [["reach"] * 7 + ["pull"] * 13] * 2


@pytest.fixture(params=["v2.1", "v3.0"])
def dataset(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    return small_dataset(tmp_path / "door", PICTURES, NAMES, version=request.param)


def with_column(root: Path, name: str, values: Callable[[int], Any] | None, **feature: Any) -> Path:
    """The dataset with a column of `values` by frame, new or in place of another; without it for None."""
    for path in root.glob("data/*/*.parquet"):
        table = pq.read_table(path)
        frames = table["frame_index"].to_pylist()
        table = table.drop_columns([name]) if name in table.column_names else table
        if values is not None:
            table = table.append_column(name, pa.array([values(k) for k in frames]))
        pq.write_table(table, path)
    if feature:
        path = root / "meta/info.json"
        info = json.loads(path.read_text())
        info["features"][name] = feature
        path.write_text(json.dumps(info))
    return root


def subtasks(root: Path) -> dict[int, list[tuple[int, str]]]:
    info = read_info(root)
    return read_subtasks(info, read_episodes(info))


# --- names of numbers ---


@pytest.mark.parametrize(("names", "count", "found"), [
    (["a", "b"], 2, ("a", "b")),
    ([["kLeftElbow", "kGripper"]], 2, ("kLeftElbow", "kGripper")),
    ([["a"], [["b"], "c"]], 3, ("a", "b", "c")),
    ({"motors": ["a", "b"]}, 2, ("a", "b")),
    ({"motors": [["a"], ["b"]]}, 2, ("a", "b")),
    ({"left": ["elbow", "claw"], "right": ["claw"]}, 3, ("left.elbow", "left.claw", "right.claw")),
    ({"arms": {"left": ["claw"], "right": ["claw"]}}, 2, ("left.claw", "right.claw")),
    ({"claw": 1, "elbow": 0}, 2, ("elbow", "claw")),
    ("claw", 1, ("claw",)),
    ([3, "b"], 2, ("3", "b")),
    (None, 2, ("", "")), ([], 2, ("", "")), ({}, 1, ("",)), (["a"], 2, ("", "")), (["a", "b", "c"], 2, ("", "")),
    (["a", None], 2, ("", "")),
])  # fmt: skip
def test_names_are_flat(names: Any, count: int, found: tuple[str, ...]) -> None:
    assert _flat_names(names, count) == found


def test_the_gripper_is_not_the_elbow_before_it(dataset: Path) -> None:
    feature = {"dtype": "float32", "shape": [2], "names": [["kLeftElbow", "kGripper"]]}
    with_column(dataset, "observation.state", lambda k: [float(k), float(k < 12)], **feature)
    signal = read_gripper(dataset, [Clip("door/x", "door", (Event("a"),), extra={"episode_index": 1})])["door/x"]
    assert signal.opening.tolist() == [1.0] * 12 + [0.0] * 8
    assert signal.times.tolist() == [k / FPS for k in range(LENGTH)]


# --- numbers ---


def test_numbers_of_every_shape_come_by_feature(dataset: Path) -> None:
    with_column(dataset, "observation.state", lambda k: [k, 2 * k], dtype="int64", shape=[2], names=["x", "y"])
    with_column(dataset, "action.gripper", lambda k: k / 4, dtype="float32", shape=[], names=None)
    with_column(dataset, "poses", lambda k: [[k, 0.5], [1.0, 2.0]], dtype="float64", shape=[2, 2], names=None)
    with_column(dataset, "cloud", lambda k: [0.0], dtype="float32", shape=[10**12, 3], names=None)
    with_column(dataset, "next.done", lambda k: k > 18, dtype="bool", shape=[1], names=None)
    with_column(dataset, "note", lambda k: "x", dtype="string", shape=[1], names=None)
    info = read_info(dataset)
    names = number_names(info)
    assert names == {"observation.state": ("x", "y"), "action.gripper": ("",), "poses": ("", "", "", "")}
    (_, times, found), _ = read_numbers(info, read_episodes(info), list(names))
    assert times[-1] == 1.9
    assert found["observation.state"].tolist()[3] == [3.0, 6.0]
    assert found["action.gripper"].tolist()[3] == [0.75]
    assert found["poses"].tolist()[3] == [3.0, 0.5, 1.0, 2.0]
    with pytest.raises(TempolocError, match=r"unknown feature 'action'.*observation.state"):
        list(read_numbers(info, read_episodes(info), ["action"]))


@pytest.mark.parametrize(("values", "message"), [
    (lambda k: [0.0, 1.0, 2.0], "observation.state has 3 numbers, meta/info.json says 2"),
    (lambda k: None if k == 4 else [0.0, 1.0], "observation.state: its rows are not of one length"),
    (lambda k: [0.0] * (1 + (k != 4)), "observation.state: its rows are not of one length"),
    (lambda k: [0.0, np.nan if k == 4 else 1.0], "observation.state lacks a number in frame 4"),
    (lambda k: [0.0, None if k == 4 else 1.0], "observation.state lacks a number in frame 4"),
    (lambda k: ["0", "1"], "observation.state holds string, no numbers"),
    (None, "it lacks the column observation.state"),
])  # fmt: skip
def test_numbers_that_are_none_are_said(dataset: Path, values: Any, message: str) -> None:
    with_column(dataset, "observation.state", values, dtype="float32", shape=[2], names=["x", "gripper"])
    with pytest.raises(TempolocError, match=message):
        read_gripper(dataset, [Clip("door/x", "door", (Event("a"),), extra={"episode_index": 0})])


# --- times ---


@pytest.mark.parametrize("time", [
    lambda k: 7.25 + k / FPS,  # a clock of its own
    lambda k: k / FPS + 0.01 * (k % 3),  # trembling
    lambda k: [k / FPS],
])  # fmt: skip
def test_times_that_agree_to_half_a_frame(dataset: Path, tmp_path: Path, time: Any) -> None:
    with_column(dataset, "timestamp", time)
    assert subtasks(dataset)[1] == [(0, "reach"), (7, "pull")]
    clips = [Clip(f"door/{e}", "door", (Event("reach", 0.5), Event("pull", 1.2))) for e in (0, 1)]
    if not isinstance(time(0), list):
        new = write_lerobot_subtasks(dataset, clips, tmp_path / "new").output
        assert subtasks(new)[1] == [(0, "reach"), (5, "pull"), (12, REST)]


@pytest.mark.parametrize(("time", "row"), [
    (lambda k: k / 5, "row 1 has the timestamp 0.2 s, but 10 frames a second, .*, make it 0.1 s"),
    (lambda k: 100.0 * k, "row 1 has the timestamp 100 s"),
    (lambda k: k / FPS + 0.2 * (k > 8), "row 9 has the timestamp 1.1 s, .* make it 0.9 s"),
    (lambda k: (LENGTH - k) / FPS, "row 1 has the timestamp 1.9 s"),
    (lambda k: (k ^ 1) / FPS, "row 1 has the timestamp 0 s"),
    (lambda k: 0.0, "row 1 has the timestamp 0 s"),
    (lambda k: None if k == 3 else k / FPS, "row 3 has the timestamp nan s"),
    (lambda k: np.inf, "row 0 has the timestamp inf s"),
    (lambda k: f"{k / FPS}", "timestamp holds string, no numbers"),
    (lambda k: [0.0, k / FPS], "timestamp has 2 numbers a row"),
    (None, "lacks the column timestamp"),
])  # fmt: skip
def test_times_against_the_frame_rate_are_refused(dataset: Path, tmp_path: Path, time: Any, row: str) -> None:
    with_column(dataset, "observation.state", lambda k: [k], dtype="float32", shape=[1], names=["gripper"])
    with_column(dataset, "timestamp", time)
    clips = [Clip(f"door/{e}", "door", (Event("a", 0.5),), extra={"episode_index": e}) for e in (0, 1)]
    videos = find_recordings([dataset])  # the pictures alone have their times
    for use in (
        lambda: subtasks(dataset), lambda: read_gripper(dataset, clips), lambda: plan_write(videos, ("a",)),
        lambda: write_lerobot_subtasks(dataset, clips, tmp_path / "new"),
        lambda: _read_lerobot(dataset, tmp_path / "clips"),
    ):  # fmt: skip
        with pytest.raises(TempolocError, match=row):
            use()
    assert [p.name for p in tmp_path.iterdir()] == ["door"]


@pytest.mark.parametrize(("change", "message"), [
    (lambda t: t.slice(1), r"19 rows of 20 of episode 0"),
    (lambda t: pa.concat_tables([t, t.slice(0, 1)]), r"21 rows of 20 of episode 0"),
    (lambda t: t.slice(0, 0), r"0 rows of 20 of episode 0"),
    (lambda t: t.drop_columns(["episode_index"]), r"lacks the column episode_index"),
    (lambda t: t.set_column(1, "episode_index", pa.array(["a"] * len(t))), r"episode_index holds string, no numbers"),
])  # fmt: skip
def test_rows_that_are_not_the_episodes(dataset: Path, change: Any, message: str) -> None:
    path = sorted(dataset.glob("data/*/*.parquet"))[0]
    table = pq.read_table(path)
    table = table.select([*(n for n in table.column_names if n != "episode_index"), "episode_index"])
    if "holds" in message:
        table = table.drop_columns(["frame_index"]).select(["timestamp", "episode_index", "subtask_index"])
    pq.write_table(change(table), path)
    with pytest.raises(TempolocError, match=message):
        subtasks(dataset)


def test_rows_of_two_episodes_must_not_alternate(tmp_path: Path) -> None:
    root = small_dataset(tmp_path / "door", PICTURES, NAMES)
    path = root / "data/chunk-000/file-000.parquet"
    table = pq.read_table(path)
    pq.write_table(table.take([k + 20 * e for k in range(LENGTH) for e in range(2)]), path)
    with pytest.raises(TempolocError, match=r"file-000.parquet: the rows of episode 0 are not together"):
        subtasks(root)


# --- subtasks by index ---


@pytest.mark.parametrize(("index", "spans", "events"), [
    (lambda k: -1 if k >= 15 else int(k >= 7), [(0, "reach"), (7, "pull"), (15, "")], [0.7, 1.5]),
    (lambda k: None if k >= 15 else int(k >= 7), [(0, "reach"), (7, "pull"), (15, "")], [0.7, 1.5]),
    (lambda k: -1.0 if k < 3 else None if 7 <= k < 9 else float(k >= 9),
     [(0, ""), (3, "reach"), (7, ""), (9, "pull")], [0.7, 2.0]),
    (lambda k: None if k % 2 and k > 12 else -1 if k > 12 else 0, [(0, "reach"), (13, "")], [1.3]),
    (lambda k: [int(k >= 7)], [(0, "reach"), (7, "pull")], [0.7, 2.0]),
    (lambda k: k >= 7, [(0, "reach"), (7, "pull")], [0.7, 2.0]),
    (lambda k: int(7 <= k < 9), [(0, "reach"), (7, "pull"), (9, "reach")], [0.7, 0.9, 2.0]),
    (lambda k: None, [(0, "")], []),
])  # fmt: skip
def test_frames_may_belong_to_no_subtask(
    dataset: Path, tmp_path: Path, index: Any, spans: list[Any], events: list[float]
) -> None:
    with_column(dataset, SUBTASK_INDEX, index)
    assert subtasks(dataset)[1] == spans
    clips = _read_lerobot(dataset, tmp_path / "clips")
    assert clips[1].boundaries == tuple(events)
    if events:
        assert load_benchmark(tmp_path / "clips").clips == clips


@pytest.mark.parametrize(("index", "message"), [
    (lambda k: 2 if k == 9 else 0, "episode 0, frame 9: meta/subtasks has no subtask 2"),
    (lambda k: 0.5 if k == 9 else 0.0, "episode 0, frame 9: meta/subtasks has no subtask 0.5"),
    (lambda k: np.inf if k > 8 else 0.0, "episode 0, frame 9: meta/subtasks has no subtask inf"),
    (lambda k: -2 if k == 9 else 0, r"episode 0, frame 9: meta/subtasks has no subtask -2 \(-1 is none\)"),
    (lambda k: -0.5 if k == 9 else 0.0, "episode 0, frame 9: meta/subtasks has no subtask -0.5"),
    (lambda k: np.nan if k > 8 else 0.0, "episode 0, frame 9: meta/subtasks has no subtask nan"),
    (lambda k: "reach", "subtask_index holds string, no numbers"),
    (lambda k: [0, 1], "subtask_index has 2 numbers a row"),
    (lambda k: [0] * (k % 2), "subtask_index: its rows are not of one length"),
    (None, "it lacks the column subtask_index"),
])  # fmt: skip
def test_an_index_of_no_subtask_is_said_with_its_row(dataset: Path, tmp_path: Path, index: Any, message: str) -> None:
    with_column(dataset, SUBTASK_INDEX, index)
    with pytest.raises(TempolocError, match=message):
        _read_lerobot(dataset, tmp_path / "clips")
    assert not (tmp_path / "clips").exists()


def name_subtasks(root: Path, rows: list[tuple[Any, Any]]) -> None:
    if read_info(root).version == 2:
        lines = [json.dumps({"subtask_index": i, "subtask": name}) + "\n" for i, name in rows]
        (root / "meta/subtasks.jsonl").write_text("".join(lines))
    else:
        table = {"subtask_index": [i for i, _ in rows], "subtask": [name for _, name in rows]}
        pq.write_table(pa.table(table), root / "meta/subtasks.parquet")


@pytest.mark.parametrize("rows", [[(0, "a"), (1, "b"), (1, "c")], [(0, "a"), (None, "b")], [(0, 3), (1, 4)]])
def test_a_table_that_gives_no_number_one_name(dataset: Path, rows: list[tuple[Any, Any]]) -> None:
    name_subtasks(dataset, rows)
    with pytest.raises(TempolocError, match="door/meta/subtasks does not give each number one name"):
        subtasks(dataset)


def test_the_table_of_subtasks_must_be_there(dataset: Path) -> None:
    for path in dataset.glob("meta/subtasks.*"):
        path.unlink()
    with pytest.raises(TempolocError, match=r"cannot read meta/subtasks.parquet: "):
        subtasks(dataset)
    pq.write_table(pa.table({"subtask": ["a"]}), dataset / "meta/subtasks.parquet")
    with pytest.raises(TempolocError, match=r"subtasks.parquet lacks the column subtask_index"):
        subtasks(dataset)


# --- subtasks in words ---


def language(*rows: tuple[Any, Any]) -> list[dict[str, Any]]:
    return [{"style": "subtask", "content": text, "timestamp": time, "role": "assistant"} for text, time in rows]


def in_words(root: Path, values: Callable[[int], Any]) -> Path:
    return with_column(root, LANGUAGE, values, dtype="language", shape=[1], names=None)


def test_a_row_without_words_ends_a_subtask(dataset: Path) -> None:
    rows = [*language(("pull", 0.9), ("reach", 0.3), (None, 1.4)), {**language(("x", 7.0))[0], "style": "plan"}]
    in_words(dataset, lambda k: rows)
    assert subtasks(dataset)[0] == [(3, "reach"), (9, "pull"), (14, "")]
    assert [e.boundary for e in events_of(subtasks(dataset)[0], LENGTH, FPS)] == [0.9, 1.4]


def test_an_episode_may_have_no_rows(dataset: Path) -> None:
    for rows in (None, []):
        in_words(dataset, lambda k, rows=rows: rows if k >= 0 else language(("x", 0.0)))
        by_index = [(0, "reach"), (7, "pull")]
        assert subtasks(dataset) == {0: by_index, 1: by_index}
    with_column(dataset, SUBTASK_INDEX, lambda k: -1)
    assert subtasks(dataset) == {0: [(0, "")], 1: [(0, "")]}


@pytest.mark.parametrize(("rows", "message"), [
    (language(("reach", 0.0), ("pull", 9.0)), "episode 0: the subtask 'pull' begins at 9 s, the episode has 2 s"),
    (language(("reach", 0.0), ("pull", 2.0)), "the subtask 'pull' begins at 2 s, the episode has 2 s"),
    (language(("reach", -0.5)), "the subtask 'reach' begins at -0.5 s"),
    (language(("reach", 0.31), ("pull", 0.34)), "two subtasks begin at the same frame"),
    (language(("reach", np.nan)), "the subtask 'reach' begins at nan, which is no time"),
    (language(("reach", None)), "the subtask 'reach' begins at None, which is no time"),
    (language(("reach", "soon")), "the subtask 'reach' begins at 'soon', which is no time"),
    ([{"style": "subtask"}], "language_persistent is not as LeRobot writes it"),
    (["reach"], "language_persistent is not as LeRobot writes it"),
    (7, "language_persistent is not as LeRobot writes it"),
])  # fmt: skip
def test_a_subtask_outside_its_episode_is_an_error(dataset: Path, tmp_path: Path, rows: Any, message: str) -> None:
    in_words(dataset, lambda k: rows)
    with pytest.raises(TempolocError, match=message):
        _read_lerobot(dataset, tmp_path / "clips")
    assert not (tmp_path / "clips").exists()


def test_rows_in_words_are_those_of_all_frames(dataset: Path) -> None:
    in_words(dataset, lambda k: language(("reach", 0.0), ("pull", 0.7 if k < 9 else 0.8)))
    with pytest.raises(TempolocError, match="episode 0: language_persistent is not the same in all frames"):
        subtasks(dataset)


@pytest.mark.parametrize(("key", "rows", "message"), [
    ("1", [("reach", 0.0), ("pull", 9.0)], "episode 1: the subtask 'pull' begins at 9 s, the episode has 2 s"),
    ("4", [("reach", 0.0)], "lerobot_annotations.json, episode 4 is none of door"),
    ("0", [("reach", 0.0), ("pull", True)], "begins at True, which is no time"),
])  # fmt: skip
def test_what_was_written_in_the_visualizer_lies_in_its_episode(
    dataset: Path, key: str, rows: list[Any], message: str
) -> None:
    info = read_info(dataset)
    _annotations_path(info).write_text(json.dumps({"version": 2, "episodes": {key: {"atoms": language(*rows)}}}))
    with pytest.raises(TempolocError, match=message):
        read_annotations(info)
    _annotations_path(info).write_text(
        json.dumps({"version": 2, "episodes": {"1": {"atoms": language(("reach", 0.0), (None, 1.1))}}})
    )
    assert read_annotations(info) == {1: [(0, "reach"), (11, "")]}
