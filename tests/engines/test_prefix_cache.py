"""Prompts that are kept once, against transformers' own attention over a copy for each trial."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from asking import requests
from tiny_models import qwen3, qwen25

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.clips.videos import find_videos
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.optional import import_transformers
from tempoloc_nb.engines import decoding, prefix_cache
from tempoloc_nb.engines.decoding import Encoded
from tempoloc_nb.engines.frame_attention import use_batched_vision_attention
from tempoloc_nb.engines.hf import HFBackend, encode_request
from tempoloc_nb.engines.make import make_engine
from tempoloc_nb.engines.prefix_cache import Prefix, use_prefix_cache
from tempoloc_nb.inference.requests import plan_requests
from tempoloc_nb.models.ask import Sampling
from tempoloc_nb.models.locate import ask_config, load_model

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
    assert isinstance(state.prompts, prefix_cache.SeparatePrompts)
    assert state.prompts.trials == [3, 2]
    for kept, prompt in zip(state.prompts.prefixes, prompts, strict=True):
        assert {k.shape[2] for layer in kept.layers for k in layer} == {len(prompt.ids)}
    assert {layer.keys.shape[2] for layer in state.cache.layers} == {ANSWERS.shape[1]}


def test_prompts_of_one_length_are_read_in_one_product_and_rows_end_one_by_one() -> None:
    dice, trials, lengths = torch.Generator().manual_seed(1), [1, 1, 1, 2, 2, 1], [9, 9, 9, 9, 9, 7]

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, 8, generator=dice)

    alone = [Prefix([(draw(1, 2, n), draw(1, 2, n))], t) for n, t in zip(lengths, trials, strict=True)]
    one_by_one = prefix_cache.SeparatePrompts([replace(p, layers=[*p.layers]) for p in alone])
    stacked = prefix_cache.stack(alone)
    assert [p.shape for p in stacked.prefixes] == [(3, 9), (2, 9), (1, 7)]
    for left in ([1, 1, 1, 2, 2, 1], [1, 0, 1, 1, 2, 1], [0, 1, 0, 1, 1], [1, 1]):
        one_by_one.keep(left)
        stacked.keep(left)
        assert stacked.trials == one_by_one.trials == [n for n in left if n]
        given = draw(sum(left), 6, 1), draw(sum(left), 2, 4), draw(sum(left), 2, 4), 0, 8**-0.5
        assert (stacked.attend(*given) - one_by_one.attend(*given)).abs().max() < 1e-5


def test_outside_it_the_model_is_transformers_own(folder: Path) -> None:
    backend = HFBackend(folder, device="cpu")
    assert backend.net.config.text_config._attn_implementation == prefix_cache._PREFIX_CACHE
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


# --- all prompts at once, with plain torch in the place of flash-attention ---


def flash(
    query: Any, key: Any, value: Any, queries: Any, keys: Any, max_q: int, max_k: int, dropout: float, causal: bool,
    debug: bool, *, scale: float,
) -> tuple[Any, ...]:
    """What torch's kernel computes and what it insists on; weights and outputs are rounded to the inputs' type."""
    assert (dropout, causal, debug) == (0.0, False, False)
    assert query.dtype == key.dtype == value.dtype
    assert all(x.stride(-1) == 1 for x in (query, key, value))
    if queries is not None:
        assert queries.dtype == keys.dtype == torch.int32
        lengths = queries.diff().tolist(), keys.diff().tolist()
        assert (max_q, max_k) == (max(lengths[0]), max(lengths[1]))
        assert (sum(lengths[0]), sum(lengths[1])) == (len(query), len(key))
        cut = zip(query.split(lengths[0]), key.split(lengths[1]), value.split(lengths[1]), strict=True)
        made = [flash(*(x[None] for x in one), None, None, 0, 0, 0.0, False, False, scale=scale) for one in cut]
        return torch.cat([m[0][0] for m in made]), torch.cat([m[1][0] for m in made], dim=-1), None, None, None
    q, k, v = (x.float().transpose(1, 2) for x in (query, key, value))
    scores = q @ k.transpose(-1, -2) * scale
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    out = weights.to(query.dtype).float() @ v / weights.sum(-1, keepdim=True)
    return out.transpose(1, 2).to(query.dtype), scores.logsumexp(-1), None, None, None


def together(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let every model attend to all prompts at once; how many prompts each pack has."""
    sizes: list[int] = []

    def pack(prefixes: Any, kernel: Any) -> Any:
        sizes.append(len(prefixes))
        return prefix_cache.pack(prefixes, kernel)

    monkeypatch.setattr(decoding, "flash_kernel", lambda model: flash)
    monkeypatch.setattr(decoding, "pack", pack)
    return sizes


def test_logits_are_those_of_one_prompt_after_another(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = HFBackend(folder, device="cpu")
    prompts = encoded(backend)
    with torch.inference_mode():
        wanted, separate = stepped(backend.net, prompts)
        sizes = together(monkeypatch)
        found, packed = stepped(backend.net, prompts)
        assert sizes == [2]
        assert (found - wanted).abs().max() < 1e-4
        for going in ([0, 2, 3, 4], [0, 1]):  # a row of the first prompt ends, then both of the second
            for state in (separate, packed):
                state.keep(torch.tensor(going))
            assert packed.prompts.trials == separate.prompts.trials
            ours, theirs = (decoding._step(backend.net, s, torch.tensor([7] * len(going))) for s in (packed, separate))
            assert (ours - theirs).abs().max() < 1e-4
    assert packed.prompts.trials == [2]
    assert {len(x) for layer in packed.prompts.layers for x in layer} == {len(prompts[0].ids)}


def test_answers_of_the_shipped_model_are_those_of_one_prompt_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """One clip, two trials; then it and another together, each drawn from its seeds, whose rows end one by one."""
    benchmark, ask = load_benchmark("sim").head(1), replace(ask_config("tempoloc-tiny"), trials=2)
    asked = plan_requests(benchmark, find_videos(benchmark), ask)[:2]
    backend = make_engine("hf", "tempoloc-tiny", device="cpu", light=False)
    greedy = Sampling(temperature=0.0, max_new_tokens=120)
    wanted = texts(backend, asked[:1], greedy), texts(backend, asked, ask.sampling)
    sizes = together(monkeypatch)
    assert (texts(backend, asked[:1], greedy), texts(backend, asked, ask.sampling)) == wanted
    assert sizes == [1, 2]
    assert all("the green cube" in text for found in wanted for answers in found for text in answers)


def texts(backend: Any, asked: list[Any], sampling: Sampling) -> list[list[str]]:
    return [[r.text for r in answers] for answers in backend.generate(asked, sampling)]


@pytest.mark.parametrize("heads", [(28, 4), (4, 4), (8, 1)])
@pytest.mark.parametrize("size", prefix_cache.HEAD_SIZES)
def test_attention_to_all_prompts_at_once(heads: tuple[int, int], size: int) -> None:
    for lengths, trials in (((40, 7, 19), (3, 1, 2)), ((40,), (1,))):
        errors = prefix_cache.attention_errors(flash, torch.device("cpu"), torch.float32, heads, size, lengths, trials)
        assert set(errors) == {"packed", "separate", "sdpa"}
        assert max(largest for largest, _ in errors.values()) < 1e-5


def test_a_merge_is_one_softmax_over_all_keys() -> None:
    """Scores far apart, too: one part then decides."""
    dice = torch.Generator().manual_seed(0)
    for apart in (0.0, 30.0, -2000.0):
        scores = torch.randn(50, 11, dtype=torch.float64, generator=dice)
        scores[:, 7:] += apart
        values = torch.randn(11, 5, dtype=torch.float64, generator=dice)
        cut = (scores[:, :7], values[:7]), (scores[:, 7:], values[7:])
        parts = [(part.softmax(-1) @ theirs, part.logsumexp(-1)) for part, theirs in cut]
        found = prefix_cache.merge(*parts)
        assert found.dtype == torch.float64
        assert (found - scores.softmax(-1) @ values).abs().max() < 1e-12


# --- whether the kernel is used ---


class OnGPU:
    """What `flash_kernel` reads of a model."""

    def __init__(self, dtype: torch.dtype, size: int = 32, device: str = "cuda") -> None:
        self.device, self.dtype = torch.device(device), dtype
        self.config = SimpleNamespace(
            text_config=SimpleNamespace(
                head_dim=None, hidden_size=4 * size, num_attention_heads=4, num_key_value_heads=2
            )
        )


def test_the_kernel_is_for_16_bits_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(prefix_cache, "_checked", lambda *given: seen.append(given) or flash)
    for dtype in (torch.bfloat16, torch.float16):
        assert prefix_cache.flash_kernel(OnGPU(dtype)) is flash
        assert prefix_cache.flash_kernel(OnGPU(dtype, device="cpu")) is None
        assert prefix_cache.flash_kernel(OnGPU(dtype, size=48)) is None
    assert prefix_cache.flash_kernel(OnGPU(torch.float32)) is None
    assert seen == [(torch.device("cuda"), dtype, (4, 2), 32) for dtype in (torch.bfloat16, torch.float16)]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("heads", "size"), [((28, 4), 128), ((4, 2), 64), ((8, 8), 32)])
def test_rounding_to_16_bits_passes_the_check(dtype: torch.dtype, heads: tuple[int, int], size: int) -> None:
    assert prefix_cache._fault(flash, torch.device("cpu"), dtype, heads, size) is None


def other_base(*given: Any, scale: float) -> tuple[Any, ...]:
    out, lse, *rest = flash(*given, scale=scale)
    return out, lse / 0.6931, *rest


def other_scale(*given: Any, scale: float) -> tuple[Any, ...]:
    return flash(*given, scale=scale * 1.02)


def neighbour(*given: Any, scale: float) -> tuple[Any, ...]:
    out, lse, *rest = flash(*given, scale=scale)
    return out.roll(1, dims=-2), lse, *rest


def not_finite(*given: Any, scale: float) -> tuple[Any, ...]:
    out, *rest = flash(*given, scale=scale)
    return out * torch.nan, *rest


@pytest.mark.parametrize("kernel", [other_base, other_scale, neighbour, not_finite])
def test_a_kernel_that_computes_something_else_fails_the_check(kernel: Callable[..., Any]) -> None:
    fault = prefix_cache._fault(kernel, torch.device("cpu"), torch.bfloat16, (4, 2), 32)
    assert fault is not None
    assert fault.startswith("its error is")


def test_a_kernel_that_fails_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Here torch has none: the answers come one length after another, and a line on stderr says why."""
    prefix_cache._checked.cache_clear()
    for _ in range(2):
        assert prefix_cache._checked(torch.device("cpu"), torch.bfloat16, (4, 2), 32) is None
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("tempoloc: prompts are attended to one length after another: flash-attention fails here (")
    assert "_flash_attention_forward" in line


def test_the_prompts_given_to_a_pack_are_let_go() -> None:
    prefixes, _ = prefix_cache._random_prompts((4, 2), 32, (5, 3), (2, 1), 1)
    before = deepcopy(prefixes)
    packed = prefix_cache.pack(prefixes, flash)
    assert [p.layers for p in prefixes] == [[], []]
    assert torch.equal(packed.layers[0][1], torch.cat([p.layers[0][1][0].transpose(0, 1) for p in before]))


def test_settings_name_the_way_where_it_changes_answers(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    backend = HFBackend(folder, device="cpu")
    before = backend.settings()
    monkeypatch.setattr("tempoloc_nb.engines.hf.flash_kernel", lambda model: flash)
    assert backend.settings() == {**before, "prefix_attention": "flash"}
    assert "prefix_attention" not in before
