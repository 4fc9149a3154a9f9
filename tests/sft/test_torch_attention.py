"""torch's attention in flash-attn's place: its numbers against the formulas in float64, and where it is put."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import pytest
import torch

from tempoloc_nb.sft.cosmos.entry import _apply_rotary_emb, _flash_attn_func, _flash_attn_varlen_func

HEADS, FEWER, SIZE = 4, 2, 8


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """softmax(q·k / √size)·v of one row (tokens, heads, size), written out; query head i has key head i // group."""
    group = q.shape[1] // k.shape[1]
    rows = []
    for head in range(q.shape[1]):
        scores = q[:, head] @ k[:, head // group].T / q.shape[-1] ** 0.5
        if causal:
            scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), float("-inf"))
        rows.append(scores.softmax(-1) @ v[:, head // group])
    return torch.stack(rows, dim=1)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("ends", [(0, 4, 8, 12), (0, 5, 6, 13)], ids=["equal", "unequal"])
def test_segments_and_their_gradients_are_the_formulas(ends: tuple[int, ...], causal: bool) -> None:
    torch.manual_seed(0)
    q, k, v = drawn(ends[-1], HEADS, SIZE), drawn(ends[-1], FEWER, SIZE), drawn(ends[-1], FEWER, SIZE)
    told = torch.tensor(ends, dtype=torch.int32)
    longest = max(b - a for a, b in pairwise(ends))
    ours = _flash_attn_varlen_func(q, k, v, told, told.clone(), longest, longest, causal=causal, deterministic=False)
    true = torch.cat([attention(q[a:b], k[a:b], v[a:b], causal) for a, b in pairwise(ends)])
    torch.testing.assert_close(ours, true)
    weights = torch.randn_like(true)
    for mine, theirs in zip(
        torch.autograd.grad((ours * weights).sum(), (q, k, v)),
        torch.autograd.grad((true * weights).sum(), (q, k, v)),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("causal", [False, True])
def test_a_batch_is_its_rows(causal: bool) -> None:
    torch.manual_seed(1)
    q, k, v = drawn(2, 7, HEADS, SIZE), drawn(2, 7, FEWER, SIZE), drawn(2, 7, FEWER, SIZE)
    ours = _flash_attn_func(q, k, v, causal=causal)
    torch.testing.assert_close(ours, torch.stack([attention(*rows, causal) for rows in zip(q, k, v, strict=True)]))


def test_a_rotation_turns_each_pair_by_its_angle() -> None:
    torch.manual_seed(2)
    x, angles = torch.randn(1, 5, HEADS, SIZE, dtype=torch.float64), torch.rand(5, 3, dtype=torch.float64)
    ours = _apply_rotary_emb(x, angles.cos(), angles.sin())
    turned = torch.complex(x[..., :3], x[..., 3:6]) * torch.polar(torch.ones_like(angles), angles)[:, None]
    torch.testing.assert_close(ours, torch.cat([turned.real, turned.imag, x[..., 6:]], dim=-1))


def test_what_it_lacks_is_refused() -> None:
    q, few = torch.randn(1, 4, HEADS, SIZE), torch.randn(1, 3, HEADS, SIZE)
    with pytest.raises(NotImplementedError, match="softcap"):
        _flash_attn_func(q, q, q, softcap=30.0)
    with pytest.raises(NotImplementedError, match="rows of another length"):
        _flash_attn_func(q, few, few, causal=True)
    with pytest.raises(NotImplementedError, match="interleaved"):
        _apply_rotary_emb(q, torch.ones(4, 4), torch.zeros(4, 4), interleaved=True)


def test_it_takes_the_place_of_what_is_missing_and_of_nothing_else() -> None:
    code = """
import sys
from tempoloc_nb.sft.cosmos.entry import _replace_flash_attn
print(_replace_flash_attn(), _replace_flash_attn())
from flash_attn import flash_attn_func, flash_attn_varlen_func
from flash_attn.layers.rotary import apply_rotary_emb
import transformers
print(transformers.utils.is_flash_attn_2_available())  # transformers does not mistake it for flash-attn
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False", "False"]
