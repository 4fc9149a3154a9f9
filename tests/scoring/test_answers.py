"""What `parse_answer` reads, dialect by dialect, and what `repair` changes."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from answer_texts import ASKED, ASKED_JSON, DIALECTS, JSON_FORMS, LABELS, WANTED

from tempoloc_nb.scoring.answers import _MAX_CHARS, Repairs, parse_answer, repair
from tempoloc_nb.scoring.phrases import match_label
from tempoloc_nb.scoring.shapes import Shapes
from tempoloc_nb.scoring.times import Span, read_span


def spans(text: str, **kwargs: object) -> list[tuple[float | None, float | None]]:
    return [(e.start, e.end) for e in parse_answer(text, LABELS, **kwargs).events]  # type: ignore[arg-type]


@pytest.mark.parametrize("name", DIALECTS)
def test_dialect(name: str) -> None:
    answer = parse_answer(DIALECTS[name], LABELS, duration=12.0)
    assert [(e.start, e.end) for e in answer.events] == WANTED
    assert {e.status for e in answer.events} == {"ok"}


@pytest.mark.parametrize("name", ["asked", "tagged", "windows line ends", "explained", "dashes", "units"])
def test_compliant(name: str) -> None:
    assert parse_answer(DIALECTS[name], LABELS).compliant


@pytest.mark.parametrize(
    "name",
    ["bare decimals", "clock", "one line", "reordered", "json list", "table", "two answers", "answer never closed"],
)
def test_not_compliant(name: str) -> None:
    assert not parse_answer(DIALECTS[name], LABELS).compliant


@pytest.mark.parametrize("name", JSON_FORMS)
def test_json_is_compliant_where_it_was_asked_for(name: str) -> None:
    plain, asked = (parse_answer(JSON_FORMS[name], LABELS, 12.0, form=form) for form in ("lines", "json"))
    assert [(e.start, e.end) for e in asked.events] == WANTED
    assert asked.compliant
    assert plain == replace(asked, compliant=False)


def test_what_is_not_the_json_that_was_asked_for() -> None:
    whole = json.dumps({"events": ASKED_JSON})
    first, second, third = ASKED_JSON
    wrong = [
        whole[:-1], whole + "\nThat is all.", "Here: " + whole, whole + whole, '"x"', "3", "", "[]", "{}", "[" * 50_000,
        *map(json.dumps, (
            [first, second], [second, first, third], [*ASKED_JSON, third], [DIALECTS["asked"]],
            [*ASKED_JSON, {**third, "event": 4, "label": "waving"}], [{**e, "label": "moving"} for e in ASKED_JSON],
            [first, second, {**third, "end": None}], [first, second, {**third, "start": "soon"}],
        )),
        *(DIALECTS[name] for name in ("asked", "tagged", "table", "one line")),
    ]  # fmt: skip
    for text in wrong:
        answer = parse_answer(text, LABELS, form="json")
        assert not answer.compliant, text
        assert answer == replace(parse_answer(text, LABELS), compliant=False)
    reversed_times = json.dumps([first, second, {**third, "start": 9, "end": 8}])
    answer = parse_answer(reversed_times, LABELS, form="json")
    assert (answer.compliant, answer.events[-1].status) == (True, "reversed")  # as among lines: in form, and wrong


@pytest.mark.parametrize(
    ("text", "statuses"),
    [
        ("", ["missing"] * 3),
        ("I cannot tell.", ["missing"] * 3),
        ("Event 2: <5.8> <7.9>", ["missing", "ok", "missing"]),
        ("Event 1: not visible\nEvent 2: <5.8> <7.9>", ["absent", "ok", "missing"]),
        ("Event 1: <start> <end>\nEvent 2: <1.7.2> <7.9>", ["malformed", "malformed", "missing"]),
        ("Event 1: <1.7> <?>\nEvent 2: 01:75 - 02:80", ["malformed", "malformed", "missing"]),
        ("Event 1: 12% - 30%\nEvent 2: frames 12 14", ["malformed", "malformed", "missing"]),
        ("Event 1: <1.7> <5.8>\nEvent 2: <5.8> <7.", ["ok", "malformed", "missing"]),
        ("Event 1: <5.8> <1.7>", ["reversed", "missing", "missing"]),
        ("Event 1: <12.2> <12.5>\nEvent 2: <-1.0> <2.0>", ["out_of_range", "out_of_range", "missing"]),
        ("Event 1: <12.04> <99.0>", ["ok", "missing", "missing"]),
        ("Event 1: <1.7> <5.8>\nEvent 1: <1.8> <5.8>", ["duplicate", "missing", "missing"]),
        ("Event 1: <1.7> <5.8>\nEvent 1: <1.7> <5.8>", ["ok", "missing", "missing"]),
        ("Event 1: <5.8> <1.7>\nEvent 1: <1.7> <5.8>", ["reversed", "missing", "missing"]),
        (
            '[{"event": 1, "start": null, "end": 5.8}, {"event": 2, "start": NaN, "end": 1}]',
            ["malformed", "malformed", "missing"],
        ),
        (
            '[{"event": 1, "start": 1e999, "end": 2}, {"event": 2, "start": true, "end": 2}]',
            ["malformed", "malformed", "missing"],
        ),
    ],
)
def test_status(text: str, statuses: list[str]) -> None:
    assert [e.status for e in parse_answer(text, LABELS, duration=12.0).events] == statuses


def test_label_wins_over_number_and_position() -> None:
    lines = ["Event 3: <1.7> <5.8> grasping the red cube", "Event 1: <7.9> <10.6> grasping the green cube"]
    text = "\n".join([*lines, "<5.8> <7.9> Releasing red cube!"])
    assert spans(text) == WANTED
    assert all(e.labelled for e in parse_answer(text, LABELS).events)


def test_number_decides_without_a_known_label() -> None:
    text = "Event 3: <7.9> <10.6> the green one\nEvent 1: <1.7> <5.8> it grips a cube\nEvent 2: <5.8> <7.9>"
    assert spans(text) == WANTED
    assert [e.labelled for e in parse_answer(text, LABELS).events] == [False] * 3


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ("grasping the red cube", "waving"),
        ("grasping the red cube", "after releasing the red cube"),
        ("grasping the red cube", "grasps the yellow block"),
        ("opening the microwave", "opening the fridge"),
        ("opening the microwave", "closing the microwave"),
        ("placing the ball in the left bin", "places the ball in the right bin"),
        ("placing cup A on plate B", "placing plate B on cup A"),
        ("turning knob 2", "turning knob 3"),
        ("inserting the peg", "the peg is removed"),
    ],
)
def test_words_that_name_another_event_are_believed_rather_than_the_number(label: str, words: str) -> None:
    for text in (f"Event 1: <1.7> <5.8> {words}", f"1. {words} (1.7s - 5.8s)", f"{words}: 1.7s - 5.8s"):
        event = parse_answer(text, [label], 12.0).events[0]
        assert (event.status, event.start, event.usable) == ("other_event", 1.7, False), text


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ("grasping the red cube", "grasps the red cube"),
        ("grasping the red cube", "The red cube is gripped by the robot"),
        ("picking up the red cylinder from the table", "The humanoid picks up the red cylinder"),
        ("picking up the red cylinder from the table", "picks the cylindrical red object from the table"),
        ("opening the microwave", "microwave opened"),
        ("releasing the can", "lets go of the can"),
        ("placing the ball in the bin", "puts down the ball into the bin"),
        ("turning knob 2", "twists knob 2 to the left"),
        ("closing the drawer", "it"),
        ("grasping the object", "grasps the cereal box"),
    ],
)
def test_words_that_say_the_same_are_the_event(label: str, words: str) -> None:
    event = parse_answer(f"Event 1: <1.7> <5.8> {words}", [label, "waving"], 12.0).events[0]
    assert (event.status, event.start) == ("ok", 1.7)


def test_captions_in_the_order_asked_are_taken_in_order_where_the_prompt_says_so() -> None:
    captions = ["The humanoid grips the cube", "It drops the red cube", "grabs green cube"]
    text = json.dumps([{"start": a, "end": b, "caption": c} for (a, b), c in zip(WANTED, captions, strict=True)])
    answer = parse_answer(text, LABELS, 12.0, form="json")
    assert ([(e.start, e.end, e.status) for e in answer.events]) == [(*span, "ok") for span in WANTED]
    assert not answer.compliant
    assert [e.status for e in parse_answer(text, LABELS, 12.0).events] == ["missing", "ok", "ok"]  # by labels alone
    wrong = text.replace("It drops the red cube", "It pours the tea")
    assert [e.status for e in parse_answer(wrong, LABELS, 12.0, form="json").events] == ["ok", "other_event", "ok"]
    fewer = json.dumps(json.loads(text)[:1])
    assert {e.status for e in parse_answer(fewer, LABELS, 12.0, form="json").events} == {"missing"}


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ('{"start": "00:02.500", "end": "00:03.750"}', 2.5, 3.75),
        ("2.5, 3.75", 2.5, 3.75),
        ("[2.5, 3.75]", 2.5, 3.75),
        ("[[2.5, 3.75]]", 2.5, 3.75),
        ("The given query happens in 2.5 - 3.75 seconds.", 2.5, 3.75),
        ("It takes place from 2.5 s to 3.75 s.", 2.5, 3.75),
        ("<think>At 9.0 s?</think><answer>2.50 to 3.75</answer>", 2.5, 3.75),
        ("<2.5 seconds> - <3.75 seconds>", 2.5, 3.75),
        ('```json\n{"answer": {"from": 2.5, "to": 3.75}}\n```', 2.5, 3.75),
        ("at 2.5 s", 2.5, None),
        ("The target event is from 0 min. 2.5 sec. to 0 min. 3.75 sec.", 2.5, 3.75),
        ("2.5", 2.5, None),
    ],
)
def test_one_span_answers_one_event(text: str, start: float, end: float | None) -> None:
    event = parse_answer(text, ["pressing the button"], 12.0).events[0]
    assert (event.start, event.end, event.status) == (start, end, "ok")
    assert parse_answer(text, ["pressing the button", "waving"], 12.0).events[0].status == "missing"


@pytest.mark.parametrize(
    "text",
    [
        "3", "3 - 4", "frames 75 - 112", "frame 75", "frames <75> <112>",
        "<0.9> <2.5> <3.75>", "0.9 2.5 3.75", "25%", "2.5 - 3.75, or 5.0 - 6.25",
        "The clip is 10.0 s long.\nI see nothing.",
        "The event does not happen between 2.5 s and 3.75 s.", '{"start_frame": 75, "end_frame": 112}', "[75, 112]",
        "2,5", "opening a door: [2.5, 3.75]",
        'opening a door: {"start": 2.5, "end": 3.75}', "confidence 0.9", "score: 0.87",
        '{"start": 75, "end": 112, "unit": "frames"}', "a minute and 2.5 s",
    ],
)  # fmt: skip
def test_what_answers_no_event_for_certain(text: str) -> None:
    assert not parse_answer(text, ["pressing the button"], 200.0).events[0].usable


def test_numbers_from_zero_and_too_many_numbers() -> None:
    rows = [{"index": i, "start": a, "end": b} for i, (a, b) in enumerate(WANTED)]
    assert spans(json.dumps(rows)) == WANTED
    assert spans("\n".join(f"Event {r['index']}: {r['start']} s - {r['end']} s" for r in rows)) == WANTED
    four = json.dumps([*rows, {"index": 3, "start": 11.0, "end": 11.5}])
    assert {e.status for e in parse_answer(four, LABELS).events} == {"missing"}


def test_lines_of_times_and_of_labels_pair_in_one_way_or_not_at_all() -> None:
    times = [f"{a} s - {b} s" for a, b in WANTED]
    below = "\n".join(f"{t}\n{label}" for t, label in zip(times, LABELS, strict=True))
    over = "\n".join(f"{label}\n{t}" for t, label in zip(times, LABELS, strict=True))
    assert spans(below) == spans(over) == WANTED
    shifted = f"This is about {LABELS[0]}:\n{below}"
    assert not any(e.usable for e in parse_answer(shifted, LABELS, 12.0).events)


def test_a_lone_end_is_the_boundary_only_where_the_end_is() -> None:
    for text, side in (("Event 1: starts at 1.7 s", "start"), ("Event 1: ends at 5.8 s", "end")):
        answers = {s: parse_answer(text, LABELS, 12.0, s).events[0].status for s in ("start", "end")}  # type: ignore[arg-type]
        assert answers == {side: "ok", ("end" if side == "start" else "start"): "malformed"}


def test_a_lone_label_is_one() -> None:
    text = "Event 1: <1.8> grasping"
    assert parse_answer(text, "grasping", 5.0) == parse_answer(text, ["grasping"], 5.0)


def test_position_alone_decides_nothing() -> None:
    answer = parse_answer("<1.7> <5.8>\n<5.8> <7.9>\n<7.9> <10.6>", LABELS)
    assert [e.status for e in answer.events] == ["missing"] * 3
    assert len(answer.extra) == 3


def test_an_event_number_is_no_minute() -> None:
    assert spans("Event 1:11.7-15.8s\nEvent 2: 00:15.8 - 00:17.9") == [(11.7, 15.8), (15.8, 17.9), (None, None)]


def test_longer_label_wins() -> None:
    labels = ("grasping the cube", "grasping the cube on the left")
    assert match_label("Grasping the cube on the left", labels, None) == (1, True)
    assert match_label("Grasping the cube", labels, 2) == (0, True)


def test_equal_labels_go_by_number() -> None:
    answer = parse_answer("Event 2: <3.0> <4.0> grasping\nEvent 1: <1.0> <2.0> grasping", ("grasping", "grasping"))
    assert [e.start for e in answer.events] == [1.0, 3.0]


def test_extra_events_are_kept_apart() -> None:
    answer = parse_answer(ASKED + "\nEvent 4: <11.0> <12.0> waving", LABELS)
    assert [e.status for e in answer.events] == ["ok"] * 3
    assert answer.extra == ("Event 4: <11.0> <12.0> waving",)


def test_single_instant_is_the_boundary_either_way() -> None:
    event = parse_answer("Event 1: <1.73> grasping the red cube", LABELS).events[0]
    assert (event.start, event.end, event.status) == (1.73, None, "ok")
    assert event.boundary("start") == event.boundary("end") == 1.73


def test_range_is_that_of_the_boundary() -> None:
    text = "Event 1: <11.0> <13.0>"
    assert parse_answer(text, LABELS, 12.0, "start").events[0].status == "ok"
    assert parse_answer(text, LABELS, 12.0, "end").events[0].status == "out_of_range"


def test_only_the_end_of_a_long_text_is_read() -> None:
    assert spans("Event 1: <9.0> <9.9>\n" + "x " * _MAX_CHARS + "\n" + ASKED) == WANTED


def test_raw_is_kept() -> None:
    assert parse_answer(ASKED, LABELS).events[1].raw == "<5.8> <7.9>"
    assert "5.8 to 7.9" in parse_answer(DIALECTS["bare decimals"], LABELS).events[1].raw


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("<1.73> <2.00>", (1.73, 2.0)),
        ("<.5> <+2.>", (0.5, 2.0)),
        ("<-1.5> <2>", (-1.5, 2.0)),
        ("1:02:03.5 - 1:02:04", (3723.5, 3724.0)),
        ("t=2.0, t=5.0", (2.0, 5.0)),
        ("t=2, t=5", None),
        ("3, 4", None),
        ("1,7", None),
        ("cube 2", None),
        ("v1.2.3", None),
        ("50%", None),
        ("", None),
    ],
)
def test_span(text: str, span: tuple[float, float] | None) -> None:
    assert read_span(text)[0] == (None if span is None else Span(*span))


def test_the_form_asked_for_is_read_as_in_general(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [t for name, t in DIALECTS.items() if "json" not in name]
    quick = [parse_answer(t, LABELS, 12.0).events for t in texts]
    monkeypatch.setattr("tempoloc_nb.scoring.answers._asked_lines", lambda labels: re.compile("(?!)"))
    for text, events in zip(texts, quick, strict=True):
        slow = parse_answer(text, LABELS, 12.0).events
        assert [(e.start, e.end, e.status, e.labelled) for e in slow] == [
            (e.start, e.end, e.status, e.labelled) for e in events
        ]


@pytest.mark.parametrize(
    "text",
    [
        "1" * _MAX_CHARS,
        " " * _MAX_CHARS,
        "[" * _MAX_CHARS,
        '{"' * (_MAX_CHARS // 2),
        '[{"a": 1}, {"a": "' + '\\"' * (_MAX_CHARS // 2),
        "[" * (_MAX_CHARS // 2) + "]" * (_MAX_CHARS // 2 - 1),
        "<" * _MAX_CHARS,
        "1;" * (_MAX_CHARS // 2),
        "Event 1: " * (_MAX_CHARS // 9),
        "<answer>" * (_MAX_CHARS // 8),
        "Start: 2\n" * (_MAX_CHARS // 9),
        '[{"a":' * (_MAX_CHARS // 6),
        "|1" * (_MAX_CHARS // 2),
        "- " * (_MAX_CHARS // 2),
        "1:" * (_MAX_CHARS // 2),
        "1 - " * (_MAX_CHARS // 4),
        "in frames " * (_MAX_CHARS // 10) + "1",
        "Event 1: <1.0> start frame\n" * (_MAX_CHARS // 27),
        "Wait, 1.0 s\n" * (_MAX_CHARS // 12),
        "frames 1 to " * (_MAX_CHARS // 12),
        "\n" * _MAX_CHARS,
    ],
    ids=lambda t: repr(t[:8]),
)
def test_hostile_texts_end(text: str) -> None:
    assert len(parse_answer(text, LABELS, 12.0, form="json").events) == 3


def test_repair_counts_and_fixes() -> None:
    answer = parse_answer("Event 1: <5.03> <1.0>\nEvent 2: <0.5> <3.0>\nEvent 3: <11.0> <14.0>", LABELS, 12.0)
    fixed, changes = repair(answer, 12.0, fps=10)
    assert changes == Repairs(swapped=1, clamped=1, ordered=1, snapped=1)
    assert [(e.start, e.end) for e in fixed.events] == [(1.0, 5.0), (1.0, 3.0), (11.0, 12.0)]
    assert changes.total == 4
    assert [e.status for e in answer.events] == ["reversed", "ok", "ok"]  # the answer itself is untouched


def test_repair_orders_ends_where_they_are_the_boundary() -> None:
    answer = parse_answer("Event 1: <1.0> <5.0>\nEvent 2: <2.0> <4.0>\nEvent 3: <5.0> <6.0>", LABELS, 12.0, "end")
    fixed, changes = repair(answer, 12.0, boundary_is="end")
    assert [e.end for e in fixed.events] == [5.0, 5.0, 6.0]
    assert changes == Repairs(ordered=1)


def test_repair_invents_nothing() -> None:
    answer = parse_answer("Event 2: <5.8> <7.9>", LABELS, 12.0)
    assert repair(answer, 12.0) == (answer, Repairs())


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ("Event 1: <absent> grasping the mug", "absent"),
        ("Event 1: not in the video.", "absent"),
        ("Grasping the mug does not happen in this video.", "absent"),
        ("grasping the mug: N/A", "absent"),
        ("Event 1: doesn't occur", "absent"),
        ("Event 1: the red cube is not visible", "missing"),  # about something else
        ("Event 1: grasping the mug is not absent", "missing"),
        ("grasping the mug: not visible at first", "missing"),
        ("There is no answer.", "missing"),
        ("Event 1: <4.0> <5.0> grasping the mug\nEvent 1: absent", "malformed"),  # both cannot be
        ("Event 1: 4.0 absent", "malformed"),
        ("The cube is not visible. Event 1: <4> <5> grasping the mug", "malformed"),
    ],
)
def test_what_is_said_to_be_absent_is_neither_missing_nor_timed(said: str, status: str) -> None:
    (event,) = parse_answer(said, ("grasping the mug",), 10.0).events
    assert event.status == status
    assert not event.usable


@pytest.mark.parametrize(
    ("keys", "status"),
    [
        ({"absent": True}, "absent"),
        ({"absent": True, "start": None, "end": None}, "absent"),
        ({"present": False}, "absent"),
        ({"is_present": "no", "start": None}, "absent"),
        ({"start": "not in the video", "end": "not in the video"}, "absent"),
        ({"start": "N/A", "end": None}, "absent"),
        ({"timestamps": ["absent", "absent"]}, "absent"),
        ({"status": "absent"}, "absent"),
        ({"caption": "does not happen in this video"}, "absent"),
        ({"start": None, "end": None}, "missing"),  # a null alone says nothing
        ({"absent": False, "start": None}, "missing"),
        ({"absent": None}, "missing"),
        ({"note": "the cube is not visible"}, "missing"),  # about something else
        ({"start": "not visible at first"}, "missing"),
        ({"absent": False, "start": 1.0, "end": 2.0}, "ok"),
        ({"absent": True, "start": 1.0, "end": 2.0}, "malformed"),  # both cannot be
        ({"present": False, "start": 0, "end": 0}, "malformed"),
        ({"start": "absent", "end": 2.0}, "malformed"),
        ({"absent": True, "present": True}, "malformed"),
    ],
)
def test_json_says_what_is_absent(keys: dict[str, object], status: str) -> None:
    labels, second = ("grasping the mug", "releasing the mug"), {"start": 3.0, "end": 4.0}
    by_label = [{"label": labels[0]} | keys, {"label": labels[1]} | second]
    by_number = {"events": [{"event": 1} | keys, {"event": 2} | second]}
    for text in map(json.dumps, (by_label, by_number, {"events": by_label})):
        for form in ("lines", "json"):
            events = parse_answer(text, labels, 10.0, form=form).events
            unread = {"missing", "malformed"} if status == "missing" else {status}  # by whether it has any number
            assert events[0].status in unread, text
            assert events[1].status == "ok"
            assert events[0].usable == (status == "ok")


@pytest.mark.parametrize(
    ("text", "statuses"),
    [
        ('{"grasping the mug": "absent", "releasing the mug": [1.5, 2.0]}', ["absent", "ok"]),
        ('{"grasping the mug": {"present": false}, "releasing the mug": [1.5, 2.0]}', ["absent", "ok"]),
        ('{"grasping the mug": null, "releasing the mug": [1.5, 2.0]}', ["missing", "ok"]),
        ('[["grasping the mug", "absent"], ["releasing the mug", 1.5, 2.0]]', ["absent", "ok"]),
        ('[["grasping the mug", "absent", 3.0], ["releasing the mug", 1.5, 2.0]]', ["malformed", "ok"]),
        ('[{"event": 1, "label": "opening the door", "absent": true}]', ["malformed", "missing"]),  # another event
        ('[{"label": "grasping the mug", "absent": true}, {"label": "grasping the mug", "start": 1.5}]',
         ["malformed", "missing"]),
        ("| Event | start | end |\n|---|---|---|\n| grasping the mug | not in the video | - |\n"
         "| releasing the mug | 1.0 | 2.0 |", ["absent", "ok"]),
    ],
)  # fmt: skip
def test_other_forms_say_what_is_absent(text: str, statuses: list[str]) -> None:
    answer = parse_answer(text, ("grasping the mug", "releasing the mug"), 10.0)
    assert [e.status for e in answer.events] == statuses


def test_an_object_without_a_label_is_about_the_one_event_that_was_asked_for() -> None:
    (event,) = parse_answer('{"present": false}', ("grasping the mug",), 10.0).events
    assert event.status == "absent"
    assert {e.status for e in parse_answer('{"present": false}', ("grasping", "releasing"), 10.0).events} == {"missing"}


def test_an_answer_that_says_absent_as_it_was_asked_to_is_well_formed() -> None:
    labels = ("grasping the mug", "releasing the mug")
    answer = parse_answer("Event 1: <absent> grasping the mug\nEvent 2: <1.0> <2.0> releasing the mug", labels, 10.0)
    assert answer.compliant
    assert [e.status for e in answer.events] == ["absent", "ok"]
    events = [{"event": 1, "label": labels[0], "absent": True}, {"event": 2, "label": labels[1], "start": 1, "end": 2}]
    answer = parse_answer(json.dumps({"events": events}), labels, 10.0, form="json")
    assert answer.compliant
    assert [e.status for e in answer.events] == ["absent", "ok"]
    events[0]["start"] = 1
    assert not parse_answer(json.dumps({"events": events}), labels, 10.0, form="json").compliant


RED = ("grasping the red cube", "releasing the red cube")


@pytest.mark.parametrize(
    "times",
    [
        "between frames {a} and {b}", "Frames [{a}, {b}]", "images {a} to {b}", "timesteps {a}-{b}", "keyframe {a}",
        "frames starting at {a} and ending at {b}", "frames <{a}> <{b}>", "<{a}> <{b}> frames", "frame IDs {a}–{b}",
        "1 minuuttia {a} s", "1 phút {a} giây", "{a}·5 s", "1{a}e-1 s", "1 {a}/2 s", "{a} or {b} s", "{a} s or {b}",
        "{a} s later", "+{a} s", "after another {a} s", "before {a} s", "by {a} s", "> {a} s", "≥{a} s",
        "at least {a} s", "{a} s before the end", "{a} s from the end", "{a} per cent", "0.{a} of the clip",
        "fails at {a} s",
        "hasn't happened by {a} s", "couldn't be found from {a} s to {b} s", "kommt bei {a} s nicht vor", "✗ {a} s",
    ],
)  # fmt: skip
def test_numbers_that_are_no_instants_of_the_clip(times: str) -> None:
    for form in ("Event 1: {0} {1}\nEvent 2: {2} {3}", "{1}: {0}\n{3}: {2}", "- {1} ({0})\n- {3} ({2})"):
        for first, second in (((12, 24), (24, 30)), ((12.0, 24.0), (24.0, 30.0))):
            (a, b), (c, d) = first, second
            text = form.format(times.format(a=a, b=b), RED[0], times.format(a=c, b=d), RED[1])
            assert not any(e.usable for e in parse_answer(text, RED, 2000.0).events), text


def test_minutes_in_other_words_are_minutes() -> None:
    for text in ("1 minuto y 3.5 segundos", "1分3.5秒", "1 мин 3.5 с", "01m:03.5s", "1 Minute 3.5 Sekunden"):
        assert read_span(text)[0] == Span(63.5), text


@pytest.mark.parametrize(
    "text",
    [
        "Frame numbers at 10 fps:\nEvent 1: 12.0 - 24.0\nEvent 2: 24.0 - 30.0",
        "| Event | Start frame | End frame |\n|---|---|---|\n| {0} | 12.0 | 24.0 |\n| {1} | 24.0 | 30.0 |",
        "event,start_frame,end_frame\n{0},12.0,24.0\n{1},24.0,30.0",
        'Frame indices:\n[["{0}", 12.0, 24.0], ["{1}", 24.0, 30.0]]',
        "{0}: 00:00:01;08 --> 00:00:04;03\n{1}: 00:00:04;03", "{0} and {1}: 12.0 - 24.0",
        "Event 1-2: 12.0 - 24.0", "Event 1 & 2: <12.0> <24.0>",
        "Event 1: <12.0> <24.0> {0}, then {1}", "After {0}, {1} at 12.0 s",
        "<thinking>Event 1: <1.0> <2.0></thinking>I cannot tell.",
        "<think>Event 1: <1.0></think><answer>Unknown</answer>",
        "{0}: 12.0\n{1}: 24.0\nWait, both are later: 30.0 s",
    ],
)  # fmt: skip
def test_numbers_of_frames_of_two_events_or_of_a_draft(text: str) -> None:
    text = text.replace("{0}", RED[0]).replace("{1}", RED[1])
    assert not any(e.usable for e in parse_answer(text, RED, 100.0).events)


def test_times_beside_frames_are_read() -> None:
    text = f"I looked at the frames.\n{RED[0]}: <1.8> <4.3> (frame 18)\n{RED[1]}: 4.3 s, in the last frames"
    assert [e.start for e in parse_answer(text, RED, 10.0).events] == [1.8, 4.3]


def test_a_correction_holds_for_what_stands_above_it() -> None:
    text = f"Event 1: <1.8> <4.3> {RED[0]}\nEvent 2: <4.3> <5.0> {RED[1]}\nWait. Event 1: <2.4> <4.3> {RED[0]}"
    assert [(e.start, e.status) for e in parse_answer(text, RED, 10.0).events] == [(2.4, "ok"), (4.3, "ok")]


def test_a_label_below_its_start_and_its_end() -> None:
    rows = [f"  - start: {a}\n    end: {b}\n    label: {label}" for (a, b), label in zip(WANTED, LABELS, strict=True)]
    assert spans("events:\n" + "\n".join(rows)) == WANTED
    assert spans("\n\n".join(rows)) == WANTED


@pytest.mark.parametrize(
    "keys",
    [
        {"type": "frame index"}, {"normalized": True}, {"detected": False}, {"present": 0}, {"success": False},
        {"status": "failed"}, {"note": "does not happen in the video"}, {"label": "never grasps the red cube"},
        {"start": ">1.8"}, {"start": "after 1.8"}, {"start": "1.8 or 2.0"}, {"unit": "frames"},
    ],
)  # fmt: skip
def test_what_keys_say_against_a_time(keys: dict[str, object]) -> None:
    event = {"event": 1, "label": RED[0], "start": 1.8, "end": 4.3} | keys
    text = json.dumps([event, {"event": 2, "label": RED[1], "start": 4.3, "end": 5.0}])
    assert [e.usable for e in parse_answer(text, RED, 10.0).events] == [False, True]


def test_a_unit_above_events_and_a_key_that_stands_twice() -> None:
    events = [{"label": n, "start": 1000 * a, "end": 1000 * b} for n, (a, b) in zip(LABELS, WANTED, strict=True)]
    assert spans(json.dumps({"unit": "ms", "events": events})) == WANTED
    assert spans(json.dumps({"unit": "ms"} | {e["label"]: [e["start"], e["end"]] for e in events})) == WANTED
    assert spans(json.dumps({"unit": "frames", "events": events})) == [(None, None)] * 3
    assert spans('{"event": 1, "start": 1.8, "start": 2.4, "end": 4.3}')[0] == (None, None)


@pytest.mark.parametrize(
    "beside",
    [
        "confidence level is 0.9; {}", "Vertrauen 0.9, {}", "置信度 0.9, {}", "uncertainty 0.2, {}", "sigma=0.2, {}",
        "std 0.2 s, {} s", "latency 0.2 s; {} s", "tolerance of 0.2 s: {} s", "in this 10.0 s clip, {} s",
        "duration 2.5 s, {} s", "quality 0.9, {}",
    ],
)  # fmt: skip
def test_a_number_that_is_told_to_be_something_else_is_no_start(beside: str) -> None:
    event = parse_answer(f"{RED[0]}: {beside.format(1.8)}", RED, 20.0).events[0]
    assert (event.start, event.end, event.status) == (1.8, None, "ok")
    for alone in ("10.0 s video", "the first 1.8 seconds", "in the final 2.0 s", "confidence interval 1.8 - 4.3"):
        assert not parse_answer(f"{RED[0]}: {alone}", RED, 20.0).events[0].usable, alone


@pytest.mark.parametrize(
    "times",
    [
        # groups of digits, and broken numbers
        "1 800 ms", "1'800 ms", "1,800 ms - 4,300 ms", "1.800 ms", "1 234.5 s", "1,800 - 4,300", "1.800,50", "1·8 s",
        "1 . 8 s", "3/2 s", "10^1 s", "00:00:01.800.5 - 00:00:04", "1.8. . .4.3", "1.8…", "1.8 - ?", "1.8 -",
        "1.8 - 4.3 - 5.0", "???", "1.8 s?", "1.8+ s", "T-1.8",
        # other units
        "1.8 h", "1.8 ns", "1800.0 µs", "1.8 ticks", "1.8 units", "1.8 beats", "1.8 ft", "1.8 V", "1.8 dB", "$1.80",
        "1:02 h", "01:02 (hh:mm)", "01:12 (ss:ff)", "1.8 to 4.3 minutes", "кадр 12.0 - 24.0", "fotograma 12.0 - 24.0",
        "Bild 12.0 - 24.0", "image n° 12.0", "kf 12.0", "<12> <24> (frame index)", "12.0 - 24.0 (ms)", "<12> <24> | ms",
        "<12> <24> | unit: frames", "<12> <24> | minutes", "1.8 parsecs", "1.8 - 4.3 days", "1.8 turns",
        # no instants, relative times, and doubts
        "over 1.8 s", "under 1.8 s", "within 1.8 s", "beyond 1.8 s", "1.8 s or later", "1.8 s at the latest",
        "1.8 s remaining", "1.8 s left", "every 1.8 s", "1.8 s in total", "1.8 s into the second half",
        "after 1 min, at 3.5 s", "between 1.8 and the end", "1.8 s for 2.5 s", "1.8 s, duration 2.5 s",
        "1.8 < t < 4.3", "almost happens at 1.8 s", "is about to happen at 1.8 s", "would happen at 1.8 s",
        "attempted at 1.8 s but aborted", "unclear, 1.8 s", "不会发生 1.8 s", "起きない 1.8 s", "non accade, 1.8 s",
        "niet, 1.8 s", "<1.8> <4.3> | not visible", "<1.8> <4.3> | this event never happens", "barely by 1.8 s",
        # numbers of something else
        "1.8 off", "first 1.8 s", "out of 1.8 s", "on 1.8 s", "in 1.8 s", "1.8 → ...", "maybe 1.8 s", "1.8 yards",
        "1.8 кадра",
        "(0.9, 1.8)", "at coordinates (0.9, 1.8)", "Zuversicht 0.9, 1.8", "loss 0.3", "(ID 7.5)", "temperature is 1.8",
    ],
)  # fmt: skip
def test_what_is_not_read_for_certain_is_not_ok(times: str) -> None:
    second = f"Event 2: <30.0> <40.0> {RED[1]}"
    for form in ("Event 1: {0} {1}\n{2}", "Event 1: {1} {0}\n{2}", "{1}: {0}\n{2}", "- {1} {0}\n- {2}"):
        text = form.format(times, RED[0], second)
        if "|" in times and form.startswith("Event 1: {0}"):
            text = form.format(times.replace(" |", f" {RED[0]} |"), "", second)
        assert not parse_answer(text, RED, 5000.0).events[0].usable, text


LINES = f"Event 1: <1.8> <4.3> {RED[0]}\nEvent 2: <4.3> <5.0> {RED[1]}"
SPANS = ((RED[0], 1.8, 4.3), (RED[1], 4.3, 5.0))
EVENTS = json.dumps([{"label": label, "start": a, "end": b} for label, a, b in SPANS])
TABLE = "| Event | Start{0} | End{0} |\n|---|---|---|\n| {1} | 1.8 | 4.3 |\n| {2} | 4.3 | 5.0 |"


@pytest.mark.parametrize(
    "text",
    [
        *(
            f"{head}\n{answer}"
            for answer in (LINES, EVENTS, TABLE.format("", *RED))
            for head in (
                "Times in milliseconds:", "(all times in ms)", "Times above are in minutes.", "The unit is frames.",
                "Note: numbers are frames", "Times are normalized to [0, 1].", "As fractions of the video length:",
                "relative to the end of the video",
                "I cannot see these events in the video, but the format would be", "Zeiten in Minuten:",
            )
        ),
        *(
            f"{answer}\n{tail}"
            for answer in (LINES, EVENTS, TABLE.format("", *RED))
            for tail in ("Here the numbers are frame numbers.", "I cannot see these events.", "Times are in minutes.")
        ),
        f"Example:\n{LINES}\nI cannot see these events.", f"{EVENTS}\nActually {RED[0]} is at 2.8 s.",
        f"{LINES}\nNo wait.\nEvent 1: <2.8> <4.3> {RED[0]}",
        TABLE.format(" (min)", *RED), TABLE.format(" (ms)", *RED), TABLE.format(" frame", *RED),
        f'{{"normalized": true, "events": {EVENTS}}}', f'{{"note": "times are in frames", "events": {EVENTS}}}',
        f'{{"timestampUnit": "ms", "events": {EVENTS}}}', f'{{"valid": false, "events": {EVENTS}}}',
        '[{"id": 2, "start": 1.8, "end": 4.3}, {"id": 3, "start": 4.3, "end": 5.0}]',
        f"approaching\n0.0 - 1.8\n{RED[0]}\n1.8 - 4.3\n{RED[1]}\n4.3 - 5.0",
        f"approaching\n0.0 - 1.8\n{RED[0]}\n1.8 - 4.3\n{RED[1]}",
    ],
)  # fmt: skip
def test_what_stands_around_an_answer_may_void_it(text: str) -> None:
    assert not parse_answer(text, RED, 100.0).events[0].usable, text


@pytest.mark.parametrize(
    "keys",
    [
        {"timestamp_unit": "ms"}, {"measure": "minutes"}, {"scale": "percent"}, {"note": "normalized"},
        {"format": "start,duration"}, {"found": False}, {"exists": "no"}, {"occurs": False}, {"observed": False},
        {"valid": False}, {"reason": "the event does not occur"}, {"note": "the cube is not visible"},
        {"comment": "never happens"}, {"start": 1_000_000}, {"start": "1.8 h"},
        {"start": "1.8 ticks"}, {"aborted": True},
        {"minutes": 1}, {"start": None, "end": None, "min": 1, "time": 3.5},
    ],
)  # fmt: skip
def test_keys_that_are_not_known_void_an_event(keys: dict[str, object]) -> None:
    event = {"event": 1, "label": RED[0], "start": 1.8, "end": 4.3} | keys
    text = json.dumps([event, {"event": 2, "label": RED[1], "start": 4.3, "end": 5.0}])
    assert [e.usable for e in parse_answer(text, RED).events] == [False, True]


@pytest.mark.parametrize(
    "beside",
    ["", '"found": false, ', '"exists": "no", ', '"occurs": false, ', '"comment": "never happens", ', '"x": "ms", '],
)
def test_a_text_of_a_known_shape_has_the_status_of_the_first(beside: str) -> None:
    shapes, read = Shapes(RED), []
    for a in (1.8, 2.8, 3.8):
        text = f'[{{"event": 1, {beside}"start": {a}, "end": 4.3}}, {{"event": 2, "start": 4.3, "end": 5.0}}]'
        if found := shapes.read(text):
            read.append([status for *_, status, _ in found[0].events])
        assert [e.usable for e in parse_answer(text, RED).events] == [not beside, True]
    assert all(statuses == ["malformed" if beside else "ok", "ok"] for statuses in read)
    assert beside or len(read) == 2


@pytest.mark.parametrize(
    "beside",
    [
        "{}\nTimes are guesses.", "{}\nTo be clear, these are made up.", "{}\nIntervals are normalized to 0-10.",
        "{}\nTimes in tenths of a second.", "{}\nStarting from frame 0, at 10 fps.", "{}\n(1 unit = 0.1 s)",
        "{}\nAdd 10 s to each.", "{}\nAll times are shifted by 10 s.", "{}\nOn reflection, the grasp is at 2.8 s.",
        "{}\nThe grasp could also be at 2.8 s.", "{}\n2. values are in frames", "{}\nThese are counted from the end.",
        "Times relative to 10 s:\n{}", "Timestamps since 10:15:00:\n{}", "Durations:\n{}",
        "How long each event takes:\n{}", "Durations are given in seconds.\n{}",
        "Confidence per event:\n{}", "Positions of the gripper in m:\n{}", "Seconds before the end of the video:\n{}",
        "Times at 2x playback:\n{}", "Wrong answer:\n{}", "Of another video:\n{}", "Of the original video:\n{}",
        "{}\nThe overlay is off by 1 s.", "{}\nThe clock counts down.", "{}\nThese are the numbers of the frames.",
        "{}\nTimes come from the frame index.", "{}\nBased on the frames per second.",
    ],
)  # fmt: skip
def test_a_line_about_all_times_holds_for_each_of_them(beside: str) -> None:
    for events in ("Event 1: <1.8> <4.3> {0}\nEvent 2: <4.3> <5.0> {1}", "1. {0}: 1.8 s\n2. {1}: 4.3 s"):
        text = beside.replace("{}", events.replace("{0}", RED[0]).replace("{1}", RED[1]))
        assert not any(e.usable for e in parse_answer(text, RED, 100.0).events), text


@pytest.mark.parametrize(
    "beside",
    [
        "Here are the events in the requested format:\n{}", "After reviewing all frames of the video:\n{}",
        "I went through the video frame by frame.\n{}", "{}\nTotal duration: 10 s",
        "With high confidence, the events are:\n{}",
        "All times are relative to the start of the video.\n{}", "Events, with start, end and duration:\n{}",
        "{}\nThe video ends at 10.0 s.", "{}\nTimes are rounded to 0.1 s.", "Looking at the times in each frame:\n{}",
        "{}\n**Note:** Times are based on the visible frames.", "{}\nNo other events occur in the video.",
        "{}\nThey may vary slightly, depending on the exact frame.",
    ],
)  # fmt: skip
def test_a_line_that_says_how_the_video_was_watched_spoils_nothing(beside: str) -> None:
    for events in (
        "Event 1: <1.8> <4.3> {0}\nEvent 2: <4.3> <5.0> {1}",
        "| Event | Time |\n|---|---|\n| {0} | 1.8 |\n| {1} | 4.3 |",
    ):
        text = beside.replace("{}", events.replace("{0}", RED[0]).replace("{1}", RED[1]))
        assert [(e.start, e.usable) for e in parse_answer(text, RED, 100.0).events] == [(1.8, True), (4.3, True)], text


@pytest.mark.parametrize(
    "times",
    [
        "This event starts at approximately {a} seconds and ends at approximately {b} seconds.", "~{a}s to ~{b}s",
        "starts around {a} seconds and ends around {b} seconds", "begins at {a} s and lasts until {b} s",
        "begins at {a} s and lasts for about 0.8 s", "starts at {a} s, duration 0.8 s", "Frame 12 ({a}s)",
        "frames 54-78 ({a}s-{b}s)", "(Frame 12, {a} s)", "from the {a}-second mark to the {b}-second mark",
        "from second {a} to second {b}", "von Sekunde {a} bis Sekunde {b}", "del segundo {a} al segundo {b}",
        "第{a}秒到第{b}秒", "{a}秒から{b}秒まで", "{a}초부터 {b}초까지", "с {a} с до {b} с", "✅ {a} s", "⏱️ {a} s",
        "@ {a} s", "occurs at the {a} second mark", "at {a} s, and ends at {b} s", "{a}s-{b}s [high confidence]",
    ],
)  # fmt: skip
def test_times_as_models_put_them_into_words(times: str) -> None:
    for a, b in ((1.8, 2.6), (3, 5)):
        text = times.format(a=a, b=b)
        for line in (f"1. **{RED[0]}**: {text}", f"{RED[0]}: {text}", f"1️⃣ {RED[0]} – {text}"):
            assert [(e.start, e.status) for e in parse_answer(line, RED[:1], 10.0).events] == [(a, "ok")], line
    line = f"1.8 s - {RED[0]}\n4.3 seconds – {RED[1]}"
    assert [e.start for e in parse_answer(line, RED, 10.0).events if e.usable] == [1.8, 4.3]


@pytest.mark.parametrize(
    "times",
    [
        "finishes at {} s", "is done at {} s", "spans {} s", "continues {} s", "frames 54-78 ({} s)",
        "{} s from the push", "{} s into the approach", "{} s from grasping it",
        "a {}-second event", "after second {}", "mark {}", "1,{} s", "{} s - ",
    ],
)  # fmt: skip
def test_ends_and_lengths_are_no_starts(times: str) -> None:
    for form in (f"{RED[0]}: {{}}", "The event {}"):
        text = form.format(times.format(2.6 if "," not in times else 8))
        assert not any(e.usable for e in parse_answer(text, RED[:1], 10.0).events), text


@pytest.mark.parametrize(
    "name", ["end of {}", "{} end", "{}_end", "finishing {}", "{} ends at", "until {}", "before {}", "after {}"]
)
def test_a_name_that_says_more_than_its_label_is_not_the_events_start(name: str) -> None:
    part = name.format(RED[0])
    rows = [{"event": part, "time": 2.6}], [{"event": part, "start": 2.6}], [{"event": part, "start": 0.9, "end": 2.6}]
    texts = [f"{part}: 2.6 s", f"The robot: {part} at 2.6 s", f"- **{part}**\n  - 2.6 s", f"event,time\n{part},2.6"]
    for text in (*map(json.dumps, rows), *texts, f"| Event | Time (s) |\n|---|---|\n| {part} | 2.6 |"):
        assert not any(e.usable for e in parse_answer(text, RED[:1], 10.0).events), text
    both = f"Start of {RED[0]}: 1.8 s\nEnd of {RED[0]}: 2.6 s"
    for side, time in (("start", 1.8), ("end", 2.6)):
        (event,) = parse_answer(both, RED[:1], 10.0, side).events  # type: ignore[arg-type]
        assert (event.boundary(side), event.usable) == (time, True)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "side"),
    [
        ("The end time of each event:\n{}", "end"), ("End times:\n{}", "end"), ("Completion times:\n{}", "end"),
        ("Each timestamp marks the end of the event.\n{}", "end"), ("{}\nThese are the end times.", "end"),
        ("Times when the events finish:\n{}", "end"), ("{}\n(times are when each event is completed)", "end"),
        ("Here are the events, with the time each one ends:\n{}", "end"), ("Start times:\n{}", "start"),
        ("Each time is the beginning of its event.\n{}", "start"),
        ("The times at which each event starts:\n{}", "start"),
        ("Here are the start and end times:\n{}", ""), ("I have completed the analysis. The times:\n{}", ""),
        ("The video ends at 10.0 s.\n{}", ""),
    ],
)  # fmt: skip
def test_a_line_says_of_lone_times_which_side_of_an_event_they_are(line: str, side: str) -> None:
    single = [{"label": name, "time": start} for name, start, _ in SPANS]
    spans = "\n".join(f"{name}: {start} s - {end} s" for name, start, end in SPANS)
    for text in ("\n".join(f"{name}: {start} s" for name, start, _ in SPANS), json.dumps(single)):
        for own in ("start", "end"):
            events = parse_answer(line.format(text), RED, 100.0, own).events  # type: ignore[arg-type]
            assert {e.usable for e in events} == {side in ("", own)}, (text, own)
    assert all(e.usable for e in parse_answer(line.format(spans), RED, 100.0).events)


@pytest.mark.parametrize(
    "after", ["Correction: the release is at 5.0 s.", "Note: times are in frames.", "These are guesses.", "End times."]
)
def test_what_stands_after_the_answer_may_spoil_it(after: str) -> None:
    lone = "\n".join(f"{name}: {start} s" for name, start, _ in SPANS)
    assert not any(e.usable for e in parse_answer(f"<answer>\n{lone}\n</answer>\n{after}", RED, 100.0).events)
    assert not any(e.usable for e in parse_answer(f"<Answer>\n{lone}\n</ Answer>\n{after}", RED, 100.0).events)
    for fine in ("", "I hope this helps!", "The video shows one red cube."):
        assert all(e.usable for e in parse_answer(f"<answer>\n{lone}\n</answer>\n{fine}", RED, 100.0).events)


def test_a_number_that_a_space_splits_is_none() -> None:
    assert not parse_answer(f"{RED[0]}: 1 8 s", RED[:1], 10.0).events[0].usable


def test_numbers_past_the_count_begin_no_second_answer() -> None:
    again = LINES.replace("Event 1", "Event 3").replace("Event 2", "Event 4").replace("1.8", "6.0")
    assert [(e.start, e.status) for e in parse_answer(f"{LINES}\n{again}", RED, 10.0).events] == [
        (1.8, "duplicate"), (4.3, "ok"),
    ]  # fmt: skip


def test_frames_beside_times_in_json_are_let_be() -> None:
    both = [{"label": n, "start": a, "end": b, "start_frame": 54, "end_frame": 78} for n, a, b in SPANS]
    assert [e.start for e in parse_answer(json.dumps(both), RED, 10.0).events if e.usable] == [1.8, 4.3]


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("1.8 - 4.3, 6.0 - 7.0 seconds", None), ("1.8 s (4.3 s)", None), ("1.8 [4.3]", None), ("before <1.8 s", None),
        ("<1.8 s", None), ("1.8 y 4.3", None), ("1,8 s, 4,3 s, 6,0 s", None), ("1,234 s", None), ("1,8", None),
        ("at 1,8 s", None), ("1,8 bis 4,3 Sekunden", 1.8), ("de 1,8 à 4,3 secondes", 1.8),
        ("entre 1,8 y 4,3 segundos", 1.8), ("zwischen 1,8 und 4,3 Sekunden", 1.8),
    ],
)  # fmt: skip
def test_one_event_in_words_of_other_languages_and_two_intervals(text: str, start: float | None) -> None:
    (event,) = parse_answer(text, RED[:1], 100.0).events
    assert (event.start if event.usable else None) == start


@pytest.mark.parametrize(
    "head",
    [
        "event,duration",
        "event,score",
        "| event | Duration (s) |",
        "| event | confidence |",
        "| # | event | gripper width |",
    ],
)
def test_columns_that_are_no_times(head: str) -> None:
    mark, number = ("|", head.startswith("| #")) if "|" in head else (",", False)
    rows = [[str(i)] * number + [label, str(1.8 * i)] for i, label in enumerate(RED, 1)]
    text = "\n".join([head, *(f"| {' | '.join(row)} |" if mark == "|" else mark.join(row) for row in rows)])
    assert not any(e.usable for e in parse_answer(text, RED, 100.0).events)
    timed = re.sub("duration|score|confidence|gripper width", "when", text, flags=re.IGNORECASE)
    assert [e.start for e in parse_answer(timed, RED, 100.0).events] == [1.8, 3.6]


@pytest.mark.parametrize(
    "key",
    ["frame_ranges", "in_minutes", "durations", "confidence", "normalized", "percent", "example", "guess", "incorrect"],
)
def test_a_key_above_events_says_what_their_numbers_are(key: str) -> None:
    by_label = {RED[0]: [1.8, 4.3], RED[1]: [4.3, 5.0]}
    events = [{"event": name, "start": a, "end": b} for name, (a, b) in by_label.items()]
    for held in (by_label, events):
        assert not any(e.usable for e in parse_answer(json.dumps({key: held}), RED, 10.0).events)
        assert all(e.usable for e in parse_answer(json.dumps({"timeline": held}), RED, 10.0).events)


@pytest.mark.parametrize(
    "other",
    [
        {"unit": "frames"}, {"meta": {"time_unit": "ticks"}}, {"timestamps": "normalized"}, {"note": "frame numbers"},
        {"note": "These are only examples"}, {"correction": "the grasp is at 2.8"},
    ],
)  # fmt: skip
def test_an_object_beside_events_speaks_of_their_times(other: dict[str, object]) -> None:
    events = [{"event": RED[0], "start": 1.8, "end": 4.3}, {"event": RED[1], "start": 4.3, "end": 5.0}]
    for value in ([other, *events], [*events, other], {"about": other, "events": events}):
        assert not any(e.usable for e in parse_answer(json.dumps(value), RED, 10.0).events)
    plain = {"video": "a.mp4", "unit": "seconds", "fps": 30}
    assert all(e.usable for e in parse_answer(json.dumps([plain, *events]), RED, 10.0).events)


def test_a_later_key_corrects_what_stands_above_it() -> None:
    text = json.dumps({"events": {RED[0]: [1.8, 4.3], RED[1]: [4.3, 5.0]}, "corrections": {RED[0]: [2.8, 4.3]}})
    assert [e.usable for e in parse_answer(text, RED, 10.0).events] == [False, True]


BARE = json.dumps({RED[0]: 1.8, RED[1]: 4.3})
BESIDE = {"labels": RED, "timestamps": [[1.8, 4.3], [4.3, 5.0]]}


@pytest.mark.parametrize("text", [BARE, f"```json\n{BARE}\n```", '{"Event 1": 1.8, "Event 2": 4.3}'])
def test_an_object_of_labels_and_bare_numbers_is_read_where_nothing_else_is_written(text: str) -> None:
    assert [e.start for e in parse_answer(text, RED, 10.0).events if e.usable] == [1.8, 4.3]
    for more in ("Scores:\n{}", "{}\nThese are confidences.", '{{"ratings": {}}}', '{{"end_times": {}}}'):
        assert not any(e.usable for e in parse_answer(more.format(text), RED, 10.0).events)
    for end in ('"unit": "ms"', '"total": 6.1', '"type": "score"'):
        assert not any(e.usable for e in parse_answer(text.replace("}", f", {end}}}"), RED, None).events)
    for a, b in ((0.18, 0.43), (18, 43)):  # shares, or frames
        assert not any(e.usable for e in parse_answer(json.dumps({RED[0]: a, RED[1]: b}), RED, 100.0).events)


def test_lists_of_labels_and_of_times_side_by_side_are_rows() -> None:
    scored = {"sentences": RED, "starts": [1.8, 4.3], "scores": [0.9, 0.8], "video": "a"}
    for value in (BESIDE, {"data": BESIDE}, scored):
        for text in (json.dumps(value), repr(json.loads(json.dumps(value)))):
            assert [e.start for e in parse_answer(text, RED, 10.0).events if e.usable] == [1.8, 4.3]
    ms = {"unit": "ms", **BESIDE, "timestamps": [[1800, 4300], [4300, 5000]]}
    assert [e.start for e in parse_answer(json.dumps(ms), RED, 10.0).events if e.usable] == [1.8, 4.3]
    for key, held in (("timestamps", [1.8]), ("scores", [1.8, 4.3]), ("ends", [1.8, 4.3]), ("frames", [1.8, 4.3])):
        text = json.dumps({"labels": RED, key: held})
        assert not any(e.usable for e in parse_answer(text, RED, 10.0).events)


def test_json_that_is_cut_off_keeps_what_stands_above_it() -> None:
    events = [{"label": RED[0], "start": 1.8, "end": 4.3}, {"label": RED[1], "start": 4.3, "end": 5.0}]
    for value, right in ((events, True), ({"events": events}, True), ({"frames": events}, False)):
        text = json.dumps(value)
        for cut in range(text.index("}") + 1, text.rindex("5.0") + 4):
            first, second = parse_answer(text[:cut], RED, 10.0).events
            assert (first.usable, second.usable) == (right, False)
    text = json.dumps({"unit_of_all": "frames", "events": events})
    assert not any(e.usable for e in parse_answer(text[:-12], RED, 10.0).events)


@pytest.mark.parametrize("tool", ["seek_video", "crop", "get_frames"])
def test_a_call_that_asks_for_frames_is_no_answer(tool: str) -> None:
    events = [{"label": label, "start": 1.8} for label in RED]
    for name, usable in ((tool, False), ("report_events", True)):
        text = json.dumps({"name": name, "arguments": {"events": events}})
        assert {e.usable for e in parse_answer(f"<tool_call>{text}</tool_call>", RED, 10.0).events} == {usable}


def test_what_is_struck_out_is_not_said_and_html_is_read_as_lines() -> None:
    last = f"{RED[1]}: 4.3 s"
    for struck in (f"~~{RED[0]}: 1.2 s~~\n{RED[0]}: 1.8 s", f"{RED[0]}: <del>1.2 s</del> 1.8 s"):
        first, _ = parse_answer(f"{struck}\n{last}", RED, 10.0).events
        assert (first.start, first.status) == (1.8, "ok")
    rows = "".join(f"<tr><td>{label}</td><td>{t}</td></tr>" for label, t in zip(RED, (1.8, 4.3), strict=True))
    for head, usable in (("Time", True), ("Frame", False), ("Duration", False)):
        text = f"<table><tr><th>Event</th><th>{head}</th></tr>{rows}</table>"
        assert {e.usable for e in parse_answer(text, RED, 10.0).events} == {usable}
    listed = f"<ul><li>{RED[0]}: 1.8 секунды</li><li>{last}</li></ul>"
    assert [e.start for e in parse_answer(listed, RED, 10.0).events if e.usable] == [1.8, 4.3]
    assert not any(e.usable for e in parse_answer(f"<p>In frames:</p>{listed}", RED, 10.0).events)


@pytest.mark.parametrize(
    "head",
    [
        "Midpoints:", "**Gaps between events**", "# Time taken", "Elapsed time of each:",
        "Measured from the first contact:",
        "Left arm:", "Clip 2:", "Option B:", "(mm.ss)", "On average:", "In the previous video:", "Earlier I had:",
        "Subtask durations:", "## Model confidence scores", "Durations", "Event duration (s)", "(Step duration (s))",
        "Here are the confidence scores of each of the two events in the video:",
        "Upper bounds:", "From the prompt:", "Trimmed video:", "In reverse:", "Waiting times:", "## Ratings",
        "These are typical times of such demonstrations, which I know from other videos of the same kind:",
    ],
)  # fmt: skip
def test_a_heading_of_words_that_are_not_known_voids_the_times_below_it(head: str) -> None:
    lone = "\n".join(f"{name}: {start} s" for name, start, _ in SPANS)
    for text in (lone, EVENTS, TABLE.format("", *RED)):
        assert not any(e.usable for e in parse_answer(f"{head}\n{text}", RED, 100.0).events), text
    again = f"{lone}\n\n{head}\n{lone.replace('8', '9').replace('3', '5')}"
    assert not any(e.usable for e in parse_answer(again, RED, 100.0).events)


@pytest.mark.parametrize(
    "head",
    [
        "Sure! Here's the breakdown:", "## Event Timeline", "**Final answer**", "(times in seconds)", "Red cube:",
        "答案：", "Grasping:",
        "Ereignisse:", "When each event happens:", "After carefully watching the footage, these are the moments:",
        "Object-centric subtasks:", "Start times with confidence scores:", "Start, end, confidence:", "Interactions:",
        "## Overview", "**Thought process:**", "Conclusion:", "Visual cues:",
        "Temporal localization:", "Event → start, end", "Time since the start of the video:", "Video 1:",
    ],
)  # fmt: skip
def test_a_heading_of_plain_words_voids_nothing(head: str) -> None:
    lone = "\n".join(f"{name}: {start} s" for name, start, _ in SPANS)
    for text in (lone, EVENTS):
        assert [e.start for e in parse_answer(f"{head}\n{text}", RED, 100.0).events if e.usable] == [1.8, 4.3]


@pytest.mark.parametrize(
    "line",
    [
        "Clip 2: {0} at 1.8 s", "Robot 2: {0} at 1.8 s", "{0} at 1.8 s in video 2", "{0}: 1.8 s (camera 2)",
        "{0}: #1.8",
        "{0} duration\n1.8 s", "Length of {0}\n1.8 s", "### {0} (duration)\n1.8 s", "{0}: 1.8 s (finished)",
        "{0}: 1.8 s, when it ends", "{0}: 1.8 through the video", "{0}: 1.8 s from then",
        "{0}: 1.8 s\nHmm, the grasp looks more like 2.4 s.", "In the previous video, {0} was at 1.8 s",
    ],
)  # fmt: skip
def test_what_a_line_counts_or_measures_is_no_start(line: str) -> None:
    event, _ = parse_answer(f"{line.format(RED[0])}\n{RED[1]}: 4.3 s", RED, 100.0).events
    assert not event.usable


def test_which_side_a_time_is_may_stand_behind_it() -> None:
    for first, last in (
        ("{} s (start)", "{} s (end)"), ("{} [start time]", "{} [end time]"), ("{} (onset)", "{} (end)"),
    ):
        for joint in (", ", " - ", " "):
            text = f"{RED[0]}: {first.format(1.8)}{joint}{last.format(2.6)}"
            for side, time in (("start", 1.8), ("end", 2.6)):
                (event,) = parse_answer(text, RED[:1], 10.0, side).events  # type: ignore[arg-type]
                assert (event.boundary(side), event.usable) == (time, True), text  # type: ignore[arg-type]
        assert not parse_answer(f"{RED[0]}: {last.format(1.8)}", RED[:1], 10.0).events[0].usable


def test_rows_of_several_videos_and_times_that_count_from_elsewhere() -> None:
    rows = [{"event": name, "time": start} for name, start, _ in SPANS]
    for key in ("clip", "video", "video_id"):
        same, other = ([row | {key: f"a{i * n}"} for n, row in enumerate(rows)] for i in (0, 1))
        table = "\n".join([f"{key},event,time", *(f"{r[key]},{r['event']},{r['time']}" for r in other)])
        assert not any(e.usable for text in (json.dumps(other), table) for e in parse_answer(text, RED, 10.0).events)
        assert all(e.usable for e in parse_answer(json.dumps(same), RED, 10.0).events)
    for key, usable in (("clip_start", False), ("time_base", False), ("duration", True)):
        assert {e.usable for e in parse_answer(json.dumps({key: 2.0, "events": rows}), RED, 10.0).events} == {usable}


@pytest.mark.parametrize("text", ["event,time_ms\n{0},1800\n{1},4300", "event;start;end\n{0};1,8;4,3\n{1};4,3;5,0"])
def test_columns_of_milliseconds_and_of_decimal_commas(text: str) -> None:
    assert [e.start for e in parse_answer(text.format(*RED), RED, 10.0).events if e.usable] == [1.8, 4.3]


@pytest.mark.parametrize(
    ("times", "start"),
    [
        ("١٫٨ ثانية", 1.8), ("من ١٫٨ إلى ٤٫٣ ثانية", 1.8), ("من 1.8 ثانية إلى 4.3 ثانية", 1.8),
        ("عند الثانية ١٫٨", 1.8),
        ("بين 1.8 و 4.3 ثانية", 1.8), ("۱٫۸ s", 1.8), ("१.८ सेकंड", 1.8), ("1.8 सेकंड से 4.3 सेकंड तक", 1.8),
        ("१.८ सेकंड पर", 1.8), ("بعد ١٫٨ ثانية", None), ("١٫٨ دقيقة", None), ("1.8 مللي ثانية", None),
        ("في 1.8 ثانية", None),
        ("1.8 ثانية من النهاية", None), ("حتى 1.8 ثانية", None), ("الإطار ١٨٫٠", None), ("1.8 सेकंड तक", None),
        ("1.8 सेकंड बाद", None), ("1.8 मिनट", None), ("फ्रेम १८.०", None), ("1.8 सेकंड से", None), ("١٬٨٠٠ ث", None),
        ("২.৫ s", None), ("1½ s", None), ("①.⑧ s", None),
    ],
)  # fmt: skip
def test_arabic_and_hindi(times: str, start: float | None) -> None:
    for line in (f"{RED[0]}: {times}", f"Event 1: {times} {RED[0]}", f"- **{RED[0]}** ({times})"):
        (event,) = parse_answer(line, RED[:1], 5000.0).events
        assert (event.start if event.usable else None) == start, line


@pytest.mark.parametrize("odd", [None, b"<1.0> <2.0> a", 3])
def test_what_is_no_text_is_named(odd: Any) -> None:
    with pytest.raises(TypeError, match="an answer is a text, not"):
        parse_answer(odd, ["a"], 3.0)
