"""Boundaries to try: errors made on purpose, what a generator accepts, and the order of trials."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.inference.signals import signal_at
from tempoloc_nb.lab.generate.boundaries import (
    ERRORS,
    cut,
    fit_ends,
    no_video,
    one_label,
    read_found,
    with_error,
    write_found,
)
from tempoloc_nb.lab.generate.sources import Source, simulated
from tempoloc_nb.lab.generate.trials import BLOCK, OFFSETS, outcomes_of, plan, read_trials


def source(steps: int, *boundaries: float) -> Source:
    poses = np.tile(np.eye(4), (steps, 1, 1))
    return Source("s", np.zeros((steps, 7)), poses, poses, {}, boundaries, signal_at([0.0, 1.0], 20.0))


SOURCES = (source(100, 1.0, 2.0, 3.0), source(120, 2.0, 3.0, 4.0), source(140, 2.0, 3.5, 5.0))


@given(
    times=st.tuples(*[st.floats(-2, 12)] * 3), steps=st.integers(80, 250),
    offset=st.sampled_from([(0, 0), (10, 20), (-5, 5)]),
)  # fmt: skip
def test_ends_are_what_isaac_lab_accepts(times: tuple[float, ...], steps: int, offset: tuple[int, int]) -> None:
    low, high = offset
    ends = [e + 1 for e in fit_ends(times, steps, "stack-three", offset)]  # Isaac Lab counts like demo[start:end]
    assert ends[0] + low > 0
    assert all(b + low > a + high for a, b in zip(ends, [*ends[1:], steps - low], strict=True))


def test_ends_that_fit_stay() -> None:
    assert fit_ends((1.0, 2.0, 3.0), 100, "stack-three", (10, 20)) == (20, 40, 60)
    with pytest.raises(TempolocError, match="too short"):
        fit_ends((1.0, 2.0, 3.0), 20, "stack-three", (10, 20))


def test_errors_have_their_size_and_are_the_same_again() -> None:
    for kind in ERRORS:
        assert with_error(kind, SOURCES, 3) == with_error(kind, SOURCES, 3)
    late = cut(SOURCES, with_error("shift:+0.25", SOURCES, 0), "stack-three", (0, 0))
    assert (late.used, late.mae, late.bias) == ((0, 1, 2), 0.25, 0.25)
    assert with_error("share:-0.1", SOURCES, 0)[2] == pytest.approx((1.8, 3.35, 4.85))
    noise = [cut(SOURCES, with_error("noise:0.5", SOURCES, k), "stack-two", (0, 0)) for k in range(300)]
    assert np.mean([n.mae for n in noise]) == pytest.approx(0.5, abs=0.05)
    assert np.mean([n.bias for n in noise]) == pytest.approx(0.0, abs=0.05)
    for wrong in ("shift:x", "truth", "late:0.1"):
        with pytest.raises(TempolocError, match="boundaries"):
            with_error(wrong, SOURCES, 0)


def test_an_unknown_boundary_leaves_its_source_out() -> None:
    given = cut(SOURCES, [None, (2.0, 3.0, 4.0), None], "stack-three", (0, 0))
    assert (given.used, given.ends, given.mae) == ((1,), ((40, 60, 80),), 0.0)


def test_what_sees_nothing() -> None:
    assert no_video(SOURCES)[0] == (2.0, 3.25, 4.5)
    assert one_label(SOURCES)[1] == pytest.approx((1.2, 2.4, 3.6))


def test_a_table_of_boundaries_is_read_as_it_was_written(tmp_path: Path) -> None:
    found = {"stack-two": {"truth": [(1.0, 2.0), (3.5, 4.25)], "fusion": [None, (3.0, 4.0)]}}
    write_found(tmp_path / "b.csv", found, {"stack-two": SOURCES[:2]})
    assert read_found(tmp_path / "b.csv") == found


def test_a_plan_is_balanced_and_goes_on_where_it_stopped() -> None:
    names = {"square": ("truth", "noise:0.5", "shift:-0.5"), "stack-two": ("truth",)}
    jobs = list(plan(names, OFFSETS, BLOCK + 1, lambda *_: False))
    first = [j for j in jobs if j.trial < BLOCK]
    assert jobs[: len(first)] == first  # a block is over before the next
    assert [j.boundaries[0] for j in first if j.task == "square"][:: 2 * BLOCK] == ["truth", "shift:-0.5", "noise:0.5"]
    left = list(plan(names, OFFSETS, BLOCK + 1, lambda task, offset, trial, name: name == "truth"))
    assert not any("truth" in j.boundaries for j in left)


def test_a_cut_off_line_is_no_trial(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    row = (
        '{"task": "square", "offset": [0, 0], "boundaries": "truth", "trial": 1, "success": true, "source": 0, '
        '"ends": [3], "mae": 0.0, "bias": 0.0}\n'
    )
    path.write_text(row + row[:20])
    (outcomes,) = outcomes_of(read_trials(path))
    assert (outcomes.success, outcomes.rate) == ((None, True), 1.0)
    path.write_text('{"clip": 1}\n')
    with pytest.raises(TempolocError, match="no file of trials"):
        read_trials(path)


def test_a_plain_folder_is_none_of_sources(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").touch()
    with pytest.raises(TempolocError, match="no folder that tempoloc simulate made, with hdf5 in it, and no HDF5 file"):
        simulated(tmp_path)
