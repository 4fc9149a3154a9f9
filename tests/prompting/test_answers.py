"""What `parse_answer` reads, dialect by dialect, and what `repair` changes."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from answer_texts import ASKED, ASKED_JSON, DIALECTS, JSON_FORMS, LABELS, WANTED

from tempoloc_nb.prompting.answers import MAX_CHARS, Repairs, parse_answer, repair
from tempoloc_nb.prompting.dialects import match_label, read_span


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
        ("Event 1: not visible\nEvent 2: <5.8> <7.9>", ["missing", "ok", "missing"]),
        ("Event 1: <start> <end>\nEvent 2: <1.7.2> <7.9>", ["malformed", "malformed", "missing"]),
        ("Event 1: <1.7> <?>\nEvent 2: 01:75 - 02:80", ["malformed", "malformed", "missing"]),
        ("Event 1: 12% - 30%\nEvent 2: frames 12 14", ["malformed", "malformed", "missing"]),
        ("Event 1: <1.7> <5.8>\nEvent 2: <5.8> <7.", ["ok", "malformed", "missing"]),
        ("Event 1: <5.8> <1.7>", ["reversed", "missing", "missing"]),
        ("Event 1: <12.2> <12.5>\nEvent 2: <-1.0> <2.0>", ["out of range", "out of range", "missing"]),
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
    text = "Event 3: <7.9> <10.6> waving\nEvent 1: <1.7> <5.8> after releasing the red cube\nEvent 2: <5.8> <7.9>"
    assert spans(text) == WANTED
    assert [e.labelled for e in parse_answer(text, LABELS).events] == [False] * 3


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
    assert parse_answer(text, LABELS, 12.0, "end").events[0].status == "out of range"


def test_only_the_end_of_a_long_text_is_read() -> None:
    assert spans("Event 1: <9.0> <9.9>\n" + "x " * MAX_CHARS + "\n" + ASKED) == WANTED


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
        ("t=2, t=5", (2.0, 5.0)),
        ("3, 4", (3.0, 4.0)),
        ("1,7", (None, None)),
        ("cube 2", (None, None)),
        ("v1.2.3", (None, None)),
        ("50%", (None, None)),
        ("", (None, None)),
    ],
)
def test_span(text: str, span: tuple[float | None, float | None]) -> None:
    assert read_span(text)[:2] == span


def test_the_form_asked_for_is_read_as_in_general(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [t for name, t in DIALECTS.items() if "json" not in name]
    quick = [parse_answer(t, LABELS, 12.0).events for t in texts]
    monkeypatch.setattr("tempoloc_nb.prompting.answers._asked_lines", lambda labels: re.compile("(?!)"))
    for text, events in zip(texts, quick, strict=True):
        slow = parse_answer(text, LABELS, 12.0).events
        assert [(e.start, e.end, e.status, e.labelled) for e in slow] == [
            (e.start, e.end, e.status, e.labelled) for e in events
        ]


@pytest.mark.parametrize(
    "text",
    [
        "1" * MAX_CHARS,
        " " * MAX_CHARS,
        "[" * MAX_CHARS,
        '{"' * (MAX_CHARS // 2),
        "<" * MAX_CHARS,
        "1;" * (MAX_CHARS // 2),
        "Event 1: " * (MAX_CHARS // 9),
        "<answer>" * (MAX_CHARS // 8),
        "Start: 2\n" * (MAX_CHARS // 9),
        '[{"a":' * (MAX_CHARS // 6),
        "|1" * (MAX_CHARS // 2),
        "- " * (MAX_CHARS // 2),
        "1:" * (MAX_CHARS // 2),
        "1 - " * (MAX_CHARS // 4),
        "\n" * MAX_CHARS,
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
