"""Constrained decoding with transformers: untrained models babble, and what they say must still be in the form."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from itertools import product
from typing import Any

import pytest
from hard_answers import DURATIONS, HARD, as_json, numbers
from replay import check_company
from tiny_models import qwen3, qwen25

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.clips.videos import find_videos
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.optional import import_transformers
from tempoloc_nb.core.settings import data_dir
from tempoloc_nb.engines import decoding
from tempoloc_nb.engines.decoding import Grammars, _Guide
from tempoloc_nb.engines.hf import HFBackend
from tempoloc_nb.engines.protocol import Request, Response
from tempoloc_nb.inference.requests import asked_form, plan_requests
from tempoloc_nb.models.ask import AskConfig, Sampling
from tempoloc_nb.models.constraints import Constraint, answer_constraint, obeys
from tempoloc_nb.scoring.answers import answer_text, parse_answer, repair
from tempoloc_nb.video.view import View

import_transformers()
import torch  # noqa: E402

xgrammar = pytest.importorskip("xgrammar", reason="needs tempoloc_nb[structured]")
torch.set_num_threads(1)
SIM = load_benchmark("sim").head(1)
VIDEOS = find_videos(SIM)
FAMILIES = {"qwen2.5": qwen25, "qwen3": qwen3}
BABBLE = Sampling(temperature=1.3, top_p=1.0, max_new_tokens=400)
DURATION = 8.53
COMPACT: dict[str, Any] = {"separators": (",", ":")}


def requests(*constraints: Constraint | None, trials: int = 1) -> list[Request]:
    """A request for each constraint, of different clips."""
    planned = plan_requests(SIM, VIDEOS, AskConfig(prompt="tiny", fps=2, view=View("pair"), trials=trials))
    return [replace(planned[i % len(planned)], constraint=c) for i, c in enumerate(constraints)]


def made_for(request: Request, kind: Any, **options: Any) -> Request:
    return replace(request, constraint=answer_constraint(kind, request.labels, DURATION, **options))


@pytest.fixture(scope="module", params=list(FAMILIES))
def backend(request: pytest.FixtureRequest) -> HFBackend:
    return HFBackend(FAMILIES[request.param](), device="cpu", batch=4)


@pytest.fixture(scope="module")
def qwen() -> HFBackend:
    return HFBackend(qwen25(), device="cpu", batch=4)


def grammars_of(backend: HFBackend) -> Grammars:
    return Grammars(backend.processor.tokenizer, backend.net.get_output_embeddings().weight.shape[0], backend.ends)


def texts(responses: Sequence[Response]) -> list[str]:
    return [r.text for r in responses]


# --- the engine reads our expressions as Python does ---


def accepts(grammar: Any, text: str) -> bool:
    matcher = xgrammar.GrammarMatcher(grammar)
    return bool(matcher.accept_string(text) and matcher.is_completed())


@pytest.mark.parametrize("duration", [d for d in DURATIONS if d < 15])
def test_the_engine_accepts_just_the_times_within_the_clip(qwen: HFBackend, duration: float) -> None:
    grammars = grammars_of(qwen)
    form, schema = (answer_constraint(kind, ["x"], duration) for kind in ("regex", "json"))
    line, item = grammars.compile(form), grammars.compile(schema)
    for text, within in numbers(duration, 2).items():
        assert accepts(line, f"<answer>\nEvent 1: <{text}> <0> x\n</answer>") == within, text
        at = f'{{"events":[{{"event":1,"label":"x","start":{text},"end":0}}]}}'
        right = Decimal(text) <= Decimal(str(duration)).quantize(Decimal("0.01"), "ROUND_DOWN")
        assert accepts(item, at) == right == obeys(schema, at), text


@pytest.mark.parametrize("label", HARD)
def test_the_engine_knows_hard_labels(qwen: HFBackend, label: str) -> None:
    labels, spans = ["grasping", label], [(1.0, 2.5), (2.5, 4.0)]
    grammars = grammars_of(qwen)
    for think in (False, True):
        form = answer_constraint("regex", labels, DURATION, think=think)
        grammar = grammars.compile(form)
        for text in (answer_text(labels, [1.0, 2.5], 4.0), answer_text([label, label], [1.0, 2.5], 4.0)):
            for thought in ("", "<think>\nhm <1.0> – é\n</think>\n\n", "<think></answer></think>"):
                assert accepts(grammar, thought + text) == obeys(form, thought + text)
    schema = grammars.compile(answer_constraint("json", labels, DURATION))
    assert accepts(schema, as_json(labels, spans, **COMPACT))
    assert not accepts(schema, as_json(labels, spans))  # as vLLM, which writes no white space either
    assert not accepts(schema, as_json([label, "grasping"], spans, **COMPACT))
    assert not accepts(schema, as_json(labels[:1], spans[:1], **COMPACT))
    assert not accepts(schema, as_json(labels, [(0, 9), (1, 2)], **COMPACT))


def test_the_engine_knows_absence(qwen: HFBackend) -> None:
    labels, grammars = ["grasping", "releasing"], grammars_of(qwen)
    lines = answer_text(labels, [1.0, 2.5], 4.0).replace("<1.00> <2.50>", "<absent>")
    timed = as_json(labels, [(1.0, 2.5), (2.5, 4.0)], **COMPACT)
    for kind, text in (("regex", lines), ("json", timed.replace('"start":1.0,"end":2.5', '"absent":true'))):
        for absent in (False, True):
            form = answer_constraint(kind, labels, DURATION, absent=absent)  # type: ignore[arg-type]
            assert accepts(grammars.compile(form), text) == obeys(form, text) == absent
            assert accepts(grammars.compile(form), timed if kind == "json" else answer_text(labels, [1.0, 2.5], 4.0))


# --- babble in form ---


@pytest.mark.parametrize(
    "sampling",
    [
        BABBLE, replace(BABBLE, repetition_penalty=1.3), replace(BABBLE, temperature=0.6, top_p=0.9, seed=3),
        replace(BABBLE, temperature=0.0, repetition_penalty=1.15),
    ],
    ids=["hot", "penalty", "cool", "greedy"],
)  # fmt: skip
def test_every_constrained_answer_is_in_its_form(backend: HFBackend, sampling: Sampling) -> None:
    """Batches with different constraints, several trials a clip."""
    plain = requests(None, None, None, None, trials=3)
    asked = [made_for(plain[0], "regex"), made_for(plain[1], "json"), made_for(plain[2], "regex", digits=1), plain[3]]
    # a row without a constraint is not touched by the others'
    answers = check_company(backend, asked, sampling, [replace(plain[3], trials=(0, 2))])
    for request, responses in zip(asked[:3], answers[:3], strict=True):
        assert request.constraint is not None
        for response in responses:
            assert response.finish_reason == "stop"
            assert obeys(request.constraint, response.text), response.text
            answer = parse_answer(response.text, request.labels, DURATION, form=asked_form(request))
            assert answer.complete
            assert {e.status for e in answer.events} <= {"ok", "reversed"}
            assert answer.compliant
            if request.constraint.kind == "json":
                assert response.text.startswith('{"events":[{"event":1,"label":"')
                assert not re.search(r"\s", re.sub(r'"[^"]*"', "", response.text)), response.text
    if sampling.temperature:
        assert len(set(texts(answers[0]))) == 3


def test_reasoning_ends_in_an_answer_or_at_the_limit(backend: HFBackend) -> None:
    """Untrained models seldom close a tag; after 20 characters of reasoning they have to."""
    (request,) = requests(None, trials=6)
    allowed, plain = (made_for(request, "regex", think=t).constraint for t in (True, False))
    assert allowed is not None
    assert plain is not None
    must = Constraint("regex", "<think>[^<]{0,20}</think>\n" + plain.text)
    for constraint in (allowed, must):
        found = backend.generate([replace(request, constraint=constraint)], replace(BABBLE, max_new_tokens=300))[0]
        for response in found:
            if response.finish_reason == "stop":
                assert obeys(allowed, response.text)
                assert parse_answer(response.text, request.labels, DURATION).compliant
    assert all(r.finish_reason == "stop" and r.text.startswith("<think>") for r in found)


def test_an_answer_that_was_cut_off_says_so(backend: HFBackend) -> None:
    (request,) = requests(None)
    for kind in ("regex", "json"):
        whole = backend.generate([made_for(request, kind)], BABBLE)[0][0]
        for room in (1, 7, whole.completion_tokens - 1):
            cut = backend.generate([made_for(request, kind)], replace(BABBLE, max_new_tokens=room))[0][0]
            assert cut.finish_reason == "length"
            assert cut.completion_tokens == room
            assert whole.text.startswith(cut.text.rstrip("\ufffd"))
        room = whole.completion_tokens
        just = backend.generate([made_for(request, kind)], replace(BABBLE, max_new_tokens=room))[0][0]
        assert just == replace(whole, latency_s=just.latency_s)


def test_a_constrained_answer_does_not_depend_on_its_company(backend: HFBackend) -> None:
    plain = requests(None, None, trials=2)
    asked = [made_for(plain[0], "regex"), made_for(plain[1], "json")]
    check_company(backend, asked, BABBLE, [*asked, *(replace(r, trials=(1,)) for r in asked)])


def test_order_breaks_are_left_to_whoever_repairs(qwen: HFBackend) -> None:
    """Babble seldom is in order, and the parser reports it as written."""
    (request,) = requests(None, trials=8)
    broken = 0
    for response in qwen.generate([made_for(request, "regex")], BABBLE)[0]:
        answer = parse_answer(response.text, request.labels, DURATION)
        starts = [e.start for e in answer.events]
        written = [tuple(map(float, m)) for m in re.findall(r"<([\d.]+)> <([\d.]+)>", response.text)]
        assert [(e.start, e.end) for e in answer.events] == written
        repaired, changes = repair(answer, DURATION)
        assert [e.start for e in repaired.events] == sorted(e.start for e in repaired.events)
        assert (changes.total > 0) == (starts != sorted(starts) or any(a > b for a, b in written))
        broken += changes.ordered > 0
    assert broken


# --- one prefill, one compilation ---


def test_the_trials_of_a_clip_share_a_prefill_and_a_grammar(qwen: HFBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    patches, compiled = [], []
    real, compiling = qwen.net.model.visual.forward, Grammars.compile
    monkeypatch.setattr(qwen.net.model.visual, "forward", lambda x, *a, **k: patches.append(len(x)) or real(x, *a, **k))
    monkeypatch.setattr(Grammars, "compile", lambda self, c: compiled.append(c) or compiling(self, c))
    (request,) = requests(None, trials=5)
    answers = qwen.generate([made_for(request, "regex")], replace(BABBLE, max_new_tokens=5))
    assert len(answers[0]) == 5
    assert sum(patches) == 4 * answers[0][0].vision_tokens
    assert len(compiled) == 1


def test_a_text_is_compiled_once(qwen: HFBackend) -> None:
    grammars = grammars_of(qwen)
    one = answer_constraint("regex", ["grasping"], 5)
    sizes = []
    for constraint in (one, Constraint("regex", str(one.text)), answer_constraint("json", ["grasping"], 5)):
        grammars.compile(constraint)
        sizes.append(grammars._compiler.get_cache_size_bytes())
    assert sizes[0] == sizes[1] < sizes[2]


def test_threads_can_compile_at_once(qwen: HFBackend) -> None:
    grammars = grammars_of(qwen)
    asked = [answer_constraint(k, ["grasping"], 1 + d / 10) for d, k in product(range(30), ("regex", "json"))] * 3
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(grammars.compile, asked))
    for constraint, grammar in zip(asked, made, strict=True):
        limit = re.findall(r'"maximum": ([\d.]+)', constraint.text)
        if limit:
            assert accepts(grammar, as_json(["grasping"], [(0, float(limit[0]))], **COMPACT))
            assert not accepts(grammar, as_json(["grasping"], [(0, float(limit[0]) + 0.1)], **COMPACT))


def test_a_row_that_stays_is_kept_to_its_own_grammar(qwen: HFBackend) -> None:
    """Of three rows, the first ends at once; the free one and the JSON go on without it."""
    sampling = replace(BABBLE, max_new_tokens=60)
    short = Constraint("regex", "a")
    (one,) = requests(None)
    other, third = (replace(one, clip=f"another/{i}") for i in range(2))
    asked = [replace(one, constraint=short), replace(other, constraint=None), made_for(third, "json")]
    backend = HFBackend(qwen.net.name_or_path, device="cpu", batch=3)
    (first,), _, (last,) = backend.generate(asked, sampling)
    ((alone,),) = backend.generate(asked[2:], sampling)
    assert first.text == "a"
    assert last.text == alone.text


# --- what cannot be done ---


def test_what_is_missing_is_named_once(qwen: HFBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xgrammar", None)
    monkeypatch.setattr(qwen, "_grammars", None)
    free, wanted = requests(None, None)
    assert len(qwen.generate([free], replace(BABBLE, max_new_tokens=2))) == 1
    with pytest.raises(TempolocError, match=r"xgrammar is not installed.*pip install 'tempoloc_nb\[structured\]'"):
        list(qwen.stream([made_for(wanted, "regex")], BABBLE))


def test_a_constraint_that_cannot_be_read_costs_its_own_clip_alone(qwen: HFBackend) -> None:
    good, bad, worse, free = requests(None, Constraint("regex", "a("), Constraint("json", '{"type": "what"}'), None)

    def lazily() -> Iterator[Request]:
        yield from (made_for(good, "regex"), bad, worse, free)

    found = {r.clip: a for r, a in qwen.stream(lazily(), BABBLE)}  # type: ignore[arg-type]
    assert not isinstance(found[good.clip], TempolocError)
    assert not isinstance(found[free.clip], TempolocError)
    for request, kind in ((bad, "regex"), (worse, "json")):
        assert isinstance(found[request.clip], TempolocError)
        assert re.fullmatch(rf"{request.clip}: the {kind} constraint cannot be compiled: .+", str(found[request.clip]))


def test_a_model_that_computes_nonsense_is_told_by_clip(qwen: HFBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "_pick", lambda logits, *_: torch.full((len(logits),), 7))
    one, two = requests(None, None)
    found = list(qwen.stream([made_for(one, "regex"), two], BABBLE))
    assert [r.clip for r, _ in found] == [one.clip, two.clip]
    for request, error in found:
        assert isinstance(error, TempolocError)
        assert str(error).startswith(f"{request.clip}: token 7 breaks the constraint of row 0")


def test_free_rows_and_ended_rows_allow_everything(qwen: HFBackend) -> None:
    grammars = grammars_of(qwen)
    guide = _Guide([None, grammars.compile(Constraint("regex", "a"))], qwen.net.config.text_config.vocab_size)
    logits = torch.randn(2, qwen.net.config.text_config.vocab_size)
    tokenizer = qwen.processor.tokenizer
    for allowed in ([tokenizer.convert_tokens_to_ids("a")], sorted(qwen.ends)):
        masked = guide.mask(logits)
        assert torch.equal(masked[0], logits[0])
        assert masked[1].isfinite().nonzero().flatten().tolist() == allowed
        guide.accept(torch.tensor([5, allowed[0]]))
    assert torch.equal(guide.mask(logits), logits)


# --- the trained model ---

TRAINED = data_dir() / "models" / "tempoloc-tiny"


@pytest.mark.skipif(not TRAINED.is_dir(), reason=f"the trained model {TRAINED.name} is not here")
def test_a_trained_model_says_what_it_would_have_said() -> None:
    """Greedy and with room for its transcript: an answer that is in the form anyway does not change."""
    backend = HFBackend(TRAINED, device="cpu")
    free = plan_requests(SIM, VIDEOS, AskConfig(prompt="tiny", fps=8, view=View("pair"), trials=1))[:2]
    asked = [replace(r, constraint=answer_constraint("regex", r.labels, 60.0, think=True)) for r in free]
    greedy = Sampling(temperature=0.0, max_new_tokens=400)
    same = 0
    for request, (said,), (constrained,) in zip(
        asked, backend.generate(free, greedy), backend.generate(asked, greedy), strict=True
    ):
        assert request.constraint is not None
        assert obeys(request.constraint, constrained.text)
        if obeys(request.constraint, said.text):
            assert said.text == constrained.text
            same += 1
    assert same >= len(free) / 2
