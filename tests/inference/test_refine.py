"""A second look at each boundary moves it to where it is, or leaves it and says why."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tempoloc_nb.clips.manifest import Benchmark, load_benchmark
from tempoloc_nb.clips.tasks import BoundaryIs, Event
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.files import write_jsonl
from tempoloc_nb.core.settings import data_dir
from tempoloc_nb.engines.protocol import Request, Response
from tempoloc_nb.inference.consensus import Combined, CombinedEvent
from tempoloc_nb.inference.no_video import prediction_rows
from tempoloc_nb.inference.record import read_record, write_record
from tempoloc_nb.inference.refine import find_window, keep_order, move_events, refine
from tempoloc_nb.prompting.prompts import load_prompt
from tempoloc_nb.prompting.sampling import Sampling
from tempoloc_nb.scoring.evaluation import evaluate
from tempoloc_nb.video.files import encode, probe, read
from tempoloc_nb.video.view import View

SIM = load_benchmark("sim")
FEW = replace(SIM, clips=SIM.with_videos()[:2])
TRUTH = {c.clip: dict(zip(c.labels, c.source_boundaries, strict=True)) for c in FEW.clips}


def bounds(request: Request) -> tuple[str, float, float]:
    """The clip of a window, and when the window begins and ends."""
    clip, _, rest = request.clip.partition("@")
    start, end = rest.partition("_")[2].split("-")
    return clip, float(start), float(end)


class Second:
    """Answers about windows: `say(request, trial, true time in the window)` gives a time, a text, or an error."""

    name, model = "fake", "second"

    def __init__(self, say: Callable[[Request, int, float], Any] | None = None) -> None:
        self.say = say or (lambda r, t, truth: truth)
        self.asked: list[Request] = []
        self.seen: list[tuple[int, float]] = []  # frames and rate of each window

    def settings(self) -> dict[str, Any]:
        return {}

    def stream(
        self, requests: Iterable[Request], sampling: Sampling
    ) -> Iterator[tuple[Request, list[Response] | TempolocError]]:
        for r in requests:
            self.asked.append(r)
            frames = read(r.video, r.fps)
            self.seen.append((len(frames.times), frames.fps))
            clip, start, _ = bounds(r)
            said = [self.say(r, t, TRUTH[clip][r.labels[0]] - start) for t in r.trials]
            if isinstance(said[0], TempolocError):
                yield r, said[0]
                continue
            texts = [s if isinstance(s, str) else f"Event 1: <{s:.3f}> <{s:.3f}> {r.labels[0]}" for s in said]
            yield r, [Response(t, x, 0, "stop", 9, 9, 4, r.fps, 0.0) for t, x in zip(r.trials, texts, strict=True)]


@pytest.fixture(scope="session")
def few(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    """The two clips a sixteenth in size, so that windows are cut quickly."""
    root = tmp_path_factory.mktemp("small")
    for clip in FEW.clips:
        frames = read(clip.video_path(FEW.root))
        target = clip.video_path(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        encode(target, frames.images[:, ::4, ::4], times=frames.times)
    return replace(FEW, root=root)


def write_first(folder: Path, off: float = 0.3, benchmark: Benchmark = FEW) -> Path:
    times = {c.clip: [b + off for b in c.source_boundaries] for c in benchmark.clips}
    path = folder / "first.jsonl"
    write_jsonl(path, prediction_rows(benchmark, times, "coarse", 8))
    return path


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in path.read_text().splitlines()]


def told(outcomes: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in outcomes.items() if count}


def test_boundaries_move_to_where_the_windows_show_them(few: Benchmark, tmp_path: Path) -> None:
    first, engine = write_first(tmp_path), Second()
    done = refine(engine, few, first, tmp_path / "out" / "second.jsonl", window_s=0.6)
    assert told(done.outcomes) == {"refined": 6}
    assert done.moved_s == pytest.approx(0.3, abs=1e-3)
    scores = evaluate(done.output, few, resamples=10).run("coarse/refined").scores
    assert scores["mae_s"].value == pytest.approx(0, abs=2e-3)
    assert scores["miou"].value == pytest.approx(
        evaluate(write_first(tmp_path, 0.0), few, resamples=10).runs[0].scores["miou"].value, abs=2e-3
    )
    row = rows_of(done.output)[0]
    assert row["coarse_s"] == pytest.approx([b + 0.3 for b in few.clips[0].boundaries])
    assert row["outcome"] == ["refined"] * 3
    assert {r.fps for r in engine.asked} == {30.0}
    assert all(n % 2 == 0 and 30 <= n <= 37 for n, _ in engine.seen)
    assert all(fps == pytest.approx(30, abs=0.1) for _, fps in engine.seen)


def test_clips_without_truth_are_refined_too(few: Benchmark, tmp_path: Path) -> None:
    first = write_first(tmp_path)
    blank = tuple(replace(c, events=tuple(Event(label) for label in c.labels)) for c in few.clips)
    for name, benchmark in (("with", few), ("without", replace(few, clips=blank))):
        (tmp_path / name).mkdir()
        done = refine(Second(), benchmark, first, tmp_path / name / "second.jsonl", window_s=0.6)
        assert told(done.outcomes) == {"refined": 6}
    assert (tmp_path / "with/second.jsonl").read_bytes() == (tmp_path / "without/second.jsonl").read_bytes()


def test_windows_show_the_source_at_its_times(tmp_path: Path) -> None:
    engine = Second()
    folder = tmp_path / "windows"
    refine(engine, FEW, write_first(tmp_path), tmp_path / "s.jsonl", window_s=0.4, folder=folder)
    assert len(list(folder.rglob("*.mp4"))) == 6
    for request in engine.asked:
        clip, start, end = bounds(request)
        (source,) = (read(c.video_path(FEW.root)) for c in FEW.clips if c.clip == clip)
        window = read(request.video)
        begin = int(np.argmin(np.abs(np.array(source.times) - start)))
        stop = begin + len(window.times)
        assert np.allclose(np.array(window.times) + start, source.times[begin:stop], atol=2e-3)
        assert np.abs(window.images.astype(int) - source.images[begin:stop]).mean() < 2
        wrong = np.abs(window.images.astype(int) - source.images[begin - 3 : stop - 3]).mean()
        assert np.abs(window.images.astype(int) - source.images[begin:stop]).mean() < wrong
        assert probe(request.video).duration == pytest.approx(end - start, abs=2e-3)


def test_the_truth_is_in_no_request(few: Benchmark, tmp_path: Path) -> None:
    engine = Second(lambda r, t, truth: "no")
    refine(engine, few, write_first(tmp_path, 0.123), tmp_path / "s.jsonl", window_s=0.5)
    starts = sorted(bounds(r)[1] for r in engine.asked)
    guesses = sorted(b + 0.123 - 0.5 for c in few.clips for b in c.source_boundaries)
    assert all(0 <= s - g < 0.034 for s, g in zip(starts, guesses, strict=True))  # the first frame after b − w


@pytest.mark.parametrize(
    ("said", "outcome"),
    [("nothing there", "no answer"), ("<answer></answer>", "no answer"), (7.5, "outside"), (-0.5, "outside")],
)
def test_useless_answers_leave_the_boundary(few: Benchmark, tmp_path: Path, said: Any, outcome: str) -> None:
    first = write_first(tmp_path)
    done = refine(Second(lambda r, t, truth: said), few, first, tmp_path / "s.jsonl")
    assert told(done.outcomes) == {outcome: 6}
    assert done.moved_s is None
    scores = [evaluate(p, few, resamples=10).runs[0].scores["mae_s"].value for p in (first, done.output)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-3)


def test_failures_are_told_and_asked_again(few: Benchmark, tmp_path: Path) -> None:
    first, out = write_first(tmp_path), tmp_path / "s.jsonl"
    bad = Second(lambda r, t, truth: TempolocError("no good") if "@2_" in r.clip else truth)
    done = refine(bad, few, first, out)
    assert told(done.outcomes) == {"refined": 4, "failed": 2}
    assert len(done.failed) == 2
    engine = Second()
    done = refine(engine, few, first, out)
    assert [r.clip.partition("@")[2][0] for r in engine.asked] == ["2", "2"]
    assert told(done.outcomes) == {"refined": 6}
    assert done.run is not None
    assert done.run.kept == 4


def test_a_file_that_was_changed_since_is_kept(few: Benchmark, tmp_path: Path) -> None:
    first, out = write_first(tmp_path), tmp_path / "s.jsonl"
    refine(Second(), few, first, out)
    out.write_text(out.read_text() + "\n")  # by hand
    with pytest.raises(TempolocError, match="is there already: give another -o, or --force"):
        refine(Second(), few, first, out)


def test_another_window_is_another_question(few: Benchmark, tmp_path: Path) -> None:
    first, out, engine = write_first(tmp_path), tmp_path / "s.jsonl", Second()
    refine(engine, few, first, out, window_s=0.5)
    with pytest.raises(TempolocError, match="is there already: give another -o, or --force"):
        refine(engine, few, first, out, window_s=0.8)
    done = refine(engine, few, first, out, window_s=0.8, force=True)
    assert len(engine.asked) == 12
    assert told(done.outcomes) == {"refined": 6}
    assert read_record(out)["settings"]["refined"]["window_s"] == 0.8
    assert evaluate(out, few, resamples=10).runs[0].scores["mae_s"].value == pytest.approx(0, abs=2e-3)


def test_several_answers_of_a_window_are_combined(few: Benchmark, tmp_path: Path) -> None:
    engine = Second(lambda r, t, truth: truth + (0.0, 0.01, 0.5)[t])
    done = refine(engine, few, write_first(tmp_path), tmp_path / "s.jsonl", trials=3)
    assert evaluate(done.output, few, resamples=10).runs[0].scores["mae_s"].value == pytest.approx(0.01, abs=2e-3)
    done = refine(engine, few, write_first(tmp_path), tmp_path / "s.jsonl", trials=1)  # the other answers stay unread
    assert evaluate(done.output, few, resamples=10).runs[0].scores["mae_s"].value == pytest.approx(0.0, abs=2e-3)


def test_the_record_and_the_question_say_what_was_done(few: Benchmark, tmp_path: Path) -> None:
    first, engine = write_first(tmp_path), Second()
    write_record(first, {"settings": {"prompt": "earlier"}})
    refine(engine, few, first, tmp_path / "s.jsonl", view=View("pair"), sampling=Sampling(temperature=0))
    record = read_record(tmp_path / "s.jsonl")["settings"]
    assert record["prompt"] == "earlier"
    assert record["refined"]["windows"] == "s.windows.jsonl"
    assert read_record(tmp_path / "s.windows.jsonl")["settings"]["benchmark"] == "sim windows"
    assert engine.asked[0].prompt == load_prompt("refine")
    assert engine.asked[0].view == View("pair")
    assert engine.asked[0].labels == few.clips[0].labels[:1]
    assert few.clips[0].labels[0] in engine.asked[0].prompt.question(engine.asked[0].labels)


def test_clips_without_video_and_events_without_boundary_stay(few: Benchmark, tmp_path: Path) -> None:
    gone = replace(few.clips[1], video="not/here.mp4")
    bench = replace(few, clips=(few.clips[0], gone))
    first = write_first(tmp_path)
    rows = rows_of(first)
    rows[0]["text"] = "\n".join(text for text in rows[0]["text"].splitlines() if "Event 2" not in text)
    write_jsonl(first, rows)
    done = refine(Second(), bench, first, tmp_path / "s.jsonl", window_s=0.5)
    assert told(done.outcomes) == {"refined": 2, "no video": 3, "missing": 1}
    texts = [row["text"] for row in rows_of(done.output)]
    assert "Event 2" not in texts[0]
    assert "Event 3" in texts[0]
    assert texts[1].count("Event") == 3


def test_no_windows_ask_nothing(few: Benchmark, tmp_path: Path) -> None:
    first, engine = write_first(tmp_path), Second()
    done = refine(engine, few, first, tmp_path / "s.jsonl", window_s=0.02)
    assert told(done.outcomes) == {"too short": 6}
    assert (done.run, engine.asked) == (None, [])


def test_damaged_videos_fail_alone(few: Benchmark, tmp_path: Path) -> None:
    root = tmp_path / "videos"
    for clip in few.clips:
        source, target = clip.video_path(few.root), clip.video_path(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.read_bytes() if clip is few.clips[0] else source.read_bytes()[:3000])
    done = refine(Second(), few, write_first(tmp_path), tmp_path / "s.jsonl", video_root=root, window_s=0.5)
    assert told(done.outcomes) == {"refined": 3, "failed": 3}
    assert [clip for clip, _ in done.failed] == [few.clips[1].clip]


def test_windows_near_the_ends_stay_within_the_clip(tmp_path: Path) -> None:
    frames = np.random.default_rng(0).integers(0, 255, (31, 32, 32, 3), dtype=np.uint8)
    info = probe(encode(tmp_path / "v.mp4", frames, fps=10))
    clip = FEW.clips[0]
    begin = find_window(clip, 0, 0.05, info, 1.0)
    end = find_window(clip, 0, 3.04, info, 1.0)
    assert begin is not None
    assert end is not None
    assert (begin.first, begin.last, begin.start) == (0, 9, 0.0)
    assert (end.first, end.last) == (21, 30)
    assert end.end == pytest.approx(3.1)
    assert find_window(clip, 0, 9.0, info, 1.0) is None


def test_events_that_would_change_places_go_back() -> None:
    fine: list[float | None] = [1.0, 5.0, 4.0, None, 8.0]
    outcomes = ["refined", "refined", "refined", "missing", "refined"]
    keep_order([1.1, 2.0, 4.2, None, 8.1], fine, outcomes)
    assert fine == [1.0, 2.0, 4.2, None, 8.0]
    assert outcomes == ["refined", "out of order", "out of order", "missing", "refined"]
    before: list[float | None] = [3.0, 2.0]
    keep_order([3.0, 2.0], before, ["no answer", "no answer"])
    assert before == [3.0, 2.0]


def test_a_change_of_places_reaches_the_summary(few: Benchmark, tmp_path: Path) -> None:
    late = Second(lambda r, t, truth: bounds(r)[2] - bounds(r)[1] - 0.01 if "@1_" in r.clip else 0.0)
    done = refine(late, few, write_first(tmp_path, 0.0), tmp_path / "s.jsonl", window_s=1.5)
    assert done.outcomes["out of order"] >= 2
    for row in rows_of(done.output):
        times = [float(text.split("<")[1].split(">")[0]) for text in row["text"].splitlines()[1:-1]]
        assert times == sorted(times)


@pytest.mark.parametrize(
    ("side", "others", "expected"),
    [("start", (2.0, 5.0), (2.5, 5.0)), ("start", (1.5, 2.0), (1.5, 2.5)), ("end", (0.0, 1.0), (0.0, 1.2))],
)
def test_intervals_follow_their_neighbours(
    side: BoundaryIs, others: Sequence[float], expected: Sequence[float]
) -> None:
    events = tuple(CombinedEvent("e", b, o, 0.0, 1.0, 1) for b, o in zip((1.0, 2.0), others, strict=True))
    moved = move_events(Combined("t/c", "t", "m", 8, side, 1, events), [1.2, 2.5])
    assert [e.boundary for e in moved.events] == [1.2, 2.5]
    assert [e.other for e in moved.events] == pytest.approx(expected)


def test_trials_of_the_first_pass_are_combined_first(few: Benchmark, tmp_path: Path) -> None:
    first, more = write_first(tmp_path, 0.0), []
    for trial, off in enumerate((0.2, 0.3, 0.6)):
        more += [{**row, "trial": trial} for row in rows_of(write_first(tmp_path, off))]
    write_jsonl(first, more)
    done = refine(Second(lambda r, t, truth: "no"), few, first, tmp_path / "s.jsonl")
    assert rows_of(done.output)[0]["coarse_s"] == pytest.approx([b + 0.3 for b in few.clips[0].boundaries])


def test_bad_input_is_refused(few: Benchmark, tmp_path: Path) -> None:
    first = write_first(tmp_path)
    for out, window, said in (("first.jsonl", 1.0, "read and written at once"), ("s.jsonl", 0.0, "some seconds")):
        with pytest.raises(TempolocError, match=said):
            refine(Second(), few, first, tmp_path / out, window_s=window)
    with pytest.raises(TempolocError, match="no shard"):
        refine(Second(), few, first, tmp_path / "s.jsonl", shard=(1, 2))
    write_jsonl(first, [*rows_of(first), *({**row, "model": "other"} for row in rows_of(first))])
    with pytest.raises(TempolocError, match="several runs"):
        refine(Second(), few, first, tmp_path / "s.jsonl")


@pytest.mark.parametrize("folder", ["tempoloc-tiny", "random"])
def test_a_real_model_takes_a_second_look(tmp_path: Path, folder: str) -> None:
    from tempoloc_nb.engines.hf import HFBackend

    path = data_dir() / "models" / folder
    if folder == "random":
        import tiny_models

        path = tiny_models.qwen25()
    elif not (path / "model.safetensors").is_file():
        pytest.skip(f"the trained model {folder} is not in data/models")
    one = replace(FEW, clips=FEW.clips[:1])
    engine = HFBackend(path, device="cpu", title="tiny")
    sampling = Sampling(temperature=0, max_new_tokens=100)
    asked: dict[str, Any] = {"view": View("pair"), "prompt": "tiny", "sampling": sampling}
    first = write_first(tmp_path, 0.2, one)
    done = refine(engine, one, first, tmp_path / "s.jsonl", window_s=1.0, **asked)
    assert sum(done.outcomes.values()) == 3
    assert done.outcomes["failed"] == 0
    windows = rows_of(tmp_path / "s.windows.jsonl")
    assert [row["effective_fps"] for row in windows] == pytest.approx([30, 30, 30], abs=0.1)
    if folder == "tempoloc-tiny":
        assert done.outcomes["refined"] == 3
