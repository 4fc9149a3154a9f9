"""Settings of vLLM for a small machine without network, its cores shared by engine and tests; before it is imported."""

from __future__ import annotations

import os

from tempoloc_nb.core.machine import gpus

CPU = {
    "OMP_NUM_THREADS": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "TORCHDYNAMO_DISABLE": "1",
}  # fmt: skip
for _name, _value in {"HF_HUB_OFFLINE": "1", **({} if gpus() else CPU)}.items():
    os.environ.setdefault(_name, _value)
# Engines of several models are there at a time; on a GPU each would take nearly all of its memory.
SHARE = {"gpu_memory_utilization": 0.2} if gpus() else {}
