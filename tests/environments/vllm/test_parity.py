"""transformers and vLLM, greedy, fp32, the shipped clips, the same pixels: the same prompts and the same answers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.clips.videos import find_videos
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.engines.hf import HFBackend
from tempoloc_nb.engines.protocol import Backend, Request, Response
from tempoloc_nb.engines.vllm_offline import VLLMBackend
from tempoloc_nb.inference.requests import plan_requests
from tempoloc_nb.models.ask import AskConfig, Sampling
from tempoloc_nb.scoring.answers import parse_answer
from tempoloc_nb.video.view import View

FPS = 8.0
GREEDY = Sampling(temperature=0.0, max_new_tokens=400)


def ask(backend: Backend, asked: list[Request]) -> dict[str, Response]:
    found: dict[str, Response] = {}
    for request, answer in backend.stream(asked, GREEDY):
        assert not isinstance(answer, TempolocError), answer
        found[request.clip] = answer[0]
    return found


def test_sixty_clips(trained: Path, exact: VLLMBackend, capsys: pytest.CaptureFixture[str]) -> None:
    torch.set_num_threads(1)
    sim = load_benchmark("sim")
    asked = plan_requests(sim, find_videos(sim), AskConfig(prompt="tiny", fps=FPS, view=View("pair"), trials=1))
    assert len(asked) == 35
    theirs = ask(HFBackend(trained, device="cpu", dtype="float32"), asked)
    ours = ask(exact, asked)
    same, worst = 0, 0.0
    for request in asked:
        a, b = theirs[request.clip], ours[request.clip]
        assert (a.prompt_tokens, a.vision_tokens, a.effective_fps) == (
            b.prompt_tokens, b.vision_tokens, b.effective_fps
        ), request.clip  # fmt: skip
        same += a.text == b.text
        events = [parse_answer(response.text, request.labels).events for response in (a, b)]
        for one, two in zip(*events, strict=True):
            assert (one.start is None) == (two.start is None), request.clip
            if one.start is not None and two.start is not None:
                worst = max(worst, abs(one.start - two.start))
    with capsys.disabled():
        print(f"\n{same} of {len(asked)} answers identical, no boundary further than {worst:.3f} s apart")
    assert same >= 0.95 * len(asked)
    assert worst <= 2 / FPS + 1e-6
