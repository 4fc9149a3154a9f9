"""Shipping a run of tiny_runs.py: all that belongs there and nothing else, or nothing and a line that says why."""

from __future__ import annotations

import csv
import json
import lzma
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from fake_backend import Truthful

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.core.files import write_json, write_jsonl
from tempoloc_nb.inference.baselines import prediction_rows
from tempoloc_nb.inference.record import pack_predictions, read_rows, record_path, write_record
from tempoloc_nb.lab.study.training import read_log
from tempoloc_nb.lab.tiny.plan import load_plan
from tempoloc_nb.models.locate import folder_revision
from tempoloc_nb.study.experiments import committed, load_experiments, run_experiment

EXPERIMENTS = """
[experiments.sft]
ask.model = "tempoloc-tiny"
title = "SFT"
clips_per_task = 1
[experiments.sft-seed1]
ask.model = "runs/sft-seed1/model"
title = "SFT, seed 1"
clips_per_task = 1
[experiments.former]
preset = "tiny-base"
ask.model = "runs/former/model"
title = "former SFT"
clips_per_task = 1
"""
STEPS = load_plan("sft").options.steps
HEAD = ("split", "family", "robot", "seed", "state")


@pytest.fixture
def tiny_ship(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    return import_module("tiny_ship")


def table(*rows: tuple[object, ...]) -> str:
    return "".join(",".join(map(str, row)) + "\n" for row in (HEAD, *rows))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with the last model, its answers and its clips."""
    folder = tmp_path / "data"
    for part in ("models/tempoloc-tiny", "training", "predictions", "benchmarks/gaps"):
        (folder / part).mkdir(parents=True)
    (folder / "experiments.toml").write_text(EXPERIMENTS)
    for name in ("README.md", "config.json", "model.safetensors"):
        (folder / "models/tempoloc-tiny" / name).write_text("old")
    (folder / "benchmarks/gaps/tempoloc-tiny.jsonl.xz").write_bytes(b"old")
    (folder / "predictions/former.jsonl.xz").write_bytes(b"old")
    rows = table(("sft", "square", "Panda", 5, "old"), ("test", "square", "Panda", 9, "old"))
    (folder / "training/clips.csv.xz").write_bytes(lzma.compress(rows.encode()))
    return folder


@pytest.fixture
def out(tmp_path: Path, data: Path) -> Path:
    """A finished run, as far as shipping reads it."""
    folder = tmp_path / "out"
    model, run = folder / "models/tempoloc-tiny", folder / "runs/sft"
    for part in (model, run, folder / "answers", folder / "other"):
        part.mkdir(parents=True)
    for name in ("README.md", "config.json", "model.safetensors", "training_args.bin"):
        (model / name).write_text("new")
    revision = folder_revision(model)
    for each in load_experiments(data / "experiments.toml").values():
        answers = folder / "answers" / f"{each.name}.jsonl"
        of = revision if each.name == "sft" else "another"
        run_experiment(each, load_benchmark("sim"), answers, backend=Truthful(revision=of))
        if each.name != "former":
            pack_predictions(answers, folder / "packed")
    gaps = load_benchmark("gaps")
    truth = {c.clip: c.boundaries for c in gaps.clips}
    rows = [{**row, "trial": k} for k in range(5) for row in prediction_rows(gaps, truth, "tempoloc-tiny", 8)]
    write_jsonl(folder / "other/gaps.jsonl", rows)
    settings = {"model": "tempoloc-tiny", "benchmark": "gaps", "backend_settings": {"revision": revision}}
    write_record(folder / "other/gaps.jsonl", {"settings": settings})
    (folder / "other/hands-validation.jsonl").write_text("")  # ships nowhere
    (run / "log.jsonl").write_text('{"step": 20, "kind": "walk", "stage": "grippers", "loss": 1.0, "seconds": 3}\n')
    write_json(run / "run.json", {"config": "sft", "calls": [{"to_step": STEPS}]})
    listed = table(("sft", "square", "Panda", 5, "new"), ("hands", "square", "IIWA", 7, "new"))
    (folder / "clips.csv").write_text(listed)
    return folder


def content(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_finished_run_is_put_in_its_places(tiny_ship: ModuleType, out: Path, data: Path) -> None:
    before = content(data)
    assert tiny_ship.main([str(out), "--data", str(data)]) == 0
    after = content(data)
    assert {name for name in before if before[name] == after[name]} == {
        "experiments.toml", "models/tempoloc-tiny/README.md", "predictions/former.jsonl.xz"
    }  # fmt: skip
    assert set(after) - set(before) == {
        "predictions/sft.jsonl.xz", "predictions/sft.run.json", "predictions/sft-seed1.jsonl.xz",
        "predictions/sft-seed1.run.json", "benchmarks/gaps/tempoloc-tiny.run.json", "training/sft.jsonl.xz",
        "training/sft.run.json",
    }  # fmt: skip
    assert after["models/tempoloc-tiny/config.json"] == b"new"
    assert after["predictions/sft.jsonl.xz"] == (out / "packed/sft.jsonl.xz").read_bytes()
    assert len(list(read_rows(data / "benchmarks/gaps/tempoloc-tiny.jsonl.xz"))) == 160
    assert len(read_log(data / "training/sft.jsonl.xz")) == 1
    rows = list(csv.DictReader(lzma.decompress(after["training/clips.csv.xz"]).decode().splitlines()))
    assert [(row["split"], row["family"], row["robot"], row["seed"], row["state"]) for row in rows] == [
        ("sft", "square", "Panda", "5", "old"), ("test", "square", "Panda", "9", "old"),
        ("hands", "square", "IIWA", "7", "new"),
    ]  # fmt: skip


def test_shipping_twice_changes_nothing(tiny_ship: ModuleType, out: Path, data: Path) -> None:
    assert tiny_ship.main([str(out), "--data", str(data)]) == 0
    once = content(data)
    assert tiny_ship.main([str(out), "--data", str(data)]) == 0
    assert content(data) == once


def change(path: Path, **values: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_what_is_missing_or_wrong_is_said_in_a_line_and_nothing_is_written(
    tiny_ship: ModuleType, out: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, packed = content(data), out / "packed/sft.jsonl.xz"
    whole = content(out)

    def refused() -> str:
        assert tiny_ship.main([str(out), "--data", str(data)]) == 1
        assert content(data) == before
        for name, bytes_ in whole.items():
            (out / name).write_bytes(bytes_)
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        return said

    packed.unlink()
    (out / "models/tempoloc-tiny/config.json").unlink()
    assert "it lacks models/tempoloc-tiny/config.json, packed/sft.jsonl.xz: run" in refused()
    change(record_path(packed), answers=3)
    assert "sft.jsonl.xz has 3 of 4 answers" in refused()
    change(record_path(packed), experiment={})
    assert "sft.jsonl.xz was made with another name, model, " in refused()
    (out / "models/tempoloc-tiny/config.json").write_text("another")
    assert "sft.jsonl.xz is not of the weights in models/tempoloc-tiny" in refused()
    change(out / "runs/sft/run.json", calls=[{"to_step": 100}])
    assert f"runs/sft is a training of the plan sft to step 100, not of sft to step {STEPS}" in refused()
    change(out / "runs/sft/run.json", config="try")
    assert f"a training of the plan try to step {STEPS}" in refused()
    gaps = out / "other/gaps.jsonl"
    gaps.write_text("".join(gaps.read_text().splitlines(keepends=True)[1:]))
    assert "other/gaps.jsonl has 159 of 160 answers" in refused()
    (out / "clips.csv").write_text("a,b\n1,2\n")
    assert "clips.csv is no list of clips" in refused()
    assert tiny_ship.main([str(out), "--data", str(data)]) == 0


def test_the_repositorys_own_places_are_known(tiny_ship: ModuleType, tmp_path: Path) -> None:
    """Which benchmarks ship answers of the model, and that those of the model before it stay."""
    shipment = tiny_ship.Shipment(tmp_path, tiny_ship.data_dir())
    assert {place.parent.name for place in shipment.localized.values()} == {"gaps", "detours", "skills"}
    declared = load_experiments()
    stays = {name for name in declared if name not in {e.name for e in shipment.experiments}}
    assert stays == {name for name in declared if "base" in name or "former" in name}
    assert all(committed(declared[name], load_benchmark(declared[name].benchmark)) for name in stays)
