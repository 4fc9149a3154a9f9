"""The package where it finds nothing that Windows or macOS lack: modules, functions, signals, forked processes.

They are taken away from this package alone: other libraries on this machine know that it runs Linux.
"""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
from blocked import run_without

from tempoloc_nb.clips.manifest import Clip, read_manifest, write_manifest
from tempoloc_nb.clips.tasks import Event
from tempoloc_nb.core.settings import data_dir
from tempoloc_nb.video.files import encode

SETUP = """
import builtins, multiprocessing, os, signal, types

multiprocessing.set_start_method("spawn")
MODULES = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty"}
LACKING = {
    "os": {
        "fork", "forkpty", "setsid", "killpg", "getpgid", "setpgid", "getpgrp", "getuid", "geteuid", "getgid",
        "sched_getaffinity", "sched_setaffinity", "mkfifo", "uname", "sysconf", "statvfs", "chown", "nice",
        "O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK", "O_SYNC", "O_DSYNC", "pread", "pwrite", "posix_fadvise",
    },
    "signal": {"SIGKILL", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGPIPE", "SIGCHLD", "alarm",
               "setitimer", "pthread_sigmask", "sigwait", "pause"},
}
poorer = {}
for known, module in (("os", os), ("signal", signal)):
    poorer[known] = types.ModuleType(known)
    vars(poorer[known]).update({k: v for k, v in vars(module).items() if k not in LACKING[known]})
ordinary = builtins.__import__

def found(name, globals=None, locals=None, fromlist=(), level=0):
    if str((globals or {}).get("__name__", "")).startswith("tempoloc_nb") and not level:
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        if name in poorer:
            return poorer[name]
    return ordinary(name, globals, locals, fromlist, level)

builtins.__import__ = found
"""


def without_linux(code: str, folder: Path) -> tuple[int, str, str]:
    return run_without((), code, folder, setup=SETUP, CUDA_VISIBLE_DEVICES="")


def test_every_module_is_imported(tmp_path: Path) -> None:
    """Modules whose libraries are not in this environment may say so."""
    code = (
        "import importlib, pkgutil, tempoloc_nb\n"
        "for found in pkgutil.walk_packages(tempoloc_nb.__path__, 'tempoloc_nb.'):\n"
        "    if found.name == 'tempoloc_nb.__main__': continue\n"
        "    try: importlib.import_module(found.name)\n"
        "    except ImportError as error:\n"
        "        assert error.name not in ('fcntl', 'resource', 'pwd', 'grp', 'termios', 'tty', 'pty'), found.name\n"
        "    except tempoloc_nb.TempolocError: pass\n"
    )
    assert without_linux(code, tmp_path) == (0, "", "")


def commands(folder: Path, *lines: str) -> None:
    """Run commands one after another in one process, and see that each succeeds."""
    code = (
        "from tempoloc_nb.cli.main import main\n"
        "if __name__ == '__main__':\n"
        f"    for line in {[line.split() for line in lines]!r}:\n"
        "        try: main(line)\n"
        "        except SystemExit as ended: assert not ended.code, line\n"
    )
    script = folder / "script.py"  # processes that are spawned read it again
    script.write_text(code, encoding="utf-8")
    status, out, err = without_linux(f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')", folder)
    assert status == 0, (out, err)
    assert "Traceback" not in err


def test_the_way_of_own_videos(tmp_path: Path) -> None:
    """Found, stamped, asked, combined, scored by two processes, corrected and exported."""
    rng = np.random.default_rng(0)
    clips = []
    for name in "ab":
        encode(tmp_path / "videos" / f"{name}.mp4", rng.integers(0, 255, (40, 64, 64, 3), np.uint8), fps=10)
        events = (Event("one\u2028two", 1.0), Event("end", 3.0))
        clips.append(Clip(f"mugs/{name}", "mugs", events, f"videos\\{name}.mp4", 10.0, duration=4.0))
    write_manifest(tmp_path / "clips.jsonl", clips)
    commands(
        tmp_path,
        "overlay -i videos -o stamped --workers 2",
        "find videos/a.mp4 -e reaching --trials 2 -o found.json",
        "localize --model constant --benchmark clips.jsonl -o p.jsonl",
        "consensus p.jsonl --benchmark clips.jsonl -o c.jsonl",
        "evaluate p.jsonl --benchmark clips.jsonl --resamples 5 --workers 2",
        "dataset export csv clips.jsonl -o t.csv",
        "dataset import csv t.csv -o again/manifest.jsonl --manifest clips.jsonl --who me",
        "dataset build --manifest clips.jsonl -o built --fps 4 --split train=1",
    )
    assert json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert [c.labels for c in read_manifest(tmp_path / "again" / "manifest.jsonl")] == [("one\u2028two", "end")] * 2
    assert len(list((tmp_path / "built").rglob("*.mp4"))) == 2
    for path in tmp_path.glob("*.jsonl"):
        assert b"\r" not in path.read_bytes()


def test_copies_of_a_model_are_processes(tmp_path: Path) -> None:
    """Two copies answer two clips, each in a process that is spawned."""
    benchmark = data_dir() / "benchmarks" / "sim"
    for name in ("000", "001"):
        (tmp_path / "videos" / "stack-three").mkdir(parents=True, exist_ok=True)
        video = benchmark / "videos" / "stack-three" / f"{name}.mp4"
        (tmp_path / "videos" / "stack-three" / f"{name}.mp4").write_bytes(video.read_bytes())
    commands(
        tmp_path,
        "localize --model tempoloc-tiny --benchmark sim --video-root videos --data-parallel 2 --max-new-tokens 8"
        " --fps 1 -o p.jsonl",
    )
    assert len((tmp_path / "p.jsonl").read_bytes().split(b"\n")) == 3


def test_boundaries_are_written_into_demonstrations_without_locks(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "demo.hdf5", "w") as file:
        data = file.create_group("data")
        data.attrs["env_args"] = json.dumps({"env_kwargs": {"control_freq": 20}})
        data.create_dataset("demo_0/actions", data=np.zeros((80, 7)))
        data["demo_0"].attrs["num_samples"] = 80
        data["demo_0"].create_group("datagen_info/subtask_term_signals")
    write_manifest(tmp_path / "clips.jsonl", [Clip("mugs/demo_0", "mugs", (Event("a", 1.0), Event("b", 3.0)), None)])
    commands(tmp_path, "dataset export hdf5 clips.jsonl -o demo.hdf5 --signal a --layout mimicgen --create --rate 20")
    with h5py.File(tmp_path / "demo.hdf5") as file:
        assert int(np.argmax(file["data/demo_0/datagen_info/subtask_term_signals/a"][:])) == 20


def test_the_simulation_takes_away_what_it_says(tmp_path: Path) -> None:
    code = (
        "from tempoloc_nb.core import machine\n"
        "from tempoloc_nb.sft import launch\n"
        "assert not hasattr(machine.os, 'sched_getaffinity') and machine.cores() >= 1\n"
        "assert not hasattr(launch.os, 'killpg') and not hasattr(launch.signal, 'SIGKILL')\n"
    )
    assert without_linux(code, tmp_path) == (0, "", "")


def test_a_training_is_ended_without_process_groups(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, time\n"
        "from tempoloc_nb.sft.launch import _end_run\n"
        "for program in ('', 'import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); '):\n"
        "    program += 'print(1, flush=True); import time; time.sleep(60)'\n"
        "    job = subprocess.Popen([sys.executable, '-c', program], stdout=subprocess.PIPE)\n"
        "    job.stdout.readline()\n"
        "    _end_run(job, 'run', 0.3)\n"
        "    assert job.poll() is not None\n"
        "    job.stdout.close()\n"
    )
    assert without_linux(code, tmp_path) == (0, "", "")
