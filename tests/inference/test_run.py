"""The runner asks once for everything, loses nothing and says what it could not do."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from asking import run_backend
from fake_backend import Truthful
from logging_engine import Logging
from video_clips import write_clip

from tempoloc_nb.clips.manifest import Clips, load_benchmark, write_manifest
from tempoloc_nb.clips.videos import find_videos
from tempoloc_nb.core import machine
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.machine import check_shard, read_shard, shard_of, shard_path
from tempoloc_nb.engines.protocol import Request, Response
from tempoloc_nb.inference import requests
from tempoloc_nb.inference import run as runner
from tempoloc_nb.inference.record import pack_predictions, read_record, read_rows, record_path, write_record
from tempoloc_nb.inference.requests import _view_name, complete_request, plan_requests, request_id
from tempoloc_nb.inference.run import Asking
from tempoloc_nb.inference.store import PredictionStore, errors_path
from tempoloc_nb.models.ask import AskConfig, Sampling, load_prompt
from tempoloc_nb.models.constraints import answer_constraint
from tempoloc_nb.models.locate import get_model
from tempoloc_nb.scoring.evaluation import evaluate
from tempoloc_nb.video.files import probe
from tempoloc_nb.video.view import View

SIM = load_benchmark("sim")
FEW = replace(SIM, clips=SIM.with_videos()[:4])


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def keys(path: Path) -> list[tuple[str, int]]:
    return [(row["request_id"], row["trial"]) for row in rows(path)]


def test_rows_are_scored_as_they_are(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "p.jsonl"
    summary = run_backend(Truthful(), FEW, out, fps=8, trials=2, prompt="tiny")
    assert (summary.written, summary.kept, summary.failed, summary.missing) == (8, 0, (), ())
    result = evaluate([out], FEW, resamples=50)
    assert result.model == "truthful"
    assert (result.estimate("mae_s").value or 0) < 0.01
    record = json.loads((tmp_path / "deep" / "p.run.json").read_text())
    assert record["settings"]["fps"] == 8
    assert record["settings"]["backend_settings"] == {"revision": "1", "device": "cpu"}
    assert (record["trials"], record["wanted"]) == (2, 8)
    assert "constraint" not in record["settings"]
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


def test_with_crops_each_trial_is_a_question_of_its_own(tmp_path: Path) -> None:
    out, bad = tmp_path / "p.jsonl", FEW.clips[1].clip
    first = Truthful([bad])
    summary = run_backend(first, FEW, out, fps=8, trials=3, crops=True)
    assert (summary.written, summary.failed) == (9, ((bad, f"{bad}: no good"),))
    assert {(r.view.crop, r.trials) for r in first.asked} == {(t, (t,)) for t in range(3)}
    again = Truthful()
    assert run_backend(again, FEW, out, fps=8, trials=4, crops=True).written == 7
    assert sorted((r.clip == bad, r.view.crop) for r in again.asked) == [(False, 3)] * 3 + [(True, t) for t in range(4)]
    assert len({row["request_id"] for row in rows(out)}) == len(rows(out)) == 16
    assert (evaluate([out], FEW, resamples=50).estimate("mae_s").value or 0) < 0.01
    with pytest.raises(TempolocError, match=r"other settings \(crops\)"):
        run_backend(Truthful(), FEW, out, fps=8, trials=4)


def test_the_first_trial_is_the_same_with_crops_and_without(tmp_path: Path) -> None:
    outs = [tmp_path / "whole.jsonl", tmp_path / "crops.jsonl"]
    for out, crops in zip(outs, (False, True), strict=True):
        run_backend(Truthful(), FEW, out, fps=8, crops=crops)
    assert keys(outs[0]) == keys(outs[1])


WHICH = load_benchmark("which")
SHOWN = replace(WHICH, clips=WHICH.with_videos())  # 15 questions about two videos


class Logger(Logging):
    """Writes what happens in the videos of `which`; `wrong` names a video of whose log the end is missing."""

    def __init__(self, wrong: str = "") -> None:
        super().__init__(())
        self.wrong = wrong

    def text(self, request: Request, trial: int) -> str:
        shown = request.video.parent.name + "/" + request.video.stem  # type: ignore[union-attr]
        (all_,) = (c for c in SHOWN.clips if c.extra == c.extra | {"kind": "all", "shown": shown})
        self.script = [(e.boundary or 0.0, re.sub(r" for the \w+ time$", "", e.label)) for e in all_.events]
        return super().text(request, trial)[: 40 if shown == self.wrong else None]


def test_a_log_answers_all_questions_about_its_video(tmp_path: Path) -> None:
    out, way = tmp_path / "p.jsonl", {"prompt": "log", "temperature": 0.0, "fps": 8}
    engine = Logger()
    summary = run_backend(engine, SHOWN, out, trials=3, crops=True, **way)
    assert (summary.written, len(engine.asked)) == (45, 6)  # two videos, three crops
    assert {(row["form"], row["trial"]) for row in rows(out)} == {("log", t) for t in range(3)}
    assert len(set(keys(out))) == 45
    assert sum(row["latency_s"] > 0 for row in rows(out)) == 6
    scores = evaluate([out], SHOWN, resamples=50)
    assert (scores.estimate("mae_s").value or 0) < 0.01
    assert (scores.estimate("usable").value, scores.estimate("hit@0.25s").value) == (1.0, 1.0)
    lines = out.read_text().splitlines(keepends=True)
    out.write_text("".join(line for line in lines if '"swapped/which-iiwa-000"' not in line))
    again = Logger()
    assert run_backend(again, SHOWN, out, trials=3, crops=True, **way).written == 3
    assert {r.clip for r in again.asked} == {"swapped/which-iiwa-000"}
    assert len(again.asked) == 3


def test_what_is_drawn_is_asked_for_each_question(tmp_path: Path) -> None:
    engine = Logger(wrong="which-iiwa/000")
    run_backend(engine, SHOWN, tmp_path / "p.jsonl", prompt="log", temperature=0.6, fps=8)
    assert len(engine.asked) == 15
    scores = evaluate([tmp_path / "p.jsonl"], SHOWN, resamples=50)
    assert (scores.estimate("status_malformed").value or 0) > 0.3  # a log that is cut off says nothing of its events


def test_a_model_that_writes_no_logs_is_not_asked_for_one(tmp_path: Path) -> None:
    engine = Logger()
    engine.model = "tempoloc-tiny-base"
    with pytest.raises(TempolocError, match="tempoloc-tiny-base was not trained to write logs of events"):
        run_backend(engine, SHOWN, tmp_path / "p.jsonl", prompt="log")
    assert engine.asked == []
    assert not list(tmp_path.iterdir())


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
    write_record(other, read_record(out))
    with pytest.raises(TempolocError, match=r"other\.jsonl:1 is not a prediction"):
        run_backend(Truthful(), FEW, other, fps=8)
    with pytest.raises(TempolocError, match="trials must be 1"):
        run_backend(Truthful(), FEW, tmp_path / "n.jsonl", fps=8, trials=0)


def test_a_benchmark_is_known_by_its_clips_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clips = [replace(c, video=str(c.video_path(SIM.root))) for c in FEW.clips]
    mine = tmp_path / "mine"
    mine.mkdir()
    write_manifest(mine / "manifest.jsonl", clips[:3])
    shutil.copytree(mine, tmp_path / "moved")
    out = tmp_path / "p.jsonl"
    assert run_backend(Truthful(), load_benchmark(mine), out, fps=8).written == 3
    for folder in (mine, tmp_path, tmp_path / "moved"):
        monkeypatch.chdir(folder)
        name = "mine/manifest.jsonl" if folder == tmp_path else "manifest.jsonl"
        assert run_backend(Truthful(), load_benchmark(name), out, fps=8).kept == 3
    write_manifest(mine / "manifest.jsonl", clips)  # one clip more
    monkeypatch.chdir(mine)
    assert run_backend(Truthful(), load_benchmark("manifest.jsonl"), out, fps=8).written == 1
    other = replace(clips[0], events=tuple(replace(e, label=f"now {e.label}") for e in clips[0].events))
    with pytest.raises(TempolocError, match=r"other settings \(benchmark\)"):
        run_backend(Truthful(), replace(load_benchmark(mine), clips=(other, *clips[1:])), out, fps=8)
    record = read_record(out)  # as earlier versions wrote it: known by its name
    del record["asked"]
    record["settings"]["benchmark"] = "mine"
    write_record(out, record)
    assert run_backend(Truthful(), load_benchmark(mine), out, fps=8).kept == 4


def test_other_events_can_be_asked_for(tmp_path: Path) -> None:
    clip = FEW.clips[0]
    swapped = (clip.labels[1], clip.labels[0], *clip.labels[2:])
    backend, out = Truthful(), tmp_path / "p.jsonl"
    run_backend(backend, FEW, out, fps=8, labels={clip.clip: swapped})
    assert backend.asked[0].labels == swapped
    found = {row["clip"]: row.get("labels") for row in rows(out)}
    assert found == {clip.clip: list(swapped)} | {c.clip: None for c in FEW.clips[1:]}


def test_rows_say_that_json_was_asked_for(tmp_path: Path) -> None:
    for prompt, constraint, form in (
        ("tiny", None, None), ("recipe-json", None, "json"), ("tiny", "json", "json"), ("card-json", "regex", None),
    ):  # fmt: skip
        out = tmp_path / f"{prompt}-{constraint}.jsonl"
        run_backend(Truthful(), FEW, out, fps=8, prompt=prompt, structured=constraint)  # type: ignore[arg-type]
        assert {row.get("form") for row in rows(out)} == {form}
        packed = pack_predictions(out, tmp_path / "packed")
        assert {row.get("form") for row in read_rows(packed)} == {form}


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


def test_ids_of_earlier_runs_are_still_theirs(tmp_path: Path) -> None:
    """A change here would ask again for everything that was ever answered."""
    video = tmp_path / "a.mp4"
    video.write_bytes(b"one")
    base = Request("t/0", "t", video, ("grasping",), load_prompt("tiny"), 8.0, View("pair"))
    assert request_id(base, {"revision": "1"}, Sampling(max_new_tokens=400)) == "5b26ae350dbd2e50"
    constrained = replace(base, constraint=answer_constraint("regex", base.labels, 2.0))
    assert request_id(constrained, {"revision": "1"}, Sampling(max_new_tokens=400)) != "5b26ae350dbd2e50"


def test_views_have_names() -> None:
    assert _view_name(View()) == "frame"
    assert _view_name(View("pair", 5.0)) == "pair-shift+5"
    assert _view_name(View(content="blank")) == "frame-blank"


def recipe_of(*tasks: str) -> Clips:
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


def test_a_video_that_names_a_task_is_no_other_tasks(tmp_path: Path) -> None:
    """A study scores the clips that were answered, perhaps those of one task, with all videos there."""
    recipe = load_benchmark("recipe")
    for name in ("cube_stacking_demo0.mp4", "cube_bridge_demo0.mp4", "cube_bridge_demo1.mp4", "nut_pouring_demo0.mp4"):
        (tmp_path / name).write_bytes(b"")
    found = find_videos(recipe, tmp_path)
    assert {clip: path.name for clip, path in found.items()} == {
        "cube/0": "cube_stacking_demo0.mp4", "nut/0": "nut_pouring_demo0.mp4", "bridge/0": "cube_bridge_demo0.mp4",
        "bridge/1": "cube_bridge_demo1.mp4",
    }  # fmt: skip
    part = find_videos(recipe.only(["cube/0", "cube/1", "nut/0"]), tmp_path)
    assert part == {clip: found[clip] for clip in ("cube/0", "nut/0")}
    (tmp_path / "demo_9.mp4").write_bytes(b"")
    assert find_videos(recipe, tmp_path)["cube/9"].name == "demo_9.mp4"  # no other task has so many


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


# --- planned and completed one by one ---


def planned(count: int, trials: int = 2) -> list[Request]:
    few = replace(SIM, clips=SIM.with_videos()[:count])
    return plan_requests(few, find_videos(few), AskConfig(prompt="tiny", fps=8, view=View(), trials=trials))


def asking(tmp_path: Path, trials: int = 2) -> Asking:
    return Asking(Truthful(), AskConfig(prompt="tiny", trials=trials), PredictionStore(tmp_path / "p.jsonl"))


def test_requests_are_completed_when_they_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    completed: list[str] = []

    def complete(request: Request, *rest: Any) -> Request:
        completed.append(request.clip)
        return complete_request(request, *rest)

    monkeypatch.setattr("tempoloc_nb.inference.run.complete_request", complete)
    plan = planned(4)
    left = asking(tmp_path).pending(plan)
    assert not completed
    assert next(left).clip == plan[0].clip
    assert completed == [plan[0].clip]
    assert [r.clip for r in left] == [r.clip for r in plan[1:]]
    assert completed == [r.clip for r in plan]


def test_what_is_there_is_passed_over(tmp_path: Path) -> None:
    ask = AskConfig(prompt="tiny", trials=3)
    plan = [complete_request(r, ask, Truthful().settings()) for r in planned(3, trials=3)]
    have = [(plan[0].id, 0), (plan[0].id, 2), *((plan[1].id, t) for t in range(5))]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps({"request_id": i, "trial": t}) + "\n" for i, t in have))
    run = asking(tmp_path, trials=3)
    assert [(r.clip, r.trials) for r in run.pending(plan)] == [(plan[0].clip, (1,)), (plan[2].clip, (0, 1, 2))]
    assert (run.kept, run.failed) == (5, [])


def test_a_small_model_sees_pictures_of_the_size_that_it_knows(tmp_path: Path) -> None:
    """And other models those of the video, so that their questions keep their ids."""
    ask, trained = AskConfig(prompt="log"), get_model("tempoloc-tiny").trained
    for size, side in (((256, 256), 0), ((288, 288), 256), ((320, 240), 256)):
        video = write_clip(tmp_path / f"{size[0]}.mp4", 4, size)
        plan = Request("a", "a", video, ("grasping the cube",), load_prompt("log"), 8.0, View(), (0,))
        mine, other = (complete_request(plan, ask, {}, known) for known in (trained, None))
        assert (mine.view, other.view) == (View(side=side), View())
        assert (mine.id == other.id) == (side == 0)
        again = complete_request(mine, ask, {}, trained)
        assert again == mine
        stamped = complete_request(replace(plan, view=View("none")), ask, {}, trained)  # the times are in the file
        assert stamped.view == View("none")


def test_a_run_reads_each_video_once_and_only_when_it_is_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "videos"
    shared.mkdir()
    source = FEW.clips[0].video_path(SIM.root)
    shutil.copy(source, shared / "one.mp4")
    clips = tuple(replace(c, video="one.mp4") for c in FEW.clips)
    read: list[str] = []
    real = hashlib.file_digest

    def digest(file: Any, name: str) -> Any:
        read.append(file.name)
        return real(file, name)

    monkeypatch.setattr(machine.hashlib, "file_digest", digest)
    machine._content_hash.cache_clear()
    one = replace(FEW, clips=clips, root=shared)
    assert run_backend(Truthful(), one, tmp_path / "p.jsonl", fps=8).written == 4
    assert len(read) == 1
    read.clear()
    machine._content_hash.cache_clear()
    with pytest.raises(KeyboardInterrupt):
        run_backend(Truthful(limit=1), FEW, tmp_path / "q.jsonl", fps=8)
    assert len(read) <= 2


def test_a_video_that_changes_during_a_run_is_read_again(tmp_path: Path) -> None:
    video = tmp_path / "a.mp4"
    video.write_bytes(b"one")
    first = machine.file_hash(video)
    video.write_bytes(b"longer")
    assert machine.file_hash(video) != first


def test_a_video_that_cannot_be_read_is_a_failure_of_its_clip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, bad = requests.file_hash, FEW.clips[2]

    def file_hash(path: Path) -> str:
        if path == bad.video_path(SIM.root):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(requests, "file_hash", file_hash)
    out = tmp_path / "p.jsonl"
    summary = run_backend(Truthful(), FEW, out, fps=8)
    assert (summary.written, [clip for clip, _ in summary.failed]) == (3, [bad.clip])
    assert summary.failed[0][1] == f"{bad.video_path(SIM.root)}: Permission denied"  # which has the clip's name
    (error,) = rows(tmp_path / "p.errors.jsonl")
    assert (error["clip"], error["trials"]) == (bad.clip, [0])
    monkeypatch.setattr(requests, "file_hash", real)
    assert run_backend(Truthful(), FEW, out, fps=8).written == 1
    assert not (tmp_path / "p.errors.jsonl").exists()


# --- what back ends may do wrong ---


class Odd(Truthful):
    """A back end whose answers are changed by `change` before they are given."""

    def __init__(self, change: Any) -> None:
        super().__init__()
        self.change = change

    def stream(
        self, requests: Sequence[Request], sampling: Sampling
    ) -> Iterator[tuple[Request, list[Response] | TempolocError]]:
        return iter(self.change(list(super().stream(requests, sampling))))


def test_half_characters_and_control_characters_in_answers_are_read_again(tmp_path: Path) -> None:
    out, odd = tmp_path / "p.jsonl", "\x1b[J\x07 \x9bJ \u202e \u2028 \ud83d\ude00 \ud800 \udc00"

    def change(found: list[Any]) -> Iterator[Any]:
        yield found[0][0], TempolocError(f"{found[0][0].clip}: {odd}")
        for request, answer in found[1:]:
            yield request, [replace(r, text=f"{r.text}\n{odd}") for r in answer]

    assert run_backend(Odd(change), FEW, out, fps=8).written == 3
    assert run_backend(Odd(change), FEW, out, fps=8).kept == 3
    for path in (out, errors_path(out)):
        assert not re.findall("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e]", path.read_text(encoding="utf-8"))
    assert all(r["text"].endswith("\x1b[J\x07 \x9bJ \u202e \u2028 😀 � �") for r in rows(out))
    for path in (out, pack_predictions(out, tmp_path / "packed")):
        assert evaluate([path], FEW, resamples=50).estimate("recall").value == 1.0


def test_answers_that_a_back_end_forgets_are_failures(tmp_path: Path) -> None:
    out = tmp_path / "p.jsonl"
    lazy = Odd(lambda found: [(found[0][0], found[0][1][:1]), *found[2:]])  # a trial of one clip, and a whole clip
    summary = run_backend(lazy, FEW, out, fps=8, trials=2)
    one, two = FEW.clips[0].clip, FEW.clips[1].clip
    assert summary.written == 5
    assert summary.failed == (
        (one, "the back end gave no answer for trials [1]"), (two, "the back end gave no answer"),
    )  # fmt: skip
    assert [(e["clip"], e["trials"]) for e in rows(tmp_path / "p.errors.jsonl")] == [(one, [1]), (two, [0, 1])]
    again = Truthful()
    assert run_backend(again, FEW, out, fps=8, trials=2).written == 3
    assert [(r.clip, r.trials) for r in again.asked] == [(one, (1,)), (two, (0, 1))]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda found: [*found, found[0]], "answered .* twice"),
        (lambda found: [(replace(found[0][0], id="0" * 16), found[0][1])], "or without being asked"),
        (lambda found: [(found[0][0], found[0][1] * 2)], r"asked for trials \[0, 1\], .* gave \[0, 1, 0, 1\]"),
        (lambda found: [(found[0][0], [replace(found[0][1][0], trial=7)])], r"the back end gave \[7\]"),
    ],
)
def test_answers_that_were_not_asked_for_are_refused(tmp_path: Path, change: Any, message: str) -> None:
    out = tmp_path / "p.jsonl"
    with pytest.raises(TempolocError, match=message):
        run_backend(Odd(change), FEW, out, fps=8, trials=2)
    run_backend(Truthful(), FEW, out, fps=8, trials=2)
    assert len(set(keys(out))) == len(keys(out)) == 8


def test_an_engine_that_ends_leaves_what_it_said(tmp_path: Path) -> None:
    class Gone(Truthful):
        def answer(self, r: Request, sampling: Sampling) -> list[Response] | TempolocError:
            if len(self.asked) == 3:
                raise TempolocError("the engine is gone; run the same command again")
            return super().answer(r, sampling)

    out = tmp_path / "p.jsonl"
    with pytest.raises(TempolocError, match="the engine is gone"):
        run_backend(Gone([FEW.clips[0].clip]), FEW, out, fps=8)
    assert len(rows(out)) == 1
    assert len(rows(tmp_path / "p.errors.jsonl")) == 1
    assert run_backend(Truthful(), FEW, out, fps=8).written == 3
    assert not (tmp_path / "p.errors.jsonl").exists()


def test_an_interrupted_engine_is_told_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Truthful()

    def interrupt(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "response_row", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_backend(backend, FEW, tmp_path / "p.jsonl", fps=8)
    assert backend.closed


# --- progress ---


def test_progress_counts_what_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "p.jsonl"
    run_backend(Truthful(), FEW, out, fps=8)
    capsys.readouterr()
    run_backend(Truthful([FEW.clips[0].clip]), FEW, out, fps=8, trials=3, progress=True)
    shown = capsys.readouterr().err.split("\r")[-1]
    assert "8/8" in shown
    assert "failed=1" in shown
    assert "tokens/s=" in shown


# --- constraints ---


def test_each_clip_has_a_constraint_of_its_own(tmp_path: Path) -> None:
    out, backend = tmp_path / "p.jsonl", Truthful()
    run_backend(backend, FEW, out, fps=8, structured="regex", think=True)
    for request in backend.asked:
        duration = probe(request.video).duration
        assert request.constraint == answer_constraint("regex", request.labels, duration, think=True)
    assert read_record(out)["settings"]["constraint"] == {"kind": "regex", "think": True}
    assert run_backend(Truthful(), FEW, out, fps=8, structured="regex", think=True).kept == 4
    for other in ({}, {"structured": "json"}, {"structured": "regex", "think": False}):
        with pytest.raises(TempolocError, match=r"other settings \(constraint\)"):
            run_backend(Truthful(), FEW, out, fps=8, **other)  # type: ignore[arg-type]
    free = tmp_path / "free.jsonl"
    run_backend(Truthful(), FEW, free, fps=8)
    assert not {row["request_id"] for row in rows(out)} & {row["request_id"] for row in rows(free)}


def test_an_impossible_constraint_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    with pytest.raises(TempolocError, match="unknown structured output"):
        run_backend(Truthful(), FEW, tmp_path / "p.jsonl", fps=8, structured="grammar")  # type: ignore[arg-type]
    assert not (tmp_path / "p.jsonl").exists()


# --- shards ---


def test_shards_share_the_clips_whatever_else_is_asked(tmp_path: Path) -> None:
    few = replace(SIM, clips=SIM.with_videos()[:20])
    found: Counter[str] = Counter()
    for i in (1, 2, 3):
        summary = run_backend(Truthful(), few, tmp_path / "p.jsonl", fps=8, trials=2, shard=(i, 3))
        assert summary.output == tmp_path / f"p.{i}-of-3.jsonl"
        mine = [row["clip"] for row in rows(summary.output)]
        assert all(shard_of(clip, 3) == i for clip in mine)
        found.update(mine)
        record = read_record(summary.output)
        assert (record["shard"], record["wanted"]) == ([i, 3], len(mine))
        assert run_backend(Truthful(), few, tmp_path / "p.jsonl", fps=8, trials=2, shard=(i, 3)).kept == len(mine)
    assert found == Counter({c.clip: 2 for c in few.clips})
    assert not (tmp_path / "p.jsonl").exists()
    half = replace(few, clips=few.clips[::2])
    run_backend(Truthful(), half, tmp_path / "half.jsonl", fps=8, shard=(1, 3))
    assert {row["clip"] for row in rows(tmp_path / "half.1-of-3.jsonl")} == {
        row["clip"] for row in rows(tmp_path / "p.1-of-3.jsonl")
    } & {c.clip for c in half.clips}


def test_a_shard_without_a_clip_is_an_empty_run(tmp_path: Path) -> None:
    one = replace(FEW, clips=FEW.clips[:1])
    empty = shard_of(one.clips[0].clip, 2) % 2 + 1
    summary = run_backend(Truthful(), one, tmp_path / "p.jsonl", fps=8, shard=(empty, 2))
    assert (summary.written, summary.failed, summary.missing) == (0, (), ())
    assert shard_path(tmp_path / "p.jsonl", (empty, 2)).read_bytes() == b""


def test_shards_are_counted_from_one() -> None:
    assert read_shard("8/8") == (8, 8)
    for text in ("0/8", "9/8", "1/0"):
        with pytest.raises(TempolocError, match=f"there is no shard {text}"):
            read_shard(text)
    for text in ("1", "1/", "-1/8", "a/b", "1/8/2"):
        with pytest.raises(TempolocError, match="a shard is I/N"):
            read_shard(text)
    with pytest.raises(TempolocError, match="there is no shard 0/2"):
        check_shard((0, 2))


def test_rows_of_something_else_get_no_answers(tmp_path: Path) -> None:
    out = tmp_path / "predictions.jsonl"
    run_backend(Truthful(), FEW, out, fps=8)
    record_path(out).unlink()  # as a baseline's rows
    before = out.read_bytes()
    with pytest.raises(TempolocError, match=r"has rows, but not predictions.run.json"):
        run_backend(Truthful(), FEW, out, fps=8)
    assert out.read_bytes() == before


def test_a_record_beside_something_else_stays(tmp_path: Path) -> None:
    out = tmp_path / "p.jsonl"
    run_backend(Truthful(), FEW, out, fps=8)
    before = (tmp_path / "p.run.json").read_bytes()
    out.write_text("another's notes\n")
    with pytest.raises(TempolocError, match="not a prediction"):
        run_backend(Truthful(), FEW, out, fps=8)
    assert (out.read_text(), (tmp_path / "p.run.json").read_bytes()) == ("another's notes\n", before)


def test_shards_are_read_as_one_file(tmp_path: Path) -> None:
    out = tmp_path / "p.jsonl"
    first = run_backend(Truthful(), FEW, out, fps=8, shard=(1, 2)).output
    with pytest.raises(TempolocError, match="lacks the shard 2/2"):
        evaluate([out], FEW, resamples=50)
    run_backend(Truthful(), FEW, out, fps=8, shard=(2, 2))
    assert len(list(read_rows(out))) == len(FEW.clips)
    whole = run_backend(Truthful(), FEW, tmp_path / "whole.jsonl", fps=8).output
    one, other = evaluate([out], FEW, resamples=50), evaluate([whole], FEW, resamples=50)
    assert one.estimate("mae_s") == other.estimate("mae_s")
    first.rename(tmp_path / "p.1-of-3.jsonl")
    with pytest.raises(TempolocError, match="has shards of 2 and 3"):
        evaluate([out], FEW, resamples=50)
    out.touch()
    with pytest.raises(TempolocError, match=r"p\.jsonl is there, and shards of it"):
        list(read_rows(out))
