"""Logs of events as models may write them, whole or with a fault, and what of each can be read for certain."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from answer_grammar import FRAMES, NOTATIONS

Entry = tuple[float, str]

LENGTH = 11.75  # s: the last frame of the video that is asked about
LABELS = (
    "grasping the red cube", "releasing the red cube", "grasping the green cube", "missing the green cube",
    "releasing the green cube", "grasping the square nut", "dropping the square nut",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SpoiltLog:
    """A text; its events, or None where no log can be read for certain; and what the text was made of."""

    text: str
    right: tuple[Entry, ...] | None
    told: str


def _lines(entries: Sequence[Entry], notation: Callable[[float], str], mark: str) -> list[str]:
    return [f"{mark.format(i)}{notation(t)}: {name}" for i, (t, name) in enumerate(entries, 1)]


def _shown(name: str) -> str:
    """A name as `segment` prints it: a missed grasp is a grasp."""
    return name.replace("missing", "grasping")


def _right(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    return tuple((t, _shown(name)) for t, name in entries)


def _spoil(lines: list[str], entries: Sequence[Entry], rng: random.Random, notation: Callable[[float], str]) -> str:
    """Put a fault into the lines, after which no log is certain; what it is."""
    way = rng.choice(("no time", "two times", "frames", "beyond", "backward", "negative", "refusal", "garbled"))
    k = rng.randrange(len(lines))
    t, name = entries[k]
    if way == "no time":
        lines[k] = name
    elif way == "two times":
        lines[k] = f"{notation(t)} {notation(t + 0.5)}: {name}"
    elif way == "frames":
        mark = rng.choice(sorted(FRAMES.keys() - {"bare"}))
        lines[:] = [f"{FRAMES[mark](t)}: {name}" for t, name in entries]
    elif way == "beyond":
        lines[-1] = f"{notation(LENGTH + rng.choice((1.0, 9.0, 500.0)))}: {entries[-1][1]}"
    elif way == "backward":
        lines.reverse()
    elif way == "negative":
        lines[k] = f"{re.sub(r'(?=[0-9])', '-', notation(t), count=1)}: {name}"
    elif way == "refusal":
        lines[:] = ["I cannot tell which events happen in this video."]
    else:
        lines[k] = f"{notation(t)[:1]}?.?: {name}"
    return way


def spoilt_log(rng: random.Random) -> SpoiltLog:
    """A log of two to five events in one of several forms, two in three times with a fault."""
    count = rng.randint(2, 5)
    times = sorted(rng.sample(range(20, int(LENGTH * 100) - 20, 30), count))
    entries = [(t / 100, name) for t, name in zip(times, rng.sample(LABELS, count), strict=True)]
    if rng.random() < 0.2:
        text = json.dumps([{"time": t, "event": name} for t, name in entries], indent=rng.choice((None, 2)))
        whole = rng.random() < 0.5
        cut = text if whole else text[: rng.randrange(len(text) // 2, len(text) - 2)]
        return SpoiltLog(cut, _right(entries) if whole else None, f"JSON, {'whole' if whole else 'cut'}")
    form = rng.choice(sorted(NOTATIONS))
    lines = _lines(entries, NOTATIONS[form], rng.choice(("", "- ", "{}. ")))
    if rng.random() < 0.33:
        return SpoiltLog("\n".join(lines), _right(entries), f"{form}, whole")
    way = _spoil(lines, entries, rng, NOTATIONS[form])
    return SpoiltLog("\n".join(lines), None, f"{form}, {way}")
