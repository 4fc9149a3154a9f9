"""The kinds of tries: bad files, bad options, bad places, bad servers, kills and two at once."""

from __future__ import annotations

import json
import os
import random
import signal
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import server as hostile
from case import ESCAPE, LIMIT_S, SECRETS, URL_KEY, Case, Job, Outcome
from made import LABELS, MODEL
from mutate import spoil
from reads import read_tries
from uses import ASK, EVENTS, MANIFEST, SCORE, TREE, USES, Use

Made = tuple[str, str, Callable[[Case], None]]
"""(kind, command, what the try does)."""


def prepared(case: Case, use: Use, manner: str = "good") -> list[str]:
    """Bring what a use needs; its command line."""
    case.bring(*use.needs)
    return [case.url(manner) if word == "SERVER" else word for word in use.line]


def settings_of(case: Case, use: Use) -> dict[str, str]:
    return {name: str(case.here / value) for name, value in use.env}


# --- bad files ---


def bad_file(use: Use, name: str) -> Made:
    def attempt(case: Case) -> None:
        line = prepared(case, use)
        path = case.here / name
        if not path.exists():  # a path that only newer versions write
            case.fault("manners", f"the harness has no {name}")
            return
        data, way = spoil(name, path.read_bytes(), case.rng)
        path.unlink()
        path.write_bytes(data)
        case.shown.append(f"# {name}: {way}")
        case.run(*line, may_change=use.changes, env=settings_of(case, use))

    return "files", use.command, attempt


def bad_hdf5(use: Use) -> Made:
    """HDF5 files that can be opened, and hold something else."""

    def attempt(case: Case) -> None:
        import h5py

        line, rng = prepared(case, use), case.rng
        name = next(r for r in use.reads if r.endswith(".hdf5"))
        with h5py.File(case.here / name, "r+") as file:
            paths: list[str] = []
            file.visit(paths.append)
            at = rng.choice(paths)
            way = rng.randrange(6)
            case.shown.append(f"# {name}: {at}, way {way}")
            if way == 0:
                del file[at]
            elif way == 1:
                file["data"].attrs["env_args"] = rng.choice(("", "[]", "NaN", "[" * 100_000, "{}", '{"env_kwargs": 3}',
                    '{"env_kwargs": {"control_freq": "NaN"}}', '{"env_kwargs": {"control_freq": -1e999}}'))  # fmt: skip
            elif way == 2:
                file["data"].attrs["env_args"] = rng.choice((3, [1.0, 2.0]))
            else:
                del file[at]
                file[at] = rng.choice((
                    3, [[float("nan")] * 3] * 2, b"text", [[[1]]], [], [2, -1, 7] * 14, [float("inf")] * 40,
                    h5py.SoftLink(f"/{at}"), h5py.ExternalLink("/etc/passwd", "/data"),
                ))  # fmt: skip
        case.run(*line, may_change=use.changes)

    return "files", use.command, attempt


class Bomb:
    def __reduce__(self) -> Any:
        return (os.system, ("touch taken",))


def bad_pickle(use: Use) -> Made:
    """Pickles that would run something, and pickles of other shapes."""

    def attempt(case: Case) -> None:
        import pickle

        line, rng = prepared(case, use), case.rng
        name = next(r for r in use.reads if r.endswith(".pkl"))
        text: Any = "Event 1: <0.5> <1.0> a"
        shapes: tuple[Any, ...] = (
            Bomb(), {"fps8": Bomb()}, [], 3, None, {}, {"fps8": None}, {"fps8": [1, 2]}, {"fps8": [["a", Bomb()]]},
            {"fps1e999": [text]}, {"fps" + "9" * 400: [text]}, {3: [text], "fps0": [text]}, {"responses": {3: text}},
            {"responses": {"lift_demo_0": b"bytes"}}, {"responses": {"../../x": text, "a/b\nc": text}},
            {"responses": {"\ud800": text}}, {"fps8": ["\ud800"]}, {"fps8": [ESCAPE]}, {("a",): 1, "fps8": [text] * 3},
            {"responses": {"lift_demo_0": "Event 1: <9" + "9" * 300 + "> <1> x"}, "system_prompt": 7},
        )  # fmt: skip
        shape = rng.choice(shapes)
        nested = shape
        if rng.random() < 0.15:
            for _ in range(200):
                nested = [nested]
        case.shown.append(f"# {name}: {type(shape).__name__} {str(shape)[:80]!r}")
        (case.here / name).write_bytes(pickle.dumps(nested, rng.randrange(6)))
        case.run(*line, may_change=use.changes)
        if (case.here / "taken").exists():
            case.fault("manners", "a pickle ran a command")

    return "files", use.command, attempt


# --- types and options ---

WORDS = (
    "nan", "inf", "-inf", "-1", "0", "1e999", "1" + "0" * 400, "99999999999999999999", "", " ", "x" * 300, "é" * 300,
    "a\nb", ESCAPE, "a\u2028b", "-", "--", "nonexistent/x", "..", "1.5", "true", "[1", "{", "=", ",", "a=b", "0/0",
    "%s", "\udcff", "[bold]x[/nope]", "😀", "1/0", "-0.0", "0x10", "1_000", "٣", "null.device", "m", "missing.toml",
    "http://",
)  # fmt: skip


def options_of(path: tuple[str, ...]) -> list[Any]:
    return [p for p in TREE[path].params if p.param_type_name == "option"]


def bad_option(use: Use, name: str, value: str) -> Made:
    def attempt(case: Case) -> None:
        line = prepared(case, use)
        given = value
        if given == "null.device":
            made = null_device(case)
            given = made or given
        if name == "argument":
            at = len(use.command.split())
            line = [*line[:at], given, *line[at + 1 :]]
        else:
            known = [i for i, word in enumerate(line) if word in name.split(",")]
            for i in reversed(known):
                del line[i : i + 2]
            line = [*line, f"{name.split(',')[0]}={given}" if name.startswith("--") else name.split(",")[0]]
            line += [] if name.startswith("--") else [given]
        case.run(*line, may_change=use.changes, env=settings_of(case, use))

    return "options", use.command, attempt


def bad_usage(use: Use) -> Made:
    """Words left out, doubled, in another order, or unknown."""

    def attempt(case: Case) -> None:
        line, rng = prepared(case, use), case.rng
        for _ in range(rng.choice((1, 1, 2, 3))):
            way, at = rng.randrange(4), rng.randrange(len(line))
            if way == 0 and len(line) > 1:
                del line[at]
            elif way == 1:
                line.insert(at, line[at])
            elif way == 2:
                line.insert(at, rng.choice(("--nope", "-x", "-", "", "--", "nope", "--help", "@x", "--json", "-o")))
            else:
                other = rng.randrange(len(line))
                line[at], line[other] = line[other], line[at]
        may = use.changes
        if line[:1] == ["study"] and "--plan" not in line:
            line.append("--plan")
        if line[:2] == ["sft", "launch"] and "--dry-run" not in line:
            line.append("--dry-run")
        case.run(*line, may_change=may, env=settings_of(case, use))

    return "options", use.command, attempt


# --- places ---


def null_device(case: Case, minor: int = 3) -> str | None:
    """A device node of our own, /dev/null's or /dev/full's double: a command that replaces it harms nobody."""
    path = case.here / "null.device"
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, minor))
        path.open("wb").close()
    except OSError:
        return None
    return path.name


def _sentinel(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("precious, and not to be made again\n")
    return path


def at_existing(case: Case, use: Use, line: list[str]) -> None:
    """Something else is there already: a text, or a good file of the same kind."""
    out = case.here / use.output
    like = {".jsonl": "p.jsonl", ".csv": "c.csv", ".toml": "bare.toml", ".json": "spec.json"}.get(out.suffix)
    if like and case.rng.random() < 0.5:
        out.write_bytes((case.made / like).read_bytes())
    elif out.suffix:
        _sentinel(out)
    else:
        _sentinel(out / "notes.txt")
    case.run(*line, env=settings_of(case, use))


def at_input(case: Case, use: Use, line: list[str]) -> None:
    """The output is an input."""
    given = [word for word in line if (case.here / word).exists() and word != use.output]
    if given:
        case.run(*_with_output(line, use, case.rng.choice(given)), env=settings_of(case, use))


def at_link(case: Case, use: Use, line: list[str]) -> None:
    """The output is a link: to a precious file or folder, to nowhere, to itself, to a folder that is not there."""
    out = case.here / use.output
    where = case.rng.choice(("file", "folder", "nowhere", "loop", "far"))
    target = {
        "file": _sentinel(case.root / "elsewhere" / "kept.txt"), "nowhere": case.root / "elsewhere" / "new.txt",
        "folder": _sentinel(case.root / "kept" / "notes.txt").parent, "loop": out,
        "far": case.root / "no" / "folder" / "x",
    }[where]  # fmt: skip
    out.symlink_to(target)
    case.run(*line, env=settings_of(case, use))


def at_folder(case: Case, use: Use, line: list[str]) -> None:
    """A folder where a file is wanted, a file where a folder is."""
    out = case.here / use.output
    if out.suffix:
        out.mkdir()
        if case.rng.random() < 0.5:
            _sentinel(out / "notes.txt")
    else:
        _sentinel(out)
    case.run(*line, env=settings_of(case, use))


def at_device(case: Case, use: Use, line: list[str]) -> None:
    """A device: /dev/null's double, /dev/full's, a pipe with nobody at its end is no place to try."""
    name = null_device(case, case.rng.choice((3, 7)))
    if name:
        out = case.here / use.output
        if out.suffix and case.rng.random() < 0.7:
            (case.here / name).rename(out)
            name = use.output
        case.run(*_with_output(line, use, name), env=settings_of(case, use))


def at_odd(case: Case, use: Use, line: list[str]) -> None:
    """Places where nothing can be written: /proc, a file's inside, names too long, parents that are not there."""
    suffix = Path(use.output).suffix
    _sentinel(case.here / "text")
    odd = case.rng.choice((
        f"/proc/nope/out{suffix}", f"/proc/self/out{suffix}", f"text/out{suffix}", f"{'x' * 300}{suffix}",
        f"{'x' * 250}{suffix}", f"{'a/' * 2100}out{suffix}", f"no/such/folder/out{suffix}",
        f"../here/../here/o{suffix}", "", ".", "..", "/", f"a\nb{suffix}", f"{ESCAPE}{suffix}", f"\u2028{suffix}",
        f"\udcff{suffix}",
        f"-o{suffix}", f"--force{suffix}", f" {suffix}", f"~{suffix}", f"é😀{suffix}", f"/sys/kernel/out{suffix}", "-",
        "text",
    ))  # fmt: skip
    case.run(*_with_output(line, use, odd), env=settings_of(case, use))


def at_full(case: Case, use: Use, line: list[str]) -> None:
    """No file may grow beyond a few bytes: what a full disk does."""
    limit = case.rng.choice((0, 1, 100, 1000, 4096, 20_000))
    case.shown.append(f"# no file may have more than {limit} bytes")
    done = case.run(*line, env=settings_of(case, use), file_limit=limit)
    out = case.here / use.output
    ends = {".csv": b"\n", ".vtt": b"\n", ".svg": b"</svg>\n", ".toml": b"\n", ".json": b"\n"}
    if done.status and out.is_file() and not out.read_bytes().endswith(ends.get(out.suffix, b"")):
        case.fault("manners", f"left a half {use.output}")


def at_screen(case: Case, use: Use, line: list[str]) -> None:
    """`-o -` is the screen, and makes no file."""
    case.run(*_with_output(line, use, "-"), env=settings_of(case, use))


def at_readonly(case: Case, use: Use, line: list[str]) -> None:
    """A file system that is read only."""
    case.run(*_with_output(line, use, f"/sys/fs/out{Path(use.output).suffix}"), env=settings_of(case, use))


def at_twice(case: Case, use: Use, line: list[str]) -> None:
    """The same command again, then another file under the same name: neither takes what is there."""
    if case.run(*line, env=settings_of(case, use)).status == 0:
        case.run(*line, env=settings_of(case, use), may_change=[f"here/{use.output}*", "here/out.run.json"])
        out = case.here / use.output
        if out.is_file():
            _sentinel(out)
            case.run(*line, env=settings_of(case, use))


PLACES = (at_existing, at_existing, at_input, at_link, at_link, at_folder, at_device, at_odd, at_odd, at_full, at_full,
          at_screen, at_readonly, at_twice)  # fmt: skip


def _with_output(line: list[str], use: Use, output: str) -> list[str]:
    if "-o" not in line:
        return [*line[:-1], output] if use.output else line
    at = line.index("-o")
    return [*line[:at], "--output=" + output, *line[at + 2 :]]


def bad_place(use: Use, where: Callable[[Case, Use, list[str]], None]) -> Made:
    return "places", use.command, lambda case: where(case, use, prepared(case, use))


OUTSIDE = ("../../elsewhere/kept.mp4", "/etc/passwd", "../m/a.mp4", "a.mp4/../a.mp4", "~/x.mp4", "\u2028.mp4",
           "a\n.mp4")  # fmt: skip
NAMES = (
    "mug/../../../elsewhere/kept", "mug//etc/x", "mug/..", "mug/.", "mug/" + "x" * 300, "mug/a\nb", "mug/\u2028",
    "../mug/a",
    "mug/" + ESCAPE, "mug/con", "mug/a\\b", "mug/é", "mug/ ", "mug/-", "mug/a b", "mug/%2e%2e",
)  # fmt: skip


def outside(use: Use) -> Made:
    """Videos and clip names in a manifest that lead out of the folder."""

    def attempt(case: Case) -> None:
        line, rng = prepared(case, use), case.rng
        kept = case.root / "elsewhere" / "kept.mp4"
        kept.parent.mkdir()
        kept.write_bytes((case.here / "m" / "a.mp4").read_bytes())
        _sentinel(case.root / "elsewhere" / "kept.vtt")
        rows = [json.loads(row) for row in (case.here / MANIFEST).read_text().splitlines()]
        row = rng.choice(rows)
        if rng.random() < 0.5:
            row["video"] = rng.choice(OUTSIDE)
        else:
            row["clip"] = rng.choice(NAMES)
        case.shown.append(f"# clip {row['clip'][:60]!r}, video {row['video']!r}")
        (case.here / MANIFEST).write_text("".join(json.dumps(r) + "\n" for r in rows))
        case.run(*line, env=settings_of(case, use), may_change=use.changes)
        kept_names = {p.name for p in kept.parent.iterdir()}
        if kept_names != {"kept.mp4", "kept.vtt"}:
            case.fault("overwritten", f"a clip's name led outside: {sorted(kept_names)}")

    return "places", use.command, attempt


def to_full_stdout(use: Use) -> Made:
    def attempt(case: Case) -> None:
        case.run(*prepared(case, use), env=settings_of(case, use), may_change=use.changes, real=True,
                 stdout="/dev/full")  # fmt: skip

    return "places", use.command, attempt


# --- hostile servers ---

TRIES = ("--retries", "1", "--timeout", "2")


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The whole rows of a predictions file; a line that is none is the caller's fault."""
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]


def check_answers(case: Case, path: Path, clips: int, trials: int, whole: bool = True) -> None:
    """Every answer once: none twice, and if `whole` none missing."""
    try:
        rows = rows_of(path)
        found = Counter((row["clip"], row["trial"]) for row in rows)
    except (ValueError, KeyError, TypeError) as error:
        case.fault("lost", f"{path.name} cannot be read: {error}")
        return
    if twice := [key for key, count in found.items() if count > 1]:
        case.fault("lost", f"{len(twice)} answers twice, such as {twice[0]}")
    if whole and len(found) != clips * trials:
        case.fault("lost", f"{len(found)} of {clips * trials} answers in {path.name}")


def bad_server(manner: str, command: str) -> Made:
    def attempt(case: Case) -> None:
        case.bring("m", "v", "q.jsonl", "q.run.json")
        url = case.url(manner)
        ask = ("--model", MODEL, "--backend", "openai", "--server", url)
        out = case.here / "out.jsonl"
        if command == "localize":
            case.run("localize", *ask, *SCORE, "--trials", 2, *TRIES, "-o", "out.jsonl")
            check_answers(case, out, 2, 2, whole=False)
            mine = ["here/out.*"]
            again = ("localize", "--model", MODEL, "--backend", "openai", *SCORE, "--trials", 2, "--timeout", 60)
            done = case.run(*again, "--server", case.url("good"), "-o", "out.jsonl", may_change=mine)
            if done.status == 0:
                check_answers(case, out, 2, 2)
            elif not _says_other_run(done):
                case.fault("lost", f"the run does not go on: {done.err.strip()[:200]}")
        elif command == "find":
            case.run("find", "v/a.mp4", *EVENTS, *ask, "--trials", 1, "--json")
        elif command == "segment":
            case.run("segment", "v/a.mp4", *ask, "--trials", 1, "--json")
        else:
            case.run("dataset", "caption", "v", "--server", url, "--model", MODEL, "--timeout", 2, "-o", "out",
                     "--attempts", 2)  # fmt: skip

    return "servers", command, attempt


def _says_other_run(done: Outcome) -> bool:
    """Whether the second server was refused for being another than the first, which had said an odd name of itself."""
    return "another" in done.err or "other" in done.err or "differ" in done.err


def bad_url(command: str) -> Made:
    """Addresses with a key in them, and addresses that are none."""

    def attempt(case: Case) -> None:
        case.bring("m", "v", "q.jsonl", "q.run.json")
        host = case.server.removeprefix("http://")
        url = case.rng.choice((
            f"http://user:{URL_KEY}@{host}/good/1", f"https://{URL_KEY}@{host}", f"http://{host}/good/1?key={URL_KEY}",
            f"http://{host}/good/1#{URL_KEY}", f"ftp://user:{URL_KEY}@{host}", f"user:{URL_KEY}@{host}",
            f"//{URL_KEY}@{host}", f"http://user:{URL_KEY}@[::1", f"http://{host}:{URL_KEY}/", f"ws://{host}?t={URL_KEY}",
            f"http:/{URL_KEY}@x", f"http://u:{URL_KEY}@{host}:99999999", f"x?api_key={URL_KEY}", f"a b://{URL_KEY}@c",
            "http://", "http://:80", "http://[", "http://\ud800", "http://a\nb", "", " ", "http://127.0.0.1:1",
            "http://127.0.0.1:99999", f"http://{'a' * 70}.invalid", "http://é.invalid", f"http://{ESCAPE}",
            "localhost:1", f"postgres://user:{URL_KEY}@{host}/db", f"http://user:{URL_KEY}%40@{host}",
            f"HTTP://U:{URL_KEY}@{host}",
        ))  # fmt: skip
        try:
            url.encode("utf-8")
        except UnicodeEncodeError:
            url = "http://\udcff"  # as the interpreter gives a command line's odd bytes
        env = {}
        ask = ["--model", MODEL, "--backend", "openai", "--server", url]
        if case.rng.random() < 0.3:
            env, ask = {"TEMPOLOC_SERVERS": url}, ask[:-2]
        line = {
            "localize": ("localize", *ask, *SCORE, "-o", "out.jsonl"), "find": ("find", "v/a.mp4", *EVENTS, *ask),
            "dataset caption": ("dataset", "caption", "v", "--server", url, "-o", "out"),
            "segment": ("segment", "v/a.mp4", *ask),
        }[command]  # fmt: skip
        case.run(*line, env=env)

    return "servers", command, attempt


def bad_key() -> Made:
    """Keys that can be none."""

    def attempt(case: Case) -> None:
        case.bring("m")
        key = case.rng.choice(("", " ", "a b" + URL_KEY, URL_KEY + "\nX-Other: 1", "é" + URL_KEY, "\x1b" + URL_KEY,
                               "\udcff" + URL_KEY, URL_KEY * 3000, "\t", URL_KEY + "\r"))  # fmt: skip
        line = [case.url() if word == "SERVER" else word for word in ("localize", *ASK, *SCORE, "-o", "out.jsonl")]
        case.run(*line, env={"TEMPOLOC_API_KEY": key})

    return "servers", "localize", attempt


# --- kills, and two at once ---

LOCK = "here/.*.lock"
SIGNALS = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)


def _manifest_of(case: Case, clips: int) -> None:
    """A manifest of many clips, all of the same two videos."""
    rows = []
    for i in range(clips):
        events = [{"label": label, "boundary": t + i / 100} for label, t in zip(LABELS, (0.5, 1.2), strict=True)]
        rows.append({"clip": f"mug/{i}", "task": "mug", "video": f"{'ab'[i % 2]}.mp4", "fps": 32.0, "duration": 2.0,
                     "events": events})  # fmt: skip
    (case.here / MANIFEST).write_text("".join(json.dumps(row) + "\n" for row in rows))


def killed_localize(real: bool) -> Made:
    def attempt(case: Case) -> None:
        case.bring("m")
        _manifest_of(case, 6)
        line = ("localize", "--model", MODEL, "--backend", "openai", "--server", case.url("slow"), *SCORE,
                "--trials", 3, "--concurrency", 2, "--timeout", 60, "-o", "out.jsonl")  # fmt: skip
        mine = ["here/out.*", "here/.out.*.part", LOCK]  # what a killed writer left is cleared by the next
        for _ in range(case.rng.choice((1, 1, 2, 3))):
            after = case.rng.uniform(0.0, 0.9) + (case.rng.uniform(0.3, 2.0) if real else 0)
            case.run(*line, stop=(after, case.rng.choice(SIGNALS)), may_change=mine, real=real)
        done = case.run(*line, may_change=mine)
        if done.status != 0:
            case.fault("lost", f"the run does not go on: {done.err.strip()[:200]}")
        check_answers(case, case.here / "out.jsonl", 6, 3)

    return "kills", "localize", attempt


def killed(use: Use) -> Made:
    """A command that is ended halfway leaves nothing, or all; and then works."""

    def attempt(case: Case) -> None:
        line = prepared(case, use)
        before = {p.name for p in case.here.iterdir()}
        case.run(*line, stop=(case.rng.uniform(0.0, 0.5), case.rng.choice(SIGNALS)), may_change=use.changes)
        made = {p.name for p in case.here.iterdir()} - before
        out = case.here / use.output
        if use.output and out.exists() and out.is_file() and not out.stat().st_size:
            case.fault("manners", f"left an empty {use.output}")
        if out.exists():
            return
        done = case.run(*line, may_change=[*use.changes, LOCK, *(f"here/{name}*" for name in made)])
        if done.status != 0:
            case.fault("lost", f"it does not go on after a kill: {done.err.strip()[:200]}")

    return "kills", use.command, attempt


def two_at_once(use: Use, answers: tuple[int, int] | None = None) -> Made:
    """Two of the same command at the same time: both well, or one refused; and the output is whole."""

    def attempt(case: Case) -> None:
        line = prepared(case, use)
        if answers:
            _manifest_of(case, answers[0])
        case.shown.append("# twice at once:")
        mine = [*use.changes, *([f"here/{use.output}*", "here/out.*"] if use.output else [])]
        before = _marks(case)
        jobs = [Job.start(case, line, settings_of(case, use), None, False) for _ in range(2)]
        ends = _wait_both(jobs)
        for end in ends:
            case.judge(line, end, before, mine)
        if not any(end.status == 0 for end in ends):
            case.fault("lost", f"neither of two did it: {ends[0].err.strip()[:150]} | {ends[1].err.strip()[:150]}")
        if answers:
            case.run(*line, may_change=mine)
            check_answers(case, case.here / use.output, *answers)

    return "two at once", use.command, attempt


def _marks(case: Case) -> Any:
    from case import snapshot

    return snapshot(case.root)


def _wait_both(jobs: list[Job]) -> list[Outcome]:
    """Wait for jobs that do not print more than a pipe holds."""
    return [job.wait(LIMIT_S) for job in jobs]


# --- the plan ---


def _by(command: str, **has: str) -> Use:
    return next(u for u in USES if u.command == command and all(w in u.line for w in has.values()))


def file_tries(rng: random.Random) -> Iterator[Made]:
    plain = [(u, name) for u in USES for name in u.reads for _ in range(u.weight)]
    turn = 0
    while True:
        rng.shuffle(plain)
        for use, name in plain:
            turn += 1
            if turn % 6 == 0 and name.endswith(".hdf5"):
                yield bad_hdf5(use)
            elif turn % 2 == 0 and name.endswith(".pkl"):
                yield bad_pickle(use)
            else:
                yield bad_file(use, name)


def option_tries(rng: random.Random) -> Iterator[Made]:
    firsts: dict[str, list[Use]] = {}
    for use in USES:
        firsts.setdefault(use.command, []).append(use)
    every = [
        (firsts[" ".join(path)], ",".join(p.opts))
        for path in TREE
        for p in options_of(path)
        if not p.is_flag and p.name != "help"
    ]
    every += [(uses, "argument") for path, uses in ((tuple(c.split()), u) for c, u in firsts.items())
              if any(p.param_type_name == "argument" for p in TREE[path].params)]  # fmt: skip
    while True:
        rng.shuffle(every)
        for i, (uses, name) in enumerate(every):
            if i % 5 == 4:
                yield bad_usage(rng.choice(USES))
            yield bad_option(rng.choice(uses), name, rng.choice(WORDS))


def place_tries(rng: random.Random) -> Iterator[Made]:
    writers = [u for u in USES if u.output]
    readers = [u for u in USES if MANIFEST in u.line and "m" in u.needs]
    for command in ("models", "evaluate", "find", "dataset stats", "consensus"):
        yield to_full_stdout(_by(command))
    while True:
        pairs = [(u, where) for u in writers for where in PLACES]
        rng.shuffle(pairs)
        for i, (use, where) in enumerate(pairs):
            if i % 6 == 5:
                yield outside(rng.choice(readers))
            yield bad_place(use, where)


def server_tries(rng: random.Random) -> Iterator[Made]:
    commands = ("localize", "localize", "find", "segment", "dataset caption")
    while True:
        manners = list(hostile.MANNERS)
        rng.shuffle(manners)
        for i, manner in enumerate(manners):
            yield bad_server(manner, rng.choice(commands))
            if i % 5 == 0:
                yield bad_url(rng.choice(commands))
            if i % 16 == 0:
                yield bad_key()
                yield bad_server("flaky", "localize")


def kill_tries(rng: random.Random) -> Iterator[Made]:
    slow = [u for u in USES if u.output and u.command in (
        "dataset build", "consensus", "overlay", "find", "segment", "dataset import csv",
        "dataset export cosmos", "dataset import hdf5", "dataset caption",
        "dataset export csv",
    ) and not {"lr", "demos.hdf5"} & {*u.line}]  # fmt: skip
    turn = 0
    while True:
        yield killed_localize(real=turn % 3 == 0)
        yield killed(rng.choice(slow))
        turn += 1


def pair_tries(rng: random.Random) -> Iterator[Made]:
    asked = Use(("localize", *ASK, *SCORE, "--trials", "3", "-o", "out.jsonl"), ("m",), (), "out.jsonl")
    while True:
        yield two_at_once(asked, (6, 3))
        for command in ("dataset build", "consensus", "dataset import csv", "overlay", "dataset caption"):
            yield two_at_once(_by(command))


KINDS: dict[str, tuple[Callable[[random.Random], Iterator[Made]], float]] = {
    "files": (file_tries, 0.36), "options": (option_tries, 0.22), "places": (place_tries, 0.16),
    "servers": (server_tries, 0.12), "kills": (kill_tries, 0.03), "two at once": (pair_tries, 0.01),
    "reads": (read_tries, 0.10),
}  # fmt: skip
"""Kind → (its tries, without end; its share)."""


def plan(seed: str, tries: int) -> list[Made]:
    """The tries of a seed, in an order that mixes the kinds."""
    made: list[Made] = []
    for kind, (source, share) in KINDS.items():
        stream = source(random.Random(f"{seed}:{kind}"))
        made += [next(stream) for _ in range(max(1, round(share * tries)))]
    random.Random(seed).shuffle(made)
    return made


__all__ = ["SECRETS", "plan"]
