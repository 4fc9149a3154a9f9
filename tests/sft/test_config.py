"""Training files: the recipe's key for key, typed changes, presets, TOML."""

from __future__ import annotations

import json
import os
import re
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import pytest
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from tempoloc_nb.cli.sft import app
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.settings import data_dir, settings
from tempoloc_nb.sft.training_file import (
    Engine,
    _flatten,
    known_keys,
    load_presets,
    make_config,
    nest,
    read_config_file,
    read_override,
    read_training_file,
    to_toml,
    write_config,
)

# mimicgen_sft.toml of the recipe, parsed: what tomllib reads from the file that it publishes.
RECIPE = {
    "custom": {"dataset": {"path": "data/mimicgen_dataset_hf"}},
    "train": {
        "epoch": 120, "output_dir": "outputs/mimicgen_sft", "compile": False, "train_batch_per_replica": 32,
        "train_policy": {"type": "sft", "conversation_column_name": "conversations", "mini_batch": 4},
        "ckpt": {"enable_checkpoint": True},
    },
    "policy": {
        "model_name_or_path": "nvidia/Cosmos-Reason1-7B", "model_max_length": 4096,
        "parallelism": {"tp_size": 1, "cp_size": 1, "dp_shard_size": 8, "pp_size": 1},
    },
    "logging": {
        "logger": ["console"], "project_name": "cosmos_reason1", "experiment_name": "post_training_hf/mimicgen_sft",
    },
}  # fmt: skip


@pytest.mark.parametrize("options", [[], ["--preset", "recipe"], ["--preset", "one-gpu", "--preset", "eight-gpus"]])
def test_the_recipes_file_key_for_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["config", *options])
    assert result.exit_code == 0, result.output
    written = tomllib.loads((tmp_path / "mimicgen_sft.toml").read_text())
    vision = written["custom"].pop("vision")
    assert written == RECIPE
    assert vision == {"fps": settings().study.fps, "total_pixels": settings().pixels.total_pixels}
    assert [type(v) for v in _flatten(written).values()] == [type(_flatten(RECIPE)[k]) for k in _flatten(written)]


def test_every_preset_of_an_engine_has_known_keys_of_the_right_type() -> None:
    for name, preset in load_presets().presets.items():
        for engine in preset.engines:
            assert not known_keys(engine).problems(make_config(engine, [name])), name


@pytest.mark.parametrize("presets", [[], ["lora"], ["context-8192"], ["lora", "context-8192"]])
def test_the_engine_transformers_takes_its_own_files(tmp_path: Path, presets: list[str]) -> None:
    write_config(tmp_path / "sft.toml", make_config("transformers", presets))
    made = read_training_file(tmp_path / "sft.toml", "transformers")
    assert made.fps == settings().study.fps
    assert made.total_pixels == settings().pixels.total_pixels
    assert made.batch % made.mini_batch == 0


def test_later_presets_and_changes_win() -> None:
    assert make_config(presets=["one-gpu", "eight-gpus"])["policy.parallelism.dp_shard_size"] == 8
    assert make_config(presets=["eight-gpus", "one-gpu"])["policy.parallelism.dp_shard_size"] == 1
    made = make_config(presets=["one-gpu"], changes={"policy.parallelism.dp_shard_size": 2, "custom.vision.fps": 4})
    assert (made["policy.parallelism.dp_shard_size"], made["custom.vision.fps"]) == (2, 4)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("train.epoch=3", 3), ("train.optm_lr=1", 1), ("train.optm_lr=1e-5", 1e-5), ("train.compile=false", False),
        ("train.output_dir=outputs/a=b", "outputs/a=b"), ("train.output_dir=true", "true"), ("redis=12800", "12800"),
        ('policy.freeze_pattern=["visual"]', ["visual"]), ("policy.lora.target_modules=all-linear", "all-linear"),
        ("train.resume=true", True), ("train.resume=outputs/x", "outputs/x"), (" train.epoch = 3 ", 3),
        ("policy.lora.alpha_pattern={\"a.b\": 2.0}", {"a.b": 2.0}),
    ],
)  # fmt: skip
def test_overrides_are_read_as_their_keys_type(text: str, value: Any) -> None:
    read = read_override(text)[1]
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("train.epoch=3.5", "whole number"), ("train.epoch=true", "whole number"), ("train.compile=1", "true or false"),
        ("train.optm_lr=true", "a number"),
        ("train.optm_lr=fast", "a number"), ("train.optm_lr=NaN", "a number"), ("train.epochs=3", "train.epoch?"),
        ("train.epoch", "KEY=VALUE"), ("=3", "KEY=VALUE"), ("train.master_dtype=fp32", "float32"),
        ("logging.logger=[1]", "list of texts"), ("custom.vision.frames=3", "unknown key"), ("train=3", "unknown key"),
        ("train.optm_betas=[0.9,\"x\"]", "list of numbers"),
    ],
)  # fmt: skip
def test_wrong_overrides_get_one_line(text: str, said: str) -> None:
    with pytest.raises(TempolocError) as caught:
        read_override(text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_engines_and_presets_are_named() -> None:
    with pytest.raises(
        TempolocError, match="unknown engine 'nemo': choose one of cosmos-framework, cosmos-rl, transformers"
    ):
        make_config("nemo")
    with pytest.raises(TempolocError, match="one-gpu"):
        make_config(presets=["two-gpus"])
    with pytest.raises(TempolocError, match=r"not for the engine transformers.*lora"):
        make_config("transformers", ["one-gpu"])


def test_a_presets_file_is_checked(tmp_path: Path) -> None:
    good = '[engines.cosmos-rl]\n"train.epoch" = 1\n[presets.a]\nabout = "x"\nengines = ["cosmos-rl"]\nset = {%s}\n'
    path = tmp_path / "presets.toml"
    path.write_text(good % "")
    assert load_presets(path).presets["a"].about == "x"
    for text, said in [
        (good % '"train.epoch" = "many"', "whole number"),
        (good % '"train.epok" = 1', "train.epoch"),
        (good.replace("about", "abut") % "", r"presets\.a lacks 'about'"),
        (good.replace("cosmos-rl", "nemo") % "", "nemo"),
        (good % "" + "[more]\nx = 1\n", "more"),
    ]:
        path.write_text(text)
        with pytest.raises(TempolocError, match=said):
            load_presets(path)


_NAMES = st.text(st.characters(codec="ascii", categories=["Ll", "Nd"], include_characters="_"), min_size=1, max_size=6)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_NUMBERS = st.one_of(st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False), st.booleans())
_VALUES = st.one_of(_TEXTS, _NUMBERS, st.lists(_TEXTS, max_size=3), st.lists(st.integers(-9, 9), max_size=3))


@given(st.dictionaries(_NAMES, st.one_of(_VALUES, st.dictionaries(_NAMES, _VALUES, min_size=1)), min_size=1))
def test_what_is_written_is_read_again(table: dict[str, Any]) -> None:
    assert tomllib.loads(to_toml(_flatten(table))) == table
    assert nest(_flatten(table)) == table


def test_tables_of_free_names_keep_their_dots(tmp_path: Path) -> None:
    made = make_config(presets=["lora"], changes={"policy.lora.alpha_pattern": {r"layers\.1\.q": 2.0}})
    write_config(tmp_path / "a.toml", made)
    assert read_config_file(tmp_path / "a.toml") == made
    assert not known_keys().problems(made)


def test_another_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "sft.toml"
    write_config(path, make_config())
    write_config(path, make_config())  # the same once more
    with pytest.raises(TempolocError, match="--force"):
        write_config(path, make_config(presets=["one-gpu"]))
    assert read_config_file(path) == make_config()
    write_config(path, make_config(presets=["one-gpu"]), force=True)
    assert read_config_file(path) == make_config(presets=["one-gpu"])
    with pytest.raises(TempolocError, match="no such folder"):
        write_config(tmp_path / "none" / "a.toml", make_config())


@pytest.mark.parametrize("engine", get_args(Engine))
def test_model_and_dataset_options(engine: str) -> None:
    options = ["config", "-o", "-", "--engine", engine, "--model", "m/n", "--dataset", "d", "--set", "train.epoch=7"]
    result = CliRunner().invoke(app, options)
    made = _flatten(tomllib.loads(result.stdout))
    wanted = {"policy.model_name_or_path": "m/n", "custom.dataset.path": "d", "train.epoch": 7}
    assert wanted.items() <= made.items()


def test_the_key_list_is_that_of_a_named_version() -> None:
    keys = known_keys()
    assert keys.version == "0.4.7"
    assert {"train.epoch", "policy.lora.r", "policy.parallelism.tp_size", "custom.vision.fps"} <= set(keys.keys)


# --- cosmos-framework's file for the Cosmos 3 Reasoner ---

FRAMEWORK = Path(os.environ.get("COSMOS_FRAMEWORK_SRC", ""))
SIZES: list[tuple[str, list[str]]] = [("nano", []), ("edge", ["edge"]), ("super", ["super"])]


@pytest.mark.parametrize(("size", "presets"), SIZES)
def test_the_frameworks_files_have_known_keys_alone(size: str, presets: list[str]) -> None:
    stored = json.loads((data_dir() / "sft" / "cosmos_framework_keys.json").read_text())
    assert re.fullmatch("[0-9a-f]{40}", stored["commit"])
    assert stored["source"].endswith(stored["commit"])
    made = make_config("cosmos-framework", presets)
    assert set(stored["keys"]) - set(made) == {"model.backbone.safetensors_path"}
    assert not known_keys("cosmos-framework").problems(made)
    assert made["job.experiment"] == made["job.name"] == f"videophy2_sft_{size}"


@pytest.mark.skipif(not os.environ.get("COSMOS_FRAMEWORK_SRC"), reason="COSMOS_FRAMEWORK_SRC names no checkout")
@pytest.mark.parametrize(("size", "presets"), SIZES)
def test_the_frameworks_files_are_its_public_ones(
    size: str, presets: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_config("cosmos-framework", presets)
    public = FRAMEWORK / "examples" / "toml" / "sft_config" / f"videophy2_sft_{size}.toml"
    assert made == _flatten(tomllib.loads(public.read_text()))
    monkeypatch.syspath_prepend(FRAMEWORK)
    schema = import_module("cosmos_framework.configs.toml_config.sft_config").SFTExperimentConfig
    for changes in ({}, {"model.backbone.safetensors_path": "w"}):
        schema.model_validate(nest(made | changes))  # which forbids other keys
    schema.model_validate(nest(make_config("cosmos-framework", [*presets, "report"])))


def test_the_report_is_as_printed() -> None:
    """Cosmos 3's report (arXiv 2606.02800), section 4.1.2."""
    made = make_config("cosmos-framework", ["report"])
    assert made["trainer.grad_accum_iter"] * made["dataloader_train.max_samples_per_batch"] * 8 == 512
    assert (made["trainer.max_iter"], made["scheduler.cycle_lengths"]) == (8200, [8200])
    assert (made["optimizer.lr"], made["optimizer.weight_decay"], made["optimizer.betas"]) == (1e-5, 0.1, [0.9, 0.95])
    assert (made["scheduler.warm_up_steps"], made["scheduler.f_min"]) == ([1000], [0.1])
    assert made["trainer.callbacks.grad_clip.clip_norm"] == 1.0


def framework(*options: str) -> Result:
    return CliRunner().invoke(app, ["config", "--engine", "cosmos-framework", *options])


def test_a_file_for_an_exported_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for split in ("train", "val"):
        (tmp_path / f"videophy2_{split}").mkdir()
        (tmp_path / f"videophy2_{split}" / "meta.json").write_text("[]")
    result = framework("--dataset", "videophy2_train", "--model", "m/n", "--set", "trainer.max_iter=9")
    written = _flatten(tomllib.loads((tmp_path / "sft.toml").read_text()))
    changed = {"model.backbone.model_name": "m/n", "trainer.max_iter": 9}
    assert written == make_config("cosmos-framework", changes=changed)
    assert result.output == (
        f"sft.toml: {len(written)} keys for cosmos-framework; next: in cosmos-framework's folder, "
        f"VIDEOPHYSICS_ROOT={tmp_path} IMAGINAIRE_OUTPUT_ROOT=outputs/train PYTHONPATH=. torchrun --nproc_per_node=8 "
        f"-m cosmos_framework.scripts.train --sft-toml={tmp_path}/sft.toml\n"
    )
    assert "--dataset FOLDER" in framework("-o", "other.toml").output


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--set train.epoch=3", "unknown key train.epoch"),
        ("--set optimizer.lr_multipliers={}", "unknown key optimizer.lr_multipliers"),
        ("--set trainer.max_iter=many", "'many' is not a whole number"),
        ("--set scheduler.warm_up_steps=[0.5]", "is not a list of whole numbers"),
        ("--set job.task=vfm", "job.task = 'vfm' is none of vlm"),
        ("--preset lora", "the preset lora is not for the engine cosmos-framework: choose from edge, super, report"),
        ("--dataset nowhere/videophy2_train", "nowhere/videophy2_train has no meta.json: write it with"),
        ("--dataset videophy2_train", "videophy2_val has no meta.json: write it with"),
        ("--dataset .", "reads folders called videophy2_train and, beside it, videophy2_val: rename it"),
    ],
)
def test_what_the_framework_could_not_use_is_one_line(
    options: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "videophy2_train").mkdir()
    (tmp_path / "videophy2_train" / "meta.json").write_text("[]")
    result = framework(*options.split())
    assert isinstance(result.exception, TempolocError)
    assert said in str(result.exception)
    assert "\n" not in str(result.exception)
    assert not (tmp_path / "sft.toml").exists()


def test_the_framework_checks_and_trains_by_itself(tmp_path: Path) -> None:
    write_config(tmp_path / "a.toml", make_config("cosmos-framework"))
    for command in ("check", "launch"):
        with pytest.raises(TempolocError, match="cosmos-framework checks its files and trains by itself"):
            CliRunner().invoke(
                app, [command, str(tmp_path / "a.toml"), "--engine", "cosmos-framework"], catch_exceptions=False
            )
