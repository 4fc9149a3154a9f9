"""A CPU in a GPU's place, for cosmos-rl's training process: what it asks of CUDA is done by the processor.

Python imports this file by itself where its folder is in PYTHONPATH. Devices named cuda become cpu, NCCL becomes gloo,
streams and events do nothing. What is computed is cosmos-rl's own; its speed and its memory say nothing about a GPU.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any


def on_cpu(x: Any, number: bool = False) -> Any:
    """A device as the processor, where it is a GPU; with `number`, numbers are GPUs as well."""
    import torch

    named = isinstance(x, str) and x.startswith("cuda")
    device = isinstance(x, torch.device) and x.type == "cuda"
    return "cpu" if named or device or (number and isinstance(x, int) and not isinstance(x, bool)) else x


class Nothing:
    """A stream or an event that does nothing."""

    device, cuda_stream = "cpu", 0

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __getattr__(self, _: str) -> Any:
        return lambda *_, **__: 1.0


def replace_devices() -> None:
    """Have every function of torch, in every thread, take the processor for a GPU."""
    import threading

    from torch.overrides import TorchFunctionMode

    class OnCpu(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = getattr(func, "__name__", "")
            if name in ("cuda", "pin_memory"):
                return args[0]
            moves = name in ("to", "_parse_to")
            args = [x if name == "to" and not i else on_cpu(x, moves) for i, x in enumerate(args)]
            return func(*args, **{k: on_cpu(v) for k, v in (kwargs or {}).items()})

    run = threading.Thread.run

    def run_on_cpu(self: threading.Thread) -> None:
        with OnCpu():
            run(self)

    threading.Thread.run = run_on_cpu  # type: ignore[method-assign]
    OnCpu().__enter__()


def saying(value: Any) -> Any:
    """A function that says `value`, whatever it is asked; torch.compile's tables want one of its own for each name."""
    return lambda *_, **__: value


def replace_cuda() -> None:
    """Answer for one GPU of the newest generation that cosmos-rl asks about."""
    import torch

    size = 1 << 37
    gpu = SimpleNamespace(total_memory=size, name="CPU", major=9, minor=0)
    nothing = ("set_device", "synchronize", "empty_cache", "manual_seed", "manual_seed_all", "reset_peak_memory_stats")
    for name in nothing:
        setattr(torch.cuda, name, saying(None))
    for name in ("memory_allocated", "max_memory_allocated", "memory_reserved"):
        setattr(torch.cuda, name, saying(1 << 30))
    answers = {"current_device": 0, "device_count": 1, "get_device_capability": (9, 0), "mem_get_info": (size, size),
               "get_device_name": "CPU", "get_device_properties": gpu, "stream": nullcontext()}  # fmt: skip
    for name, value in answers.items():
        setattr(torch.cuda, name, saying(value))
    for name in ("Event", "Stream", "current_stream"):
        setattr(torch.cuda, name, type(name, (Nothing,), {}))
    autocast = torch.autocast
    torch.autocast = lambda device_type, *a, **k: autocast(on_cpu(device_type), *a, **k)  # type: ignore


def replace_groups() -> None:
    """Let processes talk through gloo."""
    import torch.distributed as dist
    from torch.distributed import device_mesh
    from torch.distributed.pipelining import stage

    start, mesh = dist.init_process_group, device_mesh.init_device_mesh
    dist.init_process_group = lambda *_, **k: start(**(k | {"backend": "gloo"}))
    dist.init_device_mesh = lambda kind, *a, **k: mesh("cpu", *a, **k)
    device_mesh.init_device_mesh = dist.init_device_mesh  # type: ignore[assignment]
    if not hasattr(stage, "_RootArgPlaceholder"):  # torch 2.13 dropped it; cosmos-rl 0.4.7 imports it, for pipelines
        stage._RootArgPlaceholder = type("_RootArgPlaceholder", (), {})


if os.environ.get("COSMOS_ROLE") == "Policy" and "LOCAL_RANK" in os.environ:
    replace_devices()
    replace_cuda()
    replace_groups()
