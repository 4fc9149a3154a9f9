"""Answers as models may write them, made from a grammar of forms, with what each event's times are."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

Times = tuple[float, float]

LABEL_SETS = [
    ("grasping the red cube", "releasing the red cube", "grasping the green cube"),
    ("grasping cube 2", "stacking cube 2 on cube 1"),
    ("grasping cube_3", "placing cube_3 on cube_2", "releasing cube_3"),
    ("pressing button 1.5", "pressing button 2.5"),
    ("opening the microwave",),
    ("picking up the red cylinder from the table", "placing the red cylinder in the blue tray"),
    ("waiting for 2 s", "pouring water for 3 seconds", "putting the cup down"),
    ("lifting the 5 cm peg", "inserting the peg into hole 4"),
    ("grasping the cube", "grasping the cube on the left"),
    ("moving arm 1 to 90 degrees", "moving arm 2 to 45 degrees"),
    ("Step 3: closing drawer 2", "Step 4: opening drawer 1"),
    ("grasping the red cube",),
    ("stacking block A2 on block B1", "releasing block A2"),
    ("Greifen des roten Würfels", "Loslassen des roten Würfels"),
    ("抓取红色方块", "松开红色方块"),
    ("folding the towel (1st half)", "folding the towel (2nd half)"),
]


@dataclass(frozen=True, slots=True)
class Case:
    """A text, what was asked, and for each event its times (s), None where the text does not give them for certain."""

    text: str
    labels: tuple[str, ...]
    truth: tuple[Times | None, ...]
    instants: bool  # only the start is written
    form: str
    told: str  # what the text was made of


def _clock(t: float, hours: bool, comma: bool) -> str:
    minutes, seconds = divmod(t, 60)
    text = f"{int(minutes):02d}:{seconds:06.3f}"
    text = f"00:{text}" if hours else text
    return text.replace(".", ",") if comma else text


def _words(t: float) -> str:
    minutes, seconds = divmod(t, 60)
    return f"{int(minutes)} min {seconds:.2f} s" if minutes else f"0 min {seconds:.2f} s"


NOTATIONS: dict[str, Callable[[float], str]] = {
    "two decimals": lambda t: f"{t:.2f}", "unit": lambda t: f"{t:.2f}s",
    "unit apart": lambda t: f"{t:.2f} s",
    "seconds": lambda t: f"{t:.2f} seconds", "brackets": lambda t: f"<{t:.2f}>",
    "brackets, unit": lambda t: f"<{t:.2f}s>",
    "clock": lambda t: _clock(t, False, False), "long clock": lambda t: _clock(t, True, False),
    "comma clock": lambda t: _clock(t, True, True), "words": _words, "ms": lambda t: f"{t * 1000:.0f} ms",
    "minutes": lambda t: f"{int(t // 60)}m{t % 60:.2f}s", "German": lambda t: f"{t:.2f}".replace(".", ",") + " s",
    "Chinese": lambda t: f"{t:.2f}秒",
}  # fmt: skip
"""How a time is written. Times have two decimals, so that all of these are exact."""
FRAMES: dict[str, Callable[[float], str]] = {
    "frames": lambda t: f"frame {t * 30:.0f}", "bare": lambda t: f"{t * 30:.0f}", "#": lambda t: f"#{t * 30:.0f}",
    "f": lambda t: f"{t * 30:.0f}f", "percent": lambda t: f"{t * 7:.0f}%",
}  # fmt: skip
"""What is no time."""
JOINTS = [" - ", "-", " – ", " to ", " --> ", "..", " until ", "–", " → ", " through ", " ~ ", " ... "]
PAIRS = [", ", " ", "; ", " | "]
NUMBERINGS: dict[str, Callable[[int], str]] = {
    "Event": lambda i: f"Event {i}: ", "bold": lambda i: f"**Event {i}**: ", "list": lambda i: f"{i}. ",
    "paren": lambda i: f"{i}) ", "step": lambda i: f"Step {i}: ", "hash": lambda i: f"Event #{i} - ",
    "zero": lambda i: f"Event {i - 1}: ", "none": lambda i: "", "bullet": lambda i: "- ",
    "subtask": lambda i: f"Subtask {i} – ",
}  # fmt: skip
SCORES = [
    "confidence 0.9", "(score: 0.87)", "[confidence = 0.95]", "p=0.8", "certainty 0.75", "conf. 0.6", "95% sure",
    "IoU 0.5",
]  # fmt: skip
BEFORE = [
    "", "", "", "Here are the events:\n", "The video is 30 fps and has 360 frames.\n",
    "<think>It moves at 0.3 s, Event 1: <9.99> <9.99></think>\n", "I looked at all 3 cameras.\n\n", "Sure! ", "```\n",
    "Answer:\n",
]  # fmt: skip
AFTER = [
    "", "", "", "\nDone.", "\n```", "\nOverall confidence: 0.9", "\n\nNote: times are approximate (±0.1 s).",
    "\nThank you.",
]  # fmt: skip
OTHERS = {
    "grasping the red cube": "closing the top drawer", "opening the microwave": "opening the cube",
    "releasing the red cube": "pouring the tea",
}  # fmt: skip
FORMS = {
    "grasping the red cube": (
        "grasps the red cube", "The humanoid grips the red cube", "picks up the red cube", "Grasped red cube",
    ),
    "releasing the red cube": ("releases the red cube", "The robot lets go of the red cube", "Drops the red cube"),
    "opening the microwave": ("opens the microwave", "The person opened the microwave"),
    "grasping the green cube": ("grasps the green cube", "grabbing the green cube"),
    "picking up the red cylinder from the table": ("The humanoid picks up the red cylinder", "red cylinder"),
}  # fmt: skip


def _label(rng: random.Random, label: str) -> tuple[str, str]:
    """How a label is written, and of which kind that is: exact, form, none or other."""
    kind = rng.choice(("exact", "exact", "exact", "case", "form", "none", "other"))
    if kind == "form" and label in FORMS:
        return rng.choice(FORMS[label]), "form"
    if kind == "other" and label in OTHERS:
        return OTHERS[label], "other"
    if kind == "case":
        return rng.choice((label.upper(), label.capitalize() + ".", f"**{label}**", f'"{label}"')), "exact"
    return ("", "none") if kind == "none" else (label, "exact")


def _span(rng: random.Random, times: Times, notation: str, instants: bool) -> str:
    write = NOTATIONS.get(notation) or FRAMES[notation]
    a, b = map(write, times)
    if instants:
        return rng.choice(("at {}", "{}", "t={}" if notation != "words" else "at {}")).format(a)
    kind = rng.random()
    if kind < 0.15:
        return f"from {a} to {b}"
    if kind < 0.25:
        return f"start: {a}, end: {b}"
    if kind < 0.3:
        return f"between {a} and {b}"
    if kind < 0.8 or notation in ("German", "bare", "frames", "#", "f"):
        return a + rng.choice(JOINTS) + b
    return a + rng.choice(PAIRS) + b


def _line(rng: random.Random, i: int, label: str, span: str, numbering: str) -> str:
    score = rng.choice(SCORES) if rng.random() < 0.25 else ""
    head = NUMBERINGS[numbering](i)
    order = rng.randrange(4)
    if order == 0:
        parts = [span, label, score]
    elif order == 1:
        parts = [f"{label}:" if label else "", score and score + ",", span]
    elif order == 2:
        parts = [label, f"({span})", score]
    else:
        parts = [f"{label}," if label else "", score and score + ",", span]
    text = head + " ".join(p for p in parts if p)
    return text + rng.choice(("", "", "", " | it moves at 0.5 s", "."))


def lines(rng: random.Random, labels: tuple[str, ...], times: list[Times]) -> Case:
    """A line for each event, in any order, some left out."""
    numbering = rng.choice(list(NUMBERINGS))
    notation = rng.choice(list(NOTATIONS) * 3 + list(FRAMES))
    instants = rng.random() < 0.15
    rows, truth = [], list[Times | None]([None] * len(labels))
    for i, (label, own) in enumerate(zip(labels, times, strict=True)):
        if numbering != "zero" and rng.random() < 0.08:
            continue
        text, kind = _label(rng, label)
        rows.append(_line(rng, i + 1, text, _span(rng, own, notation, instants), numbering))
        told = numbering not in ("none", "bullet") or len(labels) == 1
        named = kind in ("exact", "form") or (kind == "none" and told)
        truth[i] = own if named and notation not in FRAMES else None
    if rng.random() < 0.2:
        rng.shuffle(rows)
    between = rng.choice(("\n", "\n", "\n", "\n\n", "\r\n"))
    return _case(rng, between.join(rows), labels, truth, instants, f"lines {numbering} {notation}")


def cues(rng: random.Random, labels: tuple[str, ...], times: list[Times]) -> Case:
    """Subtitles, or lines of labels over or under lines of times."""
    comma, numbered = rng.random() < 0.5, rng.random() < 0.5
    below, gap = rng.random() < 0.7, rng.choice(("\n\n", "\n"))
    rows = []
    for i, (label, (a, b)) in enumerate(zip(labels, times, strict=True), 1):
        span = f"{_clock(a, comma, comma)} --> {_clock(b, comma, comma)}"
        pair = [span, label] if below else [label, span]
        rows.append("\n".join([*([str(i)] if numbered else []), *pair]))
    text = ("WEBVTT\n\n" if not comma else "") + gap.join(rows)
    return _case(rng, text, labels, list(times), False, "cues")


def tables(rng: random.Random, labels: tuple[str, ...], times: list[Times]) -> Case:
    """Markdown tables and CSV with named columns, also of scores."""
    mark = rng.choice(("|", ",", "\t", ";"))
    scored = rng.random() < 0.5
    number = rng.random() < 0.6
    unit = rng.choice(("", " (s)", "_s", " time", " [sec]"))
    head = [*(["#"] if number else []), "Event", *(["Confidence"] if scored else []), f"Start{unit}", f"End{unit}"]
    rows = [
        [*([str(i)] if number else []), label, *([f"0.{90 - i}"] if scored else []), f"{a:.2f}", f"{b:.2f}"]
        for i, (label, (a, b)) in enumerate(zip(labels, times, strict=True), 1)
    ]
    if mark == "|":
        text = "\n".join("| " + " | ".join(r) + " |" for r in [head, ["---"] * len(head), *rows])
    else:
        text = "\n".join(mark.join(f'"{c}"' if mark in c else c for c in r) for r in [head, *rows])
    return _case(rng, text, labels, list(times), False, f"table {mark}")


JSON_STYLES: dict[str, Callable[[float, float], dict[str, object]]] = {
    "plain": lambda a, b: {"start": a, "end": b},
    "text": lambda a, b: {"start_time": f"{a:.2f}", "end_time": f"{b:.2f}s"},
    "clock": lambda a, b: {"start": _clock(a, False, False), "end": _clock(b, False, False)},
    "windows": lambda a, b: {"relevant_windows": [[a, b]]},
    "pair": lambda a, b: {"timestamps": [a, b]},
    "nested": lambda a, b: {"timestamps": {"start": _clock(a, False, False), "end": _clock(b, False, False)}},
    "ms": lambda a, b: {"start_ms": round(a * 1000), "end_ms": round(b * 1000)},
    "frames": lambda a, b: {"start_frame": round(a * 30), "end_frame": round(b * 30)},
    "unit": lambda a, b: {"start": round(a * 30), "end": round(b * 30), "unit": "frames"},
}


def _json_object(rng: random.Random, text: str, own: Times, style: str) -> dict[str, object]:
    value: dict[str, object] = {}
    if text:
        value[rng.choice(("label", "caption", "description", "text", "event"))] = text
    value |= JSON_STYLES[style](*own)
    if rng.random() < 0.3:
        value["score"] = 0.93
    return dict(reversed(value.items())) if rng.random() < 0.2 else value


def _held(rng: random.Random, values: list[dict[str, object]], by_label: dict[str, object] | None) -> str:
    """The objects as JSON, in a fence or not, or an object with the labels as keys."""
    held: object = {"events": values} if rng.random() < 0.3 else values
    if by_label is not None and rng.random() < 0.2:
        held = by_label
    text = json.dumps(held, ensure_ascii=False, indent=rng.choice((None, 2)))
    if rng.random() < 0.3:
        text = f"```json\n{text}\n```"
    return text.replace('"', "'") if rng.random() < 0.1 else text


def jsons(rng: random.Random, labels: tuple[str, ...], times: list[Times]) -> Case:
    """Lists of objects, also numbered from zero, and objects by label."""
    style, numbered, in_order = rng.choice(list(JSON_STYLES)), rng.choice(("no", "one", "zero")), rng.random() < 0.5
    values, truth, exact = list[dict[str, object]](), list[Times | None](), True
    for i, (label, own) in enumerate(zip(labels, times, strict=True)):
        text, kind = _label(rng, label)
        value = _json_object(rng, text, own, style)
        if numbered != "no":
            value["index" if numbered == "zero" else "id"] = i + (numbered == "one")
        values.append(value)
        exact = exact and kind == "exact"
        told = numbered != "no" or in_order or len(labels) == 1
        named = kind in ("exact", "form") or (kind == "none" and told)
        truth.append(own if named and style not in ("frames", "unit") else None)
    if rng.random() < 0.2 and numbered == "no" and exact:
        rng.shuffle(values)
    by_label = dict(zip(labels, times, strict=True)) if exact and style == "pair" else None
    made = _case(rng, _held(rng, values, by_label), labels, truth, False, f"json {style} {numbered}")
    return replace(made, form="json" if in_order else "lines")


def sub_lists(rng: random.Random, labels: tuple[str, ...], times: list[Times]) -> Case:
    """An event's name, and its times in lines of their own below it."""
    write = NOTATIONS[rng.choice(("unit", "unit apart", "seconds", "clock", "two decimals"))]
    rows = []
    for i, (label, (a, b)) in enumerate(zip(labels, times, strict=True), 1):
        first, last = rng.choice((("Start", "End"), ("Start time", "End time"), ("Begin", "Finish"), ("From", "To")))
        own = [f"- {first}: {write(a)}", f"- {last}: {write(b)}"]
        if rng.random() < 0.3:
            own.append("- Confidence: 0.9")
        rows.append("\n".join([f"### Event {i}: {label}", *own]))
    return _case(rng, "\n\n".join(rows), labels, list(times), False, "sub-lists")


def prose(rng: random.Random, labels: tuple[str, ...], times: list[Times]) -> Case:
    """Several events in one line; one event in a sentence."""
    notation = rng.choice(("unit", "unit apart", "seconds", "clock", "two decimals"))
    if len(labels) == 1:
        span = _span(rng, times[0], notation, instants=False)
        text = rng.choice(
            (f"The event happens in {span}.", f"The given query happens in {span}.", f"<answer>{span}</answer>", span,
             f"It occurs {span}.", f"The event '{labels[0]}' starts and ends {span}.", f"{labels[0]} {span}")
        )  # fmt: skip
        return _case(rng, text, labels, list(times), False, "sentence", quiet=True)
    each = [f"{label} {_span(rng, own, notation, instants=False)}" for label, own in zip(labels, times, strict=True)]
    return _case(rng, rng.choice(("; ", ", ", ". ")).join(each), labels, list(times), False, "one line", quiet=True)


def _case(
    rng: random.Random, text: str, labels: tuple[str, ...], truth: Sequence[Times | None], instants: bool, told: str,
    quiet: bool = False,
) -> Case:  # fmt: skip
    before, after = ("", "") if quiet else (rng.choice(BEFORE), rng.choice(AFTER))
    if rng.random() < 0.15:
        text = f"<answer>\n{text}\n</answer>"
    return Case(before + text + after, labels, tuple(truth), instants, "lines", told)


MAKERS = [lines, lines, lines, jsons, jsons, tables, cues, sub_lists, prose]


def make_case(rng: random.Random) -> Case:
    """One text of the grammar."""
    labels = rng.choice(LABEL_SETS)
    long = rng.random() < 0.2
    cuts = sorted(rng.sample(range(30, 9000 if long else 1190), len(labels) + 1))
    times = [(a / 100, b / 100) for a, b in pairwise(cuts)]
    return rng.choice(MAKERS)(rng, labels, times)
