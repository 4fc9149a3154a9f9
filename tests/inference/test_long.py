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
from tempoloc_nb.inference import requests
from tempoloc_nb.inference.found import Found
from tempoloc_nb.models.registry import Calibration, Training
from tempoloc_nb.scoring.logs import EventLog, LoggedEvent, log_text, settled
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


def knows(monkeypatch: pytest.MonkeyPatch, logs: bool = True, calibration: Calibration | None = None) -> None:
    """Let the engine's model be one that was trained on clips of 6 s, to write `logs` or not."""
    whole = requests.asked_model

    def trained(*given: Any) -> Any:
        title, info, _ = whole(*given)
        return title, info, Training("made-up clips", 6.0, 30.0, 64, 10.0, logs=logs, calibration=calibration)

    monkeypatch.setattr("tempoloc_nb.inference.find.asked_model", trained)


@pytest.mark.parametrize(
    ("logs", "prompt", "count"), [(True, "tiny-absent", 5), (False, "tiny-absent", 1), (True, "tiny", 1)]
)
def test_a_model_that_writes_logs_is_asked_in_windows_by_itself(
    video: Path, monkeypatch: pytest.MonkeyPatch, logs: bool, prompt: str, count: int
) -> None:
    knows(monkeypatch, logs)
    engine = Looking()
    find(video, [GRASP], engine, prompt=prompt, window=None)
    assert len(engine.asked) == count


# --- events that are looked up in logs ---


@dataclass
class Telling(Looking):
    """Answers with a log of each video."""

    def said(self, request: Request, trial: int) -> str | TempolocError:
        begin = begins(request)
        length = probe(request.video).duration
        inside = [LoggedEvent(t - begin, name) for t, name in self.script if begin <= t < begin + length]
        return self.odd(begin, trial) or log_text(EventLog(settled(inside)), round(length - 0.01, 2))


SECOND, THIRD, PUSH = f"{GRASP} for the second time", f"{GRASP} for the third time", "pushing the can"


@pytest.mark.parametrize("window", [None, 6.0, 30.0])
def test_events_are_looked_up_in_the_log_of_the_whole(
    video: Path, monkeypatch: pytest.MonkeyPatch, window: float | None
) -> None:
    """An occurrence is that of the whole, however many windows there are."""
    knows(monkeypatch)
    engine = Telling()
    found = find(video, [SECOND, RELEASE, PUSH, THIRD, POUR], engine, prompt="log", window=window)
    assert seen(found) == [("ok", 12.0), ("ok", 17.2), ("absent", None), ("absent", None), ("missing", None)]
    assert found.warnings[-1] == f"{RELEASE} is found 2 times (8.50, 17.20 s): the last counts"
    assert len(engine.asked) == (1 if window == 30.0 else 5)
    assert found.form == ("log" if window == 30.0 else None)
    assert {r.labels for r in engine.asked} == {(SECOND, RELEASE, PUSH, THIRD, POUR)}


def test_in_a_log_with_a_gap_nothing_is_absent(video: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    knows(monkeypatch)
    cut = Telling(odd=lambda begin, trial: "<think>\n1.00 grasping the red" if begin > 13.0 else None)
    found = find(video, [SECOND, PUSH], cut, prompt="log")
    assert seen(found) == [("ok", 12.0), ("missing", None)]
    assert [(round(a, 1), b) for a, b in found.gaps] == [(16.5, 20.0)]
    assert any("a log cannot be read for certain: the log is cut off" in line for line in found.warnings)


def test_confidence_of_what_is_looked_up_is_the_measured_one(video: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calibration = Calibration("made-up clips", (0.5, 1.0), (0.1, 0.6))
    knows(monkeypatch, calibration=calibration)
    found = find(video, [SECOND, PUSH], Telling(), prompt="log", window=30.0, trials=4)
    assert found.confidence == (0.6, None)
    parts = find(video, [SECOND, PUSH], Telling(), prompt="log", trials=4)
    assert (parts.confidence, seen(parts)) == ((None, None), seen(found))  # of joined logs nothing was measured


def test_the_log_of_a_model_with_words_of_its_own_answers_no_question(video: Path) -> None:
    with pytest.raises(TempolocError, match="prompt log asks for a log of all events and lists none"):
        find(video, [GRASP], Telling(), prompt="log", window=None)
