"""Tests against a real vLLM: `make test-vllm` runs them in an environment of their own. Nothing here is skipped
because vLLM is missing: then they fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from small_machine import SHARE

from tempoloc_nb.core.settings import data_dir
from tempoloc_nb.engines.vllm_offline import VLLMBackend, import_vllm

import_vllm()

TRAINED = data_dir() / "models" / "tempoloc-tiny"


@pytest.fixture(scope="session")
def trained() -> Path:
    """The trained model's folder."""
    if not (TRAINED / "model.safetensors").is_file():
        pytest.skip("data/models/tempoloc-tiny is not here: only the trained model's answers can be compared")
    return TRAINED


@pytest.fixture(scope="session")
def exact(trained: Path) -> Iterator[VLLMBackend]:
    """vLLM with the trained model, in fp32."""
    backend = VLLMBackend(trained, dtype="float32", options=SHARE)
    yield backend
    backend.close()


@pytest.fixture(scope="session")
def qwen25() -> Iterator[VLLMBackend]:
    """vLLM with an untrained Qwen2.5-VL."""
    from wide_models import qwen25 as folder

    backend = VLLMBackend(folder(), title="untrained", options=SHARE)
    yield backend
    backend.close()


@pytest.fixture(scope="session")
def qwen3() -> Iterator[VLLMBackend]:
    """vLLM with an untrained Qwen3-VL."""
    from wide_models import qwen3 as folder

    backend = VLLMBackend(folder(), title="untrained", options=SHARE)
    yield backend
    backend.close()
