"""A user's own HDF5 as sources: its signals and poses, its scene rebuilt, and what is said if that cannot be."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.lab.generate.sources import read_sources
from tempoloc_nb.lab.generate.trials import try_boundaries

TASK = "pick-place"


@pytest.fixture
def demos(folder: Path, tmp_path: Path) -> Path:
    """The simulated demonstrations as a file alone, with the one signal that a generator needs."""
    path = tmp_path / "demos.hdf5"
    shutil.copy(folder / "hdf5" / f"{TASK}.hdf5", path)
    with h5py.File(path, "a") as file:
        for demo in file["data"].values():
            rise = round(json.loads(demo.attrs["instants"])["grasp:Can"] * 20)
            demo["obs/datagen_info/subtask_term_signals/grasp"] = np.arange(len(demo["actions"])) >= rise
    return path


def test_a_file_gives_the_sources_that_its_folder_does(folder: Path, demos: Path, tmp_path: Path) -> None:
    for own, same in zip(read_sources(demos, TASK), read_sources(folder, TASK), strict=True):
        assert own.boundaries == pytest.approx(same.boundaries[:1], abs=0.026)
        steps = len(same.actions)
        for name in ("actions", "hand", "target"):
            np.testing.assert_allclose(getattr(own, name)[:steps], getattr(same, name), atol=2e-6)
        np.testing.assert_allclose(own.things["Can"][:steps], same.things["Can"], atol=1e-6)
    true, early = try_boundaries(
        demos, tmp_path / "t.jsonl", ["gripper", "shift:-0.5"], offsets=((0, 0),), trials=2, workers=1
    )
    assert (true.tried, early.tried, true.task) == (2, 2, TASK)
    assert true.succeeded >= 1


def test_what_cannot_be_rebuilt_is_one_line(demos: Path) -> None:
    with pytest.raises(TempolocError, match=r"demos\.hdf5 has demonstrations of pick-place, not of square"):
        read_sources(demos, "square")
    with h5py.File(demos, "a") as file:
        del file["data/demo_0/obs/datagen_info/subtask_term_signals/grasp"]
    with pytest.raises(TempolocError, match=r"demos\.hdf5: demo_0 has no termination signal"):
        read_sources(demos, TASK)
    with h5py.File(demos, "a") as file:
        for demo in file["data"].values():
            del demo["obs/datagen_info"]
    with pytest.raises(TempolocError, match="has no termination signals: tempoloc dataset export"):
        read_sources(demos, TASK)
    for told in ("{}", "no JSON", json.dumps({"env_name": "Coffee_D0", "env_kwargs": {"robots": ["Panda"]}})):
        with h5py.File(demos, "a") as file:
            file["data"].attrs["env_args"] = told
        with pytest.raises(TempolocError, match=r"in a scene that cannot be rebuilt here .*NutAssemblySquare and"):
            read_sources(demos, TASK)
