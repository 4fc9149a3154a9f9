"""cosmos-rl's own Qwen2.5-VL with torch's attention in flash-attn's place, beside transformers' with its own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from cosmos_rl.policy.kernel import modeling_utils
from cosmos_rl.policy.model.qwen2_5_vl import Qwen2_5_VLConditionalModel
from cosmos_rl.policy.model.qwen2_5_vl.weight_converter import convert_weight_from_hf
from safetensors.torch import load_file
from transformers import AutoConfig, Qwen2_5_VLForConditionalGeneration

from tempoloc_nb.core.settings import data_dir
from tempoloc_nb.sft.cosmos.entry import _replace_flash_attn

FOLDER = data_dir() / "models" / "tempoloc-tiny-base"
GRID, SECONDS = torch.tensor([[6, 8, 8]]), torch.tensor([1.0])


@pytest.fixture(scope="module")
def theirs() -> Any:
    """tempoloc-tiny-base in cosmos-rl's model, loaded by cosmos-rl's own converter."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(modeling_utils, "decide_fa_version", lambda: 2)  # asks for a GPU's generation
        _replace_flash_attn()
        made = Qwen2_5_VLConditionalModel.from_pretrained(AutoConfig.from_pretrained(FOLDER), str(FOLDER))
    alone = SimpleNamespace(tp_coord=(0, 1), dp_shard_coord=(0, 1), tp_enabled=False, pp_enabled=False)
    places = {**made.visual.state_dict(), **made.model.state_dict()}
    for name, weight in load_file(FOLDER / "model.safetensors").items():
        place, value = convert_weight_from_hf(weight, name, "qwen2_5_vl", alone)
        places.pop(place).copy_(value)
    assert not places  # every weight was in the file
    made.model.rotary_emb.reset_inv_freq()
    made.visual.rotary_pos_emb.reset_inv_freq()
    return made


@pytest.fixture(scope="module")
def question(theirs: Any) -> dict[str, torch.Tensor]:
    """A video of 12 frames of noise between a few words."""
    config = theirs.hf_config
    video = [config.vision_start_token_id, *[config.video_token_id] * 96, config.vision_end_token_id]
    torch.manual_seed(0)
    return {
        "input_ids": torch.tensor([[1, 2, 3, *video, 5, 6, 7, 8]]),
        "pixel_values_videos": torch.randn(6 * 64, 3 * 2 * 14 * 14), "video_grid_thw": GRID,
        "second_per_grid_ts": SECONDS,
    }  # fmt: skip


def test_logits_are_those_of_transformers(theirs: Any, question: dict[str, torch.Tensor]) -> None:
    ours = Qwen2_5_VLForConditionalGeneration.from_pretrained(FOLDER, dtype=torch.float32)
    ids = question["input_ids"]
    told = {k: v for k, v in question.items() if k in ("video_grid_thw", "second_per_grid_ts")}
    places, _ = theirs._get_rope_index(ids, **told)
    with torch.no_grad():
        expected = ours(**question, attention_mask=torch.ones_like(ids)).logits
        found = theirs(**question, position_ids=places.permute(1, 0, 2).contiguous())
    found = getattr(found, "logits", found)
    # cosmos-rl rounds what goes into the attention to 16 bits
    assert (found - expected).norm() < 3e-3 * expected.norm()
    assert (found.argmax(-1) == expected.argmax(-1)).float().mean() > 0.95


def test_frame_pairs_of_a_fraction_of_a_second_keep_their_times(theirs: Any, question: dict[str, torch.Tensor]) -> None:
    """transformers below 5.18 makes 0 of 0.25 s; cosmos-rl counts ids of its own."""
    each = theirs.hf_config.vision_config.tokens_per_second / 4
    places, _ = theirs._get_rope_index(
        question["input_ids"], video_grid_thw=GRID, second_per_grid_ts=torch.tensor([0.25])
    )
    times = places[0, 0, 4 : 4 + 96 : 16] - places[0, 0, 4]
    assert times.tolist() == [int(i * each) for i in range(6)]
