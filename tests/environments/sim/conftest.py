"""The simulator's tests render in this process: choose OpenGL before anything imports mujoco."""

from __future__ import annotations

import os

from tempoloc_nb.lab.sim.render import choose_gl

os.environ["MUJOCO_GL"] = choose_gl()
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
