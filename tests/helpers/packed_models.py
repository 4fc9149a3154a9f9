"""Untrained models whose tokenizers and processors are of the classes that transformers 4.57 asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import transformers
from tiny_models import QWEN3_ROPE, qwen3_config

from tempoloc_nb.lab.tiny.architecture import (
    CHAT_TEMPLATE,
    SPECIAL_TOKENS,
    TinyShape,
    corpus,
    tiny_config,
    train_tokenizer,
)

SHAPE = TinyShape(
    hidden=64, layers=2, heads=4, kv_heads=2, intermediate=96, vision_hidden=48, vision_layers=2, vision_heads=2,
    vision_intermediate=64, vocabulary=700, context=8192,
)  # fmt: skip


def tokenizer() -> Any:
    """A Qwen2 tokenizer trained on the project's prompts."""
    trained = train_tokenizer(corpus(), 700)
    return transformers.Qwen2TokenizerFast(
        tokenizer_object=trained.backend_tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>",
        additional_special_tokens=trained.additional_special_tokens, chat_template=CHAT_TEMPLATE,
    )  # fmt: skip


def qwen25(folder: Path) -> Path:
    """A Qwen2.5-VL with the pixel limits of the real ones (preprocessor_config.json of Qwen2.5-VL-7B-Instruct)."""
    words = tokenizer()
    sides = {"patch_size": 14, "merge_size": 2, "temporal_patch_size": 2}
    size = {"shortest_edge": 3136, "longest_edge": 12845056}
    transformers.Qwen2_5_VLProcessor(
        image_processor=transformers.Qwen2VLImageProcessor(size=dict(size), **sides), tokenizer=words,
        video_processor=transformers.Qwen2VLVideoProcessor(size=dict(size), **sides), chat_template=CHAT_TEMPLATE,
    ).save_pretrained(folder)  # fmt: skip
    transformers.Qwen2_5_VLForConditionalGeneration(tiny_config(words, SHAPE)).save_pretrained(folder)
    return folder


def qwen3(folder: Path) -> Path:
    """A dense Qwen3-VL."""
    words = tokenizer()
    ids = {token: words.convert_tokens_to_ids(token) for token in SPECIAL_TOKENS}
    config = qwen3_config(ids, context=8192, rope_scaling=QWEN3_ROPE)
    sides = {"patch_size": 16, "merge_size": 2, "temporal_patch_size": 2}
    transformers.Qwen3VLProcessor(
        image_processor=transformers.Qwen2VLImageProcessor(**sides), tokenizer=words,
        video_processor=transformers.Qwen3VLVideoProcessor(**sides), chat_template=CHAT_TEMPLATE,
    ).save_pretrained(folder)  # fmt: skip
    transformers.Qwen3VLForConditionalGeneration(config).save_pretrained(folder)
    return folder
