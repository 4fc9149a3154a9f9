"""One answer in every dialect that models write."""

from __future__ import annotations

import json

LABELS = ("grasping the red cube", "releasing the red cube", "grasping the green cube")


WANTED = [(1.7, 5.8), (5.8, 7.9), (7.9, 10.6)]


EVENTS = [(i, a, b, label) for i, ((a, b), label) in enumerate(zip(WANTED, LABELS, strict=True), 1)]


ASKED = "\n".join(f"Event {i}: <{a}> <{b}> {label}" for i, a, b, label in EVENTS)


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


ASKED_JSON: list[dict[str, object]] = [{"event": i, "label": label, "start": a, "end": b} for i, a, b, label in EVENTS]


CARD = [{"start": str(a), "end": f"{b}s", "caption": f"Event {i}: {label}."} for i, a, b, label in EVENTS]


JSON_FORMS = {
    "ours": json.dumps({"events": ASKED_JSON}), "compact": json.dumps({"events": ASKED_JSON}, separators=(",", ":")),
    "spread": json.dumps({"events": ASKED_JSON}, indent=2), "array": json.dumps(ASKED_JSON), "card": json.dumps(CARD),
    "fenced": f"```json\n{json.dumps(CARD)}\n```", "thought": f"<think>{{}} hm</think>\n\n{json.dumps(CARD)}",
    "tagged": f"<answer>\n{json.dumps(ASKED_JSON)}\n</answer>",
}  # fmt: skip
