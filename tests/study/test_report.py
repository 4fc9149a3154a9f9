"""Tables and figures: readable text, the same bytes each time, nothing too large."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from study_cells import study_functions

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.plots import house_style
from tempoloc_nb.core.settings import settings
from tempoloc_nb.study import report
from tempoloc_nb.study.report import _NOT_SO, Report, mre_figure, render, timeline_figure
from tempoloc_nb.video.view import contact_sheet

MRE = pd.DataFrame(
    {
        "task": ["cube", "cube", "nut"],
        "row": ["loo-median", "model", "model"],
        "kind": ["no-video", "model", "model"],
        "mre_pct": [34.0, 20.0, 15.0],
        "low": [30.0, 15.0, 10.0],
        "high": [40.0, 25.0, 20.0],
    }
)
EVENTS = pd.DataFrame(
    {
        "task": ["cube", "cube"],
        "event": ["grasping the cube", "releasing the cube"],
        "row": ["model", "model"],
        "kind": ["model", "model"],
        "mre_pct": [20.0, 10.0],
        "low": [15.0, 8.0],
        "high": [25.0, 13.0],
    }
)
MARK = re.compile(r"}(text|path|use)$")
FRAMES = [np.full((32, 48, 3), v, np.uint8) for v in (0, 90, 200)]


def timeline() -> Figure:
    return timeline_figure(3.0, ["grasp", "release"], {"truth": [0.5, 2.0], "model": [0.6, float("nan")]})


def event_errors() -> Figure:
    figure: Figure = study_functions("02").event_error_figure(EVENTS)
    return figure


@pytest.mark.parametrize("make", [lambda: mre_figure(MRE), event_errors, timeline])
def test_figures_are_the_same_bytes_each_time(make: Callable[[], Figure]) -> None:
    for kind in ("png", "svg"):
        first = render(make(), kind)  # type: ignore[arg-type]
        assert first == render(make(), kind)  # type: ignore[arg-type]
        assert len(first) > 2500


@pytest.mark.parametrize("make", [lambda: mre_figure(MRE), event_errors])
def test_a_short_svg_shows_what_matplotlib_drew(make: Callable[[], Figure]) -> None:
    """The same marks in the same order, the same words; every name that a mark refers to is there."""
    short, drawn = render(make(), "svg"), io.BytesIO()
    with house_style():
        make().savefig(drawn, format="svg", bbox_inches="tight", dpi=110)
    marks = [
        [(e.tag, (e.text or "").strip()) for e in ElementTree.fromstring(svg).iter() if MARK.search(e.tag)]
        for svg in (short, drawn.getvalue())
    ]
    assert marks[0] == marks[1] != []
    assert set(re.findall(rb'(?:url\(#|href="#)(\w+)', short)) <= set(re.findall(rb' id="(\w+)"', short))
    assert len(short) < 0.6 * len(drawn.getvalue())


def test_a_figure_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "_PNG_LIMIT", 20_000)
    figure = Figure(figsize=(3, 2))
    figure.subplots().imshow(np.random.default_rng(0).integers(0, 255, (200, 300, 3), np.uint8))
    with pytest.raises(TempolocError, match=r"noise is \d+ kB as PNG; make it smaller than 20 kB"):
        Report(None, "full").figure(figure, "noise")


def test_a_reader_keeps_their_own_style() -> None:
    before = dict(mpl.rcParams)
    render(mre_figure(MRE), "png")
    assert dict(mpl.rcParams) == before


def test_tables_are_written_twice_the_same(tmp_path: Path) -> None:
    table = pd.DataFrame({"task": ["a|b", "c"], "value": [1 / 3, float("nan")], "ok": [True, False]})
    texts = [Report(tmp_path / name, "full").table(table, "t").text for name in ("one", "two")]
    assert texts[0] == texts[1]
    assert [p.name for p in (tmp_path / "one" / "tables").iterdir()] == ["t.csv"]
    assert texts[0].splitlines()[2:] == ["| a\\|b | 0.333 | yes |", "| c | – | no |"]
    assert (tmp_path / "one" / "tables" / "t.csv").read_text() == "task,value,ok\na|b,0.333333,True\nc,,False\n"


def test_no_published_study_says_what_is_not_so() -> None:
    assert Report(None, "full").say("It is.").text == "It is."
    assert Report(None, "full").say("It is.", holds=False).text.startswith(f"*{_NOT_SO}*")
    for path in settings().paths.studies.glob("*.ipynb"):
        assert _NOT_SO not in path.read_text(encoding="utf-8"), f"{path.name} has a sentence that does not hold"


def test_without_a_folder_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    report = Report(None, "quick")
    report.table(pd.DataFrame({"a": [1]}), "t")
    report.figure(mre_figure(MRE), "f")
    assert list(tmp_path.iterdir()) == []


def test_a_figure_and_a_sentence_are_shown_as_what_they_are() -> None:
    from IPython.core.interactiveshell import InteractiveShell

    show = InteractiveShell.instance().display_formatter.format
    data, about = show(Report(None, "full").figure(mre_figure(MRE), "f", alt="The model errs least."))
    assert about["image/png"] == {"alt": "The model errs least."}
    assert len(data["image/png"]) > 3000
    assert show(Report(None, "full").say("**5 %**."))[0]["text/markdown"] == "**5 %**."
    assert "QUICK" in Report(None, "quick").say("**5 %**.").text


def test_a_contact_sheet_scales_and_joins() -> None:
    assert np.asarray(contact_sheet(FRAMES, height=16)).shape == (16, 72, 3)
    with pytest.raises(TempolocError, match="at least one frame"):
        contact_sheet([])


def test_an_interval_stands_behind_its_number() -> None:
    table = pd.DataFrame({"a": [1.25], "low": [1.0], "high": [np.nan], "b": [3.0], "b_low": [2.0], "b_high": [4.0]})
    table = table.assign(**{"c": 1.0, "least": np.nan, "most": np.nan, "slow": 1, "highest": 2})
    assert report.markdown_table(table).splitlines()[::2] == [
        "| a | b | c | slow | highest |", "| 1.25 [1.00, nan] | 3 [2, 4] | 1 | 1 | 2 |",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("mre_pct", "MRE (%)"), ("no_video_within_0.25s_pct", "no video within 0.25 s (%)"), ("miou", "mIoU"),
        ("mae_frames", "MAE (frames)"), ("pct", "%"), ("cuts_per_event", "cuts per event"), ("row", "row"), ("s", "s"),
        ("stack-three (seen)", "stack-three (seen)"), ("marking_min", "marking (min)"), ("peak_gb", "peak (GB)"),
        ("difference", "difference (points)"), ("difference_s", "difference (s)"), ("isaac_lab_pct", "Isaac Lab (%)"),
        ("font_px", "font (pixels)"), ("share:-0.3", "30 % of the subtask early"),
    ],
)  # fmt: skip
def test_a_column_has_a_title_in_words(name: str, title: str) -> None:
    assert report.column_title(name) == title


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("loo-median", "median of other clips"), ("best no-video: uniform", "best no-video: equal parts"),
        ("MRE at most half of loo-median-scaled", "MRE at most half of median, by clip length"),
        ("train-median", "median of training clips"), ("uniform light", "uniform light"), ("a constant", "a constant"),
        ("shift:-0.1", "0.1 s early"), ("shift:+0.25", "0.25 s late"), ("share:+0.1", "10 % of the subtask late"),
        ("noise:0.07", "0.07 s off at random"), ("shift:+", "shift:+"),
    ],
)  # fmt: skip
def test_a_baseline_has_its_plain_name_in_tables(row: str, words: str) -> None:
    assert report.plain_name(row) == words
    assert report.markdown_table(pd.DataFrame({"row": [row]})).splitlines()[2] == f"| {words} |"


def test_a_name_in_a_table_is_no_mail_address_and_no_cell() -> None:
    table = pd.DataFrame({"f1@0.5s": ["a|b"]})
    assert report.markdown_table(table).splitlines() == ["| F1&#64;0.5 s |", "|---|", "| a\\|b |"]


def test_prose_is_markdown_with_fields() -> None:
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    Report(None, "full")
    shell.user_ns |= {"errors": {"cube": 12.345, "nut": 7.0}}
    text = "On {' and '.join(k for k in errors)} it errs by **{errors[\"cube\"]:.1f} %** at most.\n"
    assert shell.run_cell_magic("say", "", text).text == "On cube and nut it errs by **12.3 %** at most."
    assert shell.run_cell_magic("say", "holds len(errors) == 1", "One.").text == f"*{_NOT_SO}* One."
    assert shell.run_cell_magic("say", "when 'bowl' in errors holds errors['bowl'] > 1", "{errors['bowl']}") is None
    with pytest.raises(TempolocError, match="write %%say"):
        shell.run_cell_magic("say", "if errors", "One.")
