"""What constrained answers may be: times exhaustively, labels of any kind, and what the parser makes of them."""

from __future__ import annotations

import itertools
import json
import re
from decimal import Decimal
from typing import Any

import pytest
from hard_answers import DURATIONS, HARD, as_json, numbers
from hypothesis import given
from hypothesis import strategies as st

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.models.ask import load_prompt
from tempoloc_nb.models.constraints import Constraint, _time_regex, answer_constraint, obeys
from tempoloc_nb.scoring.answers import answer_text, parse_answer, repair

LABELS = ["grasping the red cube", "releasing the red cube", "grasping the blue cube"]


@pytest.mark.parametrize("duration", DURATIONS)
def test_just_the_times_within_the_clip_match(duration: float) -> None:
    for digits in (0, 1, 2):
        form = re.compile(_time_regex(duration, digits))
        for text, within in numbers(duration, digits).items():
            assert (form.fullmatch(text) is not None) == within, (text, duration)


def test_times_with_more_decimals() -> None:
    for digits, duration in itertools.product((3, 4), (0.5004, 1.0, 1.2345, 2.999)):
        form = re.compile(_time_regex(duration, digits))
        for text, within in numbers(duration, digits).items():
            assert (form.fullmatch(text) is not None) == within, (text, duration)


@pytest.mark.parametrize("duration", [0.5, 1.0, 8.53, 10.0, 21.7])
def test_no_other_text_is_a_time(duration: float) -> None:
    """All texts of up to five of these characters."""
    form, right = re.compile(_time_regex(duration)), {t for t, within in numbers(duration, 2).items() if within}
    texts = ("".join(c) for n in range(6) for c in itertools.product("01258.-e"[: 7 if n == 5 else 8], repeat=n))
    for text in texts:
        assert (form.fullmatch(text) is not None) == (text in right), text


@given(st.floats(0.001, 5000), st.integers(0, 6), st.floats(0, 6000), st.integers(0, 6))
def test_any_duration(duration: float, digits: int, time: float, decimals: int) -> None:
    text = f"{time:.{decimals}f}"
    right = decimals <= digits and Decimal(text) <= Decimal(repr(duration))
    assert (re.fullmatch(_time_regex(duration, digits), text) is not None) == right


def test_the_recipes_answers_are_in_the_form() -> None:
    for clip in load_benchmark("recipe").clips:
        end = clip.boundaries[-1] + 1
        for digits in (1, 2):
            text = answer_text(clip.labels, clip.boundaries, end, digits)
            assert obeys(answer_constraint("regex", clip.labels, end + 0.1), text)
            assert not obeys(answer_constraint("regex", clip.labels, end - 0.1), text)


# --- labels ---

WORDS = st.text(st.characters(categories=["L", "M", "N", "P", "S", "Zs"]), max_size=30).filter(lambda w: w == w.strip())
TIMES = st.integers(0, 853).map(lambda k: k / 100)


@given(st.lists(WORDS, min_size=1, max_size=4), st.data())
def test_any_label_is_asked_for_and_read(labels: list[str], data: st.DataObject) -> None:
    try:
        form, schema = (answer_constraint(kind, labels, 8.53) for kind in ("regex", "json"))
    except TempolocError:
        assert not all(label.rstrip(". ") for label in labels)
        return
    clean = [label.rstrip(". ") for label in labels]
    spans = data.draw(st.lists(st.tuples(TIMES, TIMES), min_size=len(labels), max_size=len(labels)))
    lines = [f"Event {i}: <{a:.2f}> <{b:.2f}> {x}" for i, (x, (a, b)) in enumerate(zip(clean, spans, strict=True), 1)]
    text = "\n".join(["<answer>", *lines, "</answer>"])
    assert obeys(form, text)
    answer = parse_answer(text, labels, 8.53)
    assert answer.compliant
    assert [(e.start, e.end) for e in answer.events] == spans
    assert obeys(schema, as_json(clean, spans))


@pytest.mark.parametrize("label", HARD)
def test_hard_labels_are_read_from_both_forms(label: str) -> None:
    labels = ["grasping", label, "releasing"]
    spans = [(1.0, 2.5), (2.5, 4.0), (4.0, 4.25)]
    form, schema = (answer_constraint(kind, labels, 8.53) for kind in ("regex", "json"))
    for constraint, text in (
        (form, answer_text(labels, [1.0, 2.5, 4.0], 4.25)), (schema, as_json(labels, spans)),
        (schema, as_json(labels, spans, indent=1)),
    ):  # fmt: skip
        assert obeys(constraint, text)
        answer = parse_answer(text, labels, 8.53)
        assert [(e.start, e.end, e.status) for e in answer.events] == [(*span, "ok") for span in spans]


def test_json_of_every_task_is_read() -> None:
    for name in ("recipe", "sim"):
        for clip in load_benchmark(name).clips:
            spans = [(b, b + 0.5) for b in clip.boundaries]
            text = as_json(list(clip.labels), spans)
            assert obeys(answer_constraint("json", clip.labels, clip.boundaries[-1] + 1), text)
            answer = parse_answer(text, clip.labels)
            assert [(e.start, e.end, e.status, e.labelled) for e in answer.events] == [(*s, "ok", True) for s in spans]


def test_a_full_stop_after_a_label_is_left_out() -> None:
    constraint = answer_constraint("regex", ["grasping the cube. "], 5)
    text = "<answer>\nEvent 1: <1> <2> grasping the cube\n</answer>"
    assert obeys(constraint, text)
    assert parse_answer(text, ["grasping the cube. "]).compliant


# --- the two forms ---


def test_every_event_once_in_order_and_nothing_else() -> None:
    form, schema = (answer_constraint(kind, LABELS, 8.53) for kind in ("regex", "json"))
    spans = [(1.0, 2.5), (2.5, 4.0), (4.0, 8.53)]
    lines = answer_text(LABELS, [1.0, 2.5, 4.0], 8.53).splitlines()
    good = "\n".join(lines)
    bad = [lines[:3] + lines[4:], [*lines[:4], *lines[3:]], [lines[0], *lines[2:0:-1], *lines[3:]]]
    assert obeys(form, good)
    for text in [*map("\n".join, bad), good + " ", " " + good, good.replace("8.53", "8.54"), good[:-1], ""]:
        assert not obeys(form, text), text
    assert obeys(schema, as_json(LABELS, spans))
    assert not obeys(schema, as_json(LABELS[:2], spans[:2]))
    assert not obeys(schema, as_json([*LABELS, "more"], [*spans, (0, 1)]))
    assert not obeys(schema, as_json(LABELS[::-1], spans))
    assert not obeys(schema, as_json(LABELS, [*spans[:2], (4.0, 8.54)]))
    assert not obeys(schema, as_json(LABELS, [(-0.1, 1), *spans[1:]]))
    event = json.loads(as_json(LABELS, spans))["events"]
    for text in ("", "{}", "[]", "null", "3", as_json(LABELS, spans)[:-1], json.dumps(event)):
        assert not obeys(schema, text), text
    for change in ({"start": "1.0"}, {"start": True}, {"start": None}, {"event": "1"}, {"note": "x"}):
        changed = {"events": [event[0] | change, *event[1:]]}
        assert not obeys(schema, json.dumps(changed)), change


def test_reasoning_may_come_first_where_asked() -> None:
    plain, free = answer_constraint("regex", LABELS, 8.53), answer_constraint("regex", LABELS, 8.53, think=True)
    answer = answer_text(LABELS, [1.0, 2.5, 4.0], 8.53)
    for thought in (
        "<think>\n1.00 grasping the red cube\n8.53 end\n</think>\n\n", "<think></think>",
        "<think>a < b, <1.7> – é\n\n</think>\n",
        "<think>" + "Event 1: <1.0> <99> hm | <answer>\n" * 2000 + "</think>\n",
    ):  # fmt: skip
        assert obeys(free, thought + answer)
        assert not obeys(plain, thought + answer)
        parsed = parse_answer(thought + answer, LABELS, 8.53)
        assert (parsed.compliant, [e.start for e in parsed.events]) == (True, [1.0, 2.5, 4.0])
    assert obeys(free, answer)
    wrong = ["<think>", "</think>", "hm\n", "<think>a</think>b", "<think></answer></think>", "<think><|a|></think>"]
    for thought in wrong:
        assert not obeys(free, thought + answer), thought


@pytest.mark.parametrize("kind", ["regex", "json"])
def test_what_cannot_be_constrained_is_told(kind: Any) -> None:
    for duration in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(TempolocError, match="duration"):
            answer_constraint(kind, LABELS, duration)
    for labels in (["a\nb"], ["a\u2028b"], [""], [" . "]):
        with pytest.raises(TempolocError, match="one line"):
            answer_constraint(kind, labels, 5)
    with pytest.raises(TempolocError, match="without events"):
        answer_constraint(kind, [], 5)
    for digits in (-1, 7):
        with pytest.raises(TempolocError, match="0 to 6 decimals"):
            answer_constraint(kind, LABELS, 5, digits=digits)


def test_a_json_answer_has_no_room_to_think_and_kinds_are_two() -> None:
    with pytest.raises(TempolocError, match="choose the regex"):
        answer_constraint("json", LABELS, 5, think=True)
    with pytest.raises(TempolocError, match="choose regex or json"):
        answer_constraint("yaml", LABELS, 5)  # type: ignore[arg-type]


def test_the_text_does_not_change_with_the_process() -> None:
    """Request ids are hashes of it."""
    time = r"(?:0(?:\.[0-9])?|1(?:\.[0-5])?)"
    assert answer_constraint("regex", ["a (b)"], 1.5, digits=1) == Constraint(
        "regex", f"<answer>\nEvent 1: <{time}> <{time}> a \\(b\\)\n</answer>"
    )
    number = '{"type": "number", "minimum": 0, "maximum": 1.5}'
    assert answer_constraint("json", ["é"], 1.57, digits=1).text == (
        '{"type": "object", "properties": {"events": {"type": "array", "prefixItems": ['
        '{"type": "object", "properties": {"event": {"const": 1}, "label": {"const": "é"}, '
        f'"start": {number}, "end": {number}}}, '
        '"required": ["event", "label", "start", "end"], "additionalProperties": false}], "items": false, '
        '"minItems": 1, "maxItems": 1}}, "required": ["events"], "additionalProperties": false}'
    )


def test_the_json_prompt_shows_the_form_that_the_schema_asks_for() -> None:
    question = load_prompt("recipe-json").question(LABELS)
    assert all(f"Event {i}: {label}." in question for i, label in enumerate(LABELS, 1))
    shown = json.loads(question.splitlines()[-1])
    (event,) = shown["events"]
    assert list(event) == list(json.loads(as_json(LABELS[:1], [(1, 2)]))["events"][0])
    assert obeys(answer_constraint("json", [event["label"]], 5), json.dumps(shown))


# --- what no grammar promises ---


@given(st.lists(st.tuples(TIMES, TIMES), min_size=3, max_size=3))
def test_order_is_checked_and_repaired_on_request_only(spans: list[tuple[float, float]]) -> None:
    text = as_json(LABELS, spans)
    assert obeys(answer_constraint("json", LABELS, 8.53), text)
    answer = parse_answer(text, LABELS, 8.53)
    assert [(e.start, e.end) for e in answer.events] == spans  # as written
    assert [e.status for e in answer.events] == ["reversed" if a > b else "ok" for a, b in spans]
    repaired, changes = repair(answer, 8.53)
    starts = [e.start for e in repaired.events]
    assert starts == sorted(starts)
    assert all(e.start <= e.end and e.status == "ok" for e in repaired.events)
    begins = [min(s) for s in spans]
    latest = list(itertools.accumulate(begins, max))
    assert changes.swapped == sum(a > b for a, b in spans)
    assert changes.ordered == sum(a != b for a, b in zip(begins, latest, strict=True))
    assert (changes.clamped, changes.snapped) == (0, 0)


def test_absence_is_in_the_form_only_where_the_prompt_offers_it() -> None:
    events = [{"event": i, "label": x, "start": i, "end": i + 1} for i, x in enumerate(LABELS, 1)]
    events[1] = {"event": 2, "label": LABELS[1], "absent": True}
    lines = answer_text(LABELS, [1.0, 2.0, 3.0], 4.0).replace("<2.00> <3.00>", "<absent>")
    for kind, text in (("regex", lines), ("json", json.dumps({"events": events}))):
        plain, offered = (answer_constraint(kind, LABELS, 8.5, absent=absent) for absent in (False, True))  # type: ignore[arg-type]
        assert plain == answer_constraint(kind, LABELS, 8.5)  # type: ignore[arg-type]
        assert "absent" not in plain.text
        assert [obeys(held, text) for held in (plain, offered)] == [False, True]
        answer = parse_answer(text, LABELS, 8.5, form="json" if kind == "json" else "lines")
        assert answer.compliant
        assert [e.status for e in answer.events] == ["ok", "absent", "ok"]
    for odd in ({"absent": False}, {"absent": True, "start": 1.0}, {"start": None, "end": None}, {}):
        events[1] = {"event": 2, "label": LABELS[1], **odd}
        assert not obeys(offered, json.dumps({"events": events}))
