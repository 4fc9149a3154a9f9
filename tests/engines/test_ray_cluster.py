"""What the Ray back end does without Ray; tests/ray has the rest."""

from __future__ import annotations

import importlib.util
import pickle
from pathlib import Path
from typing import Any

import pytest
from tiny_models import qwen25
from video_clips import write_clip

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.engines.make import check_backend
from tempoloc_nb.engines.protocol import Request, Response, row_seed
from tempoloc_nb.engines.ray_cluster import (
    _ERROR,
    RayBackend,
    _ask_row,
    _read_answer,
    _request_row,
    _trial_rows,
)
from tempoloc_nb.models.ask import Sampling, load_prompt
from tempoloc_nb.models.constraints import Constraint
from tempoloc_nb.video.view import View

ENDS = frozenset({2})
ANSWERED: dict[str, Any] = {
    "number": 0, "trial": 1, "text": "<answer>", "last": 2, "prompt_tokens": 90, "completion_tokens": 3, "fps": 8.0,
    "vision_tokens": 64, "expected": 64, "seconds": 0.5, _ERROR: "",
}  # fmt: skip


def request_of(video: Path, **others: Any) -> Request:
    return Request("lift/0", "lift", video, ("grasping the cube",), load_prompt("tiny"), 8.0, View("pair"), **others)


def asked(request: Request, trial: int, model: Path, sampling: Sampling | None = None) -> dict[str, Any]:
    row = next(row for row in _trial_rows(_request_row(0, request)) if row["trial"] == trial)
    return _ask_row(row, str(model), None, None, sampling or Sampling())


def test_without_ray_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    told = r"ray and pyarrow and vllm not installed: pip install 'tempoloc_nb\[ray\]'"
    with pytest.raises(TempolocError, match=told):
        RayBackend(tmp_path)


def test_replicas_may_share_and_be_shared() -> None:
    check_backend("ray", data_parallel=8, tensor_parallel=2)


@pytest.mark.parametrize("wrong", [{"replicas": 0}, {"tensor_parallel": 0}, {"concurrency": 0}])
def test_counts_are_checked_first(wrong: dict[str, Any]) -> None:
    with pytest.raises(TempolocError, match="1 or more"):
        RayBackend("model", **wrong)


def test_a_row_for_each_trial_that_is_wanted() -> None:
    request = request_of(Path("0.mp4"), trials=(3, 7))
    rows = _trial_rows(_request_row(4, request))
    assert [(row["number"], row["trial"]) for row in rows] == [(4, 3), (4, 7)]
    assert pickle.loads(rows[0]["request"]).video.is_absolute()  # the workers run elsewhere


def test_a_clip_that_cannot_be_shown_is_a_row_with_its_error(tmp_path: Path) -> None:
    row = asked(request_of(tmp_path / "none.mp4"), 0, qwen25())
    assert "none.mp4" in row[_ERROR]
    row = asked(request_of(tmp_path / "none.mp4"), 0, tmp_path)
    assert row[_ERROR].startswith("lift/0: ValueError: ")
    answer = _read_answer({"trial": 0, **row}, request_of(Path("0.mp4")), Sampling(), ENDS)
    assert isinstance(answer, TempolocError)
    assert str(answer).startswith("lift/0: ")
    assert "\n" not in str(answer)


def test_a_row_says_how_to_draw(tmp_path: Path) -> None:
    video = write_clip(tmp_path / "clip.mp4", 30, (112, 112))
    request = request_of(video, constraint=Constraint("regex", "a+"), trials=(5,))
    row = asked(request, 5, qwen25(), Sampling(0.5, 0.9, 1.15, 40, seed=3))
    assert row["sampling_params"] == {
        "temperature": 0.5, "top_p": 0.9, "repetition_penalty": 1.15, "max_tokens": 40,
        "seed": row_seed(3, "lift/0", 5), "structured_outputs": {"regex": "a+"},
    }  # fmt: skip
    assert row["fps"] == 8


def test_an_answer_stops_ends_or_is_an_error() -> None:
    request, sampling = request_of(Path("0.mp4")), Sampling(max_new_tokens=3)
    stopped = _read_answer(ANSWERED, request, sampling, ENDS)
    assert isinstance(stopped, Response)
    assert stopped.finish_reason == "stop"
    assert stopped.seed == row_seed(0, "lift/0", 1)
    full = _read_answer({**ANSWERED, "last": 9}, request, sampling, ENDS)
    assert isinstance(full, Response)
    assert full.finish_reason == "length"
    for changed, part in (
        ({"last": 9, "completion_tokens": 2}, "context"), ({"expected": 60}, "64 vision tokens"),
        ({_ERROR: "ValueError: no\nsuch thing"}, "vLLM refuses it: ValueError: no"),
    ):  # fmt: skip
        error = _read_answer({**ANSWERED, **changed}, request, sampling, ENDS)
        assert isinstance(error, TempolocError)
        assert str(error).startswith("lift/0: ")
        assert part in str(error)
        assert "\n" not in str(error)
