"""Settings of vLLM for a small machine without network, its cores shared by engine and tests; before it is imported."""

from __future__ import annotations

import os

for _name, _value in {
    "OMP_NUM_THREADS": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "TORCHDYNAMO_DISABLE": "1", "HF_HUB_OFFLINE": "1",
}.items():  # fmt: skip
    os.environ.setdefault(_name, _value)
