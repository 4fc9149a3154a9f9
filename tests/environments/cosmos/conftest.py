"""Tests against a real cosmos-rl: `make test-cosmos-rl` runs them in an environment of their own. Nothing here is
skipped because cosmos-rl is missing: then they fail."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import packed_models
from sft_data import make_dataset

from tempoloc_nb.sft.dataset import Sample


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Sample]]:
    """Four shipped clips of different lengths, the last one for validation."""
    folder = tmp_path_factory.mktemp("cosmos") / "set"
    return folder, make_dataset(folder, 4)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained Qwen2.5-VL with a processor and a tokenizer."""
    return packed_models.qwen25(tmp_path_factory.mktemp("qwen25"))
