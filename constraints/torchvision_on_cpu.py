"""Lets torchvision be imported beside a CPU-only torch, where PyPI has it only linked against CUDA.

`make env-vllm` puts this file and a .pth that imports it into site-packages. torchvision's compiled part cannot load
there, and its Python part then stops because two operators were never declared. vLLM resizes with torchvision and never
calls them, so they are declared, at the moment when somebody imports torchvision: in vLLM's own processes as well,
which is why `tempoloc_nb.core.optional`, which does the same, is not enough.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class DeclareOperators(MetaPathFinder):
    """Finds nothing, but declares the operators before the real finders are asked for torchvision."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "torchvision":
            sys.meta_path.remove(self)
            import torch

            library = torch.library.Library("torchvision", "FRAGMENT")
            for operator in ("nms", "qnms"):
                library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            torch.operators_of_torchvision = library  # they are gone when the library is collected
        return None


sys.meta_path.insert(0, DeclareOperators())
