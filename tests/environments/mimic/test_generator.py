"""Isaac Lab's own files, as its wheel has them."""

from __future__ import annotations

import importlib.util


def test_the_generator_is_installed() -> None:
    assert importlib.util.find_spec("isaaclab") is not None
    assert importlib.util.find_spec("isaaclab_mimic") is not None
