"""What Isaac Lab's own parser refuses, the linter calls an error before."""

from __future__ import annotations

from pathlib import Path

import h5py
import pytest
from isaac_lab_parser import pool_of
from labelled_demos import LAST, NAMES, PLACE, label_file
from planted_faults import FAULTS, STARTS, Planted

from tempoloc_nb.labels.check import check_labels
from tempoloc_nb.labels.rules import GeneratorConfig


def refused(path: Path, skillgen: bool) -> bool:
    """Whether the parser ends with an error, of whatever kind, while it reads the file."""
    names = (*NAMES, LAST if skillgen else None)
    parts = [{"object_ref": "cubeA", "subtask_term_signal": name} for name in names]
    try:
        pool_of({"arm": parts}, skillgen=skillgen).load_from_dataset_file(str(path))
    except (IndexError, ValueError, AssertionError, KeyError, TypeError, RuntimeError, AttributeError):
        return True
    return False


@pytest.mark.parametrize("skillgen", [False, True])
@pytest.mark.parametrize("fault", [*FAULTS, *(f"start: {name}" for name in STARTS)])
def test_no_file_without_an_error_is_refused(tmp_path: Path, fault: str, skillgen: bool) -> None:
    path = label_file(tmp_path / "d.hdf5", demos=5, skillgen=True)
    assert not refused(path, skillgen)
    plant = STARTS[fault.removeprefix("start: ")][0] if fault.startswith("start: ") else FAULTS[fault][0]
    with h5py.File(path, "r+") as file:
        demo = file["data/demo_2"]
        plant(Planted(demo, demo[PLACE["isaaclab"]], "stack_1", "isaaclab", 1))
    report = check_labels(path, GeneratorConfig(NAMES, skillgen=skillgen)).report
    assert report.findings
    assert report.errors or not refused(path, skillgen)


def test_most_of_what_the_linter_calls_an_error_is_refused(tmp_path: Path) -> None:
    """The rest the parser takes silently: a signal of another length, say."""
    counts = {True: 0, False: 0}
    for fault in (f for f, (_, _, severity) in FAULTS.items() if severity == "error"):
        path = label_file(tmp_path / "d.hdf5", demos=5)
        with h5py.File(path, "r+") as file:
            demo = file["data/demo_2"]
            FAULTS[fault][0](Planted(demo, demo[PLACE["isaaclab"]], "stack_1", "isaaclab", 1))
        counts[refused(path, False)] += 1
    assert counts[True] > counts[False]
