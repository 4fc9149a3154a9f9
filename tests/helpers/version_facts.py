"""What one release of transformers makes of a clip; run as a program, it makes the models and writes that of its own.

python version_facts.py OUT
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
from asking import requests
from replay import record
from tiny_models import qwen3, qwen25

from tempoloc_nb.core.optional import import_transformers
from tempoloc_nb.engines.decoding import _prefill
from tempoloc_nb.engines.hf import HFBackend, encode_request
from tempoloc_nb.lab.tiny.architecture import save_processor
from tempoloc_nb.models.ask import Sampling

GREEDY = Sampling(temperature=0.0, max_new_tokens=12)
FAMILIES = ("qwen25", "qwen3")


def measure(backend: HFBackend) -> dict[str, Any]:
    """Arrays of the first shipped clip at 8 fps: ids, positions (ours and the model's own), pixels, logits, tokens."""
    (request,) = requests(1, fps=8)
    ours, stock = (encode_request(request, backend.net, backend.processor, stock=s) for s in (False, True))
    import torch

    with torch.inference_mode():
        logits = _prefill(backend.net, [ours], [0], GREEDY).logits[0]
    _, tokens = record(backend, [request], GREEDY)
    return {
        "version": import_transformers().__version__, "ids": ours.ids, "positions": ours.positions,
        "stock": stock.positions, "pixels": ours.pixels.numpy(), "grid": ours.grid.numpy(), "logits": logits.numpy(),
        "tokens": tokens[request.clip, 0],
    }  # fmt: skip


def main(out: Path) -> None:
    """Models in folders that 4.57 loads as well, and the facts of each."""
    for name, made in zip(FAMILIES, (qwen25, qwen3), strict=True):
        folder = Path(copytree(made(), out / name))
        save_processor(import_transformers().AutoProcessor.from_pretrained(folder), folder)
        config = json.loads((folder / "config.json").read_text())
        rope = config["text_config"]["rope_parameters"]
        config["text_config"] |= {"rope_scaling": rope, "rope_theta": rope["rope_theta"]}  # 4.57's names
        (folder / "config.json").write_text(json.dumps(config))
        np.savez(out / f"{name}.npz", **measure(HFBackend(folder, device="cpu")))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
