"""Answers about somebody's own videos are on the disk as soon as they are there, and are not asked for again."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.files import sole_writer
from tempoloc_nb.engines.make import EngineConfig
from tempoloc_nb.engines.protocol import Request, Response
from tempoloc_nb.formats.recordings import clips_of, find_recordings
from tempoloc_nb.inference import store
from tempoloc_nb.inference.find import find_boundaries
from tempoloc_nb.inference.found import Found
from tempoloc_nb.inference.record import record_path
from tempoloc_nb.inference.store import answers_path
from tempoloc_nb.models.ask import Sampling
from tempoloc_nb.models.locate import ask_config

SIM = load_benchmark("sim")
VIDEO = SIM.of_task("stack-three")[0].video_path(SIM.root)
EVENTS = ("lifting the lid", "putting the lid aside")


@dataclass
class Counting:
    """An engine that says two times of every video, others in each trial; it stops after `until` videos."""

    until: int = 99
    name: str = "fake"
    model: str = "counting"
    asked: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)

    def settings(self) -> dict[str, Any]:
        return {}

    def stream(self, requests: Sequence[Request], sampling: Sampling) -> Iterator[tuple[Request, list[Response]]]:
        for done, request in enumerate(requests):
            if done == self.until:
                raise KeyboardInterrupt
            self.asked.append((request.clip, request.trials))
            texts = {t: f"<{1 + t / 8}> <2.5> {EVENTS[0]}\n<2.5> <4.0> {EVENTS[1]}" for t in request.trials}
            yield request, [Response(t, x, 7, "stop", 9, 9, 9, 7.123456789, 0.25) for t, x in texts.items()]


@pytest.fixture
def videos(tmp_path: Path) -> Path:
    """Three videos of different names."""
    folder = tmp_path / "videos"
    folder.mkdir()
    for name in ("a.mp4", "b.mp4", "c.mp4"):
        shutil.copy(VIDEO, folder / name)
    return folder


def find(
    videos: Path, engine: Any, keep: Path | None, labels: tuple[str, ...] = EVENTS, **options: Any
) -> list[Found]:
    how = {k: options.pop(k) for k in ("say", "anew") if k in options}
    usual = {"trials": 3, "prompt": "tiny", "crops": False}
    ask = ask_config(options.pop("model", "tempoloc-tiny"), **{**usual, **options})
    clips = clips_of(find_recordings([videos]), labels)
    return sorted(find_boundaries(clips, ask, engine, keep=keep, **how), key=lambda f: f.name)


def test_what_was_answered_is_not_asked_again(videos: Path, tmp_path: Path) -> None:
    keep, first, second = answers_path(tmp_path / "out.csv"), Counting(until=2), Counting()
    with pytest.raises(KeyboardInterrupt):
        find(videos, first, keep)
    assert [json.loads(line)["clip"] for line in keep.read_text().splitlines()] == ["own/a"] * 3 + ["own/b"] * 3
    told: list[str] = []
    found = find(videos, second, keep, say=told.append)
    assert second.asked == [("own/c", (0, 1, 2))]
    assert told == ["2 of 3 videos are answered already", "asking counting about 1 video, 3 trials each"]
    assert found == find(videos, Counting(), None)  # to the digit
    assert found[0].boundaries == (1.125, 2.5)
    assert not list(tmp_path.glob(".*"))


def test_more_trials_ask_for_those_alone(videos: Path, tmp_path: Path) -> None:
    keep, engine = tmp_path / "k.jsonl", Counting()
    find(videos, Counting(), keep, trials=1)
    found = find(videos, engine, keep, trials=3)
    assert engine.asked == [(f"own/{name}", (1, 2)) for name in "abc"]
    assert found == find(videos, Counting(), None)
    again = Counting()
    assert find(videos, again, keep, trials=2) == find(videos, Counting(), None, trials=2)
    assert again.asked == []


def test_the_store_may_be_a_text(videos: Path, tmp_path: Path) -> None:
    keep: Any = str(tmp_path / "kept.jsonl")
    find(videos, Counting(), keep)
    again = Counting()
    find(videos, again, keep)
    assert Path(keep).is_file()
    assert not again.asked


def test_another_question_is_said_and_touches_nothing(videos: Path, tmp_path: Path) -> None:
    keep, engine = tmp_path / "k.jsonl", Counting()
    find(videos, Counting(), keep)
    before = keep.read_bytes()
    for changes, name in (({"seed": 1}, "sampling"), ({"fps": 4}, "fps"), ({"prompt": "recipe"}, "prompt")):
        with pytest.raises(TempolocError, match=rf"k\.jsonl was made with other settings \({name}\).*--force"):
            find(videos, engine, keep, **changes)
    with pytest.raises(TempolocError, match=r"other settings \(labels\)"):
        find(videos, engine, keep, EVENTS[:1])
    assert (keep.read_bytes(), engine.asked) == (before, [])
    find(videos, engine, keep, seed=1, anew=True)
    assert (len(engine.asked), len(keep.read_text().splitlines())) == (3, 9)
    record_path(keep).unlink()
    with pytest.raises(TempolocError, match=r"has rows, but not k\.run\.json"):
        find(videos, engine, keep, seed=1)


def test_a_changed_video_is_asked_again(videos: Path, tmp_path: Path) -> None:
    keep, engine = tmp_path / "k.jsonl", Counting()
    find(videos, Counting(), keep)
    shutil.copy(SIM.of_task("stack-three")[1].video_path(SIM.root), videos / "b.mp4")
    find(videos, engine, keep)
    assert [clip for clip, _ in engine.asked] == ["own/b"]


def test_videos_of_one_name_are_called_after_their_folders(videos: Path) -> None:
    (videos / "again").mkdir()
    shutil.copy(VIDEO, videos / "again" / "a.mp4")
    engine = Counting()
    found = find(videos, engine, None)
    assert [f.name for f in found] == ["a.mp4", "a.mp4", "b.mp4", "c.mp4"]
    assert [clip for clip, _ in engine.asked] == ["own/videos/a", "own/again/a", "own/b", "own/c"]
    assert found[0].events == found[1].events


def test_a_full_disk_stops_at_once_and_the_same_call_goes_on(
    videos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep, engine, writes = tmp_path / "k.jsonl", Counting(), list[int]()

    def write(fd: int, data: bytes) -> int:
        writes.append(len(data))
        if len(writes) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.write(fd, data)

    monkeypatch.setattr(store.disk, "write", write)
    with pytest.raises(TempolocError, match=r"cannot write .*k\.jsonl \(No space left.*run the same command again"):
        find(videos, engine, keep)
    assert len(engine.asked) == 2
    monkeypatch.undo()
    more = Counting()
    assert len(find(videos, more, keep)) == 3
    assert [clip for clip, _ in more.asked] == ["own/b", "own/c"]


def test_what_cannot_be_written_is_said_before_a_model_is_asked(videos: Path, tmp_path: Path) -> None:
    keep, engine = tmp_path / "k.jsonl", Counting()
    with sole_writer(keep), pytest.raises(TempolocError, match="is being written by process"):
        find(videos, engine, keep)
    keep.mkdir()
    with pytest.raises(TempolocError, match=r"k\.jsonl"):
        find(videos, engine, keep)
    assert engine.asked == []


def test_where_nothing_is_a_video_nothing_is_loaded_or_left(tmp_path: Path) -> None:
    for name in ("a.mp4", "b.mp4"):
        (tmp_path / name).write_bytes(b"no video")
    told: list[str] = []
    keep = tmp_path / "k.jsonl"
    found = find(tmp_path, EngineConfig(), keep, say=told.append)
    assert [bool(f.error) for f in found] == [True, True]
    assert told == []
    assert sorted(os.listdir(tmp_path)) == ["a.mp4", "b.mp4"]


def test_a_name_that_is_no_text_is_said_first(videos: Path) -> None:
    bad = videos / os.fsdecode(b"caf\xe9.mp4")
    shutil.copy(VIDEO, bad)
    engine = Counting()
    with pytest.raises(TempolocError, match="is not UTF-8 text, which no table can hold: rename it"):
        find(videos, engine, None)
    assert engine.asked == []


def test_a_model_that_does_not_load_leaves_nothing(videos: Path, tmp_path: Path) -> None:
    keep, before = tmp_path / "k.jsonl", sorted(p.name for p in tmp_path.iterdir())
    with pytest.raises(TempolocError):
        find(videos, EngineConfig(device="cuda:99"), keep)
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_beginning_anew_leaves_what_another_process_writes(videos: Path, tmp_path: Path) -> None:
    keep = tmp_path / "k.jsonl"
    find(videos, Counting(), keep)
    before = keep.read_bytes()
    with sole_writer(keep), pytest.raises(TempolocError, match="is being written by process"):
        find(videos, Counting(), keep, seed=1, anew=True)
    assert keep.read_bytes() == before
