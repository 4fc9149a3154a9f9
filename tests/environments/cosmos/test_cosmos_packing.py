"""Shipped clips through cosmos-rl's own packers: what it would learn from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import packed_models
import pytest
from cosmos_rl.dispatcher.data.packer import HFVLMDataPacker, Qwen2_5_VLM_DataPacker
from cosmos_rl.dispatcher.data.packer.base import BaseDataPacker
from cosmos_rl.policy.config import Config

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.sft.cosmos.entry import _dataset_of, _validation_of
from tempoloc_nb.sft.dataset import Sample
from tempoloc_nb.sft.facts import data_facts, lengths_of, model_facts
from tempoloc_nb.sft.training_file import make_config, nest, training_file

IGNORED = -100


def config_of(dataset: Path, model: Path, **changes: Any) -> tuple[dict[str, Any], Config]:
    """A configuration, flat and as cosmos-rl has it."""
    flat = make_config(changes={
        "custom.dataset.path": str(dataset), "policy.model_name_or_path": str(model), "policy.model_max_length": 8192,
    } | changes)  # fmt: skip
    return flat, Config.from_dict(nest(flat))


@pytest.fixture(scope="module")
def packer(model: Path, dataset: tuple[Path, list[Sample]]) -> Any:
    """The packer that cosmos-rl chooses for Qwen2.5-VL, as it sets it up."""
    made = BaseDataPacker.get_default_data_packer("qwen2_5_vl")
    assert isinstance(made, Qwen2_5_VLM_DataPacker)
    made.setup(config_of(dataset[0], model)[1])
    return made


def test_labels_are_the_assistants_tokens_and_no_others(
    packer: Any, model: Path, dataset: tuple[Path, list[Sample]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a run may start anywhere
    found = _dataset_of(config_of(dataset[0], model)[1])
    assert len(found) == 3
    for sample, messages in zip(dataset[1], (found[i] for i in range(3)), strict=False):
        made = packer.sft_process_sample(messages)
        ids, labels = made["input_ids"], made["label_ids"]
        learned = [i for i, label in enumerate(labels) if label != IGNORED]
        assert learned == list(range(learned[0], learned[-1] + 1))
        assert all(ids[i] == labels[i] for i in learned)
        assert packer.tokenizer.decode([ids[i] for i in learned]) == sample.answer + "<|im_end|>"
        before = packer.tokenizer.decode(ids[: learned[0]])
        assert before.endswith("<|im_start|>assistant\n")
        assert sample.question in before
        assert sample.system in before
        assert packer.tokenizer.decode(ids[learned[-1] + 1 :]).strip() == ""
        assert ids.count(packer.video_token_id) == int(made["video_grid_thw"].prod()) // 4


@pytest.mark.parametrize(
    "vision",
    [{}, {"custom.vision.fps": 4.0}, {"custom.vision.max_pixels": 112896}, {"custom.vision.min_pixels": 200704}],
)
def test_the_check_counts_the_packers_tokens(
    packer: Any, model: Path, dataset: tuple[Path, list[Sample]], vision: dict[str, Any]
) -> None:
    flat, config = config_of(dataset[0], model, **vision)
    file = training_file(flat)
    counted = lengths_of(data_facts(file)[0], model_facts(file), file)
    found = _dataset_of(config)
    assert counted.total == tuple(len(packer.sft_process_sample(found[i])["input_ids"]) for i in range(len(found)))


def test_the_sampling_rate_reaches_the_positions(packer: Any, model: Path, dataset: tuple[Path, list[Sample]]) -> None:
    """A frame pair spans 2 / fps seconds, at most the source's rate, and there are so many pairs, of an even number."""
    for fps in (2.0, 8.0):
        found = _dataset_of(config_of(dataset[0], model, **{"custom.vision.fps": fps})[1])
        for i, sample in enumerate(dataset[1][:3]):
            made, rate = packer.sft_process_sample(found[i]), min(fps, sample.source_fps)
            pairs = int(made["video_grid_thw"][0][0])
            assert pairs == pytest.approx(sample.duration * rate / 2, abs=1)
            assert float(made["second_per_grid_ts"][0]) == pytest.approx(2 / rate, rel=1 / pairs)  # one pair fewer


def test_a_batch_pads_labels_and_a_short_context_cuts_the_answer_off(
    packer: Any, model: Path, dataset: tuple[Path, list[Sample]]
) -> None:
    found = _dataset_of(config_of(dataset[0], model)[1])
    made = [packer.sft_process_sample(found[i]) for i in range(3)]
    longest = packer.sft_compute_max_len(made)
    batch = packer.sft_collate_fn(made, computed_max_len=longest, ignore_label_id=IGNORED)
    assert tuple(batch["label_ids"].shape) == (3, longest)
    for row, one in zip(batch["label_ids"].tolist(), made, strict=True):
        assert row == one["label_ids"] + [IGNORED] * (longest - len(row[: len(one["label_ids"])]))
    answer = min(next(i for i, n in enumerate(m["label_ids"]) if n != IGNORED) for m in made)
    cut = packer.sft_collate_fn(made, computed_max_len=answer, ignore_label_id=IGNORED)
    assert (cut["label_ids"] == IGNORED).all()  # what the check says: such samples teach nothing


def test_qwen3_videos_are_packed_too(dataset: tuple[Path, list[Sample]], tmp_path: Path) -> None:
    """cosmos-rl has no packer of its own for the dense models, and takes the general one."""
    with pytest.raises(ValueError, match="qwen3_vl"):
        BaseDataPacker.get_default_data_packer("qwen3_vl")
    config = config_of(dataset[0], packed_models.qwen3(tmp_path / "qwen3"))[1]
    packer = HFVLMDataPacker()
    packer.setup(config)
    made = packer.sft_process_sample(_dataset_of(config)[0])
    learned = [n for n in made["label_ids"] if n != IGNORED]
    assert dataset[1][0].answer in packer.tokenizer.decode(learned)
    assert "Event 1: <start time>" not in packer.tokenizer.decode(learned)


def test_validation_is_the_validation_split_where_it_is_asked_for(
    model: Path, dataset: tuple[Path, list[Sample]]
) -> None:
    off, on = (config_of(dataset[0], model, **{"validation.enable": enabled})[1] for enabled in (False, True))
    assert _validation_of(off) is None
    found = _validation_of(on)
    assert found is not None
    assert [found[0][-1]["content"]] == [dataset[1][-1].answer]
    split = _validation_of(config_of(dataset[0] / "train", model, **{"validation.enable": True})[1])
    assert split is not None
    assert [split[0][-1]["content"], len(split)] == [dataset[1][-1].answer, 1]


def test_a_wrong_path_or_split_is_one_line(model: Path, dataset: tuple[Path, list[Sample]], tmp_path: Path) -> None:
    with pytest.raises(TempolocError, match="no such dataset"):
        _dataset_of(config_of(tmp_path / "none", model)[1])
    with pytest.raises(TempolocError, match="no split 'test', only train, validation"):
        _dataset_of(config_of(dataset[0], model)[1], "test")


def test_the_lora_preset_trains_the_language_models_attention_alone(model: Path) -> None:
    """cosmos-rl's own injection on a real model, and the preset's pattern on its parameters' names."""
    import re

    from cosmos_rl.policy.lora.plugin import inject_lora_adapters, mark_only_lora_as_trainable
    from transformers import AutoModelForImageTextToText

    config = Config.from_dict(nest(make_config(presets=["lora"])))
    made = AutoModelForImageTextToText.from_pretrained(model)
    made, replaced = inject_lora_adapters(made, config.policy.lora)
    mark_only_lora_as_trainable(made, config.policy.lora)
    layers = made.config.text_config.num_hidden_layers
    assert len(replaced) == 4 * layers
    assert not any("visual" in name for name in replaced)
    trained = [name for name, p in made.named_parameters() if p.requires_grad]
    assert len(trained) == 2 * len(replaced)
    (pattern,) = config.policy.freeze_pattern
    frozen = [name for name, _ in made.named_parameters() if re.search(pattern, name)]
    assert frozen
    assert not set(frozen) & set(trained)
    assert all("visual" in n for n in frozen)
