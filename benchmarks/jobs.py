"""Many jobs on one machine: each begins once what it needs is there and cores and a GPU are free; done ones are noted.

`tiny_runs.py` says what the jobs are. A note is OUT/done/NAME.json, a log OUT/logs/NAME.log.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import traceback
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.files import read_object, write_json
from tempoloc_nb.core.machine import cores


@dataclass(frozen=True)
class Job:
    """A process, or a function of this one: what it waits for, what it takes of the machine, and what it leaves."""

    name: str
    step: str
    command: tuple[object, ...] | partial[str]
    result: Path
    needs: tuple[str, ...] = ()
    cores: int = 1
    gpu: int = 0  # places on one GPU
    nice: bool = False

    @property
    def told(self) -> list[str]:
        """The command as the note of a finished job has it."""
        if isinstance(self.command, partial):
            return [self.command.func.__name__, *map(str, self.command.args)]
        return list(map(str, self.command))


class Desk:
    """Runs jobs as cores and places on GPUs get free, and notes which ended well."""

    def __init__(self, out: Path, gpus: int, places: int) -> None:
        self.out, self.cpu = out, gpus == 0
        self.free_cores = self.all_cores = cores()
        self.free = [places] * max(1, gpus)  # without a GPU its jobs share the processor
        self.failed: list[str] = []
        for name in ("logs", "done"):
            (out / name).mkdir(parents=True, exist_ok=True)

    def note(self, name: str) -> dict[str, Any]:
        """What is noted of a job that ended well; empty if none did."""
        path = self.out / "done" / f"{name}.json"
        return read_object(path, "note") if path.is_file() else {}

    def done(self, job: Job) -> bool:
        """Whether a job's result is there, made by the same command from what is there now."""
        noted = self.note(job.name)
        newest = max((self.note(need).get("ended", 0.0) for need in job.needs), default=0.0)
        return noted.get("command") == job.told and job.result.exists() and noted["began"] >= newest

    def run(self, job: Job, gpu: int) -> None:
        """Run a job; what it says goes to its log. Raises `TempolocError` if it fails."""
        told: dict[str, Any] = {"step": job.step, "command": job.told, "began": time.time()}
        path = self.out / "logs" / f"{job.name}.log"
        with path.open("a", encoding="utf-8") as log:
            if isinstance(job.command, partial):
                try:
                    told["said"] = job.command()
                    print(told["said"], file=log)
                except Exception:
                    traceback.print_exc(file=log)
                    raise
            else:
                given = dict(os.environ, PYTHONUNBUFFERED="1", OMP_NUM_THREADS="2" if job.gpu else "1")
                if job.gpu:
                    given["CUDA_VISIBLE_DEVICES"] = "" if self.cpu else self._names()[gpu]
                command = ["nice", "-n", "10", *job.told] if job.nice else job.told
                status = subprocess.run(command, env=given, stdout=log, stderr=subprocess.STDOUT).returncode
                if status:
                    raise TempolocError(f"exit status {status}")
        write_json(self.out / "done" / f"{job.name}.json", told | {"ended": time.time()})

    def _names(self) -> list[str]:
        """The GPUs as CUDA_VISIBLE_DEVICES calls them, the caller's own choice where there is one."""
        given = os.environ.get("CUDA_VISIBLE_DEVICES")
        return given.split(",") if given else [str(k) for k in range(len(self.free))]

    def _take(self, job: Job, gpu: int, sign: int = 1) -> None:
        self.free[gpu] -= sign * job.gpu
        self.free_cores -= sign * min(job.cores, self.all_cores)

    def _next(self, waiting: Sequence[Job], running: Iterable[Job]) -> tuple[Job, int | None] | None:
        """The first job that can begin and its GPU, None for one that is done; None if all have to wait.

        Nothing overtakes a job that waits for cores, nor on the GPUs one that waits for a GPU: a large job would wait
        for ever.
        """
        lacking = {job.name for job in (*waiting, *running)} | set(self.failed)
        gpu, full = max(range(len(self.free)), key=lambda k: self.free[k]), False
        for job in waiting:
            if lacking & set(job.needs) or (job.gpu and full):
                continue
            if self.done(job):
                return job, None
            if self.free_cores < min(job.cores, self.all_cores):
                return None
            if self.free[gpu] >= job.gpu:
                return job, gpu
            full = True
        return None

    def run_all(self, jobs: Sequence[Job]) -> None:
        """Run jobs, those before others first where both could begin; what needs a failed one is left out."""
        waiting, running = list(jobs), dict[Future[None], tuple[Job, int]]()
        with ThreadPoolExecutor(max(1, len(jobs))) as pool:
            while waiting or running:
                found = self._next(waiting, [job for job, _ in running.values()])
                if found is not None:
                    job, gpu = found
                    waiting.remove(job)
                    if gpu is not None:
                        self._take(job, gpu)
                        running[pool.submit(self.run, job, gpu)] = job, gpu
                elif running:
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        ended, where = running.pop(future)
                        self._take(ended, where, -1)
                        self._tell(ended, future)
                else:
                    return

    def _tell(self, job: Job, future: Future[None]) -> None:
        """Say how a job ended."""
        error, at = future.exception(), time.strftime("%H:%M:%S")
        if error is None:
            told = self.note(job.name)
            print(f"{at}  {job.name}: {told['ended'] - told['began']:.0f} s", flush=True)
        else:
            self.failed.append(job.name)
            log = self.out / "logs" / f"{job.name}.log"
            print(f"{at}  {job.name} failed ({error}): see {log}", file=sys.stderr, flush=True)


def length(spans: Iterable[tuple[float, float]]) -> float:
    """The seconds that lie in at least one of some spans of time."""
    total, reached = 0.0, 0.0
    for began, ended in sorted(spans):
        total += max(0.0, ended - max(began, reached))
        reached = max(reached, ended)
    return total
