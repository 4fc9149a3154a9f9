"""The study runner: parameters refused, failures reported, unchanged runs skipped, results published."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from places import ROOT

from tempoloc_nb.cli.study import study as study_command
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.settings import settings
from tempoloc_nb.study import runner as study
from tempoloc_nb.study.models import plan_lines, plan_studies
from tempoloc_nb.study.notebooks import chosen_notebooks, study_notebooks

PARAMETERS = 'profile = "quick"\noutput = ""\nfactor = 2'
BODY = """
import pandas as pd
from tempoloc_nb.study.runner import start
report = start(profile, output, factor=factor)
report.table(pd.DataFrame({"factor": [factor]}), "factor")
"""
FIGURE = """
from matplotlib.figure import Figure
figure = Figure()
figure.subplots().plot([0, factor])
_ = report.figure(figure, "line")
"""
WriteStudy = Callable[..., Path]


def test_a_run_keeps_everything_together(write_study: WriteStudy, project: Path) -> None:
    write_study("01_one", PARAMETERS, BODY, FIGURE)
    (run,) = study.run_studies("quick", {"factor": 3})
    assert run.status == "done"
    folder = project / "runs" / "quick" / "01_one"
    record = json.loads((folder / "run.json").read_text())
    assert record["parameters"] == {"profile": "quick", "factor": 3}
    assert set(record["results"]) == {
        "tables/factor.csv", "figures/line.svg", "figures/line.png", "figures/line.json",
    }  # fmt: skip
    assert (folder / "tables" / "factor.csv").read_text() == "factor\n3\n"
    assert "QUICK run: not for citation" in (folder / "notebook.ipynb").read_text()
    assert json.loads((folder / "figures" / "line.json").read_text()) == {"factor": 3, "profile": "quick"}
    index = (project / "runs" / "quick" / "index.html").read_text()
    assert "01_one/notebook.html" in index
    assert "01_one/figures/line.png" in index
    assert str(project) not in (folder / "notebook.ipynb").read_text()


def test_an_unchanged_run_is_skipped_and_a_changed_one_is_not(write_study: WriteStudy, project: Path) -> None:
    write_study("01_one", PARAMETERS, BODY)
    assert [r.status for r in study.run_studies("quick")] == ["done"]
    assert [r.status for r in study.run_studies("quick")] == ["unchanged"]
    assert study.planned_runs("quick")[0].state == "unchanged"
    assert study.planned_runs("quick", {"factor": 5})[0].state == "to run"
    assert [r.status for r in study.run_studies("quick", {"factor": 5})] == ["done"]
    task = project / "data" / "tasks" / "recipe" / "cube.toml"
    task.write_text(task.read_text() + "# a changed input\n")
    assert study.planned_runs("quick", {"factor": 5})[0].state == "to run"
    write_study("01_one", PARAMETERS, BODY + "\n# a changed notebook")
    assert [r.status for r in study.run_studies("quick", {"factor": 5})] == ["done"]


def test_an_earlier_run_stays_where_papermill_is_missing(
    write_study: WriteStudy, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_study("01_one", PARAMETERS, BODY)
    study.run_studies("quick")
    monkeypatch.setitem(sys.modules, "papermill", None)
    with pytest.raises(TempolocError, match="papermill is not installed: pip install"):
        study.run_studies("quick", {"factor": 5})
    assert (project / "runs" / "quick" / "01_one" / "tables" / "factor.csv").read_text() == "factor\n2\n"


MODEL = """
model = "tempoloc-tiny"
video_root = ""
"""


def test_a_run_depends_on_models_videos_and_shipped_data(write_study: WriteStudy, project: Path) -> None:
    path = write_study("01_one", PARAMETERS + MODEL, BODY)
    folder, videos = project / "data" / "models" / "tempoloc-tiny", project / "videos"
    for name in ("experiments.toml", "predictions/a.jsonl.xz", "training/a.jsonl", "models/tempoloc-tiny/config.json"):
        (project / "data" / name).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "data" / "experiments.toml", project / "data")
    (project / "constraints").mkdir()
    videos.mkdir()
    changes: list[tuple[Path, bytes]] = [
        (folder / "config.json", b"{}"), (folder / "config.json", b'{"model_type": ""}'),
        (folder / "model.safetensors", bytes(20_000_000)),
        (folder / "model.safetensors", bytes(10_000_000) + b"1" + bytes(9_999_999)),
        (project / "data" / "predictions" / "a.jsonl.xz", b"a"), (project / "data" / "training" / "a.jsonl", b"a"),
        (project / "data" / "experiments.toml", (ROOT / "data" / "experiments.toml").read_bytes() + b"# more\n"),
        (project / "constraints" / "core.txt", b"torch==2"), (videos / "a.mp4", b"a"),
        (project / "settings.ini", (project / "settings.ini").read_bytes() + b"# more\n"),
    ]  # fmt: skip
    given = {"video_root": str(videos)}
    seen = [study._run_hash(path, given)]
    for changed, content in changes:
        changed.write_bytes(content)
        seen.append(study._run_hash(path, given))
    assert len(set(seen)) == len(changes) + 1
    # A copy of the same content is the same input, whenever it was written.
    os.utime(changes[-1][0], (0, 0))
    shutil.copy(folder / "model.safetensors", project / "again")
    (project / "again").replace(folder / "model.safetensors")
    assert study._run_hash(path, given) == seen[-1]
    assert study._run_hash(path, {**given, "model": "nvidia/Cosmos-Reason1-7B"}) != seen[-1]
    assert study._run_hash(path, {**given, "output": "elsewhere"}) == seen[-1]


LOGS = """
from tempoloc_nb.study.notebooks import log_files
log_files(logs)
"""


def test_a_study_of_training_logs_is_left_out_without_them(write_study: WriteStudy, project: Path) -> None:
    write_study("01_logs", PARAMETERS + '\nlogs = ""', LOGS)
    write_study("02_one", PARAMETERS, BODY)
    logs, one = study.run_studies("quick")
    assert (logs.status, logs.error) == (
        "left out", "no training log base.jsonl in training: `tempoloc tiny` writes one",
    )  # fmt: skip
    assert one.status == "done"
    for profile in ("quick", "full"):
        assert [r.state for r in study.planned_runs(profile, only=["01"])] == ["left out"]
        (planned,) = plan_studies(profile, only=["01"])
        assert plan_lines([planned])[1] == f"    left out  {logs.error}"
    mine = project / "mine"
    mine.mkdir()
    (mine / "base.jsonl").write_text("")
    with pytest.raises(TempolocError, match=r"no training log sft\.jsonl in mine"):
        study.planned_runs("quick", {"logs": str(mine)})
    (mine / "sft.jsonl").write_text("")
    assert study.planned_runs("quick", {"logs": str(mine)})[0].state == "to run"
    (training := project / "data" / "training").mkdir(parents=True)
    shutil.copy(mine / "base.jsonl", training)
    assert "no training log sft.jsonl in training" in study.run_studies("quick", only=["01"])[0].error
    (training / "sft.jsonl.xz").write_bytes(b"")
    assert study.run_studies("quick", only=["01"])[0].status == "done"


def test_the_recipes_job_is_of_the_studies_of_one_model() -> None:
    """In this repository: studies that are about our own models alone are no part of it."""
    job = {"model": "nvidia/Cosmos-Reason1-7B", "benchmark": "recipe", "video_root": "videos"}
    chosen = {n.stem[:2] for n in chosen_notebooks(job)}
    assert {"04", "09"} <= chosen
    assert not {"01", "02", "03", "10", "11"} & chosen


def test_a_value_that_is_the_default_is_no_change(write_study: WriteStudy) -> None:
    path = write_study("01_one", PARAMETERS, BODY)
    assert study._run_hash(path, {"factor": 2}) == study._run_hash(path, {})


def test_a_run_says_how_long_it_took(
    write_study: WriteStudy, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_study("01_one", PARAMETERS, BODY)
    study.run_studies("quick")
    said = capsys.readouterr().out
    where = re.escape(f"studies of {project}, by the package in {ROOT / 'tempoloc_nb'}\n")
    assert re.fullmatch(where + r"01_one: done in \d+ s\n1 study: 1 done, in \d+ s\n", said)
    study.run_studies("quick")
    again = capsys.readouterr().out
    assert re.fullmatch(where + r"01_one: unchanged since a run of \d+ s\n1 study: 1 unchanged, in 0 s\n", again)


def test_a_checkout_with_its_own_package_is_named_once() -> None:
    """In this repository: its studies, by its own package."""
    assert study.checkout() == f"studies of {ROOT}"


def test_a_failed_notebook_names_its_cell_and_the_others_go_on(write_study: WriteStudy, project: Path) -> None:
    write_study("01_bad", PARAMETERS, "x = 1", "raise ValueError('no clips here')")
    write_study("02_good", PARAMETERS, BODY)
    bad, good = study.run_studies("quick")
    assert (bad.status, bad.cell, bad.error) == ("failed", 3, "ValueError: no clips here")
    assert good.status == "done"
    assert "no clips here" in (project / "runs" / "quick" / "index.html").read_text()
    assert study.planned_runs("quick", only=["01"])[0].state == "to run"


GIVEN = MODEL + 'base = ""\nbenchmark = "recipe"\nbackend = "hf"\nlogs = ""\ntensor_parallel = 1\ndata_parallel = 0\n'


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("model", "tempoloc-tny", "unknown model 'tempoloc-tny': did you mean tempoloc-tiny"),
        ("model", "./tempoloc-tiny", r"\./tempoloc-tiny: no such folder"),
        ("model", "../mine", r"\.\./mine: no such folder"),
        ("base", "runs/sft/modle", "the model runs/sft/modle is not shipped"),
        ("base", "/tmp/a/b/c/d", "/tmp/a/b/c/d: no such folder"),
        ("benchmark", "recipes", "unknown benchmark 'recipes': did you mean recipe"),
        ("benchmark", "mine.jsonl", r"cannot read the manifest mine\.jsonl"),
        ("backend", "vlm", "unknown backend 'vlm': did you mean vllm"),
        ("tensor_parallel", 2, "tensor_parallel 2 is not for hf"),
        ("data_parallel", 1.5, r"data_parallel is a whole number, not 1\.5"),
        ("logs", "mine", r"no training log base\.jsonl in mine"),
        ("video_root", "mine", "mine: no such folder of videos"),
        ("video_root", "settings.ini", r"settings\.ini: no such folder of videos"),
        ("video_root", "nbs", r"60 of 60 clips have no video \(.*\): put them into nbs"),
    ],
)
def test_what_is_given_and_is_not_there_ends_the_command_before_anything_runs(
    write_study: WriteStudy, project: Path, name: str, value: Any, message: str
) -> None:
    write_study("01_one", PARAMETERS + GIVEN, BODY)
    for command in (study.run_studies, study.planned_runs):
        with pytest.raises(TempolocError, match=message):
            command("quick", {name: value})
    assert not (project / "runs").exists()


def test_a_folder_of_one_benchmarks_videos_is_for_studies_of_several(write_study: WriteStudy, project: Path) -> None:
    write_study("01_one", PARAMETERS + '\nvideo_root = ""\nbenchmark = "sim"', "raise ValueError(video_root)")
    write_study("02_two", PARAMETERS + '\nvideo_root = ""\nbenchmark = "recipe"', BODY)
    shutil.copytree(ROOT / "data" / "benchmarks" / "sim", project / "data" / "benchmarks" / "sim")
    (project / "mine").mkdir()
    (project / "mine" / "cube_stacking_demo1.mp4").touch()
    assert [run.state for run in study.planned_runs("quick", {"video_root": "mine"})] == ["to run", "to run"]


def test_a_relative_path_is_the_callers(
    write_study: WriteStudy, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notebook runs in its own folder."""
    shown = "from pathlib import Path\nassert Path(video_root, 'cube_stacking_demo1.mp4').is_file(), video_root"
    named = "assert (model, benchmark) == ('tempoloc-tiny', 'recipe'), (model, benchmark)"
    write_study("01_one", PARAMETERS + MODEL + 'benchmark = "recipe"\n', shown, named, BODY)
    (project / "here" / "clips").mkdir(parents=True)
    for name in ("recipe", "models", "tempoloc-tiny"):
        (project / "here" / name).mkdir()  # named as what is shipped, and not meant
    (project / "data" / "models" / "tempoloc-tiny").mkdir(parents=True)
    (project / "here" / "clips" / "cube_stacking_demo1.mp4").touch()
    monkeypatch.chdir(project / "here")
    (run,) = study.run_studies("quick", {"video_root": "clips", "model": "tempoloc-tiny", "benchmark": "recipe"})
    assert (run.status, run.error) == ("done", "")
    record = json.loads((run.folder / "run.json").read_text())
    assert record["parameters"]["video_root"] == "clips"
    monkeypatch.chdir(project)
    (run,) = study.run_studies("quick", {"video_root": "here/clips", "model": "tempoloc-tiny", "benchmark": "recipe"})
    assert (run.status, run.error) == ("done", "")


def test_a_study_imports_the_package_that_runs_it(
    write_study: WriteStudy, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not another one that is installed, or that the caller's PYTHONPATH names."""
    (project / "other" / "tempoloc_nb").mkdir(parents=True)
    (project / "other" / "tempoloc_nb" / "__init__.py").write_text("raise ImportError('another package')")
    monkeypatch.setenv("PYTHONPATH", str(project / "other"))
    mine = str(ROOT / "tempoloc_nb")
    write_study("01_one", PARAMETERS, f"import tempoloc_nb\nassert tempoloc_nb.__path__[0] == {mine!r}")
    (run,) = study.run_studies("quick")
    assert (run.status, run.error) == ("done", "")
    assert os.environ["PYTHONPATH"] == str(project / "other")


@pytest.mark.parametrize(
    ("status", "said"),
    [("failed", "failed: 01_one"), ("incomplete", "lack answers; run the same command again: 01_one")],
)
def test_the_command_ends_with_an_error_where_a_study_is_not_done(
    status: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = [
        study.StudyRun("01_one", status, tmp_path / "01_one"),
        study.StudyRun("02_two", "done", tmp_path / "02_two"),
    ]
    monkeypatch.setattr(study, "run_studies", lambda *_: found)
    with pytest.raises(TempolocError, match=f"1 of 2 studies {said}$"):
        study_command()


def test_the_command_ends_with_an_error_where_every_study_is_left_out(
    write_study: WriteStudy, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_study("01_logs", PARAMETERS + '\nlogs = ""', LOGS)
    write_study("02_one", PARAMETERS, BODY)
    with pytest.raises(TempolocError, match=r"^nothing was run: 01_logs left out$"):
        study_command(only=["01"])
    study_command()  # another one ran
    assert "2 studies: 1 done, 1 left out" in capsys.readouterr().out


def test_publishing_takes_no_parameters() -> None:
    for more in ({"parameter": ["fps=4"]}, {"plan": True}):
        with pytest.raises(TempolocError, match="--publish copies what was run before: leave out --plan and -p"):
            study_command(publish=True, **more)  # type: ignore[arg-type]
    with pytest.raises(TempolocError, match="-p fps is given twice"):
        study_command(parameter=["fps=4", "fps=8"])


def runs(pid: str) -> bool:
    """Whether a process is there, and not only its exit status."""
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Path]:
    """Let the first so many kernels end as they start, as one does whose port another program took meanwhile."""

    def write(failures: int) -> Path:
        starts, spec = tmp_path / "starts", tmp_path / "jupyter" / "kernels" / "python3"
        spec.mkdir(parents=True)
        code = (
            f"import runpy; p = {str(starts)!r}; open(p, 'a').write('.')\n"
            f"if len(open(p).read()) <= {failures}: raise SystemExit(1)\n"
            "runpy.run_module('ipykernel_launcher', run_name='__main__', alter_sys=True)"
        )
        argv = [sys.executable, "-c", code, "-f", "{connection_file}"]
        (spec / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "x", "language": "python"}))
        monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
        return starts

    return write


def test_a_kernel_that_does_not_start_is_started_again(
    write_study: WriteStudy, project: Path, kernel: Callable[[int], Path]
) -> None:
    starts = kernel(1)
    write_study("01_one", PARAMETERS, BODY)
    assert [r.status for r in study.run_studies("quick")] == ["done"]
    assert starts.read_text() == ".."
    assert (project / "runs" / "quick" / "01_one" / "tables" / "factor.csv").is_file()


def test_a_kernel_that_never_starts_fails_its_study(write_study: WriteStudy, kernel: Callable[[int], Path]) -> None:
    starts = kernel(100)
    write_study("01_one", PARAMETERS, BODY)
    (run,) = study.run_studies("quick")
    assert starts.read_text() == "..."
    assert str(run).startswith("FAILED in no cell")
    assert "its kernel did not start, tried 3 times" in run.error


def test_a_kernel_that_dies_fails_its_study_and_no_other(write_study: WriteStudy, project: Path) -> None:
    """As where memory ran out and the system killed it."""
    write_study("01_dies", PARAMETERS, "import os, signal", "os.kill(os.getpid(), signal.SIGKILL)", "1 + 1")
    write_study("02_lives", PARAMETERS, BODY)
    dies, lives = study.run_studies("quick")
    assert (dies.status, dies.cell, lives.status) == ("failed", 3, "done")
    assert dies.error == "its kernel died, perhaps for want of memory"
    assert (project / "runs" / "quick" / "index.html").is_file()


@pytest.mark.skipif(not Path("/proc/self/stat").is_file(), reason="there is no /proc to look for processes in")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_study_that_is_ended_leaves_no_process(
    write_study: WriteStudy, project: Path, number: signal.Signals
) -> None:
    """Neither its kernel nor what that has started: an engine would keep its GPU's memory."""
    sleeper = "import os, subprocess\nprocess = subprocess.Popen(['sleep', '600'])\n"
    told = f"open({str(project / 'told')!r}, 'w').write(f'{{os.getpid()}} {{process.pid}}\\n')\nprocess.wait()"
    write_study("01_one", PARAMETERS, sleeper + told)
    line = [sys.executable, "-m", "tempoloc_nb", "study", "--only", "01"]
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True) as job:
        until = time.monotonic() + 120
        while not (project / "told").is_file() or "\n" not in (project / "told").read_text():
            assert time.monotonic() < until
            time.sleep(0.05)
        job.send_signal(number)
        _, err = job.communicate(timeout=120)
    assert job.returncode == 130
    assert "tempoloc: interrupted" in err.splitlines(), err  # a kernel that ends may say something after it
    started = (project / "told").read_text().split()
    while any(map(runs, started)):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_notebook_without_parameters_is_refused_before_anything_runs(write_study: WriteStudy, project: Path) -> None:
    write_study("01_good", PARAMETERS, BODY)
    write_study("02_untagged", PARAMETERS, BODY, tags=())
    with pytest.raises(TempolocError, match=r"02_untagged\.ipynb has 0 cells tagged"):
        study.run_studies("quick")
    assert not (project / "runs").exists()


@pytest.mark.parametrize("spoilt", [{}, {"source": None}, {"source": "x = ("}, {"cell_type": None, "source": [1]}])
def test_a_file_that_is_no_notebook_is_named(write_study: WriteStudy, spoilt: dict[str, object]) -> None:
    path = write_study("01_odd", PARAMETERS, BODY)
    book = json.loads(path.read_text())
    book["cells"][0] = {"metadata": book["cells"][0]["metadata"], **spoilt}
    path.write_text(json.dumps(book))
    with pytest.raises(TempolocError, match=r"01_odd\.ipynb (is no notebook|has a cell that is no Python)"):
        study.run_studies("quick")


@pytest.mark.parametrize(
    ("cell", "message"),
    [('output = ""', "lacks 'profile'"), ('profile = "quick"', "lacks 'output'")],
)
def test_the_runners_own_parameters_must_be_there(write_study: WriteStudy, cell: str, message: str) -> None:
    write_study("01_one", cell, BODY)
    with pytest.raises(TempolocError, match=message):
        study.run_studies("quick")


def test_unknown_parameters_profiles_and_studies_are_refused(write_study: WriteStudy) -> None:
    write_study("01_one", PARAMETERS, BODY)
    with pytest.raises(TempolocError, match="unknown parameter 'facter': the chosen studies know factor"):
        study.run_studies("quick", {"facter": 3})
    with pytest.raises(TempolocError, match="use --profile"):
        study.run_studies("quick", {"profile": "full"})
    with pytest.raises(TempolocError, match="unknown profile"):
        study.run_studies("huge")
    with pytest.raises(TempolocError, match="choose from 01_one"):
        study.run_studies("quick", only=["09"])


def test_a_run_with_overrides_is_of_the_studies_that_know_them(write_study: WriteStudy, project: Path) -> None:
    write_study("01_plain", PARAMETERS, BODY)
    write_study("02_more", PARAMETERS + "\nmore = 1", BODY)
    write_study("03_other", PARAMETERS + "\nother = 1", BODY)
    assert [r.notebook.stem for r in study.planned_runs("quick")] == ["01_plain", "02_more", "03_other"]
    assert [r.study for r in study.run_studies("quick", {"factor": 3, "more": 2})] == ["02_more"]
    assert [r.notebook.stem for r in study.planned_runs("quick", {"other": 2})] == ["03_other"]
    with pytest.raises(TempolocError, match="no study knows more and other together"):
        study.run_studies("quick", {"more": 2, "other": 2})


def test_a_profile_that_needs_gpus_is_refused_without_them(
    write_study: WriteStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_study("01_one", PARAMETERS, BODY)
    monkeypatch.setattr(study, "gpu_count", lambda: 2)
    with pytest.raises(TempolocError, match="needs 8 GPUs, found 2"):
        study.run_studies("gpu8")
    assert study.gpus_needed("gpu8", {}) == 8
    with pytest.raises(TempolocError, match="use -p data_parallel 2"):
        study.run_studies("gpu8")
    write_study("01_one", PARAMETERS + "\ndata_parallel = 0", BODY)
    assert [r.status for r in study.run_studies("gpu8", {"data_parallel": 2})] == ["done"]


def test_publishing_needs_a_full_run_of_this_code(write_study: WriteStudy, project: Path) -> None:
    path = write_study("01_one", PARAMETERS, BODY, FIGURE, FIGURE.replace("line", "own"))
    (path.parent.parent / "article.ipynb").write_text("![a line](../figures/01_one/line.svg)")
    with pytest.raises(TempolocError, match="too small to publish"):
        study.publish("quick")
    with pytest.raises(TempolocError, match="01_one has no finished full run"):
        study.publish("full")
    study.run_studies("full")
    assert study.publish("full") == ["01_one"]
    published = json.loads(path.read_text())
    record = json.loads((project / "data" / "results" / "01_one" / "run.json").read_text())
    assert published["metadata"]["tempoloc"]["results"] == record["results"]
    assert published["cells"][1]["outputs"]
    # Of the figures that which another page shows; the other is in the study's own notebook alone.
    assert {p.name for p in (project / "figures" / "01_one").iterdir()} == {"line.svg", "line.json"}
    # Outputs are not code: the run is still the run of this notebook.
    assert study.planned_runs("full")[0].state == "unchanged"
    path.write_text(path.read_text().replace("[factor]", "[factor + 1]"))
    with pytest.raises(TempolocError, match="has no finished full run"):
        study.publish("full")
    write_study("02_two", PARAMETERS, BODY)
    study.run_studies("full", only=["two"])
    assert study.publish("full", ["two"]) == ["02_two"]
    with pytest.raises(TempolocError, match="no study matches three"):
        study.publish("full", ["three"])
    write_study("03_logs", PARAMETERS + '\nlogs = "nowhere"')
    assert study.publish("full", ["two", "logs"]) == ["02_two"]
    with pytest.raises(TempolocError, match=r"nothing to publish: 03_logs is left out \(.*nowhere"):
        study.publish("full", ["logs"])


def test_a_study_is_run_again_where_any_data_changed() -> None:
    data = settings().paths.data
    read = {p.relative_to(data).parts[0] for p in study._study_inputs() if p.is_relative_to(data)}
    assert {p.name for p in data.iterdir()} - read == {"models", "results"}


def test_published_results_are_of_one_run() -> None:
    """In this repository: notebook outputs, tables and figures carry the same parameters and hashes."""
    paths = settings().paths
    notebooks = study_notebooks()
    there = [n for n in notebooks if not study._why_left_out(n, "full", {})]
    left = [n.stem for n in notebooks if n not in there]
    print(f"{len(left)} studies have no model here, and are not published: {', '.join(left) or '-'}")
    assert {"01_published_results", "02_simulated_benchmark", "03_overlay_and_pixels"} <= {n.stem for n in there}
    assert all("tempoloc" not in json.loads(n.read_text())["metadata"] for n in notebooks if n not in there)
    for notebook in there:
        note = json.loads(notebook.read_text())["metadata"]["tempoloc"]
        record = json.loads((paths.results / notebook.stem / "run.json").read_text())
        assert note == {"parameters": record["parameters"], "results": record["results"]}
        assert settings().profile(note["parameters"]["profile"]).publishable
        for name, digest in note["results"].items():
            part, file = name.split("/", 1)
            folder = paths.results if part == "tables" else paths.figures
            assert study.file_hash(folder / notebook.stem / file) == digest, name
        listed = {n.split("/", 1)[1] for n in note["results"]} | {"run.json"}
        there = {p.name for folder in (paths.results, paths.figures) for p in (folder / notebook.stem).glob("*")}
        assert there == listed


def test_the_figures_kept_are_those_that_pages_show() -> None:
    """In this repository; the quickstart's pictures are made by its own cells."""
    figures = settings().paths.figures
    kept = {p.name: {q.stem for q in p.iterdir()} for p in figures.iterdir()}
    assert kept == {p.name: study._shown(p.name) for p in figures.iterdir()}
    assert {name for n in study_notebooks() for name in study._shown(n.stem)} <= set().union(*kept.values())


def test_study_notebooks_define_no_classes_and_export_nothing() -> None:
    for notebook in study_notebooks():
        for cell in json.loads(notebook.read_text())["cells"]:
            if cell["cell_type"] == "code":
                source = "".join(cell["source"])
                assert not any(line.startswith("class ") for line in source.splitlines())
                assert "#| export" not in source
