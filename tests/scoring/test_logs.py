"""A log is read for certain, or it is not ok: what models write, well-formed and not."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.files import write_jsonl
from tempoloc_nb.scoring.answers import parse_answer
from tempoloc_nb.scoring.logs import (
    EventLog,
    LoggedEvent,
    log_text,
    look_up,
    match_logs,
    read_log,
    read_true_logs,
    settled,
)  # fmt: skip

LABELS = ("grasping the red cube", "releasing the red cube", "missing the red cube", "pouring into the bowl",
          "arriving at the red cube", "grasping cube 2")  # fmt: skip


def random_log(seed: int) -> EventLog:
    rng = random.Random(seed)
    times = sorted(rng.sample(range(0, 2400), rng.randint(0, 12)))
    lines = "\n".join(f"{t / 100:.2f} s: {rng.choice(LABELS)}" for t in times)
    log = read_log(lines, 24.0)
    assert log.status == ("ok" if times else "missing")
    return EventLog(log.events, log.moments, 24.0)


@pytest.mark.parametrize("seed", range(40))
def test_what_is_written_is_read(seed: int) -> None:
    log = random_log(seed)
    read = read_log(log_text(log), 24.0)
    assert (read.status, read.faults, read.end) == ("ok", (), 24.0)
    assert (read.events, read.moments) == (log.events, log.moments)


def test_repeated_events_are_numbered_and_failed_grasps_are_grasps() -> None:
    text = (
        "<think>\n0.40 arriving at the red cube 0.40\n0.85 missing the red cube 0.85\n2.10 grasping the red cube 2.10\n"
        "3.40 releasing the red cube 3.40\n4.02 grasping the red cube for the second time 4.02\n"
        "5.00 dropping the red cube 5.00\n5.50 grasping the red cube for the third time 5.50\n6.50 end\n</think>"
    )
    log = read_log(text, 7.0)
    assert [(e.time, e.label, e.outcome, e.occurrence) for e in log.events] == [
        (0.85, "grasping the red cube", "missed", 1), (2.1, "grasping the red cube", "succeeded", 1),
        (3.4, "releasing the red cube", "unknown", 1), (4.02, "grasping the red cube", "dropped", 2),
        (5.0, "dropping the red cube", "unknown", 1), (5.5, "grasping the red cube", "unknown", 3),
    ]  # fmt: skip
    assert [(e.time, e.label) for e in log.moments] == [(0.4, "arriving at the red cube")]
    assert (log.status, log.end, log_text(log)) == ("ok", 6.5, text)


def test_another_object_or_a_grasp_between_says_nothing_of_a_grasp() -> None:
    names = ("grasping the red cube", "releasing the blue cube", "grasping the red cube", "inserting the red cube")
    log = settled(LoggedEvent(float(i), name) for i, name in enumerate(names))
    assert [e.outcome for e in log] == ["unknown", "unknown", "succeeded", "unknown"]
    placed = settled([LoggedEvent(1.0, "picking up the cup"), LoggedEvent(2.0, "placing the cup on the tray")])
    assert placed[0].outcome == "succeeded"


def test_a_log_before_an_answer_is_the_log() -> None:
    log = "<think>\n1.00 grasping the cup 1.00\n3.00 end\n</think>\n"
    read = read_log(f"{log}<answer>\nEvent 1: <1.00> <3.00> grasping the cup\n</answer>", 4.0)
    assert (read.status, [e.time for e in read.events]) == ("ok", [1.0])
    assert read_log(log.removeprefix("<think>\n"), 4.0) == read  # a template that opens the thinking itself
    reasoned = read_log("<think>A cup is there, at 2 s it moves.</think>\n0:01 grasping the cup", 4.0)
    assert (reasoned.status, [e.time for e in reasoned.events]) == ("ok", [1.0])


@pytest.mark.parametrize(
    "text",
    [
        '[{"time": 1.0, "event": "grasping the cup"}, {"time": 62.5, "event": "pouring"}]',
        'Here it is:\n```json\n{"events": [{"timestamp": "0:01", "label": "grasping the cup"},'
        ' {"timestamp": "1:02.5", "label": "pouring"}], "duration": 90}\n```',
        '{"time_ms": 1000, "event": "grasping the cup"}\n{"time_ms": 62500, "event": "pouring"}',
        '{"1.0": "grasping the cup", "62.5": "pouring"}',
        "[{'time': 1.0, 'event': 'grasping the cup'}, {'time': 62.5, 'event': 'pouring'}]",
        "| Time | Event |\n|---|---|\n| 0:01 | grasping the cup |\n| 1:02.5 | pouring |",
        "time,event\n1.0,grasping the cup\n62.5,pouring",
        "**Event log:**\n\n1. **0:01** - grasping the cup\n2. **1:02.5** - pouring",
        "- [00:01] grasping the cup\n- [01:02.5] pouring",
        "At 1.0 s: grasping the cup.\nAt 62.5 s: pouring.",
        "grasping the cup (1.0 s)\npouring (62.5 s)",
        "1.0 grasping the cup 1.0\n62.5 pouring 62.5\n80.0 end",
    ],
)
def test_other_ways_to_write_a_log_are_read(text: str) -> None:
    log = read_log(text, 90.0)
    assert (log.status, log.faults) == ("ok", ())
    assert [(e.time, e.label) for e in log.events] == [(1.0, "grasping the cup"), (62.5, "pouring")]


@pytest.mark.parametrize(
    ("text", "status", "fault"),
    [
        ("", "missing", ""),
        ("<think>\n</think>", "missing", ""),
        ("1.0 grasping the cup", "ok", ""),
        ("grasping the cup", "malformed", "no certain time"),
        ("1.0 s: grasping\npouring", "malformed", "no certain time"),
        ("1.0 s", "malformed", "no label"),
        ("1.00 1.00", "malformed", "an interval"),
        ('[{"event": "grasping the cup"}]', "malformed", "no certain time"),
        ('[{"time": 1.0}]', "malformed", "no label"),
        ('[{"time": 1.0, "event": "grasping"}, {"time": "soon", "event": "pouring"}]', "malformed", "no certain time"),
        ('[{"time": 1.0, "event": "grasping"}, {"time": 2.0, "ev', "malformed", "no certain time"),
        ('At 5 s nothing. [{"time": 1.0, "event": "grasping"}]', "malformed", "no certain time"),
        ("| Time | Event |\n| 1.0 | grasping |\n| 2.0 |", "malformed", "no certain time"),
        ("1.00 grasping the cup 1.50\n9.00 end", "malformed", "two times that differ"),
        ("Event 1: <1.0> <2.0> grasping the cup", "malformed", "two times that differ"),
        ("Event 1: <1.0> <1.0> grasping the cup", "malformed", "an interval"),
        ("0:01 - 0:04 grasping the cup", "malformed", "two times that differ"),
        ('[{"start": 1.0, "end": 2.0, "event": "grasping"}]', "malformed", "two times that differ"),
        ("1.0 s: grasping, 2.0 s: pouring", "malformed", "no certain time"),
        ("The cup is not grasped at 1.0 s", "malformed", "no certain time"),
        ("The robot waits. At 1.0 s it grasps the cup. Then it pours.", "malformed", "a sentence"),
        ("1.00 grasping the cup 1.00", "malformed", "no end"),
        ("<think>\n1.00 grasping the cup 1.00\n", "malformed", "does not end"),
        ("1.00 grasping the cup 1.00\n2.00 end\n3.00 pouring 3.00", "malformed", "after the end"),
        ("Events (frames):\n1.0 grasping\n2.0 pouring", "malformed", "no certain time"),
        ("event,start_frame\ngrasping,1.0\npouring,2.0", "malformed", "no certain time"),
        ('{"unit": "frames", "events": [{"time": 1.0, "event": "grasping"}]}', "malformed", "no certain time"),
        ('[{"time": 1.0, "time": 2.0, "event": "grasping"}]', "malformed", "no certain time"),
        ("grasping fails at 1.0 s", "malformed", "no certain time"),
        ("2.0 s later: grasping", "malformed", "no certain time"),
        ("3.0 s: pouring\n1.0 s: grasping", "reversed", "comes after 3.00 s"),
        ("3.00 pouring 3.00\n2.00 end", "reversed", "comes after 3.00 s"),
        ("1.0 s: grasping\n99.0 s: pouring", "out_of_range", "not within the video"),
        ("-1.0 s: grasping", "out_of_range", "not within the video"),
        ("1.0 s: grasping\n1.0 s: grasping", "duplicate", "written twice"),
        ("1.00 grasping 1.00\n2.00 grasping 2.00\n9.00 end", "duplicate", "number 2 of its name"),
        ("1.00 grasping for the second time 1.00\n9.00 end", "duplicate", "number 1 of its name"),
    ],
)
def test_what_is_not_certain_is_never_ok(text: str, status: str, fault: str) -> None:
    log = read_log(text, 10.0)
    assert log.status == status
    assert fault in "; ".join(log.faults)
    assert bool(log.faults) == (status not in ("ok", "missing"))
    assert log.usable == (status in ("ok", "duplicate"))


def test_nothing_that_happens_is_a_log_too() -> None:
    assert read_log("<think>\n5.20 end\n</think>", 6.0) == EventLog(end=5.2)
    assert read_log("[]", 6.0).status == "ok"


SHIPPED = (  # what tempoloc-tiny of 0.3.0.dev0 wrote when asked for a log, which it was not trained to
    "<think>\n1.13 grasping the blue cube\n2.63 end\ngrasping the blue cube 7.00\n</think>\n\n<answer>\n"
    "Event 1: <7.00> <2.63> grasping the blue cube\nEvent 2: <1.13> <2.63> arriving with the blue cube\n</answer>",
    "<think>\n1.23 grasping the blue cube\n2.63 end\ngrasping the can 1.23\n</think>\n\n<answer>\n"
    "Event 1: <1.23> <2.63> grasping the blue cube\nEvent 2: <1.23> <2.63> releasing the can\n</answer>",
)


@pytest.mark.parametrize("text", SHIPPED)
def test_a_model_that_does_not_know_the_prompt_invents_nothing(text: str) -> None:
    log = read_log(text, 8.53)
    assert (log.status, log.events) == ("malformed", ())


def test_a_part_of_a_video_has_the_times_of_the_whole() -> None:
    text = "20.00 grasping the cup 20.00\n41.00 end"
    assert read_log(text, 24.0, start=18.0).status == "ok"
    assert read_log(text, 24.0).status == "out_of_range"
    assert read_log(text, 24.0, start=21.0).status == "out_of_range"


def test_hostile_texts_take_no_time() -> None:
    started = time.monotonic()
    for text in ("1.00 a 1.00\n" * 9000, "[" * 50_000, '{"a":' * 20_000, "9" * 100_000, "| a | time |\n" * 7000,
                 "\n".join(f"{i / 100:.2f} x {i / 100:.2f}" for i in range(6000)), "x" * 200_000,
                 json.dumps([{"time": i, "event": "x"} for i in range(3000)]), "<think>" * 10_000):  # fmt: skip
        assert read_log(text, 10.0).status != "ok"
    assert time.monotonic() - started < 20


# --- against the truth ---


def log(*events: tuple[float, str]) -> tuple[LoggedEvent, ...]:
    return settled(LoggedEvent(t, name) for t, name in events)


def test_a_match_is_one_to_one_in_order_and_nearest() -> None:
    truth = log((1.0, "grasping the cup"), (1.4, "pouring"), (3.0, "releasing the cup"))
    found = log((1.3, "grasping the cup"), (1.5, "pouring"), (1.6, "pouring"), (3.6, "releasing the cup"))
    assert match_logs(found, truth, 0.5).pairs == ((0, 0), (1, 1))
    assert match_logs(found, truth, 0.25).pairs == ((1, 1),)
    assert match_logs(found, truth, 0.5).f1 == pytest.approx(2 * 2 / 7)
    wrong = log((1.0, "grasping the box"), (1.4, "pouring"))
    assert (len(match_logs(wrong, truth).pairs), len(match_logs(wrong, truth, names=False).pairs)) == (1, 2)
    swapped = log((1.0, "pouring"), (1.4, "grasping the cup"))
    assert len(match_logs(swapped, truth, 0.5).pairs) == 1


def test_a_missed_grasp_is_another_event() -> None:
    missed = read_log("1.0 s: missing the cup", 9.0).events
    truth = log((1.0, "grasping the cup"))
    assert not match_logs(missed, truth).pairs
    assert match_logs(missed, truth, names=False).pairs == ((0, 0),)


@pytest.mark.parametrize("seed", range(30))
def test_no_other_match_has_more_pairs_or_less_distance(seed: int) -> None:
    rng = random.Random(seed)
    a, b = ([LoggedEvent(t, "x") for t in sorted(rng.uniform(0, 4) for _ in range(rng.randint(0, 5)))] for _ in "ab")

    def best(i: int, j: int) -> tuple[int, float]:
        if i == len(a) or j == len(b):
            return 0, 0.0
        options = [best(i + 1, j), best(i, j + 1)]
        if abs(a[i].time - b[j].time) <= 0.5:
            count, cost = best(i + 1, j + 1)
            options.append((count + 1, cost - abs(a[i].time - b[j].time)))
        return max(options)

    pairs = match_logs(a, b, 0.5).pairs
    count, cost = best(0, 0)
    assert (len(pairs), -sum(abs(a[i].time - b[j].time) for i, j in pairs)) == (count, pytest.approx(cost))


def test_true_logs_of_the_laboratory(tmp_path: Path) -> None:
    path = tmp_path / "logs.jsonl.xz"
    entries = [["miss", "the red cube", 0.5], ["grasp", "the red cube", 1.0], ["release", "the red cube", 2.0]]
    write_jsonl(path, [{"name": "a/0", "duration": 3.0, "log": entries}])
    (found,) = read_true_logs(path).values()
    assert [e.name for e in found.events] == ["missing the red cube", "grasping the red cube", "releasing the red cube"]
    assert [e.outcome for e in found.events] == ["missed", "succeeded", "unknown"]
    write_jsonl(path, [{"name": "a/0", "duration": 3.0, "log": [["wave", "the hand", 1.0]]}])
    with pytest.raises(TempolocError, match="unknown kind of event in a log 'wave'"):
        read_true_logs(path)
    write_jsonl(path, [{"name": "a/0", "duration": 3.0, "log": []}] * 2)
    with pytest.raises(TempolocError, match="has the clip a/0 twice"):
        read_true_logs(path)


# --- events that are looked up ---

OWN = (
    "<think>\n0.85 missing the can 0.85\n2.10 grasping the can 2.10\n3.40 releasing the can 3.40\n"
    "4.00 grasping the can for the second time 4.00\n5.00 pushing the milk 5.00\n6.50 end\n</think>"
)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (("pushing the milk", "releasing the can"), [("ok", 5.0), ("ok", 3.4)]),
        (("pick up the can for the second time", "missing the can"), [("ok", 4.0), ("ok", 0.85)]),
        (("grasping the can for the 1st time",), [("ok", 2.1)]),
        (("grasping the can",), [("duplicate", 4.0)]),  # which of the two is not said: the last, as after a retry
        (("grasping the can", "grasping the can"), [("ok", 2.1), ("ok", 4.0)]),
        (("grasping the can", "grasping the can for the second time"), [("ok", 2.1), ("ok", 4.0)]),
        (("grasping the can for the third time", "pushing the can"), [("absent", None), ("absent", None)]),
        (("grasping the canister", "dropping the can"), [("absent", None), ("absent", None)]),
        (("pouring the milk", "the can"), [("missing", None), ("missing", None)]),  # no log of ours tells of such
        (("arriving at the milk", "arriving with the can"), [("absent", None), ("missing", None)]),  # nor of the latter
    ],
)  # fmt: skip
def test_events_are_looked_up_in_a_log(labels: tuple[str, ...], said: list[tuple[str, float | None]]) -> None:
    assert [(status, e and e.time) for status, e in look_up(read_log(OWN, 7.0), labels)] == said
    answer = parse_answer(OWN, labels, 7.0, form="log")
    assert [(e.status, e.start) for e in answer.events] == said
    assert (answer.compliant, answer.extra, answer.spare) == (True, (), 0)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (OWN[:90], "malformed"),  # cut off
        (OWN.replace("5.00 pushing the milk 5.00", "9.00 pushing the milk 9.00"), "out_of_range"),
        (OWN.replace("0.85", "2.85"), "reversed"),
        ("The robot grasps the can.", "malformed"),
        ("", "missing"),
    ],
)
def test_in_a_log_that_is_not_certain_nothing_is_looked_up(text: str, status: str) -> None:
    """Neither a time nor that an event is absent."""
    answer = parse_answer(text, ("grasping the milk", "releasing the can"), 7.0, form="log")
    assert [(e.status, e.start, e.usable) for e in answer.events] == [(status, None, False)] * 2
    assert not answer.compliant
