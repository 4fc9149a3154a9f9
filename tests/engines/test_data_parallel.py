"""Copies of a model in processes of their own: the same answers, no answer lost silently, nothing left behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from asking import run_backend
from tiny_models import qwen3, qwen25
from video_clips import write_clip

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.clips.videos import find_videos
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.engines.data_parallel import DataParallelBackend, _answer_each
from tempoloc_nb.engines.hf import HFBackend
from tempoloc_nb.engines.make import make_engine
from tempoloc_nb.engines.protocol import Request, Response
from tempoloc_nb.inference.requests import plan_requests
from tempoloc_nb.models.ask import AskConfig, Sampling
from tempoloc_nb.video.view import View

SIM = load_benchmark("sim").head(2)
DRAWN = Sampling(temperature=0.8, max_new_tokens=10, seed=3)


def requests(count: int, trials: int = 2) -> list[Request]:
    return plan_requests(SIM, find_videos(SIM), AskConfig(prompt="tiny", fps=4, view=View("pair"), trials=trials))[
        :count
    ]


@pytest.fixture(scope="module")
def two() -> Iterator[DataParallelBackend]:
    backend = make_engine("hf", qwen25(), data_parallel=2, device="cpu")
    assert isinstance(backend, DataParallelBackend)
    yield backend
    backend.close()


def texts(backend: Any, asked: Sequence[Request], sampling: Sampling = DRAWN) -> dict[tuple[str, int, int], str]:
    """Texts by clip, trial and seed."""
    found = {}
    for request, answer in backend.stream(asked, sampling):
        assert not isinstance(answer, TempolocError), answer
        found |= {(request.clip, r.trial, r.seed): r.text for r in answer}
    return found


def check_same(found: dict[tuple[str, int, int], str], wanted: dict[tuple[str, int, int], str]) -> None:
    """Equal questions, trials and seeds, and texts but for one in five: processes may have other numbers of threads,
    which round otherwise, and of untrained models that turns one token in ten thousand."""
    assert found.keys() == wanted.keys()
    assert sum(found[key] == text for key, text in wanted.items()) >= 0.8 * len(wanted)


def test_two_processes_answer_as_one_does(two: DataParallelBackend) -> None:
    one = make_engine("hf", qwen25(), device="cpu")
    assert isinstance(one, HFBackend)
    assert (two.model, two.settings()) == (one.model, one.settings())
    asked = requests(5)
    alone = texts(one, asked)
    assert len(set(alone.values())) == len(alone) == 10
    check_same(texts(two, asked), alone)
    few = texts(two, asked[:1])  # fewer requests than processes
    assert few.keys() == {key for key in alone if key[0] == asked[0].clip}


def test_a_run_can_go_on_with_another_number_of_processes(two: DataParallelBackend, tmp_path: Path) -> None:
    few = replace(SIM, clips=SIM.clips[:3])
    out = tmp_path / "p.jsonl"
    first = run_backend(make_engine("hf", qwen25(), device="cpu"), few, out, fps=4, prompt="tiny", sampling=DRAWN)
    second = run_backend(two, few, out, fps=4, trials=2, prompt="tiny", sampling=DRAWN)
    assert (first.written, second.kept, second.written) == (3, 3, 3)


def test_a_bad_clip_is_its_own_error(two: DataParallelBackend, tmp_path: Path) -> None:
    good, other = requests(2)
    torn = tmp_path / "torn.mp4"
    torn.write_bytes(good.video.read_bytes()[:3000])
    long = write_clip(tmp_path / "long.mp4", 450, (256, 256), options={"preset": "ultrafast"})
    bad = [replace(good, clip="bad/torn", video=torn), replace(good, clip="bad/long", video=long, fps=30.0)]
    found = {r.clip: a for r, a in two.stream([bad[0], good, bad[1], other], DRAWN)}
    for clip, why in (("bad/torn", "torn.mp4"), ("bad/long", "exceed the model's context")):
        assert isinstance(found[clip], TempolocError)
        assert why in str(found[clip])
        assert clip in str(found[clip])
    assert len(found[good.clip]) == len(found[other.clip]) == 2


class Breaks:
    """Reads two requests at a time; breaks where one is in `bad`."""

    name, model = "example", "breaks"

    def __init__(self, bad: Sequence[str]) -> None:
        self.bad = bad

    def settings(self) -> dict[str, Any]:
        return {}

    def stream(
        self, requests: Sequence[Request], sampling: Sampling
    ) -> Iterator[tuple[Request, list[Response] | TempolocError]]:
        for i in range(0, len(requests), 2):
            for r in requests[i : i + 2]:
                if r.clip in self.bad:
                    raise RuntimeError("CUDA out of memory\nwith much detail")
            yield from ((r, []) for r in requests[i : i + 2])


@pytest.mark.parametrize("bad", [(0,), (1, 2), (4,), (0, 1, 2, 3, 4)])
def test_what_breaks_a_batch_costs_no_other_clip_its_answer(bad: Sequence[int]) -> None:
    asked = requests(5)
    found = list(_answer_each(Breaks([asked[i].clip for i in bad]), asked, DRAWN))
    assert sorted(i for i, _ in found) == [0, 1, 2, 3, 4]
    for i, answer in found:
        if i in bad:
            assert str(answer) == f"{asked[i].clip}: RuntimeError: CUDA out of memory"
        else:
            assert answer == []


def test_ctrl_c_is_the_parents(two: DataParallelBackend) -> None:
    processes = [w.process for w in two._workers]
    for process in processes:
        assert process.pid is not None
        os.kill(process.pid, signal.SIGINT)
    assert len(texts(two, requests(2))) == 4
    assert [w.process for w in two._workers] == processes


def test_a_process_that_dies_is_named_and_the_other_finishes(two: DataParallelBackend) -> None:
    asked = requests(6)
    victim = two._workers[1].process
    assert victim.pid is not None
    os.kill(victim.pid, signal.SIGSTOP)  # so that it has answered nothing when it is killed
    stream = two.stream(asked, DRAWN)
    answered = [next(stream)]
    os.kill(victim.pid, signal.SIGKILL)
    answered += stream
    assert sorted(r.clip for r, _ in answered) == sorted(r.clip for r in asked)
    errors = {r.clip: str(a) for r, a in answered if isinstance(a, TempolocError)}
    assert errors == {
        r.clip: f"{r.clip}: worker 1 (cpu) was killed by signal 9; run the same command again for what is missing"
        for r in asked[1::2]
    }
    assert len(texts(two, asked)) == 12  # new processes


def test_a_stream_that_is_left_ends_its_processes(two: DataParallelBackend) -> None:
    asked = requests(4)
    stream = two.stream(asked, DRAWN)
    next(stream)
    before = [w.process for w in two._workers]
    stream.close()  # what an exception in the loop, Ctrl-C included, does
    assert not any(p.is_alive() for p in before)
    assert len(texts(two, asked[:2])) == 4


def test_qwen3_in_two_processes() -> None:
    backend = DataParallelBackend(qwen3(), 2, device="cpu", batch=1)
    asked = requests(2, trials=5)
    check_same(texts(backend, asked), texts(HFBackend(qwen3(), device="cpu", batch=1), asked))
    processes = [w.process for w in backend._workers]
    del backend  # collected: nothing is left running
    assert not any(p.is_alive() for p in processes)


def test_what_cannot_be_done_is_one_clear_error(tmp_path: Path) -> None:
    for options, message in (
        ({"tensor_parallel": 2}, "tensor_parallel 2 is not for hf.*use data_parallel"),
        ({"data_parallel": 0}, "data_parallel must be 1 or more"),
        ({"data_parallel": 2, "device": "cuda"}, r"data_parallel 2 needs 2 GPUs, found \d: lower it"),
    ):
        with pytest.raises(TempolocError, match=message):
            make_engine("hf", qwen25(), **options)  # type: ignore[arg-type]
    with pytest.raises(TempolocError, match="unknown backend 'vlm'"):
        make_engine("vlm", qwen25())
    before = {p.pid for p in multiprocessing.active_children()}
    (tmp_path / "model").mkdir()
    with pytest.raises(TempolocError, match=r"has no config\.json"):
        make_engine("hf", tmp_path / "model", data_parallel=2, device="cpu")
    assert {p.pid for p in multiprocessing.active_children()} <= before
