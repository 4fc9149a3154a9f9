"""The figure with a slider holds the committed figures of study 13, no other, and each of them once."""

from __future__ import annotations

import csv
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.settings import data_dir
from tempoloc_nb.lab.generate.outcomes import Outcomes, offset_text, read_outcomes, success_slider

ARTICLE = Path(__file__).resolve().parents[3] / "nbs" / "article.ipynb"
CELL = re.compile(r"([\d.]+) % \[([\d.]+), ([\d.]+)\], (\d+) of (\d+)")


class Table(HTMLParser):
    """The rows of a page's table: the marks of each, and its cells as text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: list[tuple[dict[str, Any], list[str]]] = []
        self.inside = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = tag in ("th", "td")
        if tag == "tr":
            self.rows.append((dict(attrs), []))
        elif self.inside:
            self.rows[-1][1].append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.rows[-1][1][-1] += data


def committed() -> dict[tuple[str, str, str, float], tuple[str, ...]]:
    """Success, interval and trials in the study's tables, by task, offsets, kind and size of an error."""
    found = {}
    for name in ("errors", "origins"):
        with (data_dir() / "results" / "13_generated" / f"{name}.csv").open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                kind, _, size = row["boundaries"].partition(":")
                if kind in ("truth", "shift", "share"):
                    percents = [f"{float(row[c]):.1f}" for c in ("success_pct", "low", "high")]
                    count = round(float(row["success_pct"]) * int(row["trials"]) / 100)
                    key = (row["task"], row["offset"], kind if size else "", float(size or 0))
                    found[key] = (*percents, str(count), row["trials"])
    return found


def figures(page: str) -> dict[tuple[str, str, str, float], tuple[str, ...]]:
    (_, heads), *rows = Table(page).rows
    found: dict[tuple[str, str, str, float], tuple[str, ...]] = {}
    for marks, (_, offset, *cells) in rows:
        kind, error = marks["data-kind"], float(marks["data-error"])
        for task, text in zip(heads[2:], cells, strict=True):
            match = CELL.fullmatch(text)
            assert match is not None, text
            key = (task, offset.partition(" (")[0], kind, error / 100 if kind == "share" else error)
            assert key not in found
            found[key] = match.groups()
    return found


def test_the_figure_holds_the_committed_figures_and_no_others() -> None:
    page = success_slider(read_outcomes(data_dir() / "generation" / "trials.csv.xz"))
    assert figures(page) == committed()
    assert len(figures(page)) == 88
    assert "17,600 of 32,000 trials" in page


def test_the_article_shows_it() -> None:
    page = success_slider(read_outcomes(data_dir() / "generation" / "trials.csv.xz"))
    cells = json.loads(ARTICLE.read_text(encoding="utf-8"))["cells"]
    shown = [o.get("data", {}).get("text/html") for c in cells for o in c.get("outputs", ())]
    assert ["".join(text) for text in shown if text] == [page]


def test_it_needs_nothing_else_and_stands_in_a_page_as_it_is() -> None:
    page = success_slider([Outcomes("a <b>", (0, 0), "shift:+1", 1.0, 1.0, (True,))])
    assert not re.search(r"https?:|@import|\burl\(| src=|import\(|fetch\(", page)
    assert "](" not in page  # a site's Markdown would take it for a link
    assert '<th>a &lt;b&gt;</th>' in page
    assert page.index("<details open>") < page.index("<script>")  # the table is there before any script


def test_what_was_not_tried_has_no_number() -> None:
    page = success_slider([
        Outcomes("square", (0, 0), "truth", 0.0, 0.0, (True, False)),
        Outcomes("square", (0, 0), "shift:-0.1", 0.1, -0.1, (None, None)),
        Outcomes("lift", (0, 0), "truth", 0.0, 0.0, (True, True, None)),
    ])  # fmt: skip
    _, early, true = [cells for _, cells in Table(page).rows]
    assert early == ["early by 0.1 s", "none", "–", "–"]
    assert true == ["true", "none", "50.0 % [9.5, 90.5], 1 of 2", "100.0 % [34.2, 100.0], 2 of 2"]


def test_what_cannot_be_shown_is_named() -> None:
    truth = Outcomes("square", (10, 20), "truth", 0.0, 0.0, (True,))
    with pytest.raises(TempolocError, match=r"square.*two lines"):
        success_slider([truth, Outcomes("square", (10, 20), "truth", 0.0, 0.0, (False,))])
    with pytest.raises(TempolocError, match="nothing to slide over"):
        success_slider([truth, Outcomes("square", (0, 0), "noise:0.5", 0.5, 0.0, (True,))])
    assert offset_text((0, 0)) == "none"
