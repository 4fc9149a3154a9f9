"""The pictures in the published studies show the colours that the code draws."""

from __future__ import annotations

import base64
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from matplotlib.figure import Figure
from PIL import Image

from tempoloc_nb.core.plots import COLOURS, LOOKS
from tempoloc_nb.core.settings import settings
from tempoloc_nb.study.notebooks import study_notebooks
from tempoloc_nb.study.report import render

Pixels = npt.NDArray[np.int16]


def pixels(picture: bytes) -> Pixels:
    return np.asarray(Image.open(io.BytesIO(picture)).convert("RGB"), np.int16)


def colour(text: str) -> Pixels:
    return np.array([int(text[k : k + 2], 16) for k in (1, 3, 5)], np.int16)


def distance(picture: Pixels, wanted: Pixels) -> int:
    """How far the nearest pixel is from a colour, in the channel that differs most."""
    return int(np.abs(picture.reshape(-1, 3) - wanted).max(axis=1).min())


def drawn_colours(svg: str) -> set[str]:
    """The colours in which an SVG draws marks, bars and solid lines: neither greys nor what is see-through.

    A dashed or thin line has no pixel of its own colour: what it touches is half background.
    """
    styles = dict(re.findall(r"\.(s\d+)\{([^}]*)\}", svg))
    found = set()
    for tag in re.findall(r"<(?:use|path)\b[^>]*>", svg):
        named, inline = re.search(r'class="(s\d+)"', tag), re.search(r'style="([^"]*)"', tag)
        style = styles[named[1]] if named else inline[1] if inline else ""
        if "dasharray" not in style and "opacity" not in style:
            found |= set(re.findall(r"fill: (#[0-9a-f]{6})", style))
    return {c for c in found if np.ptp(colour(c)) > 40}


def shown(notebook: Path) -> dict[str, dict[str, Any]]:
    """Figure's name → its output, of a published study."""
    outputs = [o for c in json.loads(notebook.read_text(encoding="utf-8"))["cells"] for o in c.get("outputs", [])]
    data = [o["data"] for o in outputs if any(kind.startswith("image/") for kind in o.get("data", {}))]
    return {"".join(d["text/plain"]).removeprefix("figure "): d for d in data}


@pytest.mark.parametrize("notebook", study_notebooks(), ids=lambda path: path.stem)
def test_a_published_picture_has_the_colours_of_its_figure(notebook: Path) -> None:
    """In this repository: each colour of the SVG that another page shows, to a few steps of 255."""
    figures = settings().paths.figures / notebook.stem
    for name, data in shown(notebook).items():
        svg, photos = figures / f"{name}.svg", figures / f"{name}.png"
        if svg.is_file():
            picture = pixels(base64.b64decode("".join(data["image/png"])))
            for wanted in drawn_colours(svg.read_text(encoding="utf-8")):
                assert distance(picture, colour(wanted)) <= 8, (name, wanted)
        elif photos.is_file():
            (kind,) = (kind for kind in data if kind.startswith("image/"))
            picture = pixels(base64.b64decode("".join(data[kind])))
            made = pixels(photos.read_bytes())
            assert picture.shape == made.shape
            assert np.abs(picture - made).mean() < 8, name


def test_a_drawing_keeps_every_colour_that_it_draws() -> None:
    """However little of it there is, and however alike two colours are."""
    figure = Figure(figsize=(4, 3))
    axes = figure.subplots()
    alike = ["#0072B2", "#0072BE", "#CC79A7", "#CC79B2"]
    wanted = [*COLOURS.values(), *alike]
    for k, each in enumerate(wanted):
        axes.plot([k], [0.1 * k], "s", ms=5, color=each, mec="none")
    axes.text(0, 1.5, "shades of grey at the edges of letters", fontsize=11)
    axes.plot(range(12), np.sin(range(12)), color="#222222", lw=0.7)
    picture = pixels(render(figure, "png"))
    assert {each: distance(picture, colour(each)) for each in wanted} == dict.fromkeys(wanted, 0)
    assert {look.colour for look in LOOKS.values()} <= set(wanted)
