"""The commands as a newcomer runs them: real files in, one clear line for bad input."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from tempoloc_nb.cli import join_parameters, main, read_override
from tempoloc_nb.settings import data_dir
from tempoloc_nb.video import encode, probe

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in this process; returns exit status, stdout, stderr."""

    def call(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stopped:
            main([str(a) for a in arguments])
        captured = capsys.readouterr()
        code = stopped.value.code
        return (code if isinstance(code, int) else 0), captured.out, captured.err

    return call


def one_line(text: str) -> str:
    lines = text.strip().splitlines()
    assert len(lines) == 1, text
    assert "Traceback" not in text
    return lines[0]


def shipped_video() -> Path:
    return sorted((data_dir() / "benchmarks" / "sim" / "videos").rglob("*.mp4"))[0]


def test_blind_predictions_are_scored(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    code, out, _ = run("localize", "--model", "loo-median", "--benchmark", "recipe", "-o", path)
    assert (code, out) == (0, f"{path}: 60 predictions\n")
    code, out, _ = run("evaluate", path, "--benchmark", "recipe", "--recipe", "--task", "nut", "--resamples", 200)
    assert code == 0
    assert "MAE 0.190" in out
    assert "MRE 8.9" in out
    code, out, _ = run("evaluate", path, "--benchmark", "recipe", "--json", "--resamples", 50)
    assert code == 0
    assert {t["task"] for t in json.loads(out)["runs"][0]["tasks"]} == {
        "cube", "nut", "bridge", "toaster", "chips", "fork", "cup",
    }  # fmt: skip


def test_a_row_that_cannot_answer_everything_says_so(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("localize", "--model", "uniform", "--benchmark", "recipe", "-o", tmp_path / "p.jsonl")
    assert code == 0
    assert "30 predictions; 30 clips lack what uniform needs" in out


def test_two_models_are_compared(run: Run, tmp_path: Path) -> None:
    names = ("loo-median", "constant")
    for name in names:
        run("localize", "--model", name, "--benchmark", "recipe", "-o", tmp_path / f"{name}.jsonl")
    files = [tmp_path / f"{name}.jsonl" for name in names]
    pair = [f"blind/{name}" for name in names]
    code, out, _ = run("evaluate", *files, "--benchmark", "recipe", "--resamples", 200, "--compare", *pair)
    assert code == 0
    assert "all tasks: blind/loo-median − blind/constant = -" in out


def test_overlay_stamps_the_good_and_names_the_bad(run: Run, tmp_path: Path) -> None:
    videos, stamped = tmp_path / "videos", tmp_path / "stamped"
    videos.mkdir()
    shutil.copy(shipped_video(), videos / "good.mp4")
    (videos / "empty.mp4").touch()
    (videos / "torn.mp4").write_bytes(shipped_video().read_bytes()[:3000])
    code, out, err = run("overlay", "-i", videos, "-o", stamped)
    assert code == 1
    assert "1 stamped, 0 up to date, 2 failed" in one_line(out)
    assert len(err.strip().splitlines()) == 2
    assert "empty.mp4" in err
    assert "torn.mp4" in err
    before, after = probe(videos / "good.mp4"), probe(stamped / "good.mp4")
    assert (after.n_frames, after.fps, after.width) == (before.n_frames, before.fps, before.width)
    assert after.height > before.height
    for name in ("empty.mp4", "torn.mp4"):
        (videos / name).unlink()
    code, out, _ = run("overlay", "-i", videos, "-o", stamped)
    assert code == 0
    assert "0 stamped, 1 up to date" in out


def test_import_recipe_reads_results_and_refuses_code(run: Run, tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir()
    text = "<answer>\nEvent 1: <1.7> <5.8> a\nEvent 2: <5.8> <7.9> b\nEvent 3: <7.9> <10.6> c\n</answer>"
    (results / "results_demo0.pkl").write_bytes(pickle.dumps({"fps8": [text, text]}))
    out_file = tmp_path / "p.jsonl"
    code, out, _ = run("import-recipe", results, "--task", "nut", "-o", out_file, "--model", "CR1")
    assert code == 0
    assert "2 predictions from 1 files" in out
    assert run("evaluate", out_file, "--benchmark", "recipe", "--task", "nut", "--recipe", "--resamples", 50)[0] == 0
    (results / "results_demo1.pkl").write_bytes(b"cos\nsystem\n(S'touch " + str(tmp_path).encode() + b"/owned'\ntR.")
    code, _, err = run("import-recipe", results, "--task", "nut", "-o", tmp_path / "q.jsonl", "--model", "CR1")
    assert code == 1
    assert "results_demo1.pkl" in one_line(err)
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["localize", "--model", "median", "-o", "p.jsonl"], "unknown blind row 'median'"),
        (["localize", "--model", "constant", "--backend", "vllm", "-o", "p.jsonl"], "unknown backend 'vllm'"),
        (["localize", "--model", "constant", "--benchmark", "none", "-o", "p.jsonl"], "no benchmark 'none'"),
        (["evaluate", "absent.jsonl", "--benchmark", "recipe"], "absent.jsonl"),
        (["evaluate", "absent.jsonl", "--benchmark", "recipe", "--use-start-time", "--use-end-time"], "not both"),
        (["evaluate", "bad.jsonl", "--benchmark", "recipe"], "bad.jsonl:1"),
        (["evaluate", "bad.jsonl", "--benchmark", "recipe", "--task", "tea"], "tea"),
        (["overlay", "-i", "absent", "-o", "out"], "absent"),
        (["overlay", "-i", ".", "-o", "out"], "no videos"),
        (["import-recipe", "absent", "--task", "cube", "-o", "p.jsonl"], "absent"),
        (["import-recipe", ".", "--task", "tea", "-o", "p.jsonl"], "unknown task 'tea'"),
        (["study", "--profile", "huge"], "unknown profile 'huge'"),
        (["study", "--only", "99"], "no study matches 99"),
        (["study", "-p", "colour", "red"], "unknown parameter 'colour'"),
        (["study", "--publish"], "too small to publish"),
        (["simulate", "--task", "juggling", "--n", "1", "-o", "out"], "juggling"),
        (["simulate", "--task", "lift", "--robot", "Tin Man", "--n", "1", "-o", "out"], "Tin Man"),
    ],
)
def test_bad_input_is_one_clear_line(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: Sequence[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.jsonl").write_text('{"clip": \n{}\n')
    code, _, err = run(*arguments)
    assert code == 1
    assert message in one_line(err)


def test_wrong_options_exit_with_2(run: Run) -> None:
    assert run("evaluate")[0] == 2
    assert run("conjure")[0] == 2


def test_parameters_of_a_study() -> None:
    assert read_override("true") is True
    assert read_override("nvidia/Cosmos-Reason1-7B") == "nvidia/Cosmos-Reason1-7B"
    assert join_parameters(["-p", "a", "1", "-p", "b=2", "--plan"]) == ["-p", "a=1", "-p", "b=2", "--plan"]


def test_an_odd_sized_video_is_stamped(run: Run, tmp_path: Path) -> None:
    videos = tmp_path / "videos"
    videos.mkdir()
    frames = np.random.default_rng(0).integers(0, 255, (6, 64, 98, 3), np.uint8)
    encode(videos / "a.mp4", frames, fps=24000 / 1001)
    code, _, _ = run("overlay", "-i", videos, "-o", tmp_path / "out")
    assert code == 0
    assert probe(tmp_path / "out" / "a.mp4").fps == pytest.approx(24000 / 1001)
