"""Every option of every command is checked while the command line is read."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, get_args

import pytest
from commands import COMMANDS, GROUP
from places import ROOT

ABSURD = ("nan", "inf", "-inf", "1e400", "-5", "9" * 400, "9" * 5000)
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
