"""Doubt in a study: a limit that is chosen on one benchmark and tried on another."""

from __future__ import annotations

from dataclasses import replace

import pytest
from study_cells import study_functions

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.inference.consensus import Combined, CombinedEvent

TRUST = study_functions("14")
SIM = load_benchmark("sim")
FOUR = replace(SIM, clips=SIM.of_task("stack-three")[:4])


def answers(errors: list[float], spreads: list[float]) -> list[Combined]:
    found = []
    for clip, by, spread in zip(FOUR.clips, errors, spreads, strict=True):
        events = tuple(
            CombinedEvent(label, t + by, None, spread, 1.0, 3)
            for label, t in zip(clip.labels, clip.source_boundaries, strict=True)
        )
        found.append(Combined(clip.clip, clip.task, "m", 8.0, "start", 3, events))
    return found


def test_a_limit_from_one_benchmark_is_tried_on_another() -> None:
    chosen = {
        "one": answers([0.0, 0.0, 0.0, 1.0], [0.1, 0.2, 0.3, 0.0]),
        "three": answers([0, 0, 0, 1], [0, 0.2, 0.1, 1]),
    }
    tried = {"one": answers([0.0] * 4, [0.0] * 4), "three": answers([0.0, 0.0, 1.0, 1.0], [0.1, 0.3, 0.2, 0.9])}
    table = TRUST.kept_table((chosen, FOUR), (tried, FOUR), 0.8, whole=True).set_index("disagreement")
    assert table.loc["one", ["kept_pct", "right_pct"]].tolist() == [0.0, 100.0]  # no limit keeps the promise
    assert table["limit_s"].isna().tolist() == [True, False]
    assert table.loc["three", ["limit_s", "kept_pct", "kept_right_pct"]].tolist() == [0.2, 50.0, 50.0]


def test_how_much_more_is_told_on_the_same_clips() -> None:
    kinds = {"one": answers([0, 1, 0, 1], [0.3, 0.1, 0.2, 0.4]), "three": answers([0, 1, 0, 1], [0.1, 0.3, 0.2, 0.4])}
    table = TRUST.auroc_table(kinds, FOUR, 40)
    assert table["auroc"].tolist() == [0.5, 1.0]
    assert table["more"].tolist() == [pytest.approx(float("nan"), nan_ok=True), 0.5]
    assert 0 <= table["more_low"][1] <= 0.5 <= table["more_high"][1] <= 1
