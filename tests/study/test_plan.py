"""`tempoloc study --plan` counts what a run asks: the clips that are here, each question once, without what is kept."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from places import ROOT
from tiny_models import qwen25

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.study import models as study_plan
from tempoloc_nb.study.models import Models, _listed_experiments, plan_lines, plan_studies
from tempoloc_nb.study.notebooks import notebook_cells, study_notebooks
from tempoloc_nb.study.report import Report

SIM = load_benchmark("sim")
PARAMETERS = """profile = "quick"
output = ""
benchmark = "sim"
model = "tempoloc-tiny"
base = "tempoloc-tiny-base"
backend = "hf"
video_root = ""
tensor_parallel = 1
data_parallel = 0"""


@pytest.fixture
def whole_project(project: Path) -> Path:
    """A project with the simulated benchmark, its experiments and two untrained models."""
    for name in ("experiments.toml", "models.toml"):
        shutil.copy(ROOT / "data" / name, project / "data")
    shutil.copytree(ROOT / "data" / "benchmarks" / "sim", project / "data" / "benchmarks" / "sim")
    shutil.copytree(ROOT / "data" / "prompts", project / "data" / "prompts")
    for name in ("tempoloc-tiny", "tempoloc-tiny-base"):
        shutil.copytree(qwen25(), project / "data" / "models" / name)
    return project


def asking(*names: str) -> str:
    """A parameters cell that lists experiments."""
    return f"{PARAMETERS}\nexperiments = {list(names)}"


def test_a_study_lists_its_experiments(write_study: Callable[..., Path], whole_project: Path) -> None:
    """What its other cells name does not count."""
    path = write_study("01_a", asking("sft-blank", "base"), 'models.run("sft-4fps")')
    assert [e.name for e in _listed_experiments(path)] == ["sft-blank", "base"]
    assert _listed_experiments(write_study("02_b", PARAMETERS, 'models.run("base")')) == ()
    with pytest.raises(TempolocError, match=r"03_c\.ipynb: unknown experiment 'sft-7fps': did you mean sft-4fps"):
        _listed_experiments(write_study("03_c", asking("sft-7fps")))
    with pytest.raises(TempolocError, match=r"04_d\.ipynb: experiments is a list of names, not base"):
        _listed_experiments(write_study("04_d", PARAMETERS + '\nexperiments = "base"'))


def test_a_plan_for_studies(
    write_study: Callable[..., Path], whole_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_study("01_none", 'profile = "quick"\noutput = ""', 'x = "base"')
    write_study("02_base", asking("base"))
    write_study("03_both", asking("base", "sft", "sft-seed1", "sft-seed2"))
    none, base, both = plan_studies("quick")
    assert (none.clips, none.asked) == (None, ())
    assert base.clips is not None
    assert (len(base.clips.found), base.clips.missing) == (8, ())  # two of each of four tasks
    (asked,) = base.asked
    assert asked.job is not None
    assert (len(asked.job.clips), asked.job.trials, asked.job.answers) == (8, 2, 16)
    assert [a.why for a in both.asked][:2] == ["asked", "asked"]
    text = "\n".join(plan_lines((none, base, both)))
    assert "together, each question asked once: 8 clips × 2 trials + 8 clips × 1 trials = 24 answers" in text
    assert "left out  sft-seed1: the model runs/sft-seed1/model is not shipped" in text
    assert "estimated, not measured: CPU" in text
    monkeypatch.setattr(study_plan, "gpu_count", lambda: 4)
    (whole_project / "mine").mkdir()
    for name in ("cube_stacking_demo1", "nut_pouring_demo4"):
        (whole_project / "mine" / f"{name}.mp4").touch()
    job: dict[str, Any] = {"model": "nvidia/Cosmos-Reason1-7B", "benchmark": "recipe", "video_root": "mine"}
    (recipe,) = plan_studies("gpu8", job, ["base"])
    assert recipe.gpus == 8
    text = "\n".join(plan_lines((recipe,)))
    for part in (
        "model     nvidia/Cosmos-Reason1-7B, 8.29 G parameters by the list of models: 16.6 GB in bfloat16 on each GPU",
        "recipe: 2 of 60 clips found in mine; missing: cube/0, cube/2, cube/3 and 55 more",
        "GPUs      8 needed, 4 found", "2 clips × 10 trials = 20 answers", "estimated, not measured: GPU",
        "This machine has 4 GPUs, 8 are needed",
    ):  # fmt: skip
        assert part in text, part
    (recipe,) = plan_studies("gpu8", {**job, "data_parallel": 4}, ["base"])
    assert "will not start" not in "\n".join(plan_lines((recipe,)))


def test_a_full_plan_asks_about_the_clips_that_are_here(write_study: Callable[..., Path], whole_project: Path) -> None:
    write_study("02_base", asking("base"))
    (asked,) = plan_studies("full")[0].asked
    assert asked.job is not None
    assert asked.clips is not None
    assert (asked.job.answers, len(asked.clips.missing)) == (350, 365)


def test_a_plan_without_a_video_is_of_all_and_says_so(write_study: Callable[..., Path], whole_project: Path) -> None:
    write_study("02_base", asking("base"))
    (planned,) = plan_studies("quick", {"benchmark": "recipe"})
    text = "\n".join(plan_lines((planned,)))
    assert "recipe: 0 of 14 clips found" in text  # seven tasks of two clips
    assert "requests  14 clips × 2 trials = 28 answers, once their videos are here: -p video_root DIR" in text


def test_a_plan_counts_no_answer_that_is_kept(write_study: Callable[..., Path], whole_project: Path) -> None:
    """Clips with all their trials are not asked again; a line that was cut off is none."""
    write_study("02_base", asking("base"))
    (before,) = plan_studies("quick")[0].asked
    assert before.job is not None
    clips = [clip.clip for clip in before.job.clips]
    name = f"base-{before.question.partition(' ')[0]}.jsonl"
    file = whole_project / "runs" / "quick" / "predictions" / "sim" / name
    file.parent.mkdir(parents=True)
    rows = [(clips[0], 0), (clips[0], 1), (clips[1], 0), ("other/000", 0), (clips[2], 7)]
    lines = [json.dumps({"clip": clip, "trial": trial}) + "\n" for clip, trial in rows]
    file.write_text("".join(lines) + json.dumps({"clip": clips[1], "trial": 1}))
    (planned,) = plan_studies("quick")
    (asked,) = planned.asked
    assert asked.job is not None
    assert [clip.clip for clip in asked.job.clips] == clips[1:]
    assert asked.kept == 2
    text = "\n".join(plan_lines((planned,)))
    assert "8 of 8 clips found" in text
    assert "requests  7 clips × 2 trials = 14 answers" in text
    assert "kept      answers of an earlier run: 2" in text


def test_the_seeds_of_our_own_model_are_no_seeds_of_another(
    write_study: Callable[..., Path], whole_project: Path
) -> None:
    write_study("02_seeds", asking("sft", "sft-seed1"))
    shutil.copytree(qwen25(), whole_project / "runs" / "sft-seed1" / "model")
    shutil.copytree(qwen25(), whole_project / "mine")
    assert [a.experiment.name for a in plan_studies("quick")[0].asked] == ["sft", "sft-seed1"]
    (asked,) = plan_studies("quick", {"model": "mine"})[0].asked
    assert (asked.experiment.name, asked.experiment.model) == ("sft", "mine")


def test_a_study_may_ask_only_what_it_lists(whole_project: Path) -> None:
    models = Models(Report(None, "quick"), SIM, ["base"])
    with pytest.raises(TempolocError, match="asks for sft-blank, and its parameters cell lists the experiments base"):
        models.run("sft-blank")


def test_every_study_lists_what_its_cells_name() -> None:
    """In this repository: each listed experiment is named in the code, or is one of the rates of one that is."""
    for notebook in study_notebooks():
        cells = [c.text for c in notebook_cells(notebook) if c.kind == "code" and "parameters" not in c.tags]
        for experiment in _listed_experiments(notebook):
            stem = re.sub(r"-\d+fps$", "", experiment.name)
            assert any(f'"{stem}"' in text for text in cells), (notebook.stem, experiment.name)
        assert any("Models(report" in text and "experiments)" in text for text in cells) == bool(
            _listed_experiments(notebook)
        )


def test_a_model_that_no_chosen_study_asks_is_refused(write_study: Callable[..., Path], whole_project: Path) -> None:
    write_study("01_zero", asking("base"), 'models.run("base")')
    with pytest.raises(TempolocError, match=r"01_zero asks tempoloc-tiny-base.* not tempoloc-tiny: use -p base temp"):
        plan_studies("quick", {"model": "tempoloc-tiny"})
    shutil.copytree(qwen25(), whole_project / "data" / "models" / "mine")
    (asked,) = plan_studies("quick", {"model": "mine"})[0].asked  # which is its zero-shot model, too
    assert asked.experiment.model == "mine"
    write_study("02_both", asking("base", "sft"), 'models.run("sft")')
    assert len(plan_studies("quick", {"model": "tempoloc-tiny"})) == 2
