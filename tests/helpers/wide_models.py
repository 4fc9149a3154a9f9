"""The untrained models of `tiny_models` with 32 values a head: vLLM's attention on a CPU has no kernel for 16."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from tiny_models import SMALL, louder
from tiny_models import qwen3 as narrow_qwen3

from tempoloc_nb.core.optional import import_transformers
from tempoloc_nb.lab.tiny.architecture import build_tiny


def _save(model: Any, source: Path, out: Path) -> Path:
    """`model`, made louder, with everything else of the folder `source`."""
    shutil.copytree(source, out, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.safetensors"))
    louder(model).save_pretrained(out)
    return out


@cache
def qwen25() -> Path:
    """A small Qwen2.5-VL folder, one a process."""
    quiet = build_tiny(mkdtemp(prefix="tempoloc-qwen25-"), replace(SMALL, heads=2, kv_heads=1), seed=1)
    model = import_transformers().AutoModelForImageTextToText.from_pretrained(quiet)
    return _save(model, quiet, Path(mkdtemp(prefix="tempoloc-qwen25-")))


@cache
def qwen3() -> Path:
    """A small Qwen3-VL folder, one a process."""
    transformers = import_transformers()
    import torch

    config = transformers.AutoConfig.from_pretrained(narrow_qwen3())
    text = config.text_config
    text.head_dim, text.num_attention_heads, text.num_key_value_heads = 32, 2, 1
    text.rope_parameters = {**text.rope_parameters, "mrope_section": [8, 4, 4]}
    torch.manual_seed(2)
    model = transformers.Qwen3VLForConditionalGeneration(config)
    model.generation_config.eos_token_id = text.eos_token_id
    return _save(model, narrow_qwen3(), Path(mkdtemp(prefix="tempoloc-qwen3-")))
