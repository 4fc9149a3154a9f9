"""Copies of a model, each in a vLLM engine and a process of its own."""

from __future__ import annotations

from wide_models import qwen25

from tempoloc_nb.clip_inputs import View
from tempoloc_nb.clip_videos import find_videos
from tempoloc_nb.engines import make_backend
from tempoloc_nb.parallel import ParallelBackend
from tempoloc_nb.prompts import load_prompt
from tempoloc_nb.requests import Request, Sampling, plan_requests
from tempoloc_nb.runner import Backend
from tempoloc_nb.settings import TempolocError
from tempoloc_nb.tasks import load_benchmark


def texts(backend: Backend, asked: list[Request]) -> dict[str, list[str]]:
    found = {}
    for request, answer in backend.stream(asked, Sampling(temperature=1.0, max_new_tokens=16)):
        assert not isinstance(answer, TempolocError), answer
        found[request.clip] = [r.text for r in answer]
    return found


def test_two_copies_answer_as_one_does() -> None:
    sim = load_benchmark("sim").head(1)
    asked = plan_requests(sim, find_videos(sim), 4, 2, View("pair"), load_prompt("tiny"))
    two = make_backend("vllm", qwen25(), data_parallel=2, title="untrained")
    assert isinstance(two, ParallelBackend)
    both = texts(two, asked)
    assert two.name == "vllm"
    two.close()
    one = make_backend("vllm", qwen25(), title="untrained")
    assert one.settings() == two.settings()
    assert texts(one, asked) == both
    assert len(both) == len(asked) == 4
    one.close()  # type: ignore[attr-defined]
