"""`localize` over long videos: windows, each asked about all events, and one answer from theirs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tempoloc_nb as tl
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.engines.protocol import Request
from tempoloc_nb.inference import run as runner
from tempoloc_nb.inference.found import Found
from tempoloc_nb.models.registry import Training
from tempoloc_nb.video.files import encode, probe
from tests.helpers.logging_engine import Saying

GRASP, RELEASE, POUR = "grasping the red cube", "releasing the red cube", "pouring the can"
SCRIPT = ((2.5, GRASP), (8.5, RELEASE), (12.0, GRASP), (17.2, RELEASE))


@dataclass
class Looking(Saying):
    """Answers about each video with when the events asked for happen in it, the first time, or that they do not."""

    script: tuple[tuple[float, str], ...] = SCRIPT
    odd: Callable[[float, int], str | TempolocError | None] = lambda begin, trial: None
    model: str = field(default="looking-model", kw_only=True)

    def said(self, request: Request, trial: int) -> str | TempolocError:
        begin = begins(request)
        end = begin + probe(request.video).duration
        lines = []
        for number, label in enumerate(request.labels, 1):
            inside = [t - begin for t, name in self.script if name == label and begin <= t < end]
            place = request.labels[: number - 1].count(label)
            span = f"<{inside[place]:.2f}> <{inside[place]:.2f}>" if place < len(inside) else "<absent>"
            lines.append(f"Event {number}: {span} {label}")
        return self.odd(begin, trial) or "\n".join(lines)


def begins(request: Request) -> float:
    """Where (s) the video of a request begins in the whole."""
    found = re.search(r"(\d+\.\d+)-\d+\.\d+ s$", getattr(request.video, "name", ""))
    return float(found[1]) if found and not isinstance(request.video, Path) else 0.0


@pytest.fixture
def video(tmp_path: Path) -> Path:
    """20 s of small frames."""
    frames = [np.full((64, 64, 3), 40 + k % 160, np.uint8) for k in range(200)]
    return encode(tmp_path / "long.mp4", frames, 10)


def find(video: Path, events: list[str], engine: Looking | None = None, **options: Any) -> Found:
    given = {"trials": 1, "window": 6.0, "prompt": "card-absent", **options}
    found = tl.localize(video, events, engine=engine or Looking(), **given)
    assert isinstance(found, Found)
    return found


def seen(found: Found) -> list[tuple[str, float | None]]:
    return [(e.status, None if e.boundary is None else round(e.boundary, 1)) for e in found.events]


def test_each_window_is_asked_and_the_last_time_counts(video: Path) -> None:
    engine = Looking()
    found = find(video, [GRASP, RELEASE, POUR], engine)
    assert [round(begins(r), 1) for r in engine.asked] == [0.0, 3.5, 7.0, 10.5, 14.0]
    assert len({r.id for r in engine.asked}) == 5
    assert all(r.labels == (GRASP, RELEASE, POUR) for r in engine.asked)
    assert seen(found) == [("ok", 12.0), ("ok", 17.2), ("absent", None)]
    assert found.warnings == (
        f"{GRASP} is found 2 times (2.50, 12.00 s): the last counts",
        f"{RELEASE} is found 2 times (8.50, 17.20 s): the last counts",
    )
    assert (found.gaps, len(found.texts), found.duration) == ((), 5, 20.0)
    assert found.clip.events[2].absent


def test_an_event_asked_for_twice_has_two_times(video: Path) -> None:
    found = find(video, [GRASP, RELEASE, GRASP, RELEASE])
    assert seen(found) == [("ok", 2.5), ("ok", 8.5), ("ok", 12.0), ("ok", 17.2)]
    assert found.notes == ()
    three = find(video, [GRASP, GRASP, GRASP])
    assert seen(three) == [("ok", 2.5), ("ok", 12.0), ("absent", None)]


def test_a_video_within_the_window_is_asked_as_a_whole(video: Path) -> None:
    engine, usual = Looking(), Looking()
    found = find(video, [GRASP, POUR], engine, window=20.0)
    assert [r.video for r in engine.asked] == [video]
    assert found == find(video, [GRASP, POUR], usual, window=None)
    assert [r.id for r in usual.asked] == [r.id for r in engine.asked]


@pytest.mark.parametrize("odd", ["I cannot say.", "Event 1: <1.0> <1.0> pouring the can", TempolocError("too large")])
def test_a_window_without_a_certain_answer_is_a_gap(video: Path, odd: str | TempolocError) -> None:
    found = find(video, [GRASP, RELEASE, POUR], Looking(odd=lambda begin, _: odd if begin > 13.0 else None))
    assert seen(found)[:2] == [("ok", 12.0), ("ok", 8.5)]
    assert found.events[2].status not in ("ok", "absent")
    ((begin, end),) = found.gaps
    assert (round(begin, 1), end) == (16.5, 20.0)
    assert "no certain answer from 16.5 to 20.0 s" in found.warnings
    with pytest.raises(TempolocError, match="no certain answer from 16"):
        _ = found.clip


def test_without_any_answer_there_is_an_error(video: Path) -> None:
    with pytest.raises(TempolocError, match="too large"):
        find(video, [GRASP], Looking(odd=lambda *_: TempolocError("too large")))


def test_trials_are_combined_within_each_window(video: Path) -> None:
    engine = Looking(odd=lambda begin, trial: f"Event 1: <absent> {GRASP}" if trial == 2 else None)
    (event,) = find(video, [GRASP], engine, trials=3).events
    assert (event.boundary, event.status, event.confidence) == (
        pytest.approx(12.0, abs=0.01),
        "ok",
        pytest.approx(2 / 3),
    )
    (event,) = find(video, [POUR], trials=3, window=7.0).events
    assert (event.status, event.confidence) == ("absent", 1.0)


def test_the_same_call_goes_on_window_by_window(video: Path, tmp_path: Path) -> None:
    keep, first, second = tmp_path / "answers.jsonl", Looking(stop=3), Looking()
    with pytest.raises(KeyboardInterrupt):
        find(video, [GRASP], first, keep=keep)
    assert seen(find(video, [GRASP], second, keep=keep)) == [("ok", 12.0)]
    assert (len(first.asked), len(second.asked)) == (3, 2)
    with pytest.raises(TempolocError, match="window"):
        find(video, [GRASP], Looking(), keep=keep, window=7.0)


@pytest.mark.parametrize("window", [0.0, -1.0, float("nan"), float("inf")])
def test_a_window_that_is_none(video: Path, window: float) -> None:
    with pytest.raises(TempolocError, match="window must be above 0 s"):
        find(video, [GRASP], window=window)


def test_a_prompt_that_cannot_say_absent(video: Path) -> None:
    with pytest.raises(TempolocError, match="prompt recipe leaves no way to say so: choose one with absent = true"):
        find(video, [GRASP], prompt="recipe")


@pytest.mark.parametrize(
    ("logs", "prompt", "count"), [(True, "tiny-absent", 5), (False, "tiny-absent", 1), (True, "tiny", 1)]
)
def test_a_model_that_writes_logs_is_asked_in_windows_by_itself(
    video: Path, monkeypatch: pytest.MonkeyPatch, logs: bool, prompt: str, count: int
) -> None:
    whole = runner.asked_model

    def trained(*given: Any) -> Any:
        title, info, _ = whole(*given)
        return title, info, Training("made-up clips", 6.0, 30.0, 64, 10.0, logs=logs)

    monkeypatch.setattr("tempoloc_nb.inference.find.asked_model", trained)
    engine = Looking()
    find(video, [GRASP], engine, prompt=prompt, window=None)
    assert len(engine.asked) == count
