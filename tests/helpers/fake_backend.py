"""A back end that needs no model: it answers the truth. Run as a script, it is a run to be interrupted."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from asking import run_backend

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.engines.protocol import Request, Response, row_seed
from tempoloc_nb.models.ask import Sampling
from tempoloc_nb.scoring.logs import EventLog, LoggedEvent, log_text, settled

SIM = load_benchmark("sim")
BASE = load_benchmark("base-tasks")


class Truthful:
    """Answers the truth, later by what the stamps are late; notes what it was asked and whether it was closed.

    Its answers are lines, or a log where one is asked for. Fails for `bad` clips; is interrupted before request number
    `limit`; takes `delay` (s) for each.
    """

    name, model = "fake", "truthful"

    def __init__(
        self, bad: Sequence[str] = (), limit: int | None = None, *, model: str = "truthful", revision: str = "1",
        delay: float = 0.0,
    ) -> None:  # fmt: skip
        self.bad, self.limit, self.model, self.revision, self.delay = bad, limit, model, revision, delay
        self.asked: list[Request] = []
        self.closed = False

    def settings(self) -> dict[str, Any]:
        return {"revision": self.revision, "device": "cpu"}

    def stream(
        self, requests: Sequence[Request], sampling: Sampling
    ) -> Iterator[tuple[Request, list[Response] | TempolocError]]:
        try:
            for number, request in enumerate(requests):
                if number == self.limit:
                    raise KeyboardInterrupt
                self.asked.append(request)
                time.sleep(self.delay)
                yield request, self.answer(request, sampling)
        finally:
            self.closed = True

    def answer(self, r: Request, sampling: Sampling) -> list[Response] | TempolocError:
        if r.clip in self.bad:
            return TempolocError(f"{r.clip}: no good")
        clip = next(c for c in (*SIM.clips, *BASE.clips) if c.clip == r.clip)
        truth = dict(zip(clip.labels, clip.boundaries, strict=True))
        times = [truth[label] + r.view.shift for label in r.labels]
        if r.prompt.log:
            text = log_text(EventLog(settled(map(LoggedEvent, times, r.labels))))
        else:
            text = "\n".join(
                f"Event {i}: <{t:.2f}> <{t + 1:.2f}> {label}"
                for i, (t, label) in enumerate(zip(times, r.labels, strict=True), 1)
            )
        return [Response(t, text, row_seed(sampling.seed, r.clip, t), "stop", 90, 9, 40, r.fps, 0.5) for t in r.trials]


def main() -> None:
    """Ask about the shipped clips."""
    parser = argparse.ArgumentParser()
    parser.add_argument("output", type=Path)
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--delay", type=float, default=0.0)
    arguments = parser.parse_args()
    shipped = replace(SIM, clips=SIM.with_videos())
    run_backend(Truthful(delay=arguments.delay), shipped, arguments.output, fps=8, trials=arguments.trials)


if __name__ == "__main__":
    main()
