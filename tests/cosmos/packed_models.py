"""Untrained models whose tokenizers and processors are of the classes that transformers 4.57 asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import transformers

from tempoloc_nb.tiny import CHAT_TEMPLATE, SPECIAL_TOKENS, TinyShape, corpus, tiny_config, train_tokenizer

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
    text = {
        "vocab_size": 704, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 8192,
        "rope_scaling": {"rope_type": "default", "mrope_section": [4, 2, 2], "mrope_interleaved": True},
        "bos_token_id": ids["<|endoftext|>"], "eos_token_id": ids["<|im_end|>"], "tie_word_embeddings": True,
    }  # fmt: skip
    vision = {
        "depth": 2, "hidden_size": 48, "intermediate_size": 64, "num_heads": 2, "out_hidden_size": 64,
        "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2, "num_position_embeddings": 64,
        "deepstack_visual_indexes": [0],
    }  # fmt: skip
    config = transformers.Qwen3VLConfig(
        text_config=text, vision_config=vision, tie_word_embeddings=True, image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"], vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
    )  # fmt: skip
    sides = {"patch_size": 16, "merge_size": 2, "temporal_patch_size": 2}
    transformers.Qwen3VLProcessor(
        image_processor=transformers.Qwen2VLImageProcessor(**sides), tokenizer=words,
        video_processor=transformers.Qwen3VLVideoProcessor(**sides), chat_template=CHAT_TEMPLATE,
    ).save_pretrained(folder)  # fmt: skip
    transformers.Qwen3VLForConditionalGeneration(config).save_pretrained(folder)
    return folder
