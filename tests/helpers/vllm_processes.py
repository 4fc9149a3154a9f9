"""vLLM's engines, which are processes of their own."""

from __future__ import annotations

import psutil


def engines(pid: int) -> list[psutil.Process]:
    """The engines that live below a process."""
    living = [p for p in psutil.Process(pid).children(recursive=True) if p.status() != psutil.STATUS_ZOMBIE]
    return [p for p in living if "EngineCore" in " ".join(p.cmdline())]
