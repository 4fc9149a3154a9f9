"""Each line of the quickstart and the guides, pasted in its order into a fresh folder.

What needs a GPU or another machine is left out, and its page says so. `make test-notebooks` runs the pages; here
each line has a process of its own, which takes minutes.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pasted import Shell, shell_blocks, shell_lines

ROOT = Path(__file__).resolve().parents[3]
PAGES = {path.stem: path for path in [ROOT / "nbs" / "00_quickstart.ipynb", *(ROOT / "nbs" / "guides").glob("*.ipynb")]}
ELSEWHERE = {  # a page whose lines need more than this machine, and the words in which it says so
    "00_which": "By what you have and what you want",
    "20_generate": "`make env-mimic` installs Isaac Lab's",
    "30_gpu_host": "Commands that need one are printed, not run",
}
NEEDS_A_GPU = "#SBATCH"


def cells_of(name: str) -> list[tuple[str, str]]:
    """Kind and source of the cells that a reader sees."""
    cells = json.loads(PAGES[name].read_text(encoding="utf-8"))["cells"]
    shown = [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
    return [(kind, source) for kind, source in shown if not re.match(r"#\| *(hide|export|default_exp)", source)]


def test_every_other_page_says_what_it_needs() -> None:
    for name, words in ELSEWHERE.items():
        text = "\n".join(source for _, source in cells_of(name))
        assert words in text


@pytest.mark.parametrize("name", sorted(set(PAGES) - set(ELSEWHERE)))
def test_the_lines_of_a_page_can_be_pasted(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = Shell.made(tmp_path, ".venv/bin/tempoloc")
    monkeypatch.chdir(tmp_path)
    pasted: list[str] = []

    def tempoloc(line: str, lines: int = 0, status: int = 0) -> None:
        pasted.append(line)
        shell.paste(f"tempoloc {line}", status)

    names: dict[str, Any] = {"tempoloc": tempoloc, "Path": Path}
    if name == "00_quickstart":  # its first line is in the text
        assert "`tempoloc example example` writes" in "\n".join(source for _, source in cells_of(name))
        tempoloc("example example")
    for kind, source in cells_of(name):
        if kind == "code":
            for line in re.findall(r"^!(.+)$", source, re.MULTILINE):
                shell.paste(line)
            exec(re.sub(r"^[!%].*$", "", source, flags=re.MULTILINE), names)
            continue
        for block in shell_blocks(source):
            if NEEDS_A_GPU in block:
                assert "on machines with GPUs" in source
                continue
            for line in shell_lines(block):
                pasted.append(line)
                shell.paste(line)
    assert "example example" in pasted[0]
    assert len(pasted) > 1 or name == "00_quickstart"
