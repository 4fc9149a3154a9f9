"""Shared fixtures: a small checkout-like folder to run studies in."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tempoloc_nb.core import settings as settings_module

ROOT = Path(__file__).resolve().parent.parent

# A busy machine may pause; and a test that fails should fail for a change: TEMPOLOC_EXPLORE=1 draws new examples.
# The environments of other suites have no hypothesis.
if find_spec("hypothesis"):
    import hypothesis

    hypothesis.settings.register_profile(
        "tempoloc", deadline=None, derandomize="TEMPOLOC_EXPLORE" not in os.environ,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )  # fmt: skip
    hypothesis.settings.load_profile("tempoloc")

# A shell that runs the tests in the background has them ignore Ctrl-C, and every process that they start would, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty project: the repository's settings.ini and tasks, no studies, its own runs and results."""
    shutil.copy(ROOT / "settings.ini", tmp_path)
    shutil.copytree(ROOT / "data" / "tasks", tmp_path / "data" / "tasks")
    shutil.copytree(ROOT / "data" / "benchmarks" / "recipe", tmp_path / "data" / "benchmarks" / "recipe")
    (tmp_path / "nbs" / "studies").mkdir(parents=True)
    monkeypatch.setenv("TEMPOLOC_SETTINGS", str(tmp_path / "settings.ini"))
    monkeypatch.chdir(tmp_path)
    settings_module._cached.cache_clear()
    yield tmp_path
    settings_module._cached.cache_clear()


@pytest.fixture
def write_study(project: Path) -> Callable[..., Path]:
    """Writes a study notebook from code cells; the first is tagged `parameters` unless told otherwise."""

    def write(name: str, *cells: str, tags: tuple[str, ...] = ("parameters",)) -> Path:
        made: list[dict[str, Any]] = [
            {
                "cell_type": "code",
                "id": f"cell{i}",
                "metadata": {"tags": list(tags)} if i == 0 and tags else {},
                "source": source,
                "outputs": [],
                "execution_count": None,
            }
            for i, source in enumerate(cells)
        ]
        kernel = {"kernelspec": {"name": "python3", "display_name": "python3", "language": "python"}}
        path = project / "nbs" / "studies" / f"{name}.ipynb"
        path.write_text(json.dumps({"cells": made, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}))
        return path

    return write
