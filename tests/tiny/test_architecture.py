"""The tiny architecture: size, files, and the same numbers in transformers 4.57 and 5."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from places import HELPERS
from tiny_models import clip_pixels, qwen25

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.clips.videos import find_videos
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.optional import import_transformers
from tempoloc_nb.engines.hf import HFBackend
from tempoloc_nb.engines.qwen import mrope_positions
from tempoloc_nb.inference.requests import plan_requests
from tempoloc_nb.prompting.prompts import load_prompt
from tempoloc_nb.prompting.sampling import Sampling
from tempoloc_nb.tiny.architecture import (
    TinyShape,
    build_tiny,
    save_model_folder,
    tiny_config,
    tiny_processor,
    train_tokenizer,
)
from tempoloc_nb.video.view import View

TEXT = "Event 1: <12.34> <5.60> grasping the red cube\n\nEvent 12: <0.07> <199.99>\n \n 3.5s\n<|im_end|>\n"
OTHER = HELPERS / "other_transformers.py"


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


@pytest.mark.skipif(
    "TEMPOLOC_HF4" not in os.environ, reason="TEMPOLOC_HF4 names no Python that has transformers 4.57"
)
def test_transformers_4_57_gives_the_same_tokens_logits_and_answers(tmp_path: Path) -> None:
    transformers = import_transformers()
    import torch

    folder = qwen25()
    model = transformers.AutoModelForImageTextToText.from_pretrained(folder).eval()
    processor = transformers.AutoProcessor.from_pretrained(folder)
    pixels, grid = clip_pixels(processor, 3)
    prompt = f"<|vision_start|>{'<|video_pad|>' * (int(grid.prod()) // 4)}<|vision_end|>{TEXT}"
    ids = np.array(processor.tokenizer(prompt)["input_ids"])
    places = mrope_positions(ids, model.config, grid[0], 0.25)
    with torch.no_grad():
        logits = model(
            input_ids=torch.from_numpy(ids)[None], position_ids=torch.from_numpy(places)[:, None],
            pixel_values_videos=pixels, video_grid_thw=grid,
        ).logits[0]  # fmt: skip
    frames = np.random.default_rng(0).integers(0, 256, (6, 3, 160, 128), dtype=np.uint8)
    np.savez(tmp_path / "in.npz", positions=places, frames=frames, prompt=np.array(prompt))
    command = [os.environ["TEMPOLOC_HF4"], str(OTHER), str(folder), str(tmp_path / "in.npz"), str(tmp_path / "out.npz")]
    environment = os.environ | {"PYTHONPATH": str(OTHER.parent.parent)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    other = np.load(tmp_path / "out.npz")
    assert str(other["version"]).startswith("4.57")
    assert np.array_equal(other["ids"], ids)
    assert np.allclose(other["pixels"], pixels.numpy(), atol=1e-4)
    assert np.allclose(other["logits"], logits.numpy(), atol=1e-4, rtol=1e-4)
    assert np.abs(logits.numpy()).max() > 0.05  # the comparison is not of zeros
    sim = load_benchmark("sim").head(1)
    requests = plan_requests(sim, find_videos(sim), 4, 2, View("pair"), load_prompt("tiny"))[:1]
    answers = HFBackend(folder, device="cpu").generate(requests, Sampling(max_new_tokens=12))[0]
    assert other["answers"].tolist() == [a.text for a in answers]
