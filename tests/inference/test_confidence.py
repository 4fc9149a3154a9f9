"""Doubt: what it is, how well it ranks, and how much of it to allow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.inference.consensus import Combined, CombinedEvent, auroc, doubts, most_doubt

SIM = load_benchmark("sim")
CLIP = SIM.clips[0]


def answer(spreads: list[float | None], errors: list[float]) -> Combined:
    events = tuple(
        CombinedEvent(label, None if s is None else t + by, None, s, 1.0, 3)
        for label, t, s, by in zip(CLIP.labels, CLIP.source_boundaries, spreads, errors, strict=True)
    )
    return Combined(CLIP.clip, CLIP.task, "m", 8.0, "start", 3, events)


def test_a_missing_event_is_wrong_and_most_doubtful() -> None:
    answers = [answer([0.1, None, 0.3], [0.25, 0.0, 0.26])]
    (doubt, wrong), *rest = doubts(answers, SIM).values()
    assert not rest
    assert doubt.tolist() == [0.1, np.inf, 0.3]
    assert wrong.tolist() == [False, True, True]
    (doubt, wrong), *_ = doubts([answer([0.1, 0.0, 0.3], [0.0, 0.3, 0.0])], SIM, whole=True).values()
    assert (doubt.tolist(), wrong.tolist()) == ([0.3], [True])
    blank = replace(SIM, clips=tuple(replace(c, events=tuple(replace(e, boundary=None) for e in c.events))
                                     for c in SIM.clips[:1]))  # fmt: skip
    assert doubts(answers, blank) == {}


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.2, 0.5, np.inf]), st.booleans()), min_size=1, max_size=12))
def test_auroc_is_the_share_of_pairs(pairs: list[tuple[float, bool]]) -> None:
    doubt, wrong = np.array([d for d, _ in pairs]), np.array([w for _, w in pairs])
    each = [(a > b) + (a == b) / 2 for a in doubt[wrong] for b in doubt[~wrong]]
    assert auroc(doubt, wrong) == pytest.approx(np.mean(each) if each else np.nan, nan_ok=True)


def test_the_limit_keeps_its_promise_where_it_was_chosen() -> None:
    doubt, wrong = np.array([0.0, 0.0, 0.1, 0.1, 0.4, np.inf]), np.array([False, False, True, False, False, True])
    assert most_doubt(doubt, wrong, 1.0) == 0.0
    assert most_doubt(doubt, wrong, 0.8) == 0.4
    assert most_doubt(doubt, ~wrong, 0.9) == -np.inf
    assert most_doubt(np.array([np.inf]), np.array([True]), 0.0) == -np.inf
