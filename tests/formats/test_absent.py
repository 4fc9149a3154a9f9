"""An event that is not in the video: each format writes it, or refuses in a line that names clip and event."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tempoloc_nb.clips.manifest import Clip, load_benchmark, read_manifest, write_manifest
from tempoloc_nb.clips.tasks import Event
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.formats.captions import event_actions
from tempoloc_nb.formats.convert import export_dataset, import_dataset
from tempoloc_nb.formats.corrections import proposals
from tempoloc_nb.formats.found import plan_write, write_back
from tempoloc_nb.formats.hdf5_write import write_signals
from tempoloc_nb.formats.lerobot import read_info
from tempoloc_nb.formats.lerobot_convert import write_lerobot_subtasks
from tempoloc_nb.formats.lerobot_rows import write_annotations
from tempoloc_nb.formats.recordings import find_recordings
from tempoloc_nb.inference.found import Found, FoundEvent
from tempoloc_nb.sft.build import BuildOptions, build_dataset, from_manifest
from tests.helpers.demo_files import image_file
from tests.helpers.lerobot_folders import small_dataset

REFUSED = "the event 'lift' is absent from its clip, and has no boundary: leave the clip out, or take the event out"
EVENTS = (Event("grasp", 0.4), Event("lift", absent=True), Event("place", 1.2))
FRAMES = [np.full((16, 16, 3), 5 * k, np.uint8) for k in range(20)]


def manifest(folder: Path) -> Path:
    """A clip with an absent event, beside one that has all of them; with videos."""
    sim = load_benchmark("sim")
    video = str(sim.clips[0].video_path(sim.root))
    folder.mkdir(exist_ok=True)
    (folder / "t.toml").write_text('key = "t"\nevents = ["grasp", "lift", "place"]\n')
    whole = (EVENTS[0], Event("lift", 0.8), EVENTS[2])
    clips = [Clip("t/0", "t", EVENTS, video), Clip("t/1", "t", whole, video)]
    write_manifest(folder / "manifest.jsonl", clips)
    return folder


def test_a_manifest_and_a_table_hold_it(tmp_path: Path) -> None:
    source = manifest(tmp_path / "t")
    assert load_benchmark(source).clips[0].events == EVENTS
    export_dataset(source, tmp_path / "t.csv", "csv")
    text = (tmp_path / "t.csv").read_text()
    assert "t/0,lift,absent,,manifest" in text
    (tmp_path / "t.csv").write_text(text.replace("t/1,lift,0.8,", "t/1,lift,absent,"))
    import_dataset(tmp_path / "t.csv", tmp_path / "new.jsonl", "csv", manifest=source, who="Ada")
    old, new = read_manifest(tmp_path / "new.jsonl")
    assert (old.events, new.events) == (EVENTS, EVENTS)
    assert [new.extra["corrections"][0]["changed"], "corrections" in old.extra] == [
        [{"label": "lift", "old": 0.8, "missing": True}], False,
    ]  # fmt: skip


def test_subtitles_and_captions_refuse_it(tmp_path: Path) -> None:
    source = manifest(tmp_path / "t")
    with pytest.raises(TempolocError, match=r"t/0: 'lift' is not in the video .*: export CSV"):
        export_dataset(source, tmp_path / "subtitles", "vtt")
    with pytest.raises(TempolocError, match=f"t/0: {REFUSED}"):
        export_dataset(source, tmp_path / "c.jsonl", "cosmos")
    with pytest.raises(TempolocError, match=f"t/0: {REFUSED}"):
        event_actions(load_benchmark(source).clips[0], 4.0, "start", 2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["t"]


def test_training_data_leaves_it_out_and_says_so(tmp_path: Path) -> None:
    source = from_manifest(manifest(tmp_path / "t"))
    with pytest.raises(TempolocError, match="t/0: 'lift' is absent from it, which a line of times cannot say"):
        build_dataset(source, tmp_path / "out")
    built = build_dataset(source, tmp_path / "out", BuildOptions(drop=True, split="train=1"))
    assert built.summary["kept"] == 1
    assert [*built.summary["dropped"]["absent event"]] == ["t/0"]


def test_lerobot_refuses_it(tmp_path: Path) -> None:
    root = small_dataset(tmp_path / "set", [FRAMES])
    clip = Clip("set/0", "set", EVENTS, duration=2.0, extra={"episode_index": 0})
    with pytest.raises(TempolocError, match=f"set/000: {REFUSED}"):
        write_lerobot_subtasks(root, [replace(clip, clip="set/000")], tmp_path / "out")
    with pytest.raises(TempolocError, match=f"set/0: {REFUSED}"):
        write_annotations(read_info(root), [clip])
    assert [p.name for p in tmp_path.iterdir()] == ["set"]


def test_hdf5_refuses_it(tmp_path: Path) -> None:
    path = image_file(tmp_path / "demos.hdf5", [FRAMES], signals=("grasp", "lift"))
    before = path.read_bytes()
    with pytest.raises(TempolocError, match=f"t/demo0: {REFUSED}"):
        write_signals(path, [Clip("t/demo0", "t", EVENTS, duration=1.4, extra={"demo": "demo_0"})], ("grasp", "lift"))
    assert path.read_bytes() == before


def test_find_writes_back_what_is_whole_and_says_what_is_not(tmp_path: Path) -> None:
    said = (FoundEvent("grasp", 0.4, "ok"), FoundEvent("lift", None, "absent"), FoundEvent("place", 0.9, "ok"))
    labels = [e.label for e in said]
    for path in (
        small_dataset(tmp_path / "set", [FRAMES]),
        image_file(tmp_path / "demos.hdf5", [FRAMES], signals=("grasp", "lift")),
    ):
        (recording,) = find_recordings([path])
        found = Found(recording, said, "m", 2.0, 8.0, ("…",))
        written, left = write_back([found], plan_write([recording], labels))
        assert written == []
        assert "lift" in " ".join(left)
        assert "not in the video" in " ".join(left) or "absent" in " ".join(left)


def test_a_proposal_tells_absent_from_unlabelled() -> None:
    (one, two) = proposals([Clip("t/0", "t", EVENTS), Clip("t/1", "t", tuple(Event(e.label) for e in EVENTS))])
    assert (one.boundaries, one.absent) == ((0.4, None, 1.2), ("lift",))
    assert (two.boundaries, two.absent) == ((None, None, None), ())
