"""The article's sentences are those that the committed results make."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import nbformat

ARTICLE = Path(__file__).resolve().parent.parent / "nbs" / "article.ipynb"


def sentences(path: Path) -> list[str]:
    cells = nbformat.read(path, as_version=4).cells
    shown = [o.get("data", {}) for c in cells if c.cell_type == "code" for o in c.outputs]
    return [data["text/markdown"] for data in shown if "text/markdown" in data]


def test_the_article_says_what_the_results_say(tmp_path: Path) -> None:
    again = tmp_path / "article.ipynb"  # without a kernel, which does not always start beside many others
    code = "import sys; from execnb.shell import exec_nb; exec_nb(sys.argv[1], sys.argv[2], exc_stop=True)"
    subprocess.run([sys.executable, "-c", code, str(ARTICLE), str(again)], cwd=ARTICLE.parent, check=True)
    assert len(sentences(ARTICLE)) == 8
    assert sentences(again) == sentences(ARTICLE)
