"""Tries whose right result is known: what a command reads is that, or it is not said to be ok."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from answer_grammar import make_case
from case import Case, Outcome
from made import LABELS, MODEL
from spoilt_logs import spoilt_log

Made = tuple[str, str, Callable[[Case], None]]
SLACK = 1e-3  # s


def check_events(case: Case, out: str, right: Sequence[float | None]) -> None:
    """Note each time (s) that `find --json` printed of a video and that is not the right one."""
    for event, truth in zip(json.loads(out)[0]["events"], right, strict=True):
        time = event["boundary"]
        if time is not None and (truth is None or abs(time - truth) > SLACK):
            case.fault("misread", f"{event['label']}: {time} s, right {truth}")


def check_log(case: Case, out: str, right: Sequence[tuple[float, str]] | None) -> None:
    """Note what `segment --json` printed of a video where it is not the right log; None: no log is right."""
    found = json.loads(out)[0]
    if found["error"]:  # nothing is told
        return
    told = [(event["boundary"], event["label"]) for event in found["events"]]
    same = right is not None and len(told) == len(right)
    if not same or any(abs(a - b) > SLACK or n != m for (a, n), (b, m) in zip(told, right or (), strict=True)):
        case.fault("misread", f"log {told}, right {right}")


def asked(case: Case, manner: str, text: str, *command: str) -> Outcome:
    """What a command prints of a video about which a server's model answers `text`."""
    case.bring("long.mp4")
    case.shown.append(f"# answered: {text!r}")
    server = ("--model", MODEL, "--backend", "openai", "--server", case.url(manner))
    return case.run(command[0], "long.mp4", *command[1:], *server, "--trials", 1, "--temperature", 0, "--json")


def odd_answer() -> Made:
    """A server's model answers in one of the grammar's forms."""

    def attempt(case: Case) -> None:
        manner = f"grammar-{case.seed}-{case.number}"
        made = make_case(random.Random(manner))
        done = asked(case, manner, made.text, "find", *(word for label in made.labels for word in ("-e", label)))
        if done.status == 0:
            check_events(case, done.out, [truth and truth[0] for truth in made.truth])

    return "reads", "find", attempt


def odd_log() -> Made:
    """A server's model answers with a log that has a fault."""

    def attempt(case: Case) -> None:
        manner = f"log-{case.seed}-{case.number}"
        made = spoilt_log(random.Random(manner))
        done = asked(case, manner, made.text, "segment")
        if done.status == 0:
            check_log(case, done.out, made.right)

    return "reads", "segment", attempt


def boundaries(path: Path) -> list[list[float]]:
    """The boundaries of each clip of a manifest."""
    return [[e["boundary"] for e in json.loads(line)["events"]] for line in path.read_text().splitlines()]


# --- datasets ---


WAYS = ("times faster", "times from 3 s", "a time lost", "no subtask", "unknown subtask", "a row lost", "two swapped")


def _other_rows(rows: dict[str, list[Any]], rng: random.Random) -> str:
    """Spoil the rows of an episode; what was done."""
    way = rng.choice(WAYS)
    k = rng.randrange(1, len(rows["timestamp"]))
    if way == "times faster":
        rows["timestamp"] = [t * rng.choice((0.5, 1.5, 2.0)) for t in rows["timestamp"]]
    elif way == "times from 3 s":
        rows["timestamp"] = [t + 3.0 for t in rows["timestamp"]]
    elif way == "a time lost":
        rows["timestamp"][k] = rng.choice((None, float("nan"), -1.0, 1e9))
    elif way == "no subtask":
        rows["subtask_index"][k:] = [-1] * (len(rows["subtask_index"]) - k)
    elif way == "unknown subtask":
        rows["subtask_index"][k] = rng.choice((99, -7, 2**40))
    for column in rows.values() if way in ("a row lost", "two swapped") else ():
        if way == "a row lost":
            del column[k]
        else:
            column[k - 1], column[k] = column[k], column[k - 1]
    return f"{way} at {k}"


def _ends(index: list[Any]) -> set[float]:
    """The ends (s) of the named runs of an episode's rows, 10 frames a second."""
    pairs = enumerate(zip(index, [*index[1:], None], strict=True))
    return {(k + 1) / 10 for k, (own, other) in pairs if own in (0, 1) and own != other}


def odd_dataset() -> Made:
    """A LeRobot dataset whose rows contradict its metadata, or each other."""

    def attempt(case: Case) -> None:
        import pyarrow as arrow
        import pyarrow.parquet as parquet

        name = case.rng.choice(("lr", "lr2"))
        case.bring(name)
        path = sorted((case.here / name / "data").rglob("*.parquet"))[0]
        table = parquet.read_table(path)
        rows = table.to_pydict()
        mine = [k for k, e in enumerate(rows["episode_index"]) if e == 0]
        first = {column: values[: len(mine)] for column, values in rows.items()}
        case.shown.append(f"# {name}: {_other_rows(first, case.rng)}")
        spoilt = {column: [*first[column], *values[len(mine) :]] for column, values in rows.items()}
        parquet.write_table(arrow.table(spoilt, schema=table.schema), path)
        done = case.run("dataset", "import", "lerobot", name, "-o", "out", "--episode", 0)
        if done.status == 0:
            told, right = boundaries(case.here / "out" / "manifest.jsonl")[0], _ends(first["subtask_index"])
            if any(min((abs(t - end) for end in right), default=9) > SLACK for t in told):
                case.fault("misread", f"boundaries {told}, right {sorted(right)}")

    return "reads", "dataset import lerobot", attempt


# --- tables ---


def _saved(rows: list[list[str]], rng: random.Random) -> tuple[bytes, str]:
    """A table as another program saves it, and how."""
    mark, comma = rng.choice(((",", False), (";", True), (";", False), ("\t", True), ("\t", False)))
    pad, head = rng.randrange(3), rng.choice((str, str.upper, str.title, lambda name: f" {name} "))
    cells = [[head(c) for c in rows[0]], *rows[1:]]
    if comma:
        body = [[c.replace(".", ",") if c.replace(".", "").isdecimal() else c for c in row] for row in cells[1:]]
        cells = [cells[0], *body]
    if rng.random() < 0.3:
        order = rng.sample(range(len(cells[0])), len(cells[0]))
        cells = [[row[i] for i in order] for row in cells]
    out = io.StringIO()
    quoting = rng.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
    writer = csv.writer(out, delimiter=mark, lineterminator=rng.choice(("\n", "\r\n")), quoting=quoting)
    writer.writerows([[*row, *[""] * pad] for row in cells])
    text = out.getvalue() + rng.choice(("", "\n", mark * 3 + "\n"))
    encoding = rng.choice(("utf-8", "utf-8-sig", "utf-16"))
    return text.encode(encoding), f"{mark!r}, decimal comma {comma}, {pad} empty columns, {encoding}"


def odd_table() -> Made:
    """A table of boundaries as a spreadsheet saves it."""

    def attempt(case: Case) -> None:
        case.bring("m", "c.csv")
        with (case.here / "c.csv").open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.reader(file))
        data, how = _saved(rows, case.rng)
        (case.here / "saved.csv").write_bytes(data)
        case.shown.append(f"# saved.csv: {how}")
        line = ("dataset", "import", "csv", "saved.csv", "-o", "out.jsonl", "--manifest", "m/manifest.jsonl")
        done = case.run(*line, "--who", "me")
        place = rows[0].index("boundary")
        times = [float(row[place]) for row in rows[1:]]
        right = [times[i : i + len(LABELS)] for i in range(0, len(times), len(LABELS))]
        if done.status == 0 and (told := boundaries(case.here / "out.jsonl")) != right:
            case.fault("misread", f"boundaries {told} of {LABELS}, right {right}")

    return "reads", "dataset import csv", attempt


def read_tries(rng: random.Random) -> Iterator[Made]:
    while True:
        yield rng.choice((odd_answer, odd_answer, odd_log, odd_dataset, odd_table))()
