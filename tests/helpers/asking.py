"""What the suites of the engines ask, and the answers by clip."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tempoloc_nb.clips.manifest import Clips, load_benchmark
from tempoloc_nb.clips.videos import find_videos
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.engines.protocol import Backend, Request, Response
from tempoloc_nb.inference.requests import plan_requests
from tempoloc_nb.inference.run import RunSummary, answer_clips
from tempoloc_nb.models.ask import AskConfig, Sampling
from tempoloc_nb.video.view import View

SIM = load_benchmark("sim").head(1)
VIDEOS = find_videos(SIM)
SHORT = Sampling(temperature=1.0, max_new_tokens=16)


def requests(
    count: int = 2, trials: int = 1, fps: float = 4, view: View | None = None, clips: Clips = SIM
) -> list[Request]:
    """The first clips' requests, one clip a family."""
    ask = AskConfig(prompt="tiny", fps=fps, view=view or View("pair"), trials=trials)
    return plan_requests(clips, find_videos(clips), ask)[:count]


def run_backend(backend: Backend, clips: Clips, out: Path, **given: Any) -> RunSummary:
    """What `answer_clips` does, with the fields of the question by name."""
    rest = {k: given.pop(k) for k in ("video_root", "labels", "shard", "check", "progress") if k in given}
    return answer_clips(clips, out, AskConfig().changed(**given), backend, **rest)


def ask(backend: Backend, asked: list[Request], sampling: Sampling = SHORT) -> dict[str, list[Response]]:
    """Responses by clip; raises the first error."""
    found: dict[str, list[Response]] = {}
    for request, answer in backend.stream(asked, sampling):
        if isinstance(answer, TempolocError):
            raise answer
        found[request.clip] = answer
    return found


def texts(backend: Backend, asked: list[Request]) -> dict[str, list[str]]:
    """Answers' texts by clip."""
    return {clip: [r.text for r in answer] for clip, answer in ask(backend, asked).items()}


def check_nearly_all(found: dict[str, list[str]], wanted: dict[str, list[str]], share: float = 0.75) -> None:
    """Fail unless the same clips have as many texts, and at least this share of them are equal.

    An engine that batches as it goes adds up in an order that depends on what else it works on; untrained weights are
    nearly undecided, so that a rounding can turn a token.
    """
    assert {c: len(t) for c, t in found.items()} == {c: len(t) for c, t in wanted.items()}
    pairs = [(a, b) for clip, told in wanted.items() for a, b in zip(found[clip], told, strict=True)]
    same = sum(a == b for a, b in pairs)
    assert same >= share * len(pairs), f"{same} of {len(pairs)} texts are equal"
