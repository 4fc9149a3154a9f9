"""What every command shares: help in groups, a light start, and one line for what goes wrong."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import COMMANDS
from places import ROOT
from typer.testing import CliRunner

from tempoloc_nb import __version__
from tempoloc_nb.__main__ import main as program
from tempoloc_nb.cli import find
from tempoloc_nb.cli.main import app, explain
from tempoloc_nb.core.errors import TempolocError

Run = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("words", list(COMMANDS), ids=" ".join)
def test_every_command_explains_itself(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, [*words, "--help"])
    assert done.exit_code == 0
    assert "Usage: " in done.output
    assert all(p.help for p in COMMANDS[words].params)


@pytest.mark.parametrize("words", list(COMMANDS), ids=" ".join)
def test_no_command_has_a_long_list_of_options(words: tuple[str, ...]) -> None:
    panels: dict[str, int] = {}
    for parameter in COMMANDS[words].params:
        panel = str(getattr(parameter, "rich_help_panel", None))
        panels[panel] = panels.get(panel, 0) + 1
    assert max(panels.values()) <= 10


def test_help_starts_light() -> None:
    code = (
        "import sys; from tempoloc_nb.cli.main import main\n"
        "try: main(['--help'])\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    heavy = {"torch", "numpy", "pandas", "av", "PIL", "pydantic", "transformers", "matplotlib", "h5py", "scipy"}
    assert not heavy & set(done.stderr.split())


def test_the_module_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "tempoloc_nb", "--version"], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout) == (0, f"tempoloc {__version__}\n")


def test_a_shell_can_complete_commands() -> None:
    environment = os.environ | {
        "_TEMPOLOC_COMPLETE": "complete_bash", "COMP_WORDS": "tempoloc fi", "COMP_CWORD": "1",
    }  # fmt: skip
    code = "import sys; sys.argv[0] = 'tempoloc'; from tempoloc_nb.cli.main import main; main([])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.stdout.split() == ["find"]


def test_slips_of_the_keyboard_name_the_nearest(run: Run) -> None:
    code, _, err = run("fidn", "x.mp4")
    assert code == 2
    assert "Did you mean 'find'" in err
    code, _, err = run("find", "x.mp4", "--modle", "m")
    assert code == 2
    assert "--model" in err


# --- what goes wrong ---


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (TempolocError("a: wrong\nb: wrong, too"), ["a: wrong", "b: wrong, too"]),
        (PermissionError(13, "Permission denied", "/x"), ["/x: Permission denied"]),
        (OSError(28, "No space left on device"), ["No space left on device"]),
        (OSError(18, "Cross-device link", "a", None, "b"), ["a and b: Cross-device link"]),
        (RecursionError(), ["a file is nested too deep to be read"]),
        (ModuleNotFoundError("no h5py", name="h5py"), ["h5py is not installed: pip install 'tempoloc_nb[data]'"]),
        (ModuleNotFoundError("no x", name="torch.nn"), ["torch is not installed: pip install 'tempoloc_nb[hf]'"]),
        (ModuleNotFoundError("no x", name="surely_not"), ["surely_not is not installed: pip install surely_not"]),
        (ModuleNotFoundError("The 'x>=1' distribution was not found"), ["The 'x>=1' distribution was not found"]),
        (
            ImportError("libGL.so.1: cannot open\nmore", name="mujoco"),
            ["libGL.so.1: cannot open: pip install 'tempoloc_nb[sim]'"],
        ),
        (
            MemoryError(),
            ["there is not enough memory: ask for less at once (--batch 1, fewer --total-pixels, fewer --workers)"],
        ),
        (ValueError("embedded null byte"), ["a path holds a NUL byte, which no file's name can"]),
        (RuntimeError("Symlink loop from '/x'"), ["/x: a loop of links"]),
    ],
)
def test_what_is_no_mistake_of_ours_is_said_in_lines(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: Exception, said: list[str]
) -> None:
    assert explain(error) == said
    monkeypatch.setattr("tempoloc_nb.models.registry.load_registry", lambda *_, **__: (_ for _ in ()).throw(error))
    assert run("models") == (1, "", "".join(f"tempoloc: {line}\n" for line in said))


def test_what_would_steer_the_terminal_is_shown_escaped(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    error = TempolocError("a model called \x1b[2J\x07\u202e\ud800")
    monkeypatch.setattr("tempoloc_nb.models.registry.load_registry", lambda *_, **__: (_ for _ in ()).throw(error))
    said = "tempoloc: a model called \\x1b[2J\\x07\\u202e\\ud800\n"
    assert run("models") == (1, "", said)


@pytest.mark.parametrize("form", ["", "--json"])
def test_a_report_steers_no_terminal_either(run: Run, tmp_path: Path, form: str) -> None:
    file = tmp_path / "sft.toml"
    file.write_text('"a\\u001b[2Jb" = 1\n', encoding="utf-8")
    _, out, err = run("sft", "check", str(file), "--engine", "transformers", "--gpus", "1", *filter(None, [form]))
    assert "\x1b" not in out + err
    assert ("\\u001b[2J" if form else "\\x1b[2J") in out
    assert not form or any("\x1b[2J" in finding["check"] for finding in json.loads(out)["findings"])


def test_commands_print_by_one_function_alone() -> None:
    folder = ROOT / "tempoloc_nb" / "cli"
    found = [p.name for p in sorted(folder.glob("*.py")) if re.search(r"typer\.echo|\bprint\(", p.read_text("utf-8"))]
    assert found == ["options.py"]


@pytest.mark.parametrize(
    "error", [IndexError(), ValueError("ours"), RuntimeError("ours"), ModuleNotFoundError("ours", name="tempoloc_nb.x")]
)
def test_a_mistake_of_ours_has_a_traceback(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    monkeypatch.setattr("tempoloc_nb.models.registry.load_registry", lambda *_, **__: (_ for _ in ()).throw(error))
    with pytest.raises(type(error)):
        app(["models"])


@pytest.mark.parametrize("name", ["x" * 300 + ".mp4", "loop.mp4", "bytes.toml"])
def test_odd_paths_are_one_line(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("loop.mp4").symlink_to("loop.mp4")
    Path("bytes.toml").write_bytes(b'key = "\xff"')
    given = ("--task", name) if name.endswith(".toml") else ("-e", "x")
    code, out, err = run("find", "loop.mp4" if name.endswith(".toml") else name, *given)
    assert (code, out, len(err.splitlines())) == (1, "", 1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_a_schedulers_signal_are_one_line_and_status_130(number: signal.Signals) -> None:
    code = (
        "import time, tempoloc_nb.models.registry as m, sys; from tempoloc_nb.cli.main import main\n"
        "m.load_registry = lambda *_, **__: (print('asleep', flush=True), time.sleep(60))\n"
        "main(['models'])"
    )
    job = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert job.stdout is not None
    assert job.stdout.readline() == "asleep\n"
    time.sleep(0.1)
    job.send_signal(number)
    _, err = job.communicate(timeout=120)
    assert (job.returncode, err) == (130, "tempoloc: interrupted\n")


def test_ctrl_c_while_the_commands_are_loaded_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupted:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "tempoloc_nb.cli.main":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "tempoloc_nb.cli.main")
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        program()
    assert (ended.value.code, capsys.readouterr().err) == (130, "tempoloc: interrupted\n")


def test_a_value_is_checked_while_it_is_read(run: Run) -> None:
    for arguments, message in (
        (("evaluate", "p.jsonl", "--benchmark", "recipe", "--resamples", 0), "--resamples must be 1 or more, got 0"),
        (("evaluate", "p.jsonl", "--benchmark", "recipe", "--workers", 0), "--workers must be 1 or more, got 0"),
        (("experiment", "all", "-o", "x", "--clips", -1), "--clips must be 0 or more, got -1"),
        (("localize", "--model", "m", "-o", "p", "--total-pixels", 0), "--total-pixels must be 1 or more, got 0"),
        (("localize", "--model", "m", "-o", "p", "--top-p", 1.5), "--top-p must be above 0 and at most 1, got 1.5"),
        (("localize", "--model", "m", "-o", "p", "--batch", 0), "--batch must be 1 or more, got 0"),
        (("overlay", "-i", "x", "-o", "y", "--crf", 99), "--crf must be 0 or more and at most 51, got 99"),
        (("simulate", "--task", "lift", "-o", "x", "--n", 0), "--n must be 1 or more, got 0"),
        (("simulate", "--seed", 1000000, "-o", "x"), "--seed must be 0 or more and at most 999999, got 1000000"),
    ):
        assert run(*arguments) == (1, "", f"tempoloc: {message}\n")


@pytest.mark.parametrize(
    ("options", "unread"),
    [
        (("--split", "test", "--robot", "UR5e", "--seed", 5), "--robot and --seed"),
        (("--benchmark", "which", "--n", 3), "--n"),
        (("--benchmark", "which", "--size", 64, "--force"), "--size and --force"),
    ],
)
def test_what_a_split_or_benchmark_says_itself_is_not_read(
    run: Run, tmp_path: Path, options: tuple[object, ...], unread: str
) -> None:
    what = f"{options[0]} says what is made, and does not read {unread}: leave it out"
    assert run("simulate", "-o", tmp_path / "sims", *options) == (1, "", f"tempoloc: {what}\n")


def test_a_comparison_with_a_model_that_is_not_there_prints_no_scores(run: Run, tmp_path: Path) -> None:
    run("localize", "--model", "constant", "--benchmark", "sim", "-o", tmp_path / "p.jsonl")
    scored = ("evaluate", tmp_path / "p.jsonl", "--benchmark", "sim", "--resamples", 20, "--workers", 1)
    code, out, err = run(*scored, "--compare", "baseline/constant", "other")
    assert (code, out) == (1, "")
    assert "0 runs of the model 'other': choose one of baseline/constant at 8 fps" in err
    code, out, _ = run(*scored, "--compare", "baseline/constant at 8 fps", "baseline/constant")
    assert code == 0
    assert "baseline/constant" in out


def test_an_output_that_is_there_is_not_called_by_another_options_name(run: Run, tmp_path: Path) -> None:
    """check-labels has no -o: its picture is --figure's."""
    (tmp_path / "f.png").write_bytes(b"mine")
    message = f"tempoloc: {tmp_path}/f.png is there already: give another name, or --force to replace it\n"
    assert run("check-labels", "sim", "--figure", tmp_path / "f.png") == (1, "", message)


def test_a_review_refuses_what_it_does_not_read(run: Run, tmp_path: Path) -> None:
    """A question about one thing, answered by a page about another, would not be noticed."""
    found = tmp_path / "found.json"
    row = {"video": "a.mp4", "events": [], "model": "m", "duration": 2.0, "fps": 8.0}
    found.write_text(json.dumps([row]), encoding="utf-8")
    for arguments, unread in (
        ((found, tmp_path / "p.jsonl"), "predictions"),
        ((found, "-e", "grasping"), "events"),
        ((found, "--signals", tmp_path / "s.npz", "--video-root", tmp_path), "video_root and signals"),
        ((found, "--episode", 1), "an episode or camera"),
        (("sim", "--camera", "front"), "an episode or camera"),
    ):
        code, out, err = run("review", *arguments, "--export", tmp_path / "page")
        assert (code, out) == (1, "")
        assert f"does not read {unread}: leave it out" in err
    assert [p.name for p in tmp_path.iterdir()] == ["found.json"]


@pytest.mark.parametrize("options", [("--gpus", 2), ("--media", "videos", "--json")])
def test_how_a_model_is_served_is_said_of_one(run: Run, options: tuple[object, ...]) -> None:
    message = "tempoloc: --gpus and --media say how one model is served: name the model, too\n"
    assert run("models", *options) == (1, "", message)


def test_a_video_is_no_benchmark(run: Run, tmp_path: Path) -> None:
    code, _, err = run("localize", "--model", "constant", "--benchmark", "demo.mp4", "-o", tmp_path / "p.jsonl")
    assert (code, err.count("\n")) == (1, 1)
    assert "demo.mp4 is a video, not a benchmark: tempoloc find demo.mp4 -e EVENT" in err


def test_find_has_few_options() -> None:
    assert len(COMMANDS["find",].params) <= 30
    assert find.find.__doc__


@pytest.mark.parametrize(
    ("words", "offered"),
    [("tempoloc fi", ["find"]), ("tempoloc find --ev", ["--event"]), ("tempoloc nothing-like-it --ev", [])],
)
def test_half_a_name_is_completed(words: str, offered: list[str]) -> None:
    asked = {"_TEMPOLOC_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    script = "import sys; sys.argv[0] = 'tempoloc'; from tempoloc_nb.__main__ import main; main()"
    environment = os.environ | asked
    got = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert got.stdout.split() == offered, got.stderr
