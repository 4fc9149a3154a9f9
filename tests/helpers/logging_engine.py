"""Engines that need no model: of texts by request and trial, and one that writes the log of a script of events."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.engines.protocol import Request, Response, row_seed
from tempoloc_nb.models.ask import Sampling
from tempoloc_nb.scoring.logs import EventLog, log_text, read_log
from tempoloc_nb.video.files import probe


@dataclass(kw_only=True)
class Saying:
    """Answers with what `said` gives for a request and a trial, a text or an error; `asked` has the requests."""

    finish: str = "stop"
    stop: int | None = None  # is interrupted before this request
    name: str = "fake"
    model: str = "fake-model"
    asked: list[Request] = field(default_factory=list)

    def settings(self) -> dict[str, Any]:
        return {}

    def said(self, request: Request, trial: int) -> str | TempolocError:
        raise NotImplementedError

    def stream(
        self, requests: Sequence[Request], sampling: Sampling
    ) -> Iterator[tuple[Request, list[Response] | TempolocError]]:
        for number, request in enumerate(list(requests)):
            if number == self.stop:
                raise KeyboardInterrupt
            self.asked.append(request)
            texts = [(t, self.said(request, t)) for t in request.trials]
            if errors := [text for _, text in texts if isinstance(text, TempolocError)]:
                yield request, errors[0]
                continue
            yield (
                request,
                [
                    Response(
                        t, str(text), row_seed(sampling.seed, request.clip, t), self.finish, 9, 9, 9, request.fps, 0.1
                    )
                    for t, text in texts
                ],
            )


def begin_of(request: Request) -> float:
    """Where a window begins in its recording (s)."""
    found = re.search(r" at ([\d.]+) s$", request.clip)
    return float(found[1]) if found else 0.0


@dataclass
class Logging(Saying):
    """Writes what happens within each video that it is shown; a window counts from its begin.

    `late` (s) by trial is added to each time. `odd` may give another text for a request and trial, or an error.
    """

    script: Sequence[tuple[float, str]]
    late: Sequence[float] = (0.0,)
    odd: Callable[[Request, int], str | TempolocError | None] = lambda request, trial: None
    model: str = field(default="logging-model", kw_only=True)

    def said(self, request: Request, trial: int) -> str | TempolocError:
        return self.odd(request, trial) or self.text(request, trial)

    def text(self, request: Request, trial: int) -> str:
        length, late = probe(request.video).duration, self.late[trial % len(self.late)] - begin_of(request)
        inside = [(t + late, name) for t, name in self.script if 0 <= t + late < length]
        read = read_log("\n".join(f"{t:.2f} s: {name}" for t, name in inside))
        return log_text(EventLog(read.events, read.moments), round(length - 0.01, 2))
