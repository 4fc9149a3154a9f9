"""The list of models: strictly read, complete, and a folder recognised by what it says itself."""

from __future__ import annotations

import csv
import json
import re
import shlex
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from places import ROOT
from tiny_models import qwen3, qwen25
from typer.testing import CliRunner

from tempoloc_nb.cli import models as cli_models
from tempoloc_nb.core import settings as settings_module
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.optional import import_transformers
from tempoloc_nb.core.settings import data_dir, settings
from tempoloc_nb.engines.server import ALL_FRAMES
from tempoloc_nb.models.ask import Sampling, load_prompt
from tempoloc_nb.models.locate import _recognise, ask_config, find_model, get_model, load_model
from tempoloc_nb.models.registry import (
    Calibration,
    ModelInfo,
    load_registry,
    model_rows,
    preset_rows,
    score_rows,
    serve_arguments,
    serve_line,
)
from tempoloc_nb.scoring.answers import parse_answer
from tempoloc_nb.study.experiments import load_experiments
from tempoloc_nb.video.budget import RECIPE_TOTAL_PIXELS, RULES
from tempoloc_nb.video.view import View

REGISTRY = load_registry()
MODELS = REGISTRY.models
EACH = pytest.mark.parametrize("info", MODELS.values(), ids=list(MODELS))
LABELS = ("grasping the red cube", "releasing the red cube")


def write_config(folder: Path, **config: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


# --- the list ---


def test_servers_are_started_as_our_client_needs_them() -> None:
    given = dict(zip(REGISTRY.common[::2], REGISTRY.common[1::2], strict=True))
    for field, value in ALL_FRAMES.items():
        assert json.loads(given[f"--{field.replace('_', '-')}"]) == value


def test_every_model_of_the_study_is_listed() -> None:
    assert {m.hub or m.name for m in MODELS.values()} == {
        "nvidia/Cosmos-Reason1-7B", "nvidia/Cosmos-Reason2-2B", "nvidia/Cosmos-Reason2-8B",
        "nvidia/Cosmos-Reason2-30B-A3B-v1.0", "Qwen/Qwen3-VL-2B-Instruct", "Qwen/Qwen3-VL-8B-Instruct",
        "Qwen/Qwen3-VL-30B-A3B-Instruct", "Qwen/Qwen3-VL-235B-A22B-Instruct", "TencentARC/TimeLens-8B",
        "nvidia/Cosmos3-Nano", "nvidia/Cosmos3-Super", "tempoloc-tiny", "tempoloc-tiny-base",
    }  # fmt: skip


@EACH
def test_facts_are_possible_and_have_sources(info: ModelInfo) -> None:
    assert info.sources
    assert all(": " in text for text in info.sources)
    assert (info.revision is None) != (info.no_revision is None)
    assert info.revision is None or re.fullmatch(r"[0-9a-f]{40}", info.revision)
    parameters, active = info.parameters or 0, info.active or 0
    assert 0 < active <= parameters
    assert (active < parameters) == (info.family == "qwen3_vl_moe")
    assert info.pixel_rule in RULES
    assert RULES[info.pixel_rule](1024, 1024, 8).patch == info.patch
    assert info.context > info.card.sampling.max_new_tokens
    assert info.licence


@EACH
def test_sizes_are_those_of_the_name(info: ModelInfo) -> None:
    """The numbers in a name are rounded, and a vision encoder is not always counted."""
    said = re.search(r"-(\d+)B(?:-A(\d+)B)?", info.name)
    if said is None:
        return
    assert 0.95 * int(said[1]) < (info.parameters or 0) / 1e9 < 1.25 * int(said[1])
    if said[2]:
        assert 0.95 * int(said[2]) < (info.active or 0) / 1e9 < 1.35 * int(said[2])


@EACH
def test_presets_can_be_asked(info: ModelInfo) -> None:
    for preset in (info.recipe, info.card):
        prompt = load_prompt(preset.prompt)
        assert prompt.log or "Event 2: releasing the red cube." in prompt.question(LABELS)
        assert preset.view == View(preset.view.stamps)
        assert preset.fps > 0
    assert ask_config(info.name, "recipe") == replace(info.recipe, model=info.name)
    assert ask_config(info.name, "card") == ask_config(info.name) == replace(info.card, model=info.name)
    with pytest.raises(TempolocError, match="unknown preset 'best': choose one of card, recipe"):
        ask_config(info.name, "best")
    assert info.card.view.stamps == info.stamps
    system = load_prompt(info.card.prompt).system
    assert ("bottom of each frame" in system or "bottom of the video" in system) == (info.stamps != "none")


@EACH
def test_the_recipe_asks_all_alike(info: ModelInfo) -> None:
    asked = info.recipe
    shown = (asked.fps, asked.total_pixels, asked.prompt, asked.view.stamps)
    assert shown == (8, RECIPE_TOTAL_PIXELS, "recipe", "frame")
    assert asked.sampling == Sampling(0.6, 0.95, 1.15, 4096)


def test_the_card_of_cosmos_reason1() -> None:
    info = get_model("Cosmos-Reason1-7B")
    assert (info.card.fps, info.card.sampling) == (4, Sampling(0.6, 0.95, 1.05, 4096))
    suffix = "<think>\nyour reasoning\n</think>\n\n<answer>\nyour answer\n</answer>."
    system = load_prompt(info.card.prompt).system
    assert system.endswith(f"Answer the question in the following format: {suffix}")


def test_our_own_models_are_asked_as_the_experiments_are() -> None:
    for name, experiment in (("tempoloc-tiny", "sft"), ("tempoloc-tiny-base", "base")):
        card, declared = get_model(name).card, load_experiments()[experiment].ask
        assert declared.model == name
        assert (card.fps, card.view, card.prompt, card.sampling) == (
            declared.fps, declared.view, declared.prompt, declared.sampling,
        )  # fmt: skip
        assert card.total_pixels == settings().pixels.total_pixels


@pytest.mark.parametrize(
    ("prompt", "answer"),
    [
        ("card", "<think>\nNear.\n</think>\n\n<answer>\nEvent 1: <1.25> <3.5> {0}\nEvent 2: 3.5 - 6.0 {1}\n</answer>"),
        (
            "card-json-think",
            '<think>\nNear 1 s.\n</think>\n\n```json\n[{{"start": 1.25, "end": 3.5, "caption": "{0}"}},\n'
            ' {{"start": 3.5, "end": "6.0", "caption": "{1}"}}]\n```',
        ),
        (
            "card-json",
            '[{{"start": 1.25, "end": 3.5, "caption": "{0}"}}, {{"start": 3.5, "end": 6.0, "caption": "{1}"}}]',
        ),
    ],
)
def test_what_a_card_asks_for_can_be_read(prompt: str, answer: str) -> None:
    assert ("json" in load_prompt(prompt).user) == ("json" in prompt)
    assert ("<think>" in load_prompt(prompt).messages(LABELS)[-1]["content"][-1]["text"]) == ("think" in prompt)
    found = parse_answer(answer.format(*LABELS), LABELS, 6.4)
    assert [(e.status, e.start, e.end) for e in found.events] == [("ok", 1.25, 3.5), ("ok", 3.5, 6.0)]


# --- the file ---


def edited(tmp_path: Path, old: str, new: str) -> Path:
    text = (data_dir() / "models.toml").read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "models.toml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[serve]", "[server]", r"models\.toml has the unknown key 'server'; did you mean 'serve'\?"),
        ("[presets.recipe]", "[presets]\nrecipe = 1\n[presets.more]", r"\[presets\.recipe\]: 1 is not a table"),
        ("fps = 8", "fps = 8\nframes = 8", r"\[presets\.recipe\] has the unknown key 'frames'; known keys: model,"),
        ("fps = 8\n", "", r"\[presets\.recipe\] lacks 'fps'"),
        ("fps = 8", 'fps = "8"', r"\[presets\.recipe\]: fps = \"8\" is not a number"),
        ("temperature = 0.6", "temperature = -1", r"\[presets\.recipe\], sampling: temperature = -1: should"),
        ('stamps = "frame"', 'stamps = "each"', r"\[presets\.recipe\], view: stamps = \"each\" is none of 'none',"),
        (
            'stamps = "frame"',
            'stamps = ["frame"]',
            r"\[presets\.recipe\], view: stamps = \[\"frame\"\] is none of 'none',",
        ),
        ("patch = 14", "patch = 0", r"\[families\.qwen2_5_vl\]: patch = 0: should be greater than 0"),
        ("patch = 14", "patch = true", r"\[families\.qwen2_5_vl\]: patch = true is not a whole number"),
        ('boundary_is = "start"', 'boundary_is = "middle"', "boundary_is = \"middle\" is none of 'start' or 'end'"),
        ('family = "qwen2_5_vl"', 'family = "qwen9"', r"\[models\.Cosmos-Reason1-7B\]: unknown family 'qwen9'"),
        ('card = "cosmos-reason2"', 'card = "none"', r"\[models\.Cosmos-Reason2-2B\]: no \[presets\.none\] in"),
        ('serve = ["--max-model-len", "16384"]', 'serve = ["--max-model-len", 16384]', r"serve: 1 = 16384 is not text"),
        ("no_revision = ", "note = ", r"Cosmos-Reason2-30B-A3B\] needs either a revision or the reason"),
        ('source = "https://arxiv', 'source = "arxiv', r"VANTAGE-Temporal.*source = \"arxiv"),
        ("Cosmos3-Edge = 39.51", "Cosmos3-Edge = 3951", r"Cosmos3-Edge = 3951: should be less than or equal to 100"),
        ("[models.", "[[models.", r"models\.toml is not valid TOML"),
    ],
)
def test_a_wrong_file_is_an_error_that_names_it(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(TempolocError, match=message) as caught:
        load_registry(edited(tmp_path, old, new))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TempolocError, match=r"cannot read the models file models\.toml"):
        load_registry(tmp_path / "models.toml")


# --- folders ---


@pytest.mark.parametrize(("make", "family", "patch"), [(qwen25, "qwen2_5_vl", 14), (qwen3, "qwen3_vl", 16)])
def test_a_saved_model_is_recognised(make: Callable[[], Path], family: str, patch: int) -> None:
    found = _recognise(make())
    assert (found.family, found.patch, found.merge, found.token_side) == (family, patch, 2, 2 * patch)
    model, _, _ = load_model(make(), "cpu", "float32")
    assert found.context == model.config.text_config.max_position_embeddings == 4096
    assert found.parameters == found.active == sum(p.numel() for p in model.parameters())
    assert found.card_name == REGISTRY.families[family].card
    assert (found.hub, found.revision, found.path) == (None, None, str(make()))


CONFIGS = {
    "qwen2_5_vl": "Qwen2_5_VLConfig", "qwen3_vl": "Qwen3VLConfig", "qwen3_vl_moe": "Qwen3VLMoeConfig",
    "cosmos3_omni": "Cosmos3OmniConfig",
}  # fmt: skip


@pytest.mark.parametrize("family", REGISTRY.families.values(), ids=list(REGISTRY.families))
def test_a_family_has_the_defaults_of_transformers(family: Any, tmp_path: Path) -> None:
    config = getattr(import_transformers(), CONFIGS[family.name], None)
    if config is None:
        pytest.skip(f"this transformers has no {CONFIGS[family.name]}")
    vision = config().vision_config
    assert (vision.patch_size, vision.spatial_merge_size) == (family.patch, family.merge)
    found = _recognise(write_config(tmp_path / "bare", model_type=family.name))
    assert (found.patch, found.merge, found.context) == (family.patch, family.merge, family.context)
    assert (found.stamps, found.boundary_is, found.card_name) == (family.stamps, family.boundary_is, family.card)
    assert (found.parameters, found.active, found.licence, found.serve) == (None, None, None, ())


def test_configurations_of_both_shapes(tmp_path: Path) -> None:
    """Older ones are flat and name the patch otherwise; newer ones have a part for text."""
    vision = {"spatial_patch_size": 28, "spatial_merge_size": 4}
    flat = write_config(
        tmp_path / "flat", model_type="qwen2_5_vl", max_position_embeddings=999, vision_config=vision, text_config=None
    )
    assert (_recognise(flat).patch, _recognise(flat).merge, _recognise(flat).context) == (28, 4, 999)
    nested = write_config(
        tmp_path / "nested", model_type="qwen3_vl", max_position_embeddings=1,
        text_config={"max_position_embeddings": 77}, vision_config={"patch_size": 8},
    )  # fmt: skip
    assert (_recognise(nested).patch, _recognise(nested).context) == (8, 77)


BASES = {
    "its config": ({"_name_or_path": "nvidia/Cosmos-Reason2-8B"}, None),
    "its text config": ({"text_config": {"_name_or_path": "nvidia/Cosmos-Reason2-8B"}}, None),
    "a path": ({"_name_or_path": "/data/models/Cosmos-Reason2-8B"}, None),
    "the cache": ({"_name_or_path": "/somewhere/hub/models--nvidia--Cosmos-Reason2-8B/snapshots/0123abc"}, None),
    "its card": ({}, "---\nlicense: mit\nbase_model: nvidia/Cosmos-Reason2-8B\ntags: [a]\n---\n# Mine\n"),
    "its card, as a list": ({}, '---\nbase_model:\n  - "nvidia/Cosmos-Reason2-8B"\n---\n'),
    "its card, the config being vague": ({"_name_or_path": "out/stage1"}, "---\nbase_model: Cosmos-Reason2-8B\n---\n"),
}


@pytest.mark.parametrize(("config", "card"), BASES.values(), ids=list(BASES))
def test_a_fine_tuned_model_is_asked_as_its_base(config: dict[str, Any], card: str | None, tmp_path: Path) -> None:
    folder = write_config(tmp_path / "mine", model_type="qwen3_vl", **config)
    if card is not None:
        (folder / "README.md").write_text(card, encoding="utf-8")
    base, found = get_model("Cosmos-Reason2-8B"), _recognise(folder)
    assert (found.name, found.note) == ("mine", "made from Cosmos-Reason2-8B")
    assert (found.card, found.stamps, found.licence, found.serve) == (base.card, base.stamps, base.licence, base.serve)
    assert (found.hub, found.revision) == (None, None)


@pytest.mark.parametrize(
    ("config", "card"),
    [
        ({"_name_or_path": "nvidia/Cosmos-Reason1-7B"}, None),  # another architecture
        ({"_name_or_path": "nvidia/Cosmos-Reason2-8B-distilled"}, None),
        ({}, "# base_model: nvidia/Cosmos-Reason2-8B\n"),  # no front matter
        ({}, "---\nlicense: mit\n---\nbase_model: nvidia/Cosmos-Reason2-8B\n"),
    ],
)
def test_other_names_are_no_base(config: dict[str, Any], card: str | None, tmp_path: Path) -> None:
    folder = write_config(tmp_path / "mine", model_type="qwen3_vl", **config)
    if card is not None:
        (folder / "README.md").write_text(card, encoding="utf-8")
    assert _recognise(folder).card_name == "qwen3-vl"
    assert _recognise(folder).note is None


def test_a_mixture_of_experts_uses_a_part(tmp_path: Path) -> None:
    """By hand: 2 layers of 4 experts with 3 matrices of 8 × 16, of which 1 is used; the rest is always used."""
    folder = shutil.copytree(qwen3(), tmp_path / "moe")
    whole = _recognise(folder).parameters
    assert whole is not None
    text = {
        "num_experts": 4, "num_experts_per_tok": 1, "hidden_size": 8, "moe_intermediate_size": 16,
        "num_hidden_layers": 2, "max_position_embeddings": 64,
    }  # fmt: skip
    write_config(folder, model_type="qwen3_vl_moe", text_config=text)
    found = _recognise(folder)
    assert (found.parameters, found.active) == (whole, whole - 3 * (3 * 8 * 16) * 2)


def test_wrong_folders(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(TempolocError, match=r"empty has no config\.json: give a folder written by save_pretrained"):
        _recognise(tmp_path / "empty")
    with pytest.raises(TempolocError, match="model type 'llava' is none of qwen2_5_vl, qwen3_vl, qwen3_vl_moe"):
        _recognise(write_config(tmp_path / "llava", model_type="llava"))
    with pytest.raises(TempolocError, match="model type None is none of"):
        _recognise(write_config(tmp_path / "diffuser"))
    with pytest.raises(TempolocError, match=r"config\.json: patch = \"14\" is not a whole number"):
        _recognise(write_config(tmp_path / "odd", model_type="qwen3_vl", vision_config={"patch_size": "14"}))
    broken = write_config(tmp_path / "broken", model_type="qwen3_vl")
    (broken / "config.json").write_text("{", encoding="utf-8")
    with pytest.raises(TempolocError, match=r"config\.json is not JSON"):
        _recognise(broken)
    cut = shutil.copytree(qwen3(), tmp_path / "cut")
    (cut / "model.safetensors").write_bytes((cut / "model.safetensors").read_bytes()[:-1])
    with pytest.raises(TempolocError, match=r"model\.safetensors is damaged"):
        _recognise(cut)


@pytest.mark.parametrize("name", ["tempoloc-tiny", "tempoloc-tiny-base"])
def test_the_shipped_models_are_as_listed(name: str) -> None:
    if not (data_dir() / "models" / name / "model.safetensors").is_file():
        pytest.skip(f"{name} is not in this checkout")
    found = get_model(name)
    assert found.folder == data_dir() / "models" / name
    listed = replace(MODELS[name], folder=found.folder, no_revision=found.no_revision, sources=found.sources)
    assert found == listed


# --- names ---


def test_models_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, info in MODELS.items():
        if info.hub:
            assert find_model(name) == find_model(info.hub) == info
            assert info.path == info.hub
    assert find_model("someone/surprise") is None
    assert find_model("") is None
    assert find_model("Qwen/Qwen3-VL-8B") is None
    with pytest.raises(TempolocError, match=r"unknown model 'someone/surprise': choose one of .*-7B, .* folder"):
        get_model("someone/surprise")
    write_config(tmp_path / "Qwen" / "Qwen3-VL-8B-Instruct", model_type="qwen3_vl", max_position_embeddings=5)
    here = find_model("Qwen/Qwen3-VL-8B-Instruct")  # a download of it
    assert here is not None
    assert (here.context, here.path) == (5, "Qwen/Qwen3-VL-8B-Instruct")
    assert here.card == MODELS["Qwen3-VL-8B-Instruct"].card


def test_a_data_folder_of_ones_own(project: Path) -> None:
    assert find_model("Qwen/Qwen3-VL-8B-Instruct") is None
    shutil.copy(ROOT / "data" / "models.toml", project / "data")
    tiny = find_model("tempoloc-tiny")
    assert tiny is not None
    assert tiny.path == str(project / "data" / "models" / "tempoloc-tiny")
    write_config(project / "data" / "models" / "tempoloc-tiny", model_type="qwen2_5_vl")
    assert get_model("tempoloc-tiny").card_name == "tiny"
    assert get_model("tempoloc-tiny").note is None
    assert settings_module.data_dir() == project / "data"


# --- serving ---


@EACH
def test_serve_lines_have_what_the_client_needs(info: ModelInfo) -> None:
    words = serve_arguments(info, media="my videos")
    assert words[:2] == ["vllm", "serve"]
    assert words[-2:] == ["--allowed-local-media-path", "my videos"]
    assert words[words.index("--generation-config") + 1] == "vllm"
    assert json.loads(words[words.index("--media-io-kwargs") + 1]) == {"video": {"fps": 30, "num_frames": -1}}
    if info.hub:
        assert words[2] == info.hub
        assert ("--revision" in words) == (info.revision is not None)
    else:
        assert words[words.index("--served-model-name") + 1] == info.name
    assert ("fp8" in words) == info.name.startswith("Qwen3-VL")
    assert shlex.split(serve_line(info, media="my videos").replace("\\\n", "")) == words


def test_a_model_that_is_not_listed_is_served_as_all_are(project: Path) -> None:
    shutil.copy(ROOT / "data" / "models.toml", project / "data")
    words = serve_arguments("someone/surprise", media="here")
    assert words == ["vllm", "serve", "someone/surprise", *REGISTRY.common, "--allowed-local-media-path", "here"]
    assert serve_arguments("nvidia/Cosmos-Reason1-7B") == serve_arguments(MODELS["Cosmos-Reason1-7B"])
    (project / "data" / "models.toml").unlink()  # somebody's own data folder
    assert serve_arguments("a/b") == ["vllm", "serve", "a/b", "--allowed-local-media-path", "."]


def test_gpus() -> None:
    """The recipe's eight are one copy of its largest model; more GPUs are more copies."""
    largest, small = get_model("Qwen3-VL-235B-A22B-Instruct"), get_model("Cosmos-Reason1-7B")
    assert "--tensor-parallel-size 8 --mm-encoder-tp-mode data --quantization fp8" in " ".join(serve_arguments(largest))
    assert "--data-parallel-size" not in serve_arguments(largest, 8)
    assert "--tensor-parallel-size 8 --data-parallel-size 2" in " ".join(serve_arguments(largest, 16))
    assert not {"--tensor-parallel-size", "--data-parallel-size"} & set(serve_arguments(small))
    assert "--data-parallel-size 8" in " ".join(serve_arguments(small, 8))
    assert "--tensor-parallel-size" not in serve_arguments(small, 8)
    for info, gpus in ((largest, 4), (largest, 12), (small, 0), (small, -1)):
        with pytest.raises(TempolocError, match=f"give a multiple of that, not {gpus}"):
            serve_arguments(info, gpus)


# --- tables and the command ---


def run(*arguments: str) -> str:
    import typer

    app = typer.Typer()
    app.command()(cli_models.models)
    done = CliRunner().invoke(app, list(arguments))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def test_tables() -> None:
    rows = model_rows(MODELS.values())
    assert [r["model"] for r in rows] == list(MODELS)
    assert next(r for r in rows if r["model"] == "tempoloc-tiny")["parameters"] == "7.85 M"
    assert next(r for r in rows if r["model"] == "Qwen3-VL-235B-A22B-Instruct")["active"] == "22.8 G"
    assert {r["preset"] for r in preset_rows(MODELS.values())} == set(REGISTRY.presets) - {"study", "tiny-asked"}
    assert [r["preset"] for r in preset_rows(MODELS.values(), "recipe")] == ["recipe"]


def test_the_command_lists_all_models() -> None:
    lines, benchmarks, scores = (part.splitlines() for part in run().split("\n\n"))
    assert len(lines) == 1 + len(MODELS)
    for line, info in zip(lines[1:], MODELS.values(), strict=True):
        assert line.startswith(info.name)
        assert str(info.context) in line
    assert len({line.rindex("  ") for line in lines}) == 1  # columns
    assert [line.split()[0] for line in benchmarks[1:]] == list(REGISTRY.published)
    assert all(told.source in line for line, told in zip(benchmarks[1:], REGISTRY.published.values(), strict=True))
    assert max(map(len, [*lines, *benchmarks, *scores])) <= 120  # as wide as the site's column
    assert [line.split()[:3] for line in scores[1:]] == [
        [benchmark, model, f"{score:.1f}"]
        for benchmark, told in REGISTRY.published.items() for model, score in told.scores.items()
    ]  # fmt: skip


def test_published_scores_have_a_source_and_say_who_is_listed(tmp_path: Path) -> None:
    rows = score_rows(REGISTRY)
    assert all(row["source"].startswith("https://") and row["of"] for row in rows)
    assert {row["model"] for row in rows if row["listed"] == "yes"} <= set(MODELS)
    assert {row["model"] for row in rows if row["listed"] == "no"} == {"Cosmos3-Edge", "Gemma-4-E2B"}
    told = {row["benchmark"]: row["mIoU (%)"] for row in score_rows(REGISTRY, "TimeLens-8B")}
    assert told == {"Charades-TimeLens": "55.2", "ActivityNet-TimeLens": "53.2", "QVHighlights-TimeLens": "65.5"}
    assert "published    mIoU 51.9 % on VANTAGE-Temporal" in run("Cosmos3-Super")
    assert json.loads(run("--json", "Cosmos3-Super"))["published"] == score_rows(REGISTRY, "Cosmos3-Super")
    whole = (data_dir() / "models.toml").read_text(encoding="utf-8")
    (tmp_path / "models.toml").write_text(whole[: whole.index("[published.")], encoding="utf-8")
    assert score_rows(load_registry(tmp_path / "models.toml")) == []  # a list of one's own


def test_the_command_describes_one_model(tmp_path: Path) -> None:
    said = run("Qwen/Qwen3-VL-235B-A22B-Instruct", "--gpus", "16", "--media", "videos")
    assert "--data-parallel-size 2" in said
    assert said.rstrip().endswith("--allowed-local-media-path videos")
    assert all(f"source       {text}" in said for text in MODELS["Qwen3-VL-235B-A22B-Instruct"].sources)
    assert "none: the recipe's scripts name it" in run("Cosmos-Reason2-30B-A3B")
    folder = write_config(tmp_path / "mine", model_type="qwen3_vl", _name_or_path="Qwen/Qwen3-VL-2B-Instruct")
    said = run(str(folder))
    assert "made from Qwen3-VL-2B-Instruct" in said
    assert "parameters   ?" in said


def test_the_command_in_json(tmp_path: Path) -> None:
    said = json.loads(run("--json"))
    assert [m["name"] for m in said] == list(MODELS)
    one = json.loads(run("--json", "Cosmos-Reason1-7B", "--gpus", "2"))
    assert one["recipe"]["sampling"]["repetition_penalty"] == 1.15
    assert "--data-parallel-size 2" in one["serve_line"]
    folder = write_config(tmp_path / "mine", model_type="qwen3_vl")
    assert json.loads(run("--json", str(folder)))["folder"] == str(folder)


def test_the_command_on_an_unknown_model() -> None:
    with pytest.raises(TempolocError, match="unknown model 'gpt-2': choose one of"):
        run("gpt-2")


def test_what_a_model_was_trained_on_is_said_of_it_alone(tmp_path: Path) -> None:
    tiny = get_model("tempoloc-tiny")
    assert tiny.trained is not None
    assert (tiny.trained.longest_s, MODELS["tempoloc-tiny"].trained) == (37, tiny.trained)
    lines = cli_models._model_lines(tiny)
    assert any(line.startswith("trained on") and line.endswith("clips of at most 37 s") for line in lines)
    assert any(line.startswith("caution") and "what its training never shows" in line for line in lines)
    assert any(line.startswith('confidence   measured on the benchmark "which": at most') for line in lines)
    copy = shutil.copytree(tiny.path, tmp_path / "tempoloc-tiny")
    assert get_model(copy).trained == tiny.trained
    weights = (copy / "model.safetensors").read_bytes()  # as if trained further
    (copy / "model.safetensors").write_bytes(weights[:-1] + bytes([weights[-1] ^ 1]))
    assert get_model(copy).trained is None
    assert all(m.trained is None for name, m in MODELS.items() if not name.startswith("tempoloc"))
    assert not any(line.startswith("trained on") for line in cli_models._model_lines(MODELS["Qwen3-VL-2B-Instruct"]))


def test_a_confidence_is_what_study_14_measured() -> None:
    measured = MODELS["tempoloc-tiny"].trained
    assert measured is not None
    assert measured.calibration is not None
    text = (data_dir() / "results" / "14_confidence" / "calibration.csv").read_text()
    table = list(csv.DictReader(text.splitlines()))
    assert [float(row["agree"]) for row in table] == list(measured.calibration.agree)
    assert [round(float(row["calibrated_pct"]) / 100, 3) for row in table] == list(measured.calibration.right)
    assert list(measured.calibration.right) == sorted(measured.calibration.right)


def test_a_confidence_between_two_levels_is_between_their_shares() -> None:
    calibration = Calibration("b", (0.2, 0.6, 1.0), (0.0, 0.1, 0.5))
    assert [calibration.confidence(a) for a in (0.0, 0.2, 0.4, 1.0)] == pytest.approx([0.0, 0.0, 0.05, 0.5])
    assert str(calibration) == 'measured on the benchmark "b": at most 50%, where all trials agree'
