"""A folder that training leaves says how it is asked, and is asked so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import pytest
from tiny_models import qwen25

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.engines.qwen import overlay_options
from tempoloc_nb.models.ask import AskConfig, read_trained, write_trained
from tempoloc_nb.models.locate import _recognise
from tempoloc_nb.study.experiments import for_model, load_experiments
from tempoloc_nb.video.view import View

WAY = AskConfig(prompt="recipe", fps=4).changed(stamps="pair")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = copytree(qwen25(), tmp_path / "mine")
    (made / "README.md").write_text("---\nbase_model: tempoloc-tiny\n---\n", encoding="utf-8")
    return made


def test_a_trained_folder_is_asked_as_in_training(folder: Path) -> None:
    before = _recognise(folder)
    assert (before.card.prompt, before.stamps, before.boundary_is) == ("log", "frame", "start")
    write_trained(folder, WAY, "end")
    info = _recognise(folder)
    assert (info.card.fps, info.card.prompt, info.card.view.stamps, info.boundary_is) == (4, "recipe", "pair", "end")
    assert info.base == "tempoloc-tiny"
    assert info.card.sampling == before.card.sampling


def test_studies_ask_it_so_too(folder: Path) -> None:
    declared = load_experiments()["sft"]
    plain = for_model(declared, str(folder))
    assert (plain.ask.prompt, plain.ask.view.stamps) == (declared.ask.prompt, declared.ask.view.stamps)
    write_trained(folder, WAY, "end")
    asked = for_model(declared, str(folder))
    assert (asked.ask.prompt, asked.ask.view.stamps, asked.ask.fps) == ("recipe", "pair", declared.ask.fps)
    assert asked.ask.sampling == declared.ask.sampling
    unstamped = for_model(load_experiments()["sft-none"], str(folder))
    assert unstamped.ask.view == load_experiments()["sft-none"].ask.view  # what an ablation shows is its own


@pytest.mark.parametrize("stamps", ["none", "frame", "pair", "alternate"])
def test_a_model_is_asked_with_the_stamps_of_its_training(folder: Path, stamps: str) -> None:
    write_trained(folder, WAY.changed(stamps=stamps), "end")
    info = _recognise(folder)
    assert (info.stamps, info.card.view.stamps) == (stamps, stamps)
    assert overlay_options(folder).stamps == ("frame" if stamps == "none" else stamps)
    assert for_model(load_experiments()["sft"], str(folder)).ask.view.stamps == stamps


def test_its_videos_are_fitted_into_pictures_of_the_size_of_its_training(folder: Path) -> None:
    assert _recognise(folder).side == 0
    write_trained(folder, replace(WAY, view=View("pair", side=256)), "end")
    assert (_recognise(folder).side, _recognise(folder).card.view) == (256, View("pair", side=256))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"fps": 0}, "fps = 0: should be greater than 0"),
        ({"fps": "8"}, 'fps = "8" is not a number'),
        ({"prompt": "mine"}, "unknown prompt 'mine'"),
        ({"stamps": "empty"}, "stamps = \"empty\" is none of 'none', 'frame', 'pair' or 'alternate'"),
        ({"boundary_is": "middle"}, "boundary_is = \"middle\" is none of 'start' or 'end'"),
        ({"side": -1}, "side = -1: should be greater than or equal to 0"),
        ({"speed": 1}, "has the unknown key 'speed'; known keys: fps, prompt, stamps, boundary_is, side"),
    ],
)
def test_a_file_that_says_something_else_is_refused(folder: Path, change: dict[str, object], said: str) -> None:
    write_trained(folder, WAY, "end")
    path = folder / "tempoloc.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(TempolocError, match=r"tempoloc\.json") as error:
        read_trained(folder)
    assert said in str(error.value)
