"""Untrained models of a few million parameters or less, and prompts for them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from shutil import copytree, rmtree
from tempfile import mkdtemp
from typing import Any

from tempoloc_nb.core.optional import import_transformers
from tempoloc_nb.lab.tiny.architecture import SPECIAL_TOKENS, TinyShape, build_tiny, corpus, train_tokenizer

SMALL = TinyShape(
    hidden=64, layers=2, heads=4, kv_heads=2, intermediate=96, vision_hidden=48, vision_layers=2, vision_heads=2,
    vision_intermediate=64, vocabulary=700, context=4096,
)  # fmt: skip


def louder(model: Any, factor: float = 6.0) -> Any:
    """Fresh weights are so small that answers hardly depend on the input; larger ones depend on all of it."""
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.data.mul_(factor)
    return model


@cache
def qwen25() -> Path:
    """A small Qwen2.5-VL folder, one a process."""
    transformers = import_transformers()
    out = build_tiny(mkdtemp(prefix="tempoloc-qwen25-"), SMALL, seed=1)
    louder(transformers.AutoModelForImageTextToText.from_pretrained(out)).save_pretrained(out / "louder")
    (out / "louder" / "model.safetensors").replace(out / "model.safetensors")
    rmtree(out / "louder")
    return out


QWEN3_ROPE = {"rope_type": "default", "mrope_section": [4, 2, 2], "mrope_interleaved": True}


def qwen3_config(ids: dict[str, int], context: int = 4096, **rope: Any) -> Any:
    """A small Qwen3-VL's config; transformers 4.57 names the rotary settings `rope_scaling`, 5 `rope_parameters`."""
    text = {
        "vocab_size": 704, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": context,
        "bos_token_id": ids["<|endoftext|>"], "eos_token_id": ids["<|im_end|>"], "tie_word_embeddings": True, **rope,
    }  # fmt: skip
    vision = {
        "depth": 2, "hidden_size": 48, "intermediate_size": 64, "num_heads": 2, "out_hidden_size": 64,
        "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2, "num_position_embeddings": 64,
        "deepstack_visual_indexes": [0],
    }  # fmt: skip
    return import_transformers().Qwen3VLConfig(
        text_config=text, vision_config=vision, tie_word_embeddings=True, image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"], vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
    )  # fmt: skip


@cache
def qwen3() -> Path:
    """A small Qwen3-VL folder, one a process."""
    transformers = import_transformers()
    import torch

    out = Path(mkdtemp(prefix="tempoloc-qwen3-"))
    tokenizer = train_tokenizer(corpus(), 700)
    ids = {token: tokenizer.convert_tokens_to_ids(token) for token in SPECIAL_TOKENS}
    config = qwen3_config(ids, rope_parameters={**QWEN3_ROPE, "rope_theta": 5e6})
    torch.manual_seed(2)
    model = louder(transformers.Qwen3VLForConditionalGeneration(config))
    model.generation_config.eos_token_id = ids["<|im_end|>"]
    model.save_pretrained(out)
    sides = {"patch_size": 16, "merge_size": 2, "temporal_patch_size": 2}
    transformers.Qwen3VLProcessor(
        image_processor=transformers.Qwen2VLImageProcessor(**sides),
        tokenizer=tokenizer,
        video_processor=transformers.Qwen3VLVideoProcessor(
            size={"shortest_edge": 4096, "longest_edge": 128 * 128 * 24}, **sides
        ),
        chat_template=tokenizer.chat_template,
    ).save_pretrained(out)
    return out


def cache_model(cache: Path, hub: str, commit: str, main: str | None = None) -> Path:
    """A model's snapshot as the hub's client keeps it in `cache`, its branch last seen at `main` or `commit`."""
    kept = cache / f"models--{hub.replace('/', '--')}"
    copytree(qwen25(), kept / "snapshots" / commit)
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text(main or commit)
    return kept / "snapshots" / commit
