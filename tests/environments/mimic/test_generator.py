"""Isaac Lab Mimic's own generator on robosuite: early boundaries ruin what true ones make."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.lab.generate.boundaries import ERRORS, with_error
from tempoloc_nb.lab.generate.scenes import Scene
from tempoloc_nb.lab.generate.sources import Source, read_sources
from tempoloc_nb.lab.generate.trials import Setting, run_trial, run_trials

TASK = "pick-place"


@pytest.fixture(scope="module")
def sources(folder: Path) -> tuple[Source, ...]:
    return read_sources(folder, TASK)


@pytest.fixture(scope="module")
def scene() -> Scene:
    return Scene(TASK)


def try_it(scene: Scene, sources: tuple[Source, ...], kind: str, layout: int) -> bool:
    row = run_trial(scene, sources, with_error(kind, sources, layout), offset=(0, 0), layout=layout, setting=Setting())
    return bool(row["success"])


def test_early_boundaries_ruin_what_true_ones_generate(scene: Scene, sources: tuple[Source, ...]) -> None:
    true = sum(try_it(scene, sources, "shift:0", k) for k in range(6))
    early = sum(try_it(scene, sources, "shift:-0.5", k) for k in range(6))
    assert true >= 5
    assert true - early >= 3


def test_a_trial_is_the_same_again_and_not_run_when_known(scene: Scene, sources: tuple[Source, ...]) -> None:
    times = [s.boundaries for s in sources]
    first, again = (
        run_trial(scene, sources, times, offset=(10, 20), layout=7, setting=Setting()) for _ in range(2)
    )  # fmt: skip
    assert first == again
    settled = first["source"], tuple(first["ends"])
    taken = run_trial(
        scene, sources, times, offset=(10, 20), layout=7, setting=Setting(), known={settled: not first["success"]}
    )
    assert taken == first | {"success": not first["success"]}


def test_without_sources_nothing_is_generated(scene: Scene, sources: tuple[Source, ...]) -> None:
    row = run_trial(scene, sources, [None] * len(sources), offset=(0, 0), layout=7, setting=Setting())
    assert (row["success"], row["source"]) == (False, None)


def test_an_interrupted_run_goes_on(folder: Path, sources: tuple[Source, ...], tmp_path: Path) -> None:
    out, found = tmp_path / "trials.jsonl", {TASK: {"truth": [s.boundaries for s in sources]}}
    options = {"errors": ERRORS[:1], "trials": 2, "offsets": ((0, 0),), "workers": 1}
    whole = run_trials(folder, out, found, **options)  # type: ignore[arg-type]
    assert [(o.boundaries, o.tried) for o in whole] == [("shift:-0.1", 2), ("truth", 2)]
    lines = out.read_text().splitlines(keepends=True)
    out.write_text("".join(lines[:2]) + lines[2][:30])
    assert run_trials(folder, out, found, **options) == whole  # type: ignore[arg-type]
    assert sorted(out.read_text().splitlines(keepends=True)) == sorted(lines)


def test_what_is_no_folder_of_sources_is_named(folder: Path, sources: tuple[Source, ...]) -> None:
    with pytest.raises(TempolocError, match="no demonstrations of square"):
        read_sources(folder, "square")
    with pytest.raises(TempolocError, match="no folder that tempoloc simulate made"):
        read_sources(folder / "hdf5", TASK)
    with pytest.raises(TempolocError, match="door"):
        read_sources(folder, "door")
    short = replace(sources[0], actions=sources[0].actions[:12])
    with pytest.raises(TempolocError, match="too short"):
        run_trial(Scene(TASK), [short], [short.boundaries], offset=(10, 20), layout=1, setting=Setting())
