"""Instants from made-up traces: what counts as a grasp, a touch, an arrival."""

from __future__ import annotations

from typing import Any

import numpy as np

from tempoloc_nb.lab.sim.demonstration import find_instants, holdings, misses, moments
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


def closing(x: list[float], touching: Any, ys: tuple[float, ...] = (0.0, 1.0)) -> dict[str, Any]:
    """A hand that goes along `x` (m, at 0, 0.4 … 2 s) over objects at `ys` m; its fingers are shut until 1.8 s."""
    hand = np.interp(TIMES, np.linspace(0, 2, 6), x)
    objects = np.zeros((1000, len(ys), 3))
    objects[:, :, 0] = ys
    return {
        "hand": np.stack([hand, 0 * hand, 0 * hand], axis=1), "objects": objects, "touching": np.asarray(touching),
        "aperture": np.interp(TIMES, [1.2, 1.3, 1.8, 1.9], [1.0, 0.0, 0.0, 1.0]),
    }  # fmt: skip


AIR, SHUT = np.zeros((1000, 2), dtype=np.int64), [(1.2, 1), (1.8, -1)]


def test_fingers_that_close_on_air_miss_what_is_nearest() -> None:
    there = [0.5, 0.03, 0.0, 0.0, 0.0, 0.4]
    ((name, at),) = misses(closing(there, AIR), ["a", "b"], SHUT, STEP)
    assert name == "a"
    assert abs(at - 1.29) < 0.003  # nine tenths of the way
    assert misses(closing(there, AIR, (0.07, 1.0)), ["a", "b"], SHUT, STEP) == []  # 7 cm away
    assert misses(closing(there, AIR), ["a", "b"], [], STEP) == []  # no command
    touched = AIR.copy()
    touched[650:660, 1] = 1
    assert misses(closing(there, touched), ["a", "b"], SHUT, STEP) == []


def test_moments_tell_all_that_the_hand_does() -> None:
    there = [0.5, 0.25, 0.0, 0.0, 0.0, 0.4]
    missed = moments(closing(there, AIR), ["a", "b"], SHUT, STEP, [("b", 0.3)])
    assert [(kind, name) for kind, name, _ in missed] == [("arrive", "b"), ("arrive", "a"), ("miss", "a")]
    assert 0.6 < missed[1][2] < 0.8  # when it comes within 5 cm
    held = AIR.copy()
    held[630:900, 0] = 2
    grasped = moments(closing(there, held), ["a", "b"], SHUT, STEP)
    assert [(kind, name) for kind, name, _ in grasped] == [("arrive", "a"), ("grasp", "a"), ("release", "a")]
    assert [time for *_, time in grasped[1:]] == [630 * STEP, 900 * STEP]
    held[630:, 0] = 2  # to the end: nobody lets go
    assert [kind for kind, *_ in moments(closing(there, held), ["a", "b"], SHUT, STEP)] == ["arrive", "grasp"]
