"""A prompt is its texts and what it declares; its words never change, since request ids hash them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.models.ask import Prompt, conversation, list_prompts, load_prompt
from tempoloc_nb.scoring.answers import parse_answer, write_answer

LABELS = ("grasping the red cube", "releasing the red cube")
NEW = "card-absent"  # since 0.3
LOG = "log"  # since 0.3, of all events: it lists none
TINY = "tiny-absent"  # since 0.3: the question of `tiny`, and what to write of an event that is not there
SPANS = "name-spans"  # since 0.3, of spans instead of events
NEWER = (NEW, LOG, TINY, SPANS)
JSON_PROMPTS = {"card-json", "card-json-think", "recipe-json", SPANS}


def test_the_words_of_the_prompts_are_those_of_earlier_versions() -> None:
    said = [[*p.texts().values(), p.question(LABELS)] for p in map(load_prompt, list_prompts()) if p.name not in NEWER]
    digest = hashlib.sha256(json.dumps(said).encode()).hexdigest()
    assert digest == "fa7577d70298e1a4a0b319d365b474697e280abb38b56198d1c66865fdc4f494"


@pytest.mark.parametrize("name", list_prompts())
def test_a_prompt_declares_the_form_that_its_words_ask_for(name: str) -> None:
    prompt = load_prompt(name)
    assert prompt.form == ("json" if name in JSON_PROMPTS else "log" if name == LOG else "lines")
    assert ("json" in f"{prompt.system}\n{prompt.user}".lower()) == (prompt.form == "json")


def test_a_log_is_asked_for_without_a_list() -> None:
    prompt = load_prompt(LOG)
    assert prompt.question(()) == "List every event in the video, in the order of time, each with its time."
    assert (prompt.log, prompt.system) == (True, load_prompt("tiny").system)
    assert [p for p in list_prompts() if load_prompt(p).log] == [LOG]
    with pytest.raises(TempolocError, match="prompt log asks for a log of all events and lists none"):
        prompt.question(LABELS)


def write_prompt(folder: Path, declared: str | None = None, user: str = "When? As JSON.\n{events}") -> Path:
    folder.mkdir()
    (folder / "user.txt").write_text(user, encoding="utf-8")
    if declared is not None:
        (folder / "prompt.toml").write_text(declared, encoding="utf-8")
    return folder


def test_a_folder_of_ones_own(tmp_path: Path) -> None:
    assert load_prompt(write_prompt(tmp_path / "mine")) == Prompt("mine", "", "When? As JSON.\n{events}", "lines")
    assert load_prompt(write_prompt(tmp_path / "told", 'form = "json"')).form == "json"
    assert load_prompt(write_prompt(tmp_path / "empty", "")).form == "lines"


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ('form = "xml"', r"prompt\.toml: form = \"xml\" is none of 'lines' or 'json'"),
        ('from = "json"', r"prompt\.toml has the unknown key 'from'; did you mean 'form'\?"),
        ("form", r"prompt\.toml is not valid TOML"),
    ],
)
def test_what_cannot_be_declared(tmp_path: Path, declared: str, said: str) -> None:
    with pytest.raises(TempolocError, match=said):
        load_prompt(write_prompt(tmp_path / "mine", declared))


def test_a_misspelt_prompt_names_the_nearest(tmp_path: Path) -> None:
    said = r"unknown prompt 'recip': did you mean recipe\? .* folder with a user\.txt"
    with pytest.raises(TempolocError, match=said):
        load_prompt("recip")
    with pytest.raises(TempolocError, match=r"user\.txt has no \{events\}: write it where"):
        load_prompt(write_prompt(tmp_path / "mine", user="When?"))
    with pytest.raises(TempolocError, match=r"user\.txt lists \{events\}, but prompt\.toml says log = true"):
        load_prompt(write_prompt(tmp_path / "both", "log = true"))
    assert load_prompt(write_prompt(tmp_path / "all", "log = true", "What happens?")).question(()) == "What happens?"
    with pytest.raises(TempolocError, match="prompt recipe: no events to ask for"):
        load_prompt("recipe").question(())


def test_a_conversation_in_both_shapes() -> None:
    video = {"type": "video", "video": "a.mp4"}
    user = {"role": "user", "content": [video, {"type": "text", "text": "When?"}]}
    plain = conversation("Look.", "When?", video, "At 2 s.")
    assert plain == [{"role": "system", "content": "Look."}, user, {"role": "assistant", "content": "At 2 s."}]
    assert conversation("", "When?", video) == [user]
    system, asked = conversation("Look.", "When?", video, parts=True)
    assert (system["content"], asked) == ([{"type": "text", "text": "Look."}], user)
    assert Prompt("p", "Look.", "When?").messages(["any"], "a.mp4") == [system, user]


def test_what_is_written_keeps_its_number() -> None:
    text = write_answer([*LABELS, "waving"], [(1.704, 2.3), None, (4,)], digits=1)
    assert text == "<answer>\nEvent 1: <1.7> <2.3> grasping the red cube\nEvent 3: <4.0> waving\n</answer>"
    read = parse_answer(text, [*LABELS, "waving"])
    assert [(e.status, e.start, e.end) for e in read.events] == [
        ("ok", 1.7, 2.3), ("missing", None, None), ("ok", 4.0, None),
    ]  # fmt: skip


def test_a_prompt_lets_a_model_say_that_an_event_is_absent() -> None:
    question = load_prompt(NEW).question(LABELS)
    assert "<absent>" in question
    labels = ("grasping the mug", "pouring")
    answer = parse_answer("Event 1: <1.0> <2.0> grasping the mug\nEvent 2: <absent> pouring", labels)
    assert [e.status for e in answer.events] == ["ok", "absent"]
