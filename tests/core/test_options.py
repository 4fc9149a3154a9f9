"""Options given in Python are held to what the command line holds them to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.options import built, fitted
from tempoloc_nb.engines.make import EngineConfig, make_engine
from tempoloc_nb.formats.recordings import Choice
from tempoloc_nb.models.ask import AskConfig, Sampling
from tempoloc_nb.sft.build import BuildOptions


@pytest.mark.parametrize(
    ("kind", "name", "value", "said"),
    [
        (AskConfig, "fps", "2", "fps must be a number, got '2'"),
        (AskConfig, "fps", True, "fps must be a number, got True"),
        (AskConfig, "fps", float("inf"), "fps must be above 0, got inf"),
        (AskConfig, "trials", 1.5, "trials must be a whole number, got 1.5"),
        (AskConfig, "trials", None, "trials must be a whole number, got None"),
        (AskConfig, "total_pixels", np.float64(1.5), "total_pixels must be a whole number"),
        (AskConfig, "total_pixels", 0, "total_pixels must be 1 or more, got 0"),
        (Sampling, "seed", "a", "seed must be a whole number, got 'a'"),
        (Sampling, "seed", -1, "seed must be 0 or more, got -1"),
        (Sampling, "temperature", "x", "temperature must be a number, got 'x'"),
        (Sampling, "top_p", 2, "top_p must be above 0 and at most 1, got 2"),
        (Sampling, "max_new_tokens", 1.5, "max_new_tokens must be a whole number"),
        (EngineConfig, "batch", 0, "batch must be 1 or more, got 0"),
        (EngineConfig, "data_parallel", "a", "data_parallel must be a whole number, got 'a'"),
        (EngineConfig, "timeout", float("nan"), "timeout must be above 0, got nan"),
        (BuildOptions, "digits", 7, "digits must be 0 or more and at most 6, got 7"),
        (BuildOptions, "seed", 0.5, "seed must be a whole number, got 0.5"),
        (BuildOptions, "fps", 1e-12, "fps must be above 0, got 1e-12"),
        (AskConfig, "trials", 10**20, "trials must be 1 or more and at most 1e+15, got 10000000000000000..."),
    ],
)
def test_a_number_that_is_none_or_out_of_bounds_is_refused(kind: Any, name: str, value: object, said: str) -> None:
    with pytest.raises(TempolocError) as told:
        kind(**{name: value})
    assert said in str(told.value)


def test_numbers_of_numpy_become_pythons_own() -> None:
    given: dict[str, Any] = {"fps": np.float32(2.5), "trials": np.int64(3), "seed": np.int64(4)}
    ask, own = AskConfig().changed(**given), AskConfig().changed(fps=2.5, trials=3, seed=4)
    assert json.dumps(asdict(ask)) == json.dumps(asdict(own))
    assert built(EngineConfig, {"batch": np.int64(2)}).options == {"batch": 2}
    assert type(AskConfig(fps=4).fps) is int  # stays as it was given: the hash of a question is of its text


def test_a_lone_number_of_numpy_stands_alone() -> None:
    assert built(Choice, {"episode": np.int64(1)}) == Choice(episode=(1,))


def test_a_text_may_be_a_path_and_what_may_be_several_may_stand_alone() -> None:
    assert fitted(Path | None, "a/b") == Path("a/b")
    assert fitted(Sequence[Path], "a.jsonl") == fitted(Sequence[Path], [Path("a.jsonl")]) == (Path("a.jsonl"),)
    assert fitted(tuple[str, ...], "mug") == ("mug",)
    assert fitted(str, "a/b") == "a/b"


@pytest.mark.parametrize("options", [{"batch": 0}, {"batch": "a"}, {"data_parallel": 1.5}])
def test_an_engines_numbers_are_checked_before_a_model_is_loaded(options: dict[str, Any]) -> None:
    with pytest.raises(TempolocError, match="must be"):
        make_engine("hf", "tempoloc-tiny", **options)


def test_one_server_may_stand_alone() -> None:
    with pytest.raises(TempolocError, match=r"http://127\.0\.0\.1:9 cannot be reached"):
        make_engine("openai", "tempoloc-tiny", servers="http://127.0.0.1:9")
