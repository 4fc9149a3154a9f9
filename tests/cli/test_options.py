"""Every option of every command is checked while the command line is read."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from commands import COMMANDS, GROUP
from places import ROOT

from tempoloc_nb.video.files import encode

ABSURD = ("nan", "inf", "-inf", "1e400", "-5", "9" * 400, "9" * 5000)
Run = Callable[..., tuple[int, str, str]]
HEAVY = {"torch", "transformers", "vllm", "ray", "pandas", "matplotlib", "datasets", "h5py", "robosuite", "mujoco"}


def kinds(parameter: Any) -> set[type]:
    """The types that a parameter's values may have."""
    hint = parameter.type_descriptor.annotation
    return {hint, *get_args(hint), *(a for h in get_args(hint) for a in get_args(h))}


NUMBERS = [
    (words, max(p.opts, key=len))
    for words, command in COMMANDS.items()
    for p in command.params
    if kinds(p) & {int, float}
]


def test_every_number_is_checked(capsys: pytest.CaptureFixture[str]) -> None:
    """NaN, infinity, what is far too small or too large: status 1 or 2 with the option's name, and no file is read."""
    assert len(NUMBERS) > 70
    for words, flag in NUMBERS:
        for value in ABSURD:
            with pytest.raises(SystemExit) as stopped:
                GROUP.main([*words, flag, value], prog_name="tempoloc")
            code, (out, err) = stopped.value.code, capsys.readouterr()
            said = (words, flag, value[:9], code, out, err)
            assert code in (1, 2), said
            assert flag in err, said
            assert code == 2 or len(err.splitlines()) == 1, said
            assert not out, said


def test_nothing_heavy_is_imported_to_check_numbers() -> None:
    """In a fresh process, no command needs a large library to refuse a number."""
    words = sorted({w for w, _ in NUMBERS})
    flags = dict(NUMBERS)
    code = (
        "import sys; from tempoloc_nb.cli.main import main\n"
        f"for line in {[[*w, flags[w], 'nan'] for w in words]!r}:\n"
        "    try: main(line)\n"
        "    except SystemExit as stopped: assert stopped.code in (1, 2), line\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert not HEAVY & set(done.stdout.split())


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("localize --model tempoloc-tiny --benchmark sim --plan --prompt no -o p", "unknown prompt 'no'"),
        ("localize --model tempoloc-tiny --benchmark sim --plan --structured no -o p", "structured output 'no'"),
        ("localize --model tempoloc-tiny --benchmark sim --plan --shard 9/1 -o p", "no shard 9/1"),
        ("localize --model tempoloc-tiny --benchmark sim --plan --preset no -o p", "unknown preset 'no'"),
        ("localize --model tempoloc-tiny --benchmark sim --plan --stamps no -o p", "unknown stamps 'no'"),
        ("localize --model tempoloc-tiny --benchmark sim --plan --content no -o p", "unknown content 'no'"),
        ("localize --model tempoloc-tiny --benchmark sim --backend no -o p", "unknown backend 'no'"),
        ("find VIDEO -e x --prompt no", "unknown prompt 'no'"),
        ("find VIDEO -e x --structured no", "unknown structured output 'no'"),
        ("localize --model tempoloc-tiny --benchmark sim --plan --think -o p", "give structured, too"),
        ("find VIDEO -e x --preset no", "unknown preset 'no'"),
        ("find VIDEO -e x --backend no", "unknown backend 'no'"),
        ("overlay -i VIDEO -o out --preset no", "unknown preset 'no'"),
        ("dataset build --manifest sim -o out --prompt no", "unknown prompt 'no'"),
        ("dataset caption VIDEO -o out --server http://localhost:1 --rules no", "no is not a model's folder"),
        ("dataset export no VIDEO -o out", "unknown format 'no'"),
        ("sft config --engine no", "unknown engine 'no'"),
        ("sft config --preset no", "unknown preset 'no'"),
        ("find VIDEO -e x\udcff", "the event 'x\\udcff' is not UTF-8 text"),
        ("tiny train base --store VIDEO -o out --device no", "unknown device 'no'"),
        ("tiny train base --store nowhere -o out", "nowhere is no folder with parts of a frame store: tempoloc tiny"),
        ("study --plan -p fps nan", "the parameter fps is a number above 0, not nan"),
        ("study --plan -p fps 1e999", "the parameter fps is a number above 0, not inf"),
        ("study --plan -p data_parallel -1", "the parameter data_parallel is a number of 0 or more, not -1"),
        ("study --plan -p model 7", """the parameter model is a text: -p model '"7"'"""),
        ("study --plan -p fps", "-p needs a name and a value"),
    ],
)
def test_names_are_checked_before_a_model_is_loaded(
    run: Callable[..., tuple[int, str, str]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    command: str,
    message: str,
) -> None:
    """No engine is made, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    encode(tmp_path / "a.mp4", np.zeros((4, 32, 48, 3), np.uint8), fps=4)
    monkeypatch.setattr("tempoloc_nb.engines.make.make_engine", lambda *_, **__: pytest.fail("an engine was made"))
    code, out, err = run(*("a.mp4" if word == "VIDEO" else word for word in command.split()))
    assert (code, out) == (1, "")
    assert message in err
    assert len(err.splitlines()) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["a.mp4"]
