"""Copies of a model, each in a vLLM engine and a process of its own."""

from __future__ import annotations

import os
import signal

import psutil
from asking import SHORT, check_nearly_all, requests, texts
from small_machine import SHARE
from vllm_processes import engines
from wide_models import qwen25 as folder

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.settings import settings
from tempoloc_nb.engines.data_parallel import DataParallelBackend
from tempoloc_nb.engines.make import make_engine
from tempoloc_nb.engines.vllm_offline import VLLMBackend


def test_two_copies_answer_as_one_does_and_a_killed_one_leaves_no_engine(qwen25: VLLMBackend) -> None:
    """The other finishes its share; the dead one's clips are named, and its engine gives its memory back."""
    asked, before = requests(count=4, trials=2), engines(os.getpid())
    two = make_engine("vllm", folder(), data_parallel=2, title="untrained", options=SHARE)
    assert isinstance(two, DataParallelBackend)
    both = texts(two, asked)
    assert two.name == "vllm"
    assert qwen25.settings() | {"total_pixels": settings().pixels.total_pixels} == two.settings()
    check_nearly_all(both, texts(qwen25, asked))
    assert len(both) == len(asked) == 4
    first = two._workers[0].process.pid
    assert first
    orphans = engines(first)
    assert orphans, "a copy's engine is a process of its own"
    os.kill(first, signal.SIGKILL)
    found = {request.clip: answer for request, answer in two.stream(asked, SHORT)}
    failed = [str(answer) for answer in found.values() if isinstance(answer, TempolocError)]
    assert len(found) == 4
    assert len(failed) == 2
    assert all("was killed by signal 9; run the same command again" in text for text in failed)
    assert not psutil.wait_procs(orphans, timeout=30)[1]
    assert len(texts(two, asked)) == 4, "the next question finds new processes"
    two.close()
    assert set(engines(os.getpid())) == set(before)
