"""The tiny architecture: size, files, tokens. `make test-transformers` loads it in other releases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny_models import qwen25

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.optional import import_transformers
from tempoloc_nb.lab.tiny.architecture import (
    TinyShape,
    build_tiny,
    save_model_folder,
    tiny_config,
    tiny_processor,
    train_tokenizer,
)

TEXT = "Event 1: <12.34> <5.60> grasping the red cube\n\nEvent 12: <0.07> <199.99>\n \n 3.5s\n<|im_end|>\n"


def test_the_default_shape_fits_the_shipped_size() -> None:
    """At most 8 M parameters at the full vocabulary: 16 MB at 16 bits."""
    transformers = import_transformers()
    import torch

    tokenizer = train_tokenizer(["grasping the red cube"], 400)
    config = tiny_config(tokenizer, TinyShape())
    config.text_config.vocab_size = TinyShape().vocabulary
    with torch.device("meta"):
        model = transformers.Qwen2_5_VLForConditionalGeneration(config)
    assert sum(p.numel() for p in model.parameters()) <= 8_000_000
    assert tiny_processor(tokenizer).video_processor.do_sample_frames is False


def test_a_model_is_one_small_file_and_saving_does_not_change_it(tmp_path: Path) -> None:
    transformers = import_transformers()
    import torch

    model = transformers.AutoModelForImageTextToText.from_pretrained(qwen25())
    processor = transformers.AutoProcessor.from_pretrained(qwen25())
    before = {k: v.clone() for k, v in model.state_dict().items()}
    save_model_folder(model, processor, tmp_path / "m")
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    weights = list((tmp_path / "m").glob("*.safetensors"))
    assert [p.name for p in weights] == ["model.safetensors"]
    parameters = sum(p.numel() for p in model.parameters())
    assert 2 * parameters < weights[0].stat().st_size < 2 * parameters + 32_768
    again = transformers.AutoModelForImageTextToText.from_pretrained(tmp_path / "m", dtype="auto")
    assert again.dtype == torch.bfloat16
    config = json.loads((tmp_path / "m" / "config.json").read_text())["text_config"]
    assert config["rope_scaling"]["mrope_section"] == config["rope_parameters"]["mrope_section"]


def test_a_second_model_in_a_folder_is_refused() -> None:
    with pytest.raises(TempolocError, match="holds a model already"):
        build_tiny(qwen25())


def test_equal_seeds_give_equal_weights(tmp_path: Path) -> None:
    shape = TinyShape(hidden=64, layers=1, intermediate=64, vision_hidden=48, vision_layers=1, vision_intermediate=64)
    a, b, c = (build_tiny(tmp_path / str(i), shape, seed) / "model.safetensors" for i, seed in enumerate((3, 3, 4)))
    assert a.read_bytes() == b.read_bytes() != c.read_bytes()


def test_numbers_are_digits_and_text_survives() -> None:
    tokenizer = import_transformers().AutoProcessor.from_pretrained(qwen25()).tokenizer
    pieces = tokenizer.tokenize("<12.34> <5.60>")
    assert not [p for p in pieces if sum(c.isdigit() for c in p) > 1]
    assert tokenizer.decode(tokenizer(TEXT)["input_ids"]) == TEXT
