"""Whether answers given in company are those of a request alone, on every machine.

The same question gives slightly other logits in another batch, with other threads, on another processor: sums are
added up in another order. Where two tokens are nearly as likely, or a draw falls between two, rounding decides, and
everything after that differs: sampled texts cannot be compared. So the tokens that were chosen in company are
replayed: each must be one that the logits of the request alone, given the tokens before it and the trial's own draw,
allow within `SLACK`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import numpy as np

from tempoloc_nb.core.optional import import_transformers
from tempoloc_nb.engines import decoding, hf
from tempoloc_nb.engines.hf import HFBackend
from tempoloc_nb.engines.protocol import Request, Response
from tempoloc_nb.models.ask import Sampling

import_transformers()
import torch  # noqa: E402

SLACK = 4e-5
"""By how much logits may be off. Another batch, thread count or instruction set moved none of the tests' models' by
more than 6e-6 (they reach 4, of which a float32 keeps 2e-7)."""

Tokens = dict[tuple[str, int], list[int]]  # by clip and trial


def allowed(logits: Any, uniform: Any, sampling: Sampling, seen: Any, token: Any) -> Any:
    """(rows,) whether `pick` could choose `token` from logits that are within `SLACK` of these."""
    scores, slack = logits.double(), SLACK
    if seen is not None:
        p = sampling.repetition_penalty
        slack *= max(p, 1 / p)
        scores = torch.where(seen, torch.where(scores > 0, scores / p, scores * p), scores)
    if sampling.temperature == 0:
        return scores.gather(-1, token[:, None])[:, 0] >= scores.amax(-1) - 2 * slack
    eps = 2 * slack / sampling.temperature  # by how much a chance may be off, as a share of itself
    chance = (scores / sampling.temperature).softmax(-1)
    own = chance.gather(-1, token[:, None])
    surely_before = torch.where(chance > own * (1 + eps), chance, 0).sum(-1)
    perhaps_before = torch.where(chance >= own * (1 - eps), chance, 0).sum(-1) - own[:, 0]
    ordered = chance.sort(-1, descending=True).values
    reached = ordered.cumsum(-1) - ordered  # a token is kept while this is below top-p
    mass = torch.where(reached < sampling.top_p, ordered, 0).sum(-1)
    undecided = torch.where((reached - sampling.top_p).abs() < eps, ordered, 0).sum(-1)  # kept or not
    place, off = uniform.double() * mass, eps + uniform.double() * undecided
    return (own[:, 0] > 0) & (surely_before - off <= place) & (place <= perhaps_before + own[:, 0] + off)


@dataclass(slots=True)
class Recorder:
    """Keeps the tokens of all answers that are generated while its `generate` stands for `hf.generate_tokens`."""

    tokens: Tokens = field(default_factory=dict)

    def generate(self, model: Any, batch: Any, rows: Any, seeds: Any, sampling: Any, ends: Any, pad: int) -> Any:
        found = _GENERATE(model, batch, rows, seeds, sampling, ends, pad)
        trials = [(e.request.clip, trial) for e in batch for trial in e.request.trials]
        for place, row in zip(trials, found, strict=True):
            ended = np.flatnonzero(np.isin(row, ends))
            self.tokens[place] = row[: ended[0] + 1 if len(ended) else None].tolist()
        return found


_GENERATE, _PICK = hf.generate_tokens, decoding._pick


def record(backend: HFBackend, asked: Sequence[Request], sampling: Sampling) -> tuple[list[list[Response]], Tokens]:
    """The answers of `backend.generate`, and their tokens."""
    recorder = Recorder()
    with patch.object(hf, "generate_tokens", recorder.generate):
        return backend.generate(asked, sampling), recorder.tokens


def replay(backend: HFBackend, request: Request, sampling: Sampling, tokens: Tokens) -> list[Response]:
    """Ask one request alone and have it take these tokens; fails where one is not allowed."""
    rows = [tokens[request.clip, trial] for trial in request.trials]
    longest, step, going = max(map(len, rows)), 0, list(range(len(rows)))

    def forced(logits: Any, uniform: Any, sampling: Sampling, seen: Any = None) -> Any:
        nonlocal step, going
        own = _PICK(logits, uniform, sampling, seen)
        if step == longest:  # all rows have ended, and it was not looked at yet
            return own
        if len(logits) < len(going):  # those that have ended were dropped
            going = [row for row in going if step < len(rows[row])]
        here = [rows[row] for row in going]
        wanted = torch.tensor([row[step] if step < len(row) else -1 for row in here], device=logits.device)
        token = torch.where(wanted < 0, own, wanted)
        fits = allowed(logits, uniform, sampling, seen, token) | (wanted < 0)
        for row in (~fits).nonzero().flatten().tolist():
            place = f"token {step} of {request.clip}, trial {request.trials[going[row]]}"
            raise AssertionError(f"{place} was {here[row][step]} in company and would be {int(own[row])} alone")
        step += 1
        return token

    with patch.object(decoding, "_pick", forced):
        (answer,) = backend.generate([request], sampling)
    assert step == longest, f"{request.clip}: the answer in company has {longest} tokens, alone {step}"
    return answer


def check_company(
    backend: HFBackend, asked: Sequence[Request], sampling: Sampling, alone: Sequence[Request] | None = None
) -> list[list[Response]]:
    """The answers to all requests together, after checking that the requests `alone` (all, each by itself) allow them.

    A request in `alone` may ask for some of the trials only.
    """
    answers, tokens = record(backend, asked, sampling)
    together = {(q.clip, r.trial): r for q, responses in zip(asked, answers, strict=True) for r in responses}
    for request in asked if alone is None else alone:
        for response in replay(backend, request, sampling, tokens):
            theirs = together[request.clip, response.trial]
            assert replace(response, latency_s=0.0) == replace(theirs, latency_s=0.0)
    return answers
