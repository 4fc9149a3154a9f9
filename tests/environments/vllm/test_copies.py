"""Copies of a model, each in a vLLM engine and a process of its own."""

from __future__ import annotations

from asking import check_nearly_all, requests, texts
from wide_models import qwen25

from tempoloc_nb.engines.copies import ParallelBackend
from tempoloc_nb.engines.make import make_engine


def test_two_copies_answer_as_one_does() -> None:
    asked = requests(count=4, trials=2)
    two = make_engine("vllm", qwen25(), data_parallel=2, title="untrained")
    assert isinstance(two, ParallelBackend)
    both = texts(two, asked)
    assert two.name == "vllm"
    two.close()
    one = make_engine("vllm", qwen25(), title="untrained")
    assert one.settings() == two.settings()
    check_nearly_all(both, texts(one, asked))
    assert len(both) == len(asked) == 4
    one.close()  # type: ignore[attr-defined]
