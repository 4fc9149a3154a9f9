"""A label means the same after every format of lines: only a newline ends a line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tempoloc_nb.clips.manifest import Clip, read_manifest, write_manifest
from tempoloc_nb.clips.tasks import Event, read_task
from tempoloc_nb.formats.convert import export_dataset, import_dataset, task_text
from tempoloc_nb.sft.build import BuildOptions, _read_response, build_dataset, from_manifest
from tempoloc_nb.sft.dataset import read_samples
from tempoloc_nb.video.files import encode

MARKS = "\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e\xa0\u3000\ufeff😀&<>\"'"


@pytest.mark.parametrize("mark", MARKS, ids=[f"{ord(m):x}" for m in MARKS])
def test_an_odd_label_comes_back(tmp_path: Path, mark: str) -> None:
    label, manifest = f"one{mark}two", tmp_path / "manifest.jsonl"
    encode(tmp_path / "a.mp4", np.zeros((80, 32, 32, 3), np.uint8), fps=20)
    write_manifest(manifest, [Clip("mug/a", "mug", (Event(label, 1.0), Event("end", 2.5)), "a.mp4", 20.0, duration=4)])
    for name, written in (("csv", "t.csv"), ("vtt", "subtitles"), ("cosmos", "c.jsonl")):
        export_dataset(manifest, tmp_path / written, name)
        given = {} if name == "cosmos" else {"manifest": manifest, "who": "me"}
        import_dataset(tmp_path / written, tmp_path / name / "manifest.jsonl", name, **given)
        (clip,) = read_manifest(tmp_path / name / "manifest.jsonl")
        assert clip.labels == (label, "end"), name
    options = BuildOptions(fps=4, stamping="later", split="train=1")
    build_dataset(from_manifest(str(manifest), None, set()), tmp_path / "built", options)
    assert read_samples(tmp_path / "built")[0].events[0].label == label
    (tmp_path / "mug.toml").write_text(task_text("mug", [label]), encoding="utf-8")
    assert read_task(tmp_path / "mug.toml").events == (label,)
    assert _read_response(f"Event 1: <1.0> <2.0> {label}")[0].label == label
