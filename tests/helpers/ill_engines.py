"""Faults to plant in an engine, for the doctor to find by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from tempoloc_nb.engines.protocol import Backend, Request
from tempoloc_nb.engines.qwen import Shown
from tempoloc_nb.models.ask import Sampling


class Changed:
    """An engine that is asked something else than its caller believes."""

    def __init__(self, engine: Any, change: Callable[[Request], Request]) -> None:
        self.engine, self.change = engine, change

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def stream(self, requests: Sequence[Request], sampling: Sampling) -> Iterator[Any]:
        return iter(self.engine.stream([self.change(r) for r in requests], sampling))


def half_rate(request: Request) -> Request:
    return replace(request, fps=request.fps / 2)


def free(request: Request) -> Request:
    return replace(request, constraint=None)


def later_stamps(request: Request) -> Request:
    return replace(request, view=replace(request.view, shift=0.5))


def backwards(shown: Shown) -> Shown:
    return replace(shown, images=shown.images[::-1].copy())


def blue_for_red(shown: Shown) -> Shown:
    return replace(shown, images=shown.images[..., ::-1].copy())


def without_metadata(shown: Shown) -> Shown:
    """A second a pair, which is Qwen2.5-VL's own, and 24 frames/s, which Qwen3-VL's processor believes."""
    n = len(shown.images)
    metadata = {"fps": 24.0, "frames_indices": list(range(n)), "total_num_frames": n, "duration": n / 24}
    return replace(shown, metadata=metadata, seconds_per_pair=1.0)


def plant(fault: Callable[..., Any], module: Any, backend: Any, patch: pytest.MonkeyPatch) -> Backend:
    """`backend` of `module` (engines.hf, engines.vllm_offline) with a fault of this file."""
    if fault in (half_rate, free, later_stamps):
        return Changed(backend, fault)
    if fault in (backwards, blue_for_red, without_metadata):
        show = module.show
        patch.setattr(module, "show", lambda *given: fault(show(*given)))
    else:
        patch.setattr(module, "row_seed", fault)
    made: Backend = backend
    return made


def one_seed(seed: int, clip: str, trial: int) -> int:
    return 7


def any_seed(seed: int, clip: str, trial: int, numbers: Iterator[int] = count()) -> int:  # noqa: B008
    return next(numbers)
