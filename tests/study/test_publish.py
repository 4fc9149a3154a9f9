"""Model cards: written from what was measured, and not stale."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.settings import data_dir, settings
from tempoloc_nb.lab.tiny.plan import MODELS, load_plan, model_card, read_run, results_table, split_rows, stage_rows


def test_splits_are_counted_by_family() -> None:
    rows = split_rows()
    assert sum(row[3] for row in rows if row[0] == "test") == 400
    assert len({tuple(row[:3]) for row in rows}) == len(rows)


@pytest.mark.parametrize("run", MODELS.values())
def test_stages_are_those_of_the_training_file(run: str) -> None:
    config = load_plan(run)
    rows = stage_rows(config)
    assert sum(row[1] for row in rows) == config.options.steps
    for row in rows:
        assert sum(int(n) for n in re.findall(r" (\d+)", row[2])) == pytest.approx(100, abs=2)


@pytest.mark.parametrize("run", MODELS.values())
def test_a_card_asks_for_tables_of_studies_that_there_are(run: str) -> None:
    text = (data_dir() / "training" / f"{run}.card.md").read_text(encoding="utf-8")
    studies = {p.stem for p in settings().paths.studies.glob("*.ipynb")}
    wanted = re.findall(r"\{([\w/:-]+)\}", text)
    assert {"facts", "stages", "splits"} <= set(wanted)
    tables = [name.split("/") for name in wanted if "/" in name]
    assert tables
    for study, table in tables:
        assert study in studies
        source = (settings().paths.studies / f"{study}.ipynb").read_text(encoding="utf-8")
        assert f'\\"{table}\\"' in source


def test_a_published_table_is_there_once() -> None:
    """As Markdown alone; what is shown in another way keeps its plain text."""
    for notebook in settings().paths.studies.glob("1[012]_*.ipynb"):
        for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
            for data in (o["data"] for o in cell.get("outputs", []) if "data" in o):
                assert not {"text/markdown", "text/plain"} <= set(data), notebook.name
                assert "text/plain" in data or "text/markdown" in data


def test_what_is_missing_is_named() -> None:
    with pytest.raises(TempolocError, match="no published table nothing"):
        results_table("05_fine_tuned", "nothing")
    with pytest.raises(TempolocError, match=r"no record nothing\.run\.json"):
        read_run("nothing")
    with pytest.raises(TempolocError, match="no card for 'gpt'"):
        model_card("gpt")


@pytest.mark.parametrize("model", MODELS)
def test_a_shipped_models_card_says_what_was_measured(model: str) -> None:
    folder: Path = data_dir() / "models" / model
    if not folder.is_dir():
        pytest.skip(f"{model} is not shipped yet")
    assert (folder / "README.md").read_text(encoding="utf-8") == model_card(model)
