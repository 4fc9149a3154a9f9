"""Names of spans: every odd answer keeps the signal's name, and a line says why."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from logging_engine import Saying

import tempoloc_nb as tl
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.engines.protocol import Request
from tempoloc_nb.formats.recordings import clips_of
from tempoloc_nb.inference.found import Found, FoundEvent
from tempoloc_nb.inference.names import (
    NAME_PROMPT,
    NameOptions,
    _one_spelling,
    _read_names,
    _span_groups,
    majority,
    name_cuts,
)
from tempoloc_nb.models.ask import AskConfig, load_prompt
from tempoloc_nb.models.constraints import names_constraint, obeys
from tempoloc_nb.scoring.phrases import words_of
from tempoloc_nb.video.files import encode, probe
from tempoloc_nb.video.view import View

Said = Sequence[tuple[str, str]]
FREE = NameOptions()
TWO: Said = (("grasp", "red cube"), ("release", "red cube"))


def answer(said: Said = TWO, **first: Any) -> str:
    """An answer that names spans; `first` changes the first one."""
    spans: list[dict[str, Any]] = [{"span": i, "verb": v, "object": o} for i, (v, o) in enumerate(said, 1)]
    spans[0] |= first
    return json.dumps({"spans": spans})


@dataclass
class Naming(Saying):
    """Answers with `text(request, trial)`."""

    text: Callable[[Request, int], str | TempolocError]
    model: str = field(default="naming-model", kw_only=True)

    def said(self, request: Request, trial: int) -> str | TempolocError:
        return self.text(request, trial)


def video_at(path: Path, seconds: float = 4.0) -> Path:
    return encode(path, [np.full((48, 64, 3), 40 + k % 160, np.uint8) for k in range(round(10 * seconds))], 10)


def cut_at(video: Path, *times: float) -> Found:
    """Cuts at these times, in turn close and open."""
    labels = ("close", "open") * len(times)
    events = tuple(FoundEvent(labels[k], t, "ok", occurrence=1 + k // 2) for k, t in enumerate(times))
    return Found(video, events, "gripper signal", probe(video).duration, 10.0, warnings=("a line of the cuts",))


def named(
    cuts: Sequence[Found], engine: Naming, options: NameOptions = FREE, trials: int = 1, **ask: Any
) -> list[Found]:
    config = AskConfig(prompt=NAME_PROMPT, fps=4, trials=trials).changed(**ask)
    clips = clips_of([cut.video for cut in cuts], ())
    return list(name_cuts(clips, iter(cuts), config, engine, options))


@pytest.fixture
def video(tmp_path: Path) -> Path:
    return video_at(tmp_path / "a.mp4")


ODD = {
    "a refusal": "I'm sorry, I cannot help with that.",
    "nothing": "",
    "cut JSON": answer()[:50],
    "fewer spans": answer(TWO[:1]),
    "an invented span": answer((*TWO, ("wave", ""))),
    "no spans": '{"spans": []}',
    "spans in another order": json.dumps({"spans": json.loads(answer())["spans"][::-1]}),
    "a span twice": answer(span=2),
    "a number as text": answer(span="1"),
    "true for 1": answer(span=True),
    "a number with decimals": answer(span=1.0),
    "times of its own, which overlap": answer(start=0.0, end=3.0),
    "an object that is a list": answer(object=["red cube"]),
    "no verb at all": json.dumps({"spans": [{"span": 1, "object": "cube"}, {"span": 2, "object": "cube"}]}),
    "null": answer(verb=None),
    "a list alone": json.dumps(json.loads(answer())["spans"]),
    "another key": json.dumps({"events": json.loads(answer())["spans"]}),
    "two objects": answer() + answer(),
    "a sentence before": "Here you are: " + answer(),
    "a key twice": answer().replace('"verb": "grasp"', '"verb": "push", "verb": "grasp"'),
    "an open thought": "<think>" + answer(),
    "deep": "[" * 100_000,
    "a long number": '{"spans": ' + "9" * 5000 + "}",
    "not a number": '{"spans": NaN}',
}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_an_odd_answer_names_nothing(text: str, video: Path) -> None:
    with pytest.raises(TempolocError):
        _read_names(text, 2, FREE)
    (found,) = named([cut_at(video, 1.0, 3.0)], Naming(lambda *_: text))
    assert [(e.label, e.boundary, e.confidence) for e in found.events] == [("close", 1.0, None), ("open", 3.0, None)]
    assert found.warnings[0] == "a line of the cuts"
    assert found.warnings[1].startswith("spans 1 (close), 2 (open) keep the signal's name: the answer is not taken: ")
    assert (len(found.warnings), found.error) == (2, "")


def test_a_whole_answer_that_was_cut_off_names_nothing(video: Path) -> None:
    """JSON that happens to end where the tokens do."""
    (found,) = named([cut_at(video, 1.0, 3.0)], Naming(lambda *_: answer(), finish="length"))
    assert [e.label for e in found.events] == ["close", "open"]
    assert found.warnings[1].endswith("the answer is cut off: raise max_new_tokens")


@pytest.mark.parametrize(
    ("first", "why"),
    [
        ({"verb": "juggle"}, "its verb 'juggle' is not among those allowed"),
        ({"object": "blue cube"}, "its object 'blue cube' is not among those allowed"),
        ({"object": "red cube and all"}, "its object 'red cube and all' is not among those allowed"),
        ({"verb": "", "object": ""}, "it does not say what happens"),
        ({"verb": " "}, "it does not say what happens"),
        ({"verb": "grasp" * 20}, "is no name"),
        ({"verb": "grasp", "object": "…"}, "is no name"),
    ],
)
def test_a_word_that_is_not_allowed_spoils_its_own_span(first: dict[str, str], why: str, video: Path) -> None:
    allowed = NameOptions(verbs=["grasp", "release"], objects="red cube, mug")
    (found,) = named([cut_at(video, 1.0, 3.0)], Naming(lambda *_: answer(**first)), allowed)
    assert [e.label for e in found.events] == ["close", "release red cube"]
    assert why in found.warnings[1]


@pytest.mark.parametrize(
    "word", ["unknown", "N/A", "the verb", "a{b}", "\x1b[31m", "grasp it for the second time", "x" * 61, "\ud800"]
)
def test_a_free_word_that_no_label_can_hold_is_no_name(word: str) -> None:
    (one, _) = _read_names(answer(verb=word), 2, FREE)
    assert isinstance(one, str)
    assert one.endswith("is no name")
    assert one.isprintable()


def test_a_control_character_spoils_its_own_span() -> None:
    """A grammar that bounds the length of a text lets it pass, which JSON does not."""
    spoilt = answer().replace("grasp", "gr\x01asp")
    assert _read_names(spoilt, 2, FREE) == ["its verb 'gr\\\\x01asp' is no name", TWO[1]]


def test_answers_in_the_forms_that_models_write() -> None:
    for text in (answer(), f"<think>{{}}</think>\n\n{answer()}", f"```json\n{answer()}\n```",
                 f"<answer>\n{answer()}\n</answer>"):  # fmt: skip
        assert _read_names(text, 2, FREE) == list(TWO)
    allowed = NameOptions(verbs=("grasp", "release"), objects=("the red cube",))
    assert _read_names(answer((("Grasping", "red cube."), ("releases", ""))), 2, allowed) == [
        ("grasp", "the red cube"), ("release", ""),
    ]  # fmt: skip
    both = NameOptions(verbs=("grasp", "grab"))  # one meaning: only the very word tells them apart
    assert _read_names(answer((("grab", "cube"), ("gripping", "cube"))), 2, both) == [
        ("grab", "cube"), "its verb 'gripping' is not among those allowed",
    ]  # fmt: skip


def test_more_than_half_of_the_trials_decide_and_a_tie_keeps_the_signals_name(video: Path) -> None:
    other = (("push", "mug"), ("release", "red cube"))
    texts = [answer(), answer(other), "no", answer((("grasping", "the red cube"), ("place", "mug")))]
    (found,) = named([cut_at(video, 1.0, 3.0)], Naming(lambda _, t: texts[t]), trials=4)
    assert [(e.label, e.confidence) for e in found.events] == [("close", None), ("open", None)]
    assert "no name is in more than half of 4 answers (the answer is not taken: " in found.warnings[1]
    texts[2] = answer()
    (found,) = named([cut_at(video, 1.0, 3.0)], Naming(lambda _, t: texts[t]), trials=4)
    assert [(e.label, e.confidence) for e in found.events] == [("grasp red cube", 0.75), ("release red cube", 0.75)]
    assert (found.warnings, found.texts) == (("a line of the cuts",), tuple(texts))
    assert majority([], FREE, 3) == (None, 0.0, "it has no answer")
    assert majority([("drop", "cube"), ("release", "cube"), ("drop", "cube")], FREE, 3)[0] == ("drop", "cube")


def test_the_names_of_one_call_are_spelt_in_one_way_and_counted(tmp_path: Path) -> None:
    videos = [video_at(tmp_path / f"{name}.mp4") for name in "abc"]
    said = {"own/a": TWO, "own/b": (("grasp", "the red cube"), ("grasps", "red cube")), "own/c": TWO}
    cuts = [cut_at(video, 1.0, 3.0) for video in videos]
    found = named(cuts, Naming(lambda request, _: answer(said[request.clip])))
    assert [[e.name for e in f.events] for f in found] == [
        ["grasp red cube", "release red cube"], ["grasp red cube", "grasp red cube for the second time"],
        ["grasp red cube", "release red cube"],
    ]  # fmt: skip
    assert found[1].clip.labels == ("grasp red cube", "grasp red cube for the second time")
    assert {f.model for f in found} == {"gripper signal, names by naming-model"}
    assert _one_spelling(["block", "cube"], words_of) == {"block": "block", "cube": "cube"}


def test_what_is_not_asked_and_what_fails(tmp_path: Path) -> None:
    """Cuts that cannot be made or named pass; a request without an answer is an error, and its cuts are still there."""
    videos = [video_at(tmp_path / f"{name}.mp4") for name in "abcd"]
    bad = replace(cut_at(videos[1]), error="b.mp4 has no gripper")
    cuts = [cut_at(videos[0]), bad, cut_at(videos[2], 0.01), cut_at(videos[3], 1.0, 3.0)]
    engine = Naming(lambda *_: TempolocError("the server is away"))
    found = {f.path.stem: f for f in named(cuts, engine)}
    assert [r.clip for r in engine.asked] == ["own/d"]
    assert (found["a"], found["b"]) == (cuts[0], bad)
    assert [e.label for e in found["c"].events] == ["close"]
    assert found["c"].warnings[1] == "not named: no span is longer than a frame and within 24 s"
    assert "the server is away" in found["d"].error
    assert [e.label for e in found["d"].events] == ["close", "open"]


def test_long_recordings_are_asked_about_in_parts(tmp_path: Path) -> None:
    assert _span_groups([1.0, 1.0, 2.0, 5.0, 6.0, 6.01], 0.1, 2.5) == [[0, 2], [4]]
    video = video_at(tmp_path / "a.mp4", 9.0)
    times = (1.0, 2.0, 6.0, 7.0, 8.0)  # the third span is longer than 3 s
    for stamps, shown in (("frame", "6.00 to 7.00 s"), ("none", "0.00 to 1.00 s")):
        engine = Naming(lambda request, _: answer([("push", f"mug {k}") for k, _ in enumerate(request.labels)]))
        (found,) = named([cut_at(video, *times)], engine, NameOptions(window=3.0), view=View(stamps))
        first, second = engine.asked
        assert (first.labels, len(second.labels)) == (("0.00 to 1.00 s", "1.00 to 2.00 s"), 2)
        assert second.labels[0] == shown
        assert probe(second.video).duration == pytest.approx(2.0, abs=0.11)
        assert (second.view.shift, second.clip) == (6.0 if stamps == "frame" else 0.0, "own/a spans 4 to 5")
        assert [e.label for e in found.events] == ["push mug 0", "push mug 1", "close", "push mug 0", "push mug 1"]
        assert "span 3 (close) keeps the signal's name: it is shorter than a frame, or longer" in found.warnings[1]


def test_the_question_and_the_form(video: Path) -> None:
    allowed = NameOptions(verbs=("grasp", "release"), objects=("cube",))
    engine = Naming(lambda *_: answer())
    named([cut_at(video, 1.0, 3.0)], engine, allowed, structured="json")
    (request,) = engine.asked
    question = request.prompt.question(request.labels)
    assert "Span 1: 0.00 to 1.00 s.\nSpan 2: 1.00 to 3.00 s.\n" in question
    assert "Take each verb from this list: grasp, release.\nTake each object from this list: cube.\nWhere" in question
    assert request.constraint == names_constraint(2, ("grasp", "release"), ("cube",))
    for said, fits in (((("grasp", "cube"), ("", "")), True), (TWO, False)):
        assert obeys(request.constraint, answer(said)) is fits
    assert obeys(names_constraint(2), answer())
    assert not obeys(names_constraint(2), answer(verb="x" * 61))
    assert not obeys(names_constraint(3), answer())
    named([cut_at(video, 1.0, 3.0)], engine)
    plain = engine.asked[-1]
    assert "{words}" not in plain.prompt.question(plain.labels)
    assert plain.constraint is None


def test_slips_are_errors_before_a_model_is_asked(video: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "user.txt").write_text("Name these.\n{events}", encoding="utf-8")
    (mine / "prompt.toml").write_text("spans = true", encoding="utf-8")
    engine = Naming(lambda *_: answer())
    for given, words in (
        ({"prompt": "recipe"}, "prompt recipe asks for events"),
        ({"prompt": str(mine), "verbs": "grasp"}, r"prompt mine has no \{words\}"),
        ({"structured": "regex"}, "--structured json"),
        ({"verbs": ["grasp", ""]}, "verbs must be short texts"),
        ({"verbs": [1]}, "verbs must be short texts"),
        ({"objects": "a{b}"}, "objects must be short texts"),
        ({"window": 0.0}, "window must be above 0 s"),
        ({"moments": True}, "do not read --moments"),
        ({"fuse": True}, "do not read --fuse"),
        ({"by": None, "verbs": "grasp"}, "--verbs is for names of cuts: give --by and --model, too"),
        ({"engine": "hf", "verbs": "grasp"}, "--verbs is for a model that names the cuts"),
        ({"engine": "hf", "model": "tempoloc-tiny"}, "tempoloc-tiny was not trained to name spans"),
    ):
        with pytest.raises(TempolocError, match=words):
            tl.segment(video, **{"by": "motion", "engine": engine, **given})
    with pytest.raises(TempolocError, match="prompt name-spans asks for names of spans"):
        tl.localize(video, ["grasping the cup"], engine=engine, prompt=NAME_PROMPT)
    (mine / "prompt.toml").write_text("spans = true\nlog = true", encoding="utf-8")
    (mine / "user.txt").write_text("Name these.", encoding="utf-8")
    with pytest.raises(TempolocError, match="log = true and spans = true"):
        load_prompt(mine)
    assert engine.asked == []
