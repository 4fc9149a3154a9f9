"""Prompts that are kept once, against transformers' own attention over a copy for each trial."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from asking import requests
from tiny_models import qwen3, qwen25

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.optional import import_transformers
from tempoloc_nb.engines import decoding
from tempoloc_nb.engines.decoding import Encoded, use_prefix_cache
from tempoloc_nb.engines.hf import HFBackend, encode_request
from tempoloc_nb.engines.qwen import use_batched_vision_attention
from tempoloc_nb.models.ask import Sampling
from tempoloc_nb.models.locate import load_model

transformers = import_transformers()
import torch  # noqa: E402

torch.set_num_threads(1)
GREEDY = Sampling(temperature=0.0, max_new_tokens=6)
ANSWERS = torch.tensor([[5, 300, 41, 77], [6, 301, 41, 12], [301, 5, 5, 90], [17, 18, 19, 20], [640, 3, 2, 1]])
ROWS = [0, 0, 0, 1, 1]


@pytest.fixture(scope="module", params=["qwen2.5", "qwen3"])
def folder(request: pytest.FixtureRequest) -> Path:
    return {"qwen2.5": qwen25, "qwen3": qwen3}[request.param]()


def encoded(backend: HFBackend) -> list[Encoded]:
    """Two clips whose prompts differ in length."""
    one, other = requests(2)
    asked = [one, replace(other, fps=2)]
    made = [encode_request(r, backend.net, backend.processor) for r in asked]
    assert len(made[0].ids) != len(made[1].ids)
    return made


def whole(model: Any, prompt: Encoded, answer: torch.Tensor) -> torch.Tensor:
    """(n + 1, vocabulary) logits after the prompt and after each token of its answer, all read at once."""
    ids = torch.cat([torch.from_numpy(prompt.ids), answer])[None]
    later = int(prompt.positions.max()) + 1 + torch.arange(len(answer))
    places = torch.cat([torch.from_numpy(prompt.positions), later.expand(3, -1)], dim=1)[:, None]
    made = model(
        input_ids=ids, attention_mask=torch.ones_like(ids), position_ids=places, use_cache=False,
        pixel_values_videos=prompt.pixels.to(model.dtype), video_grid_thw=prompt.grid, logits_to_keep=len(answer) + 1,
    )  # fmt: skip
    logits: torch.Tensor = made.logits[0].float()
    return logits


def stepped(model: Any, prompts: list[Encoded]) -> tuple[torch.Tensor, Any]:
    """(rows, n + 1, vocabulary) logits of the same, a token at a time after kept prompts; and what was kept."""
    state = decoding._prefill(model, prompts, ROWS, GREEDY)
    logits = [state.logits.float()]
    for token in ANSWERS.T:
        logits.append(decoding._step(model, state, token).float())
    return torch.stack(logits, dim=1), state


@pytest.mark.parametrize(("dtype", "off"), [("float32", 4e-5), ("bfloat16", 0.25)])
def test_logits_are_those_of_prompt_and_answer_read_at_once(folder: Path, dtype: str, off: float) -> None:
    backend = HFBackend(folder, device="cpu", dtype=dtype)
    plain, _, _ = load_model(folder, "cpu", dtype)
    use_batched_vision_attention(plain)
    assert plain.config.text_config._attn_implementation == "sdpa"
    prompts = encoded(backend)
    with torch.inference_mode():
        found, _ = stepped(backend.net, prompts)
        for row, answer, logits in zip(ROWS, ANSWERS, found, strict=True):
            wanted = whole(plain, prompts[row], answer)
            assert wanted.std() > 0.5
            assert (logits - wanted).abs().max() < off
    rows = [found[i] for i in range(len(ROWS))]
    assert all((a[-1] - b[-1]).abs().max() > 4 * off for a, b in pairwise(rows))  # a row read as another would show


def test_a_prompt_is_kept_once_and_without_padding(folder: Path) -> None:
    backend = HFBackend(folder, device="cpu")
    prompts = encoded(backend)
    with torch.inference_mode():
        _, state = stepped(backend.net, prompts)
    assert [p.trials for p in state.prefixes] == [3, 2]
    for kept, prompt in zip(state.prefixes, prompts, strict=True):
        assert {k.shape[1] for layer in kept.layers for k in layer} == {len(prompt.ids)}
    assert {layer.keys.shape[2] for layer in state.cache.layers} == {ANSWERS.shape[1]}


def test_outside_it_the_model_is_transformers_own(folder: Path) -> None:
    backend = HFBackend(folder, device="cpu")
    assert backend.net.config.text_config._attn_implementation == decoding._PREFIX_CACHE
    plain, _, _ = load_model(folder, "cpu", "float32")
    use_batched_vision_attention(plain)
    (prompt, _) = encoded(backend)
    with torch.inference_mode():
        ours, theirs = (whole(model, prompt, ANSWERS[0]) for model in (backend.net, plain))
    assert torch.equal(ours, theirs)


def test_a_sliding_window_is_refused() -> None:
    model, _, _ = load_model(qwen25(), "cpu", "float32")
    model.config.text_config.layer_types = ["full_attention", "sliding_attention"]
    with pytest.raises(TempolocError, match="layers of sliding_attention cannot be asked in transformers here"):
        use_prefix_cache(model)
