"""The vLLM back end without vLLM: what enters the engine when, and what is said of a failure."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from asking import SHORT, requests

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.engines import data_parallel, vllm_offline
from tempoloc_nb.engines.protocol import row_seed
from tempoloc_nb.engines.vllm_offline import _VLLMEngine

STARTED = """(EngineCore pid=7) ERROR 11-22 03:40:11 [core.py:1100] EngineCore failed to start.
(EngineCore pid=7) ERROR 11-22 03:40:11 [core.py:1100] Traceback (most recent call last):
(EngineCore pid=7) ERROR 11-22 03:40:11 [core.py:1100]     raise ValueError(x)
(EngineCore pid=7) ERROR 11-22 03:40:11 [core.py:1100] {}
(EngineCore pid=7) Process EngineCore:
"""
VAGUE = RuntimeError("Engine core initialization failed. See root cause above.")


@pytest.mark.parametrize(
    ("line", "told", "way"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 260.00 MiB.", "CUDA out of memory", "fp8"),
        ("ValueError: To serve at least one request with the model's max seq len (128000), 6.84 GiB KV cache is needed",
         "max seq len (128000)", "shorten max_model_len"),
        ("ValueError: Free memory on device (1.2/79.1 GiB) on startup is less than desired GPU memory utilization",
         "Free memory on device", "take a smaller model"),
        ("AssertionError: Error in memory profiling. Initial free memory 97.31 GiB, current free memory 134.0 GiB. "
         "This happens when other processes sharing the same container release GPU memory", "Initial free memory",
         "once the GPU is yours alone"),
        ("ModuleNotFoundError: No module named 'pycountry'", "No module named 'pycountry'", "pip install"),
        ("AssertionError: a head size of 13", "a head size of 13", ""),
    ],
)  # fmt: skip
def test_the_root_cause_is_told_in_a_line(line: str, told: str, way: str) -> None:
    found = vllm_offline._failure(STARTED.format(line), VAGUE)
    assert told in found
    assert way in found
    assert "\n" not in found
    assert way or ";" not in found


def test_without_a_log_the_error_speaks() -> None:
    assert vllm_offline._failure("", VAGUE) == str(VAGUE).rstrip(".")
    assert "pip install" in vllm_offline._failure("", ImportError("libcudart.so.13: cannot open shared object file"))


def test_what_processes_write_is_kept(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    script = "import sys; print('ValueError: of a process', file=sys.stderr)"
    for level, kept in (("ERROR", True), ("INFO", False)):
        monkeypatch.setenv("VLLM_LOGGING_LEVEL", level)
        log = vllm_offline._Log()
        with log.taking():
            subprocess.run([sys.executable, "-c", script], check=True)
        assert ("of a process" in log.text()) == kept
        assert ("of a process" in capfd.readouterr().err) != kept
        assert log.text(log.size()) == ""


@pytest.mark.parametrize("error", [ImportError("libcudart.so.13: cannot open shared object file"), VAGUE])
def test_a_start_that_fails_is_one_error(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(**_: Any) -> None:
        raise error

    platforms = SimpleNamespace(current_platform=SimpleNamespace(is_cpu=lambda: True))
    modules = {"vllm.platforms": platforms}
    processor = SimpleNamespace(from_pretrained=lambda *_, **__: None)
    monkeypatch.setattr(vllm_offline.importlib, "import_module", modules.__getitem__)
    monkeypatch.setattr(vllm_offline, "import_vllm", lambda: SimpleNamespace(LLM=start))
    monkeypatch.setattr(vllm_offline, "tested_transformers", lambda: SimpleNamespace(AutoProcessor=processor))
    monkeypatch.setattr(vllm_offline, "engine_arguments", lambda *_: {})
    with pytest.raises(TempolocError, match=f"^some/model: vLLM cannot load it: {str(error)[:12]}"):
        vllm_offline.VLLMBackend("some/model")


@pytest.mark.parametrize(
    ("on_cpu", "options", "cache"),
    [(True, {}, 4 << 30), (True, {"gpu_memory_utilization": 0.5}, None), (True, {"kv_cache_memory_bytes": 7}, 7),
     (False, {}, None)],
)  # fmt: skip
def test_on_a_cpu_the_engine_takes_no_more_memory_than_it_is_given(
    on_cpu: bool, options: dict[str, Any], cache: int | None
) -> None:
    kind = SimpleNamespace(image_mean=[0.5], image_std=[0.5], rescale_factor=1.0)
    processor = SimpleNamespace(image_processor=kind, video_processor=kind)
    given = vllm_offline.engine_arguments(processor, on_cpu, 1, options)
    assert given.get("kv_cache_memory_bytes") == cache
    assert ("enable_chunked_prefill" in given) == on_cpu


@pytest.mark.parametrize(
    ("tensor_parallel", "given", "kept"),
    [(1, {}, "expandable_segments:True"), (2, {}, None), (1, {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:9"}, None),
     (1, {"PYTORCH_ALLOC_CONF": "backend:native"}, "backend:native")],
)  # fmt: skip
def test_memory_is_kept_whole_unless_gpus_share_it(
    tensor_parallel: int, given: dict[str, str], kept: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        monkeypatch.setenv(name, "")  # so that it is as before afterwards
        monkeypatch.delenv(name)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    vllm_offline._keep_memory_whole(tensor_parallel)
    assert os.environ.get("PYTORCH_ALLOC_CONF") == kept


def short_of_memory() -> vllm_offline.VLLMBackend:
    """A back end whose engine, in this process, runs out of memory after its first answer."""
    backend = object.__new__(vllm_offline.VLLMBackend)
    backend.llm = SimpleNamespace(llm_engine=SimpleNamespace(engine_core=SimpleNamespace()))
    backend._vllm, backend._processes, backend._numbers = None, [], count()
    backend._log, backend.ended, backend.model = vllm_offline._Log(), "", "large"

    def answers(*_: Any) -> Iterator[Any]:
        yield requests(1)[0], []
        raise RuntimeError("CUDA out of memory. Tried to allocate 1.19 GiB.")

    backend._answers = answers  # type: ignore[method-assign]
    return backend


def test_an_engine_without_memory_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = SimpleNamespace(EngineDeadError=type("EngineDeadError", (Exception,), {}))
    monkeypatch.setattr(vllm_offline.importlib, "import_module", {"vllm.v1.engine.exceptions": errors}.__getitem__)
    backend = short_of_memory()
    stream = backend.stream(requests(2), SHORT)
    next(stream)
    said = r"engine has ended \(CUDA out of memory.*shorten max_model_len.*run the same command again"
    with pytest.raises(TempolocError, match=said):
        next(stream)
    with pytest.raises(TempolocError, match=said):
        next(backend.stream(requests(1), SHORT))  # at once: it asks an engine no more that is gone
    # a copy names each clip that is left, and ends, so that the next question starts another
    sent: list[Any] = []
    asked = [(requests(3), SHORT)]
    pipe = SimpleNamespace(send=sent.append, recv=lambda: asked.pop())
    monkeypatch.setattr(data_parallel.signal, "signal", lambda *_: None)
    monkeypatch.setattr(data_parallel, "_load", lambda *_: backend)
    backend.settings = dict  # type: ignore[method-assign]
    data_parallel._work(pipe, "vllm", "cuda:0", 0, {})
    assert [index for index, _ in sent[1:]] == [0, 1, 2]
    assert all("engine has ended" in str(error) for _, error in sent[1:])


class Core:
    """An engine that answers prompts in the order in which they came, a token a step, and remembers what came."""

    def __init__(self) -> None:
        self.came: list[tuple[int, bool]] = []  # seed, whether the frames came with it
        self.open: dict[str, Any] = {}
        config = SimpleNamespace(video_token_id=7)
        self.model_config = SimpleNamespace(hf_config=config, max_model_len=100)
        held: set[str] = set()

        def update(item: tuple[Any, list[Any]], key: str) -> tuple[Any, list[Any]]:
            known = key in held
            held.add(key)
            return (None if known else item[0]), []

        self.renderer = SimpleNamespace(mm_processor_cache=SimpleNamespace(get_and_update_item=update))

    def add_request(self, number: str, prompt: Any, params: Any) -> None:
        self.came.append((params["seed"], prompt["mm_kwargs"]["video"][0] is not None))
        self.open[number] = [params, 0]

    def abort_request(self, numbers: list[str]) -> None:
        for number in numbers:
            del self.open[number]

    def step(self) -> Iterator[Any]:
        for number, state in list(self.open.items()):
            state[1] += 1
            done, tell = state[1] == 3, state[0]["tell"]
            if not (done or (tell and state[1] == 1)):
                continue
            if done:
                del self.open[number]
            text = "abc" if not tell else ("bc" if done else "a")
            said = SimpleNamespace(text=text, token_ids=[0] * len(text), finish_reason="stop" if done else None)
            yield SimpleNamespace(request_id=number, outputs=[said], finished=done, prompt_token_ids=[1, 7, 7])


def test_a_clips_other_trials_wait_for_its_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def params(_: Any, request: Any, sampling: Any, trial: int, *, tell: bool = False) -> dict[str, Any]:
        return {"seed": row_seed(sampling.seed, request.clip, trial), "tell": tell}

    monkeypatch.setattr(vllm_offline, "_sampling_params", params)
    core = Core()
    engine = _VLLMEngine(None, core, SHORT, count())
    one, two = requests(2, trials=3)
    alone = replace(two, clip="alone", trials=(2,))
    for clip in (one, two, alone):
        engine.add(clip, 4.0, {"mm_kwargs": {"video": ["frames"]}, "mm_hashes": {"video": [clip.clip]}})
    assert (len(engine.running), engine.waiting) == (3, 4)
    seeds = [row_seed(0, clip.clip, t) for clip, t in ((one, 0), (two, 0), (alone, 2))]
    assert core.came == [(seed, True) for seed in seeds]
    assert not list(engine.step())
    assert (len(engine.running), engine.waiting) == (7, 0)
    assert core.came[3:] == [(row_seed(0, clip.clip, t), False) for clip in (one, two) for t in (1, 2)]
    found = {}
    while engine.running:
        found.update({request.clip: answer for request, answer in engine.step()})
    assert list(found) == ["alone", one.clip, two.clip]
    for clip in (one, two, alone):
        told = found[clip.clip]
        assert [(r.trial, r.text, r.completion_tokens, r.vision_tokens) for r in told] == [
            (t, "abc", 3, 2) for t in clip.trials
        ]
        assert [r.seed for r in told] == [row_seed(0, clip.clip, t) for t in clip.trials]


def test_a_stream_that_is_left_takes_the_waiting_trials_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_offline, "_sampling_params", lambda *_, tell: {"seed": 0, "tell": tell})
    engine = _VLLMEngine(None, Core(), SHORT, count())
    (one,) = requests(1, trials=3)
    engine.add(one, 4.0, {"mm_kwargs": {"video": ["frames"]}, "mm_hashes": {"video": ["a"]}})
    engine.abort(list(engine.running))
    assert (engine.running, engine.waiting, engine.core.open) == ({}, 0, {})
