"""LeRobot v3 datasets, read and annotated without LeRobot; tests/lerobot asks LeRobot itself."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tempoloc_nb.clips.manifest import Clip, load_benchmark, read_manifest
from tempoloc_nb.clips.tasks import Event, Subtask, Task
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.formats.lerobot import parquet
from tempoloc_nb.formats.lerobot_convert import _read_lerobot, write_lerobot_subtasks
from tempoloc_nb.formats.lerobot_rows import LANGUAGE, REST, spans_of
from tempoloc_nb.sft.build import from_manifest
from tempoloc_nb.video.files import encode, probe, read

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra data)")
pq = pytest.importorskip("pyarrow.parquet")
from lerobot_folders import CAMERA, FPS, small_dataset  # noqa: E402

LENGTHS = (23, 31, 17)
NAMES = [["grasp"] * (n // 3) + ["lift"] * (n // 3) + [REST] * (n - 2 * (n // 3)) for n in LENGTHS]


def picture(episode: int, k: int) -> Any:
    """Eight dark or bright stripes that say which frame of which episode it is."""
    bits = [(episode * 64 + k) >> i & 1 for i in range(8)]
    return np.repeat(np.tile(np.array(bits, np.uint8)[:, None] * 200 + 20, (48, 1, 3)), 8, axis=1)


def number(image: Any) -> int:
    """What the stripes say."""
    bits = image.reshape(48, 8, 8, 3).mean(axis=(0, 2, 3)) > 128
    return int(sum(2**i for i in range(8) if bits[i]))


PICTURES = [[picture(e, k) for k in range(n)] for e, n in enumerate(LENGTHS)]


@pytest.fixture(params=[100, 2, 1], ids=lambda n: f"{n} a file")
def annotated(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    return small_dataset(tmp_path / "cups", PICTURES, NAMES, per_file=request.param)


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    return small_dataset(tmp_path / "cups", PICTURES, per_file=2)


def clips_of(*times: float) -> list[Clip]:
    events = tuple(Event(n, t) for n, t in zip(("grasp", "lift"), times or (0.52, 1.18), strict=True))
    return [Clip(f"cups/{i:03d}", "cups", events, fps=30.0, duration=n / FPS) for i, n in enumerate(LENGTHS)]


def test_episodes_become_clips_with_exactly_their_frames(annotated: Path, tmp_path: Path) -> None:
    clips = _read_lerobot(annotated, tmp_path / "out")
    assert read_manifest(tmp_path / "out" / "manifest.jsonl") == clips
    for e, clip in enumerate(clips):
        third = LENGTHS[e] // 3
        assert clip.events == (Event("grasp", third / FPS), Event("lift", 2 * third / FPS))
        assert clip.clip == f"cups/episode_{e:06d}"
        assert (clip.fps, clip.duration, clip.robot) == (FPS, LENGTHS[e] / FPS, "panda")
        assert clip.extra == {"episode_index": e, "camera": CAMERA, "instruction": "stack"}
        info = probe(clip.video_path(tmp_path / "out"))
        assert (info.n_frames, info.duration) == (LENGTHS[e], pytest.approx(LENGTHS[e] / FPS))
        assert [number(image) for image in read(info.path).images] == [e * 64 + k for k in range(LENGTHS[e])]
    benchmark = load_benchmark(tmp_path / "out")
    assert benchmark.tasks["cups"].events == ("grasp", "lift")
    assert benchmark.tasks["cups"].clip_id("episode_000002.mp4") == "cups/episode_000002"
    assert len(benchmark.with_videos()) == 3


def test_some_episodes_another_name_and_events_to_be_found(annotated: Path, tmp_path: Path) -> None:
    (clip,) = _read_lerobot(
        annotated, tmp_path / "out", task="tea", camera="front", episodes=[1], labels=["open", "pour", "close"]
    )
    assert clip.clip == "tea/episode_000001"
    assert clip.labels == ("open", "pour", "close")
    assert not clip.labelled
    assert [p.name for p in (tmp_path / "out" / "videos" / "tea").iterdir()] == ["episode_000001.mp4"]
    with pytest.raises(TempolocError, match="cups has no episode 7; it has 3"):
        _read_lerobot(annotated, tmp_path / "out", episodes=[1, 7])


def test_the_clips_can_be_built_into_a_dataset(annotated: Path, tmp_path: Path) -> None:
    _read_lerobot(annotated, tmp_path / "out")
    assert [c.problem for c in from_manifest(tmp_path / "out").candidates] == [None] * 3
    with pytest.raises(TempolocError, match="out is there already: give another name, or --force"):
        _read_lerobot(annotated, tmp_path / "out")
    with pytest.raises(TempolocError, match=r"a task cannot be called '\.\./cups'"):
        _read_lerobot(annotated, tmp_path / "out", task="../cups")


def test_without_annotations_there_are_no_events(plain: Path, tmp_path: Path) -> None:
    clips = _read_lerobot(plain, tmp_path / "out")
    assert {c.events for c in clips} == {()}
    assert not (tmp_path / "out" / "cups.toml").exists()
    assert read_manifest(tmp_path / "out" / "manifest.jsonl") == clips


@pytest.mark.parametrize("annotation", ["language", "index"])
def test_subtasks_come_back(plain: Path, tmp_path: Path, annotation: Any) -> None:
    before = {p.relative_to(plain): p.read_bytes() for p in plain.rglob("*") if p.is_file()}
    done = write_lerobot_subtasks(plain, clips_of(), tmp_path / "new", annotation=annotation, source="truth")
    assert (done.kept, done.notes) == (3, (f"9 subtasks ({annotation})",))
    assert {p.relative_to(plain): p.read_bytes() for p in plain.rglob("*") if p.is_file()} == before
    back = _read_lerobot(tmp_path / "new", tmp_path / "out", task="cups")
    assert [c.events for c in back] == [(Event("grasp", 0.5), Event("lift", 1.2))] * 3  # at the nearest frames
    again = write_lerobot_subtasks(tmp_path / "new", back, tmp_path / "newer", annotation=annotation)
    assert again.notes == done.notes
    twice = _read_lerobot(tmp_path / "newer", tmp_path / "out2", task="cups")
    assert [c.events for c in twice] == [c.events for c in back]
    for path in sorted(plain.glob("data/*/*.parquet")):
        old, new = pq.ParquetFile(path), pq.ParquetFile(tmp_path / "new" / path.relative_to(plain))
        assert new.read(old.schema_arrow.names).equals(old.read())
        assert new.num_row_groups == len(set(old.read()["episode_index"].to_pylist()))  # one an episode
    record = json.loads((tmp_path / "new" / "meta" / "tempoloc.json").read_text())
    assert (record["source"], record["episodes"]["1"]) == ("truth", {"clip": "cups/001", "boundaries": [0.52, 1.18]})


def test_rows_of_other_styles_stay_and_the_older_annotation_goes(annotated: Path, tmp_path: Path) -> None:
    first = write_lerobot_subtasks(annotated, clips_of(), tmp_path / "a").output
    info = json.loads((first / "meta" / "info.json").read_text())
    assert "subtask_index" not in info["features"]
    assert not (first / "meta" / "subtasks.parquet").exists()
    path = sorted(first.glob("data/*/*.parquet"))[0]
    table = parquet(path)
    plan = {"role": "assistant", "content": "1. grasp", "style": "plan", "timestamp": 0.3, "camera": None}
    rows = [[*r, {**plan, "tool_calls": None}] for r in table[LANGUAGE].to_pylist()]
    pq.write_table(table.drop_columns([LANGUAGE]).append_column(LANGUAGE, pa.array(rows)), path)  # types as inferred
    second = write_lerobot_subtasks(first, clips_of(0.8, 1.5), tmp_path / "b").output
    found = parquet(second / path.relative_to(first))[LANGUAGE][0].as_py()
    assert [(r["style"], round(r["timestamp"], 3)) for r in found] == [
        ("subtask", 0.0), ("plan", 0.3), ("subtask", 0.8), ("subtask", 1.5)
    ]  # fmt: skip
    with pytest.raises(TempolocError, match="has LeRobot's newer annotations: write annotation language"):
        write_lerobot_subtasks(first, clips_of(), tmp_path / "c", annotation="index")


def test_the_last_event_may_be_the_end(tmp_path: Path) -> None:
    clip = clips_of()[0]
    assert spans_of(clip, 23, FPS) == [(0, "grasp"), (5, "lift"), (12, REST)]
    assert spans_of(clip, 12, FPS, rest="idle") == [(0, "grasp"), (5, "lift")]
    slow = replace(clip, fps=15.0, label_fps=30.0)  # annotated at another rate: the video's seconds count
    assert spans_of(slow, 30, FPS)[1:] == [(10, "lift"), (24, REST)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c[:2], "1 of 3 episodes have no clip, such as episode 2"),
        (lambda c: [*c, replace(c[0], clip="cups/009")], "cups/009 is no episode of the dataset, whose last is 2"),
        (lambda c: [*c, replace(c[0], clip="cups/b2")], "cups/002 and cups/b2 are both episode 2"),
        (lambda c: [replace(c[0], duration=9.0), *c[1:]], "episode 0 of cups lasts .* s, and cups/000 9.0 s: is"),
        (lambda c: [replace(c[0], events=()), *c[1:]], "cups/000 has no events"),
        (lambda c: [replace(c[0], events=(Event("a"),)), *c[1:]], "cups/000 has no truth"),
        (lambda c: [*c[:2], replace(c[2], events=(Event("a", 1.0), Event("b", 1.04)))], "'b' falls on the same frame"),
        (lambda c: [*c[:2], replace(c[2], events=(Event("a", 0.04),))], "'a' falls on the same frame"),
        (lambda c: [*c[:2], replace(c[2], events=(Event("a", 1.9),))], "'a' is at frame 19 of 17"),
        (lambda c: [*c[:2], replace(c[2], events=(Event("a", 0.5), Event("a", 1.0)))], "two subtasks 'a' follow"),
    ],
)
def test_what_does_not_fit_writes_nothing(
    plain: Path, tmp_path: Path, change: Callable[[list[Clip]], list[Clip]], message: str
) -> None:
    with pytest.raises(TempolocError, match=message):
        write_lerobot_subtasks(plain, change(clips_of()), tmp_path / "new")
    assert [p.name for p in tmp_path.iterdir()] == ["cups"]


def test_where_to_write(plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for out in (plain, plain / "new", tmp_path):
        with pytest.raises(TempolocError, match=r"a new folder outside the dataset|is or holds .*, which is read"):
            write_lerobot_subtasks(plain, clips_of(), out, force=True)
    with pytest.raises(TempolocError, match="unknown annotation 'both'"):
        write_lerobot_subtasks(plain, clips_of(), tmp_path / "new", annotation="both")  # type: ignore[arg-type]
    full = "tempoloc_nb.formats.lerobot_convert._write_rows"
    monkeypatch.setattr(full, lambda *a: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        write_lerobot_subtasks(plain, clips_of(), tmp_path / "new")
    assert [p.name for p in tmp_path.iterdir()] == ["cups"]


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("v1.6", r"version v1.6, this reads v2.0 to v3.0: convert a copy .*convert_dataset_v1_to_v2$"),
        ("v4.0", r"version v4.0, this reads v2.0 to v3.0: a newer tempoloc_nb may read it"),
        ("next", r"version next, "),
    ],
)
def test_another_version_says_which_and_the_way_out(plain: Path, tmp_path: Path, version: str, message: str) -> None:
    edit_info(plain, codebase_version=version)
    with pytest.raises(TempolocError, match=message):
        _read_lerobot(plain, tmp_path / "o")
    with pytest.raises(TempolocError, match=message):
        write_lerobot_subtasks(plain, clips_of(), tmp_path / "o")
    assert not (tmp_path / "o").exists()


def edit_info(root: Path, **values: Any) -> None:
    path = root / "meta" / "info.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_folders_that_are_no_such_dataset(plain: Path, tmp_path: Path) -> None:
    with pytest.raises(TempolocError, match=r"is not a LeRobot dataset: it has no meta/info.json"):
        _read_lerobot(tmp_path, tmp_path / "o")
    features = json.loads((plain / "meta" / "info.json").read_text())["features"]
    with pytest.raises(TempolocError, match=f"choose a camera of cups: {CAMERA}"):
        _read_lerobot(plain, tmp_path / "o", camera="wrist")
    other = {**features, "observation.images.wrist": features[CAMERA]}
    edit_info(plain, features=other)
    assert _read_lerobot(plain, tmp_path / "only")[0].extra["camera"] == CAMERA  # the other one has no videos
    shutil.copytree(plain / "videos" / CAMERA, plain / "videos" / "observation.images.wrist")
    with pytest.raises(TempolocError, match=f"choose a camera of cups: {CAMERA}, observation.images.wrist"):
        _read_lerobot(plain, tmp_path / "o")
    other["observation.images.wrist"] = {**features[CAMERA], "info": {"is_depth_map": True}}
    edit_info(plain, features=other)
    assert len(_read_lerobot(plain, tmp_path / "o")) == 3
    edit_info(plain, features={k: v for k, v in features.items() if k != CAMERA})
    with pytest.raises(TempolocError, match="cups has no video"):
        _read_lerobot(plain, tmp_path / "o")
    edit_info(plain, features=features, data_path="data/{episode_chunk}.parquet")
    with pytest.raises(TempolocError, match=r"has the path 'data/\{episode_chunk\}.parquet', which is not LeRobot's"):
        _read_lerobot(plain, tmp_path / "o2")
    edit_info(plain, fps=0)
    with pytest.raises(TempolocError, match=r"cups/meta/info.json: fps = 0: "):
        _read_lerobot(plain, tmp_path / "o2")
    (plain / "meta" / "info.json").write_text("{}")
    with pytest.raises(TempolocError, match=r"cups/meta/info.json lacks 'codebase_version'"):
        _read_lerobot(plain, tmp_path / "o")


def test_damaged_datasets(plain: Path, tmp_path: Path) -> None:
    video = plain / "videos" / CAMERA / "chunk-000" / "file-000.mp4"
    whole = video.read_bytes()
    encode(video, PICTURES[0] + PICTURES[1][:-3], FPS)
    with pytest.raises(TempolocError, match=r"cups/episode_000001: its 31 rows last 3.10 s, its video 2.80 s"):
        _read_lerobot(plain, tmp_path / "o")
    encode(video, PICTURES[0] + PICTURES[1], 2 * FPS)
    with pytest.raises(TempolocError, match=r"file-000.mp4 has 20 frames a second, meta/info.json says 10"):
        _read_lerobot(plain, tmp_path / "o")
    video.unlink()
    with pytest.raises(TempolocError, match=r"file-000.mp4: no such file"):
        _read_lerobot(plain, tmp_path / "o")
    video.write_bytes(whole)
    episodes = plain / "meta" / "episodes" / "chunk-000" / "file-000.parquet"
    table = pq.read_table(episodes)
    at = table.column_names.index(f"videos/{CAMERA}/from_timestamp")
    pq.write_table(table.set_column(at, table.column_names[at], pa.array([0.0, 1.0, 0.0])), episodes)
    with pytest.raises(TempolocError, match=r"cups/meta/episodes: the episodes 0 and 1 overlap in file-000.mp4"):
        _read_lerobot(plain, tmp_path / "o")
    pq.write_table(table.drop_columns([table.column_names[at]]), episodes)
    with pytest.raises(TempolocError, match=r"cups/meta/episodes lacks the column 'videos/.*from_timestamp'"):
        _read_lerobot(plain, tmp_path / "o")
    for damaged in (b"PAR1", b"PAR1" + b"\xff" * 40 + bytes([40, 0, 0, 0]) + b"PAR1"):
        episodes.write_bytes(damaged)
        with pytest.raises(TempolocError, match=r"cannot read chunk-000/file-000.parquet") as caught:
            _read_lerobot(plain, tmp_path / "o")
        assert "Exception" not in str(caught.value)
    episodes.unlink()
    with pytest.raises(TempolocError, match="cups has no episodes"):
        _read_lerobot(plain, tmp_path / "o")


def test_annotations_that_contradict_the_episodes(annotated: Path, tmp_path: Path) -> None:
    path = sorted(annotated.glob("data/*/*.parquet"))[0]
    table = pq.read_table(path)
    pq.write_table(table.slice(1), path)
    with pytest.raises(TempolocError, match=r"file-000.parquet: 22 rows of 23 of episode 0"):
        _read_lerobot(annotated, tmp_path / "o")
    pq.write_table(table, path)
    new = write_lerobot_subtasks(annotated, clips_of(), tmp_path / "new").output
    path = sorted(new.glob("data/*/*.parquet"))[0]
    table = pq.read_table(path)
    rows = [[{**r, "timestamp": 0.0} for r in cell] for cell in table[LANGUAGE].to_pylist()]
    pq.write_table(table.drop_columns([LANGUAGE]).append_column(LANGUAGE, pa.array(rows)), path)
    with pytest.raises(TempolocError, match="episode 0: two subtasks begin at the same frame"):
        _read_lerobot(new, tmp_path / "o")


def test_without_pyarrow_the_extra_is_named(plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(TempolocError, match=r"pyarrow.* is not installed, which .* needs: pip install '.*\[data\]'"):
        _read_lerobot(plain, tmp_path / "o")


def test_stages_for_sarm_stand_in_the_episodes_metadata(plain: Path, tmp_path: Path) -> None:
    task = Task("cups", ("grasp", "lift"), subtasks=(Subtask("get", end="lift"), Subtask("end")))
    new = write_lerobot_subtasks(plain, clips_of(), tmp_path / "new", sarm=True, tasks={"cups": task}).output
    rows = parquet(new / "meta/episodes/chunk-000/file-000.parquet").to_pylist()
    assert [row["sparse_subtask_start_frames"] for row in rows] == [[0, 12]] * 3
    assert [row["dense_subtask_names"] for row in rows] == [["grasp", "lift", REST]] * 3
    assert [row["dense_subtask_end_frames"] for row in rows] == [[4, 11, n - 1] for n in LENGTHS]
    assert rows[0]["dense_subtask_end_times"] == [0.5, 1.2, 2.3]
    shares = json.loads((new / "meta" / "temporal_proportions_sparse.json").read_text())
    assert shares == {"get": pytest.approx(sum(12 / n for n in LENGTHS) / 3), "end": pytest.approx(1 - shares["get"])}
    again = write_lerobot_subtasks(new, clips_of(0.3, 0.9), tmp_path / "again", sarm=True).output
    rows = parquet(again / "meta/episodes/chunk-000/file-000.parquet").to_pylist()
    assert rows[0]["sparse_subtask_names"] == ["task"]  # no subtasks are told, and the old stages are gone
    assert rows[0]["dense_subtask_start_frames"] == [0, 3, 9]
    ends = [replace(c, events=(Event("grasp", 0.5), Event("lift", c.duration))) for c in clips_of()]
    with pytest.raises(TempolocError, match=r"its subtasks begin at the frames \[0, 23\] of 23: they must increase"):
        write_lerobot_subtasks(plain, ends, tmp_path / "x", sarm=True, tasks={"cups": task})
    assert not (tmp_path / "x").exists()
