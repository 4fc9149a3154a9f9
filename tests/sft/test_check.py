"""What the check finds, and what it does not: each rule on a file that breaks it."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny_models
from sft_data import make_dataset
from typer.testing import CliRunner

from tempoloc_nb.cli.sft import app
from tempoloc_nb.core.checks import Finding, Report
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.settings import data_dir
from tempoloc_nb.models.ask import AskConfig
from tempoloc_nb.sft import check as sft_check
from tempoloc_nb.sft.check import _division_findings, _key_findings, _vision_findings, check_config
from tempoloc_nb.sft.cosmos.env import VARIABLE, cosmos_python
from tempoloc_nb.sft.dataset import Sample, save_samples
from tempoloc_nb.sft.facts import (
    ModelShape,
    _lora_parameters,
    _Resizing,
    count_steps,
    data_facts,
    lengths_of,
    memory,
    model_facts,
    vision_tokens,
)
from tempoloc_nb.sft.training_file import TrainingFile, Vision, known_keys, make_config, training_file, write_config


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The environment and the model cache of whoever runs the tests must not decide them."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "no-cache"))


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Sample]]:
    """Four clips, the last one for validation, without stamps."""
    folder = tmp_path_factory.mktemp("sft") / "set"
    return folder, make_dataset(folder, 4)


def report_on(path: Path, changes: dict[str, Any], *presets: str, gpus: int = 1, **options: Any) -> Report:
    """The report on a file of one GPU with these changes."""
    write_config(path / "sft.toml", make_config(presets=["one-gpu", *presets], changes=changes), force=True)
    return check_config(path / "sft.toml", gpus=gpus, **options)


def errors(report: Report) -> dict[str, str]:
    """Message and way out of each error, by key."""
    return {f.check: f"{f.message}; {f.way_out}" for f in report.findings if f.severity == "error"}


def good(dataset: Path) -> dict[str, Any]:
    """Changes that leave nothing to complain about but a model that is not here."""
    return {"custom.dataset.path": str(dataset), "train.train_batch_per_replica": 1, "policy.model_max_length": 8192}


def test_a_good_file_has_no_errors(tmp_path: Path, dataset: tuple[Path, list[Sample]]) -> None:
    report = report_on(tmp_path, good(dataset[0]), "lora")
    assert errors(report) == {}
    assert report.facts["samples"] == 3
    assert report.facts["steps"] == 3 * 120
    assert any("not checked: cosmos-rl's own validation" in f.message for f in report.findings)


@pytest.mark.parametrize(("engine", "severity"), [("cosmos-rl", "warning"), ("transformers", "error")])
def test_without_datasets_only_another_environment_could_train(
    engine: str, severity: str, tmp_path: Path, dataset: tuple[Path, list[Sample]], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "sft.toml"
    write_config(path, make_config(engine, changes={"custom.dataset.path": str(dataset[0])}))
    for name in [n for n in sys.modules if n.partition(".")[0] == "datasets"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "datasets", None)
    (found,) = (f for f in check_config(path, engine, gpus=1).findings if "datasets is not installed" in f.message)
    assert found.severity == severity
    assert found.message.startswith("not checked") == (severity == "warning")


@pytest.mark.parametrize(
    ("changes", "key", "said"),
    [
        ({"train.train_policy.mini_batch": 3}, "train.train_batch_per_replica", "mini_batch=1"),
        ({"policy.parallelism.tp_size": 8}, "policy.parallelism.tp_size", "4 key-value heads"),
        ({"policy.parallelism.cp_size": 3}, "policy.parallelism.cp_size", "28 heads"),
        ({"policy.parallelism.pp_size": 2, "policy.parallelism.pp_micro_batch_size": 1},
         "policy.parallelism.pp_micro_batch_size", "micro-batches"),
        ({"policy.parallelism.dp_shard_size": 2}, "policy.parallelism", "needs 2 GPUs, 1 is here"),
        ({"custom.vision.fps": 4}, "custom.vision.fps", "training samples 4 fps, the evaluation 8"),
        ({"custom.vision.max_pixels": 50000}, "custom.vision.max_pixels", "100352"),
        ({"policy.model_max_length": 4096}, "policy.model_max_length", "where the answer is"),
        ({"policy.model_name_or_path": "no-such-model"}, "policy.model_name_or_path", "no model no-such-model"),
        ({"policy.model_name_or_path": "Cosmos-Reason1-7B"}, "policy.model_name_or_path", "nvidia/Cosmos-Reason1-7B"),
        ({"custom.dataset.path": "nowhere"}, "custom.dataset.path", "tempoloc dataset build"),
        ({"train.train_batch_per_replica": 4}, "train.train_batch_per_replica", "do not fill one step of 4"),
        ({"train.epoch": 0}, "train.epoch", "not above 0"),
        ({"train.train_policy.type": "sft", "policy.model_max_length": -1}, "policy.model_max_length", "not above 0"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_an_error_with_a_way_out(
    tmp_path: Path, dataset: tuple[Path, list[Sample]], changes: dict[str, Any], key: str, said: str
) -> None:
    found = errors(report_on(tmp_path, good(dataset[0]) | changes))
    assert said in found[key]
    assert "\n" not in found[key]


def test_keys_and_types_are_checked_before_all_else(tmp_path: Path) -> None:
    path = tmp_path / "sft.toml"
    write_config(path, make_config() | {"train.optim_lr": 1e-5, "train.epoch": "many"})
    report = check_config(path, gpus=8)
    assert errors(report).keys() == {"train.optim_lr", "train.epoch"}
    assert "did you mean train.optm_lr?" in errors(report)["train.optim_lr"]
    assert any("once the keys are right" in f.message for f in report.findings)


def test_missing_keys_are_errors() -> None:
    for key in ("custom.dataset.path", "policy.model_name_or_path", "train.output_dir", "train.train_policy.type"):
        found = list(_key_findings({k: v for k, v in make_config().items() if k != key}))
        assert [f.check for f in found] == [key]
    without = {k: v for k, v in make_config().items() if not k.startswith("custom.vision")}
    assert "would sample 1 frame" in next(_vision_findings(training_file(without), AskConfig())).message


def test_the_recipes_example_is_too_long_for_the_recipes_context(tmp_path: Path) -> None:
    found = [f for f in report_on(tmp_path, {}).findings if f.check == "policy.model_max_length"]
    assert [f.severity for f in found] == ["warning"]
    assert "4032 vision tokens" in found[0].message
    assert "8092 as qwen-vl-utils" in found[0].message


@pytest.mark.parametrize(
    ("options", "changes", "said"),
    [
        ({"stamps": "frame"}, {}, "show no times"),
        ({"fps": 4}, {}, "built for 4 fps, training samples 8"),
        ({"convention": "end"}, {}, "boundary at the end of an event, the evaluation reads the start"),
    ],
)
def test_dataset_and_evaluation_must_agree(
    tmp_path: Path, options: dict[str, Any], changes: dict[str, Any], said: str
) -> None:
    make_dataset(tmp_path / "set", 2, changes, **options)
    assert said in errors(report_on(tmp_path, good(tmp_path / "set")))["custom.dataset.path"]


def test_a_mismatch_can_be_meant(tmp_path: Path) -> None:
    make_dataset(tmp_path / "set", 2, fps=4, convention="end")
    changes = good(tmp_path / "set") | {"custom.vision.fps": 4}
    assert errors(report_on(tmp_path, changes, ask=AskConfig(fps=4), convention="end")) == {}


def test_a_rate_above_the_sources_is_the_sources(tmp_path: Path) -> None:
    """A clip of 5 fps is built for 5 fps however many are asked for."""
    make_dataset(tmp_path / "set", 2, {"fps": 5.0, "source_fps": 5.0})
    assert errors(report_on(tmp_path, good(tmp_path / "set"))) == {}


def test_validation_samples_are_measured_where_they_are_used(
    tmp_path: Path, dataset: tuple[Path, list[Sample]]
) -> None:
    """The longest clip is the one to validate on, and the only one that does not fit."""
    file = training_file(make_config(changes=good(dataset[0])))
    data, _ = data_facts(file)
    sizes = lengths_of(data, model_facts(file), file).total
    longest = sizes.index(max(sizes))
    folder = tmp_path / "set"
    parts = ["validation" if i == longest else "train" for i in range(len(sizes))]
    save_samples([replace(s, split=p) for s, p in zip(data.samples, parts, strict=True)], folder)
    (folder / "videos").symlink_to(dataset[0] / "videos")

    tight = good(folder) | {"policy.model_max_length": max(sizes) - 1}
    assert errors(report_on(tmp_path, tight)) == {}  # cosmos-rl does not validate unless it is told to
    for path in (folder, folder / "train"):
        found = errors(report_on(tmp_path, tight | {"custom.dataset.path": str(path), "validation.enable": True}))
        assert found.keys() == {"policy.model_max_length"}
        assert found["policy.model_max_length"].startswith("1 of 1 validation samples are longer than")
    ours = good(folder) | {"policy.model_max_length": 100}
    write_config(tmp_path / "own.toml", make_config("transformers", changes=ours))  # which validates where it can
    said = [f.message for f in check_config(tmp_path / "own.toml", "transformers").findings]
    assert any(m.startswith("1 of 1 validation samples are longer than 100") for m in said)


def test_mixed_conventions_and_missing_videos(tmp_path: Path, dataset: tuple[Path, list[Sample]]) -> None:
    samples = [replace(s, convention="end" if i else "start") for i, s in enumerate(dataset[1])]
    folder = tmp_path / "set"
    save_samples(samples, folder)
    (folder / "videos").mkdir()
    shutil.copy(dataset[0] / samples[0].video, folder / samples[0].video)
    said = [f.message for f in data_facts(training_file(make_config(changes=good(folder))))[0].findings]
    assert any("disagree on the boundary" in m for m in said)
    assert any("2 of 3 videos cannot be read" in m and Path(samples[1].video).name in m for m in said)


def test_validation_needs_its_split(tmp_path: Path) -> None:
    make_dataset(tmp_path / "set", 1)
    found = errors(report_on(tmp_path, good(tmp_path / "set") | {"validation.enable": True}))
    assert "no split validation" in found["validation.enable"]


def test_a_split_folder_is_a_dataset_too(dataset: tuple[Path, list[Sample]]) -> None:
    """The recipe's own script needs the folder of the split."""
    file = training_file(make_config(changes={"custom.dataset.path": str(dataset[0] / "validation")}))
    found, _ = data_facts(file)
    assert [s.clip for s in found.samples] == [dataset[1][-1].clip]
    assert found.findings == ()


@pytest.mark.parametrize("stamps", ["none", "frame", "pair", "alternate"])
@pytest.mark.parametrize("make", [tiny_models.qwen25, tiny_models.qwen3])
def test_tokens_are_those_that_the_engine_transformers_learns_from(tmp_path: Path, make: Any, stamps: str) -> None:
    """Token for token for Qwen2.5-VL; for Qwen3-VL, whose written times are counted at nine a pair, within a tenth."""
    from tempoloc_nb.core.optional import import_transformers
    from tempoloc_nb.engines.hf import end_tokens
    from tempoloc_nb.sft.learner import Examples

    folder = make()
    samples = make_dataset(tmp_path / "set", 3, stamps=stamps)[:-1]
    changes = {"custom.dataset.path": str(tmp_path / "set"), "policy.model_name_or_path": str(folder)}
    file = training_file(make_config("transformers", changes=changes), "transformers")
    counted = lengths_of(data_facts(file)[0], model_facts(file), file)
    transformers = import_transformers()
    processor = transformers.AutoProcessor.from_pretrained(folder)
    model = transformers.AutoModelForImageTextToText.from_pretrained(folder)
    examples = Examples(samples, tmp_path / "set", model, processor, file.total_pixels, end_tokens(model, processor))
    true = [len(examples[i].encoded.ids) for i in range(len(samples))]
    if make is tiny_models.qwen25:
        assert [n - t for n, t in zip(counted.total, true, strict=True)] == [1] * len(true)  # the last line break
    else:
        assert all(abs(n - t) < 0.1 * t for n, t in zip(counted.total, true, strict=True)), (counted, true)


def test_more_pixels_and_frames_are_more_tokens() -> None:
    vision = Vision(fps=8, total_pixels=6422528)
    assert vision_tokens(512, 512, 7, vision) > vision_tokens(512, 512, 7, Vision(fps=8, total_pixels=3_000_000))
    assert vision_tokens(512, 512, 3, vision) > vision_tokens(512, 512, 3, Vision(fps=4, total_pixels=6422528))
    assert vision_tokens(512, 512, 3, vision, _Resizing(least=7840, most=15680)) == 12 * 16  # a processor's own limits
    assert vision_tokens(512, 512, 3, vision, _Resizing("qwen3-vl")) != vision_tokens(512, 512, 3, vision)


def test_steps_are_counted_as_cosmos_rl_counts_them() -> None:
    """Against torch's own sampler and loader, which cosmos-rl uses."""
    torch = pytest.importorskip("torch")
    for samples, gpus, batch, drop in [(3644, 8, 32, True), (3644, 8, 32, False), (100, 3, 7, True), (5, 8, 1, True)]:
        flat = make_config() | {
            "policy.parallelism.dp_shard_size": gpus, "train.train_batch_per_replica": batch,
            "train.train_policy.dataloader_drop_last": drop, "train.epoch": 2,
        }  # fmt: skip
        data = torch.utils.data
        sampler = data.DistributedSampler(range(samples), num_replicas=gpus, rank=gpus - 1)
        loader = data.DataLoader(range(samples), batch_size=batch, sampler=sampler, drop_last=drop)
        assert count_steps(training_file(flat), samples) == (len(loader), 2 * len(loader))
    assert count_steps(training_file(make_config() | {"train.max_num_steps": 5}), 3644)[1] == 5


def test_memory_by_hand() -> None:
    """A model of 1,000 parameters on one GPU in float32: 4 bytes for each of weight, gradient and two moments."""
    shape = ModelShape(8, 16, 2, 2, 1, 10)
    file = TrainingFile(Path("d"), "m", mini_batch=1, tensor=1, max_length=64)
    parts = memory(file, 1000, shape, 64, 32)
    assert parts is not None
    assert (parts["weights"], parts["gradients"], parts["optimizer"]) == (4000, 4000, 8000)
    assert parts["logits"] == 64 * 10 * 10
    assert sum(parts.values()) > parts["CUDA"] > 2**30  # however small the model
    assert parts["activations"] == 64 * 8 * (2 * 2 + 34)
    half = memory(replace(file, shards=2, weights_dtype="bfloat16"), 1000, shape, 64, 32)
    assert half is not None
    assert half["optimizer"] == 2000
    # q and o: 8+8; k and v: 8+4, twice each, in two layers, of rank 3
    assert _lora_parameters(shape, 3, ["q_proj", "k_proj", "v_proj", "o_proj"]) == 3 * 2 * (2 * 16 + 2 * 12)
    assert memory(file, 1000, None, 64, 32) is None


def test_lora_counts_what_peft_adds() -> None:
    """The number of trained parameters, against adapters that peft adds to a real model."""
    peft = pytest.importorskip("peft", reason="peft is not installed: LoRA's parameters are not compared")
    from tempoloc_nb.core.optional import import_transformers
    from tempoloc_nb.sft.facts import _known_shape

    folder = tiny_models.qwen25()
    model = import_transformers().AutoModelForImageTextToText.from_pretrained(folder)
    names = ["q_proj", "k_proj", "v_proj", "o_proj"]
    wrapped = peft.get_peft_model(model, peft.LoraConfig(r=4, target_modules=names))
    shape = _known_shape(folder)
    assert shape is not None
    assert _lora_parameters(shape, 4, names) == sum(p.numel() for p in wrapped.parameters() if p.requires_grad)


def test_a_warm_up_longer_than_the_run_is_a_warning(tmp_path: Path, dataset: tuple[Path, list[Sample]]) -> None:
    report = report_on(tmp_path, good(dataset[0]) | {"train.epoch": 1})
    assert any(f.check == "train.optm_warmup_steps" and "run of 3" in f.message for f in report.findings)


def test_memory_is_compared_with_the_gpu(
    tmp_path: Path, dataset: tuple[Path, list[Sample]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sft_check, "gpu_memory", lambda: 80 * 2**30)
    full, lora = report_on(tmp_path, good(dataset[0])), report_on(tmp_path, good(dataset[0]), "lora")
    assert any(f.check == "memory" and "it has 80" in f.message for f in full.findings)
    assert not any(f.check == "memory" for f in lora.findings)


def test_a_models_folder_gives_tokenizer_and_shape(tmp_path: Path, dataset: tuple[Path, list[Sample]]) -> None:
    report = report_on(tmp_path, good(dataset[0]) | {"policy.model_name_or_path": str(tiny_models.qwen25())})
    assert errors(report) == {}
    assert "tokenizer" in report.facts["text counted with"]
    assert report.facts["memory a GPU (GiB, estimate)"] < 2
    bare = tmp_path / "bare"
    shutil.copytree(tiny_models.qwen25(), bare)
    (bare / "model.safetensors").unlink()
    found = errors(report_on(tmp_path, good(dataset[0]) | {"policy.model_name_or_path": str(bare)}))
    assert "no weights" in found["policy.model_name_or_path"]


@pytest.mark.parametrize(("key", "value"), [("policy.parallelism.tp_size", 2), ("custom.vision.nframes", 8)])
def test_the_engine_transformers_refuses_what_it_cannot_do(
    tmp_path: Path, dataset: tuple[Path, list[Sample]], key: str, value: int
) -> None:
    changes = {"custom.dataset.path": str(dataset[0]), "policy.model_name_or_path": str(tiny_models.qwen25())}
    write_config(tmp_path / "good.toml", make_config("transformers", changes=changes))
    assert errors(check_config(tmp_path / "good.toml", "transformers", gpus=0)) == {}
    write_config(tmp_path / "bad.toml", make_config("transformers", changes=changes | {key: value}))
    found = errors(check_config(tmp_path / "bad.toml", "transformers", gpus=0))
    assert key in found["transformers"]


def test_cosmos_rls_environment_is_asked(tmp_path: Path, dataset: tuple[Path, list[Sample]]) -> None:
    """A Python that has this package and no cosmos-rl: an error in one line, and the rest is checked."""
    report = report_on(tmp_path, good(dataset[0]), cosmos=Path(sys.executable))
    assert "cosmos_rl" in errors(report)["cosmos-rl"]
    assert report.facts["steps"]
    with pytest.raises(TempolocError, match="no Python there"):
        cosmos_python(tmp_path / "nothing")


def test_without_flash_attn_there_is_torchs_attention_and_no_compiling(
    tmp_path: Path, dataset: tuple[Path, list[Sample]], monkeypatch: pytest.MonkeyPatch
) -> None:
    optional = {"flash_attn": False, "decord": True, "torchcodec": False}
    told = {"versions": {"cosmos-rl": known_keys().version}, "redis": True, "optional": optional}
    answers = {"describe": told, "validate": {"problems": [], "trainer": None}}
    monkeypatch.setattr(sft_check, "ask", lambda python, what, *more: answers[what])
    report = report_on(tmp_path, good(dataset[0]), cosmos=Path(sys.executable))
    assert errors(report) == {}
    assert any("torch's own attention takes its place" in f.message for f in report.findings)
    compiled = report_on(tmp_path, good(dataset[0]) | {"train.compile": True}, cosmos=Path(sys.executable))
    assert "cannot be compiled" in errors(compiled)["train.compile"]


def test_a_python_without_this_package_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    python.chmod(0o755)
    write_config(tmp_path / "a.toml", make_config())
    found = errors(check_config(tmp_path / "a.toml", gpus=8, cosmos=python))
    assert "install" in found["cosmos-rl"]


def test_the_command_prints_lines_or_json(tmp_path: Path, dataset: tuple[Path, list[Sample]]) -> None:
    write_config(tmp_path / "a.toml", make_config(presets=["one-gpu"], changes=good(dataset[0])))
    runner = CliRunner()
    plain = runner.invoke(app, ["check", str(tmp_path / "a.toml"), "--gpus", "1"])
    assert plain.exit_code == 0, plain.output
    assert plain.output.splitlines()[-1].endswith("warnings")
    told = runner.invoke(app, ["check", str(tmp_path / "a.toml"), "--gpus", "1", "--eval-fps", "12", "--json"])
    assert told.exit_code == 1
    found = json.loads(told.output)
    assert found["errors"] == 1
    assert found["findings"][0]["check"] == "custom.vision.fps"
    assert found["facts"]["samples"] == 3


def test_a_file_that_is_no_configuration(tmp_path: Path) -> None:
    with pytest.raises(TempolocError, match="cannot read"):
        check_config(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("epoch = = 3")
    with pytest.raises(TempolocError, match="not valid TOML"):
        check_config(tmp_path / "bad.toml")


def test_shards_that_are_not_named() -> None:
    found = list(_division_findings(training_file(make_config() | {"policy.parallelism.dp_shard_size": -1})))
    assert [type(f) for f in found] == [Finding]
    assert "launcher starts 1" in found[0].message


@pytest.mark.parametrize("stamps", ["frame", "pair", "alternate"])
def test_stamps_that_cosmos_rl_may_tear_apart(tmp_path: Path, stamps: str) -> None:
    make_dataset(tmp_path / "set", 3, stamps=stamps, stamped=True)
    text = " ".join(f.message for f in report_on(tmp_path, good(tmp_path / "set")).findings)
    assert ("two of a pair may show different times" in text) == (stamps == "pair")
    assert ("some pairs show two times on one side" in text) == (stamps == "alternate")


def test_the_shipped_models_are_trained_by_the_shipped_configuration(tmp_path: Path) -> None:
    """The base that `config --engine transformers` names fits the shipped clips."""
    if not (data_dir() / "models" / "tempoloc-tiny-base" / "model.safetensors").is_file():
        pytest.skip("data/models/tempoloc-tiny-base is not here")
    make_dataset(tmp_path / "set", 3, stamps="pair")
    changes = {"custom.dataset.path": str(tmp_path / "set")}
    write_config(tmp_path / "a.toml", make_config("transformers", changes=changes))
    assert errors(check_config(tmp_path / "a.toml", "transformers", gpus=0)) == {}
