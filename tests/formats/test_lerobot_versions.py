"""LeRobot datasets of every version that is in use, and where their files are: found, checked, never guessed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tempoloc_nb.clips.manifest import Clip, load_benchmark
from tempoloc_nb.clips.tasks import Event
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.formats.found import copy_of, plan_write, write_back
from tempoloc_nb.formats.lerobot import LeRobotInfo, parquet, read_episodes, read_info
from tempoloc_nb.formats.lerobot_convert import _read_lerobot, import_lerobot, write_lerobot_subtasks
from tempoloc_nb.formats.lerobot_rows import REST, read_subtasks
from tempoloc_nb.formats.recordings import Choice, find_recordings
from tempoloc_nb.inference.found import Found, FoundEvent
from tempoloc_nb.video.files import FrameSource, encode

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra data)")
pq = pytest.importorskip("pyarrow.parquet")
from lerobot_folders import CAMERA, FPS, small_dataset  # noqa: E402

LENGTHS = (12, 20, 9)
SHADES = [[10 + 60 * e + 3 * k for k in range(n)] for e, n in enumerate(LENGTHS)]
PICTURES = [[np.full((48, 64, 3), shade, np.uint8) for shade in row] for row in SHADES]
NAMES = [["open"] * (n // 2) + ["pour"] * (n - n // 2) for n in LENGTHS]


def edit_info(root: Path, **values: Any) -> LeRobotInfo:
    path = root / "meta" / "info.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))
    return read_info(root)


def edit_lines(path: Path, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
    rows = change([json.loads(line) for line in path.read_text().splitlines()])
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def forget(root: Path, *parts: str) -> Path:
    """Take columns of places out of the metadata of a version 3."""
    path = root / "meta/episodes/chunk-000/file-000.parquet"
    table = pq.read_table(path)
    pq.write_table(table.drop_columns([n for n in table.column_names if n.startswith(parts)]), path)
    return root


def contents(root: Path) -> dict[Path, bytes]:
    return {p.relative_to(root): p.read_bytes() for p in root.rglob("*") if p.is_file()}


@pytest.fixture(params=["v2.0", "v2.1", "v3.0", "v3.0 without places"])
def dataset(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    version, _, rest = request.param.partition(" ")
    root = small_dataset(tmp_path / "tea", PICTURES, NAMES, version=version, per_file=2, chunk=2)
    return forget(root, "data/", "videos/") if rest else root


@pytest.fixture
def older(tmp_path: Path) -> Path:
    return small_dataset(tmp_path / "tea", PICTURES, NAMES, version="v2.1", chunk=2)


def events(*times: float) -> tuple[Event, ...]:
    return tuple(Event(label, t) for label, t in zip(("open", "pour"), times, strict=True))


# --- every version is read and written in the same way ---


def test_the_recordings_show_the_frames_of_their_rows(dataset: Path) -> None:
    lines: list[str] = []
    found = [r for r in find_recordings([dataset], say=lines.append) if isinstance(r, FrameSource)]
    assert [r.name for r in found] == ["episode_000000", "episode_000001", "episode_000002"]
    for recording, shades in zip(found, SHADES, strict=True):
        assert recording.info().duration == len(shades) / FPS
        seen = [image.mean() for image in recording.images(range(len(shades)))]
        assert np.abs(np.subtract(seen, shades)).max() < 2
    assert lines == [f"tea: 3 of 3 episodes, 10 frames a second, camera {CAMERA}"]
    (one,) = find_recordings([dataset], Choice(("1",)))
    assert isinstance(one, FrameSource)
    assert one.name == "episode_000001"


def test_the_import_has_the_subtasks_and_can_be_read(dataset: Path, tmp_path: Path) -> None:
    _read_lerobot(dataset, tmp_path / "clips")
    clips = load_benchmark(tmp_path / "clips").clips
    assert [c.events for c in clips] == [events((n // 2) / FPS, n / FPS) for n in LENGTHS]
    assert [c.extra["instruction"] for c in clips] == ["stack"] * 3


def test_a_copy_of_the_same_version_gets_the_subtasks(dataset: Path, tmp_path: Path) -> None:
    before, source = contents(dataset), read_info(dataset)
    clips = [Clip(f"tea/{e}", "tea", events(0.32, 0.81), duration=n / FPS) for e, n in enumerate(LENGTHS)]
    done = write_lerobot_subtasks(dataset, clips, tmp_path / "new")
    assert contents(dataset) == before
    info = read_info(done.output)
    assert info.raw["codebase_version"] == source.raw["codebase_version"]
    spans = [(0, "open"), (3, "pour"), (8, REST)]
    assert read_subtasks(info, read_episodes(info)) == {0: spans, 1: spans, 2: spans}
    again = write_lerobot_subtasks(done.output, clips, tmp_path / "newer")
    assert again.notes == done.notes == (f"9 subtasks ({'index' if info.version == 2 else 'language'})",)
    for episode in read_episodes(source):
        new = parquet(done.output / episode.data.relative_to(dataset))
        old = parquet(episode.data)
        assert new.select([n for n in old.column_names if n != "subtask_index"]).equals(old.drop(["subtask_index"]))


def test_find_writes_back_into_every_version(dataset: Path) -> None:
    videos = [r for r in find_recordings([dataset]) if isinstance(r, FrameSource)]
    found = [
        Found(v, (FoundEvent("open", 0.3, "ok"), FoundEvent("pour", 0.7, "ok")), "m", v.info().duration, 8.0)
        for v in videos
    ]
    written, left = write_back(found, plan_write(videos, ("open", "pour")))
    assert (len(written), left) == (1, [])
    info = read_info(copy_of(dataset))
    assert read_subtasks(info, read_episodes(info))[2] == [(0, "open"), (3, "pour"), (7, REST)]


# --- what is particular to version 2 ---


def test_files_of_version_2_are_in_folders_of_a_chunk(older: Path) -> None:
    found = read_episodes(read_info(older), CAMERA)
    assert [e.data.relative_to(older).as_posix() for e in found] == [
        "data/chunk-000/episode_000000.parquet", "data/chunk-000/episode_000001.parquet",
        "data/chunk-001/episode_000002.parquet",
    ]  # fmt: skip
    assert found[2].video == older / f"videos/chunk-001/{CAMERA}/episode_000002.mp4"


def test_a_part_of_version_2_keeps_its_numbers(older: Path, tmp_path: Path) -> None:
    edit_lines(older / "meta/episodes.jsonl", lambda rows: [rows[2] | {"tasks": "pour tea"}, rows[0] | {"tasks": [3]}])
    clips = _read_lerobot(older, tmp_path / "clips")
    assert [(c.name, c.extra["instruction"]) for c in clips] == [("episode_000000", ""), ("episode_000002", "pour tea")]
    both = [Clip(f"tea/{e}", "tea", events(0.3, 0.8)) for e in (0, 2)]
    with pytest.raises(TempolocError, match=r"tea: data/chunk-000/episode_000001.parquet has 20 rows, .* list 0"):
        write_lerobot_subtasks(older, both, tmp_path / "new")
    (older / "data/chunk-000/episode_000001.parquet").unlink()
    assert write_lerobot_subtasks(older, both, tmp_path / "new").kept == 2


def test_its_loader_finds_the_column_in_the_tables_description(older: Path, tmp_path: Path) -> None:
    said = {"info": {"features": {"timestamp": {"dtype": "float32", "_type": "Value"}, "gone": {}}}}
    for path in older.rglob("*.parquet"):
        pq.write_table(pq.read_table(path).replace_schema_metadata({"huggingface": json.dumps(said)}), path)
    clips = [Clip(f"tea/{e}", "tea", events(0.3, 0.8)) for e in range(3)]
    new = write_lerobot_subtasks(older, clips, tmp_path / "new").output
    metadata = parquet(new / "data/chunk-000/episode_000000.parquet").schema.metadata
    assert json.loads(metadata[b"huggingface"])["info"]["features"] == {
        "timestamp": {"dtype": "float32", "_type": "Value"}, "subtask_index": {"dtype": "int64", "_type": "Value"}
    }  # fmt: skip
    assert json.loads((new / "meta/info.json").read_text())["features"]["subtask_index"]["dtype"] == "int64"
    lines = (new / "meta/subtasks.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"subtask_index": i, "subtask": name} for i, name in enumerate(("open", "pour", REST))
    ]


def test_what_its_loader_cannot_read_is_not_written(older: Path, tmp_path: Path) -> None:
    clips = [Clip(f"tea/{e}", "tea", events(0.3, 0.8)) for e in range(3)]
    with pytest.raises(TempolocError, match=r"tea is of version v2.1, whose loader .*: write annotation index"):
        write_lerobot_subtasks(older, clips, tmp_path / "new", annotation="language")
    with pytest.raises(TempolocError, match=r"tea is of version v2.1, and SARM reads v3.0: leave --sarm out"):
        write_lerobot_subtasks(older, clips, tmp_path / "new", sarm=True)
    assert not (tmp_path / "new").exists()


def test_a_dataset_in_folders_that_may_not_be_written_to_is_copied(older: Path, tmp_path: Path) -> None:
    folders = [older, *(p for p in older.rglob("*") if p.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    clips = [Clip(f"tea/{e}", "tea", events(0.3, 0.8)) for e in range(3)]
    new = write_lerobot_subtasks(older, clips, tmp_path / "new").output
    assert all(p.stat().st_mode & 0o200 for p in new.rglob("*") if p.is_dir())
    for folder in folders:
        folder.chmod(0o755)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: [*rows, rows[0]], "episodes.jsonl lists episode 0 twice"),
        (lambda rows: [rows[0] | {"length": None}], r"episodes.jsonl, 0: length = null is not a whole number"),
        (lambda rows: [rows[0] | {"length": 11.5}], r"length = 11.5 is not a whole number|length = 11.5: "),
        (lambda rows: [rows[0] | {"length": -1}], r"length = -1: should be greater"),
        (lambda rows: [rows[0] | {"length": 0}], r"tea/episode_000000 has no frames: choose others with --episode"),
        (lambda rows: [{"length": 12}], r"episodes.jsonl, 0 lacks 'episode_index'"),
        (lambda rows: [rows[0] | {"episode_index": 7}], r"episode_000007.mp4: no such file|have no video"),
    ],
)
def test_metadata_that_cannot_be_right(older: Path, tmp_path: Path, change: Any, message: str) -> None:
    edit_lines(older / "meta/episodes.jsonl", change)
    for use in (lambda: find_recordings([older]), lambda: _read_lerobot(older, tmp_path / "o")):
        with pytest.raises(TempolocError, match=message):
            use()
    (older / "meta/episodes.jsonl").unlink()
    with pytest.raises(TempolocError, match=r"tea has no episodes: no meta/episodes.jsonl"):
        find_recordings([older])


def test_a_part_of_version_2_is_said_to_be_one(older: Path, tmp_path: Path) -> None:
    edit_lines(older / "meta/episodes.jsonl", lambda rows: rows[:1])
    said = list[str]()
    assert len(find_recordings([older], say=said.append)) == 1
    text = "its metadata list 1 of the 3 episodes that meta/info.json says; the others are not read"
    assert text in said[0]
    assert text in import_lerobot(older, tmp_path / "clips").notes


@pytest.mark.parametrize(("key", "told"), [("total_episodes", 2), ("total_frames", 7)])
def test_totals_of_other_episodes_are_refused(dataset: Path, tmp_path: Path, key: str, told: int) -> None:
    edit_info(dataset, **{key: told})
    for use in (lambda: find_recordings([dataset]), lambda: _read_lerobot(dataset, tmp_path / "o")):
        with pytest.raises(TempolocError, match=rf"lists \d+ {key[6:]}, meta/info.json says {told} \({key}\): "):
            use()
    edit_info(dataset, total_episodes=None, total_frames=None)
    assert len(find_recordings([dataset])) == len(LENGTHS)


def test_fewer_episodes_than_version_3_says_are_refused(tmp_path: Path) -> None:
    root = small_dataset(tmp_path / "tea", PICTURES, NAMES, version="v3.0")
    edit_info(root, total_episodes=4)
    with pytest.raises(TempolocError, match=r"tea/meta/episodes lists 3 episodes, meta/info.json says 4 \(total_epis"):
        find_recordings([root])


def test_lengths_that_went_through_pandas_are_whole(older: Path) -> None:
    edit_lines(older / "meta/episodes.jsonl", lambda rows: [row | {"length": float(row["length"])} for row in rows])
    assert [e.length for e in read_episodes(read_info(older))] == list(LENGTHS)


# --- where files are ---


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{place}/{video_key}/{episode_index}.mp4", "leads out of the dataset"),
        ("../{video_key}/{episode_index}.mp4", "leads out of the dataset"),
        ("videos/{video_key}/../../../{episode_index}.mp4", "leads out of the dataset"),
        ("{episode_index:99999999999d}", "is not LeRobot's"),
        ("{video_key.__class__}{episode_index}", "is not LeRobot's"),
        ("{video_key!r}{episode_index}", "is not LeRobot's"),
        ("videos/{video_key}/all.mp4", "is not LeRobot's"),
        ("{0}", "is not LeRobot's"),
        ("videos/{", "is not LeRobot's"),
        ("", "is not LeRobot's"),
        ("v\0{video_key}{episode_index}", "cannot be the path of a file"),
        ("{video_key}" * 300 + "{episode_index}", "cannot be the path of a file"),
    ],
)
def test_a_template_leads_to_a_file_of_the_dataset(tmp_path: Path, version: str, template: str, message: str) -> None:
    root = small_dataset(tmp_path / "tea", PICTURES, NAMES, version=version)
    shutil.copytree(root / "videos", tmp_path / "others")
    values = {k: template.replace("{place}", str(tmp_path)) for k in ("video_path", "data_path")}
    edit_info(root, video_path=values["video_path"])
    for use in (lambda: find_recordings([root]), lambda: _read_lerobot(root, tmp_path / "o")):
        with pytest.raises(TempolocError, match=message):
            use()
    if "{video_key" not in template:
        edit_info(root, data_path=values["data_path"])
        with pytest.raises(TempolocError, match=message):
            read_episodes(read_info(root))


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_a_link_does_not_lead_out_of_the_dataset(tmp_path: Path, version: str) -> None:
    root = small_dataset(tmp_path / "tea", PICTURES, NAMES, version=version)
    clips = [Clip(f"tea/{e}", "tea", events(0.3, 0.8)) for e in range(3)]
    (root / "videos").rename(root / "films")
    (root / "videos").symlink_to("films")
    assert len(find_recordings([root])) == 3  # it stays inside
    (root / "films").rename(tmp_path / "films")
    (root / "videos").unlink()
    (root / "videos").symlink_to(tmp_path / "films")
    for use in (
        lambda: find_recordings([root]), lambda: _read_lerobot(root, tmp_path / "o"),
        lambda: write_lerobot_subtasks(root, clips, tmp_path / "new"),
    ):  # fmt: skip
        with pytest.raises(TempolocError, match=rf"leads out of the dataset, to {tmp_path}/films/.*: put the file"):
            use()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["films", "tea"]


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_a_download_cache_keeps_its_files_beside_the_dataset(tmp_path: Path, version: str) -> None:
    root = small_dataset(tmp_path / "datasets--me--tea/snapshots/0a1b", PICTURES, NAMES, version=version)
    blobs = tmp_path / "datasets--me--tea/blobs"
    blobs.mkdir()
    for number, path in enumerate(p for p in root.rglob("*") if p.is_file()):
        path.rename(blobs / str(number))
        path.symlink_to(blobs / str(number))
    assert len(_read_lerobot(root, tmp_path / "clips", task="tea")) == 3
    clips = [Clip(f"tea/{e}", "tea", events(0.3, 0.8)) for e in range(3)]
    new = write_lerobot_subtasks(root, clips, tmp_path / "new").output
    assert not [p for p in new.rglob("*") if p.is_symlink()]


def test_a_template_names_the_camera_where_there_are_several(older: Path) -> None:
    features = json.loads((older / "meta/info.json").read_text())["features"]
    shutil.copytree(older / f"videos/chunk-000/{CAMERA}", older / "videos/chunk-000/any")
    path = "videos/chunk-000/any/episode_{episode_index:06d}.mp4"
    info = edit_info(older, video_path=path)
    assert read_episodes(info, CAMERA)[1].video == older / "videos/chunk-000/any/episode_000001.mp4"
    info = edit_info(older, video_path=path, features={**features, "observation.images.top": features[CAMERA]})
    with pytest.raises(TempolocError, match="which is not LeRobot's"):
        read_episodes(info, CAMERA)


def test_a_camera_that_was_not_downloaded_is_passed_over_and_said(older: Path) -> None:
    features = json.loads((older / "meta/info.json").read_text())["features"]
    edit_info(older, features={"observation.images.above": features[CAMERA], **features})
    lines: list[str] = []
    assert len(find_recordings([older], say=lines.append)) == 3
    assert lines[0].endswith(
        f"camera {CAMERA}; not observation.images.above, which has no videos here (--camera)"
    )
    with pytest.raises(TempolocError, match=r"3 of 3 episodes have no video \(.*above/episode_000000.mp4 and so on\)"):
        find_recordings([older], Choice(camera="above"))


# --- a version 3 that does not say where its episodes are ---


def test_its_files_say_it_in_other_words_for_their_numbers(tmp_path: Path) -> None:
    root = forget(small_dataset(tmp_path / "tea", PICTURES, NAMES), "data/", "videos/")
    edit_info(
        root, data_path="data/chunk-{episode_chunk:03d}/file-{episode_file:03d}.parquet",
        video_path="videos/{video_key}/chunk-{episode_chunk:03d}/file-{episode_file:03d}.mp4",
    )  # fmt: skip
    found = read_episodes(read_info(root), CAMERA)
    assert [e.start for e in found] == [0.0, 1.2, 3.2]
    assert {e.data.name for e in found} == {"file-000.parquet"}


def test_the_order_of_rows_is_that_of_the_video(tmp_path: Path) -> None:
    root = small_dataset(tmp_path / "tea", PICTURES, NAMES)
    path = root / "meta/episodes/chunk-000/file-000.parquet"
    table = forget_and_read(root).set_column(0, "episode_index", pa.array([5, 1, 3]))  # numbered otherwise
    pq.write_table(table, path)
    data = root / "data/chunk-000/file-000.parquet"
    rows = pq.read_table(data)
    numbers = pa.array([{0: 5, 1: 1, 2: 3}[e] for e in rows["episode_index"].to_pylist()])
    pq.write_table(rows.set_column(rows.column_names.index("episode_index"), "episode_index", numbers), data)
    found = read_episodes(read_info(root), CAMERA)
    assert [(e.index, e.start) for e in found] == [(1, 1.2), (3, 3.2), (5, 0.0)]


def forget_and_read(root: Path) -> Any:
    forget(root, "data/", "videos/")
    return pq.read_table(root / "meta/episodes/chunk-000/file-000.parquet")


def test_a_video_of_another_length_is_no_place_to_guess(tmp_path: Path) -> None:
    root = forget(small_dataset(tmp_path / "tea", PICTURES, NAMES, per_file=2), "data/", "videos/")
    encode(root / f"videos/{CAMERA}/chunk-000/file-001.mp4", PICTURES[2][:-1], FPS)
    with pytest.raises(TempolocError, match=r"does not say where .* file-001.mp4 has 8 frames .* 9 "):
        find_recordings([root])
    (root / f"videos/{CAMERA}/chunk-000/file-001.mp4").unlink()
    with pytest.raises(TempolocError, match=r"file-000.mp4 has 32 frames for their 41 rows"):
        find_recordings([root])  # the only video is not that of all
    shutil.rmtree(root / "data")
    with pytest.raises(TempolocError, match=r"tea: no file of data/.* has rows of episode 0"):
        find_recordings([root])


@pytest.mark.parametrize(("column", "values", "message"), [
    ("dataset_from_index", ["a", "b", "c"], 'dataset_from_index = "a" is not a whole number'),
    ("length", [1.5, 2.0, 3.0], "length = 1.5"),
    ("episode_index", ["0", "1", "2"], 'episode_index = "0" is not a whole number'),
])  # fmt: skip
def test_what_is_no_number_is_said(tmp_path: Path, column: str, values: list[Any], message: str) -> None:
    root = forget(small_dataset(tmp_path / "tea", PICTURES, NAMES), "data/", "videos/")
    set_column(root, column, values)
    with pytest.raises(TempolocError, match=message):
        find_recordings([root])


def test_rows_whose_episodes_are_no_numbers_say_no_place(tmp_path: Path) -> None:
    root = forget(small_dataset(tmp_path / "tea", PICTURES, NAMES), "data/", "videos/")
    path = root / "data/chunk-000/file-000.parquet"
    table = pq.read_table(path)
    for values in ([["0"]] * len(table), ["0"] * len(table), [{"a": 0}] * len(table)):
        at = table.column_names.index("episode_index")
        pq.write_table(table.set_column(at, "episode_index", pa.array(values)), path)
        with pytest.raises(TempolocError, match=r"has rows of episode 0|cannot read chunk-000/file-000.parquet"):
            find_recordings([root])


def test_one_missing_column_of_a_place_is_named(tmp_path: Path) -> None:
    root = forget(small_dataset(tmp_path / "tea", PICTURES, NAMES), "data/file_index")
    with pytest.raises(TempolocError, match="tea/meta/episodes lacks the column 'data/file_index'"):
        find_recordings([root])


# --- a video that is not that of its rows ---


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
@pytest.mark.parametrize(("count", "rate", "message"), [
    (8, FPS, r"tea/episode_000000: its 12 rows last 1.20 s, its video 0.80 s"),
    (24, 2 * FPS, r"episode_000000: \S+.mp4 has 20 frames a second, meta/info.json says 10"),
    (12, FPS / 2, r"episode_000000: \S+.mp4 has 5 frames a second, meta/info.json says 10"),
])  # fmt: skip
def test_another_rate_or_length_is_said(tmp_path: Path, version: str, count: int, rate: float, message: str) -> None:
    root = small_dataset(tmp_path / "tea", PICTURES[:1], version=version)
    (video,) = root.rglob("*.mp4")
    encode(video, [PICTURES[0][0]] * count, rate)
    for use in (lambda: find_recordings([root]), lambda: _read_lerobot(root, tmp_path / "o")):
        with pytest.raises(TempolocError, match=message):
            use()


def set_column(root: Path, name: str, values: list[Any]) -> None:
    path = root / "meta/episodes/chunk-000/file-000.parquet"
    table = pq.read_table(path)
    pq.write_table(table.set_column(table.column_names.index(name), name, pa.array(values)), path)


def test_a_part_of_a_video_is_that_of_one_episode(tmp_path: Path) -> None:
    root = small_dataset(tmp_path / "tea", PICTURES)
    set_column(root, f"videos/{CAMERA}/to_timestamp", [1.2, 3.4, 4.1])
    assert len(find_recordings([root])) == 3
    set_column(root, f"videos/{CAMERA}/to_timestamp", [1.2, 3.6, 4.1])
    with pytest.raises(TempolocError, match="tea/meta/episodes: episode 1 has 20 rows, but 24 frames of video"):
        find_recordings([root])
    set_column(root, f"videos/{CAMERA}/to_timestamp", [1.2, 3.2, 4.1])
    set_column(root, f"videos/{CAMERA}/from_timestamp", [0.0, 1.2, 3.1])
    with pytest.raises(TempolocError, match=r"the episodes 1 and 2 overlap in file-000.mp4"):
        find_recordings([root])


def test_an_episodes_own_video_has_its_frames_and_hardly_more(tmp_path: Path) -> None:
    root = small_dataset(tmp_path / "tea", PICTURES[:1], version="v2.1")
    (video,) = root.rglob("*.mp4")
    encode(video, [*PICTURES[0], *PICTURES[0][:2]], FPS)
    assert len(find_recordings([root])) == 1
    encode(video, [*PICTURES[0], *PICTURES[0][:3]], FPS)
    with pytest.raises(TempolocError, match="tea/episode_000000 has 12 rows, but its video 15 frames"):
        find_recordings([root])


def test_pictures_in_the_rows_are_one_clear_error(older: Path) -> None:
    features = json.loads((older / "meta/info.json").read_text())["features"]
    edit_info(older, features={**features, CAMERA: features[CAMERA] | {"dtype": "image"}})
    with pytest.raises(TempolocError, match="tea has no video: its pictures are in its Parquet files"):
        find_recordings([older])
