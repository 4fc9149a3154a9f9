"""Our files in cosmos-framework's own hands. Needs a checkout of it, tried with its release of 2026-08-21:

    git clone https://github.com/NVIDIA/cosmos-framework && export COSMOS_FRAMEWORK_SRC=$PWD/cosmos-framework

Its loader's module imports what a training needs (boto3, CUDA), so the functions that read a file are taken out of it.
"""

from __future__ import annotations

import ast
import gzip
import io
import json
import os
import random
import runpy
from pathlib import Path
from typing import Any

import pytest

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.formats import cosmos as cosmos_jsonl
from tempoloc_nb.formats.cosmos import export_cosmos

SOURCE = Path(os.environ.get("COSMOS_FRAMEWORK_SRC", "")) / "cosmos_framework"
pytestmark = pytest.mark.skipif(
    not os.environ.get("COSMOS_FRAMEWORK_SRC"),
    reason="COSMOS_FRAMEWORK_SRC names no checkout: git clone https://github.com/NVIDIA/cosmos-framework",
)


class Log:
    """Their log, which says what is left out."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def info(self, line: str, **options: Any) -> None:
        self.lines.append(line)

    warning = info


@pytest.fixture(scope="module")
def captions() -> dict[str, Any]:
    pytest.importorskip("pydantic")
    return runpy.run_path(str(SOURCE / "inference" / "structured_caption.py"))


@pytest.fixture(scope="module")
def loader(captions: dict[str, Any]) -> dict[str, Any]:
    folder = SOURCE / "data" / "generator" / "local_datasets"
    wanted = ("_load_sft_metadata_from_s3", "_select_caption", "get_aspect_ratio")
    found = [
        node
        for name in ("helper.py", "sft_dataset.py")
        for node in ast.parse((folder / name).read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name in wanted
    ]
    assert len(found) == len(wanted)
    space: dict[str, Any] = {"io": io, "json": json, "gzip": gzip, "os": os, "Path": Path, "random": random}
    space |= {"log": Log(), "CAPTION_TYPES": [], "CAPTION_TYPES_AND_WEIGHTS": {}}
    space |= {k: captions[k] for k in ("CAPTION_JSON_KEY", "caption_json_to_prompt")}
    exec(compile(ast.Module(found, []), "sft_dataset", "exec"), space)
    return space


def test_their_loader_takes_every_line(tmp_path: Path, loader: dict[str, Any], captions: dict[str, Any]) -> None:
    done = export_cosmos("sim", tmp_path / "t.jsonl", copy_videos=True)
    found = loader["_load_sft_metadata_from_s3"](None, str(done.output), 61)
    short = done.dropped["fewer than 61 frames"]
    assert len(found) == done.kept == len(load_benchmark("sim").with_videos()) - len(short)
    assert done.kept > len(short) > 0
    for record in found:
        assert Path(record["vision_path"]).is_file()
        (window,) = record["t2w_windows"]
        key, text, structured = loader["_select_caption"](window)
        assert (key, structured) == ("caption_json", True)
        assert text == json.dumps(window["caption_json"], ensure_ascii=False)
        model = captions["StructuredCaption"].model_validate(window["caption_json"])
        assert model.model_dump(exclude_none=True, mode="json") == window["caption_json"]


def test_their_loader_leaves_out_what_we_leave_out(
    tmp_path: Path, loader: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = export_cosmos("sim", tmp_path / "t.jsonl")
    kept = {json.loads(line)["uuid"] for line in ours.output.read_text().splitlines()}
    monkeypatch.setattr(cosmos_jsonl, "_FEWEST", 1)
    everything = export_cosmos("sim", tmp_path / "all.jsonl")
    theirs = {r["uuid"] for r in loader["_load_sft_metadata_from_s3"](None, str(everything.output), 61)}
    assert everything.kept == ours.kept + 2
    assert theirs == kept
