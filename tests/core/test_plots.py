"""One colour and one mark a kind of row, told apart by colour-blind readers and without colour."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tempoloc_nb.core.plots import COLOURS, LOOKS, SERIES

# Machado, Oliveira & Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency", 2009.
SEEN = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
XYZ = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]]


def lab(colour: str, seen: str) -> np.ndarray:
    """CIELAB of a colour as it is seen."""
    part = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    x, y, z = np.cbrt(np.array(XYZ) @ np.clip(np.array(SEEN[seen]) @ linear, 0, 1) / [0.95047, 1, 1.08883])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("colours", [list(COLOURS.values()), [c for c, _ in SERIES]], ids=["kinds", "series"])
def test_colours_stay_apart(colours: list[str], seen: str) -> None:
    for a, b in itertools.combinations(colours, 2):
        assert np.linalg.norm(lab(a, seen) - lab(b, seen)) > 12, (a, b)


def test_marks_stay_apart_without_colour() -> None:
    for marks in ([look.mark for look in LOOKS.values()], [mark for _, mark in SERIES]):
        assert len(set(marks)) == len(marks)
