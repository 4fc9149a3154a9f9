"""Our configurations, our list of keys and our way of asking, against cosmos-rl itself."""

from __future__ import annotations

import json
import sys
from itertools import combinations
from pathlib import Path

import pytest
from cosmos_rl.policy.config import Config

from tempoloc_nb.core.settings import data_dir
from tempoloc_nb.sft.check import check_config
from tempoloc_nb.sft.cosmos.env import _config_keys, ask
from tempoloc_nb.sft.training_file import (
    known_keys,
    load_presets,
    make_config,
    nest,
    write_config,
)

PRESETS = [name for name, preset in load_presets().presets.items() if "cosmos-rl" in preset.engines]


def test_the_key_list_is_that_of_the_installed_version() -> None:
    """Written anew by: python -m tempoloc_nb.sft.cosmos.env keys"""
    shipped = json.loads((data_dir() / "sft" / "cosmos_rl_keys.json").read_text())
    found = ask(Path(sys.executable), "keys")
    assert shipped["cosmos_rl"] == found["cosmos_rl"]
    assert shipped["keys"] == found["keys"] == json.loads(json.dumps(dict(_config_keys(Config))))


@pytest.mark.parametrize("presets", [[], *([p] for p in PRESETS), *map(list, combinations(PRESETS, 2))])
def test_every_preset_is_valid(presets: list[str]) -> None:
    flat = make_config(presets=presets)
    config = Config.from_dict(nest(flat))
    assert config.train.train_policy.type == "sft"
    assert config.train.epoch == 120
    assert config.policy.parallelism.dp_shard_size == flat["policy.parallelism.dp_shard_size"]
    assert config.policy.model_max_length == flat["policy.model_max_length"]
    assert config.custom["vision"] == {"fps": 8.0, "total_pixels": 6422528}
    assert (config.policy.lora is not None) == ("lora" in presets)
    assert config.logging.logger == ["console"]


WRONG = {
    "train.epoch": "many", "train.compile": "perhaps", "policy.freeze_pattern": "visual",
    "train.optm_betas": [0.9, "b"],
    "policy.parallelism.dp_shard_size": 1.5, "logging.logger": "console", "train.train_policy.mini_batch": [4],
}  # fmt: skip


@pytest.mark.parametrize("key", WRONG)
def test_what_cosmos_rl_refuses_we_refuse(key: str) -> None:
    flat = make_config() | {key: WRONG[key]}
    with pytest.raises(ValueError, match=key.rpartition(".")[2]):
        Config.from_dict(nest(flat))
    assert list(known_keys().problems(flat)) == [key]


def test_an_unknown_key_is_accepted_in_silence_by_cosmos_rl_and_not_by_us() -> None:
    flat = make_config() | {"train.optim_lr": 1e-5}
    assert Config.from_dict(nest(flat)).train.optm_lr == 1e-6
    assert list(known_keys().problems(flat)) == ["train.optim_lr"]


def test_the_check_asks_cosmos_rl(tmp_path: Path) -> None:
    path = tmp_path / "sft.toml"
    write_config(path, make_config(presets=["lora"]))
    told = check_config(path, gpus=8, cosmos=Path(sys.executable))
    assert not any("refuses" in f.message or "not checked: cosmos" in f.message for f in told.findings)
    both = {"policy.trainable_pattern": ["x"], "policy.freeze_pattern": ["y"]}
    write_config(path, make_config(changes=both), force=True)
    told = check_config(path, gpus=8, cosmos=Path(sys.executable))
    assert any("cosmos-rl refuses it" in f.message and "cannot be set at the same time" in f.message
               for f in told.findings if f.severity == "error")  # fmt: skip
