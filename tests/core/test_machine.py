"""The machine, told without torch."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.machine import (
    Gpu,
    cores,
    device_name,
    gpu_count,
    gpu_memory,
    gpus,
    held_signals,
    process_place,
    torch_device,
)

LISTED = """#!/bin/sh
for i in 0 1 2 3; do echo "GPU-${i}ab, 8192$i, NVIDIA H200, sort $i"; done
"""


@pytest.mark.parametrize(
    ("visible", "count"),
    [(None, 4), ("0,1", 2), ("3", 1), ("", 0), ("-1", 0), ("0,1,2,3,4,5", 4), ("GPU-2", 1), ("GPU-9", 0), ("MIG-x", 1)],
)
def test_gpus_are_counted_as_torch_sees_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visible: str | None, count: int
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(LISTED)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpu_count() == count
    if visible == "GPU-2":
        assert gpus() == (Gpu("NVIDIA H200, sort 2", 81922 * 2**20),)
    if visible is None:
        assert gpu_memory() == 81920 * 2**20


def test_without_a_driver_there_is_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (gpus(), gpu_count(), gpu_memory()) == ((), 0, None)
    assert cores() >= 1


def test_names_need_no_torch() -> None:
    code = "import sys; from tempoloc_nb.core.machine import device_name; print(device_name('cpu', 3)); "
    code += "sys.exit('torch' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == device_name("cpu", 3)
    assert said.startswith("3 × ")


def test_the_place_of_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "8")
    assert process_place() == (3, 8)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_until_the_block_is_done(number: signal.Signals) -> None:
    before, done = signal.getsignal(number), False
    with held_signals() as came:
        signal.raise_signal(number)
        done = True
    assert (came, done, signal.getsignal(number)) == ([number], True, before)


def test_a_device_that_is_not_there_is_said_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert [torch_device(name) for name in ("cpu", "cuda", "cuda:0")] == ["cpu", "cuda", "cuda:0"]
    with pytest.raises(TempolocError, match="no device cuda:1: torch sees 1 GPU here, and the CPU is --device cpu"):
        torch_device("cuda:1")
    with pytest.raises(TempolocError, match="unknown device 'gpu'"):
        torch_device("gpu")
