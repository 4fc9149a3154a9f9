"""60,000 answers of a grammar of forms, other ones each day: what is read is right, or it is not `ok`."""

from __future__ import annotations

import os
import random
from datetime import date

import pytest
from answer_grammar import Case, make_case

from tempoloc_nb.clips.tasks import BoundaryIs
from tempoloc_nb.scoring.answers import _Prediction, parse_answer

SEED = int(os.environ.get("GRAMMAR_SEED", date.today().toordinal()))
TEXTS, PARTS = 60_000, 4


def right(case: Case, event: _Prediction, side: BoundaryIs) -> bool | None:
    """Whether a usable event's boundary is that of the text; None where there is nothing to read."""
    truth = case.truth[event.index]
    unknown = truth is None or (case.instants and side == "end")
    boundary = event.boundary(side)
    if not event.usable or boundary is None:
        return None if unknown else False
    wanted = None if truth is None else truth[0] if side == "start" or case.instants else truth[1]
    assert wanted is not None and abs(boundary - wanted) < 1e-6, (  # noqa: PT018
        f"GRAMMAR_SEED={SEED}: {case.text!r}, asked {case.labels}, {case.form}, {side}: {event}, right {wanted}"
    )
    return True


@pytest.mark.parametrize("part", range(PARTS))
def test_every_event_is_right_or_not_ok(part: int) -> None:
    rng = random.Random(f"{SEED} {part}")
    read: list[bool] = []
    for _ in range(TEXTS // PARTS):
        case, side = make_case(rng), rng.choice(("start", "end"))
        answer = parse_answer(case.text, case.labels, 100.0, side, case.form)  # type: ignore[arg-type]
        read += [found for e in answer.events if (found := right(case, e, side)) is not None]
    assert sum(read) > 0.97 * len(read)  # and nearly all that can be read is read
