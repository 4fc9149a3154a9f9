"""Put a finished run of tiny_runs.py where the repository keeps it: model, answers, training, list of clips.

    python benchmarks/tiny_ship.py OUT [--data data]

- OUT/models/tempoloc-tiny → data/models/tempoloc-tiny: the files that are there already, but not the card (README.md);
- OUT/packed → data/predictions, of the experiments whose weights the run made;
- OUT/other → data/benchmarks/NAME/tempoloc-tiny.jsonl.xz, packed, where that benchmark ships such answers;
- OUT/runs/sft/log.jsonl and run.json → data/training/sft.jsonl.xz and sft.run.json;
- OUT/clips.csv → data/training/clips.csv.xz: clips that the list lacks are added, those of earlier trainings and of the
  test stay in it.

All of it is checked before anything is written: every answer that the definitions ask for has to be there, made as they
say and by the weights that will ship. Each file is written whole or not at all. Studies and cards are made afterwards:
`tempoloc study --profile full` and `--publish`.
"""

from __future__ import annotations

import argparse
import csv
import io
import lzma
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tiny_runs import LOCALIZED, made_weights

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.files import all_or_nothing, open_packed, read_object
from tempoloc_nb.core.settings import data_dir
from tempoloc_nb.inference.record import pack_predictions, read_record, read_rows, record_path
from tempoloc_nb.lab.study.training import read_log
from tempoloc_nb.lab.tiny.frame_store import csv_text
from tempoloc_nb.lab.tiny.plan import load_plan
from tempoloc_nb.models.locate import folder_revision
from tempoloc_nb.study.experiments import Experiment, check_answers, load_experiments

MODEL = "tempoloc-tiny"
CLIP = ("split", "family", "robot", "seed")  # what tells one clip of the list from another
Rows = list[dict[str, str]]


class Shipment:
    """What goes where: `files` maps a file of the run to its place, `localized` a benchmark's answers to theirs."""

    def __init__(self, out: Path, data: Path) -> None:
        self.out, self.data = out, data
        self.experiments = [e for e in load_experiments(data / "experiments.toml").values() if made_weights(e.model)]
        weights = sorted(p.name for p in (data / "models" / MODEL).iterdir() if p.name != "README.md")
        self.files = {out / "models" / MODEL / name: data / "models" / MODEL / name for name in weights}
        for each in self.experiments:
            answers = self.packed(each)
            for path in (answers, record_path(answers)):
                self.files[path] = data / "predictions" / path.name
        self.files[out / "runs/sft/run.json"] = data / "training" / "sft.run.json"
        self.log, self.clips = out / "runs/sft/log.jsonl", out / "clips.csv"
        self.listed = data / "training" / "clips.csv.xz"
        places = {name: data / "benchmarks" / name / f"{MODEL}.jsonl.xz" for name in LOCALIZED}
        self.localized = {out / "other" / f"{name}.jsonl": p for name, p in places.items() if p.is_file()}

    def packed(self, experiment: Experiment) -> Path:
        """The run's answers of an experiment."""
        return self.out / "packed" / f"{experiment.name}.jsonl.xz"

    def check(self) -> None:
        """Raise `TempolocError` for what is missing, or is not what the definitions and the plan ask for."""
        wanted = [*self.files, *self.localized, *map(record_path, self.localized), self.log, self.clips]
        missing = [path.relative_to(self.out).as_posix() for path in wanted if not path.is_file()]
        if missing:
            raise TempolocError(f"{self.out} is no finished run, it lacks {', '.join(missing)}: run tiny_runs.py again")
        self._check_training()
        revision = folder_revision(self.out / "models" / MODEL)
        for each in self.experiments:
            check_answers(self.packed(each), each, load_benchmark(each.benchmark))
            if each.model in (MODEL, "runs/sft/model"):
                check_weights(self.packed(each), revision)
        for path, place in self.localized.items():
            rows = sum(1 for _ in read_rows(path))
            answers = len(load_benchmark(place.parent.name).clips) * LOCALIZED[path.stem]
            if rows != answers:
                raise TempolocError(f"other/{path.name} has {rows} of {answers} answers: run tiny_runs.py again")
            check_weights(path, revision)
        self.all_clips()

    def _check_training(self) -> None:
        read_log(self.log)
        record, steps = read_object(self.out / "runs/sft/run.json", "training record"), load_plan("sft").options.steps
        done = max((call["to_step"] for call in record["calls"]), default=0)
        if (record["config"], done) != ("sft", steps):
            raise TempolocError(
                f"runs/sft is a training of the plan {record['config']} to step {done}, not of sft to step {steps}"
            )

    def all_clips(self) -> Rows:
        """The list of clips as it will be."""
        old, new = read_clips(self.listed), read_clips(self.clips)
        if list(old[0]) != list(new[0]):
            raise TempolocError(f"{self.clips.name} has other columns than {self.listed.name}")
        return with_new(old, new)

    def ship(self) -> int:
        """Write everything; returns how many files."""
        for source, target in self.files.items():
            write(target, source.read_bytes())
        with tempfile.TemporaryDirectory() as folder:
            for source, target in self.localized.items():
                answers = pack_predictions(source, folder)
                write(target, answers.read_bytes())
                write(record_path(target), record_path(answers).read_bytes())
        write(self.data / "training" / "sft.jsonl.xz", lzma.compress(self.log.read_bytes(), preset=9))
        write(self.listed, lzma.compress(csv_text(self.all_clips()).encode(), preset=9))
        return len(self.files) + 2 * len(self.localized) + 2


def write(target: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with all_or_nothing(target) as part:
        part.write_bytes(content)


def check_weights(answers: Path, revision: str) -> None:
    """Raise `TempolocError` if answers are not of the weights with this revision."""
    settings: dict[str, Any] = read_record(answers)["settings"]
    if settings["backend_settings"]["revision"] != revision:
        raise TempolocError(f"{answers.name} is not of the weights in models/{MODEL}: run tiny_runs.py again")


def read_clips(path: Path) -> Rows:
    """The rows of a list of clips, packed or not; raises `TempolocError` for another table."""
    with open_packed(path) as source:
        rows = list(csv.DictReader(io.TextIOWrapper(source, encoding="utf-8", newline="")))
    if not rows or not {*CLIP, "state"} <= set(rows[0]):
        raise TempolocError(f"{path.name} is no list of clips: `tempoloc tiny clips` makes one")
    return rows


def with_new(old: Rows, new: Rows) -> Rows:
    """Both lists; of a clip that both have, the line that was there. Families stay together, in their first order."""
    found = {tuple(row[key] for key in CLIP): row for row in (*new, *old)}
    order = {key[:3]: None for key in (tuple(row[key] for key in CLIP) for row in (*old, *new))}
    place = {family: k for k, family in enumerate(order)}
    return [found[key] for key in sorted(found, key=lambda key: (place[key[:3]], int(key[3])))]


def main(argv: Sequence[str] | None = None) -> int:
    """Check and ship; status 1 and one line on stderr if something is missing or wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder of a finished run of tiny_runs.py")
    parser.add_argument("--data", type=Path, default=data_dir(), help="data folder to write to")
    given = parser.parse_args(argv)
    try:
        shipment = Shipment(given.out, given.data)
        shipment.check()
        print(f"{shipment.ship()} files written to {given.data}")
    except TempolocError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
