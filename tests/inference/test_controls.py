"""Control questions: what a model answers when it cannot know."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from logging_engine import Logging

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.engines.protocol import Request, Response
from tempoloc_nb.formats.recordings import clips_of, find_recordings, localize
from tempoloc_nb.inference.controls import control_questions, swapped_labels
from tempoloc_nb.inference.run import answer_clips
from tempoloc_nb.models.ask import AskConfig, Sampling
from tempoloc_nb.video.files import Footage, encode, read

LABELS = ("grasping the red cube", "releasing the red cube", "grasping the green cube")
TRUTH = dict(zip(LABELS, (1.0, 2.0, 3.0), strict=True))


@dataclass
class Answers:
    """An engine that answers each label by a rule: its label, its place, and whether the video moves."""

    rule: Callable[[str, int, bool], float | None]
    name: str = "fake"
    model: str = "fake-model"

    def settings(self) -> dict[str, Any]:
        return {}

    def stream(self, requests: Sequence[Request], sampling: Sampling) -> Iterator[tuple[Request, list[Response]]]:
        for request in requests:
            assert sampling.temperature == 0
            lines = []
            for i, label in enumerate(request.labels):
                time = self.rule(label, i, moves(request.video))
                times = "<absent>" if time is None else f"<{time:.2f}> <{time + 1:.2f}>"
                lines.append(f"Event {i + 1}: {times} {label}")
            yield request, [Response(t, "\n".join(lines), 0, "stop", 9, 9, 9, request.fps, 0.1) for t in request.trials]


def moves(video: Footage) -> bool:
    assert isinstance(video, Path)
    images = read(video).images.astype(float)
    return bool(np.abs(images[-1] - images[0]).mean() > 2)


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("moving")
    frames = np.zeros((50, 64, 64, 3), np.uint8)
    for i, frame in enumerate(frames):
        frame[:, i : i + 10] = 255
    return [encode(folder / f"{name}.mp4", frames, 10) for name in "ab"]


def ask(videos: Sequence[Path], rule: Callable[[str, int, bool], float | None], labels: Sequence[str] = LABELS) -> Any:
    clips = clips_of(find_recordings(videos), labels)
    return control_questions(clips, AskConfig(model="fake-model", trials=5), Answers(rule))


def test_a_model_that_looks_passes(videos: list[Path]) -> None:
    controls = ask(videos, lambda label, _, moving: TRUTH.get(label) if moving else None)
    assert {r.kind: (r.passed, r.asked) for r in controls.rows} == {
        "absent": (2, 2), "swapped": (4, 4), "alone": (6, 6), "blank": (6, 6), "still": (6, 6),
    }  # fmt: skip
    assert controls.verdicts == ()
    assert controls.ceiling == pytest.approx(25 / 26)


def test_a_model_that_recites_is_caught(videos: list[Path]) -> None:
    controls = ask(videos, lambda _, place, __: 1.0 + place)
    assert {r.kind: r.passed for r in controls.rows} == {"absent": 0, "swapped": 0, "alone": 2, "blank": 0, "still": 0}
    assert set(controls.verdicts) >= {"answers absent events", "ignores names", "recites the clock"}
    assert controls.ceiling == pytest.approx(3 / 26)
    assert "ignores names" in str(controls)


def test_confidence_is_held_below_what_controls_show(videos: list[Path]) -> None:
    engine = Answers(lambda _, place, __: 1.0 + place)
    (bound,) = localize([videos[0]], LABELS, engine=engine, temperature=0.0, control=True)
    (free,) = localize([videos[0]], LABELS, engine=engine, temperature=0.0)
    assert free.confidence == (1.0, 1.0, 1.0)
    assert max(c for c in bound.confidence if c is not None) < 0.2
    assert any("recites the clock" in note for note in bound.notes)
    assert bound.boundaries == free.boundaries


def test_a_check_tells_the_controls_and_leaves_the_answers_as_they_are(
    videos: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clips, question = clips_of(find_recordings(videos), LABELS), AskConfig().changed(trials=2, temperature=0.0)
    engine = Answers(lambda _, place, __: 1.0 + place)
    answer_clips(clips, tmp_path / "plain.jsonl", question, engine)
    assert "control" not in capsys.readouterr().err
    answer_clips(clips, tmp_path / "checked.jsonl", question, engine, check=True)
    told = capsys.readouterr().err
    assert "tempoloc: control questions on 2 of the videos, fake-model" in told
    assert "swapped    0 of   4 right" in told
    assert (tmp_path / "checked.jsonl").read_text() == (tmp_path / "plain.jsonl").read_text()


def test_a_check_that_cannot_be_made_does_not_stop_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clips = clips_of((encode(tmp_path / "one.mp4", np.zeros((1, 64, 64, 3), np.uint8), 10),), LABELS)
    question = AskConfig().changed(trials=1, temperature=0.0)
    done = answer_clips(clips, tmp_path / "p.jsonl", question, Answers(lambda *_: 1.0), check=True)
    assert "none of the videos could be asked about" in capsys.readouterr().err
    assert done.written == 1


def test_controls_are_about_the_events_that_most_clips_ask_for(videos: list[Path]) -> None:
    clips = clips_of(find_recordings(videos), LABELS)
    one = replace(clips.clips[0], clip="own/other", events=clips.clips[0].events[:1])
    mixed = replace(clips, clips=(one, *clips.clips), footage={**clips.footage, "own/other": videos[0]})
    controls = control_questions(mixed, AskConfig(model="fake-model"), Answers(lambda *_: None))
    assert {r.kind: r.asked for r in controls.rows}["still"] == 2 * len(LABELS)


def test_one_object_has_no_names_to_swap(videos: list[Path]) -> None:
    assert swapped_labels(("grasping the red cube", "releasing the red cube")) is None
    assert swapped_labels(("grasping the red cube", "pushing the green cube")) is None
    controls = ask(videos, lambda *_: None, LABELS[:1])
    assert [r.kind for r in controls.rows] == ["absent", "blank", "still"]


def test_videos_that_cannot_be_asked_about_are_an_error(videos: list[Path], tmp_path: Path) -> None:
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"no video")
    clips = clips_of((broken,), LABELS)
    with pytest.raises(TempolocError, match="none of the videos could be asked about"):
        control_questions(clips, AskConfig(model="fake-model"), Answers(lambda *_: 1.0))
    assert replace(AskConfig(), trials=1).trials == 1


def test_what_is_asked_is_said_before_the_answers(videos: list[Path]) -> None:
    told = list[str]()
    clips = clips_of(find_recordings(videos), LABELS[:1])
    control_questions(clips, AskConfig(model="fake-model"), Answers(lambda *_: None), say=told.append)
    assert told[0] == "asking fake-model control questions about 2 videos"


def test_a_log_is_not_asked_what_it_cannot_fail(videos: list[Path]) -> None:
    """It is written before anything is asked: names and company change nothing."""
    engine = Logging([(1.0, LABELS[0]), (2.0, LABELS[1])], model="tempoloc-tiny")
    clips, ask = clips_of(find_recordings(videos), LABELS), AskConfig(model="tempoloc-tiny", prompt="log")
    controls = control_questions(clips, ask, engine)
    assert [r.kind for r in controls.rows] == ["absent", "blank", "still"]
