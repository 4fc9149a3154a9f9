"""What the engine reads: each clip once, also where many wait, and prompts longer than one of its steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from asking import SHORT, ask, requests
from video_clips import write_clip

from tempoloc_nb.engines import vllm_offline
from tempoloc_nb.engines.protocol import Request
from tempoloc_nb.engines.vllm_offline import VLLMBackend, _VLLMEngine


@pytest.fixture
def backend(exact: VLLMBackend) -> VLLMBackend:
    """The trained model: its context holds prompts that are longer than a step of vLLM for CPUs by default."""
    return exact


def test_each_clip_is_read_once(backend: VLLMBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """More videos at once than a step of the engine has room for."""
    asked = [replace(r, clip=f"{r.clip}/{i}") for i in range(3) for r in requests(4, trials=4, fps=8)]
    core, prompts = backend.llm.llm_engine, dict[str, tuple[int, int]]()
    step = core.step

    def watched() -> Any:
        outputs = step()
        prompts.update({o.request_id: (len(o.prompt_token_ids), o.num_cached_tokens) for o in outputs if o.finished})
        return outputs

    monkeypatch.setattr(core, "step", watched)
    found = ask(backend, asked)
    assert {len(answers) for answers in found.values()} == {4}
    assert len(found) == len(asked) == 12
    assert sum(cached < tokens / 2 for tokens, cached in prompts.values()) == len(asked)
    assert len(prompts) == 48


def test_long_prompts_with_seeds(backend: VLLMBackend, tmp_path: Path) -> None:
    """vLLM for CPUs ends with "CPU Generator does not use offset" where it reads a prompt with a seed in parts."""
    long = write_clip(tmp_path / "long.mp4", 640, (128, 112), time_base=Fraction(1, 8), rate=8)
    (request,) = requests(1, trials=2, fps=8)
    (answers,) = ask(backend, [replace(request, video=long)], SHORT).values()
    assert [r.trial for r in answers] == [0, 1]
    assert answers[0].prompt_tokens > 4096


def test_a_rehearsal_draws_batches_of_every_size(backend: VLLMBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a GPU does before it is ready: a batch of each size, down to one, and nothing is left in the engine."""
    monkeypatch.setattr(vllm_offline, "_BATCHES", 7)
    core, ends = backend.llm.llm_engine, list[list[int]]()
    step = core.step

    def watched() -> Any:
        outputs = step()
        ends.append([len(o.outputs[0].token_ids) for o in outputs if o.finished])
        return outputs

    monkeypatch.setattr(core, "step", watched)
    backend._warm_up()
    assert [tokens for tokens in ends if tokens][-7:] == [[1], [2], [3], [4], [5], [6], [7]]
    assert not core.has_unfinished_requests()
    assert len(ask(backend, requests(1), SHORT)) == 1


def test_the_first_video_is_not_read_among_many(backend: VLLMBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """The threads start one after the other: what has been begun when the first, second, … clip enters the engine."""
    asked = [replace(r, clip=f"{r.clip}/{i}") for i in range(4) for r in requests(4)]
    begun, entered = list[str](), list[int]()
    add = _VLLMEngine.add

    def source() -> Iterator[Request]:
        for request in asked:
            begun.append(request.clip)
            yield request

    def watched(engine: _VLLMEngine, request: Request, *rest: Any) -> None:
        entered.append(len(begun))
        add(engine, request, *rest)

    monkeypatch.setattr(backend, "_threads", 8)
    monkeypatch.setattr(_VLLMEngine, "add", watched)
    found = dict((request.clip, answer) for request, answer in backend.stream(source(), SHORT))
    assert list(begun) == [request.clip for request in asked]
    assert len(found) == 16
    assert entered[:5] == [3, 6, 9, 12, 13]
