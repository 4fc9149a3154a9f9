"""A sample says what inference asks, answers in the recipe's form, and survives the real `datasets` library."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tempoloc_nb.clips.manifest import Clip
from tempoloc_nb.clips.tasks import Event
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.models.ask import list_prompts, load_prompt
from tempoloc_nb.scoring.answers import parse_answer, parse_recipe
from tempoloc_nb.scoring.logs import look_up, read_log
from tempoloc_nb.sft.dataset import (
    Sample,
    _to_row,
    answer_events,
    chat_messages,
    check_question,
    from_row,
    load_splits,
    read_samples,
    sample_of,
    save_samples,
)
from tempoloc_nb.sft.learner import _sample_request, known_side, trained_way
from tempoloc_nb.video.files import sample_indices
from tempoloc_nb.video.view import View

datasets = pytest.importorskip("datasets", reason="needs tempoloc_nb[data]")

CUBE = Clip(
    "cube/0",
    "cube",
    (Event("grasping the red cube", 1.5), Event("releasing the red cube", 3.25)),
    fps=30.0,
    duration=6.0,
)


def make(clip: Clip = CUBE, **changed: Any) -> Sample:
    options = {"video": "videos/cube/0.mp4", "fps": 8.0, "stamps": "pair"} | changed
    split = options.pop("split", "train")
    return replace(sample_of(clip, **options), split=split)


@pytest.mark.parametrize("name", [p.name for p in map(load_prompt, list_prompts()) if not (p.log or p.spans)])
def test_the_texts_are_those_of_inference(name: str) -> None:
    sample, prompt = make(prompt=name), load_prompt(name)
    asked = prompt.messages(CUBE.labels, "videos/cube/0.mp4")
    assert sample.question == asked[-1]["content"][1]["text"] == prompt.question(CUBE.labels)
    assert sample.system == (asked[0]["content"][0]["text"] if prompt.system else "")
    turns = sample.turns
    assert turns[-2]["content"] == asked[-1]["content"]
    assert [t["role"] for t in turns] == [*(m["role"] for m in asked), "assistant"]


def test_the_form_is_the_recipes() -> None:
    system, user, assistant = make(digits=1).turns
    assert system == {"role": "system", "content": load_prompt("recipe").system}
    assert user["content"][0] == {"type": "video", "video": "videos/cube/0.mp4"}
    assert assistant["content"] == (
        "<answer>\nEvent 1: <1.5> <3.2> grasping the red cube\nEvent 2: <3.2> <6.0> releasing the red cube\n</answer>"
    )


@pytest.mark.parametrize("convention", ["start", "end"])
def test_an_answer_reads_back_as_the_truth(convention: Any) -> None:
    sample = make(convention=convention)
    answer = parse_answer(sample.answer, CUBE.labels, 6.0, convention)
    assert answer.compliant
    assert [e.boundary(convention) for e in answer.events] == [1.5, 3.25]
    spans = parse_recipe(sample.answer, 2)
    assert spans is not None
    assert [s[convention == "end"] for s in spans] == [1.5, 3.25]


def test_a_true_end_goes_before_the_next_boundary() -> None:
    clip = replace(CUBE, events=(Event("a", 1.0, 1.0, 1.25), Event("b", 3.0)))
    assert make(clip).answer == "<answer>\nEvent 1: <1.00> <1.25> a\nEvent 2: <3.00> <6.00> b\n</answer>"


def test_a_true_end_that_is_the_boundary_says_nothing_of_what_follows() -> None:
    clip = replace(CUBE, events=(Event("a", 1.0, 0.2, 1.0), Event("b", 3.0, 1.0, 3.0)))
    assert [(e.start, e.end) for e in answer_events(clip, 6.0)] == [(1.0, 3.0), (3.0, 6.0)]
    assert [(e.start, e.end) for e in answer_events(clip, 6.0, "end")] == [(0.0, 1.0), (1.0, 3.0)]


def test_times_are_those_of_the_source() -> None:
    bridge = replace(CUBE, fps=5.0, label_fps=30.0, events=(Event("a", 0.5), Event("b", 1.0)), duration=8.0)
    assert [e.boundary for e in make(bridge).events] == [3.0, 6.0]
    assert make(bridge).fps == 5.0  # not above the source's rate


@pytest.mark.parametrize(
    "label",
    [
        "<1.6> <4.9> grasping", "grasping <2>", "grasping at 2 s", "grasping at 2.5sec", "grasping (0:02)", "01:02.5 g",
        "grasping after 3 seconds", "grasping at 1.5", "1.50 grasping", "3.25 - 6.0 grasping", "in 300ms grasping",
    ],
)  # fmt: skip
def test_a_time_in_the_question_is_an_error(label: str) -> None:
    clip = replace(CUBE, events=(Event(label, 1.5), Event("releasing", 3.25)))
    with pytest.raises(TempolocError, match="cube/0") as caught:
        make(clip)
    assert label in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "label", ["grasping cube 2", "pouring 7.5 l", "step 3: releasing", "the 2x4 brick", "4 screws"]
)
def test_other_numbers_are_no_times(label: str) -> None:
    make(replace(CUBE, events=(Event(label, 1.5), Event("releasing", 3.25))))


@given(st.floats(0.1, 900, allow_nan=False), st.sampled_from(["<{}>", "{}s", "{} s", "at {}"]), st.integers(1, 2))
def test_no_answer_time_passes(time: float, form: str, digits: int) -> None:
    event = Event(f"grasping {form.format(f'{time:.{digits}f}')}", round(time, 3), round(time, 3), time + 1)
    with pytest.raises(TempolocError, match="take it out"):
        check_question(f"Event 1: {event.label}.", [event], "a/0")


def test_the_place_of_the_video_is_no_label() -> None:
    with pytest.raises(TempolocError, match="stands for the video"):
        make(replace(CUBE, events=(Event("grasping <video>", 1.5),)))


def test_a_question_with_a_time_in_the_prompt(tmp_path: Path) -> None:
    (tmp_path / "user.txt").write_text("At <1.0> the robot starts.\n{events}")
    with pytest.raises(TempolocError, match=r"cube/0: the question holds the time '<1\.0>'"):
        make(prompt=str(tmp_path))


@pytest.mark.parametrize("path", ["/etc/passwd", "../videos/0.mp4", "videos/../../0.mp4", "", "a\\..\\b.mp4"])
def test_no_path_leaves_the_folder(path: str) -> None:
    with pytest.raises(TempolocError, match="not a path within"):
        make(video=path)
    with pytest.raises(TempolocError, match="not a path within"):
        from_row(_to_row(make()) | {"video": path})


def test_wrong_words_and_unknown_lengths() -> None:
    with pytest.raises(TempolocError, match="stamps are none, frame, pair, alternate"):
        make(stamps="each")
    with pytest.raises(TempolocError, match="conventions are start, end"):
        make(convention="middle")
    with pytest.raises(TempolocError, match="names no duration"):
        make(replace(CUBE, duration=None))
    with pytest.raises(TempolocError, match="names no fps"):
        make(replace(CUBE, fps=None))


def test_datasets_of_earlier_versions_say_recipe_for_frame() -> None:
    made = make(stamps="frame")
    assert from_row(_to_row(made) | {"stamps": "recipe"}) == made
    with pytest.raises(TempolocError, match="unknown stamps 'each': choose one of alternate, frame, none, pair"):
        from_row(_to_row(made) | {"stamps": "each"})


def test_the_view_adds_the_stamps_that_are_missing() -> None:
    def view(**changed: Any) -> View:
        return _sample_request(make(**changed), Path()).view

    assert view() == View("pair")
    assert view(stamps="frame") == View("frame")
    assert view(stamped=True) == View("none")
    assert view(stamps="none", stamped=True) == View("none")
    assert not make(stamps="none", stamped=True).stamped


def test_messages_and_chat(tmp_path: Path) -> None:
    sample = make()
    assert [m["role"] for m in sample.messages] == ["system", "user", "assistant"]
    assert sample.messages[1]["content"] == "<video>" + sample.question
    assert sum(m["content"].count("<video>") for m in sample.messages) == len(_to_row(sample)["videos"]) == 1
    chat = chat_messages(sample, tmp_path, fps=8, max_pixels=100352)
    assert chat[1]["content"][0] == {
        "type": "video", "video": str(tmp_path / "videos/cube/0.mp4"), "fps": 8, "max_pixels": 100352,
    }  # fmt: skip
    assert chat[1]["content"][1]["text"] == sample.question
    assert sample.turns[1]["content"][0] == {"type": "video", "video": "videos/cube/0.mp4"}  # left as it was


def test_a_prompt_without_a_system_text(tmp_path: Path) -> None:
    (tmp_path / "user.txt").write_text("When?\n{events}")
    sample = make(prompt=str(tmp_path))
    assert [m["role"] for m in sample.messages] == [t["role"] for t in sample.turns] == ["user", "assistant"]
    assert sample.system == ""
    assert sample.question.startswith("When?\nEvent 1: grasping the red cube.")


# --- Logs

TWICE = replace(
    CUBE,
    events=(
        Event("grasping the red cube", 1.5),
        Event("releasing the red cube", 3.25),
        Event("grasping the red cube for the second time", 4.0),
        Event("opening the drawer", 5.004),
    ),
)


@pytest.mark.parametrize("clip", [CUBE, TWICE, replace(TWICE, events=TWICE.events[::-1])])
def test_a_prompt_for_a_log_is_answered_with_the_log_of_the_clip(clip: Clip) -> None:
    """At the times that stand under the frames shown: others a model could not copy."""
    frames = [i / 30 for i in range(round(30 * (clip.duration or 0)))]
    shown = [frames[i] for i in sample_indices(frames, clip.duration or 0, 8)]
    times = [round(min(shown, key=lambda s, e=e: abs(s - e.time)), 2) for e in clip.events]  # type: ignore[misc]
    assert 0 < max(abs(t - e.time) for t, e in zip(times, clip.events, strict=True)) < 1 / 16
    sample, prompt = make(clip, prompt="log"), load_prompt("log")
    assert (sample.system, sample.question) == (prompt.system, prompt.question(()))
    log = read_log(sample.answer, sample.duration)
    assert (log.status, log.end) == ("ok", round(176 / 30, 2))  # the last of the frames shown, 8 of 30 a second
    assert [e.time for e in log.events] == sorted(times)
    told = look_up(log, clip.labels)
    assert [(status, own and own.time) for status, own in told] == [("ok", time) for time in times]
    way, _ = trained_way(sample, 256) or (None, "")
    assert way is not None
    assert (way.prompt, way.view) == ("log", View("pair", side=256))


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (("grasping it for the second time", "releasing it"), "'grasping it for the second time': number what"),
        (("grasping it for the second time", "grasping it"), "the time of 'grasping it"),
        (("end", "releasing the red cube"), "the time of 'end'"),
    ],
)
def test_events_that_a_log_cannot_tell_are_not_learned(labels: tuple[str, str], said: str) -> None:
    clip = replace(CUBE, events=tuple(Event(label, t) for label, t in zip(labels, (1.5, 3.25), strict=True)))
    with pytest.raises(TempolocError, match=r"^cube/0: a log does not tell") as error:
        make(clip, prompt="log")
    assert said in str(error.value)


def test_a_log_has_its_own_decimals() -> None:
    with pytest.raises(TempolocError, match="two decimals: leave out --digits"):
        make(prompt="log", digits=1)


def test_a_model_of_one_size_learns_from_pictures_of_that_size() -> None:
    """Stamps that are in the file already have changed its shape: nothing is fitted."""
    plain, stamped = make(prompt="log"), replace(make(prompt="log"), stamped=True)
    assert _sample_request(plain, Path(), 256).view == View("pair", side=256)
    assert _sample_request(stamped, Path(), 256).view == View("none")
    assert (known_side("tempoloc-tiny"), known_side("nvidia/Cosmos-Reason1-7B"), known_side("mine/7B")) == (256, 0, 0)


def test_datasets_keeps_every_sample(tmp_path: Path) -> None:
    samples = [make(), make(split="validation", convention="end"), make(replace(CUBE, clip="cube/ä", source="Bücher"))]
    assert save_samples(samples, tmp_path / "d") == {"train": 2, "validation": 1}
    assert read_samples(tmp_path / "d") == [samples[0], samples[2], samples[1]]
    assert read_samples(tmp_path / "d", "validation") == [samples[1]]
    assert read_samples(tmp_path / "d" / "train") == [samples[0], samples[2]]
    row = load_splits(tmp_path / "d")["train"][0]
    assert row["events"][1] == {"label": "releasing the red cube", "boundary": 3.25, "start": 3.25, "end": 6.0}
    assert row["messages"] == samples[0].messages
    assert row["videos"] == ["videos/cube/0.mp4"]
    by_start = load_splits(tmp_path / "d")["train"].filter(lambda r: r["duration"] > 5 and r["convention"] == "start")
    assert len(by_start) == 2


def test_a_dataset_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(TempolocError, match="no such dataset"):
        read_samples(tmp_path / "d")
    (tmp_path / "empty").mkdir()
    with pytest.raises(TempolocError, match="not a dataset that can be loaded"):
        read_samples(tmp_path / "empty")
    save_samples([make()], tmp_path / "d")
    with pytest.raises(TempolocError, match="no split 'test': choose one of train"):
        read_samples(tmp_path / "d", "test")
    datasets.Dataset.from_dict({"text": ["a"]}).save_to_disk(str(tmp_path / "other"))
    with pytest.raises(TempolocError, match="not a conversations dataset: a row lacks 'clip'"):
        read_samples(tmp_path / "other")
    with pytest.raises(TempolocError, match="at least one"):
        save_samples([], tmp_path / "none")


def test_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(TempolocError, match=r"pip install 'tempoloc_nb\[data\]'"):
        save_samples([make()], tmp_path / "d")


def test_no_json_escapes() -> None:
    sample = make(replace(CUBE, events=(Event("Würfel greifen „rot“", 1.5),)))
    assert "Würfel" in sample.conversations
    assert json.loads(sample.conversations) == sample.turns


def test_a_damaged_conversation_is_one_line() -> None:
    with pytest.raises(TempolocError, match=r"the conversation of cube/0 is damaged .*: build the dataset again"):
        _ = replace(make(), conversations='[{"role": "user').turns
