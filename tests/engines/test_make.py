"""Engines by name: options that are wrong, and a model of the list at the revision that the list names."""

from __future__ import annotations

import os
import subprocess
import sys
from inspect import signature
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from tiny_models import qwen25

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.engines.make import make_engine
from tempoloc_nb.engines.vllm_offline import VLLMBackend
from tempoloc_nb.models.locate import find_model

HUB = "nvidia/Cosmos-Reason1-7B"
ASK = f"""
from tempoloc_nb.engines.make import make_engine
print("revision", make_engine("hf", {HUB!r}, device="cpu").settings()["revision"])
"""


def test_a_hub_model_is_loaded_at_the_revision_of_the_list(tmp_path: Path) -> None:
    info = find_model(HUB)
    assert info is not None
    assert info.revision is not None
    kept = tmp_path / f"models--{HUB.replace('/', '--')}"
    copytree(qwen25(), kept / "snapshots" / info.revision)
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text("0" * 40)  # the hub has moved on: this snapshot is not here
    offline = {"HF_HUB_CACHE": str(tmp_path), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    said = subprocess.run(
        [sys.executable, "-c", ASK], env={**os.environ, **offline}, capture_output=True, text=True, check=False
    )
    assert said.stdout.splitlines()[-1:] == [f"revision {info.revision}"], said.stderr


def test_every_engine_that_loads_a_model_takes_its_revision() -> None:
    assert "revision" in signature(VLLMBackend).parameters


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("vlm", {}, r"unknown backend 'vlm': did you mean vllm\? choose one of"),
        ("hf", {"concurrency": 4}, "concurrency is an option of openai and ray, not of hf: leave it out"),
        ("vllm", {"batch": 4}, "batch is an option of hf, not of vllm"),
        ("hf", {"dtpye": "float32"}, r"unknown option of hf 'dtpye': did you mean dtype\?"),
        ("hf", {"servers": ["http://x"]}, "servers is an option of openai, not of hf"),
    ],
)
def test_what_an_engine_does_not_take_is_said_before_it_is_loaded(name: str, options: Any, said: str) -> None:
    with pytest.raises(TempolocError, match=said):
        make_engine(name, "no/model", **options)
