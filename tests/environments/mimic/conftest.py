"""The generator's tests simulate and never render."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ["MUJOCO_GL"] = "disable"
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four simulated demonstrations of pick-place."""
    from tempoloc_nb.lab.generate.sources import FAMILIES
    from tempoloc_nb.lab.sim.make import simulate_clips

    out = tmp_path_factory.mktemp("sources")
    simulate_clips(FAMILIES["pick-place"], 4, out, workers=1, render=False)
    return out
