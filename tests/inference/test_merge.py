"""Outputs of several machines become one file: nothing twice, nothing lost, conflicts and gaps said."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from fake_backend import SIM, Truthful
from typer.testing import CliRunner

from tempoloc_nb.cli import predictions as cli_predictions
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.files import sole_writer
from tempoloc_nb.inference import merge as merging
from tempoloc_nb.inference.ledger import errors_path, read_errors
from tempoloc_nb.inference.merge import merge
from tempoloc_nb.inference.record import read_record, record_path, write_record
from tempoloc_nb.inference.run import run_backend, shard_of
from tempoloc_nb.scoring.evaluation import evaluate

FEW = replace(SIM, clips=SIM.with_videos()[:12])


def shards(folder: Path, count: int = 3, **options: Any) -> list[Path]:
    backend = options.pop("backend", None) or Truthful()
    return [
        run_backend(backend, FEW, folder / "p.jsonl", fps=8, trials=2, shard=(i, count), **options).output
        for i in range(1, count + 1)
    ]


def keys(path: Path) -> list[tuple[str, int]]:
    return [(r["request_id"], r["trial"]) for r in map(json.loads, path.read_text().splitlines())]


def test_shards_merged_are_the_run_in_one(tmp_path: Path) -> None:
    whole, out = tmp_path / "whole.jsonl", tmp_path / "p.jsonl"
    run_backend(Truthful(), FEW, whole, fps=8, trials=2)
    summary = merge(shards(tmp_path), out)
    assert (summary.files, summary.rows, summary.repeated, summary.failed, summary.incomplete) == (3, 24, 0, 0, ())
    assert sorted(out.read_text().splitlines()) == sorted(whole.read_text().splitlines())
    record = read_record(out)
    assert record["settings"] == read_record(whole)["settings"]
    assert record["trials"] == 2
    assert [part["shard"] for part in record["parts"].values()] == [[1, 3], [2, 3], [3, 3]]
    assert evaluate(out, FEW, resamples=10).runs == evaluate(whole, FEW, resamples=10).runs
    assert not (tmp_path / "p.errors.jsonl").exists()
    assert not list(tmp_path.glob("*.part")) + list(tmp_path.glob("*.lock"))
    # the merged file is a run's own: it goes on, with more trials
    assert run_backend(Truthful(), FEW, out, fps=8, trials=3).written == 12


def test_a_merge_can_be_repeated_when_more_is_there(tmp_path: Path) -> None:
    out = tmp_path / "p.jsonl"
    one, two, three = shards(tmp_path)
    kept = two.read_bytes()
    lines = kept.splitlines(keepends=True)
    two.write_bytes(b"".join(lines[:3]) + lines[3][:50])  # being written, or cut off
    first = merge([one, two], out)
    assert first.incomplete == ("no file of shard 3 of 3", f"{two.name} has 3 of {len(lines)} answers")
    two.write_bytes(kept)
    second = merge([one, two, three, out], out)
    assert second.incomplete == ()
    assert (second.rows, second.repeated) == (24, len(keys(one)) + 3)
    assert len(set(keys(out))) == len(keys(out)) == 24
    before = out.read_bytes()
    assert merge([one, two, three], out).rows == 24
    assert out.read_bytes() == before


def test_other_files_of_the_same_settings_merge_too(tmp_path: Path) -> None:
    halves = [replace(FEW, clips=FEW.clips[:7]), replace(FEW, clips=FEW.clips[5:])]
    paths = [tmp_path / f"{i}.jsonl" for i in range(2)]
    for part, path, trials in zip(halves, paths, (1, 2), strict=True):
        run_backend(Truthful(), part, path, fps=8, trials=trials)
    rows = [json.loads(line) for line in paths[1].read_text().splitlines()]
    paths[1].write_text("".join(json.dumps(r | {"latency_s": 9.0}) + "\n" for r in rows))  # the same, asked again
    summary = merge(paths, tmp_path / "out.jsonl")
    assert (summary.rows, summary.repeated, summary.incomplete) == (7 + 14 - 2, 2, ())
    assert read_record(tmp_path / "out.jsonl")["trials"] == 2


@pytest.mark.parametrize(
    "record",
    [{"settings": 5}, {"settings": {}, "asked": {"a": 1}}, {"settings": {}, "asked": []},
     {"settings": {}, "trials": "2"}, {"settings": {}, "shard": [1, 10**9]}, {"settings": {}, "shard": [1]},
     {"settings": {}, "parts": {"a": 5}}, {"settings": {}, "wanted": None}],
    ids=str,
)  # fmt: skip
def test_a_record_that_somebody_changed_is_one_line(tmp_path: Path, record: dict[str, Any]) -> None:
    one, *_ = shards(tmp_path)
    record_path(one).write_text(json.dumps(record))
    with pytest.raises(TempolocError, match=r"^p\.1-of-3\.run\.json[ :,]") as error:
        merge([one], tmp_path / "out.jsonl")
    assert len(str(error.value).splitlines()) == 1


def test_failures_that_somebody_changed_are_passed_over(tmp_path: Path) -> None:
    one, *_ = shards(tmp_path)
    good = {"clip": "a", "request_id": "0" * 16, "trials": [0], "error": "x"}
    odd = [{**good, "trials": 5}, {**good, "request_id": "zz"}, {**good, "clip": 1}, {**good, "error": None}, [], 5]
    errors_path(one).write_text("".join(json.dumps(row) + "\n" for row in [*odd, good]))
    assert merge([one], tmp_path / "out.jsonl").failed == 1


def test_two_answers_of_one_trial_are_a_conflict(tmp_path: Path) -> None:
    paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for path in paths:
        run_backend(Truthful(), FEW, path, fps=8, trials=2)
    rows = [json.loads(line) for line in paths[1].read_text().splitlines()]
    rows[5]["text"] = "something else"
    paths[1].write_text("".join(json.dumps(r) + "\n" for r in rows))
    out = tmp_path / "out.jsonl"
    with pytest.raises(TempolocError, match=rf"a\.jsonl and .*b\.jsonl answer trial 1 of {FEW.clips[2].clip} differen"):
        merge(paths, out)
    assert not out.exists()
    assert not record_path(out).exists()


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    a, b, out = tmp_path / "a.jsonl", tmp_path / "b.jsonl", tmp_path / "out.jsonl"
    run_backend(Truthful(), FEW, a, fps=8)
    run_backend(Truthful(revision="2"), FEW, b, fps=4)
    with pytest.raises(TempolocError, match=r"made with different settings \(backend_settings, fps\): merge"):
        merge([a, b], out)
    with pytest.raises(TempolocError, match=r"no prediction file .*c\.jsonl"):
        merge([a, tmp_path / "c.jsonl"], out)
    with pytest.raises(TempolocError, match=r"to a \.jsonl file, not to p\.jsonl\.xz"):
        merge([a], tmp_path / "p.jsonl.xz")
    with pytest.raises(TempolocError, match="give the prediction files"):
        merge([], out)
    b.write_text("{}\n")
    write_record(b, read_record(a))
    with pytest.raises(TempolocError, match=r"b\.jsonl:1 is not a prediction"):
        merge([a, b], out)
    record_path(b).unlink()
    with pytest.raises(TempolocError, match=r"cannot read the record file .*b\.run\.json: No such file"):
        merge([a, b], out)
    with sole_writer(out), pytest.raises(TempolocError, match="is being written by process"):
        merge([a], out)
    assert not out.exists()


def test_failures_are_merged_until_they_are_answered(tmp_path: Path) -> None:
    bad, out = FEW.clips[3].clip, tmp_path / "p.jsonl"
    paths = shards(tmp_path, backend=Truthful([bad]))
    mine = shard_of(bad, 3)
    summary = merge(paths, out)
    assert (summary.rows, summary.failed) == (22, 1)
    assert summary.incomplete == (f"p.{mine}-of-3.jsonl has {len(keys(paths[mine - 1]))} of "
                                  f"{len(keys(paths[mine - 1])) + 2} answers",)  # fmt: skip
    assert [(e["clip"], e["trials"]) for e in read_errors(out)] == [(bad, [0, 1])]
    shards(tmp_path)  # each goes on
    summary = merge(paths, out)
    assert (summary.rows, summary.failed, summary.incomplete) == (24, 0, ())
    assert not (tmp_path / "p.errors.jsonl").exists()


def test_a_run_is_no_place_for_a_merge(tmp_path: Path) -> None:
    one, two, _ = shards(tmp_path)
    before = one.read_bytes()
    for files in ([one, two], [two]):
        with pytest.raises(TempolocError, match="is there already and is not a merged file"):
            merge(files, one)
    with pytest.raises(TempolocError, match="is there already and is not a merged file"):
        merge([one, two], one, force=True)
    assert one.read_bytes() == before


def test_an_empty_shard_is_no_place_for_a_merge_either(tmp_path: Path) -> None:
    one, two, _ = shards(tmp_path)
    one.write_bytes(b"")
    with pytest.raises(TempolocError, match="is there already and is not a merged file"):
        merge([one, two], one)
    assert one.read_bytes() == b""


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "p.jsonl"
    one, two, three = shards(tmp_path)
    merge([one, two], out)
    before, record = out.read_bytes(), read_record(out)

    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(merging.os, "fsync", full)
    with pytest.raises(TempolocError, match=r"cannot write .*p\.jsonl \(No space left on device\): nothing was merged"):
        merge([three], out)
    assert (out.read_bytes(), read_record(out)) == (before, record)


def test_the_command_says_what_is_missing(tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(cli_predictions.merge)
    one, two, three = map(str, shards(tmp_path))
    out = str(tmp_path / "p.jsonl")
    done = CliRunner().invoke(app, [one, two, "-o", out])
    assert done.exit_code == 1
    assert "tempoloc: no file of shard 3 of 3" in done.stderr
    done = CliRunner().invoke(app, [one, two, three, "-o", out])
    assert done.exit_code == 0
    assert done.stdout.startswith(f"{out}: 24 predictions of 4 files, ")
