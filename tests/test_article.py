"""The article's sentences are those that the committed results make."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbclient import NotebookClient

ARTICLE = Path(__file__).resolve().parent.parent / "nbs" / "article.ipynb"


def sentences(notebook: nbformat.NotebookNode) -> list[str]:
    shown = [o.get("data", {}) for c in notebook.cells if c.cell_type == "code" for o in c.outputs]
    return [data["text/markdown"] for data in shown if "text/markdown" in data]


def test_the_article_says_what_the_results_say() -> None:
    committed = nbformat.read(ARTICLE, as_version=4)
    again = nbformat.read(ARTICLE, as_version=4)
    NotebookClient(
        again, timeout=300, kernel_name="python3", resources={"metadata": {"path": ARTICLE.parent}}
    ).execute()
    assert len(sentences(committed)) == 8
    assert sentences(again) == sentences(committed)
