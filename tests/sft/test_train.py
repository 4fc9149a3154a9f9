"""Fine-tuning: the file, what is learned from, and that a trained folder is evaluated by its path."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("datasets")
pytest.importorskip("transformers")

import tiny_models
from places import ROOT

from tempoloc_nb.clips.manifest import load_benchmark, write_manifest
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.files import sole_writer
from tempoloc_nb.core.optional import import_transformers
from tempoloc_nb.core.settings import data_dir
from tempoloc_nb.engines.hf import HFBackend, encode_request, end_tokens
from tempoloc_nb.engines.protocol import Request
from tempoloc_nb.models.ask import load_prompt
from tempoloc_nb.models.locate import find_model, load_model
from tempoloc_nb.sft import train as engine
from tempoloc_nb.sft.dataset import Sample, sample_of, save_samples
from tempoloc_nb.sft.learner import (
    Examples,
    _answer_ids,
    _freeze,
    _set_frame_pixels,
    answer_loss,
    base_name,
    collate,
    fitting,
    read_data,
    save_folder,
    start_model,
    without_weights,
)
from tempoloc_nb.sft.training_file import TrainingFile, known_keys, read_training_file
from tempoloc_nb.video.view import View

read_own = partial(read_training_file, engine="transformers")
SIM = load_benchmark("sim")
CLIPS = [c for c in SIM.clips if c.video is not None]


def sample(index: int, split: str = "train", **options: Any) -> Sample:
    clip = CLIPS[index]
    given: dict[str, Any] = {"fps": 8, "stamps": "pair", "prompt": "tiny"} | options
    return replace(sample_of(clip, video=str(clip.video), **given), split=split)


def build(folder: Path, samples: Sequence[Sample]) -> Path:
    """A dataset whose videos are the shipped ones."""
    save_samples(samples, folder)
    (folder / "videos").symlink_to(SIM.root / "videos")
    return folder


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four clips to learn from and two to validate on, at 2 fps, which is quick."""
    slow = [sample(i, "train" if i < 4 else "validation", fps=2) for i in range(6)]
    return build(tmp_path_factory.mktemp("data") / "stack", slow)


def write_config(path: Path, dataset: Path, output: Path, model: Path | str, more: str = "") -> Path:
    text = f"""
train.output_dir = "{output}"
train.epoch = 3
train.optm_lr = 1e-3
train.optm_warmup_steps = 2
train.train_batch_per_replica = 2
train.train_policy = {{ type = "sft", mini_batch = 1 }}
train.ckpt = {{ enable_checkpoint = true, save_freq = 2 }}
custom.dataset.path = "{dataset}"
policy.model_name_or_path = "{model}"
policy.model_gradient_checkpointing = false
validation.freq = 4
{more}
"""
    path.write_text(text)
    return path


# --- The file


RECIPE = """
[custom.dataset]
path = "data/mimicgen_dataset_hf"
[train]
epoch = 120
output_dir = "outputs/mimicgen_sft"
compile = false
train_batch_per_replica = 32
[policy]
model_name_or_path = "nvidia/Cosmos-Reason1-7B"
model_max_length = 4096
[logging]
logger = ['console']
project_name = "cosmos_reason1"
experiment_name = "post_training_hf/mimicgen_sft"
[train.train_policy]
type = "sft"
conversation_column_name = "conversations"
mini_batch = 4
[train.ckpt]
enable_checkpoint = true
[policy.parallelism]
tp_size = 1
cp_size = 1
dp_shard_size = 8
pp_size = 1
"""


def test_the_recipes_own_file_is_honoured(tmp_path: Path) -> None:
    (tmp_path / "sft.toml").write_text(RECIPE)
    config = read_own(tmp_path / "sft.toml")
    assert config == TrainingFile(
        Path("data/mimicgen_dataset_hf"), "nvidia/Cosmos-Reason1-7B", "transformers",
        output=Path("outputs/mimicgen_sft"), epochs=120, batch=32, mini_batch=4, checkpoints=True, shards=8,
        max_length=4096, logger=("console",), tensor=1, drop_last=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("[rollout]\nbackend = 'vllm'", "does not honour rollout.backend = 'vllm': remove it"),
        ("[validation]\ntemperature = 0.5", "does not honour validation.temperature"),
        ("[custom.vision]\nnframes = 8", "does not honour custom.vision.nframes"),
        ("[custom.vision]\nfps = 'eight'", "custom.vision.fps = 'eight' is not a number"),
        ("[custom.vision]\nfps = 0", "custom.vision.fps = 0 is not above 0"),
        ("[custom.vision]\nmin_pixels = 9\nmax_pixels = 4", "min_pixels is above max_pixels"),
        ("[custom.vision]\nmax_pixels = true", "max_pixels = True is not a whole number"),
        ("[policy.lora]\nr = 8", "leave dp_shard_size at 1"),
        ("[policy.lora]\nlora_path = 'x'", "does not honour policy.lora.lora_path"),
    ],
)
def test_what_is_not_honoured_is_refused_in_one_line(tmp_path: Path, more: str, said: str) -> None:
    (tmp_path / "sft.toml").write_text(RECIPE + more)
    with pytest.raises(TempolocError) as error:
        read_own(tmp_path / "sft.toml")
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("compile = false", "compile = true", "train.compile = True: leave it at False"),
        ("tp_size = 1", "tp_size = 2", "policy.parallelism.tp_size = 2: leave it at 1"),
        ("mini_batch = 4", "mini_batch = 5", "cannot be cut into passes of 5"),
        ("epoch = 120", "epoch = 0", "train.epoch = 0 is not above 0"),
        ("epoch = 120", "epochs = 3", "does not honour train.epochs"),
        ("path = ", "folder = ", "does not honour custom.dataset.folder"),
        ('path = "data/mimicgen_dataset_hf"', "", "lacks custom.dataset.path"),
        ("epoch = 120", "optm_decay_type = 'steps'", "is none of sqrt, cosine, linear, none"),
        ("epoch = 120", "optm_lr = [1e-5, 1e-6]", "train.optm_lr"),
        ("epoch = 120", "optm_betas = [0.9]", "needs two numbers"),
        ("logger = ['console']", "logger = ['wandb']", "logging.logger = ['wandb']"),
        ("[train]", "[train", "is not valid TOML"),
    ],
)
def test_wrong_values_are_refused_in_one_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in RECIPE
    (tmp_path / "sft.toml").write_text(RECIPE.replace(old, new, 1))
    with pytest.raises(TempolocError) as error:
        read_own(tmp_path / "sft.toml")
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("key", sorted(known_keys().fixed))
def test_a_key_may_have_the_value_that_changes_nothing(tmp_path: Path, key: str) -> None:
    value = json.dumps(known_keys().fixed[key][0])
    (tmp_path / "sft.toml").write_text(f'{key} = {value}\ncustom.dataset.path = "d"\npolicy.model_name_or_path = "m"\n')
    assert read_own(tmp_path / "sft.toml").model == "m"


def test_lora_without_a_rank_has_cosmos_rls(tmp_path: Path) -> None:
    (tmp_path / "sft.toml").write_text(RECIPE.replace("dp_shard_size = 8", "") + "[policy.lora]\nlora_alpha = 16\n")
    config = read_own(tmp_path / "sft.toml")
    assert (config.lora_rank, config.lora_alpha) == (8, 16.0)


def test_the_rate_is_cosmos_rls_curve() -> None:
    """Values by hand from its formula: warm-up over `warmup` steps inclusive, then decay that never reaches 0."""
    plain = TrainingFile(Path("d"), "m", warmup=3)
    assert [engine._learning_rate(plain, s, 8) for s in range(8)] == [0.0, 0.5, 1, 1, 1, 1, 1, 1]
    linear = replace(plain, decay="linear", floor=0.2)
    assert [engine._learning_rate(linear, s, 8) for s in range(2, 8)] == pytest.approx([1, 1, 0.84, 0.68, 0.52, 0.36])
    late = replace(plain, decay="cosine", decay_share=0.25)
    assert [engine._learning_rate(late, s, 8) for s in range(3, 8)] == pytest.approx([1, 1, 1, 1, 0.5])
    assert [engine._learning_rate(replace(plain, warmup=1), s, 2) for s in range(2)] == [1, 1]
    assert engine._learning_rate(replace(plain, warmup=20, warmup_from=0.5), 0, 4) == 0.5


# --- What is learned from


def models() -> list[Path]:
    own = data_dir() / "models" / "tempoloc-tiny"
    return [tiny_models.qwen25(), tiny_models.qwen3(), *([own] if (own / "model.safetensors").is_file() else [])]


def examples_of(samples: Sequence[Sample], folder: Path, side: int = 0) -> tuple[Examples, Any, Any]:
    model, processor, _ = load_model(folder, "cpu", "float32")
    ends = end_tokens(model, processor)
    return Examples(samples, SIM.root, without_weights(model), processor, None, ends, side), model, processor


@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize(
    ("index", "stamps", "fps", "side"),
    [(0, "pair", 8, 0), (15, "frame", 4, 0), (30, "none", 3, 0), (4, "frame", 4, 160)],
)
def test_training_input_is_evaluation_input(which: int, index: int, stamps: str, fps: float, side: int) -> None:
    """Ids, pixels and position ids of the prompt are those that `tempoloc localize` makes of the same clip."""
    if which >= len(models()):
        pytest.skip("data/models/tempoloc-tiny is not here")
    folder, prompt = models()[which], "tiny" if stamps == "pair" else "recipe"
    examples, _, _ = examples_of([sample(index, fps=fps, stamps=stamps, prompt=prompt)], folder, side)
    backend, clip = HFBackend(folder, device="cpu"), CLIPS[index]
    shown = View(stamps, side=side)  # type: ignore[arg-type]
    asked = Request(clip.clip, clip.task, clip.video_path(SIM.root), clip.labels, load_prompt(prompt), fps, shown)
    wanted = encode_request(asked, backend.net, backend.processor)
    found, n = examples[0].encoded, len(wanted.ids)
    assert found.ids[:n].tolist() == wanted.ids.tolist()
    assert found.positions[:, :n].tolist() == wanted.positions.tolist()
    assert found.pixels.equal(wanted.pixels)
    assert found.grid.equal(wanted.grid)
    after = found.positions[:, n:]
    assert (after == wanted.positions.max() + 1 + np.arange(after.shape[1])).all()


@pytest.mark.parametrize("which", range(3))
def test_labels_cover_the_answer_and_its_end_token_by_token(which: int) -> None:
    if which >= len(models()):
        pytest.skip("data/models/tempoloc-tiny is not here")
    one = sample(0, fps=4)
    examples, model, processor = examples_of([one], models()[which])
    example, tokenizer = examples[0], processor.tokenizer
    learned = example.labels != -100
    first = int(np.flatnonzero(learned)[0])
    assert not learned[:first].any()
    assert learned[first:].all()
    assert (example.labels[first:] == example.encoded.ids[first:]).all()
    assert tokenizer.decode(example.labels[first:-1]) == one.answer
    assert tokenizer.convert_ids_to_tokens(int(example.labels[-1])) == "<|im_end|>"
    assert int(example.labels[-1]) in end_tokens(model, processor)
    before = tokenizer.decode(example.encoded.ids[:first])
    assert before.endswith("<|im_start|>assistant\n")
    assert one.question in before
    for token, label in zip(example.encoded.ids, example.labels, strict=True):
        assert label in (-100, token)
    whole = processor.apply_chat_template(
        [*load_prompt("tiny").messages(one.labels), {"role": "assistant", "content": one.answer}], tokenize=False
    )
    assert tokenizer.encode(whole[whole.index("<answer>") :])[: learned.sum()] == example.labels[learned].tolist()


def test_a_template_that_ends_an_answer_otherwise_is_refused() -> None:
    examples, _, processor = examples_of([sample(0)], tiny_models.qwen25())
    prompt = load_prompt("tiny")
    with pytest.raises(TempolocError, match="no token at which the model stops"):
        _answer_ids(processor, replace(prompt, user="?"), "<answer>", [0])
    processor.chat_template = processor.chat_template.replace("{{ message['content'] }}", "{{ 'x' }}").replace(
        "{{ part['text'] }}", "{{ part['text'] | trim }}"
    )
    with pytest.raises(TempolocError, match="does not write an answer as it is given"):
        _answer_ids(processor, replace(prompt, user="?"), " <answer>", examples.ends)


@pytest.mark.parametrize("which", range(2))
def test_the_loss_is_the_models_own_on_all_logits(which: int) -> None:
    """Cut logits and left padding change nothing: the mean over rows one by one, weighted by their tokens."""
    import torch

    examples, model, _ = examples_of([sample(i, fps=2) for i in (0, 11, 30)], models()[which])
    rows = [examples[i] for i in range(3)]
    assert len({len(r.labels) for r in rows}) > 1
    batch = collate(rows, 0)
    total, count = 0.0, 0
    with torch.inference_mode():
        for row in rows:
            one = collate([row], 0) | {"logits_to_keep": 0}
            n = int((row.labels != -100).sum())
            total, count = total + float(model(**one).loss) * n, count + n
        labels = batch.pop("labels")
        found = answer_loss(model(**batch), labels)
        summed = answer_loss(model(**batch), labels, 2 * count)
    assert batch["input_ids"].shape[1] > batch["logits_to_keep"]
    assert float(found) == pytest.approx(total / count, rel=1e-4)
    assert float(summed) == pytest.approx(total / count / 2, rel=1e-4)


def test_too_long_samples_are_named_or_dropped() -> None:
    folder = tiny_models.qwen25()
    three = [sample(i, fps=2) for i in (0, 11, 30)]
    examples, _, _ = examples_of(three, folder)
    sizes = {s.clip: len(examples[i].labels) for i, s in enumerate(three)}
    longest = max(sizes, key=lambda c: sizes[c])
    limit = sizes[longest] - 1
    with pytest.raises(TempolocError, match=f"1 of 3 samples .*{longest} has {limit + 1}"):
        fitting(examples_of(three, folder)[0], limit, "error")
    kept, dropped = fitting(examples_of(three, folder)[0], limit, "drop")
    assert dropped == {longest: limit + 1}
    assert [s.clip for s in kept.samples] == [c for c in sizes if c != longest]
    with pytest.raises(TempolocError, match="3 of 3 samples are longer"):
        fitting(examples_of(three, folder)[0], 10, "drop")
    kept, dropped = fitting(examples_of(three, folder)[0], limit + 1, "error")
    assert (len(kept), dropped) == (3, {})


def test_a_missing_video_is_named_before_the_first_step() -> None:
    examples, _, _ = examples_of([sample(0, fps=2), replace(sample(1, fps=2), video="videos/none.mp4")],
                                 tiny_models.qwen25())  # fmt: skip
    with pytest.raises(TempolocError, match=f"1 of 2 samples cannot be made: {CLIPS[1].clip}: .*none.mp4"):
        fitting(examples, 4096, "error")


def test_the_splits_of_a_dataset(tmp_path: Path, dataset: Path) -> None:
    config = TrainingFile(dataset, "m")
    data = read_data(config)
    assert (len(data.train), len(data.validation), data.root) == (4, 2, dataset)
    assert read_data(replace(config, dataset=dataset / "train")) == data
    assert not read_data(replace(config, validate=False)).validation
    assert read_data(replace(config, fps=2.0)) == data
    with pytest.raises(TempolocError, match=r"is made for 2 fps, custom\.vision\.fps is 8"):
        read_data(replace(config, fps=8.0))
    alone = build(tmp_path / "alone", [sample(0)])
    assert not read_data(replace(config, dataset=alone)).validation
    with pytest.raises(TempolocError, match="no split validation"):
        read_data(replace(config, dataset=alone, validate=True))
    with pytest.raises(TempolocError, match="no such dataset"):
        read_data(replace(config, dataset=tmp_path / "none"))


# --- What is changed


def test_pixels_become_the_processors_own_limits(tmp_path: Path) -> None:
    folder = tiny_models.qwen25()
    model, processor, _ = load_model(folder, "cpu", "float32")
    assert not _set_frame_pixels(processor, None, None)
    assert _set_frame_pixels(processor, 3136, 6272)
    out = save_folder(model, processor, folder, tmp_path / "out", "card")
    _, again, _ = load_model(out, "cpu", "float32")
    assert (again.video_processor.size["shortest_edge"], again.video_processor.size["longest_edge"]) == (3136, 6272)
    with pytest.raises(TempolocError, match=r"both custom\.vision\.min_pixels and max_pixels"):
        _set_frame_pixels(processor, 10_000, None)
    _, third, _ = load_model(tiny_models.qwen3(), "cpu", "float32")
    with pytest.raises(TempolocError, match="total_pixels"):
        _set_frame_pixels(third, None, 6272)


@pytest.mark.parametrize("patterns", [["["], ["nothing"], ["^visual", "."]])
def test_patterns_that_freeze_nothing_or_everything_are_refused(patterns: list[str]) -> None:
    model, _, _ = load_model(tiny_models.qwen25(), "cpu", "float32")
    with pytest.raises(TempolocError, match="freeze_pattern"):
        _freeze(model, patterns)


def test_lora_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("tempoloc_nb.sft.learner.importlib", SimpleNamespace(import_module=missing))
    with pytest.raises(TempolocError, match=r"needs peft: pip install 'tempoloc_nb\[lora\]'"):
        start_model(TrainingFile(Path("d"), str(tiny_models.qwen25()), lora_rank=4), "cpu")


# --- The run


def losses(output: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]


def weights(folder: Path) -> dict[str, Any]:
    model, _, _ = load_model(folder, "cpu", "float32")
    found: dict[str, Any] = model.state_dict()
    return found


@pytest.fixture(scope="module")
def trained(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, engine._TrainingSummary]:
    """A run of six steps, and what it says."""
    folder = tmp_path_factory.mktemp("runs")
    path = write_config(folder / "sft.toml", dataset, folder / "whole", tiny_models.qwen25())
    return folder / "whole", engine.train(read_own(path), "cpu")


def test_training_lowers_the_validation_loss(trained: tuple[Path, engine._TrainingSummary]) -> None:
    output, summary = trained
    assert summary.before is not None
    assert summary.after is not None
    assert summary.after < 0.9 * summary.before
    lines = losses(output)
    assert [line["step"] for line in lines if "validation_loss" in line] == [0, 4, 6]
    assert [line["step"] for line in lines if "loss" in line] == [1, 2, 3, 4, 5, 6]
    assert lines[0]["validation_loss"] == pytest.approx(summary.before)
    record = json.loads((output / "run.json").read_text())
    assert (record["steps"], record["trained_on"], record["dropped"]) == (6, 4, {})
    assert record["calls"][0]["to_step"] == 6
    assert "validation loss" in str(summary)


ADAPTERS = '[policy.lora]\nr = 4\ntarget_modules = ["q_proj", "v_proj"]\n'


def need_peft() -> None:
    import_transformers()  # makes torchvision importable, which peft needs
    pytest.importorskip("peft", reason="peft is not installed")


def interrupt(path: Path, step: int) -> int:
    """Run the command until a step has been logged, and press Ctrl-C; returns its status."""
    plain = engine._Journal.add

    def stop(self: engine._Journal, at: int, steps: int, logs: Any) -> None:
        plain(self, at, steps, logs)
        if at == step:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine._Journal, "add", stop)
        return engine.main([str(path), "--device", "cpu"])


def same_run(a: Path, b: Path) -> bool:
    """Whether two runs have the same log, but for seconds, and bit-equal weights."""
    timeless = [[{k: v for k, v in line.items() if k != "seconds"} for line in losses(p)] for p in (a, b)]
    end = weights(b / "model")
    return timeless[0] == timeless[1] and all(w.equal(end[name]) for name, w in weights(a / "model").items())


def test_an_interrupted_run_ends_as_an_unbroken_one(
    dataset: Path, tmp_path: Path, trained: tuple[Path, engine._TrainingSummary], capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "run"
    path = write_config(tmp_path / "sft.toml", dataset, output, tiny_models.qwen25())
    assert interrupt(path, 5) == 130
    assert "interrupted; the same command goes on from checkpoint-4" in capsys.readouterr().err
    (output / "checkpoint-5").mkdir()  # a checkpoint that was cut off
    assert engine.main([str(path), "--device", "cpu"]) == 0
    assert same_run(trained[0], output)
    record = json.loads((output / "run.json").read_text())
    assert [(c["from_step"], c["to_step"]) for c in record["calls"]] == [(4, 6)]
    assert engine.train(read_own(path), "cpu").seconds == 0  # done: nothing is trained again
    other = write_config(tmp_path / "other.toml", dataset, output, tiny_models.qwen25(), "train.seed = 3")
    assert engine.main([str(other), "--device", "cpu"]) == 1
    assert "holds a run with other seed" in capsys.readouterr().err


def test_a_folder_is_of_one_training(dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "run"
    path = write_config(tmp_path / "sft.toml", dataset, output, tiny_models.qwen25())
    with sole_writer(output):
        assert engine.main([str(path), "--device", "cpu"]) == 1
    assert "run is being written by process" in capsys.readouterr().err
    (output / "model").mkdir(parents=True)
    assert engine.main([str(path), "--device", "cpu"]) == 1
    assert "run has a model that was not trained there" in capsys.readouterr().err


def test_adapters_are_merged_and_go_on(dataset: Path, tmp_path: Path) -> None:
    need_peft()
    runs = [tmp_path / "whole", tmp_path / "broken"]
    paths = [write_config(tmp_path / f"{r.name}.toml", dataset, r, tiny_models.qwen25(), ADAPTERS) for r in runs]
    summary = engine.train(read_own(paths[0]), "cpu")
    assert summary.before is not None
    assert summary.after is not None
    assert summary.after < summary.before
    start, end = weights(tiny_models.qwen25()), weights(summary.model)
    changed = {name for name, w in start.items() if not w.equal(end[name])}
    assert changed
    assert all("q_proj.weight" in name or "v_proj.weight" in name for name in changed)
    assert interrupt(paths[1], 5) == 130
    assert engine.main([str(paths[1]), "--device", "cpu"]) == 0
    assert same_run(*runs)


def test_frozen_weights_stay_and_all_others_change(dataset: Path, tmp_path: Path) -> None:
    path = write_config(
        tmp_path / "sft.toml", dataset, tmp_path / "run", tiny_models.qwen25(),
        'policy.freeze_pattern = ["^visual\\\\."]\ntrain.max_num_steps = 2\ntrain.optm_weight_decay = 0.1\n'
        "train.optm_warmup_start_factor = 1",
    )  # fmt: skip
    summary = engine.train(read_own(path), "cpu")
    assert summary.steps == 2
    start, end = weights(tiny_models.qwen25()), weights(summary.model)
    same = {name for name, w in start.items() if w.equal(end[name])}
    assert same == {name for name in start if ".visual." in name}


def test_a_trained_folder_is_evaluated_by_its_path(
    trained: tuple[Path, engine._TrainingSummary], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tempoloc_nb.cli.main import main

    manifest = tmp_path / "bench" / "manifest.jsonl"
    manifest.parent.mkdir()
    write_manifest(manifest, CLIPS[:2])
    (manifest.parent / "videos").symlink_to(SIM.root / "videos")
    model, answers = str(trained[1].model), tmp_path / "answers.jsonl"
    asked = ["--fps", "2", "--prompt", "tiny", "--stamps", "pair", "--max-new-tokens", "8"]
    for arguments in (
        ["localize", "--model", model, "-o", str(answers), *asked],
        ["evaluate", str(answers), "--resamples", "20"],
    ):
        with pytest.raises(SystemExit) as status:
            main([*arguments, "--benchmark", str(manifest)])
        assert status.value.code == 0
    told = capsys.readouterr().out
    assert "2 predictions written" in told
    assert "at 2 fps" in told


def test_the_card_names_the_model_that_is_asked_in_the_same_way(
    trained: tuple[Path, engine._TrainingSummary], tmp_path: Path
) -> None:
    start, out = tiny_models.qwen25(), trained[1].model
    assert (out / "README.md").read_text().startswith(f"---\nbase_model: {start.name}\n---\n")
    assert base_name("nvidia/Cosmos-Reason1-7B") == "Cosmos-Reason1-7B"
    model, processor, _ = load_model(start, "cpu", "float32")
    card = f"---\nbase_model: {base_name('tempoloc-tiny-base')}\n---\n"
    found = find_model(save_folder(model, processor, start, tmp_path / "model", card))
    assert found is not None
    assert (found.base, found.card.prompt, found.card.view.stamps) == ("tempoloc-tiny-base", "tiny", "pair")


def test_two_processes_train_one_model(dataset: Path, tmp_path: Path) -> None:
    path = write_config(
        tmp_path / "sft.toml", dataset, tmp_path / "run", tiny_models.qwen25(),
        "train.max_num_steps = 3\npolicy.parallelism.dp_replicate_size = 2",
    )  # fmt: skip
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    alone = [sys.executable, "-m", "tempoloc_nb.sft.train", str(path), "--device", "cpu"]
    told = subprocess.run(alone, capture_output=True, text=True, env=environment, check=False)
    assert told.returncode == 1
    assert "asks for 2 processes and there are 1: start torchrun --nproc-per-node 2" in told.stderr
    assert len(told.stderr.splitlines()) == 1
    both = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *alone[1:]]
    told = subprocess.run(both, capture_output=True, text=True, env=environment, check=False)
    assert told.returncode == 0, told.stderr[-2000:]
    lines = [line for line in losses(tmp_path / "run") if "loss" in line]
    assert [line["step"] for line in lines] == [1, 2, 3]
    assert lines[-1]["loss"] < lines[0]["loss"]
    assert told.stdout.count("step 1 of 3") == 1
    load_model(tmp_path / "run" / "model", "cpu", "float32")


@pytest.mark.parametrize("name", ["none.toml", "."])
def test_the_command_says_what_is_wrong_in_one_line(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert engine.main([str(tmp_path / name)]) == 1
    told = capsys.readouterr().err
    assert told.startswith("tempoloc: cannot read the training file")
    assert len(told.splitlines()) == 1


def test_a_damaged_record_is_one_line(dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text('{"engine": "transf')
    path = write_config(tmp_path / "sft.toml", dataset, tmp_path / "run", tiny_models.qwen25())
    assert engine.main([str(path), "--device", "cpu"]) == 1
    told = capsys.readouterr().err
    assert "run.json is not JSON" in told
    assert len(told.splitlines()) == 1


def test_a_log_line_cut_by_a_kill_does_not_stop_the_run_that_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    first = engine._Journal(log, 0)
    for step in (1, 2):
        first.add(step, 9, {"loss": 1.5})
    log.write_text(log.read_text() + '{"step": 3, "lo')
    assert [line["step"] for line in engine._Journal(log, 2).lines] == [1, 2]
    assert log.read_text().count("\n") == 2
    assert log.read_text().endswith("}\n")
