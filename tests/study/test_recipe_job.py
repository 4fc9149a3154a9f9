"""The recipe's own job, its tasks and file names, with untrained models: from videos to the zero-shot tables."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from places import ROOT
from tiny_models import qwen3, qwen25
from video_clips import write_clip

from tempoloc_nb.core.settings import load_settings
from tempoloc_nb.study import runner as study
from tempoloc_nb.study.models import plan_lines, plan_studies

VIDEOS = ("cube_stacking_demo0.mp4", "cube_stacking_demo2.mp4", "more/nut_pouring_demo1.mp4")
CLIPS = ("cube/0", "cube/2", "nut/1")
SMALL = "\n[profile.small]\nclips_per_task = 0\ntrials = 2\nresamples = 50\ngpus = 0\npublishable = yes\n"


@pytest.fixture
def videos(tmp_path: Path) -> Path:
    """A user's folder of videos, named as the recipe names them; most are missing."""
    folder = tmp_path / "mine"
    (folder / "more").mkdir(parents=True)
    for k, name in enumerate(VIDEOS):
        write_clip(folder / name, 90, (256, 256), seed=k, options={"preset": "ultrafast"})
    return folder


@pytest.fixture
def checkout(project: Path) -> Path:
    """A project with the zero-shot study, a profile like gpu8 but small, and short answers of other models."""
    (project / "settings.ini").write_text((ROOT / "settings.ini").read_text() + SMALL)
    for name in ("experiments.toml", "simulation.toml"):
        shutil.copy(ROOT / "data" / name, project / "data")
    text = (ROOT / "data" / "models.toml").read_text()
    assert "max_new_tokens = 4096" in text
    (project / "data" / "models.toml").write_text(text.replace("max_new_tokens = 4096", "max_new_tokens = 10"))
    for part in ("prompts", "fonts"):
        shutil.copytree(ROOT / "data" / part, project / "data" / part)
    shutil.copy(ROOT / "nbs" / "studies" / "04_zero_shot.ipynb", project / "nbs" / "studies")
    return project


def test_the_eight_gpu_profile_is_the_recipes_scale() -> None:
    """The job that README documents: all clips, ten trials, eight GPUs."""
    profile = load_settings(ROOT / "settings.ini").profile("gpu8")
    assert (profile.clips_per_task, profile.trials, profile.gpus) == (0, 10, 8)
    assert "tempoloc study --profile gpu8 -p model nvidia/Cosmos-Reason1-7B -p benchmark recipe" in (
        (ROOT / "README.md").read_text()
    )


@pytest.mark.parametrize(("make", "copies"), [(qwen25, 1), (qwen3, 2)], ids=["qwen2.5", "qwen3-two-processes"])
def test_the_recipes_job(checkout: Path, videos: Path, make: Callable[[], Path], copies: int) -> None:
    model = shutil.copytree(make(), checkout / "untrained")
    given = {"model": str(model), "benchmark": "recipe", "video_root": str(videos), "data_parallel": copies}

    (planned,) = plan_studies("small", given)
    assert planned.clips is not None
    assert set(planned.clips.found) == set(CLIPS)
    assert len(planned.clips.missing) == 57
    text = "\n".join(plan_lines([planned]))
    assert "3 of 60 clips found" in text
    assert "missing: cube/1, cube/3, cube/4 and 54 more" in text

    (run,) = study.run_studies("small", given)
    assert run.status == "done", run.error
    with (run.folder / "tables" / "zero_shot.csv").open() as file:
        rows = list(csv.DictReader(file))
    kinds = {(row["task"], row["row"].partition(":")[0].partition(",")[0], row["clips"]) for row in rows}
    names = ("untrained", "best no-video", "motion minima", "exact to a frame pair")
    assert kinds == {(task, name, clips) for task, clips in (("cube", "2"), ("nut", "1")) for name in names}
    assert all(float(row["mre_pct"]) > 0 for row in rows)
    # What is missing is told in the executed notebook, where its reader sees it.
    outputs = [
        "".join(output.get("text", ""))
        for cell in json.loads((run.folder / "notebook.ipynb").read_text())["cells"]
        for output in cell.get("outputs", [])
    ]
    assert any("57 of 60 clips have no video (cube/1, cube/3, cube/4 and 54 more)" in text for text in outputs)

    (answers,) = (checkout / "runs" / "small" / "predictions").rglob("base-*.jsonl")
    found = [json.loads(line) for line in answers.read_text().splitlines()]
    assert sorted((r["clip"], r["trial"]) for r in found) == sorted((c, t) for c in CLIPS for t in (0, 1))
    assert {(r["prompt"], r["view"], r["fps"], r["effective_fps"]) for r in found} == {("recipe", "frame", 8, 8)}
    assert study.planned_runs("small", given)[0].state == "unchanged"
    write_clip(videos / "cube_stacking_demo1.mp4", 30, (256, 256), seed=9)
    assert study.planned_runs("small", given)[0].state == "to run"  # a video more


def test_a_study_without_all_answers_is_not_finished(checkout: Path, videos: Path) -> None:
    """A copy that died on its GPU leaves clips behind, as a damaged video does."""
    model = shutil.copytree(qwen25(), checkout / "untrained")
    given = {"model": str(model), "benchmark": "recipe", "video_root": str(videos)}
    damaged, whole = videos / VIDEOS[1], (videos / VIDEOS[1]).read_bytes()
    damaged.write_bytes(whole[:1000])
    (run,) = study.run_studies("small", given)
    assert run.status == "incomplete"
    assert "1 clip has no answer (cube/2:" in str(run)
    assert (run.folder / "tables" / "zero_shot.csv").is_file()
    assert study.planned_runs("small", given)[0].state == "to run"
    (answers,) = (checkout / "runs" / "small" / "predictions").rglob("base-????????.jsonl")
    before = answers.read_text()

    damaged.write_bytes(whole)
    (again,) = study.run_studies("small", given)
    assert again.status == "done", again.error
    assert answers.read_text().startswith(before)  # nothing is asked twice
    assert len(answers.read_text().splitlines()) == len(CLIPS) * 2


@pytest.mark.parametrize(("backend", "why"), [("hf", "shipped"), ("vllm", "asked")])
def test_the_plan_reads_shipped_answers_only_where_the_study_does(
    monkeypatch: pytest.MonkeyPatch, backend: str, why: str
) -> None:
    monkeypatch.setattr(study, "_finished_run", lambda folder: {})  # what ran in this checkout is not planned
    (planned,) = plan_studies("full", {"backend": backend}, only=["08_"])
    assert planned.asked
    assert {each.why for each in planned.asked} == {why}
