"""The doctor finds nothing where nothing is wrong, and each planted fault by its name."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from shutil import copy
from typing import Any

import ill_engines as ill
import pytest
import tiny_models
from fake_server import RULES, FakeServer

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.engines import doctor, hf
from tempoloc_nb.engines.doctor import _FORMS, examine, require_health
from tempoloc_nb.engines.hf import HFBackend
from tempoloc_nb.engines.server import OpenAIBackend
from tempoloc_nb.engines.test_pattern import expect, write_pattern
from tempoloc_nb.models.locate import ask_config
from tempoloc_nb.video.stamp import model_view
from tempoloc_nb.video.view import View, clip_inputs

WAY = ask_config("tempoloc-tiny").changed(fps=4, total_pixels=10**6)
MADE = {"qwen25": tiny_models.qwen25, "qwen3": tiny_models.qwen3}


@cache
def engine_of(family: str) -> HFBackend:
    return HFBackend(MADE[family](), device="cpu", total_pixels=WAY.total_pixels)


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pattern(tmp_path_factory.mktemp("known") / "clip.mp4")


@pytest.fixture(autouse=True)
def written_once(clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "write_pattern", lambda path: Path(copy(clip, path)))


CASES: list[tuple[str, Callable[..., Any] | None, tuple[str, ...]]] = [
    ("qwen25", None, ()),
    ("qwen3", None, ()),
    ("qwen25", ill.half_rate, ("frames a second",)),
    ("qwen3", ill.half_rate, ("frames a second",)),
    ("qwen25", ill.without_metadata, ("seconds a pair",)),
    ("qwen3", ill.without_metadata, ("seconds a pair",)),
    ("qwen25", ill.backwards, ("order",)),
    ("qwen25", ill.blue_for_red, ("colours",)),
    ("qwen25", ill.later_stamps, ("stamps",)),
    ("qwen25", ill.one_seed, ("seeds differ",)),
    ("qwen25", ill.any_seed, ("seeds repeat",)),
    ("qwen25", ill.free, ("constraint regex", "constraint json")),
]


@pytest.mark.parametrize(("family", "fault", "names"), CASES)
def test_a_fault_is_found_by_its_name(
    family: str, fault: Callable[..., Any] | None, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    sick = ill.plant(fault, hf, engine_of(family), monkeypatch) if fault else engine_of(family)
    found = examine(sick, MADE[family](), WAY)
    assert found.faults == names, str(found)
    assert not [f.check for f in found.findings if f.severity == "unseen"]


@pytest.mark.parametrize("family", ["qwen25", "qwen3"])
def test_times_on_the_left_and_right_are_read_back(family: str) -> None:
    found = examine(engine_of(family), MADE[family](), WAY.changed(stamps="alternate"))
    assert found.faults == (), str(found)


@pytest.mark.parametrize("stamps", ["none", "empty", "frame", "pair", "alternate"])
def test_every_kind_of_stamps_is_read_at_the_models_size(clip: Path, stamps: Any) -> None:
    processor = engine_of("qwen25").processor
    expected = expect(doctor.processor_rules(processor), 8, View(stamps, shift=3.0), WAY.total_pixels)
    shown = clip_inputs(clip, processor, 8, expected.view, WAY.total_pixels)
    seen = expected.read_stamps(model_view(shown.images, *expected.size))
    assert tuple(seen) == (expected.stamps or ("",) * len(seen))
    assert bool(expected.stamps) == (stamps not in ("none", "empty"))


def test_limits_that_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of 7B sizes shrinks frames where a video has too many; here one side or the other does not know it."""
    engine, size = engine_of("qwen25"), {"shortest_edge": 784, "longest_edge": 200_704}
    monkeypatch.setattr(engine.processor.video_processor, "size", size)
    rules = doctor.processor_rules(engine.processor)
    monkeypatch.setattr(doctor, "_expected_rules", lambda *_: rules)
    few, many = WAY.changed(fps=1, total_pixels=10**5), WAY.changed(fps=1, total_pixels=4 * 10**5)
    monkeypatch.setattr(engine, "total_pixels", many.total_pixels)
    assert examine(engine, "m", many).faults == ()
    assert examine(engine, "m", few).faults == ("pixels",)
    monkeypatch.setattr(engine, "total_pixels", few.total_pixels)
    assert examine(engine, "m", many).faults == ("frame size",)


def test_transformers_own_positions() -> None:
    """Up to 5.17 the seconds of a pair are rounded; from 5.3 on the text begins beside the video's size."""
    stock = HFBackend(MADE["qwen25"](), device="cpu", stock_positions=True)
    release = tuple(map(int, doctor.versions()["transformers"].split(".")[:2]))
    found = examine(stock, MADE["qwen25"](), WAY)
    assert found.faults == (("seconds a pair",) if release < (5, 18) else ("text begins",))


def test_a_server_is_judged_by_tokens_and_answers() -> None:
    """Its own rate and ignored constraints are found; what nobody can see from here is said so."""

    def obedient(body: dict[str, Any]) -> str:
        if "structured_outputs" in body:
            return "<doctor>4.00</doctor>"
        return json.dumps({"doctor": "four seconds"}) if "response_format" in body else f"answer {body['seed']}"

    def blank(body: dict[str, Any]) -> str:
        return '{ "doctor"' + " " * 30 if "response_format" in body else obedient(body)

    for options, names in (
        ({"text": obedient}, ()),
        ({"text": blank}, ()),
        ({}, ("constraint regex", "constraint json")),
        ({"text": obedient, "trusting": False}, ("rate reported",)),
    ):
        with FakeServer("fake", **options) as server:  # type: ignore[arg-type]
            found = examine(OpenAIBackend("fake", [server.url], rules=RULES), "fake", WAY.changed(total_pixels=10**8))
        assert found.faults == names, str(found)
        unseen = [f.check for f in found.findings if f.severity == "unseen"]
        assert (len(unseen), unseen[0], unseen[-1]) == (13, "frames", "text begins")
        cut_off = [f.check for f in found.findings if "cut off in blanks" in f.message]
        assert cut_off == (["constraint json"] if options.get("text") is blank else [])


def test_before_a_long_job(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    require_health(engine_of("qwen25"), MADE["qwen25"](), WAY)
    assert "none is wrong" in capsys.readouterr().err
    sick = ill.plant(ill.backwards, hf, engine_of("qwen25"), monkeypatch)
    with pytest.raises(TempolocError, match=r"wrong: order[^$]*no clip was asked about"):
        require_health(sick, MADE["qwen25"](), WAY.changed(stamps="frame", content="blank"))


def test_an_engine_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    sick = ill.Changed(engine_of("qwen25"), lambda r: ill.replace(r, fps=30.0))
    monkeypatch.setattr(sick.engine.net.config.text_config, "max_position_embeddings", 200)
    found = examine(sick, MADE["qwen25"](), WAY)
    assert found.faults == ("answer",)
    assert "exceed the model's context" in found.findings[0].message
    assert _FORMS.keys() == {"regex", "json"}
