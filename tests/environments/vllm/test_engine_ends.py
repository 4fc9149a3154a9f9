"""An engine that is gone for good: what was answered stays, and the error says how to go on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from asking import run_backend
from small_machine import SHARE
from vllm_processes import engines
from wide_models import qwen25 as folder

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.clips.videos import find_videos
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.engines.vllm_offline import VLLMBackend, import_vllm
from tempoloc_nb.inference.requests import plan_requests
from tempoloc_nb.models.ask import AskConfig, Sampling
from tempoloc_nb.video.view import View


def test_a_killed_engine(tmp_path: Path) -> None:
    sim = load_benchmark("sim").head(1)
    videos = find_videos(sim)
    four = plan_requests(sim, videos, AskConfig(prompt="tiny", fps=4, view=View("pair"), trials=4))[:4]
    asked = [replace(r, clip=f"{r.clip}-{i}") for i in range(20) for r in four]
    before = engines(os.getpid())
    backend = VLLMBackend(folder(), options=SHARE)
    stream = backend.stream(asked, Sampling(temperature=1.0, max_new_tokens=400))
    next(stream)
    (own,) = [p for p in engines(os.getpid()) if p not in before]
    own.kill()
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(300)  # rather than wait for ever
    try:
        with pytest.raises(TempolocError, match=r"engine has ended.*run the same command again"):
            list(stream)
    finally:
        signal.alarm(0)
    backend.close()
    again = VLLMBackend(folder(), options=SHARE)
    benchmark = replace(sim, clips=tuple(c for c in sim.clips if c.clip == four[0].clip))
    done = run_backend(again, benchmark, tmp_path / "out.jsonl", fps=4, view=View("pair"), prompt="tiny")
    assert done.written == 1
    again.close()


def test_an_engine_ends_with_a_killed_parent() -> None:
    """As where the system killed it for memory: the GPU would stay taken. The output ends once all are gone."""
    code = (
        "import os, signal\nfrom small_machine import SHARE\nfrom wide_models import qwen25\n"
        "from vllm_processes import engines\n"
        "from tempoloc_nb.engines.vllm_offline import VLLMBackend\n"
        "if __name__ == '__main__':\n    backend = VLLMBackend(qwen25(), options=SHARE)\n"
        "    print(*(p.pid for p in engines(os.getpid())), flush=True)\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    helpers = os.pathsep.join([str(Path(__file__).parents[2] / "helpers"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": helpers}
    told = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment, timeout=300
    )
    assert told.returncode == -signal.SIGKILL
    assert told.stdout.strip().isdigit(), "an engine is a process of its own"


def test_too_little_memory_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    """The cause stands in what the engine's process writes; nothing of that reaches the terminal."""
    with pytest.raises(TempolocError, match=r"vLLM cannot load it: .*memory.*shorten max_model_len") as found:
        VLLMBackend(folder(), options={"num_gpu_blocks_override": 1})
    assert "\n" not in str(found.value)
    assert "Traceback" not in "".join(capfd.readouterr())


def test_kernels_are_kept_in_one_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Under vLLM's own folder of what it keeps, or where the user wants them."""
    monkeypatch.delenv("TRITON_CACHE_DIR")
    monkeypatch.setenv("VLLM_CACHE_ROOT", str(tmp_path))
    import_vllm()
    assert Path(os.environ["TRITON_CACHE_DIR"]).parent == tmp_path
    monkeypatch.setenv("TRITON_CACHE_DIR", "elsewhere")
    import_vllm()
    assert os.environ["TRITON_CACHE_DIR"] == "elsewhere"
