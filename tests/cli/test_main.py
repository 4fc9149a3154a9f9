"""The commands as a newcomer runs them: real files in, one clear line for bad input."""

from __future__ import annotations

import json
import os
import pickle
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from fake_server import FakeServer
from tiny_models import qwen25
from video_clips import write_audio, write_clip

from tempoloc_nb.cli.main import join_parameters
from tempoloc_nb.cli.study import read_override
from tempoloc_nb.clips.manifest import load_benchmark, write_manifest
from tempoloc_nb.core.settings import data_dir, settings
from tempoloc_nb.engines.qwen import video_rules
from tempoloc_nb.video.files import encode, probe
from tempoloc_nb.video.overlay import OverlayOptions, is_stamped_so

Run = Callable[..., tuple[int, str, str]]


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
    assert (code, out) == (0, f"{path}: 60 predictions written, 0 kept\n")
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
    assert "30 predictions written, 0 kept, 30 clips without what uniform needs" in one_line(out)


def test_two_models_are_compared(run: Run, tmp_path: Path) -> None:
    names = ("loo-median", "constant")
    for name in names:
        run("localize", "--model", name, "--benchmark", "recipe", "-o", tmp_path / f"{name}.jsonl")
    files = [tmp_path / f"{name}.jsonl" for name in names]
    pair = [f"baseline/{name}" for name in names]
    code, out, _ = run("evaluate", *files, "--benchmark", "recipe", "--resamples", 200, "--compare", *pair)
    assert code == 0
    assert "all tasks: baseline/loo-median − baseline/constant = -" in out


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
        (["localize", "--model", "median", "-o", "p.jsonl"], "unknown model or no-video baseline 'median'"),
        (["localize", "--model", "constant", "--backend", "vlm", "-o", "p.jsonl"], "unknown backend 'vlm'"),
        (["localize", "--model", "constant", "--benchmark", "none", "-o", "p.jsonl"], "unknown benchmark 'none'"),
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


def test_overlay_takes_the_stamp_of_a_model_and_else_the_recipes(run: Run, tmp_path: Path) -> None:
    made = {}
    for name, given in {
        "recipe": (),
        "own": ("--model", "tempoloc-tiny"),
        "large": ("--model", "Qwen3-VL-8B-Instruct"),
    }.items():
        code, out, _ = run("overlay", "-i", shipped_video(), "-o", tmp_path / name, *given)
        assert (code, "(--model: " in out) == (0, not given)
        made[name] = probe(tmp_path / name / shipped_video().name).height - probe(shipped_video()).height
    assert made == {"recipe": 28, "own": 64, "large": 28}
    code, _, _ = run("overlay", "-i", shipped_video(), "-o", tmp_path / "sides", "--stamps", "alternate", "--fps", "4")
    wanted = OverlayOptions(fps=4, stamps="alternate", total_pixels=settings().pixels.total_pixels)
    assert (code, is_stamped_so(tmp_path / "sides" / shipped_video().name, wanted)) == (0, True)
    code, _, err = run("overlay", "-i", shipped_video(), "-o", tmp_path / "x", "--stamps", "left")
    assert (code, all(f"'{kind}'" in err for kind in ("frame", "pair", "alternate"))) == (2, True)
    code, out, _ = run("overlay", "-i", shipped_video(), "-o", tmp_path / "own", "--model", "tempoloc-tiny")
    assert (code, "1 up to date" in out) == (0, True)
    code, _, err = run("overlay", "-i", shipped_video(), "-o", tmp_path / "x", "--model", "tempoloc-tniy")
    assert (code, "did you mean tempoloc-tiny" in one_line(err)) == (1, True)


# --- models ---

QUICK = ("--fps", 4, "--stamps", "pair", "--prompt", "tiny", "--max-new-tokens", 8)


@pytest.fixture
def two_clips(tmp_path: Path) -> Path:
    """A manifest of two shipped clips, their videos beside it."""
    root = tmp_path / "benchmark"
    benchmark = load_benchmark("sim").head(1)
    clips = [replace(c, video=f"{c.task}.mp4") for c in benchmark.clips[:2]]
    root.mkdir()
    write_manifest(root / "manifest.jsonl", clips)
    for clip, old in zip(clips, benchmark.clips, strict=False):
        shutil.copy(old.video_path(benchmark.root), root / str(clip.video))
    return root


def ruin(folder: Path, how: str) -> Path:
    """A copy of a model with one thing wrong."""
    if how == "missing":
        return folder / "absent"
    shutil.copytree(qwen25(), folder)
    weights, config = folder / "model.safetensors", folder / "config.json"
    if how == "truncated":
        weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
    elif how == "no weights":
        weights.unlink()
    elif how == "architecture":
        config.write_text(json.dumps(json.loads(config.read_text()) | {"model_type": "llama"}))
    return folder


@pytest.mark.parametrize(
    ("how", "message", "copies"),
    [
        ("missing", "/absent: no such folder; give a folder written by save_pretrained", 1),
        ("no weights", "has no model.safetensors: copy or download the model again", 1),
        ("truncated", "model.safetensors is damaged", 1),
        ("truncated", "model.safetensors is damaged", 2),
        ("architecture", "config.json: model type 'llama' is none of qwen2_5_vl, qwen3_vl", 1),
    ],
)
def test_a_model_that_cannot_be_loaded_is_one_clear_line(
    run: Run, tmp_path: Path, two_clips: Path, monkeypatch: pytest.MonkeyPatch, how: str, message: str, copies: int
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    model, out = ruin(tmp_path / "model", how), tmp_path / "p.jsonl"
    code, _, err = run(
        "localize", "--model", model, "--benchmark", two_clips / "manifest.jsonl", "--data-parallel", copies,
        *QUICK, "-o", out,
    )  # fmt: skip
    assert code == 1
    assert message in one_line(err)
    assert str(model) in err
    assert not out.exists()


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("no frames", "no video stream"),
        ("torn", "stack-three.mp4"),
        ("too long", "exceed the model's context of 4096: lower fps, pixels or max_new_tokens"),
    ],
)
def test_a_clip_that_cannot_be_asked_about_is_one_clear_line(
    run: Run, tmp_path: Path, two_clips: Path, kind: str, message: str
) -> None:
    """The other clip is answered, and the command fails with the bad clip's name."""
    bad, out = two_clips / "stack-three.mp4", tmp_path / "p.jsonl"
    if kind == "no frames":
        write_audio(bad)
    elif kind == "torn":
        bad.write_bytes(bad.read_bytes()[:3000])
    else:
        write_clip(bad, 450, (256, 256), time_base=Fraction(1, 4), rate=4, options={"preset": "ultrafast"})
    code, shown, err = run(
        "localize", "--model", qwen25(), "--benchmark", two_clips / "manifest.jsonl", *QUICK, "-o", out
    )
    assert code == 1
    assert message in one_line(err)
    assert "stack-three/000" in err
    assert "1 predictions written, 0 kept, 1 clips failed" in shown
    (error,) = (json.loads(line) for line in (tmp_path / "p.errors.jsonl").read_text().splitlines())
    assert error["clip"] == "stack-three/000"


def test_what_the_model_is_shown_can_be_changed(run: Run, tmp_path: Path, two_clips: Path) -> None:
    """Shift and content reach the model: the prompt is another, and the rows say which."""
    given = (("shift", 5, "shift+5"), ("content", "blank", "blank"), ("content", "shuffled", "shuffled"))
    for name, value, view in given:
        out = tmp_path / f"{view}.jsonl"
        code, _, _ = run(
            "localize",
            "--model",
            qwen25(),
            "--benchmark",
            two_clips / "manifest.jsonl",
            *QUICK,
            f"--{name}",
            value,
            "-o",
            out,
        )
        assert code == 0
        assert {json.loads(line)["view"] for line in out.read_text().splitlines()} == {f"pair-{view}"}


def test_gpus_that_are_not_there_are_one_clear_line(run: Run, tmp_path: Path, two_clips: Path) -> None:
    manifest, out = two_clips / "manifest.jsonl", tmp_path / "p.jsonl"
    for options, message in (
        (("--tensor-parallel", 4), "tensor_parallel 4 is not for hf"),
        (("--data-parallel", 0), "--data-parallel must be 1 or more, got 0"),
    ):
        code, _, err = run("localize", "--model", qwen25(), "--benchmark", manifest, *QUICK, *options, "-o", out)
        assert code == 1
        assert message in one_line(err)


def test_a_server_is_asked_as_patiently_as_told(run: Run, tmp_path: Path, two_clips: Path) -> None:
    """Without retries, a trial is lost to one fault; the others are kept."""
    ask = ("localize", "--model", qwen25(), "--benchmark", two_clips / "manifest.jsonl", *QUICK, "--trials", 4)
    for name, options, faults, message in (
        ("one", ("--concurrency", 1), [], None), ("fault", ("--retries", 0), ["500"], "HTTP 500"),
        ("slow", ("--timeout", 3, "--retries", 0), ["slow 60"], "3 s"),
    ):  # fmt: skip
        out = tmp_path / f"{name}.jsonl"
        with FakeServer(qwen25().name, rules=video_rules(qwen25()), faults=faults, delay=0.05) as server:
            code, _, err = run(*ask, "--backend", "openai", "--server", server.url, *options, "-o", out)
        if message is None:
            assert (code, err, server.most, len(server.bodies)) == (0, "", 1, 8)
        else:
            assert code == 1
            assert re.search(rf"1 of 4 trials failed: .*{message}", err), err
            assert (len(server.bodies), len(out.read_text().splitlines())) == (8, 7)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--concurrency", 4), "concurrency is an option of openai and ray, not of hf"),
        (("--timeout", 4), "timeout is an option of openai, not of hf"),
        (("--backend", "vllm", "--retries", 4), "retries is an option of openai, not of vllm"),
        (("--backend", "ray", "--concurrency", 0), "--concurrency must be 1 or more"),
        (("--backend", "openai", "--timeout", 0), "--timeout must be above 0, got 0.0"),
    ],
)
def test_patience_is_for_servers(
    run: Run, tmp_path: Path, two_clips: Path, options: Sequence[object], message: str
) -> None:
    manifest, out = two_clips / "manifest.jsonl", tmp_path / "p.jsonl"
    code, _, err = run("localize", "--model", qwen25(), "--benchmark", manifest, *options, "-o", out)
    assert code == 1
    assert message in one_line(err)
    assert not out.exists()


def test_a_plan_asks_nothing(run: Run, tmp_path: Path, two_clips: Path) -> None:
    out = tmp_path / "p.jsonl"
    code, shown, _ = run(
        "localize", "--model", qwen25(), "--benchmark", two_clips / "manifest.jsonl", "--trials", 3, "--plan", "-o", out
    )
    assert code == 0
    assert "2 clips × 3 trials = 6 answers" in shown
    assert not out.exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
@pytest.mark.parametrize("arguments", [("--help",), ("models", "--help"), ("models",), ("--version",)])
def test_a_full_screen_is_one_line(arguments: tuple[str, ...]) -> None:
    """The help of the whole, which no command prints, too; and the interpreter adds nothing at its end."""
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "tempoloc_nb", *arguments]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (1, "tempoloc: No space left on device\n")


@pytest.mark.skipif(os.name == "nt", reason="its shells close no streams")
@pytest.mark.parametrize("closed", ["| true", ">&-", ">&- 2>&- <&-"])
@pytest.mark.parametrize("arguments", ["--help", "models", "dataset export csv sim -o -"])
def test_nobody_reads_the_output(arguments: str, closed: str) -> None:
    """`| true` and `>&-`: not a word, of argparse's own output and of a command's."""
    command = f"{shlex.quote(sys.executable)} -m tempoloc_nb {arguments} {closed}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
    assert "Traceback" not in done.stderr
    assert "pipe" not in done.stderr.lower()


@pytest.mark.skipif(os.name == "nt", reason="its shells close no streams")
def test_what_is_wrong_is_said_where_the_output_is_closed(tmp_path: Path) -> None:
    command = f"{shlex.quote(sys.executable)} -m tempoloc_nb models nonesuch >&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    table = tmp_path / "t.csv"
    command = f"{shlex.quote(sys.executable)} -m tempoloc_nb dataset export csv sim -o {shlex.quote(str(table))} >&-"
    assert subprocess.run(["sh", "-c", command]).returncode == 0
    assert len(table.read_text().splitlines()) > 400


def test_an_interrupt_within_a_finalizer_is_an_interrupt(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Held:
        def __del__(self) -> None:
            raise KeyboardInterrupt  # Python prints it, and goes on

    def models(*_: object, **__: object) -> list[dict[str, str]]:
        held = Held()
        del held
        for _ in range(1000):  # the main thread takes a moment to be told
            time.sleep(0.01)
        return [{}]

    monkeypatch.setattr("tempoloc_nb.models.registry.model_rows", models)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # an earlier test may have left another
    try:
        assert run("models") == (130, "", "tempoloc: interrupted\n")
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interrupt_that_python_wraps_is_an_interrupt(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one within a class that is imported: `__set_name__` is said to have failed."""

    def models(*_: object, **__: object) -> list[dict[str, str]]:
        raise RuntimeError("Error calling __set_name__ on 'Field' instance '_lock'") from KeyboardInterrupt()

    monkeypatch.setattr("tempoloc_nb.models.registry.model_rows", models)
    assert run("models") == (130, "", "tempoloc: interrupted\n")
