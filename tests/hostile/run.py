"""Hostile tries over every command.

They are the same every time, so that a failure comes from a change. Environment: HOSTILE_SEED (another, or "new"),
HOSTILE_TRIES (how many), HOSTILE_ONLY (a number), HOSTILE_RECORD (a file for the details).
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import made  # noqa: E402
import typer  # noqa: E402
from case import COUNTERS, SECRETS, Case  # noqa: E402
from kinds import plan  # noqa: E402
from uses import missing  # noqa: E402

from tempoloc_nb.cli.main import app  # noqa: E402

TRIES = 800
SEED = "7"
WORKERS = 2
SHOWN = 25  # failures that are shown whole


def warm() -> None:
    """Import what commands import, so that a try costs a fork; and shorten the waits for servers that fail."""
    import tempoloc_nb

    for module in pkgutil.walk_packages(tempoloc_nb.__path__, "tempoloc_nb."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError):  # robosuite, vllm, ray: in other environments
                importlib.import_module(module.name)
    for name in ("torch", "transformers", "datasets", "h5py", "pandas", "httpx", "anyio", "pyarrow.parquet", "lzma",
                 "typer.rich_utils", "matplotlib.figure", "safetensors.torch", "anyio._backends._asyncio"):  # fmt: skip
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    from tempoloc_nb.clips.manifest import load_benchmark
    from tempoloc_nb.engines.http import Patience
    from tempoloc_nb.models.registry import load_registry

    load_benchmark("recipe")  # the schemas of what most commands read
    load_registry()
    build, built = typer.main.get_command, typer.main.get_command(app)
    typer.main.get_command = lambda found: built if found is app else build(found)
    Patience.__init__.__defaults__ = (3.0, 2, 0.01, 0.05, 1.0)  # timeout, retries, first, longest, absence
    gc.collect()
    gc.freeze()


def start_server() -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen([sys.executable, str(HERE / "server.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               text=True)  # fmt: skip
    assert process.stdout is not None
    return process, f"http://127.0.0.1:{process.stdout.readline().strip()}"


def make_files(work: Path, server: str) -> Path:
    """The good files; made in a child, so that no thread of a library lives in this process."""
    folder = work / "made"
    folder.mkdir()
    (work / "matplotlib").mkdir()
    pid = os.fork()
    if pid == 0:
        try:
            os.chdir(folder)
            os.environ.update({"HF_HUB_OFFLINE": "1", **SECRETS})

            def run(*argv: str) -> None:
                try:
                    made_by(list(argv))
                except SystemExit as end:
                    if end.code:
                        raise RuntimeError(f"{argv} ended with {end.code}") from None

            from tempoloc_nb.cli.main import main as made_by

            with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
                made.make_all(folder, run, f"{server}/good/0")
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    if os.waitpid(pid, 0)[1]:
        raise SystemExit("the good files could not be made: no try was made")
    for path in folder.rglob("*.part*"):
        raise SystemExit(f"{path} is left over from making the good files")
    return folder


def attempt(number: int, job: Any, seed: str, work: Path, folder: Path, server: str) -> dict[str, Any]:
    """Make one try; its record."""
    kind, command, act = job
    case = Case(number, kind, command, seed, work / f"try{number}", folder, server)
    began = time.monotonic()
    try:
        act(case)
    except Exception:
        case.fault("manners", "the harness failed: " + traceback.format_exc()[-600:])
    record = {
        "number": number, "kind": kind, "command": command, "faults": case.faults, "shown": case.shown,
        "seconds": round(time.monotonic() - began, 2), "ends": [o.status for o in case.outcomes],
        "err": [o.err[-1500:] for o in case.outcomes] if case.faults else [],
    }  # fmt: skip
    shutil.rmtree(case.root, ignore_errors=True)
    return record


def work_on(index: int, jobs: list[Any], seed: str, work: Path, folder: Path, server: str) -> None:
    """One worker: every `WORKERS`-th try."""
    with (work / f"records{index}.jsonl").open("w") as file:
        for number in range(index, len(jobs), WORKERS):
            print(json.dumps(attempt(number, jobs[number], seed, work, folder, server)), file=file, flush=True)


def run_all(jobs: list[Any], seed: str, work: Path, folder: Path, server: str) -> list[dict[str, Any]]:
    pids = []
    for index in range(WORKERS):
        pid = os.fork()
        if pid == 0:
            try:
                work_on(index, jobs, seed, work, folder, server)
                os._exit(0)
            finally:
                os._exit(1)
        pids.append(pid)
    began, said = time.monotonic(), 0.0
    left = set(pids)
    while left:
        time.sleep(0.2)
        left -= {pid for pid in left if os.waitpid(pid, os.WNOHANG)[0]}
        if time.monotonic() - said > 20:
            said = time.monotonic()
            done = sum(p.read_bytes().count(b"\n") for p in work.glob("records*.jsonl"))
            print(f"{done} of {len(jobs)} tries, {said - began:.0f} s", file=sys.stderr, flush=True)
    lines = [line for i in range(WORKERS) for line in (work / f"records{i}.jsonl").read_text().splitlines()]
    return [json.loads(line) for line in lines]


def table(records: list[dict[str, Any]]) -> str:
    """Tries by command and kind, and what was counted."""
    kinds = list(dict.fromkeys(r["kind"] for r in sorted(records, key=lambda r: r["kind"])))
    tries = Counter((r["command"], r["kind"]) for r in records)
    faults = Counter((r["command"], counter) for r in records for counter in {c for c, _ in r["faults"]})
    columns = [*kinds, "all", *COUNTERS]
    rows = []
    for command in [*sorted({r["command"] for r in records}), ""]:
        mine = [r["command"] for r in records if command in ("", r["command"])]
        counts = [sum(n for (c, k), n in tries.items() if k == kind and command in ("", c)) for kind in kinds]
        found = [sum(n for (c, k), n in faults.items() if k == counter and command in ("", c)) for counter in COUNTERS]
        rows.append([command or "all", *map(str, [*counts, len(mine), *found])])
    width = max(len(row[0]) for row in rows)
    head = " " * width + "".join(f"  {c:>11}" for c in columns)
    return "\n".join([head, *(row[0].ljust(width) + "".join(f"  {c:>11}" for c in row[1:]) for row in rows)])


def tell(records: list[dict[str, Any]], seed: str) -> int:
    """Print the table, what was not tried, and last, where the end of a long output is all that is kept, each fault."""
    bad = [r for r in records if r["faults"]]
    if detailed := os.environ.get("HOSTILE_RECORD"):
        Path(detailed).write_text("".join(json.dumps(r) + "\n" for r in records))
    print(table(records) + "\n")
    for name, reason in skipped().items():
        print(f"not tried: {name}: {reason}")
    for record in sorted(bad, key=lambda r: r["number"])[:SHOWN]:
        number = record["number"]
        print(f"\nHOSTILE_SEED={seed} HOSTILE_TRIES={record['tries']} HOSTILE_ONLY={number} make test-hostile")
        for line in record["shown"]:
            print(f"  {line}")
        for counter, text in record["faults"][:4]:
            print(f"  {counter}: {text[:400]}")
    if len(bad) > SHOWN:
        print(f"\nand {len(bad) - SHOWN} more tries with faults")
    commands = sum(len(r["ends"]) for r in records)
    print(f"\n{len(records)} tries, {commands} commands run, seed {seed}: {len(bad)} tries with faults")
    return len(bad)


def main() -> int:
    seed = os.environ.get("HOSTILE_SEED") or SEED
    seed = str(int.from_bytes(os.urandom(4))) if seed == "new" else seed
    tries, only = int(os.environ.get("HOSTILE_TRIES") or TRIES), os.environ.get("HOSTILE_ONLY")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    print(f"HOSTILE_SEED={seed} HOSTILE_TRIES={tries}", flush=True)
    if untried := missing():
        print(f"no use of {', '.join(sorted(untried))} is known to the harness: add one to uses.py")
        return 1
    began = time.monotonic()
    work = Path(tempfile.mkdtemp(prefix="tempoloc-hostile-"))
    server, url = start_server()
    try:
        warm()
        folder = make_files(work, url)
        print(f"good files made after {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        jobs = plan(seed, tries)
        if only is None:
            records = run_all(jobs, seed, work, folder, url)
        else:
            records = [attempt(int(only), jobs[int(only)], seed, work, folder, url)]
            for text in records[0]["shown"] + records[0]["err"]:
                print(text)
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(work, ignore_errors=True)
    bad = tell([r | {"tries": tries} for r in records], seed)
    print(f"{time.monotonic() - began:.0f} s")
    if only is None and len(records) < len(jobs):
        print(f"{len(jobs) - len(records)} tries were not made: a worker died")
        return 1
    return 1 if bad else 0


def skipped() -> dict[str, str]:
    """What cannot be tried here, and why."""
    found = {"NUL in an argument": "no system starts a command with one"}
    if os.geteuid() == 0:
        found["folders without permission"] = "root may write everywhere; /proc and /sys are tried instead"
    if not Path("/dev/full").exists():
        found["a full screen"] = "there is no /dev/full"
    with tempfile.TemporaryDirectory() as folder:
        try:
            os.mknod(Path(folder) / "x", 0o020666, os.makedev(1, 3))
        except OSError as error:
            found["device nodes as outputs"] = f"none can be made ({error.strerror})"
    for name in ("robosuite", "cosmos_rl", "vllm", "ray"):
        if importlib.util.find_spec(name) is None:
            found[f"what {name} does"] = "not in this environment: the tries end at its absence"
    return found


if __name__ == "__main__":
    sys.exit(main())
