"""With `--json`, stdout is one JSON object: what was written, counts, and why what failed did."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_server import FakeServer
from tiny_models import qwen25

from tempoloc_nb.clips.manifest import load_benchmark, write_manifest
from tempoloc_nb.engines.protocol import row_seed
from tempoloc_nb.engines.qwen import video_rules

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def two_clips(tmp_path: Path) -> Path:
    """A folder with a manifest of two shipped clips and their videos."""
    root, sim = tmp_path / "two", load_benchmark("sim").head(1)
    root.mkdir()
    clips = [replace(c, video=f"{c.task}.mp4") for c in sim.clips[:2]]
    write_manifest(root / "manifest.jsonl", clips)
    for clip, old in zip(clips, sim.clips, strict=False):
        shutil.copy(old.video_path(sim.root), root / str(clip.video))
    return root


def said(result: tuple[int, str, str], status: int) -> dict[str, Any]:
    assert result[0] == status, result
    found: dict[str, Any] = json.loads(result[1])
    return found


def test_what_was_done_is_one_json_object(
    run: Run, tmp_path: Path, two_clips: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clips = load_benchmark(two_clips).clips
    bad = clips[0].clip
    first, second = row_seed(0, bad, 0), row_seed(0, bad, 1)
    p, median = (tmp_path / f"{name}.jsonl" for name in ("p", "median"))
    lines = "\n".join(f"Event {i}: <{i / 4}> <{i / 2}>" for i in range(1, 9))

    def fault(body: dict[str, Any]) -> str | None:
        return "400 no\x1b[2J" if body["seed"] in (first, second) and not fixed else None

    fixed: list[str] = []
    with FakeServer(qwen25().name, rules=video_rules(qwen25()), text=lambda body: lines, sick=fault) as server:
        engine = ("--model", qwen25(), "--backend", "openai", "--server", server.url)
        ask = ("localize", *engine, "--fps", 4, "--trials", 2, "--prompt", "tiny", "-o", p, "--json", "--benchmark")
        result = run(*ask, two_clips)
        reason = rf"{bad}: {server.url} refuses: HTTP 400, no\x1b[2J"
        assert said(result, 1) == {
            "output": str(p), "written": 2, "kept": 0, "failed": [{"clip": bad, "reason": reason}], "missing": [],
            "lack": "video",
        }  # fmt: skip
        assert result[2] == f"tempoloc: {reason}\n"
        fixed += ["now"]
        monkeypatch.chdir(two_clips)  # the benchmark is the same one from here
        whole = said(run(*ask, "manifest.jsonl"), 0)
        assert whole == {"output": str(p), "written": 2, "kept": 2, "failed": [], "missing": [], "lack": "video"}

        found = said(run("consensus", p, "-o", median, "--benchmark", ".", "--json"), 0)
        assert (found["output"], found["clips"], found["trials"], found["missing"]) == (str(median), 2, 4, 0)
    found = said(run("localize", "--model", "uniform", "--benchmark", ".", "-o", tmp_path / "u.jsonl", "--json"), 0)
    assert (found["written"], found["missing"], found["lack"]) == (2, [], "what uniform needs")
    assert said(run(*ask[:-1], "--plan", "--benchmark", "."), 0)["plan"]
    code, out, err = run("consensus", median, "-o", "-", "--benchmark", ".", "--json")
    assert (code, len(out.splitlines())) == (0, 2)
    assert json.loads(err)["clips"] == 2


def test_json_stays_json_where_a_name_could_steer_the_terminal(run: Run, tmp_path: Path, two_clips: Path) -> None:
    """JSON lets DEL, C1 controls and turned writing stand as they are; a terminal does not."""
    name, p = "un\x7f\x9b\u202eiform", tmp_path / "p.jsonl"
    ask = ("localize", "--model", "uniform", "--benchmark", two_clips, "-o", p, "--json")
    assert said(run(*ask), 0)["written"] == 2
    rows = [json.loads(line) | {"model": name} for line in p.read_text(encoding="utf-8").splitlines()]
    p.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    result = run("evaluate", p, "--benchmark", two_clips, "--json")
    assert said(result, 0)["runs"][0]["model"] == name
    assert not set(name[2:5]) & set(result[1])
