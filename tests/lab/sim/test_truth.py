"""Instants from made-up traces: what counts as a grasp, a touch, an arrival."""

from __future__ import annotations

from typing import Any

import numpy as np

from tempoloc_nb.lab.sim.demonstration import find_instants, holdings
from tempoloc_nb.lab.sim.tasks import find_families

STEP = 0.002
TIMES = np.arange(1, 1001) * STEP


def traces(x: Any, touching: Any) -> dict[str, Any]:
    """A hand that goes along `x` (1000,) m above one object that lies still."""
    hand = np.stack([x, 0 * x, 0 * x], axis=1)
    return {"hand": hand, "touching": np.asarray(touching)[:, None], "objects": np.zeros((1000, 1, 3))}


def test_an_object_that_is_pushed_is_not_grasped() -> None:
    x = np.interp(TIMES, [0, 1, 2], [0.4, 0.0, 0.0])
    touching = np.where(TIMES >= 1, 2, 0)
    there = {"goal:cube": TIMES >= 1.5, "goal:other": TIMES >= 0.5}
    found = find_instants(traces(x, touching), ["cube"], [(0.0, 1)], STEP, there)
    assert set(found) == {"onset", "touch:cube", "reach:cube", "goal:cube"}
    assert abs(found["touch:cube"] - 1) < 0.003
    assert abs(found["goal:cube"] - 1.5) < 0.003
    assert abs(found["reach:cube"] - (1 - 0.05 / 0.4)) < 0.003  # 5 cm at 0.4 m/s


def test_the_last_arrival_before_a_grasp_starts_its_skill() -> None:
    x = np.interp(TIMES, [0, 0.4, 0.8, 1.2, 1.6, 2], [0.3, 0.02, 0.2, 0.0, 0.0, 0.2])
    touching = np.where((TIMES >= 1.3) & (TIMES < 1.7), 2, 0)
    found = find_instants(traces(x, touching), ["cube"], [(1.2, 1), (1.65, -1)], STEP, {})
    assert abs(found["grasp:cube"] - 1.3) < 0.003
    assert abs(found["reach:cube"] - 1.1) < 0.003  # not at 0.4 s, when it was there and left again
    assert abs(found["release:cube"] - 1.7) < 0.003
    assert found["bring:cube"] == found["grasp:cube"]  # let go where it was grasped: no way to bring it
    assert found["open:cube"] == 1.65


def test_each_time_that_an_object_is_held() -> None:
    touching = np.zeros((1000, 2))
    for k, begin, end in ((0, 100, 300), (0, 305, 400), (0, 600, 650), (1, 700, 1000)):
        touching[begin:end, k] = 2
    found = holdings(touching, ["a", "b"], STEP)  # gaps of 10 ms are none, and 0.1 s are too short to count
    assert found == [("a", 100 * STEP, 400 * STEP), ("b", 700 * STEP, 1000 * STEP)]


def test_a_family_of_skills_has_a_start_before_each_end() -> None:
    (family,) = find_families("skills", "nut-assembly-skills")
    assert [instant for _, instant in family.script.events] == [
        "reach:SquareNut", "grasp:SquareNut", "bring:SquareNut", "insert:SquareNut", "reach:RoundNut", "grasp:RoundNut",
    ]  # fmt: skip
