"""`localize`: one call from videos to boundaries, whatever goes wrong told in a line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from logging_engine import Saying

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.clips.tasks import load_task
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.engines.protocol import Request, Response
from tempoloc_nb.formats.recordings import _video_files, clips_of, localize, segment
from tempoloc_nb.inference.find import find_boundaries
from tempoloc_nb.inference.found import Found, FoundEvent
from tempoloc_nb.models.ask import AskConfig, Sampling
from tempoloc_nb.models.locate import get_model
from tempoloc_nb.video.files import encode

SIM = load_benchmark("sim")
CLIP = SIM.of_task("stack-three")[0]
VIDEO = CLIP.video_path(SIM.root)
EVENTS = ("grasping the green cube", "releasing the green cube")


@dataclass
class Says(Saying):
    """An engine that says the same texts, a trial each, of every video; no text: it fails."""

    texts: Sequence[str]

    def said(self, request: Request, trial: int) -> str | TempolocError:
        return self.texts[trial % len(self.texts)] if self.texts else TempolocError(f"{request.clip}: too large")

    def stream(
        self, requests: Sequence[Request], sampling: Sampling
    ) -> Iterator[tuple[Request, list[Response] | TempolocError]]:
        return super().stream([*requests][::-1], sampling)  # engines answer in any order


def answer(*times: float) -> str:
    spans = zip(times, [*times[1:], 9.0], EVENTS, strict=True)
    return "\n".join(f"Event {i}: <{a}> <{b}> {label}" for i, (a, b, label) in enumerate(spans, 1))


def log_answer(*times: float) -> str:
    """What a model that writes logs says."""
    return "\n".join(f"{t} s: {label}" for t, label in zip(times, EVENTS, strict=True))


def test_the_boundary_is_the_median_and_the_confidence_the_share_that_agrees() -> None:
    found = localize(VIDEO, EVENTS, engine=Says([answer(1.0, 3.0), answer(1.1, 3.0), answer(2.9, 3.0)]), trials=3)
    assert found.boundaries == (1.1, 3.0)
    assert found.confidence == (pytest.approx(2 / 3), 1.0)
    assert [e.status for e in found.events] == ["ok", "ok"]
    assert found.texts == (answer(1.0, 3.0), answer(1.1, 3.0), answer(2.9, 3.0))
    assert (found.text, found.model, found.video) == (answer(1.0, 3.0), "fake-model", VIDEO)


def test_trials_that_see_crops_are_combined_like_others(tmp_path: Path) -> None:
    engine, lines = Says([answer(1.0, 3.0), answer(1.1, 3.0), answer(2.9, 3.0)]), list[str]()
    clips, ask = clips_of([VIDEO], EVENTS), AskConfig(prompt="tiny", trials=3)
    keep = tmp_path / "kept.jsonl"
    whole, cropped = (
        next(iter(find_boundaries(clips, each, engine, keep=at, say=lines.append)))
        for each, at in ((ask, None), (replace(ask, crops=True), keep))
    )
    assert cropped == whole
    assert lines[-1] == "asking fake-model about 1 video, 3 trials each"
    (again,) = find_boundaries(clips, replace(ask, crops=True), Says([]), keep=keep)
    assert again == cropped


def test_where_a_crop_gets_no_answer_the_others_count() -> None:
    class Deaf(Says):
        def said(self, request: Request, trial: int) -> str | TempolocError:
            return TempolocError("out of memory") if request.view.crop == 1 else super().said(request, trial)

    (found,) = find_boundaries(
        clips_of([VIDEO], EVENTS), AskConfig(prompt="tiny", trials=3, crops=True), Deaf([answer(1.0, 3.0)])
    )
    assert (found.boundaries, len(found.texts), found.error) == ((1.0, 3.0), 2, "")


def test_a_listed_models_confidence_is_calibrated() -> None:
    said = [log_answer(1.0, 3.0), log_answer(1.1, 3.0), log_answer(2.9, 3.0)]
    listed = get_model("tempoloc-tiny").trained
    assert listed is not None
    assert listed.calibration is not None
    asked = {"prompt": "log", "crops": True}
    found = localize(VIDEO, EVENTS, engine=Says(said, model="tempoloc-tiny"), trials=3, **asked)
    assert found.confidence == pytest.approx(tuple(map(listed.calibration.confidence, (2 / 3, 1.0))))
    assert found.confidence != pytest.approx((2 / 3, 1.0), abs=0.002)  # agreement is something else


@pytest.mark.parametrize("how", [{"trials": 1}, {"crops": False}, {"prompt": "card"}, {"crops": False, "trials": 9}])
def test_a_model_that_cannot_read_every_video_is_asked_so_that_this_shows(how: dict[str, Any]) -> None:
    """One log, or several that are one by construction, cannot differ: their times would be sure of anything."""
    with pytest.raises(TempolocError, match="where several of its logs agree: ask for two trials"):
        localize(VIDEO, EVENTS, **how)


def test_a_log_alone_is_refused_too() -> None:
    with pytest.raises(TempolocError, match="where several of its logs agree: ask for two trials"):
        segment(VIDEO, trials=1)


def test_nothing_is_absent_for_which_a_model_has_no_word() -> None:
    asked = ["grasping the red block", "grasping the purple cube", "lifting the can", "grasping the yellow cube"]
    found = localize(VIDEO, asked, trials=2)
    assert [e.status for e in found.events] == ["missing", "missing", "missing", "absent"]
    told = "\n".join(found.warnings)
    assert "has no word for the object of 'grasping the red block': it knows red cube" in told
    assert "does not tell of 'lifting the can': its logs tell of grasping" in told


def test_one_trial_has_no_confidence() -> None:
    found = localize(VIDEO, EVENTS, engine=Says([answer(1.0, 3.0)]), trials=1)
    assert found.boundaries == (1.0, 3.0)
    assert found.confidence == (None, None)


def test_an_event_that_most_trials_miss_has_their_reason() -> None:
    half = f"Event 1: <1.0> <3.0> {EVENTS[0]}"
    late = f"{half}\nEvent 2: <99.0> <100.0> {EVENTS[1]}"
    found = localize(VIDEO, EVENTS, engine=Says([half, late, late]), trials=3)
    assert found.boundaries == (1.0, None)
    assert found.events[1].status == "out_of_range"
    assert found.confidence[1] is None
    with pytest.raises(TempolocError, match="has no boundary for releasing the green cube"):
        _ = found.clip


def test_an_answer_about_another_event_is_no_boundary_and_is_said() -> None:
    told = answer(1.0, 3.0).replace(EVENTS[1], "opening the drawer")
    found = localize(VIDEO, EVENTS, engine=Says([told]), trials=2)
    assert found.boundaries == (1.0, None)
    assert found.events[1] == FoundEvent(EVENTS[1], None, "other_event", 0.0)
    (warning,) = found.warnings
    assert warning.startswith("the answer to 'releasing the green cube' is about another event, and is not taken")
    assert "other event" in str(found)
    assert "opening the drawer" in str(found)


def test_a_video_of_one_frame_is_refused(tmp_path: Path) -> None:
    encode(tmp_path / "one.mp4", [np.zeros((48, 64, 3), np.uint8)], 10)
    with pytest.raises(TempolocError, match=r"one\.mp4 has one frame, in which nothing happens"):
        localize(tmp_path / "one.mp4", EVENTS, engine=Says([answer(1.0, 3.0)]))


def test_the_question_is_the_models_unless_given() -> None:
    engine = Says([answer(1.0, 3.0)])
    localize(VIDEO, EVENTS, engine=engine)
    localize(VIDEO, EVENTS, engine=engine, fps=4, prompt="recipe", structured="regex")
    first, second = engine.asked
    assert (first.fps, first.prompt.name, first.view.stamps, first.trials) == (8, "recipe", "frame", (0, 1, 2, 3, 4))
    assert (second.fps, second.prompt.name) == (4, "recipe")
    assert first.constraint is None
    assert second.constraint is not None
    assert first.id != second.id
    ours = Says([log_answer(1.0, 3.0)], model="tempoloc-tiny")
    assert localize(VIDEO, EVENTS, engine=ours).boundaries == (1.0, 3.0)
    asked = sorted((r.prompt.name, r.view.crop, r.trials) for r in ours.asked)
    assert asked == [("log", k, (k,)) for k in range(5)]


def test_several_videos_come_back_in_order_and_a_broken_one_says_why(tmp_path: Path) -> None:
    for name in ("b.mp4", "a.mp4"):
        shutil.copy(VIDEO, tmp_path / name)
    (tmp_path / "c.mp4").write_bytes(b"no video")
    (tmp_path / "notes.txt").write_text("not a video")
    found = localize([tmp_path], EVENTS, engine=Says([answer(1.0, 3.0)]))
    assert [f.video.name for f in found] == ["a.mp4", "b.mp4", "c.mp4"]
    assert [f.boundaries for f in found] == [(1.0, 3.0), (1.0, 3.0), (None, None)]
    assert found[0].error == ""
    assert "c.mp4" in found[2].error
    assert "c.mp4" in str(found[2])
    with pytest.raises(TempolocError, match=r"c\.mp4"):
        localize(tmp_path / "c.mp4", EVENTS, engine=Says([answer(1.0, 3.0)]))


def test_an_engine_that_fails_is_told() -> None:
    with pytest.raises(TempolocError, match="own/000: too large"):
        localize(VIDEO, EVENTS, engine=Says([]))


def test_a_task_names_the_events(tmp_path: Path) -> None:
    engine = Says([""])
    (tmp_path / "mug.toml").write_text('key = "mug"\nevents = ["grasping the mug", "releasing the mug"]\n')
    tasks: list[Any] = [tmp_path / "mug.toml", str(tmp_path / "mug.toml"), load_task(tmp_path / "mug.toml"), "square"]
    for task in tasks:
        localize(VIDEO, task, engine=engine)
    assert [r.labels[0] for r in engine.asked[:3]] == ["grasping the mug"] * 3
    assert engine.asked[3].labels == load_task("square").events


@pytest.mark.parametrize(
    ("videos", "events", "options", "told"),
    [
        ("none.mp4", EVENTS, {}, r"none\.mp4: no such video"),
        (".", EVENTS, {}, r"is a folder: give it in a list, \['\.'\]"),
        (["."], EVENTS, {}, "has no video"),
        ([], EVENTS, {}, "no videos: give at least one"),
        (VIDEO, [], {}, "events must be one or more texts"),
        (VIDEO, [" "], {}, "events must be one or more texts"),
        (VIDEO, {"a", "b"}, {}, "events are asked for in order: give them in a list"),
        (VIDEO, None, {}, "events are asked for in order: give them in a list"),
        (VIDEO, "stak-three", {}, "stak-three"),
        (VIDEO, "stack-three", {}, r"leaves a place open"),
        (VIDEO, EVENTS, {"trials": 0}, "trials must be 1 or more"),
        (VIDEO, EVENTS, {"prompt": "recip"}, "recip"),
        (VIDEO, EVENTS, {"preset": "recip"}, "recip"),
        (VIDEO, EVENTS, {"temperature": -1.0}, "temperature"),
        ([VIDEO, VIDEO], EVENTS, {}, r"000\.mp4 is given twice"),
    ],
)
def test_bad_input_is_one_line(
    videos: Any, events: Any, options: dict[str, Any], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TempolocError, match=told):
        localize(videos, events, engine=Says([answer(1.0, 3.0)]), **options)


def test_it_shows_itself() -> None:
    events = (FoundEvent("grasping the cube", 1.25, "ok", 0.8), FoundEvent("releasing it", None, "malformed", None))
    found = Found(VIDEO, events, "tiny", CLIP.duration or 8.5, 8.0, ("a", "b"))
    lines = str(found).splitlines()
    assert lines[0].endswith("tiny, 2 trials")
    assert lines[1].split() == ["1.25", "s", "grasping", "the", "cube", "(agreement", "80%)"]
    assert lines[2].split()[0] == "malformed"
    shown = found._repr_mimebundle_()
    assert shown["text/plain"] == str(found)
    assert shown["image/jpeg"].startswith(b"\xff\xd8")
    assert len(shown["image/jpeg"]) < 60_000
    gone = replace(found, video=Path("gone.mp4"))
    assert gone._repr_mimebundle_() == {"text/plain": str(gone)}


def tall(path: Path, size: tuple[int, int], seconds: int, grey: int) -> Path:
    """A video of one colour, at two frames a second."""
    with av.open(str(path), "w") as file:
        stream = file.add_stream("libx264", rate=2, options={"preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
        for i in range(2 * seconds):
            frame = av.VideoFrame.from_ndarray(np.full((size[1], size[0], 3), grey, np.uint8), "rgb24")
            frame.pts = i
            file.mux(stream.encode(frame))
        file.mux(stream.encode())
    return path


@pytest.mark.parametrize(
    ("size", "seconds", "grey", "differs"),
    [
        ((256, 256), 37, 60, ""),
        ((256, 256), 38, 60, ""),  # asked about in windows
        ((288, 288), 8, 20, "much darker"),
        ((640, 480), 8, 200, "640 × 480 pixels, not square"),
        ((96, 96), 60, 10, "much darker, only 96 × 96 pixels"),
    ],
)
def test_a_video_unlike_the_models_training_gets_a_line(
    tmp_path: Path, size: tuple[int, int], seconds: int, grey: int, differs: str
) -> None:
    video = tall(tmp_path / "v.mp4", size, seconds, grey)
    found = localize(video, EVENTS, engine=Says([log_answer(1.0, 3.0)], model="tempoloc-tiny"))
    assert found.warnings == ((f"unlike anything tempoloc-tiny was trained on: {differs}",) if differs else ())
    assert found.trained_on.endswith("clips of at most 37 s")
    other = localize(video, EVENTS, engine=Says([answer(1.0, 3.0)]))
    assert (other.warnings, other.trained_on) == ((), "")


def test_a_video_too_long_for_the_model_is_refused_before_it_is_loaded(tmp_path: Path) -> None:
    for name, seconds in (("a.mp4", 61), ("b.mp4", 8)):
        tall(tmp_path / name, (256, 256), seconds, 90)
    engine = Says([answer(1.0, 3.0)], model="tempoloc-tiny-base")
    told: list[str] = []
    long, short = localize([tmp_path], EVENTS, engine=engine, say=told.append)
    assert long.error == (
        "a.mp4: 61 s are too long for tempoloc-tiny-base, which beyond 60 s only guesses: cut the video, or choose a"
        " larger model, such as --model nvidia/Cosmos-Reason1-7B"
    )
    assert {r.clip for r in engine.asked} == {"own/b"}
    assert short.boundaries == (1.0, 3.0)
    assert told[0].startswith("tempoloc-tiny-base was trained on simulated robot arms")
    assert "it has seen no demonstration" in told[1]
    with pytest.raises(TempolocError, match="cut the video"):
        localize(tmp_path / "a.mp4", EVENTS, model="tempoloc-tiny-base")
    long, _ = localize([tmp_path], EVENTS, engine=Says([answer(1.0, 3.0)]))
    assert long.error == ""


def test_times_out_of_order_are_said() -> None:
    three = (*EVENTS, "closing the lid")
    spans = zip((4.0, 2.0, 6.0), three, strict=True)
    text = "\n".join(f"Event {i}: <{t}> <{t + 1}> {label}" for i, (t, label) in enumerate(spans, 1))
    found = localize(VIDEO, three, engine=Says([text]))
    line = f"the times are not in the order asked: {EVENTS[1]} (2.00 s) is before {EVENTS[0]} (4.00 s)"
    assert found.disorder == line
    assert str(found).splitlines()[-1] == f"  {line}"
    assert found.to_dict()["warnings"] == [line]
    assert localize(VIDEO, EVENTS, engine=Says([answer(1.0, 1.0)])).disorder == ""


def test_a_result_is_plain_containers_and_a_table() -> None:
    found = localize(VIDEO, EVENTS, engine=Says([answer(1.0, 3.0), "nothing"]), trials=2)
    told = json.loads(json.dumps(found.to_dict()))
    assert (told["video"], told["model"], told["error"], told["warnings"]) == (str(VIDEO), "fake-model", "", [])
    assert [e["label"] for e in told["events"]] == list(EVENTS)
    assert told["texts"] == [answer(1.0, 3.0), "nothing"]
    events = (FoundEvent(EVENTS[0], 1.5, "ok", 0.5), FoundEvent(EVENTS[1], None, "missing"))
    table = replace(found, events=events).to_pandas()
    assert list(table) == ["label", "boundary", "confidence", "status"]
    assert table.iloc[0].tolist() == [EVENTS[0], 1.5, 0.5, "ok"]
    assert table["boundary"].isna().tolist() == table["confidence"].isna().tolist() == [False, True]


def test_a_folder_stands_for_its_videos_and_each_counts_once(tmp_path: Path) -> None:
    shutil.copy(VIDEO, tmp_path / "a.mp4")
    assert _video_files([tmp_path]) == (tmp_path / "a.mp4",)
    with pytest.raises(TempolocError, match="given twice"):
        _video_files([tmp_path, tmp_path / "a.mp4"])


def test_the_small_model_answers(tmp_path: Path) -> None:
    """The front door as a newcomer opens it: no option, the shipped model."""
    found = localize(VIDEO, CLIP.labels, trials=2)
    assert all(b is not None and abs(b - t) < 0.5 for b, t in zip(found.boundaries, CLIP.boundaries, strict=True))
