"""The vLLM back end in a real engine: both families, trials and seeds, structure, frame rates, errors, resume."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import ill_engines as ill
import pytest
from asking import SHORT, SIM, VIDEOS, ask, check_nearly_all, requests, run_backend, texts
from sizes_7b import SIZES, clip_request
from video_clips import write_clip
from wide_models import qwen3 as qwen3_folder
from wide_models import qwen25 as qwen25_folder

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.engines import vllm_offline
from tempoloc_nb.engines.doctor import examine
from tempoloc_nb.engines.hf import HFBackend, encode_request
from tempoloc_nb.engines.protocol import Request, row_seed
from tempoloc_nb.engines.qwen import Shown, show
from tempoloc_nb.engines.vllm_offline import VLLMBackend
from tempoloc_nb.models.ask import Sampling
from tempoloc_nb.models.constraints import Constraint, answer_constraint
from tempoloc_nb.models.locate import ask_config
from tempoloc_nb.video.view import View

FOLDERS = {"qwen25": qwen25_folder, "qwen3": qwen3_folder}


@pytest.fixture(params=list(FOLDERS))
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def backend(family: str, request: pytest.FixtureRequest) -> VLLMBackend:
    made = request.getfixturevalue(family)
    assert isinstance(made, VLLMBackend)
    return made


@pytest.fixture(scope="module")
def twins() -> dict[str, HFBackend]:
    """The same models in transformers."""
    return {name: HFBackend(folder(), device="cpu") for name, folder in FOLDERS.items()}


@pytest.mark.parametrize("fps", [1, 2, 4, 8, 12])
def test_frame_rate_and_tokens_are_those_of_transformers(
    backend: VLLMBackend, twins: dict[str, HFBackend], family: str, fps: float
) -> None:
    (request,) = requests(1, fps=fps)
    encoded = encode_request(request, twins[family].net, twins[family].processor)
    (response,) = ask(backend, [request])[request.clip]
    assert response.effective_fps == fps
    assert (response.prompt_tokens, response.vision_tokens) == (len(encoded.ids), encoded.vision_tokens)


def test_greedy_answers_are_those_of_transformers(
    backend: VLLMBackend, twins: dict[str, HFBackend], family: str
) -> None:
    greedy = Sampling(temperature=0.0, max_new_tokens=12)
    asked = requests(4)
    theirs = {r.clip: a[0] for r, a in zip(asked, twins[family].generate(asked, greedy), strict=True)}
    ours = {clip: a[0] for clip, a in ask(backend, asked, greedy).items()}
    same = [clip for clip in ours if ours[clip].text == theirs[clip].text]
    print(f"{family}: {len(same)} of {len(ours)} untrained answers identical")
    assert len(same) >= 3  # untrained weights are nearly undecided: a rounding can turn a token
    for clip in same:
        kept = ("prompt_tokens", "vision_tokens", "completion_tokens", "finish_reason", "effective_fps")
        assert all(getattr(ours[clip], k) == getattr(theirs[clip], k) for k in kept)


def test_a_pixel_budget_is_honoured(backend: VLLMBackend, twins: dict[str, HFBackend], family: str) -> None:
    (request,) = requests(1)
    budget = 34 * 112 * 140 // 4  # of 34 frames, a quarter of what the models would take at most
    encoded = encode_request(request, twins[family].net, twins[family].processor, total_pixels=budget)
    free = encode_request(request, twins[family].net, twins[family].processor)
    backend.total_pixels = budget
    try:
        (response,) = ask(backend, [request])[request.clip]
    finally:
        backend.total_pixels = None
    assert response.vision_tokens == encoded.vision_tokens < free.vision_tokens


def test_frames_as_large_as_a_7b_models(
    backend: VLLMBackend, family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """vLLM counts the tokens itself, and must find ours; the sizes of untrained models would hide a mistake."""
    monkeypatch.setattr(backend.processor.video_processor, "size", SIZES[family])
    request = clip_request(tmp_path, 8, (512, 512))
    (response,) = ask(backend, [request])[request.clip]
    assert response.vision_tokens == show(request, backend.processor).vision_tokens > 1000


def test_trials_have_their_seeds_and_can_be_asked_alone(backend: VLLMBackend) -> None:
    asked = requests(3, trials=5)
    first = ask(backend, asked)
    for request in asked:
        answers = first[request.clip]
        assert [r.trial for r in answers] == [0, 1, 2, 3, 4]
        assert [r.seed for r in answers] == [row_seed(0, request.clip, t) for t in range(5)]
        assert len({r.text for r in answers}) > 1
        assert all(r.latency_s > 0 for r in answers)
    alone = {r.clip: ask(backend, [replace(r, trials=(3,))])[r.clip] for r in asked}
    assert {r.trial for answer in alone.values() for r in answer} == {3}
    check_nearly_all(
        {clip: [r.text for r in answer] for clip, answer in alone.items()},
        {clip: [answer[3].text] for clip, answer in first.items()},
        share=0.6,  # two of three
    )
    other = ask(backend, asked[:1], replace(SHORT, seed=1))[asked[0].clip]
    assert [r.text for r in other] != [r.text for r in first[asked[0].clip]]


def test_structure_is_kept(backend: VLLMBackend) -> None:
    pattern = r"<answer>\nEvent 1: <[0-9]\.[0-9]{2}> <[0-9]\.[0-9]{2}> grasping\n</answer>"
    schema = {
        "type": "object", "additionalProperties": False, "required": ["event", "start"],
        "properties": {"event": {"const": "grasping"}, "start": {"type": "number", "minimum": 0, "maximum": 9}},
    }  # fmt: skip
    plain, first, second = requests(3, trials=3)
    asked = [
        plain,
        replace(first, constraint=Constraint("regex", pattern)),
        replace(second, constraint=Constraint("json", json.dumps(schema))),
    ]
    found = ask(backend, asked, Sampling(temperature=1.0, max_new_tokens=120))
    for response in found[first.clip]:
        assert re.fullmatch(pattern, response.text), response.text
        assert response.finish_reason == "stop"
    for response in found[second.clip]:
        if response.finish_reason == "stop":  # a babbler may fill its budget with digits
            assert json.loads(response.text)["event"] == "grasping"
        else:
            assert response.text.lstrip().startswith("{")
    assert not any(re.fullmatch(pattern, r.text) for r in found[plain.clip])


def test_json_has_no_white_space_to_babble(backend: VLLMBackend) -> None:
    (request,) = requests(1, trials=5)
    asked = replace(request, constraint=answer_constraint("json", request.labels, 9.0))
    for response in ask(backend, [asked], Sampling(temperature=1.0, max_new_tokens=300))[request.clip]:
        assert response.text.startswith('{"events":[{"event":1,"label":"')
        assert not re.search(r"\s", re.sub(r'"[^"]*"', "", response.text)), response.text
    assert backend.settings()["options"] == {}  # ids of requests stay what they were


def test_bad_clips_are_named_and_the_others_answered(qwen25: VLLMBackend, tmp_path: Path) -> None:
    good, broken, long, odd, last = [*requests(4), replace(requests(1)[0], clip="last")]
    cut_off = tmp_path / "cut-off.mp4"
    assert isinstance(good.video, Path)
    cut_off.write_bytes(good.video.read_bytes()[:3000])
    endless = write_clip(tmp_path / "endless.mp4", 1200, (320, 320))
    asked = [
        good, replace(broken, video=cut_off), replace(long, video=endless, fps=30.0),
        replace(odd, constraint=Constraint("regex", "([0-9]")), last,
    ]  # fmt: skip
    found = {request.clip: answer for request, answer in qwen25.stream(asked, SHORT)}
    assert len(found) == 5
    for clip, part in {broken.clip: "cut-off.mp4", long.clip: "4096", odd.clip: "Regex parsing error"}.items():
        error = found[clip]
        assert isinstance(error, TempolocError), clip
        assert str(error).startswith(clip)
        assert part in str(error), error
        print(error)
    for clip in (good.clip, "last"):
        assert isinstance(found[clip], list)


def test_prompt_and_answer_must_fit(qwen25: VLLMBackend) -> None:
    (request,) = requests(1)
    ((_, answer),) = qwen25.stream([request], Sampling(max_new_tokens=4000))
    assert isinstance(answer, TempolocError)
    assert "lower fps, pixels or max_new_tokens" in str(answer)


def test_clips_are_read_as_they_are_needed(qwen25: VLLMBackend) -> None:
    taken = 0

    def endless() -> Iterator[Request]:
        nonlocal taken
        for request in cycle(requests(4, trials=10)):
            taken += 1
            yield request

    stream = qwen25.stream(endless(), SHORT)
    for _ in range(3):
        next(stream)
    room = qwen25.llm.llm_engine.vllm_config.scheduler_config.max_num_seqs
    assert taken <= room // 10 + 1 + 3 + 2  # in the engine, answered, being read
    assert isinstance(stream, Generator)
    stream.close()
    assert not qwen25.llm.llm_engine.has_unfinished_requests()


def test_a_stream_left_early_leaves_nothing_behind(qwen25: VLLMBackend) -> None:
    asked = requests(4, trials=3)
    whole = texts(qwen25, asked)
    stream = qwen25.stream(asked, SHORT)
    next(stream)
    assert isinstance(stream, Generator)
    stream.close()
    check_nearly_all(texts(qwen25, asked), whole)


def test_same_number_other_frames(qwen25: VLLMBackend) -> None:
    """A second stream may not be answered with the first one's frames: the same question, a blank video between."""
    (one,) = requests(1, trials=6)
    blank = replace(one, view=replace(one.view, content="blank"))
    seen = texts(qwen25, [one])[one.clip]
    unseen = texts(qwen25, [blank])[one.clip]
    assert sum(a == b for a, b in zip(seen, unseen, strict=True)) <= 2
    check_nearly_all(texts(qwen25, [one]), {one.clip: seen})


def test_resume_asks_for_what_is_missing(qwen25: VLLMBackend, tmp_path: Path) -> None:
    benchmark = replace(SIM, clips=tuple(c for c in SIM.clips if c.clip in VIDEOS)[:2])
    out = tmp_path / "predictions.jsonl"
    settings = {"fps": 4.0, "view": View("pair"), "prompt": "tiny", "sampling": SHORT}
    first = run_backend(qwen25, benchmark, out, trials=3, **settings)  # type: ignore[arg-type]
    lines = out.read_text().splitlines(keepends=True)
    out.write_text("".join(lines[:-2]))
    second = run_backend(qwen25, benchmark, out, trials=3, **settings)  # type: ignore[arg-type]
    assert (first.written, second.written, second.kept) == (6, 2, 4)
    before, after = (
        {(row["clip"], row["trial"], row["seed"], row["request_id"]): row["text"] for row in map(json.loads, text)}
        for text in (lines, out.read_text().splitlines())
    )
    assert after.keys() == before.keys()
    assert sum(after[key] == text for key, text in before.items()) >= 5  # four were kept
    record = json.loads(next(tmp_path.glob("*.run.json")).read_text())
    assert record["settings"]["backend_settings"]["engine"] == "vllm"


WAY = ask_config("tempoloc-tiny").changed(fps=4)


def test_the_doctor_sees_what_the_engine_is_sent(backend: VLLMBackend, family: str) -> None:
    found = examine(backend, FOLDERS[family](), WAY)
    assert found.faults == (), str(found)
    assert {f.severity for f in found.findings} <= {"ok", "note"}  # a batch may turn a token of a repeated answer


@pytest.mark.parametrize(
    ("fault", "names"),
    [
        (ill.half_rate, ("frames a second",)),
        (ill.backwards, ("order",)),
        (ill.one_seed, ("seeds differ",)),
        (ill.any_seed, ("seeds repeat",)),
        (ill.free, ("constraint regex", "constraint json")),
    ],
)
def test_the_doctor_names_a_planted_fault(
    qwen25: VLLMBackend, fault: Callable[..., Any], names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert examine(ill.plant(fault, vllm_offline, qwen25, monkeypatch), qwen25_folder(), WAY).faults == names


def test_lost_metadata_are_refused_and_said(qwen25: VLLMBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """The back end looks at the seconds of each clip itself."""
    prompt = vllm_offline.vllm_prompt

    def timeless(shown: Shown) -> dict[str, Any]:
        return prompt(replace(shown, metadata=shown.metadata | {"fps": 24.0}))

    monkeypatch.setattr(vllm_offline, "vllm_prompt", timeless)
    found = examine(qwen25, qwen25_folder(), WAY)
    assert found.faults == ("answer",)
    assert "frame pairs to be 0.083 s apart instead of 0.500 s" in found.findings[0].message


def test_a_model_that_cannot_be_loaded(tmp_path: Path) -> None:
    with pytest.raises(TempolocError, match=r"config\.json"):
        VLLMBackend(tmp_path)
    with pytest.raises(TempolocError, match="vLLM cannot load it"):
        VLLMBackend(qwen25_folder(), options={"max_model_len": 10**9})
