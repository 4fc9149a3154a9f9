"""Logs that are learned: how they are written, what is asked about them, and which of their names no frame shows."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from training_store import SMALL, load, made_up_store

from tempoloc_nb.lab.tiny import frame_store
from tempoloc_nb.lab.tiny.architecture import build_tiny
from tempoloc_nb.lab.tiny.batches import Collator, StageBatches
from tempoloc_nb.lab.tiny.frame_store import _takes, clip_log, episode_jobs
from tempoloc_nb.lab.tiny.log_tasks import (
    Entry,
    answer_prompts,
    draw_question,
    entries,
    in_a_row,
    log_alone,
    log_then_answer,
    look_up_log,
    rename,
    stilled,
    write_answer_from,
    write_log,
)
from tempoloc_nb.lab.tiny.plan import load_plan
from tempoloc_nb.lab.tiny.tasks import Film, Sequenced, TaskOptions, sequence, window
from tempoloc_nb.models.ask import load_prompt
from tempoloc_nb.scoring.answers import parse_answer
from tempoloc_nb.scoring.logs import log_text, read_log

CUBE, CAN = "the red cube", "the can"
LOG = (
    (f"arriving at {CUBE}", 0.6), (f"missing {CUBE}", 1.0), (f"arriving at {CUBE}", 1.8), (f"grasping {CUBE}", 2.2),
    (f"releasing {CUBE}", 3.2), (f"arriving at {CAN}", 3.8), (f"grasping {CAN}", 4.2), (f"releasing {CAN}", 5.0),
    (f"grasping {CUBE}", 5.8), ("pressing the green button", 6.4),
)  # fmt: skip
NAMES = ("red cube", "can", "milk carton")  # there, and the last is never touched
FILM = Film(np.arange(105), 15.0, (), 7.0, LOG, NAMES)


def written() -> list[Entry]:
    return entries([label for label, _ in LOG], [time for _, time in LOG])


WHOLE = TaskOptions(renamed=1.0, trim=0.0, stamps={"frame": 1.0}, fps=(8.0, 8.0), speed=(1.0, 1.0))  # in 28 pairs


def drawn(seed: int, options: TaskOptions, film: Film = FILM) -> tuple[Sequenced, np.random.Generator]:
    rng = np.random.default_rng(seed)
    seq = sequence(film, rng, options, pairs=28 if options is WHOLE else int(rng.integers(8, 22)))
    assert seq is not None
    return seq, rng


def test_what_happens_again_is_numbered_as_the_reader_numbers_it() -> None:
    log = entries(["grasping a"] * 23 + ["releasing a"], [float(t) for t in range(24)])
    assert [e.line for e in log[:2]] == ["grasping a", "grasping a for the second time"]
    assert log[8].line == log[8].asked == "grasping a for the ninth time"
    assert (log[0].asked, log[-1].asked) == ("grasping a for the first time", "releasing a")
    read = read_log(write_log(log, 24) + "\n</think>", 25)
    assert (read.status, read.faults, read.end) == ("ok", (), 24)
    assert [e.occurrence for e in read.events] == [*range(1, 24), 1]


def test_the_reader_reads_what_is_written() -> None:
    text = write_log(written(), 6.9) + "\n</think>"
    read = read_log(text, 7)
    assert (read.status, read.end, len(read.moments), len(read.events)) == ("ok", 6.9, 3, 7)
    lines = [(e.time, e.line) for e in written() if not e.line.startswith("arriving")]
    assert [(e.time, e.numbered) for e in read.events] == lines
    assert read.events[0].outcome == "missed"
    assert log_text(read) == text


@pytest.mark.parametrize("seed", range(20))
def test_a_log_alone_is_asked_for_with_the_packages_prompt(seed: int) -> None:
    options = TaskOptions(renamed=0.5, stamps={"frame": 1.0})
    seq, rng = drawn(seed, options)
    sample = log_alone(FILM, seq, rng, options)
    prompt = load_prompt("log")
    assert (sample.system, sample.question) == (prompt.system, prompt.question(()))
    stamps = sample.stamps / 100
    read = read_log(sample.answer, float(stamps[-1] - stamps[0]), float(stamps[0]))
    assert read.status == "ok", read.faults
    assert {e.time for e in (*read.events, *read.moments)} <= set(stamps)


@pytest.mark.parametrize("seed", range(40))
def test_questions_are_answered_from_the_log(seed: int) -> None:
    log, options = written(), TaskOptions(skills=0.3)
    asked = draw_question(log, NAMES, np.random.default_rng(seed), options)
    known = {name: e.time for e in log for name in (e.label, e.asked)}  # without a number, the last of several
    happens = {e.label for e in log} | {e.asked for e in log} | {e.line for e in log}
    for label, time in asked:
        assert (label in happens) == (time is not None), label
        if time is not None:
            assert known[label] == time
            assert not label.startswith("missing")
    assert len({label for label, _ in asked}) == len(asked)
    answer = parse_answer(write_answer_from(log, asked, 6.9), [label for label, _ in asked])
    for event, (_, time) in zip(answer.events, asked, strict=True):
        assert (event.status, event.start) == (("absent", None) if time is None else ("ok", time))


def test_all_kinds_of_absent_events_are_asked_for() -> None:
    drawn = [draw_question(written(), NAMES, np.random.default_rng(seed), TaskOptions()) for seed in range(600)]
    absent = {label for asked in drawn for label, time in asked if time is None}
    assert f"grasping {CUBE} for the third time" in absent
    assert "grasping the milk carton" in absent
    assert any(label.endswith("elephant") for label in absent)
    assert 0.2 < np.mean([any(time is None for _, time in asked) for asked in drawn]) < 0.4


def lines_of(answer: str) -> list[str]:
    """What the lines of a log say, without times."""
    log = answer.partition("\n\n")[0]
    return [line.split(" ", 1)[1].rsplit(" ", 1)[0] for line in log.split("\n")[1:] if not line.endswith((" end", ">"))]


STRETCHES = ((0, 1), (2, 3, 4, 8), (5, 6, 7))  # lines between two arrivals at one object


@pytest.mark.parametrize("seed", range(40))
def test_another_name_lasts_to_the_next_arrival_and_is_learned_where_it_was_told(seed: int) -> None:
    seq, rng = drawn(seed, WHOLE)
    sample = log_then_answer(FILM, seq, rng, answer_prompts(), WHOLE)
    assert sample is not None
    lines = lines_of(sample.answer)
    called = [re.sub(r" for the \w+ time$", "", line).partition(" the ")[2] for line in lines]
    true = [label.partition(" the ")[2] for label, _ in LOG]
    assert [line.split(" the ")[0] for line in lines] == [label.split(" the ")[0] for label, _ in LOG]
    assert called[9] == "green button"  # no graspable thing
    assert all(len({called[k] for k in own}) == 1 for own in STRETCHES)
    others = [own[0] for own in STRETCHES if called[own[0]] != true[own[0]]]
    log = sample.answer.partition("\n\n")[0]
    assert sorted(others) == [log[:a].count("\n") - 1 for a, _ in sample.untold]
    assert [sample.answer[a:b] for a, b in sample.untold] == [called[k] for k in sorted(others)]
    read = read_log(f"{log}\n</think>")
    assert read.status == "ok", read.faults  # numbers are those of the names that stand there


def test_half_of_the_stretches_keep_their_name() -> None:
    logs = [rename(written(), np.random.default_rng(seed)) for seed in range(400)]
    assert np.mean([len(begins) for _, begins in logs]) == pytest.approx(1.5, abs=0.15)
    assert sum(begins == [0] for _, begins in logs) > 20  # the same cube has its own name again at the next arrival


def test_what_is_first_named_without_an_arrival_is_not_learned() -> None:
    film = replace(FILM, log=LOG[3:5] + LOG[8:9])
    samples = [log_alone(film, *drawn(seed, WHOLE, film), WHOLE) for seed in range(12)]
    renamed = [sample for sample in samples if sample.untold]
    assert 0 < len(renamed) < 12
    for sample in renamed:  # the first grasp; the release and the second grasp keep the name
        assert [sample.answer[:a].count("\n") for a, _ in sample.untold] == [1]
        (a, b), = sample.untold
        assert sample.answer.count(f" the {sample.answer[a:b]} ") == 3


def test_a_log_that_is_given_is_not_learned_and_a_still_has_none() -> None:
    seq, rng = drawn(0, TaskOptions())
    sample = look_up_log(seq, rng, answer_prompts(), TaskOptions())
    assert read_log(sample.given.removesuffix("\n\n") + "\n</think>").usable
    assert sample.answer.count("</think>") == 1
    still = stilled(FILM, rng)
    assert set(still.rows) < set(FILM.rows)
    assert len(set(still.rows)) == 1
    assert read_log(log_alone(still, window(still, rng, TaskOptions(), 4), rng, TaskOptions()).answer).events == ()


def test_two_clips_in_a_row_have_one_log() -> None:
    both = in_a_row(FILM, replace(FILM, rows=FILM.rows + 1000, names=("can", "bottle")))
    assert (both.length, both.end, both.events) == (14.0, 14.0, ())
    assert both.rows.tolist() == [*range(105), *range(1000, 1105)]
    assert both.log == LOG + tuple((label, time + 7.0) for label, time in LOG)
    assert both.names == (*NAMES, "bottle")
    seq = sequence(both, np.random.default_rng(0), WHOLE, pairs=56)
    assert seq is not None
    answer = log_alone(both, seq, np.random.default_rng(0), replace(WHOLE, renamed=0.0)).answer
    log = read_log(answer)
    assert (log.status, len(log.events) + len(log.moments)) == ("ok", 20)
    assert "grasping the red cube for the third time" in answer


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    _, processor = load(build_tiny(tmp_path_factory.mktemp("models") / "small", SMALL, seed=1))
    return processor.tokenizer  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", range(10))
def test_no_label_is_on_a_name_that_no_frame_shows(tokenizer: Any, seed: int) -> None:
    seq, rng = drawn(seed, WHOLE)
    sample = log_alone(FILM, seq, rng, WHOLE)
    with_all, without = (
        Collator(tokenizer, 12)([one], "log", 0, [False]) for one in (replace(sample, untold=()), sample)
    )
    assert (with_all.ids == without.ids).all()
    gone = np.flatnonzero((with_all.labels != without.labels)[0])
    assert (without.labels[0][gone] == -100).all()
    start = int(np.flatnonzero(with_all.labels[0] != -100)[0])
    where = tokenizer(sample.answer, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    inside = {start + k for k, (a, b) in enumerate(where) for x, y in sample.untold if a < y and b > x}
    assert set(gone.tolist()) == inside
    for (a, b), k in ((where[k - start], k) for k in gone):  # whole tokens of the name, at most its space
        assert any(x - 1 <= a and b <= y for x, y in sample.untold), tokenizer.decode(with_all.ids[0][k])


def test_batches_of_every_task_of_the_plan(tokenizer: Any) -> None:
    store = made_up_store()
    clips = tuple(replace(one, log=LOG, names=NAMES[:2]) if one.kind == "clip" else one for one in store.recordings)
    plan = load_plan("sft")
    for task in {task: 0 for stage in plan.options.stages for task in stage.tasks}:
        stage = replace(plan.options.stages[0], tasks={task: 1.0}, pairs=(8, 12), steps=2)
        made = StageBatches(
            replace(store, recordings=clips), Collator(tokenizer, 12), stage, 0, tokens=900,
            options=plan.options.task_options,
        )  # fmt: skip
        assert made[0].kind == made[1].kind == task
        assert (made[0].labels != -100).any()


def test_the_log_of_a_clip_has_what_nobody_asks_for() -> None:
    called = {"A": "red cube", "can": "can"}
    meta = {
        "labels": [["grasping the red cube", "grasp:A"], ["inserting the red cube", "insert:A"]],
        "instants": {"grasp:A": 2.0, "insert:A": 4.0},
        "moments": [
            ["arrive", "can", 0.4], ["miss", "can", 0.9], ["arrive", "A", 1.5], ["grasp", "A", 2.03],
            ["arrive", "lid", 3.0], ["release", "A", 4.2],
        ],
    }  # fmt: skip
    assert clip_log(meta, called) == (
        ("arriving at the can", 0.4), ("missing the can", 0.9), ("arriving at the red cube", 1.5),
        ("grasping the red cube", 2.0), ("inserting the red cube", 4.0),
    )  # fmt: skip
    which = {"log": [["grasp", "can", 1.0], ["press", "green", 3.0]], "moments": [["arrive", "can", 0.7]]}
    assert clip_log(which, called) == (
        ("arriving at the can", 0.7), ("grasping the can", 1.0), ("pressing the green button", 3.0),
    )  # fmt: skip


def test_a_flicker_is_no_release() -> None:
    moments = [
        ["grasp", "A", 1.0], ["release", "A", 2.0], ["grasp", "A", 2.2], ["arrive", "A", 2.5], ["release", "A", 3.0],
        ["grasp", "A", 3.4],
    ]  # fmt: skip
    log = clip_log({"log": [], "moments": moments}, {"A": "can"})
    assert log == (("grasping the can", 1.0), ("releasing the can", 3.0), ("grasping the can", 3.4))


def test_a_hand_with_a_dash_in_its_name_has_the_episodes_task(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tasks, places = list[str](), frame_store._PLACES
    meta = {"task": "which", "robot": "Panda-robotiq140", "split": "which", "seed": 1}
    saved = SimpleNamespace(meta=meta, looks={name: np.ones(1) for name in places})

    class Looks:
        def __init__(self, model: object, task: str) -> None:
            tasks.append(task)

        def __call__(self, rng: object) -> None: ...

        def widen(self, rng: object) -> None: ...

        def current(self) -> dict[str, Any]:
            return {name: np.zeros(1) for name in (*places, "cam_pos")}

    monkeypatch.setattr(frame_store, "Randomizer", Looks)
    monkeypatch.setattr(frame_store, "load_episode", lambda path: saved)
    monkeypatch.setattr(frame_store, "replace", lambda episode, looks: looks)
    (tmp_path / "episodes" / "which").mkdir(parents=True)
    (tmp_path / "episodes" / "which" / "0.npz").touch()
    (listed,) = episode_jobs(tmp_path, tmp_path / "parts")
    job = replace(listed, looks=2)
    assert job.model.name == "which-Panda-robotiq140.xz"
    (_, own), (_, other) = _takes(job, None)
    assert tasks == ["which"]
    assert own is saved
    assert other == dict.fromkeys(places, 1) | {"cam_pos": 0}  # things where they were, another camera
