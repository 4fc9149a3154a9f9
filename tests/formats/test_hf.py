"""A dataset for the Hub: loaded back by `datasets`, with its videos, and what Croissant says of it."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tempoloc_nb.clips.manifest import Clip, write_manifest
from tempoloc_nb.clips.tasks import Event
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.formats.convert import export_dataset
from tests.helpers.video_clips import write_clip

datasets = pytest.importorskip("datasets", reason="datasets is not installed (extra data)")
EVENTS = (Event("grasp", 0.2), Event("lift", 0.5, 0.3, 0.5), Event("drop", absent=True))


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """Three clips in two splits, one of them counted at another rate, and one without its video."""
    for name in "abc":
        write_clip(tmp_path / f"{name}.mp4", 20, (64, 48))
    first = Clip("t/a", "t", EVENTS, "a.mp4", fps=30.0, duration=20 / 30, robot="panda")
    bare = replace(first, clip="t/c", video="c.mp4", split="test", events=(Event("grasp"),), in_order=False)
    slow = replace(first, clip="t/b", video="b.mp4", label_fps=60.0)
    write_manifest(tmp_path / "m.jsonl", [first, slow, bare, replace(first, clip="t/gone", video="gone.mp4")])
    return tmp_path / "m.jsonl"


def loaded(folder: Path, cache: Path) -> Any:
    return datasets.load_dataset(str(folder), cache_dir=str(cache)).cast_column("video", datasets.Video(decode=False))


def test_what_goes_out_is_loaded_with_its_videos(manifest: Path, tmp_path: Path) -> None:
    done = export_dataset(manifest, tmp_path / "cups", "hf", license="cc-by-4.0")
    assert "cups: 3 clips in train, test; 1 left out, without a video here (t/gone)" in str(done)
    found = loaded(tmp_path / "cups", tmp_path / "cache")
    assert {name: split.num_rows for name, split in found.items()} == {"train": 2, "test": 1}
    row, slow, bare = *found["train"], *found["test"]
    assert row["video"] == {"bytes": (tmp_path / "a.mp4").read_bytes(), "path": "a.mp4"}
    assert [tuple(e.values()) for e in row["events"]] == [
        ("grasp", 0.2, None, None, False), ("lift", 0.5, 0.3, 0.5, False), ("drop", None, None, None, True)
    ]  # fmt: skip
    assert [e["boundary"] for e in slow["events"]] == [0.4, 1.0, None]  # seconds of the video
    assert (bare["in_order"], bare["events"][0]["boundary"], bare["robot"]) == (False, None, "panda")
    one = datasets.Dataset.from_parquet(str(tmp_path / "cups/data/test.parquet"), cache_dir=str(tmp_path / "cache"))
    assert isinstance(one.features["video"], datasets.Video)
    card = (tmp_path / "cups" / "README.md").read_text()
    assert card.startswith("---\nlicense: cc-by-4.0\n")
    assert "3 clips of 1 tasks" in card


def test_croissant_names_every_file_and_column(manifest: Path, tmp_path: Path) -> None:
    export_dataset(manifest, tmp_path / "cups", "hf")
    about = json.loads((tmp_path / "cups" / "croissant.json").read_text())
    found = loaded(tmp_path / "cups", tmp_path / "cache")
    for file, records in zip(about["distribution"], about["recordSet"], strict=True):
        data = (tmp_path / "cups" / file["contentUrl"]).read_bytes()
        assert (file["sha256"], file["contentSize"]) == (sha256(data).hexdigest(), f"{len(data)} B")
        fields = {f["name"]: f for f in records["field"]}
        assert list(fields) == list(found[records["name"]].features)
        parts = [*(f for f in records["field"] if "source" in f), *fields["events"]["subField"]]
        assert {f["source"]["fileObject"]["@id"] for f in parts} == {file["@id"]}
        assert {f["source"]["extract"]["column"] for f in parts} == set(fields)
        assert [f["name"] for f in fields["events"]["subField"]] == [*found["train"][0]["events"][0]]
        assert (fields["events"]["repeated"], fields["video"]["dataType"]) == (True, "sc:VideoObject")
    said = {text for text in json.dumps(about["recordSet"]).split('"') if text in about["@context"]}
    assert said >= {"field", "source", "fileObject", "extract", "column", "subField", "dataType", "jsonPath"}


def test_what_cannot_go_out_writes_nothing(manifest: Path, tmp_path: Path) -> None:
    out = tmp_path / "cups"
    with pytest.raises(TempolocError, match="none of 4 clips has its video here"):
        export_dataset(manifest, out, "hf", video_root=tmp_path / "elsewhere")
    odd = write_clip(tmp_path / "a.mp4", 20, (64, 48))
    write_manifest(tmp_path / "odd.jsonl", [Clip("t/a", "t", EVENTS, odd.name, split="my split")])
    with pytest.raises(TempolocError, match="t/a: its split 'my split' has to be letters"):
        export_dataset(tmp_path / "odd.jsonl", out, "hf")
    assert not out.exists()
    export_dataset(manifest, out, "hf")
    with pytest.raises(TempolocError, match="cups"):
        export_dataset(manifest, out, "hf")
    assert export_dataset(manifest, out, "hf", force=True).kept == 3
