"""A plan names what is there, what is missing and about how long it takes, and loads no model."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from places import ROOT
from tiny_models import cache_model, qwen3, qwen25
from video_clips import write_clip

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.models import estimate as planning
from tempoloc_nb.models.estimate import coverage, estimate_hours, format_hours, model_size, plan_localize
from tempoloc_nb.models.locate import load_model

RECIPE = load_benchmark("recipe")
SIM = load_benchmark("sim")


@pytest.mark.parametrize(
    ("name", "parameters", "active"),
    [
        ("nvidia/Cosmos-Reason1-7B", 8.29, 8.29),
        ("Qwen/Qwen2.5-VL-72B-Instruct", 72, 72),
        ("Qwen/Qwen3-VL-30B-A3B-Instruct", 31.1, 3.89),
        ("Qwen/Qwen3-VL-235B-A22B-Thinking-FP8", 235, 22),
        ("someone/model-0.5b", 0.5, 0.5),
        ("someone/gpt4B2", None, None),
        ("someone/B52", None, None),
    ],
)
def test_sizes_by_name(name: str, parameters: float | None, active: float | None) -> None:
    size = model_size(name)
    assert (size is None) == (parameters is None)
    if size is not None:
        assert (size.parameters / 1e9, size.active / 1e9) == pytest.approx((parameters, active), rel=2e-3)


@pytest.mark.parametrize("make", [qwen25, qwen3])
def test_sizes_of_folders_are_those_of_the_loaded_model(make: Callable[[], Path]) -> None:
    model, _, _ = load_model(make(), "cpu", "float32")
    size = model_size(make())
    assert size is not None
    assert size.parameters == size.active == sum(p.numel() for p in model.parameters())
    assert size.layers == model.config.text_config.num_hidden_layers


def test_a_mixture_of_experts_uses_a_part(tmp_path: Path) -> None:
    """By hand: 2 layers of 4 experts with 3 matrices of 8 × 16, of which 1 is used, and 100 other parameters."""
    folder = shutil.copytree(qwen3(), tmp_path / "moe")
    text = {
        "hidden_size": 8, "moe_intermediate_size": 16, "num_hidden_layers": 2, "num_experts": 4,
        "num_experts_per_tok": 1,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps({"model_type": "qwen3_vl_moe", "text_config": text}))
    each = 3 * 8 * 16 * 2
    header = json.dumps({"w": {"dtype": "I8", "shape": [4 * each + 100], "data_offsets": [0, 4 * each + 100]}}).encode()
    weights = len(header).to_bytes(8, "little") + header + bytes(4 * each + 100)
    (folder / "model.safetensors").write_bytes(weights)
    size = model_size(folder)
    assert size is not None
    assert (size.parameters, size.active) == (4 * each + 100, each + 100)


@pytest.mark.parametrize("odd", [1.5, "many", None, [2], True, -3, {}])
@pytest.mark.parametrize("key", ["text_config", "vision_config", "num_experts", "patch_size", "num_hidden_layers"])
def test_odd_values_of_a_configuration_are_not_counted_with(tmp_path: Path, key: str, odd: object) -> None:
    folder = shutil.copytree(qwen25(), tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    for part in (config, config["text_config"], config["vision_config"]):
        if key in part or key == "num_experts":
            part[key] = odd
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("size", "longest_edge"):
        video = {"size": odd if name == "size" else {name: odd}}
        (folder / "video_preprocessor_config.json").write_text(json.dumps(video))
        size = model_size(folder)
        assert size is not None
        assert size.parameters > 0
        assert size.frame_tokens is None


def test_a_cached_hub_model_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache_model(tmp_path, "someone/surprise", "a" * 40)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    found, folder = model_size("someone/surprise"), model_size(qwen25())
    assert found == folder
    assert model_size("someone/other") is None


def test_a_damaged_folder_is_named_before_anything_runs(tmp_path: Path) -> None:
    folder = shutil.copytree(qwen25(), tmp_path / "model")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(TempolocError, match=r"model\.safetensors is damaged"):
        plan_localize(str(folder), RECIPE, None, 1, 8, 1)


def test_clips_found_and_missing(tmp_path: Path) -> None:
    write_clip(tmp_path / "cube_stacking_demo3.mp4", 4, (64, 64))
    found = coverage(RECIPE, tmp_path)
    assert found.found == ("cube/3",)
    assert len(found.missing) == 59
    assert f"1 of 60 clips found in {tmp_path}; missing: cube/0, cube/1, cube/2 and 56 more" in str(found)
    assert coverage(RECIPE, tmp_path / "absent").found == ()
    assert "which is no folder" in str(coverage(RECIPE, tmp_path / "absent"))
    whole = coverage(replace(SIM, clips=SIM.with_videos()))
    assert (len(whole.found), whole.missing) == (35, ())
    assert "missing" not in str(whole)


def test_estimates_grow_as_they_should() -> None:
    small, large = model_size("a/b-7B"), model_size("a/b-70B")
    assert small is not None
    assert large is not None
    hours = estimate_hours(small, RECIPE.clips, 10, 8, 1)
    assert 0.01 < hours < 1
    assert estimate_hours(large, RECIPE.clips, 10, 8, 1) > hours
    assert estimate_hours(small, RECIPE.clips, 20, 8, 1) > hours
    assert estimate_hours(small, RECIPE.clips, 10, 8, 8) < hours / 4
    assert estimate_hours(small, RECIPE.clips, 10, 8, 0) > hours
    assert [format_hours(h) for h in (None, 0, 0.01, 0.5, 3.24)] == [
        "unknown, as is the model's size", "about 0 min", "about 1 min", "about 30 min", "about 3.2 h",
    ]  # fmt: skip


def test_vllms_estimate_is_near_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """20 clips in 10 trials of 200 tokens, asked of a model of 7B sizes on one H200."""
    measured = json.loads((ROOT / "benchmarks" / "results" / "parallel_speed_h200.json").read_text())
    (found,) = measured["models"].values()
    how, (one, *_) = found["settings"], found["ways"]
    monkeypatch.setattr(planning, "VLLM", replace(planning.VLLM, tokens=how["max_tokens"]))
    size = model_size("nvidia/Cosmos-Reason1-7B")
    assert size is not None
    clips = [replace(clip, duration=None) for clip in SIM.clips[: how["clips"]]]
    seconds = 3600 * estimate_hours(size, clips, how["trials"], how["fps"], 1, "vllm")
    assert 0.8 < seconds / min(one["seconds"]) < 1.25
    assert 3600 * estimate_hours(size, clips, how["trials"], how["fps"], 1) > 2 * seconds  # transformers
    text = "\n".join(plan_localize("nvidia/Cosmos-Reason1-7B", RECIPE, "absent", 10, 8, 8, "openai"))
    assert "vLLM" in text


def test_the_estimates_of_a_whole_study_are_near_what_was_measured() -> None:
    """60 clips of the recipe's names and size in 10 trials, asked of a model of 7B sizes on one H200 and on two."""
    measured = json.loads((ROOT / "benchmarks" / "results" / "study_gpus_h200.json").read_text())
    size = model_size("nvidia/Cosmos-Reason1-7B")
    assert size is not None
    jobs = {job["job"]: job for job in measured["jobs"]}
    for name in ("one", "all", "hf"):
        job = jobs[name]
        seconds = 3600 * estimate_hours(size, RECIPE.clips, 10, 8, job["copies"], job["backend"])
        assert 0.8 < seconds / job["runs"][0]["answering"] < 1.25, name


def test_the_video_is_counted_by_the_models_own_budget() -> None:
    tiny = model_size(qwen25())
    assert tiny is not None
    assert tiny.frame_tokens == 20
    clip = replace(SIM.clips[0], duration=8.5)
    assert planning._video_tokens(tiny, [clip], 8) == 34 * 20
    assert planning._video_tokens(tiny, [clip], 4) == 17 * 20
    assert planning._video_tokens(tiny, [replace(clip, duration=None)], 8) == 8192
    assert planning._video_tokens(tiny, [replace(clip, duration=1000.0)], 8) == 8192


def test_a_plan_for_localize(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "gpu_count", lambda: 2)
    text = "\n".join(plan_localize("someone/surprise", RECIPE, "absent", 10, 8, 8))
    unknown = "unknown, as is the model's size; estimated"
    for part in ("of unknown size", "8 needed, 2 found", "60 clips × 10 trials = 600 answers", unknown):
        assert part in text


def test_a_plan_imports_neither_torch_nor_transformers() -> None:
    lines = (
        ["study", "--plan"],
        ["study", "--plan", "--profile", "gpu8", "-p", "model", "a/b-7B", "-p", "benchmark", "recipe"],
        ["localize", "--plan", "--model", "a/b-7B", "--benchmark", "recipe", "-o", "p.jsonl"],
    )
    code = (
        "import sys\nfrom tempoloc_nb.cli.main import main\nfrom tempoloc_nb.study import runner\n"
        "runner._finished_run = lambda folder: {}\n"  # what `make study` has left here is not planned again
        f"for line in {lines!r}:\n"
        "    try: main(line)\n"
        "    except SystemExit as ended: assert not ended.code, line\n"
        "    print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    *plans, nothing = done.stdout.split("[]\n")
    assert (len(plans), nothing) == (3, ""), done.stdout
    shipped = (ROOT / "data" / "models" / "tempoloc-tiny").is_dir()
    assert ("answers" if shipped else "left out") in plans[0]
    assert all("answers" in plan for plan in plans[1:])
