"""The run that remakes the shipped model: jobs begin when they may, and nothing is done twice."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from tempoloc_nb.lab.tiny.plan import load_plan
from tempoloc_nb.study.experiments import load_experiments

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return import_module("jobs")


@pytest.fixture
def tiny_runs(jobs: ModuleType) -> ModuleType:
    return import_module("tiny_runs")


def write(path: Path) -> str:
    path.write_text("made")
    return "wrote"


def given(folder: Path, **changes: object) -> argparse.Namespace:
    usual = {
        "out": folder, "plan": "sft", "init": None, "seeds": 3, "scenes": 10, "which_scenes": 10, "gpus": 2,
        "processes": 8, "sim_python": "python", "only": None, "small": False,
    }  # fmt: skip
    return argparse.Namespace(**{**usual, **changes})


def test_a_job_runs_again_only_if_what_it_needs_was_made_anew(jobs: ModuleType, tmp_path: Path) -> None:
    code = "import sys; open(sys.argv[1], 'w').write('made')"
    first = jobs.Job("first", "a", (sys.executable, "-c", code, tmp_path / "first"), tmp_path / "first")
    second = jobs.Job("second", "b", partial(write, tmp_path / "second"), tmp_path / "second", ("first",))
    desk = jobs.Desk(tmp_path, 0, 8)
    desk.run_all([second, first])
    assert not desk.failed
    noted = desk.note("second")
    desk.run_all([second, first])
    assert desk.note("second") == noted
    (tmp_path / "first").unlink()
    desk.run_all([second, first])
    assert desk.note("second")["began"] > noted["began"]


def test_a_failed_job_is_named_with_its_log_and_what_needs_it_waits(
    jobs: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = jobs.Job("bad", "a", (sys.executable, "-c", "raise SystemExit('no room')"), tmp_path)
    after = jobs.Job("after", "b", partial(write, tmp_path / "after"), tmp_path / "after", ("bad",))
    other = jobs.Job("other", "b", partial(write, tmp_path / "other"), tmp_path / "other")
    desk = jobs.Desk(tmp_path, 0, 8)
    desk.run_all([bad, after, other])
    assert desk.failed == ["bad"]
    assert str(tmp_path / "logs" / "bad.log") in capsys.readouterr().err
    assert "no room" in (tmp_path / "logs" / "bad.log").read_text()
    assert (tmp_path / "other").exists()
    assert not (tmp_path / "after").exists()


def test_a_job_that_waits_for_a_gpu_holds_up_the_gpus_alone(jobs: ModuleType, tmp_path: Path) -> None:
    desk = jobs.Desk(tmp_path, 1, 8)
    running = jobs.Job("running", "a", (), tmp_path, gpu=5)
    desk._take(running, 0)
    large, small, plain = (jobs.Job(n, "a", (), tmp_path, gpu=g) for n, g in (("large", 4), ("small", 1), ("plain", 0)))
    assert desk._next([large, small, plain], [running]) == (plain, 0)
    assert desk._next([small], [running]) == (small, 0)


def test_the_seconds_of_jobs_that_overlap_count_once(jobs: ModuleType) -> None:
    assert jobs.length([(10, 12), (1, 3), (2, 4), (2.5, 3)]) == 5


@pytest.mark.parametrize("small", [False, True])
def test_all_that_a_job_needs_is_made_by_a_job(tiny_runs: ModuleType, tmp_path: Path, small: bool) -> None:
    jobs = tiny_runs.Study(given(tmp_path, small=small)).jobs()
    names = [job.name for job in jobs]
    assert len(set(names)) == len(names)
    assert {need for job in jobs for need in job.needs} <= set(names)
    assert {job.step for job in jobs} == set(tiny_runs.STEPS)


def test_every_experiment_whose_weights_are_made_is_asked(tiny_runs: ModuleType, tmp_path: Path) -> None:
    study = tiny_runs.Study(given(tmp_path))
    steps = load_plan("sft").options.steps
    made = {e.name for e in load_experiments().values() if e.model.startswith("runs/sft") or e.model == "tempoloc-tiny"}
    late = {e.name for e in load_experiments().values() if e.model[-5:].isdigit() and int(e.model[-5:]) > steps}
    asked = {job.name for job in study.answers() if not job.name.startswith("localize-")}
    assert asked == made - late


def test_the_checkpoints_that_experiments_ask_are_kept(tiny_runs: ModuleType, tmp_path: Path) -> None:
    first, *others = [job for job in tiny_runs.Study(given(tmp_path)).train() if job.name.startswith("train-")]
    kept = [word for i, word in enumerate(first.command) if first.command[i - 1] == "--keep"]
    assert kept == [23000, 34000, 40198]
    assert all("--keep" not in job.command for job in others)


@pytest.mark.parametrize("places", [3, 8, 12])
@pytest.mark.parametrize("gpus", [1, 2, 3])
def test_all_seeds_train_at_once(tiny_runs: ModuleType, tmp_path: Path, gpus: int, places: int) -> None:
    """On one GPU they share it; with two the first seed, which most answers wait for, has one for itself."""
    study = tiny_runs.Study(given(tmp_path, gpus=gpus, processes=places))
    free, where = [places] * gpus, []
    for job in study.train():
        if job.gpu:
            widest = max(range(gpus), key=lambda k: free[k])
            where.append(widest)
            free[widest] -= job.gpu
    assert len(where) == 3
    assert min(free) >= 0
    assert gpus == 1 or where.count(where[0]) == 1


def test_only_weights_that_a_job_makes_are_asked(tiny_runs: ModuleType, tmp_path: Path) -> None:
    """Of the base, of the model before, of a seed and of a step that are not trained, the shipped answers stay."""
    out, last = tmp_path.resolve(), load_plan("sft").options.steps
    study = tiny_runs.Study(given(tmp_path, init=tmp_path / "start", seeds=2))
    assert study.weights("tempoloc-tiny") == (out / "models/tempoloc-tiny", "ship")
    assert study.weights("runs/sft/model") == (out / "runs/sft/model", "train-0")
    assert study.weights("runs/sft-seed1/model") == (out / "runs/sft-seed1/model", "train-1")
    assert study.weights(f"runs/sft/steps/{last}") == (out / f"runs/sft/steps/{last}", "train-0")
    for model in ("runs/sft-seed2/model", f"runs/sft/steps/{last + 1}", "runs/base/model", "runs/former/model"):
        assert study.weights(model) is None, model
    assert study.weights("tempoloc-tiny-base") is None
    asked = {job.name: job for job in study.answers()}
    assert not asked.keys() & {"base", "base-own", "former", "val-base", "val-former", "sft-seed2", "which-seed2"}
    for name, folder in (("sft", "models/tempoloc-tiny"), ("sft-seed1", "runs/sft-seed1/model")):
        command = asked[name].command
        assert command[command.index("--model") + 1] == out / folder
