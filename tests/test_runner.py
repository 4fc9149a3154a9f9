"""The runner asks once for everything, loses nothing and says what it could not do."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tempoloc_nb.clip_inputs import View
from tempoloc_nb.evaluate import evaluate
from tempoloc_nb.localize import answer_text
from tempoloc_nb.prompts import load_prompt
from tempoloc_nb.runner import (
    Request,
    Response,
    Sampling,
    find_videos,
    request_id,
    row_seed,
    run_backend,
    view_name,
)
from tempoloc_nb.settings import TempolocError
from tempoloc_nb.tasks import Benchmark, load_benchmark

SIM = load_benchmark("sim")
FEW = replace(SIM, clips=SIM.with_videos()[:4])


class Truthful:
    """Answers the truth, notes what it was asked, fails for `bad` clips, stops after `limit` requests."""

    name, model = "fake", "truthful"

    def __init__(self, bad: Sequence[str] = (), limit: int | None = None, revision: str = "1") -> None:
        self.bad, self.limit, self.revision = bad, limit, revision
        self.asked: list[Request] = []

    def settings(self) -> dict[str, Any]:
        return {"revision": self.revision}

    def stream(
        self, requests: Sequence[Request], sampling: Sampling
    ) -> Iterator[tuple[Request, list[Response] | TempolocError]]:
        truth = {c.clip: dict(zip(c.labels, c.boundaries, strict=True)) for c in SIM.clips}
        for number, r in enumerate(requests):
            if number == self.limit:
                raise KeyboardInterrupt
            self.asked.append(r)
            if r.clip in self.bad:
                yield r, TempolocError(f"{r.clip}: no good")
                continue
            text = answer_text(r.labels, [truth[r.clip][label] for label in r.labels], 99.0)
            yield r, [
                Response(t, text, row_seed(sampling.seed, r.clip, t), "stop", 9, 9, 4, r.fps, 0.0) for t in r.trials
            ]


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def keys(path: Path) -> list[tuple[str, int]]:
    return [(row["request_id"], row["trial"]) for row in rows(path)]


def test_rows_are_scored_as_they_are(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "p.jsonl"
    summary = run_backend(Truthful(), FEW, out, fps=8, trials=2, prompt="tiny")
    assert (summary.written, summary.kept, summary.failed, summary.missing) == (8, 0, (), ())
    result = evaluate([out], FEW, resamples=50)
    assert result.runs[0].model == "truthful"
    assert result.runs[0].scores["mae_s"].value < 0.01
    record = json.loads((tmp_path / "deep" / "p.run.json").read_text())
    assert record["settings"]["fps"] == 8
    assert record["settings"]["backend_settings"] == {"revision": "1"}
    assert "numpy" in record["versions"]
    assert {"seed", "finish_reason", "prompt_tokens", "completion_tokens", "latency_s", "effective_fps", "view",
            "backend", "vision_tokens"} <= set(rows(out)[0])  # fmt: skip


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path) -> None:
    out = tmp_path / "p.jsonl"
    with pytest.raises(KeyboardInterrupt):
        run_backend(Truthful(limit=2), FEW, out, fps=8, trials=3)
    assert len(rows(out)) == 6
    whole = out.read_bytes()
    cut = whole.splitlines(keepends=True)
    out.write_bytes(b"".join(cut[:-1]) + cut[-1][:40])  # killed while writing the last line
    again = Truthful()
    summary = run_backend(again, FEW, out, fps=8, trials=3)
    assert (summary.kept, summary.written) == (5, 7)
    assert [r.trials for r in again.asked] == [(2,), (0, 1, 2), (0, 1, 2)]
    assert len(set(keys(out))) == len(keys(out)) == 12
    assert run_backend(Truthful(bad=[c.clip for c in FEW.clips]), FEW, out, fps=8, trials=3).written == 0


def test_failures_are_kept_apart_and_asked_again(tmp_path: Path) -> None:
    out, bad = tmp_path / "p.jsonl", FEW.clips[1].clip
    summary = run_backend(Truthful([bad]), FEW, out, fps=8)
    assert summary.failed == ((bad, f"{bad}: no good"),)
    assert "1 clips failed" in str(summary)
    errors = tmp_path / "p.errors.jsonl"
    assert [row["clip"] for row in rows(errors)] == [bad]
    again = Truthful()
    assert run_backend(again, FEW, out, fps=8).written == 1
    assert [r.clip for r in again.asked] == [bad]
    assert not errors.exists()


def test_a_file_of_another_run_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "p.jsonl"
    run_backend(Truthful(), FEW, out, fps=8)
    with pytest.raises(TempolocError, match=r"other settings \(fps\)"):
        run_backend(Truthful(), FEW, out, fps=4)
    with pytest.raises(TempolocError, match=r"other settings \(view\)"):
        run_backend(Truthful(), FEW, out, fps=8, view=View("pair"))
    with pytest.raises(TempolocError, match="backend_settings"):
        run_backend(Truthful(revision="2"), FEW, out, fps=8)
    other = tmp_path / "other.jsonl"
    other.write_text('{"clip": "x"}\n')
    with pytest.raises(TempolocError, match=r"other\.jsonl:1 is not a prediction"):
        run_backend(Truthful(), FEW, other, fps=8)
    with pytest.raises(TempolocError, match="trials must be 1"):
        run_backend(Truthful(), FEW, tmp_path / "n.jsonl", fps=8, trials=0)


def test_other_events_can_be_asked_for(tmp_path: Path) -> None:
    clip = FEW.clips[0]
    swapped = (clip.labels[1], clip.labels[0], *clip.labels[2:])
    backend, out = Truthful(), tmp_path / "p.jsonl"
    run_backend(backend, FEW, out, fps=8, labels={clip.clip: swapped})
    assert backend.asked[0].labels == swapped
    found = {row["clip"]: row.get("labels") for row in rows(out)}
    assert found == {clip.clip: list(swapped)} | {c.clip: None for c in FEW.clips[1:]}


def test_an_id_changes_with_what_changes_the_answer(tmp_path: Path) -> None:
    video = tmp_path / "a.mp4"
    video.write_bytes(b"one")
    base = Request("t/0", "t", video, ("grasping",), load_prompt("tiny"), 8.0)
    one = request_id(base, {}, Sampling())
    assert one == request_id(replace(base, trials=(5,)), {}, Sampling())
    copy = tmp_path / "copy.mp4"
    shutil.copy(video, copy)
    assert one == request_id(replace(base, video=copy), {}, Sampling())
    copy.write_bytes(b"two")
    changed = [
        request_id(replace(base, video=copy), {}, Sampling()),
        request_id(replace(base, fps=4.0), {}, Sampling()),
        request_id(replace(base, labels=("releasing",)), {}, Sampling()),
        request_id(replace(base, prompt=load_prompt("recipe")), {}, Sampling()),
        request_id(replace(base, view=View("pair")), {}, Sampling()),
        request_id(base, {"revision": "2"}, Sampling()),
        request_id(base, {}, Sampling(temperature=0.1)),
    ]
    assert len({one, *changed}) == 8


def test_views_have_names() -> None:
    assert view_name(View()) == "frame"
    assert view_name(View("pair", 5.0)) == "pair-shift+5"
    assert view_name(View(content="blank")) == "frame-blank"


def recipe_of(*tasks: str) -> Benchmark:
    recipe = load_benchmark("recipe")
    return replace(
        recipe, tasks={k: recipe.tasks[k] for k in tasks}, clips=tuple(c for c in recipe.clips if c.task in tasks)
    )


def test_the_recipes_videos_are_found_by_their_names(tmp_path: Path) -> None:
    cut = recipe_of("toaster").clips[0].name
    names = ("cube_stacking_demo0.mp4", "nut/demo_1.mp4", f"{cut}.mp4", "notes.txt", "holiday.mp4")
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    found = find_videos(load_benchmark("recipe"), tmp_path)
    assert {k: v.relative_to(tmp_path).as_posix() for k, v in found.items()} == {
        "cube/0": names[0], "nut/1": names[1], f"toaster/{cut}": names[2],
    }  # fmt: skip
    (tmp_path / "stamped_cube_stacking_demo0.mp4").write_bytes(b"")
    with pytest.raises(TempolocError, match="are both cube/0"):
        find_videos(recipe_of("cube"), tmp_path)


def test_missing_videos_are_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(TempolocError, match=r"60 of 60 clips have no video .*--video-root"):
        find_videos(load_benchmark("recipe"))
    with pytest.raises(TempolocError, match="no such folder"):
        find_videos(SIM, tmp_path / "absent")
    two = replace(SIM, clips=(FEW.clips[0], next(c for c in SIM.clips if c not in SIM.with_videos())))
    summary = run_backend(Truthful(), two, tmp_path / "p.jsonl", fps=8)
    assert summary.missing == (two.clips[1].clip,)
    assert capsys.readouterr().err.count("1 of 2 clips have no video") == 1


@pytest.mark.parametrize(
    "bad", [{"temperature": -1}, {"top_p": 0}, {"top_p": 1.1}, {"repetition_penalty": 0}, {"max_new_tokens": 0}]
)
def test_impossible_sampling_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(TempolocError):
        Sampling(**bad)
