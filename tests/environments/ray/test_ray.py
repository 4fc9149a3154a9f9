"""The Ray back end on this machine: Ray Data's own vLLM stage, with one engine and with two."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from asking import SHORT, ask, requests, run_backend
from safetensors.torch import load_file, save_file
from wide_models import qwen3, qwen25

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.engines.make import make_engine
from tempoloc_nb.engines.protocol import Request, Response
from tempoloc_nb.engines.ray_cluster import RayBackend
from tempoloc_nb.engines.vllm_offline import VLLMBackend
from tempoloc_nb.models.ask import Sampling
from tempoloc_nb.models.constraints import Constraint
from tempoloc_nb.video.view import View

LAPTOP = {"num_cpus": 4, "object_store_memory": 300_000_000}
SMALL = {"max_num_seqs": 16, "mm_processor_cache_gb": 0.2}


def ray_backend(folder: Path | None = None, **others: Any) -> RayBackend:
    given = {"title": "untrained", "options": SMALL, "ray_options": LAPTOP, **others}
    return RayBackend(folder or qwen25(), **given)


@dataclass(frozen=True)
class Process:
    """A process of Ray or vLLM: its short name, and its parent."""

    name: str
    parent: int


def processes() -> dict[int, Process]:
    """The processes of Ray and vLLM: an engine does not always get its name, and is multiprocessing's until then."""
    found: dict[int, Process] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            pid, described = stat.read_text(errors="replace").split(" (", 1)
            name, rest = described.rsplit(") ", 1)
            state, parent, *_ = rest.split()
            if state not in "ZX" and (re.match(r"(ray|VLLM)::|raylet|gcs_server", name) or is_spawned(stat.parent)):
                found[int(pid)] = Process(name, int(parent))
    return found


def is_spawned(process: Path) -> bool:
    """Whether this environment's multiprocessing has started a process."""
    command = (process / "cmdline").read_text(errors="replace")
    return command.startswith(f"{sys.executable}\0") and "multiprocessing.spawn" in command


def engines() -> list[int]:
    """vLLM's engines: what Ray's workers have started."""
    running = processes()
    workers = {pid for pid, process in running.items() if process.name.startswith("ray::MapWorker")}
    return [pid for pid, process in running.items() if process.parent in workers]


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    before = processes()
    yield
    end = time.monotonic() + 120  # what was killed may take a moment to go
    while (left := processes().keys() - before) and time.monotonic() < end:
        time.sleep(0.2)
    assert not left
    assert not multiprocessing.active_children()


@pytest.fixture
def logs() -> Iterator[Path]:
    """A folder for Ray's logs; its name has to be short, for sockets are made in it."""
    folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


def engines_at_work(logs: Path) -> list[Path]:
    """The logs of engines that have finished a batch: Ray may hold back the first answer until all are made."""
    return [p for p in logs.glob("session_2*/logs/worker-*.err") if b"Elapsed time for batch" in p.read_bytes()]


def test_two_engines_answer_as_one_and_the_run_resumes(
    logs: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_DATA_DEFAULT_WAIT_FOR_MIN_ACTORS_S", "1200")  # or the first engine leaves the other nothing
    benchmark = load_benchmark("sim").head(2)
    benchmark = replace(benchmark, clips=benchmark.with_videos()[:8])
    out = tmp_path / "predictions.jsonl"
    sampling = Sampling(temperature=1.0, max_new_tokens=200)  # long enough to keep an engine busy
    settings: dict[str, Any] = {"fps": 2.0, "trials": 3, "view": View("pair"), "prompt": "tiny", "sampling": sampling}
    options: dict[str, Any] = {"title": "untrained", "options": SMALL, "concurrency": 2}
    two = make_engine("ray", qwen25(), data_parallel=2, ray_options={**LAPTOP, "_temp_dir": str(logs)}, **options)
    first = run_backend(two, benchmark, out, **settings)
    assert (first.written, first.failed) == (24, ())
    assert len(engines_at_work(logs)) == 2
    lines = out.read_text().splitlines(keepends=True)
    assert len({json.loads(line)["text"] for line in lines}) > 12

    out.write_text("".join(line for line in lines if json.loads(line)["trial"] == 1))
    second = run_backend(make_engine("ray", qwen25(), ray_options=LAPTOP, **options), benchmark, out, **settings)
    assert (second.written, second.kept) == (16, 8)
    before, after = (
        {(row["request_id"], row["trial"]): {k: v for k, v in row.items() if k != "latency_s"} for row in rows}
        for rows in (map(json.loads, lines), map(json.loads, out.read_text().splitlines()))
    )
    same = sum(before[key] == after[key] for key in before)
    said = capfd.readouterr()
    assert (said.out, "ray" in said.err.lower()) == ("", False)  # Ray's own noise
    print(f"{same} of {len(before)} rows of two engines and of one are equal")
    assert before.keys() == after.keys()
    assert same >= 22  # untrained weights are nearly undecided: a rounding can turn a token


def but_for_text(responses: list[Response]) -> list[Response]:
    return [replace(r, text="", finish_reason="", completion_tokens=0, latency_s=0.0) for r in responses]


@pytest.mark.parametrize("folder", [qwen25, qwen3])
def test_clips_are_answered_as_by_vllm_and_bad_ones_named(folder: Any, tmp_path: Path) -> None:
    sampling = Sampling(temperature=1.0, max_new_tokens=80)
    asked = requests(4, trials=5)
    plain = VLLMBackend(folder(), title="untrained", options=SMALL)
    pattern = r"<answer>\nEvent 1: <[0-9]\.[0-9]{2}> <[0-9]\.[0-9]{2}> grasping\n</answer>"
    asked[1] = replace(asked[1], constraint=Constraint("regex", pattern))
    schema = '{"type": "object", "properties": {"event": {"const": "a"}}, "required": ["event"]}'
    asked[0] = replace(asked[0], constraint=Constraint("json", schema))
    expected = ask(plain, asked, sampling)
    assert ray_backend(folder()).settings() == plain.settings()
    plain.close()
    longest = max(asked, key=lambda r: expected[r.clip][0].prompt_tokens)
    context = expected[longest.clip][0].prompt_tokens + 20
    del expected[longest.clip]

    cut_off = tmp_path / "cut-off.mp4"
    whole = asked[0].video
    assert isinstance(whole, Path)
    cut_off.write_bytes(whole.read_bytes()[:3000])
    bad = {
        "broken": ("cut-off.mp4", replace(asked[0], clip="broken", video=cut_off)),
        "odd": ("vLLM refuses it", replace(asked[0], clip="odd", constraint=Constraint("regex", "([0-9]"))),
        "long": ("exceed the engine's context", replace(longest, clip="long", constraint=Constraint("regex", "a{80}"))),
    }  # fmt: skip
    good = [r for r in asked if r.clip in expected]
    backend = ray_backend(folder(), options={**SMALL, "max_model_len": context})
    stream = backend.stream([*good, *(r for _, r in bad.values())], sampling)
    found = {r.clip: a for r, a in stream}
    assert len(found) == len(good) + len(bad)
    for clip, (part, _) in bad.items():
        error = found[clip]
        assert isinstance(error, TempolocError), clip
        assert str(error).startswith(clip)
        assert part in str(error)
        assert "\n" not in str(error)
        print(error)
    same = 0
    for clip, theirs in expected.items():
        ours = found[clip]
        assert isinstance(ours, list)
        assert but_for_text(ours) == but_for_text(theirs)
        assert all(r.latency_s > 0 for r in ours)
        same += sum(a.text == b.text for a, b in zip(ours, theirs, strict=True))
        if clip == asked[1].clip:
            assert all(re.fullmatch(pattern, r.text) and r.finish_reason == "stop" for r in ours)
        if clip == asked[0].clip:
            assert {r.text for r in ours} == {'{"event":"a"}'}
    print(f"{same} of 15 texts are vLLM's own")
    assert same >= 13


def misshapen(folder: Path) -> Path:
    """The model with a matrix that its config does not describe: vLLM's own process falls over it."""
    shutil.copytree(qwen25(), folder)
    weights = load_file(folder / "model.safetensors")
    name = next(n for n in weights if n.endswith("mlp.down_proj.weight") and "visual" not in n)
    weights[name] = torch.zeros(8, 8)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


def test_what_cannot_be_loaded_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(TempolocError, match=r"config\.json"):
        RayBackend(tmp_path)
    for backend, part in (
        (ray_backend(options={**SMALL, "max_model_len": 10**9}), "max_model_len"),
        (ray_backend(misshapen(tmp_path / "model")), "Engine core initialization failed"),
    ):
        with pytest.raises(TempolocError, match=rf"untrained: vLLM cannot load it: .*{part}.*Logs of Ray") as raised:
            list(backend.stream(requests(2), SHORT))
        print(raised.value)
        assert "\n" not in str(raised.value)


def test_ray_that_cannot_be_reached_or_does_not_answer() -> None:
    with pytest.raises(TempolocError, match=r"no Ray cluster answers at 127\.0\.0\.1:1"):
        list(ray_backend(ray_options={"address": "127.0.0.1:1"}).stream(requests(1), SHORT))
    backend = ray_backend()
    backend.patience = 2
    with pytest.raises(TempolocError, match="untrained: no answer for 2 s"):
        list(backend.stream(requests(1), SHORT))
    assert list(ray_backend().stream([], SHORT)) == []


@contextmanager
def meanwhile(look: Callable[[], object]) -> Iterator[None]:
    """Look again and again until the block is left."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.1):
            look()

    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(watch)
        try:
            yield
        finally:
            over.set()
        watching.result()


LONG = Sampling(temperature=1.0, max_new_tokens=200)


def much_to_ask() -> list[Request]:
    """Sixty clips, four trials of each: after the first batch a lot is left, for a late watcher, too."""
    return [replace(r, clip=f"{r.clip}-{i}") for i in range(15) for r in requests(4, trials=4)]


def test_an_engine_that_is_killed_is_started_again(logs: Path) -> None:
    seen, killed, asked = set[int](), list[int](), much_to_ask()
    looks = dict[tuple[int, int], float]()

    def kill_one() -> None:
        at_work = engines()
        seen.update(at_work)
        done = len(engines_at_work(logs))
        looks.setdefault((len(at_work), done), time.monotonic() - began)
        if at_work and not killed and done:
            os.kill(at_work[0], signal.SIGKILL)
            killed.append(at_work[0])

    began = time.monotonic()
    with meanwhile(kill_one):
        backend = ray_backend(concurrency=4, ray_options={**LAPTOP, "_temp_dir": str(logs)})
        answered = list(backend.stream(asked, LONG))
    assert [str(answer) for _, answer in answered if not isinstance(answer, list)] == []
    assert {r.clip for r, _ in answered} == {r.clip for r in asked}
    assert all(isinstance(answers, list) and len(answers) == 4 for _, answers in answered)
    when = f"second when (engines, logs with a finished batch) were first seen: {looks}, {os.listdir(logs)}"
    assert killed, when
    assert len(seen) > 1, when  # another took its place


def test_a_driver_that_is_killed(logs: Path) -> None:
    def kill() -> None:
        if engines_at_work(logs):
            for driver in multiprocessing.active_children():
                driver.kill()

    with meanwhile(kill), pytest.raises(TempolocError, match="driver was ended"):
        list(ray_backend(concurrency=4, ray_options={**LAPTOP, "_temp_dir": str(logs)}).stream(much_to_ask(), LONG))
    assert not multiprocessing.active_children()


def test_a_stream_that_is_left_early() -> None:
    stream = ray_backend(concurrency=2).stream(requests(4, trials=4), SHORT)
    next(stream)
    assert isinstance(stream, Generator)
    stream.close()
    assert not multiprocessing.active_children()
