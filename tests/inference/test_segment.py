"""`segment`: recordings to event logs, with windows, trials, odd answers and models that write none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tempoloc_nb as tl
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.inference.found import Found
from tempoloc_nb.video.files import encode
from tests.helpers.logging_engine import Logging, begin_of

SCRIPT = (
    (0.5, "arriving at the red cube"), (1.0, "missing the red cube"), (2.5, "grasping the red cube"),
    (8.5, "releasing the red cube"), (12.0, "grasping the red cube"), (17.2, "releasing the red cube"),
)  # fmt: skip
WHOLE = [t for t, name in SCRIPT if not name.startswith("arriving")]


@pytest.fixture
def video(tmp_path: Path) -> Path:
    """20 s of small frames."""
    frames = [np.full((64, 64, 3), 40 + k % 160, np.uint8) for k in range(200)]
    return encode(tmp_path / "long.mp4", frames, 10)


def rows(found: Found) -> list[tuple[float | None, str, str | None]]:
    return [(e.boundary, e.name, e.outcome) for e in found.events]


def test_all_that_happens_is_found_in_one_window_or_many(video: Path) -> None:
    engine = Logging(SCRIPT)
    whole = tl.segment(video, engine=engine, trials=1)
    assert rows(whole) == [
        (1.0, "grasping the red cube", "missed"), (2.5, "grasping the red cube", "succeeded"),
        (8.5, "releasing the red cube", "unknown"), (12.0, "grasping the red cube for the second time", "succeeded"),
        (17.2, "releasing the red cube for the second time", "unknown"),
    ]  # fmt: skip
    assert (len(engine.asked), whole.confidence, whole.warnings, whole.gaps) == (1, (None,) * 5, (), ())
    assert (engine.asked[0].prompt.name, engine.asked[0].labels, engine.asked[0].video) == ("log", (), video)
    parts = Logging(SCRIPT)
    assert rows(tl.segment(video, engine=parts, trials=1, window=6.0)) == rows(whole)
    assert len(parts.asked) == 5
    assert {r.view.shift for r in parts.asked} == {0.0}
    assert [begin_of(r) for r in parts.asked] == pytest.approx([0.0, 3.5, 7.0, 10.5, 14.0], abs=0.11)
    assert len({r.id for r in parts.asked}) == 5


def test_trials_are_combined_and_moments_shown_if_wanted(video: Path) -> None:
    engine = Logging(SCRIPT, late=(0.0, 0.2, 0.4))
    found = tl.segment(video, engine=engine, trials=3, moments=True, window=8.0)
    assert [round(t or 0.0, 2) for t in found.boundaries] == [round(t + 0.2, 2) for t, _ in SCRIPT]
    assert found.confidence == (1.0,) * 6
    assert found.events[0].label == "arriving at the red cube"


def test_without_stamps_a_window_counts_from_its_begin(video: Path) -> None:
    class Blind(Logging):
        def text(self, request: object, trial: int) -> str:
            begin = float(request.video.name.split()[-2].split("-")[0])  # type: ignore[attr-defined]
            mine = [(t - begin, name) for t, name in SCRIPT if begin <= t < begin + 6.0]
            return "\n".join(f"{t:.2f} s: {name}" for t, name in mine) or "[]"

    found = tl.segment(video, engine=Blind(SCRIPT), trials=1, window=6.0, stamps="none")
    assert [t for t, *_ in rows(found)] == pytest.approx(WHOLE, abs=0.01)


def test_only_some_events_are_kept_and_the_others_are_counted(video: Path) -> None:
    found = tl.segment(video, engine=Logging(SCRIPT), trials=1, events=["grasp the red cube", "pouring"])
    assert [e.outcome for e in found.events] == ["missed", "succeeded", "succeeded"]
    assert found.warnings == ("dropped, as --event names others: 2 releasing the red cube", "not in the log: pouring")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("The robot grasps.", "1 of 1 log cannot be read for certain: 'The robot grasps.' has no certain time"),
        ("Event 1: <1.0> <2.0> grasping the cup", "has two times that differ"),
        ('[{"time": 1.0, "event": "grasp"}, {"ev', "has no certain time"),
        ("99.0 s: grasping the cup", "99.00 s 'grasping the cup' is not within the video"),
        (" ", "nothing is written"),
        ("I cannot help with that.", "has no certain time"),
    ],
)  # fmt: skip
def test_an_odd_answer_is_an_error_and_no_event(video: Path, text: str, why: str) -> None:
    with pytest.raises(TempolocError, match="1 of 1 log") as error:
        tl.segment(video, engine=Logging(SCRIPT, odd=lambda *_: text), trials=1)
    assert why in str(error.value)
    (found,) = tl.segment([video], engine=Logging(SCRIPT, odd=lambda *_: text), trials=1)
    assert (found.events, found.texts) == ((), (text,))
    assert why in found.error


def test_an_answer_that_was_cut_off_is_no_log(video: Path) -> None:
    with pytest.raises(TempolocError, match="the answer is cut off: raise max_new_tokens"):
        tl.segment(video, engine=Logging(SCRIPT, finish="length"), trials=1)


@pytest.mark.parametrize("odd", ["nonsense", TempolocError("too large")])
def test_a_window_without_a_log_is_a_gap_that_is_said_and_not_written(video: Path, odd: str | TempolocError) -> None:
    engine = Logging(SCRIPT, odd=lambda request, _: odd if begin_of(request) > 13.0 else None)
    found = tl.segment(video, engine=engine, trials=1, window=6.0)
    assert [t for t, *_ in rows(found)] == WHOLE[:-1]
    ((begin, end),) = found.gaps
    assert (begin, end) == (pytest.approx(16.5, abs=0.11), 20.0)
    assert any(line.startswith("no certain log from 16.") for line in found.warnings)
    assert found.to_dict()["gaps"] == [[begin, end]]
    with pytest.raises(TempolocError, match=r"long\.mp4 has no certain answer from 16"):
        _ = found.clip


def test_a_video_without_events_says_so(video: Path) -> None:
    found = tl.segment(video, engine=Logging(()), trials=2)
    assert (found.events, found.error, found.warnings) == ((), "", ("the log has no event",))


def test_the_same_call_goes_on_window_by_window(video: Path, tmp_path: Path) -> None:
    keep = tmp_path / "answers.jsonl"
    with pytest.raises(KeyboardInterrupt):
        tl.segment(video, engine=Logging(SCRIPT, stop=2), trials=1, window=6.0, keep=keep)
    said = list[str]()
    again = Logging(SCRIPT)
    found = tl.segment(video, engine=again, trials=1, window=6.0, keep=keep, say=said.append)
    assert (len(again.asked), [t for t, *_ in rows(found)]) == (3, WHOLE)
    assert "2 of 5 windows are answered already" in said
    with pytest.raises(TempolocError, match="other settings"):
        tl.segment(video, engine=Logging(SCRIPT), trials=1, window=7.0, keep=keep)


def test_a_model_that_was_not_trained_to_write_logs_is_not_asked(video: Path) -> None:
    refused = "tempoloc-tiny-base was not trained to write logs of events: choose a larger"
    with pytest.raises(TempolocError, match=refused):
        tl.segment(video, model="tempoloc-tiny-base")
    engine = Logging(SCRIPT, model="tempoloc-tiny-base")
    with pytest.raises(TempolocError, match="not trained to write logs"):
        tl.segment(video, engine=engine)
    assert engine.asked == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompt": "recipe"}, "prompt recipe asks for listed events: segment takes one with log = true"),
        ({"structured": "json"}, "structured output is for events that are listed, not for a log of all: leave it out"),
        ({"window": 0}, "window must be above 0 s"),
        ({"events": [" "]}, "events must be one or more texts"),
        ({"fuse": True}, "is a video, which has no gripper"),
        ({"event": ["a"]}, "did you mean events"),
    ],
)
def test_a_slip_is_said_before_a_model_is_asked(video: Path, options: dict[str, object], message: str) -> None:
    engine = Logging(SCRIPT)
    with pytest.raises(TempolocError, match=message):
        tl.segment(video, engine=engine, **options)
    assert engine.asked == []


def test_listed_events_cannot_be_asked_for_with_the_prompt_of_a_log(video: Path) -> None:
    with pytest.raises(TempolocError, match="prompt log asks for a log of all events and lists none"):
        tl.localize(video, ["grasping the cup"], engine=Logging(SCRIPT), prompt="log")


def test_memory_is_a_windows(video: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a video is, a request shows no more than its window."""
    seen: list[float] = []
    text: Callable[..., str] = Logging.text

    def noted(self: Logging, request: object, trial: int) -> str:
        seen.append(request.video.info().duration)  # type: ignore[attr-defined]
        return text(self, request, trial)

    monkeypatch.setattr(Logging, "text", noted)
    tl.segment(video, engine=Logging(SCRIPT), trials=1, window=3.0)
    assert max(seen) <= 3.1
