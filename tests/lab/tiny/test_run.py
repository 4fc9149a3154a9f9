"""Training: what is learned from, what is asked, and that an interrupted run ends where an unbroken one does."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from places import HELPERS
from training_store import EVENTS, OPTIONS, SMALL, load, made_up_store

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.optional import import_transformers
from tempoloc_nb.lab.tiny.architecture import build_tiny
from tempoloc_nb.lab.tiny.batches import (
    Batch,
    Collator,
    PatchMaker,
    StageBatches,
    WordEncoder,
    _by_length,
    _places,
    _vary,
)
from tempoloc_nb.lab.tiny.frame_store import ARRAYS, load_store, write_part
from tempoloc_nb.lab.tiny.plan import Stage, TrainingPlan, TrainOptions
from tempoloc_nb.lab.tiny.tasks import (
    LEFT,
    RIGHT,
    Sequenced,
    TaskExample,
    TaskOptions,
    film_of,
    hundredths,
    localize_events,
    recite,
    sequence,
    window,
    wordings,
)
from tempoloc_nb.lab.tiny.trainer import Trainer
from tempoloc_nb.lab.tiny.trainer import train as run_training
from tempoloc_nb.models.ask import Prompt
from tempoloc_nb.video.stamp import Stamps, draw_stamp, stamp_column, stamp_style, stamp_text


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny(tmp_path_factory.mktemp("models") / "small", SMALL, seed=1)


SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from training_store import OPTIONS, load, made_up_store
from tempoloc_nb.lab.tiny.trainer import Trainer
import torch
torch.set_num_threads(1)
model, processor = load(Path(sys.argv[2]))
trainer = Trainer(model, processor, made_up_store(), Path(sys.argv[3]), OPTIONS)
trainer.resume()
def tell(t):
    print(t.step, flush=True)
    return False
trainer.run(tell, every=1, save_every=1)
if sys.argv[4] == "killed":
    sys.stdin.read()  # whoever kills it may be late
torch.save(trainer.model.state_dict(), Path(sys.argv[3]) / "final.pt")
"""


def train(folder: Path, out: Path, stop_at: int | None) -> None:
    """Train in a process of its own; kill it at a step, as a crash would."""
    how = "whole" if stop_at is None else "killed"
    command = [sys.executable, "-c", SCRIPT, str(HELPERS), str(folder), str(out), how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if stop_at is not None and int(line) >= stop_at:
                process.send_signal(signal.SIGKILL)
                break
    assert (process.returncode == 0) == (stop_at is None)


def test_a_run_killed_twice_ends_bit_equal(folder: Path, tmp_path: Path) -> None:
    import torch

    train(folder, tmp_path / "whole", None)
    for step in sorted(random.Random(0).sample(range(1, OPTIONS.steps), 2)):
        train(folder, tmp_path / "killed", step)
    train(folder, tmp_path / "killed", None)
    whole, killed = (torch.load(tmp_path / name / "final.pt") for name in ("whole", "killed"))
    assert whole.keys() == killed.keys()
    assert all(torch.equal(whole[name], killed[name]) for name in whole)
    start, _ = load(folder)
    changed = [not torch.equal(whole[n], w) for n, w in start.state_dict().items()]  # type: ignore[attr-defined]
    assert all(changed)


def test_a_restart_takes_over_the_weights_alone(folder: Path, tmp_path: Path) -> None:
    import torch

    begin = OPTIONS.restarts[1]
    store = made_up_store()
    whole = Trainer(*load(folder), store, tmp_path / "whole", OPTIONS)
    whole.run(lambda t: t.step == begin and bool(t.export("float32", tmp_path / "kept").is_file()), every=1)
    later = Trainer(*load(tmp_path / "kept"), store, tmp_path / "later", OPTIONS)
    later.step = begin
    later.run(every=1)
    same = later.model.state_dict()
    assert all(torch.equal(same[name], w) for name, w in whole.model.state_dict().items())
    lines = [json.loads(line) for line in later.log.read_text().splitlines()]
    assert [(line["step"], line["stage"]) for line in lines] == [(step, "again") for step in (10, 11, 12)]


def test_the_learning_rate_begins_again_where_a_stage_restarts() -> None:
    stages = [Stage(name, 10, {"walk": 1.0}, (4, 10), restart=name == "b") for name in "abc"]
    options = TrainOptions(tuple(stages), lr=1.0, floor=0.1, warmup=2)
    assert options.restarts == (0, 10)
    rates = [options.rate(step) for step in range(options.steps)]
    assert rates[:3] == [0.5, 1.0, 1.0]
    assert rates[10:13] == [0.5, 1.0, 1.0]
    assert rates[9] == pytest.approx(0.1, abs=0.04)
    assert rates[20] == pytest.approx(0.1 + 0.9 * 0.5 * (1 + np.cos(np.pi * 8 / 18)))  # c goes on with b's curve


def test_a_run_begins_only_where_its_curve_does(folder: Path, tmp_path: Path) -> None:
    config = TrainingPlan("mine", str(folder), OPTIONS, begin=4)
    with pytest.raises(TempolocError, match="mine cannot begin at step 4: its curve begins at 0, 9"):
        run_training(config, tmp_path, tmp_path / "out")


def test_a_step_that_does_not_come_is_not_kept(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(TempolocError, match=r"mine has no step 99 to keep: its steps here are 1 to \d+$"):
        run_training(TrainingPlan("mine", str(folder), OPTIONS), tmp_path, tmp_path / "out", keep=(1, 99))


def test_a_checkpoint_of_other_options_is_refused(folder: Path, tmp_path: Path) -> None:
    model, processor = load(folder)
    Trainer(model, processor, made_up_store(), tmp_path, OPTIONS).save()
    other = Trainer(model, processor, made_up_store(), tmp_path, TrainOptions(OPTIONS.stages, lr=1e-5))
    with pytest.raises(TempolocError, match="other options"):
        other.resume()


def test_a_checkpoint_of_the_first_edition_goes_on(folder: Path, tmp_path: Path) -> None:
    """Its options say `lessons` where ours say `tasks`."""
    import torch

    first = Trainer(*load(folder), made_up_store(), tmp_path, OPTIONS)
    first.step = 3
    first.save()
    state = torch.load(first.checkpoint, weights_only=True)
    assert "tasks" in state["options"]
    state["options"] = state["options"].replace('"tasks"', '"lessons"').replace('"task_options"', '"lesson_options"')
    assert ', "skills": 0.0' in state["options"]
    state["options"] = state["options"].replace(', "skills": 0.0', "")  # an option that came later
    torch.save(state, first.checkpoint)
    assert Trainer(*load(folder), made_up_store(), tmp_path, OPTIONS).resume() == 3


def test_training_lowers_the_loss_and_exports_a_model(folder: Path, tmp_path: Path) -> None:
    model, processor = load(folder)
    options = TrainOptions((Stage("frame", 25, {"frame": 1.0}, (1, 1)),), tokens=700, warmup=3, lr=3e-3)
    trainer = Trainer(model, processor, made_up_store(), tmp_path, options)
    trainer.run(every=1)
    losses = [json.loads(line)["loss"] for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert len(losses) == 25
    assert np.mean(losses[-3:]) < 0.7 * np.mean(losses[:3])
    again, _ = load(trainer.export("float32"))
    for name, weight in again.state_dict().items():  # type: ignore[attr-defined]
        assert weight.equal(trainer.model.state_dict()[name]), name


def test_only_the_answer_is_learned(folder: Path) -> None:
    _, processor = load(folder)
    tokenizer = processor.tokenizer  # type: ignore[attr-defined]
    made = StageBatches(
        made_up_store(), Collator(tokenizer, 12), Stage("s", 30, {"localize": 1.0}, (4, 20)), 3, tokens=2500
    )
    for number in range(10):
        batch = made[number]
        for ids, labels in zip(batch.ids, batch.labels, strict=True):
            learned = tokenizer.decode(labels[labels != -100])
            assert learned.startswith("<think>")
            assert learned.endswith("</answer><|im_end|>")
            text = tokenizer.decode(ids)
            assert text.count("<|im_start|>assistant\n" + learned) == 1
            assert (labels[labels != -100] == ids[labels != -100]).all()


def test_batches_depend_on_their_number_alone(folder: Path) -> None:
    _, processor = load(folder)

    def batches() -> StageBatches:
        collator = Collator(processor.tokenizer, 12)  # type: ignore[attr-defined]
        return StageBatches(made_up_store(), collator, OPTIONS.stages[1], 5, tokens=900)

    forward, backward = batches(), batches()
    a = [forward[i] for i in range(6)]
    b = [backward[i] for i in reversed(range(6))][::-1]
    for x, y in zip(a, b, strict=True):
        assert (x.ids == y.ids).all()
        assert (x.frames == y.frames).all()
    assert any(x.ids.shape != a[0].ids.shape for x in a)


@pytest.mark.parametrize("stamps", ["frame", "alternate"])
def test_pixels_are_those_of_the_processor(folder: Path, stamps: Stamps) -> None:
    """The store keeps frames shrunk without their stamps; only the row where the two meet may differ."""
    import torch
    from torchvision.transforms.v2 import functional

    _, processor = load(folder)
    rng = np.random.default_rng(0)
    big = np.repeat(np.repeat(rng.integers(0, 255, (4, 16, 16, 3), np.uint8), 16, 1), 16, 2)
    times = [0.0, 0.12, 13.25, 13.38]
    style = stamp_style(256, 256, 4, total_pixels=4 * 112 * 112, stamps=stamps)
    stamped = np.pad(big, ((0, 0), (0, style.border), (0, 0), (0, 0)))
    for k, time in enumerate(times):
        draw_stamp(stamped[k, 256:], stamp_text(time), style.font, column=stamp_column(stamps, k))
    text = ["<|vision_start|><|video_pad|><|vision_end|>"]
    wanted = processor(text=text, videos=[stamped], return_tensors="pt", fps=8.0)  # type: ignore[operator]
    small = functional.resize(torch.from_numpy(big).permute(0, 3, 1, 2), [112, 112], interpolation=3, antialias=True)
    pixels = PatchMaker(small.permute(0, 2, 3, 1), processor)
    nothing = np.zeros(0, np.int64)
    seq = Sequenced(np.arange(4), np.array(times), stamps, 0.25, 0.0, 1.0, 0.0)
    batch = Batch(nothing, nothing, nothing, np.arange(4), seq.stamps, np.zeros(4, np.int64), (10, 8), "", 0)
    found = pixels(batch, False, torch.float32)
    assert found.shape == wanted["pixel_values_videos"].shape
    assert pixels.grid == (5, 4)
    off = (found - wanted["pixel_values_videos"]).abs()
    assert float(off.median()) < 0.005
    assert float((off > 0.05).float().mean()) < 0.03
    assert float((off.view(2, 80, -1)[:, 64:] > 0.5).float().mean()) < 0.001  # the row of tokens with the stamps


def test_a_framing_mirrors_enlarges_and_shifts() -> None:
    import torch

    plain, none = torch.ones((1, 1)), torch.zeros((1, 1))
    row = torch.arange(8.0)
    assert (_places(8, plain, none)[0] @ row).tolist() == row.tolist()
    assert (_places(8, -plain, none)[0] @ row).tolist() == row.flip(0).tolist()
    assert (_places(8, plain, none + 0.25)[0] @ row).tolist() == [2, 3, 4, 5, 6, 7, 7, 7]  # the edge, repeated
    assert (_places(8, 2 * plain, none)[0] @ row).tolist() == [1.75, 2.25, 2.75, 3.25, 3.75, 4.25, 4.75, 5.25]
    pictures, owner = torch.rand((4, 8, 6, 3)), torch.tensor([0, 1, 1, 0])
    framing = [
        _places(size, torch.tensor([[1.0], [sign]]), torch.zeros((2, 1))) for size, sign in ((8, 1.0), (6, -1.0))
    ]
    values = torch.tensor([1.0, 0, 0, 0]).view(4, 1, 1, 1, 1).expand(-1, 2, 1, 1, 1)  # gain, lift, blur, noise
    varied = _vary(pictures, owner, (*framing, *values, torch.zeros_like(pictures)))
    assert torch.allclose(varied[[0, 3]], pictures[[0, 3]])
    assert torch.allclose(varied[[1, 2]], pictures[[1, 2]].flip(2))


@pytest.mark.parametrize("stamp", [9999, 10_000, -1, -2, LEFT + 10_000, RIGHT + 9999])
def test_a_stamp_beyond_the_table_is_refused(folder: Path, stamp: int) -> None:
    """A GPU reads past the end of the table without a word, or ends the training."""
    import torch

    _, processor = load(folder)
    pixels = PatchMaker(torch.zeros((2, 112, 112, 3), dtype=torch.uint8), processor)
    nothing, owner = np.zeros(0, np.int64), np.zeros(2, np.int64)
    batch = Batch(nothing, nothing, nothing, np.arange(2), np.array([9500, stamp]), owner, (10, 8), "", 0)
    if stamp in (9999, RIGHT + 9999, -1):  # the last, and none
        assert pixels(batch, False, torch.float32).isfinite().all()
        return
    seconds = stamp % LEFT / 100 if stamp > 0 else stamp / 100
    with pytest.raises(TempolocError, match=f"a frame is stamped {seconds:.2f} s, and .* from 0 to 100 s"):
        pixels(batch, False, torch.float32)


@pytest.mark.parametrize("seed", range(40))
def test_answers_name_times_that_can_be_read(seed: int) -> None:
    rng = np.random.default_rng(seed)
    store = made_up_store()
    options = TaskOptions(stamps={"pair": 0.5, "frame": 0.5})
    film = film_of(store.recordings[0])
    seq = sequence(film, rng, options, pairs=int(rng.integers(8, 30)))
    if seq is None:
        return
    sample = localize_events(film, seq, rng, wordings(), options)
    if sample is None:
        return
    think, _, answer = sample.answer.partition("</think>")
    stamps = {f"{s / 100:.2f}" for s in sample.stamps}
    told = dict(reversed(line.split(" ", 1)) for line in think.split("\n")[1:-1])
    assert set(told.values()) <= stamps
    found = re.findall(r"Event \d+: <([\d.]+)> <([\d.]+)> (.+)", answer)
    assert {label for _, _, label in found} == set(told) - {"end"}
    for begin, end, label in found:
        assert told[label] == begin
        assert float(begin) <= float(end)
        true = dict(EVENTS)[label]
        assert abs(float(begin) - shown_at(seq, true)) <= seq.seconds_per_pair / 2 + 0.15
        off = np.abs(seq.labels + seq.shift - shown_at(seq, true))  # of what stands under each frame, or pair
        assert abs(float(begin) - shown_at(seq, true)) <= off.min() + 0.006
    assert all(f"Event {i}: {label}." in sample.question for i, (_, _, label) in enumerate(found, 1))


@pytest.mark.parametrize("seed", range(20))
def test_the_thinking_can_end_with_the_events_as_they_were_asked(seed: int) -> None:
    rng = np.random.default_rng(seed)
    store, options = made_up_store(), TaskOptions(in_order=0.0, relist=True)
    seq = window(film_of(store.recordings[0]), rng, options, 4)
    sample = recite(seq, rng, {Prompt("plain", "", "{events}"): 1.0}, options)
    asked = re.findall(r"Event \d+: (.+)\.", sample.question)
    assert sample.given.endswith(" end\n")  # the rest is learned
    told = dict(reversed(line.split(" ", 1)) for line in sample.given.strip().split("\n")[1:])
    again, _, lines = sample.answer.partition("\n</think>\n")
    assert again.split("\n") == [f"{label} {told[label]}" for label in asked]
    assert re.findall(r"<([\d.]+)> <[\d.]+> (.+)", lines) == [(told[label], label) for label in asked]


STARTS = ("arriving at the can", 1.5), ("arriving with the can", 2.8)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_the_starts_of_skills_are_asked_for_in_their_share(folder: Path, share: float) -> None:
    _, processor = load(folder)
    store, known = made_up_store(), tuple(sorted([*EVENTS, *STARTS], key=lambda event: event[1]))
    clips = tuple(replace(one, skills=known if one.kind == "clip" else ()) for one in store.recordings)
    made = StageBatches(
        replace(store, recordings=clips), Collator(processor.tokenizer, 12),  # type: ignore[attr-defined]
        Stage("clips", 12, {"localize": 1.0}, (20, 30)), 0, tokens=900, options=TaskOptions(skills=share, trim=0.0),
    )  # fmt: skip
    told = "".join(made.collator.tokenizer.decode(made[i].ids.ravel()) for i in range(12))
    assert ("arriving at the can" in told) == bool(share)


def test_an_event_lasts_until_the_next_one_that_could_be_asked_for() -> None:
    """Without starts among the questions, an event lasts as long as where nobody knows of starts."""
    store, prompts = made_up_store(), {Prompt("plain", "", "{events}"): 1.0}
    film = replace(film_of(store.recordings[0]), events=tuple(sorted([*EVENTS, *STARTS], key=lambda event: event[1])))
    ends: dict[tuple[str, ...], float] = {}
    for seed in range(400):
        rng, options = np.random.default_rng(seed), TaskOptions(stamps={"frame": 1.0}, late=0.0)
        seq = window(film, rng, options, 28)
        sample = localize_events(film, seq, rng, prompts, options)
        assert sample is not None
        found = sorted(re.findall(r"<([\d.]+)> <([\d.]+)> (.+)", sample.answer), key=lambda event: float(event[0]))
        ends[tuple(label for _, _, label in found)] = float(found[-1][1]) + seq.start
    assert ends[("grasping the can",)] == pytest.approx(3.3, abs=0.2)
    assert ends[("arriving at the can", "grasping the can")] == pytest.approx(2.8, abs=0.2)


def test_unknown_tasks_and_missing_clips_are_named(folder: Path) -> None:
    with pytest.raises(TempolocError, match=r"unknown training task of stage 's' 'walks': did you mean walk\?"):
        Stage("s", 1, {"walks": 1.0}, (1, 1))
    _, processor = load(folder)
    stage = Stage("s", 1, {"walk": 1.0}, (1, 1), ("sft",))
    with pytest.raises(TempolocError, match="no clips of sft, which stage 's' needs"):
        StageBatches(made_up_store(), Collator(processor.tokenizer, 12), stage, 1)  # type: ignore[attr-defined]


def test_clips_too_short_for_a_stage_are_told_of(folder: Path) -> None:
    processor = import_transformers().AutoProcessor.from_pretrained(folder)
    stage = Stage("long", 1, {"localize": 1.0}, (4000, 4000), ("base",))
    made = StageBatches(made_up_store(), Collator(processor.tokenizer, 12), stage, 1)  # type: ignore[attr-defined]
    with pytest.raises(TempolocError, match="stage 'long': no clip is long enough for a localize of 4000"):
        made[0]


def test_a_batch_holds_the_conversation_as_the_chat_template_writes_it(folder: Path) -> None:
    _, processor = load(folder)
    prompt = Prompt("p", "Look.", "When?\n{events}")
    question = prompt.question(["a b"])
    sample = TaskExample(np.arange(4), np.arange(4), 0.5, prompt.system, question, "<answer>", "localize")
    ids, _, _ = Collator(processor.tokenizer, 12).row(sample, False)  # type: ignore[attr-defined]
    written = processor.tokenizer.decode(ids)  # type: ignore[attr-defined]
    messages = [*prompt.messages(["a b"]), {"role": "assistant", "content": "<answer>"}]
    wanted = processor.apply_chat_template(messages, tokenize=False)  # type: ignore[attr-defined]
    assert re.sub(r"(<\|video_pad\|>)+", "<|video_pad|>", written) == wanted


def shown_at(seq: Sequenced, instant: float) -> float:
    return (instant - seq.start) / seq.speed + seq.shift


def test_broken_parts_are_named(tmp_path: Path) -> None:
    with pytest.raises(TempolocError, match="no frame store"):
        load_store([])
    bad = tmp_path / "part.npz"
    bad.write_bytes(b"not a store")
    with pytest.raises(TempolocError, match=r"part\.npz"):
        load_store([bad])
    write_part(bad, made_up_store().recordings[:1], {"frames": np.zeros((1, 8, 8, 3), np.uint8)})
    with pytest.raises(TempolocError, match=r"part\.npz"):
        load_store([bad])
    store = made_up_store()
    arrays = {name: getattr(store, name) for name in ARRAYS}
    write_part(tmp_path / "first.npz", store.recordings, arrays)
    write_part(bad, store.recordings, arrays | {"frames": store.frames[:, ::2, ::2]})
    with pytest.raises(TempolocError, match=r"part\.npz has frames of another size than first\.npz"):
        load_store([bad, tmp_path / "first.npz"])


def test_parts_make_one_store(tmp_path: Path) -> None:
    store = made_up_store()
    for k in range(3):
        write_part(tmp_path / f"{k}.npz", store.recordings, {name: getattr(store, name) for name in ARRAYS})
    whole, n = load_store(tmp_path.glob("*.npz")), len(store.frames)
    for name in ARRAYS:
        assert np.array_equal(getattr(whole, name), np.concatenate([getattr(store, name)] * 3)), name
    assert [one.first for one in whole.recordings] == [k * n + one.first for k in range(3) for one in store.recordings]


def windowed(folder: Path, window: int, **options: float) -> StageBatches:
    collator = Collator(load(folder)[1].tokenizer, 12)  # type: ignore[attr-defined]
    stage = Stage("s", 64, {"localize": 0.6, "walk": 0.4}, (4, 20))
    return StageBatches(made_up_store(), collator, stage, 5, tokens=2500, options=TaskOptions(**options), window=window)


def test_a_window_pads_less_and_shows_each_example_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[TaskExample] = []
    draw = StageBatches._draw
    monkeypatch.setattr(StageBatches, "_draw", lambda *given: drawn.append(draw(*given)) or drawn[-1])
    plain, sorted_ = windowed(folder, 1), windowed(folder, 16)
    pad = sorted_.collator.pad

    def padding(batches: list[Batch]) -> float:
        return float(np.mean(np.concatenate([b.ids.ravel() == pad for b in batches])))

    loose = padding([plain[i] for i in range(32)])
    drawn.clear()
    tight = [sorted_[i] for i in range(16)]
    assert padding(tight) < 0.6 * loose
    assert len(drawn) == sum(len(b.ids) for b in tight)
    shown = sorted(tuple(b.frames[b.owner == row]) for b in tight for row in range(len(b.ids)))
    assert shown == sorted(tuple(sample.frames) for sample in drawn)
    assert max(b.ids.size for b in tight) < 1.3 * sorted_.tokens


@pytest.mark.parametrize("squeezed", [0.0, 0.5])
def test_batches_of_a_window_depend_on_their_number_alone(folder: Path, squeezed: float) -> None:
    forward, backward = windowed(folder, 4, squeezed=squeezed), windowed(folder, 4, squeezed=squeezed)
    a = [forward[i] for i in range(12)]
    b = [backward[i] for i in reversed(range(12))][::-1]
    for x, y in zip(a, b, strict=True):
        assert all((getattr(x, name) == getattr(y, name)).all() for name in ("ids", "labels", "positions", "frames"))
        assert (x.seed, x.border, x.grid) == (y.seed, y.border, y.grid)
    assert len({x.seed for x in a}) == 12
    assert len({x.border for x in a}) == 1 if squeezed == 0 else len({x.border for x in a}) > 1


def test_a_run_with_windows_goes_on_where_it_stopped(folder: Path, tmp_path: Path) -> None:
    import torch

    options = replace(OPTIONS, window=4)
    whole = Trainer(*load(folder), made_up_store(), tmp_path / "whole", options)
    whole.run(every=1)
    for stop in (2, 5, 7):  # within windows, and within stages
        Trainer(*load(folder), made_up_store(), tmp_path / "cut", options).resume()
        cut = Trainer(*load(folder), made_up_store(), tmp_path / "cut", options)
        cut.resume()
        cut.run(lambda t, stop=stop: t.step == stop, every=1)  # type: ignore[misc]
    cut = Trainer(*load(folder), made_up_store(), tmp_path / "cut", options)
    cut.resume()
    cut.run(every=1)
    assert all(torch.equal(w, cut.model.state_dict()[name]) for name, w in whole.model.state_dict().items())


def test_no_batch_of_a_window_is_empty() -> None:
    for lengths, count in (([5, 5], 2), ([9, 1, 1], 3), ([3] * 7, 3), ([100, 1, 1, 1], 3)):
        rows = [(None, (list(range(n)), 0, None)) for n in lengths]
        cut = _by_length(rows, count)  # type: ignore[arg-type]
        assert len(cut) == count
        assert all(cut)
        assert sorted(len(ids) for part in cut for _, (ids, _, _) in part) == sorted(lengths)


def test_words_are_looked_up_as_the_tokenizer_cuts_them(folder: Path) -> None:
    tokenizer = load(folder)[1].tokenizer  # type: ignore[attr-defined]
    encode, rng = WordEncoder(tokenizer), random.Random(0)
    assert encode.fits
    parts = [
        "<|im_start|>",
        "<|im_end|>",
        "<|im_",
        "|>",
        "'S",
        "'ll",
        "It's",
        "12.34",
        " the",
        "\n",
        "\n\n",
        "  ",
        " \n ",
    ]
    parts += ["\t", "…", "é", "red cube", "<think>", ".", "::", "a1b2", " ", "\r\n", "?!\n\n", "x'", "''re"]
    for _ in range(2000):
        text = "".join(rng.choice(parts) for _ in range(rng.randint(0, 12)))
        assert encode(text) == tokenizer.encode(text, add_special_tokens=False), repr(text)


def test_stamps_are_rounded_as_they_are_written() -> None:
    drawn = np.random.default_rng(0).uniform(0, 90, 20000)
    times = np.concatenate([drawn, np.arange(0, 40, 0.125), np.arange(4000) / 200])
    assert hundredths(times).tolist() == [round(float(f"{t:.2f}") * 100) for t in times]


def test_a_store_that_lacks_families_is_told_of(folder: Path, tmp_path: Path) -> None:
    store = made_up_store()
    named = tuple(replace(one, name=f"lift/{one.name}") if one.kind == "clip" else one for one in store.recordings)
    (tmp_path / "parts").mkdir()
    write_part(tmp_path / "parts" / "a.npz", named, {name: getattr(store, name) for name in ARRAYS})
    plan = TrainingPlan("small", str(folder), replace(OPTIONS, stages=(replace(OPTIONS.stages[0], steps=1),)))
    with pytest.raises(TempolocError, match=r"lacks 1 families that small learns from: base/door: .* --partial"):
        run_training(plan, tmp_path / "parts", tmp_path / "out", device="cpu")
    run_training(plan, tmp_path / "parts", tmp_path / "out", device="cpu", partial=True)
    assert json.loads((tmp_path / "out" / "run.json").read_text())["without"] == ["base/door"]
    less = replace(plan, options=replace(plan.options, leave_out=("base/do*",)))
    run_training(less, tmp_path / "parts", tmp_path / "less", device="cpu")
    assert "without" not in json.loads((tmp_path / "less" / "run.json").read_text())
    none = replace(plan, options=replace(plan.options, leave_out=("base/*",)))
    with pytest.raises(TempolocError, match="no clips of base, which stage 'frame' needs"):
        run_training(none, tmp_path / "parts", tmp_path / "none", device="cpu")
