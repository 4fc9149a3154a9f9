"""Outcomes of trials: what is written is read again, and statistics agree with published values."""

from __future__ import annotations

from pathlib import Path

import pytest

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.lab.generate.outcomes import (
    Outcomes,
    mcnemar,
    paired_difference,
    read_outcomes,
    wilson,
    write_outcomes,
)


@pytest.mark.parametrize("name", ["o.csv", "o.csv.xz"])
def test_a_table_with_gaps_is_read_as_it_was_written(tmp_path: Path, name: str) -> None:
    rows = (
        Outcomes("square", (0, 0), "truth", 0.0, 0.0, (True, None, False)),
        Outcomes("square", (10, 20), "a guess, moved", 0.1498, -0.0123, ()),
    )
    write_outcomes(tmp_path / name, reversed(rows))
    assert read_outcomes(tmp_path / name) == rows
    assert (tmp_path / name).read_bytes().startswith(b"task" if name == "o.csv" else b"\xfd7zXZ")


@pytest.mark.parametrize("line", ["square,0..0,truth,0,0,10x", "square,0,truth,0,0,1", "square,0..0,truth,1", "a,b"])
def test_a_line_that_is_none_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "o.csv"
    path.write_text(f"task,offset,boundaries,mae,bias,trials\n{line}\n")
    with pytest.raises(TempolocError, match="line 2"):
        read_outcomes(path)


def test_wilson_and_mcnemar_agree_with_textbooks() -> None:
    # Agresti, Categorical Data Analysis (2002), 1.4.3: 0 of 25; R's binom.test(4, 16) doubles to McNemar's exact p
    assert [round(x, 3) for x in wilson(0, 25)] == [0.0, 0.133]
    gained, lost, p = mcnemar([True] * 12 + [False] * 8, [False] * 12 + [True] * 4 + [False] * 4)
    assert (gained, lost, round(p, 4)) == (4, 12, 0.0768)
    assert mcnemar([True, None], [True, False]) == (0, 0, 1.0)


def test_a_difference_without_differences_keeps_a_width() -> None:
    difference, low, high = paired_difference([True] * 50, [True] * 50)
    assert (difference, low < 0 < high) == (0.0, True)
