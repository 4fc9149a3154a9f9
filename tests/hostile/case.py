"""One hostile try: its folder, the commands that it runs, and what must hold after each of them."""

from __future__ import annotations

import atexit
import base64
import contextlib
import faulthandler
import gc
import hashlib
import json
import os
import random
import re
import resource
import select
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from urllib.parse import quote

from tempoloc_nb.cli.main import main as command_line

COUNTERS = ("misread", "tracebacks", "overwritten", "leaked", "lost", "manners")
"""What is counted. `misread`: a time that is wrong, and said to be ok. `manners`: hangs, crashes, other statuses,
failures without a line, more than `MOST_LINES` lines."""

MOST_LINES = 12
STATUSES = (0, 1, 2, 130)
LIMIT_S = 400.0  # a try takes ten seconds at most; but a machine that others use too may be as slow as it likes
MEMORY = 2 << 30  # bytes above what the harness has
SERVES = b"; Ctrl-C ends it"  # what a server says once others may ask it: it is told to end then
KEPT = 1 << 20  # bytes of output that are looked at

# no word in a key, and no dash but its second: ten characters of it must never be a folder's or a command's name
SECRETS = {
    "TEMPOLOC_API_KEY": "sk-9Hv4Tn6Qx/Zk9+Lm3~VbT2w%Ub8Rd",
    "HF_TOKEN": "hf_2Gc7Pm5Yb4Kd8Wq2Xn6Js0Pv",
    "OPENAI_API_KEY": "sk-6Wd1Rf3Fh8Gt5Jr1Mz7Nc",
}
URL_KEY = "urlkey-5Tg9Hw2Bq8Lx4"
ESCAPE = "\x1b]0;taken\x07"
"""What would rename the user's terminal, if it were printed as it is."""

BARE = re.compile(
    r"^(?:tempoloc: )?(?:\w+\.)*[A-Z]\w*(?:Error|Exception|Warning|Interrupt|Exit|Iteration)\b(?:[:(]|\s*$)"
    r"|^tempoloc: .*\b[A-Z]\w+(?:Error|Exception): "
    r"|Traceback \(most recent call last\)|Exception ignored|^  File \"|\.py:\d+: \w+Warning|object at 0x[0-9a-f]+>"
    r"|^(?:Fatal Python error|Segmentation fault)",
    re.MULTILINE,
)


def forms(secret: str) -> set[bytes]:
    """A key as an error may show it: any ten characters of it, plain, quoted for a URL, in hexadecimal, in base64."""
    found = set()
    for start in range(len(secret) - 9):
        part = secret[start : start + 10]
        found |= {part.encode(), quote(part, safe="").encode(), part.encode().hex().encode()}
    for shift in range(3):  # base64 of the key anywhere in a longer text
        encoded = base64.b64encode(b"\0" * shift + secret.encode()).rstrip(b"=")[4 if shift else 0 : -2]
        found |= {encoded[:14], encoded[-14:], encoded[:14].translate(_URLSAFE), encoded[-14:].translate(_URLSAFE)}
    return found


_URLSAFE = bytes.maketrans(b"+/", b"-_")
_FORMS = {name: forms(secret) for name, secret in {**SECRETS, "a URL's key": URL_KEY}.items()}


def leaks(data: bytes) -> list[str]:
    """The names of the keys that some bytes show."""
    return [name for name, shapes in _FORMS.items() if any(shape in data for shape in shapes)]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended: its status (negative: a signal; None: it hung), what it printed, and for how long it ran."""

    status: int | None
    out: str
    err: str
    seconds: float


Mark = tuple[str, str]


def snapshot(root: Path) -> dict[str, Mark]:
    """Relative path → (kind, content) of all that is below `root`."""
    found: dict[str, Mark] = {}
    for folder, folders, files in os.walk(root):
        for name in [*folders, *files]:
            path = os.path.join(folder, name)
            state = os.lstat(path)
            kind = stat.S_IFMT(state.st_mode)
            mark = ("folder", "")
            if kind == stat.S_IFLNK:
                mark = ("link", os.readlink(path))
            elif kind == stat.S_IFREG:
                with open(path, "rb") as file:
                    mark = ("file", hashlib.file_digest(file, "sha1").hexdigest())
            elif kind != stat.S_IFDIR:
                mark = ("device", f"{kind} {state.st_rdev}")
            found[os.path.relpath(path, root)] = mark
    return found


def spoiled(before: Mapping[str, Mark], after: Mapping[str, Mark], may_change: Collection[str] = ()) -> list[str]:
    """What was there and is another now; `may_change` are patterns of what the command was told to change."""
    kept = {name: mark for name, mark in before.items() if not any(fnmatch(name, p) for p in may_change)}
    return [
        f"{name}: {mark[0]} {'is gone' if name not in after else 'was changed'}"
        for name, mark in kept.items()
        if after.get(name) != mark
    ]


@dataclass
class Case:
    """A try on its way. `here` is the folder in which commands run, below `root`; `made` holds the good files."""

    number: int
    kind: str
    command: str
    seed: str
    root: Path
    made: Path
    server: str
    rng: random.Random = field(init=False)
    faults: list[tuple[str, str]] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = random.Random(f"{self.seed}:{self.number}")
        for name in ("here", "home", "tmp"):
            (self.root / name).mkdir(parents=True)

    @property
    def here(self) -> Path:
        return self.root / "here"

    def bring(self, *names: str) -> None:
        """Copy good files or folders to `here`."""
        for name in names:
            source, target = self.made / name, self.here / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
            else:
                shutil.copy(source, target)

    def url(self, manner: str = "good") -> str:
        """The address of the hostile server, with its manners."""
        return f"{self.server}/{manner}/{self.number}"

    def environment(self, changes: Mapping[str, str]) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if k in ("PATH", "PYTHONPATH", "LANG", "LD_LIBRARY_PATH")}
        own = {
            "HOME": str(self.root / "home"), "TMPDIR": str(self.root / "tmp"), "XDG_CACHE_HOME": str(self.root / "tmp"),
            "HF_HOME": str(self.root / "home" / "hf"), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "COLUMNS": "120",
            "TOKENIZERS_PARALLELISM": "false", "PYTHONUTF8": "1", "MPLCONFIGDIR": str(self.made.parent / "matplotlib"),
            "NO_PROXY": "*", "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip
        return {**kept, **own, **SECRETS, **changes}

    def fault(self, counter: str, text: str) -> None:
        self.faults.append((counter, text))

    def run(
        self,
        *arguments: object,
        may_change: Collection[str] = (),
        env: Mapping[str, str] | None = None,
        file_limit: int | None = None,
        stop: tuple[float, int] | None = None,
        real: bool = False,
        limit: float = LIMIT_S,
        stdout: str | None = None,
    ) -> Outcome:
        """Run a command and judge it. `stop`: (seconds, signal) that ends it; `real`: in a process of its own start."""
        argv = [str(a) for a in arguments]
        self.shown.append(shown(argv))
        before = snapshot(self.root)
        job = Job.start(self, argv, env or {}, file_limit, real, stdout)
        outcome = job.wait(limit, stop)
        self.judge(argv, outcome, before, may_change, stop is not None and stop[1] == signal.SIGKILL)
        return outcome

    def judge(
        self, argv: Sequence[str], outcome: Outcome, before: Mapping[str, Mark], may_change: Collection[str],
        killed: bool = False,
    ) -> None:  # fmt: skip
        """Note what does not hold."""
        self.outcomes.append(outcome)
        self._judge_output(outcome.out, outcome.err)
        after = snapshot(self.root)
        for line in spoiled(before, after, [*may_change, "home", "home/*", "tmp", "tmp/*"]):
            self.fault("overwritten", line)
        kept = [p for p in may_change if ".part" in p]  # from which the same command goes on
        self._judge_files(before, after, killed or (outcome.status or 0) < 0, kept)
        if not (killed and outcome.status == -signal.SIGKILL):
            # what a check finds is its output
            findings = argv[:2] == ["sft", "check"] or argv[:1] == ["check-labels"]
            says = "tempoloc: " in outcome.err or (findings and "\n" in outcome.out)
            self._judge_end(outcome, says, report="--json" in argv and is_json(outcome.err))

    def _judge_output(self, out: str, err: str) -> None:
        if found := BARE.search(err) or re.search(r"Traceback \(most recent call last\)", out):
            self.fault("tracebacks", line_with(out + err if found.string is out else err, found.group()))
        for name, text in (("stdout", out), ("stderr", err)):
            if keys := leaks(text.encode("utf-8", "surrogateescape")):
                self.fault("leaked", f"{name} shows {', '.join(keys)}")
            if ESCAPE in text:
                self.fault("manners", f"{name} has a terminal's escape sequence as it came")

    def _judge_end(self, outcome: Outcome, says: bool, report: bool) -> None:
        status = outcome.status
        if status is None:
            self.fault("manners", f"hung for {outcome.seconds:.0f} s")
        elif status < 0 and -status not in (signal.SIGTERM, signal.SIGINT):
            self.fault("manners", f"ended by {signal.Signals(-status).name}")
        elif status >= 0 and status not in STATUSES:
            self.fault("manners", f"status {status}")
        if (lines := len(outcome.err.splitlines())) > MOST_LINES and not report:
            self.fault("manners", f"{lines} lines on stderr")
        if status == 1 and not says:
            self.fault("manners", f"status 1 without a line: {outcome.err[:200]!r}")

    def _judge_files(
        self, before: Mapping[str, Mark], after: Mapping[str, Mark], killed: bool, kept: Collection[str]
    ) -> None:
        for name in [n for n, mark in after.items() if mark[0] == "file" and before.get(n) != mark]:
            path = self.root / name
            if path.stat().st_size < 1 << 23 and (keys := leaks(path.read_bytes())):
                self.fault("leaked", f"{name} holds {', '.join(keys)}")
        if not killed:
            for name in after.keys() - before.keys():
                left = ".part" in Path(name).name and not any(fnmatch(name, pattern) for pattern in kept)
                if left and not name.startswith(("tmp/", "home/")):
                    self.fault("manners", f"left {name} half written")


def is_json(text: str) -> bool:
    """Whether all of it is one value: the report that `--json` prints to stderr where stdout has a figure."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def shown(argv: Sequence[str]) -> str:
    """A command line, as it can be typed; what is long is cut."""
    return "tempoloc " + " ".join(a if len(a) < 90 else a[:60] + f"…({len(a)})" for a in map(shlex.quote, argv))


def line_with(text: str, part: str) -> str:
    """The exception behind a traceback: its last lines, or the line with `part`."""
    lines = text.strip().splitlines()
    if "Traceback" in part or "File" in part:
        places = [i for i, line in enumerate(lines) if line.startswith("  File ") and "tempoloc_nb" in line]
        last = next((line for line in reversed(lines) if line and not line.startswith((" ", "tempoloc:"))), "")
        return f"{last[:300]} {lines[places[-1]].strip() if places else ''}"
    return next((line for line in lines if part.strip().splitlines()[0] in line), part)[:300]


# Python itself knows no manners: a signal that comes while it starts is none of the command's.
BEGIN = "import os, sys; from tempoloc_nb.__main__ import main; os.close(int(sys.argv.pop(1))); main()"


class Job:
    """A command on its way, in a child of this process or in a process of its own start."""

    def __init__(self, pid: int, out: int, err: int, process: subprocess.Popen[bytes] | None = None) -> None:
        self.pid, self.pipes, self.process = pid, {out: bytearray(), err: bytearray()}, process
        self.began = time.monotonic()

    @classmethod
    def start(
        cls, case: Case, argv: Sequence[str], env: Mapping[str, str], file_limit: int | None, real: bool,
        stdout: str | None = None,
    ) -> Job:  # fmt: skip
        place, changes = case.here, case.environment(env)
        if real:
            begun, begins = os.pipe()
            command = [sys.executable, "-c", BEGIN, str(begins), *argv]
            with contextlib.ExitStack() as opened:
                screen = opened.enter_context(open(stdout, "wb")) if stdout else subprocess.PIPE
                started = subprocess.Popen(
                    command, cwd=place, env=changes, stdin=subprocess.DEVNULL, stdout=screen, stderr=subprocess.PIPE,
                    start_new_session=True, pass_fds=[begins],
                )  # fmt: skip
            os.close(begins)
            with os.fdopen(begun, "rb") as waits:
                waits.read()
            assert started.stderr is not None
            out = started.stdout.fileno() if started.stdout else os.open(os.devnull, os.O_RDONLY)
            return cls(started.pid, out, started.stderr.fileno(), started)
        (out, out_end), (err, err_end) = os.pipe(), os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                _child(argv, place, changes, file_limit, out_end, err_end)
            finally:
                os._exit(99)
        os.close(out_end)
        os.close(err_end)
        return cls(pid, out, err)

    def wait(self, limit: float, stop: tuple[float, int] | None = None) -> Outcome:
        """Read what it prints until it ends, is told to end, or has run too long."""
        status: int | None = None
        told = hung = False
        while True:
            self._read(0.02)
            pid, raw = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                status = os.waitstatus_to_exitcode(raw)
                break
            seconds = time.monotonic() - self.began
            if stop is not None and seconds >= stop[0] and not told:
                told = True
                os.kill(self.pid, stop[1])
            if not told and any(SERVES in data for data in self.pipes.values()):
                told = True
                os.kill(self.pid, signal.SIGTERM)
            if seconds > limit and not hung:
                hung = True
                self._end()
        self._end()  # what it started, too
        seconds = time.monotonic() - self.began
        for _ in range(50):
            if not self._read(0.0):
                break
        texts = [bytes(data).decode("utf-8", "surrogateescape") for data in self.pipes.values()]
        self._close(status)
        return Outcome(None if hung else status, texts[0], texts[1], seconds)

    def _close(self, status: int | None) -> None:
        for pipe in self.pipes if self.process is None else ():
            os.close(pipe)
        if self.process is not None:
            self.process.returncode = status
            for stream in filter(None, (self.process.stdout, self.process.stderr)):
                stream.close()

    def _end(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def _read(self, patience: float) -> bool:
        ready = [fd for fd in select.select(list(self.pipes), [], [], patience)[0]]
        got = False
        for fd in ready:
            data = os.read(fd, 1 << 16)
            got = got or bool(data)
            if len(self.pipes[fd]) < KEPT:
                self.pipes[fd] += data
        if ready and not got:
            time.sleep(patience)  # both ends are closed, and the process is about to go
        return got


def forget() -> None:
    """Empty what the package remembers of files; the schemas of its own types may stay."""
    for name, module in [*sys.modules.items()]:
        if name.startswith("tempoloc_nb."):
            for found in vars(module).values():
                if hasattr(found, "cache_clear") and found.__name__ != "_adapter":
                    found.cache_clear()


def _child(
    argv: Sequence[str], place: Path, env: Mapping[str, str], file_limit: int | None, out: int, err: int
) -> None:
    """The rest of this process's life: a command, as the interpreter would end it."""
    gc.freeze()  # whoever collects a parent's open video here waits for decoding threads that no child has
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # until the command begins
    os.setsid()
    os.chdir(place)
    os.environ.clear()
    os.environ.update(env)
    os.umask(0o022)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (out, 1), (err, 2)):
        os.dup2(source, target)
    os.closerange(3, 64)
    sys.stdin = open(0, encoding="utf-8")  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1)  # noqa: SIM115
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with open("/proc/self/statm") as file:
        has = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (has + MEMORY, has + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if file_limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))
    forget()
    begun = sys.modules["__main__"]  # a pool's processes would import the harness
    begun.__spec__ = None
    begun.__dict__.pop("__file__", None)
    tempfile.tempdir = None
    status: object = 0
    faulthandler.dump_traceback_later(LIMIT_S - 20, file=sys.stderr)  # where it hangs
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        command_line(list(argv))
    except SystemExit as end:
        status = end.code
    except BaseException as error:
        status = 1
        before = isinstance(error, KeyboardInterrupt) and error.__traceback__ and error.__traceback__.tb_next is None
        if before:  # Ctrl-C came before the command's first line
            status = 130
        else:
            traceback.print_exc()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if isinstance(status, str):
        print(status, file=sys.stderr)
    status = status if isinstance(status, int) else 0 if status is None else 1
    try:
        atexit._run_exitfuncs()
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
        status = 120
    os._exit(status)


Attempt = Callable[[Case], None]
