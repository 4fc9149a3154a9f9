"""What `parse_answer` reads, dialect by dialect, and what `repair` changes."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from tempoloc_nb.prompting import dialects
from tempoloc_nb.prompting.answers import MAX_CHARS, Repairs, parse_answer, repair
from tempoloc_nb.prompting.dialects import match_label, read_span

LABELS = ("grasping the red cube", "releasing the red cube", "grasping the green cube")
WANTED = [(1.7, 5.8), (5.8, 7.9), (7.9, 10.6)]
EVENTS = [(i, a, b, label) for i, ((a, b), label) in enumerate(zip(WANTED, LABELS, strict=True), 1)]
ASKED = "\n".join(f"Event {i}: <{a}> <{b}> {label}" for i, a, b, label in EVENTS)


def spans(text: str, **kwargs: object) -> list[tuple[float | None, float | None]]:
    return [(e.start, e.end) for e in parse_answer(text, LABELS, **kwargs).events]  # type: ignore[arg-type]


DIALECTS = {
    "asked": ASKED,
    "tagged": f"<answer>\n{ASKED}\n</answer>",
    "windows line ends": ASKED.replace("\n", "\r\n"),
    "explained": ASKED.replace("cube", "cube. | at 3.0 s it <9.0> moves"),
    "dashes": ASKED.replace("> <", "> - <"),
    "units": ASKED.replace(">", "s>"),
    "bare decimals": "Event 1: 1.7 - 5.8 s\nEvent 2: 5.8 to 7.9\nEvent 3: from 7.9 until 10.6 seconds",
    "bare, no spaces": "Event 1:1.7-5.8s\nEvent 2:5.8-7.9s\nEvent 3:7.9-10.6s",
    "negative-looking": "Event 1: 1.7 -5.8\nEvent 2: 5.8 -7.9\nEvent 3: 7.9 -10.6",
    "milliseconds": "Event 1: 1700 ms - 5800 ms\nEvent 2: 5800ms to 7900ms\nEvent 3: 7900 ms, 10600 ms",
    "clock": "Event 1: 00:01.70 - 00:05.80\nEvent 2: <00:05.8> <00:07.9>\nEvent 3: 0:00:07.9 – 0:00:10.6",
    "one bracket": "Event 1: <1.7 - 5.8>\nEvent 2: <5.8, 7.9>\nEvent 3: [7.9, 10.6]",
    "one line": ASKED.replace("\n", " "),
    "one line with stops": ASKED.replace("\n", ". "),
    "reordered": "\n".join(reversed(ASKED.split("\n"))),
    "label after": "\n".join(f"{label}: {a} - {b}" for _, a, b, label in EVENTS),
    "label before number": "\n".join(f"<{a}> <{b}> {label}" for _, a, b, label in EVENTS),
    "semicolons": "; ".join(f"{label} {a}s to {b}s" for _, a, b, label in EVENTS),
    "numbered list": "\n".join(f"{i}. **{label}** ({a} – {b})" for i, a, b, label in EVENTS),
    "bullets": "\n".join(f"- {label.title()}: **{a} s** → **{b} s**" for _, a, b, label in EVENTS),
    "table": "| Event | What | Start | End |\n|---|:-:|---|---|\n"
    "| 1 | grasp | 1.7 | 5.8 |\n| 2 | let go | 5.8 s | 7.9 s |\n| 3 | x | 7.9 | 10.6 |",
    "table by label": "| Event | Start | End |\n|---|---|---|\n"
    + "\n".join(f"| {label} | {a} | {b} |" for _, a, b, label in EVENTS),
    "fenced": f"Here you go:\n```text\n{ASKED}\n```\nDone.",
    "spread": "\n\n".join(f"### Event {i}\n- Label: {label}\n- Start: {a}\n- End: {b}" for i, a, b, label in EVENTS),
    "other words": "Subtask #1: 1.7 - 5.8\nStep 2: 5.8 - 7.9\nAction 3) 7.9 - 10.6",
    "think first": f"<think>Event 1: <0.1> <0.2>\nEvent 2: <0.3> <0.4></think>\n<answer>{ASKED}</answer>",
    "think never opened": f"Event 1: <0.1> <0.2> hm </think>{ASKED}",
    "think never closed": f"<think>I look.\n{ASKED}",
    "answer never opened": f"{ASKED}</answer>",
    "answer never closed": f"<think>a</think><answer>\n{ASKED}",
    "answer inside think": f"<think>I write <answer>Event 1: <0.5> <0.6></answer></think><answer>{ASKED}</answer>",
    "upper case tags": f"<THINK>x</THINK>< Answer >{ASKED.upper()}</ANSWER>",
    "two answers": f"<answer>{ASKED.replace('<', '<1')}</answer> Wait. <answer>{ASKED}</answer>",
    "second is partial": f"<answer>{ASKED}</answer><answer>Event 1: <0.1> <0.2></answer>",
    "two without tags": ASKED.replace("<", "<1") + "\nNo:\n" + ASKED,
    "repeated": f"{ASKED}\n{ASKED}",
    "json list": '[{"event": 1, "start": 1.7, "end": 5.8}, {"event": 2, "start_time": "5.8", "end_time": "7.9s"}, '
    '{"event": "grasping the green cube", "timestamp": ["7.9", "00:10.6"]}]',
    "json fenced": '```json\n{"answer": {"events": [{"id": 1, "begin": 1.7, "stop": 5.8}, {"number": "2", '
    '"interval": [5.8, 7.9]}, {"name": "Event 3: grasping the green cube", "span": "7.9 - 10.6"}]}}\n```',
    "json by label": '{"grasping the red cube": [1.7, 5.8], "releasing the red cube": {"start": 5.8, "end": 7.9}, '
    '"grasping the green cube": "<7.9> <10.6>"}',
    "json by number": '{"event_1": {"from": 1.7, "to": 5.8}, "Event 2": [5.8, 7.9], "3": [7.9, 10.6]}',
    "json triples": '[["grasping the red cube", 1.7, 5.8], [5.8, 7.9, "releasing the red cube"], '
    '[7.9, 10.6, "grasping the green cube"]]',
    "json lines": '{"event": 1, "start": 1.7, "end": 5.8}\n'
    '{"event": 2, "start": 5.8, "end": 7.9}\n'
    '{"event": 3, "start": 7.9, "end": 10.6}',
    "json cut off": '[{"event": 1, "start": 1.7, "end": 5.8}, '
    '{"event": 2, "start": 5.8, "end": 7.9}, '
    '{"event": 3, "start": 7.9, "end": 10.6}, {"ev',
    "python quotes": "{'event': 1, 'start': 1.7, 'end': 5.8}\n"
    "{'event': 2, 'start': 5.8, 'end': 7.9}\n"
    "{'event': 3, 'start': 7.9, 'end': 10.6}",
    "json of texts": '["Event 1: <1.7> <5.8>", "Event 2: <5.8> <7.9>", "Event 3: <7.9> <10.6>"]',
}


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


ASKED_JSON: list[dict[str, object]] = [{"event": i, "label": label, "start": a, "end": b} for i, a, b, label in EVENTS]
CARD = [{"start": str(a), "end": f"{b}s", "caption": f"Event {i}: {label}."} for i, a, b, label in EVENTS]
JSON_FORMS = {
    "ours": json.dumps({"events": ASKED_JSON}), "compact": json.dumps({"events": ASKED_JSON}, separators=(",", ":")),
    "spread": json.dumps({"events": ASKED_JSON}, indent=2), "array": json.dumps(ASKED_JSON), "card": json.dumps(CARD),
    "fenced": f"```json\n{json.dumps(CARD)}\n```", "thought": f"<think>{{}} hm</think>\n\n{json.dumps(CARD)}",
    "tagged": f"<answer>\n{json.dumps(ASKED_JSON)}\n</answer>",
}  # fmt: skip


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


def test_quick_ways_read_what_the_general_way_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [t for name, t in DIALECTS.items() if "json" not in name]
    quick = [parse_answer(t, LABELS, 12.0).events for t in texts]
    monkeypatch.setattr("tempoloc_nb.prompting.answers._asked_form", lambda labels: re.compile("(?!)"))
    monkeypatch.setattr(dialects, "_PLAIN_LINE", re.compile(r"(?!)"))
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
