"""The forward pass of the training is the model's own, whatever way it runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from training_store import SMALL, load, made_up_store

from tempoloc_nb.lab.tiny.architecture import build_tiny
from tempoloc_nb.lab.tiny.batches import BORDER, Collator, PatchMaker, StageBatches
from tempoloc_nb.lab.tiny.forward import answer_logits
from tempoloc_nb.lab.tiny.plan import Stage
from tempoloc_nb.lab.tiny.tasks import TaskOptions

TASKS = {"walk": 0.4, "localize": 0.3, "scenes": 0.3}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, StageBatches, PatchMaker]:
    """A model, its batches (some with a row of tokens less), and what makes their pixels."""
    model, processor = load(build_tiny(tmp_path_factory.mktemp("models") / "small", SMALL, seed=1))
    store = made_up_store()
    pixels = PatchMaker(torch.from_numpy(store.frames), processor)
    collator = Collator(processor.tokenizer, 12, *pixels.grid)  # type: ignore[attr-defined]
    options = TaskOptions(squeezed=0.5)
    return model, StageBatches(store, collator, Stage("s", 6, TASKS, (2, 8)), 3, tokens=900, options=options), pixels


def learned(made: tuple[Any, StageBatches, PatchMaker], number: int, way: Any) -> tuple[Any, list[Any]]:
    """(logits, gradients of all weights) of a batch."""
    model, batches, pixels = made
    batch = batches[number]
    model.zero_grad()
    logits, targets = answer_logits(model, batch, pixels(batch, True, torch.float32), way)
    torch.nn.functional.cross_entropy(logits, targets).backward()
    return logits.detach(), [p.grad.clone() for p in model.parameters()]


@pytest.mark.parametrize("number", range(4))
def test_logits_and_gradients_are_those_of_transformers(made: Any, number: int) -> None:
    (found, grads), (wanted, others) = (learned(made, number, way) for way in ("plain", "modules"))
    assert float((found - wanted).norm() / wanted.norm()) < 1e-5
    for a, b in zip(grads, others, strict=True):
        assert float((a - b).norm()) < 1e-4 * float(b.norm()) + 1e-8


def test_one_compilation_serves_layers_and_batches(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch._dynamo

    from tempoloc_nb.lab.tiny import batches, forward

    whole = torch.compile
    monkeypatch.setattr(torch, "compile", lambda f: whole(f, backend="aot_eager"))
    for name in (forward._layers, batches._maker):
        name.cache_clear()
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    model, numbers, pixels = made
    try:
        for number in range(6):
            batch = numbers[number]
            if len(batch.ids) == 1:  # a batch of one row has a compilation of its own
                continue
            shown = pixels(batch, True, torch.float32, True)
            found, targets = answer_logits(model, batch, shown, "compiled")
            wanted, _ = answer_logits(model, batch, pixels(batch, True, torch.float32), "plain")
            torch.nn.functional.cross_entropy(found, targets).backward()
            assert float((found - wanted).detach().norm() / wanted.detach().norm()) < 1e-5
        assert torch._dynamo.utils.counters["stats"]["unique_graphs"] <= 5  # two kinds of layer, two grids, the pixels
    finally:
        forward._layers.cache_clear()
        batches._maker.cache_clear()
        torch._dynamo.reset()


def test_squeezed_frames_are_what_a_processor_makes_of_stamped_ones(made: Any) -> None:
    """A stamped clip has a lower border than the training's own; a processor fits both into 112 × 112 pixels."""
    _, batches, pixels = made
    squeezed = [b for b in map(batches.__getitem__, range(6)) if b.border != BORDER]
    assert squeezed
    for batch in squeezed:
        assert batch.grid == (8, 8)
        shown = pixels(batch, False, torch.float32)
        assert len(shown) == len(batch.frames) // 2 * 64
        tokens = (batch.ids == batches.collator.video).sum()
        assert tokens == len(shown) // 4
        assert np.isfinite(shown.numpy()).all()
