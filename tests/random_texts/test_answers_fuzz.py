"""Whatever a model writes, `parse_answer` and `parse_recipe` answer, and their answers keep their promises."""

from __future__ import annotations

import random
import re

import pytest
from answer_texts import ASKED, DIALECTS, JSON_FORMS, LABELS
from hypothesis import given, settings
from hypothesis import strategies as st

from tempoloc_nb.clips.tasks import BoundaryIs
from tempoloc_nb.models.ask import Form
from tempoloc_nb.scoring.answers import STATUSES, Answer, parse_answer, parse_recipe, repair, status_of
from tempoloc_nb.scoring.shapes import Shapes
from tempoloc_nb.scoring.times import ROUNDING

MUTATED, SHAPED = 30_000, 500
DURATION = 12.0
PIECES = [
    "<",
    ">",
    "<1.2>",
    "<3.4s>",
    " - ",
    "Event 2: ",
    "event",
    "1",
    "9",
    ".",
    ":",
    "00:",
    "-",
    "|",
    "\n",
    "{",
    "}",
    "[",
    "]",
    '"',
    ",",
    "<answer>",
    "</answer>",
    "<think>",
    "</think>",
    "```json\n",
    "null",
    "NaN",
    "1e999",
    "grasping",
    "the red cube",
    "start",
    "end",
    "\x00",
    "\ud800",
    "٣",
    "é",
    "\r\n",
    "\u2028",
    " " * 40,
    "9" * 40,
    "- ",
    "**",
    ";",
    "%",
    "'",
]


def check(answer: Answer, text: str) -> None:
    assert len(answer.events) == len(LABELS), repr(text)
    for index, (event, label) in enumerate(zip(answer.events, LABELS, strict=True)):
        assert (event.index, event.label) == (index, label)
        assert event.status in STATUSES
        assert (event.start is None) == (event.status in ("missing", "malformed")), repr(text)
        if event.usable:
            boundary = event.boundary()
            assert boundary is not None
            assert 0 <= boundary <= DURATION + ROUNDING, repr(text)
            assert event.end is None or boundary <= event.end, repr(text)
    if answer.compliant:
        assert answer.complete


def mutate(text: str, rng: random.Random) -> str:
    """One to six edits: cut, repeat, move, replace or insert a piece."""
    for _ in range(rng.randint(1, 6)):
        a = rng.randrange(len(text) + 1)
        b = min(len(text), a + rng.randrange(1, 30))
        kind = rng.randrange(6)
        if kind == 0:
            text = text[:a] + text[b:]
        elif kind == 1:
            text = text[:b] + text[a:]
        elif kind == 2:
            text = text[:a] + rng.choice(PIECES) + text[a:]
        elif kind == 3:
            text = text[:a] + rng.choice(PIECES) + text[b:]
        elif kind == 4:
            text = text[b:] + text[a:b] + text[:a]
        elif rng.random() < 0.2:
            text = text[:a]
    return text


def test_mutated_texts_keep_every_promise() -> None:
    rng = random.Random(20261121)
    seeds = [*DIALECTS.values(), *JSON_FORMS.values()]
    read = 0
    for number in range(MUTATED):
        text = mutate(seeds[number % len(seeds)], rng)
        answer = parse_answer(text, LABELS, DURATION, form="json" if number % 3 else "lines")
        check(answer, text)
        read += sum(e.usable for e in answer.events)
        if number % 10 == 0:
            fixed, _ = repair(answer, DURATION, fps=30)
            times = [e.start for e in fixed.events if e.start is not None]
            assert times == sorted(times), repr(text)
            assert all(0 <= t <= DURATION for t in times), repr(text)
            parse_recipe(text, len(LABELS))
    assert read > MUTATED  # most of what was written is still read: more than one event in three


def test_the_pattern_of_the_form_asked_for_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(3)
    seeds = [text for name, text in DIALECTS.items() if "json" not in name]
    texts = [mutate(seeds[number % len(seeds)], rng) for number in range(4_000)]

    def read() -> list[list[tuple[object, ...]]]:
        answers = (parse_answer(t, LABELS, DURATION) for t in texts)
        return [[(e.start, e.end, e.status, e.labelled) for e in a.events] for a in answers]

    quick = read()
    monkeypatch.setattr("tempoloc_nb.scoring.answers._asked_lines", lambda labels: re.compile("(?!)"))
    for text, one, other in zip(texts, quick, read(), strict=True):
        assert one == other, repr(text)


NUMBERS = ("0.5", "1.7", "1.70", "5.8", "7.9", "10.6", "12.34", "0.05", "999.125", "1.7", "30.0")
CLOCKS = ("00:01.70", "00:05.80", "01:07.90", "10:59.99", "00:01.70")


def other_times(text: str, rng: random.Random) -> str:
    """The text with other numbers, of which some may be equal, and in any order."""
    text = re.sub(r"\d\d:\d\d\.\d\d", lambda _: rng.choice(CLOCKS), text)
    return re.sub(r"(?<![\d:.])\d{1,4}\.\d{1,3}(?![\d:.])", lambda _: rng.choice(NUMBERS), text)


def through_shapes(shapes: Shapes, text: str, side: BoundaryIs) -> list[tuple[object, ...]] | None:
    if (found := shapes.read(text)) is None:
        return None
    shape, values = found
    times = [(None if a is None else values[a], None if b is None else values[b]) for a, b, *_ in shape.events]
    return [
        (start, end, status_of(start, end, DURATION, side) if start is not None and told == "ok" else told, labelled)
        for (start, end), (*_, told, labelled) in zip(times, shape.events, strict=True)
    ] + [(shape.compliant, 0, ())]


@pytest.mark.parametrize("form", ["lines", "json"])
def test_texts_of_one_shape_are_read_as_each_would_be(form: Form) -> None:
    rng, known, side = random.Random(5), 0, "start"
    seeds = [*DIALECTS.values(), *JSON_FORMS.values()]
    for number in range(SHAPED):
        text, side = seeds[number % len(seeds)], rng.choice(("start", "end"))
        text = mutate(text, rng) if number >= len(seeds) else text
        shapes = Shapes(LABELS, side, form)
        for _ in range(6):
            text = other_times(text, rng)
            quick, answer = through_shapes(shapes, text, side), parse_answer(text, LABELS, DURATION, side, form)
            wanted = [(e.start, e.end, e.status, e.labelled) for e in answer.events]
            wanted += [(answer.compliant, len(answer.extra), answer.invented)]
            assert quick in (None, wanted), repr(text)
            known += quick is not None
    assert known > 2 * SHAPED  # of four that could be


@settings(max_examples=300)
@given(st.text(max_size=400))
def test_any_text(text: str) -> None:
    check(parse_answer(text, LABELS, DURATION), text)
    parse_recipe(text, 3)


@settings(max_examples=300)
@given(st.lists(st.sampled_from([*PIECES, *ASKED.split(" ")]), max_size=60))
def test_any_mixture_of_pieces(pieces: list[str]) -> None:
    text = "".join(pieces)
    check(parse_answer(text, LABELS, DURATION), text)
    parse_recipe(text, 3)


@settings(max_examples=200)
@given(
    st.lists(st.floats(0, 12, width=32).map(lambda t: round(t, 2)), min_size=6, max_size=6).map(sorted),
    st.permutations(range(3)),
)
def test_what_is_written_is_read(times: list[float], order: list[int]) -> None:
    lines = [f"Event {i + 1}: <{times[2 * i]:.2f}> - <{times[2 * i + 1]:.2f}> {LABELS[i]}" for i in order]
    answer = parse_answer("\n".join(lines), LABELS, DURATION)
    assert [t for e in answer.events for t in (e.start, e.end)] == times
