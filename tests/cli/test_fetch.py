"""`tempoloc fetch`: from a mirror into a folder that `tempoloc localize` takes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tempoloc_nb.clips.manifest import Clips
from tests.helpers.file_server import served
from tests.helpers.public_list import COMMIT, REPOSITORY, listed

Run = Callable[..., tuple[int, str, str]]
Listed = tuple[Clips, dict[str, bytes]]
__all__ = ["listed"]  # a fixture


def test_fetch_and_ask(listed: Listed, tmp_path: Path, run: Run) -> None:
    (benchmark, files), folder = listed, tmp_path / "real"
    files_of = f"/{REPOSITORY}/{COMMIT}/"
    with served(files) as server:
        server.faults[f"{files_of}one/take.mp4"] = ["cut"]
        status, out, _ = run("fetch", benchmark.root, folder, "--base", server.address, "--family", "one")
        assert (status, "2 files fetched, 0 were there" in out) == (0, True)
        status, out, _ = run("fetch", benchmark.root, folder, "--base", f"{server.address}/", "--json")
    assert status == 0
    done = json.loads(out)
    assert {k: done[k] for k in ("fetched", "kept", "cut", "clips")} == {"fetched": 1, "kept": 2, "cut": 2, "clips": 3}
    asked = ("localize", "--model", "motion-minima", "--benchmark", benchmark.root, "--video-root", folder)
    status, out, _ = run(*asked, "-o", tmp_path / "p.jsonl")
    assert (status, "3 predictions written" in out) == (0, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--family", "three"], "unknown family 'three'"),
        (["--base", "ftp://mirror"], "'ftp://mirror' is no address to fetch from"),
    ],
)
def test_a_slip_is_one_line(words: list[str], message: str, listed: Listed, tmp_path: Path, run: Run) -> None:
    status, out, err = run("fetch", listed[0].root, tmp_path / "real", *words)
    assert (status, out) == (1, "")
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "real").exists()


def test_a_file_of_ones_own_is_not_replaced_without_force(listed: Listed, tmp_path: Path, run: Run) -> None:
    (benchmark, files), own = listed, tmp_path / "real" / "one" / "LICENSE"
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    with served(files) as server:
        where = ("fetch", benchmark.root, tmp_path / "real", "--base", server.address)
        status, _, err = run(*where)
        assert (status, "is another file than the list has" in err, own.read_text()) == (1, True, "mine")
        status, _, _ = run(*where, "--force")
    assert (status, own.read_text()) == (0, "MIT")
