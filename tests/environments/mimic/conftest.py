"""The generator's tests simulate and never render."""

from __future__ import annotations

import os

os.environ["MUJOCO_GL"] = "disable"
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
