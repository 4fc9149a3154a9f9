"""Tries whose right result is known: what a command reads is that, or it is not said to be ok."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator

from answer_grammar import make_case
from case import Case
from made import MODEL

Made = tuple[str, str, Callable[[Case], None]]


def odd_answer() -> Made:
    """A server's model answers in one of the grammar's forms."""

    def attempt(case: Case) -> None:
        manner = f"grammar-{case.seed}-{case.number}"
        made = make_case(random.Random(manner))
        case.bring("long.mp4")
        case.shown.append(f"# answered: {made.text!r}")
        events = [word for label in made.labels for word in ("-e", label)]
        done = case.run(
            "find", "long.mp4", *events, "--model", MODEL, "--backend", "openai", "--server", case.url(manner),
            "--trials", 1, "--temperature", 0, "--json",
        )  # fmt: skip
        if done.status != 0:
            return
        for event, truth in zip(json.loads(done.out)[0]["events"], made.truth, strict=True):
            time = event["boundary"]
            if time is not None and (truth is None or abs(time - truth[0]) > 1e-3):
                case.fault("misread", f"{event['label']}: {time} s, right {truth and truth[0]}")

    return "reads", "find", attempt


def read_tries(rng: random.Random) -> Iterator[Made]:
    while True:
        yield odd_answer()
