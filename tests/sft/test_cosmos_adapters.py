"""Adapters as cosmos-rl 0.4.7 exports them: names, configuration and sums."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import tiny_models
import torch
from safetensors.torch import load_file, save_file

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.models.locate import check_folder
from tempoloc_nb.sft.cosmos.adapters import main, merge_adapters

NAME = "model.layers.0.self_attn.q_proj"
PARTS, WEIGHTS = "adapter_model.safetensors", "model.safetensors"


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """Adapters of one weight, rank 2, alpha 8."""
    base, folder = tiny_models.qwen25(), tmp_path / "step_60"
    wide, deep = load_file(base / WEIGHTS)[f"{NAME}.weight"].shape
    folder.mkdir()
    torch.manual_seed(0)
    parts = {"lora_A": torch.randn(2, deep), "lora_B": torch.randn(wide, 2)}
    save_file(
        {f"base_model.model.{NAME}.{k}.weight": v for k, v in parts.items()}, folder / "adapter_model.safetensors"
    )
    told = {"r": 2, "lora_alpha": 8.0, "use_rslora": False, "alpha_pattern": None, "modules_to_save": None}
    (folder / "adapter_config.json").write_text(json.dumps(told | {"base_model_name_or_path": str(base)}))
    return folder


def test_a_folder_of_adapters_is_named_as_one(exported: Path) -> None:
    shutil.copy(tiny_models.qwen25() / "config.json", exported)
    with pytest.raises(
        TempolocError, match=r"has adapters but no model: .* -m tempoloc_nb\.sft\.cosmos\.adapters"
    ):
        check_folder(exported)


def test_a_weight_gains_alpha_over_r_times_b_a_and_no_other_changes(exported: Path, tmp_path: Path) -> None:
    assert merge_adapters(exported, tmp_path / "merged") == 1
    before = load_file(tiny_models.qwen25() / WEIGHTS)
    after, parts = (
        load_file(tmp_path / "merged" / WEIGHTS),
        load_file(exported / PARTS),
    )
    down, up = (parts[f"base_model.model.{NAME}.lora_{letter}.weight"] for letter in "AB")
    gained = after[f"{NAME}.weight"].float() - before[f"{NAME}.weight"].float()
    torch.testing.assert_close(gained, 4 * up @ down, rtol=0.02, atol=0.02)
    assert [k for k in before if not torch.equal(before[k], after[k])] == [f"{NAME}.weight"]
    with pytest.raises(TempolocError, match="there already"):
        merge_adapters(exported, tmp_path / "merged")


def test_an_adapter_of_another_model_is_refused(
    exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = exported / PARTS
    save_file({k.replace("model.layers.0.", "model.layers.99."): v for k, v in load_file(file).items()}, file)
    assert main([str(exported), str(tmp_path / "merged")]) == 1
    assert "1 of 1 adapters have no weight" in capsys.readouterr().err
    assert not (tmp_path / "merged").exists()
