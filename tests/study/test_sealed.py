"""The sealed scoring: seeds are drawn once and written down first, and nothing is scored twice unasked."""

from __future__ import annotations

import importlib.util
import json
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tempoloc_nb.sim.families import SEEDS, families

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "sealed.py"


@pytest.fixture
def sealed(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("sealed", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module.subprocess, "run", lambda *_, **__: None)
    monkeypatch.setattr(module, "answer", lambda *_: None)
    monkeypatch.setattr(module, "score", lambda *_: {"mre": 1.0})
    return module


def models(folder: Path, *weights: str) -> list[str]:
    for i, text in enumerate(weights):
        (folder / f"m{i}").mkdir(exist_ok=True)
        (folder / f"m{i}" / "model.safetensors").write_text(text)
    return [str(folder / f"m{i}") for i in range(len(weights))]


def lines(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_scored_once_and_again_only_if_asked(
    sealed: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, names = tmp_path / "log.jsonl", models(tmp_path, "a", "b")
    command = [*names, "--n", "3", "--log", str(log), "--out", str(tmp_path / "out")]
    assert sealed.main(command) == 0
    drawn, *scored = lines(log)
    assert [line["what"] for line in (drawn, *scored)] == ["drawn", "scored", "scored"]
    ours = max(family.first_seed for family in families())
    starts = sorted(drawn["seeds"].values())
    assert starts[0] > ours + SEEDS
    assert all(b - a >= SEEDS for a, b in pairwise(starts))
    assert len(starts) == 4
    assert sealed.main(command) == 1
    assert "--again" in capsys.readouterr().err
    assert len(lines(log)) == 3
    assert sealed.main([*command, "--again"]) == 0
    assert [line.get("again") for line in lines(log)] == [False, None, None, True, None, None]
    assert lines(log)[3]["seeds"] != drawn["seeds"]


def test_other_weights_do_not_get_the_seeds(
    sealed: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A scoring that was interrupted goes on with its own models alone."""
    log, names = tmp_path / "log.jsonl", models(tmp_path, "a", "b")
    command = [*names, "--log", str(log), "--out", str(tmp_path / "out")]
    hashes = {name: sealed.weights_hash(Path(name)) for name in names}
    line = sealed.seal(log, hashes, ["stack-three"], 100, False)
    models(tmp_path, "a", "c")
    assert sealed.main(command) == 1
    assert "other models" in capsys.readouterr().err
    models(tmp_path, "a", "b")
    assert sealed.seal(log, hashes, ["stack-three"], 100, False) == line
    sealed.note(log, {"what": "scored", "model": names[0]})
    assert sealed.main(command) == 0
    assert [line.get("model") for line in lines(log)] == [None, *names]
    assert sealed.main(["nowhere"]) == 1
    assert capsys.readouterr().err.startswith("nowhere is no model folder")
