"""Control questions of study 08: counted from answers about `which`, and asked of an experiment's model."""

from __future__ import annotations

import pytest
from fake_backend import SIM, Truthful
from study_cells import study_functions

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.engines.protocol import Request, Response
from tempoloc_nb.models.ask import Sampling
from tempoloc_nb.study.experiments import ask_controls, load_experiments

PAGE = study_functions("08")
WHICH = load_benchmark("which")


class Refusing(Truthful):
    """Says of every event that it is absent."""

    def answer(self, r: Request, sampling: Sampling) -> list[Response]:
        text = "\n".join(f"Event {i}: <absent> {label}" for i, label in enumerate(r.labels, 1))
        return [Response(t, text, 0, "stop", 90, 9, 40, r.fps, 0.5) for t in r.trials]


TRUTH: dict[str, list[float | None]] = {c.clip: [e.boundary for e in c.events] for c in WHICH.clips}


def shares(said: dict[str, list[float | None]]) -> dict[str, float]:
    rows = PAGE.which_controls(WHICH, said, "m").rows
    return {f"{r.kind}: {r.question}": r.passed / r.asked for r in rows}


def test_the_truth_passes_every_control_of_which() -> None:
    assert set(shares(TRUTH).values()) == {1.0}


def test_reciting_fails_what_it_should_fail() -> None:
    """The same times for every question about a clip, in the order of its lines."""
    recited: dict[str, list[float | None]] = {c.clip: [1.0 + i for i in range(len(c.events))] for c in WHICH.clips}
    found = shares(recited)
    assert [found.pop(k) for k in list(found) if k.startswith(("absent", "swapped"))] == [0.0] * 4
    assert 0 < found["alone: an event by itself"] < 1


def test_the_table_and_the_sentence_count_alike() -> None:
    table = PAGE.control_table({"which": PAGE.which_controls(WHICH, TRUTH, "m")})
    assert table["clips"].unique().tolist() == ["235 of which"]
    asked = table[table["control"] == "absent"]["asked"].sum()
    assert f"{asked} of {asked} events that do not happen get no time" in PAGE.told(table)


def test_an_experiments_model_is_asked_now() -> None:
    clips = SIM.only([c.clip for c in SIM.with_videos()])
    controls = ask_controls(load_experiments()["sft-asked"], clips, count=1, backend=Refusing())
    assert (controls.videos, {r.kind for r in controls.rows}) == (1, {"absent", "blank", "still"})
    assert controls.ceiling == pytest.approx(1 - 1 / (2 + sum(r.asked for r in controls.rows)))
