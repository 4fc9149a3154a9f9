"""The sealed scoring: seeds are drawn once and written down first, and nothing is scored twice unasked."""

from __future__ import annotations

import importlib.util
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest
from study_cells import study_functions

from tempoloc_nb.clips.manifest import Clip, load_benchmark, read_manifest, write_manifest
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.files import read_jsonl
from tempoloc_nb.inference.baselines import BASELINES
from tempoloc_nb.inference.record import read_record, read_rows
from tempoloc_nb.lab.sim.tasks import SEEDS, families
from tempoloc_nb.lab.sim.which_questions import log_events
from tempoloc_nb.models.locate import folder_revision, model_folder
from tempoloc_nb.scoring.evaluation import Evaluation
from tempoloc_nb.study.experiments import load_experiments, score
from tempoloc_nb.study.questions import line_share
from tempoloc_nb.study.tables import seed_means

TUNED = study_functions("05")
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "sealed.py"


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sealed", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def sealed(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = script()
    monkeypatch.setattr(module.subprocess, "run", lambda *_, **__: None)
    monkeypatch.setattr(module, "answer", lambda *_: None)
    monkeypatch.setattr(module, "score", lambda *_: {"stack-three": {"mre_pct": {"value": 1.0}}})
    for name in ("keep", "ask_about"):
        monkeypatch.setattr(module, name, lambda *_: None)
    return module


def models(folder: Path, *weights: str) -> list[str]:
    for i, text in enumerate(weights):
        (folder / f"m{i}").mkdir(exist_ok=True)
        (folder / f"m{i}" / "model.safetensors").write_text(text)
    return [str(folder / f"m{i}") for i in range(len(weights))]


def lines(log: Path) -> list[dict[str, Any]]:
    return [line for _, line in read_jsonl(log)]


def test_scored_once_and_again_only_if_asked(
    sealed: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, names = tmp_path / "log.jsonl", models(tmp_path, "a", "b")
    command = [*names, "--n", "3", "--log", str(log), "--out", str(tmp_path / "out")]
    assert sealed.main(command) == 0
    drawn, *scored = lines(log)
    assert [line["what"] for line in (drawn, *scored)] == ["drawn", "scored", "scored"]
    ours = max(family.first_seed for family in families())
    starts = sorted(drawn["seeds"].values())
    assert starts[0] > ours + SEEDS
    assert all(b - a >= SEEDS for a, b in pairwise(starts))
    assert drawn["seeds"].keys() == {family.key for family in sealed.sealed_families()}
    assert len(starts) == 9
    assert sealed.main(command) == 1
    assert "--again" in capsys.readouterr().err
    assert len(lines(log)) == 3
    assert sealed.main([*command, "--again"]) == 0
    assert [line.get("again") for line in lines(log)] == [False, None, None, True, None, None]
    assert lines(log)[3]["seeds"] != drawn["seeds"]


def test_other_weights_do_not_get_the_seeds(
    sealed: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A scoring that was interrupted goes on with its own models alone."""
    log, names = tmp_path / "log.jsonl", models(tmp_path, "a", "b")
    command = [*names, "--log", str(log), "--out", str(tmp_path / "out")]
    hashes = {name: sealed.weights_hash(Path(name)) for name in names}
    line = sealed.seal(log, hashes, ["stack-three"], 100, False)
    models(tmp_path, "a", "c")
    assert sealed.main(command) == 1
    assert "other models" in capsys.readouterr().err
    models(tmp_path, "a", "b")
    assert sealed.seal(log, hashes, ["stack-three"], 100, False) == line
    sealed.note(log, {"what": "scored", "model": names[0]})
    assert sealed.main(command) == 0
    assert [line.get("model") for line in lines(log)] == [None, *names]
    assert sealed.main(["nowhere"]) == 1
    assert capsys.readouterr().err.startswith("nowhere is no model folder")


def last_scoring() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The log's last line about seeds and what follows it: the answers of that scoring are beside the clips."""
    told = lines(SCRIPT.parent / "results" / "sealed.jsonl.xz")
    start = max(i for i, line in enumerate(told) if line["what"] == "drawn")
    return told[start], told[start + 1 :]


@pytest.fixture(scope="module")
def answered() -> tuple[dict[str, Evaluation], list[pd.DataFrame]]:
    """What the study reads of the sealed answers: runs on the families with a script, lines of other events."""
    runs, events = TUNED.sealed_answers(load_benchmark("sealed"), 10)
    return runs, events


def test_the_log_has_the_scores_of_the_answers_beside_it(
    answered: tuple[dict[str, Evaluation], list[pd.DataFrame]],
) -> None:
    """Scored anew, the committed answers give each number of the log; their clips are those of the seeds drawn."""
    drawn, scored = last_scoring()
    benchmark = load_benchmark("sealed")
    shown = {str(clip.extra.get("shown", clip.clip)): clip.seed or 0 for clip in benchmark.clips}
    assert all(0 <= seed - drawn["seeds"][name.partition("/")[0]] < SEEDS for name, seed in shown.items())
    assert len(shown) == drawn["n"] * len(drawn["seeds"])
    assert [line["model"] for line in scored] == list(drawn["models"])
    runs, events = answered
    names = {clip.clip for clip in benchmark.clips if "shown" in clip.extra}
    asked = benchmark.only(names)
    declared, parts = load_experiments(), zip(TUNED.SEALED.items(), runs.items(), events, scored, strict=True)
    for (name, answers), (title, scripted), told, line in parts:
        assert title == declared[name].title
        assert answers == script().answers_name(line["model"])
        rows = [row for row in read_rows(benchmark.root / f"{answers}.jsonl.xz") if row["clip"] in names]
        which = score(rows, asked, declared[name], resamples=10)
        assert not set(scripted.tasks) & set(which.tasks)
        assert {*scripted.tasks, *which.tasks} == set(line["result"])
        whole = {task: run for run in (scripted, which) for task in run.tasks}
        for task, run in whole.items():
            for key, value in line["result"][task].items():
                assert run.estimate(key, task).value == pytest.approx(value["value"], abs=1e-9), (answers, task, key)
        assert len(told) == sum(len(clip.events) for clip in asked.clips)
        alone = told[told["kind"] == "alone"]  # an event a question, so that its share is what the log calls hits
        assert alone["right"].mean() == pytest.approx(line["result"]["alone"]["hit@0.25s"]["value"])


def test_the_guess_beside_the_sealed_clips_is_the_best_that_opens_no_video(
    answered: tuple[dict[str, Evaluation], list[pd.DataFrame]],
) -> None:
    name, run, most = TUNED.sealed_guess(load_benchmark("sealed"), 10)
    assert name in BASELINES.values()
    assert set(run.tasks) == set(next(iter(answered[0].values())).tasks)
    assert 25 < run.estimate("mre_pct").value < 35  # what labels alone come to on the development test, too
    assert 0 < most < 20


def test_the_sealed_answers_are_of_the_shipped_weights(sealed: ModuleType) -> None:
    drawn, _ = last_scoring()
    shipped = model_folder("tempoloc-tiny")
    assert shipped is not None
    assert sealed.weights_hash(shipped) == drawn["models"]["tempoloc-tiny"]
    record = read_record(load_benchmark("sealed").root / "tempoloc-tiny.jsonl.xz")
    assert record["settings"]["backend_settings"]["revision"] == folder_revision(shipped)


def test_answers_have_the_name_of_their_model(sealed: ModuleType, tmp_path: Path) -> None:
    declared = load_experiments()
    assert {name: sealed.answers_name(declared[name].model) for name in TUNED.SEALED} == TUNED.SEALED
    assert [sealed.answers_name(m) for m in ("tempoloc-tiny", "runs/sft-seed1/model", "./runs/a/model/")] == [
        "tempoloc-tiny", "sft-seed1", "a",
    ]  # fmt: skip
    with pytest.raises(TempolocError, match="names no model"):
        sealed.answers_name("model")
    kept = load_benchmark("sealed")
    for answers in ("tempoloc-tiny", "sft-seed1"):
        shutil.copy(kept.root / f"{answers}.jsonl.xz", tmp_path)
    with pytest.raises(TempolocError, match=r"sft-seed2\.jsonl\.xz is not beside"):
        TUNED.sealed_answers(replace(kept, root=tmp_path), 10)


def test_clips_of_which_are_asked_all_their_questions(tmp_path: Path) -> None:
    log = [["grasp", "green_cube", 1.0], ["release", "green_cube", 2.0], ["grasp", "can", 3.0], ["release", "can", 4.0]]
    extra = {"log": log, "things": ["green_cube", "can", "bottle"], "actions": [], "styles": {}, "idle": []}
    one = replace(load_benchmark("sim").clips[0], clip="stack-three/000", extra={})
    other = Clip("which-panda/001", "which-panda", log_events(log), "videos/which-panda/001.mp4", 15.0, duration=5.0,
                 source="simulated", seed=600_000_000, robot="Panda", split="which", extra=extra)  # fmt: skip
    write_manifest(tmp_path / "manifest.jsonl", [other, one])
    module = script()
    module.ask_about(tmp_path)
    asked = read_manifest(tmp_path / "questions.jsonl")
    kinds = [clip.extra.get("kind") for clip in asked]
    assert kinds.count(None) == 1
    assert {"alone", "subset", "ordered", "swapped"} < set(kinds)
    absent = [clip for clip in asked if any(event.absent for event in clip.events)]
    assert len(absent) == 1
    module.keep(tmp_path, [], tmp_path / "kept")
    kept = list(read_manifest(tmp_path / "kept" / "manifest.jsonl.xz"))
    assert kept[0].clip == one.clip
    assert [(c.clip, c.events, c.in_order) for c in kept[1:]] == [
        (c.clip, c.events, c.in_order) for c in asked if c.extra.get("kind")
    ]
    assert all(c.video is None for c in kept)


def test_the_mean_of_seeds_is_over_the_same_events(
    answered: tuple[dict[str, Evaluation], list[pd.DataFrame]],
) -> None:
    """And it is the mean of what the log has; seeds whose answers are about other events have none."""
    _, scored = last_scoring()
    means = seed_means(list(answered[0].values()))
    for task in filter(None, means):
        each = [line["result"][task]["mre_pct"]["value"] for line in scored]
        assert means[task].value == pytest.approx(sum(each) / len(each))
        assert min(each) < max(each)
    one, other, _ = answered[1]
    assert line_share([one, other]).value == pytest.approx((one["right"].mean() + other["right"].mean()) / 2)
    with pytest.raises(TempolocError, match="different events"):
        line_share([one, other.iloc[1:]])
