"""Experiments: strict definitions, the right clips and questions, shipped answers only where they are wanted."""

from __future__ import annotations

import json
import lzma
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_backend import Truthful
from study_cells import study_functions
from typer.testing import CliRunner

from tempoloc_nb.cli import study as cli_experiments
from tempoloc_nb.clips.manifest import Clips, load_benchmark, read_manifest
from tempoloc_nb.clips.videos import find_videos
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.files import write_jsonl
from tempoloc_nb.core.machine import device_name
from tempoloc_nb.core.settings import data_dir
from tempoloc_nb.engines import make as engines
from tempoloc_nb.engines.protocol import Backend
from tempoloc_nb.inference.baselines import prediction_rows
from tempoloc_nb.inference.record import measured, pack_predictions, read_record, read_rows, record_path, write_record
from tempoloc_nb.models.ask import Sampling
from tempoloc_nb.models.locate import Place
from tempoloc_nb.models.registry import load_registry
from tempoloc_nb.scoring.evaluation import evaluate, written_boundaries
from tempoloc_nb.study import experiments
from tempoloc_nb.study.experiments import (
    asked_clips,
    committed,
    find_experiments,
    for_model,
    load_experiments,
    predictions,
    run_experiment,
    score,
    swapped_labels,
)
from tempoloc_nb.video.files import probe
from tempoloc_nb.video.view import View

OVERLAY = study_functions("07")
SIM = load_benchmark("sim")
OWN = load_benchmark("base-tasks")
VALIDATION = load_benchmark("validation")
FEW = replace(SIM, clips=SIM.with_videos()[:3])
ALL = load_experiments()


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder of its own, with the study's experiments and no predictions or models."""
    folder = tmp_path / "data"
    folder.mkdir()
    shutil.copy(data_dir() / "experiments.toml", folder)
    monkeypatch.setattr(experiments, "data_dir", lambda: folder)
    return folder


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


# --- definitions ---

STAGES = (23000, 34000, 40198)


def test_the_studys_experiments_are_what_their_names_say() -> None:
    sft, presets = ALL["sft"], load_registry().presets
    assert sft.ask == replace(presets["tiny"], model="tempoloc-tiny")
    assert (sft.ask.prompt, sft.ask.trials, sft.ask.view, sft.ask.crops) == ("log", 1, View("frame"), True)
    assert sft.ask.sampling == Sampling(0.0, 1.0, 1.0, 1500, 0)
    base: dict[str, Any] = {"preset": "tiny-base", "model": "tempoloc-tiny-base", "trials": 10}
    former = {"preset": "tiny-base", "model": "runs/former/model", "view": View("frame"), "trials": 10}
    seeds = {f"seed{k}": f"runs/sft-seed{k}/model" for k in (1, 2)}
    words: dict[str, Any] = {"preset": "tiny-asked", "clips_per_task": 25}
    changed: dict[str, dict[str, Any]] = {
        "base": base, "base-4fps": {**base, "fps": 4.0}, "base-12fps": {**base, "fps": 12.0},
        "base-constrained": {
            **base, "structured": "regex", "think": False, "sampling": Sampling(0.0, 0.95, 1.0, 400, 0), "trials": 1,
            "clips_per_task": 10,
        },
        "sft": {}, **{f"sft-{seed}": {"model": model} for seed, model in seeds.items()},
        "sft-4fps": {"fps": 4.0}, "sft-12fps": {"fps": 12.0}, "sft-none": {"view": View("empty")},
        "sft-pair": {"view": View("pair")}, "sft-alternate": {"view": View("alternate")},
        "sft-shift5": {"view": View("frame", 5.0)}, "sft-blank": {"view": View("frame", content="blank")},
        "sft-shuffled": {"view": View("frame", content="shuffled")},
        "sft-asked": words, "sft-swapped": {**words, "swapped": True}, "former": former,
        "base-own": {**base, "benchmark": "base-tasks"},
        "which": {"benchmark": "which", "trials": 5}, "which-val": {"benchmark": "which-validation", "trials": 5},
        **{f"which-{seed}": {"benchmark": "which", "model": model} for seed, model in seeds.items()},
        "which-asked": {"benchmark": "which", "preset": "tiny-asked"},
    }  # fmt: skip
    here: dict[str, Any] = {"benchmark": "validation", "model": "runs/sft/model"}
    for name, values in {
        "seed0": {}, **{seed: {"model": model} for seed, model in seeds.items()},
        **{f"step{n:05d}": {"model": f"runs/sft/steps/{n:05d}"} for n in STAGES},
        "4fps": {"fps": 4.0}, "12fps": {"fps": 12.0}, "recipe-prompt": {"prompt": "recipe"},
        "pair": {"view": View("pair")}, "alternate": {"view": View("alternate")}, "asked": {"preset": "tiny-asked"},
        "sampled": {"sampling": replace(sft.ask.sampling, temperature=0.6), "crops": False, "trials": 2},
        "former": {**former, "trials": 2}, "base": {**base, "model": "runs/base/model", "trials": 2},
    }.items():  # fmt: skip
        changed[f"val-{name}"] = {**here, **values}
    assert set(changed) == set(ALL)
    for name, values in changed.items():
        own: Any = {k: v for k, v in values.items() if k in ("benchmark", "swapped", "clips_per_task", "preset")}
        ask: Any = {"model": "tempoloc-tiny", **{k: v for k, v in values.items() if k not in own}}
        way = replace(presets[own.get("preset", "tiny")], **ask)
        assert ALL[name] == replace(sft, name=name, title=ALL[name].title, ask=way, **own), name
    assert len({(e.benchmark, e.title) for e in ALL.values()}) == len(ALL)
    for e in ALL.values():
        assert load_benchmark(e.benchmark).name == e.benchmark


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = ", "is not valid TOML"),
        ("[extra]", r"unknown table \[extra\]; known: experiments"),
        ("[experiments.x]\nask.model = 'm'\ntitle = 't'\nask.fsp = 8", "ask has the unknown key 'fsp'"),
        ("[experiments.x]\nask.model = 'm'\ntitle = 't'\npreset = 'tine'", "unknown preset 'tine': did you mean tiny"),
        ("[experiments.x]\nask.model = 'm'\ntitle = 't'\nask.trials = true", "trials = true is not a whole number"),
        ("[experiments.x]\nask.model = 'm'\ntitle = 't'\nask.trials = 1.5", "trials = 1.5 is not a whole number"),
        ("[experiments.x]\nask.model = 'm'", r"\[experiments\.x\] lacks 'title'"),
        ("[experiments.x]\ntitle = 't'", "lacks 'ask.model'"),
        ("[experiments]\nx = 3", r"\[experiments\.x\]: 3 is not a table"),
        ("[experiments.x]\nask.model = 'm'\ntitle = 't'\nask.view.stamps = 'all'", "ask.view: stamps"),
        ("[experiments.x]\nask.model = 'm'\ntitle = 't'\nask.fps = 0", "fps = 0: should be greater than 0"),
        ("[experiments.x]\nask.model = 'm'\ntitle = 't'\nask.trials = 0", "trials = 0: should be greater"),
    ],
)
def test_bad_definitions_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "e.toml"
    path.write_text(text)
    with pytest.raises(TempolocError, match=message) as caught:
        load_experiments(path)
    assert str(caught.value).startswith("e.toml")
    assert "\n" not in str(caught.value)


def test_a_missing_definition_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TempolocError, match=r"cannot read the experiments file none\.toml"):
        load_experiments(tmp_path / "none.toml")


def test_experiments_are_found_once_and_in_order() -> None:
    assert [e.name for e in find_experiments(["sft", "base", "sft"])] == ["sft", "base"]
    assert find_experiments(["sft-4fps", "all"])[0].name == "sft-4fps"
    assert len(find_experiments(["sft-4fps", "all"])) == len(ALL)
    with pytest.raises(TempolocError, match=r"experiment 'sft-5fps': did you mean sft-4fps\? choose one of base"):
        find_experiments(["sft-5fps"])


# --- models ---


def test_another_model_is_asked_as_the_recipe_asks() -> None:
    other = for_model(ALL["sft-4fps"], "nvidia/Cosmos-Reason1-7B")
    assert (other.model, other.title) == ("nvidia/Cosmos-Reason1-7B", "Cosmos-Reason1-7B, 4 fps")
    assert (other.ask.fps, other.ask.prompt, other.ask.view) == (4, "recipe", View("frame"))
    assert other.ask.sampling == Sampling(0.6, 0.95, 1.05, 4096)
    assert for_model(ALL["sft-none"], "x/y").ask.view == View("empty")
    assert for_model(ALL["sft-blank"], "x/y").ask.view == View("frame", content="blank")
    assert for_model(ALL["sft"], "out/seven/model").title == "seven"


def test_our_own_models_are_asked_as_defined() -> None:
    for same in (None, "", "tempoloc-tiny"):
        assert for_model(ALL["sft-swapped"], same) is ALL["sft-swapped"]
    base = for_model(ALL["sft-4fps"], "tempoloc-tiny-base")
    wanted = replace(
        ALL["sft-4fps"], title="tempoloc-tiny-base, 4 fps",
        ask=load_registry().presets["tiny-base"].changed(model="tempoloc-tiny-base", fps=4.0),
    )  # fmt: skip
    assert base == wanted
    assert for_model(ALL["sft"], fps=4) == replace(ALL["sft"], ask=ALL["sft"].ask.changed(fps=4.0))


def test_another_model_is_asked_with_other_stamps_only_where_the_experiment_is_about_them() -> None:
    """Those of the file's default, and of the experiment's own model, give way to the asked model's."""
    for model, usual in (("nvidia/Cosmos-Reason1-7B", "frame"), ("tempoloc-tiny-base", "pair")):
        asked = {name: for_model(ALL[name], model).ask.view for name in ("sft", "sft-blank", "sft-pair", "sft-none")}
        assert asked == {
            "sft": View(usual), "sft-blank": View(usual, content="blank"), "sft-pair": View("pair"),
            "sft-none": View("empty"),
        }  # fmt: skip
    assert for_model(ALL["base"], "tempoloc-tiny").ask.view == View("frame")
    assert for_model(ALL["base"], "x/y").ask.view == View("frame")


def test_a_model_is_loaded_once_and_never_with_another(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made: list[tuple[str, str, Any]] = []
    ended: list[str] = []

    class Engine(Truthful):
        def close(self) -> None:
            ended.append(self.model)

    def make(name: str, model: str, **options: Any) -> Backend:
        assert not experiments._loaded, "the last model is still in memory"
        assert ended == [title for _, title, _ in made], "the last engine still runs"
        made.append((Path(model).name, options["title"], options.get("data_parallel", 1)))
        return Engine(model=options["title"])

    monkeypatch.setattr(engines, "make_engine", make)
    monkeypatch.setattr(experiments, "locate_model", lambda name: Place(Path(name)))
    monkeypatch.setattr(experiments, "_loaded", {})
    for name in ("base", "base-4fps", "sft", "sft-4fps", "sft-seed1"):
        run_experiment(ALL[name], FEW, tmp_path / f"{name}.jsonl", trials=1)
    run_experiment(ALL["sft"], FEW, tmp_path / "two.jsonl", trials=1, weights=tmp_path,
                   backend=engines.EngineConfig(data_parallel=2))  # fmt: skip
    assert made == [
        ("tempoloc-tiny-base", "tempoloc-tiny-base", 1), ("tempoloc-tiny", "tempoloc-tiny", 1),
        ("model", "sft-seed1", 1), (tmp_path.name, "tempoloc-tiny", 2),
    ]  # fmt: skip
    assert rows(tmp_path / "sft-seed1.jsonl")[0]["model"] == "sft-seed1"
    assert read_record(tmp_path / "two.jsonl")["device"].startswith("2 × ")


def test_nothing_is_loaded_without_videos(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(engines, "make_engine", lambda *a, **k: pytest.fail("a model was loaded"))
    with pytest.raises(TempolocError, match="60 of 60 clips have no video"):
        run_experiment(ALL["sft"], load_benchmark("recipe"), tmp_path / "p.jsonl")


# --- what is asked ---


def test_swapped_questions_exchange_two_events() -> None:
    swapped = swapped_labels(SIM, 25, seed=0)
    assert set(swapped) == {c.clip for c in SIM.head(25).clips}
    kinds = set()
    for clip in SIM.head(25).clips:
        moved = [i for i, (a, b) in enumerate(zip(clip.labels, swapped[clip.clip], strict=True)) if a != b]
        assert len(moved) == 2
        i, j = moved
        assert (swapped[clip.clip][i], swapped[clip.clip][j]) == (clip.labels[j], clip.labels[i])
        kinds.add((i, j))
    assert kinds == {(0, 1), (0, 2), (1, 2)}
    assert swapped == swapped_labels(SIM, 25, seed=0)
    assert swapped != swapped_labels(SIM, 25, seed=1)
    # a clip's draw does not depend on which others are asked
    assert swapped_labels(SIM, 3) == {c.clip: swapped[c.clip] for c in SIM.head(3).clips}
    single = replace(SIM, clips=(replace(SIM.clips[0], events=SIM.clips[0].events[:1]),))
    with pytest.raises(TempolocError, match="has no two different events"):
        swapped_labels(single)


def test_the_first_clips_with_a_video_are_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    part = asked_clips(ALL["sft"], SIM, 3)
    assert [c.clip for c in part.clips] == [c.clip for k in SIM.tasks for c in SIM.of_task(k) if c.video][:3] + [
        c.clip for k in list(SIM.tasks)[1:] for c in [c for c in SIM.of_task(k) if c.video][:3]
    ]
    assert asked_clips(ALL["sft"], SIM) is SIM
    assert capsys.readouterr().err == ""
    assert len(asked_clips(ALL["sft-swapped"], SIM, 3).clips) == 12
    few = asked_clips(ALL["sft-swapped"], SIM)  # 25 a task, but only 10 have a video, or 5
    assert len(few.clips) == 35
    told = capsys.readouterr().err
    assert [told.count(f"{n} of 100 clips have no video") for n in (90, 95)] == [3, 1]


def test_videos_are_found_by_clip_id(tmp_path: Path) -> None:
    """Clips that the manifest has no video for, and names that are numbers in every family."""
    hidden = {c.clip for c in SIM.clips if c.video is None}
    names = ["stack-three/016", "stack-three-ur5e/016", "nut-assembly/099", "stack-three/000"]
    assert "stack-three/016" in hidden
    for name in names:
        (tmp_path / "deep" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "deep" / f"{name}.mp4").write_bytes(b"")
    (tmp_path / "deep" / "016.mp4").write_bytes(b"")  # nobody's
    found = find_videos(SIM, tmp_path)
    assert found == {name: tmp_path / "deep" / f"{name}.mp4" for name in names}
    (tmp_path / "stack-three").mkdir()
    (tmp_path / "stack-three" / "016.mp4").write_bytes(b"")
    with pytest.raises(TempolocError, match="are both stack-three/016"):
        find_videos(SIM, tmp_path)


# --- runs ---


def test_a_run_notes_what_it_was(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "sft-swapped.jsonl"
    backend = Truthful()
    summary = run_experiment(ALL["sft-swapped"], FEW, out, trials=2, backend=backend)
    assert (summary.written, summary.missing) == (6, ())
    asked = [(r.labels, r.view.crop, r.trials) for r in backend.asked]  # each crop is a question of its own
    assert asked == [(labels, k, (k,)) for labels in swapped_labels(FEW).values() for k in (0, 1)]
    record = read_record(out)
    assert record["experiment"]["view"] == {"stamps": "frame", "shift": 0.0, "content": "video", "seed": 0}
    assert record["device"] == device_name("cpu") != ""
    assert {k: record[k] for k in ("answers", "clips", "cut_off_answers", "mean_tokens", "seconds")} == {
        "answers": 6, "clips": 3, "cut_off_answers": 0, "seconds": 3.0,
        "mean_tokens": {"prompt_tokens": 90.0, "vision_tokens": 40.0, "completion_tokens": 9.0},
    }  # fmt: skip
    run = score(out, SIM, ALL["sft-swapped"], resamples=20)
    assert (run.model, run.estimate("mae_s").value) == ("tiny SFT, swapped events", pytest.approx(0, abs=0.01))
    assert run.estimate("compliance").value == 1


def test_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "sft.jsonl"
    with pytest.raises(KeyboardInterrupt):
        run_experiment(ALL["sft"], FEW, out, trials=2, backend=Truthful(limit=2))
    again = Truthful()
    summary = run_experiment(ALL["sft"], FEW, out, trials=2, backend=again)
    assert (summary.kept, summary.written, len(again.asked)) == (2, 4, 4)
    assert (read_record(out)["answers"], read_record(out)["seconds"]) == (6, 3.0)
    with pytest.raises(TempolocError, match=r"other settings \(fps\)"):
        run_experiment(ALL["sft-4fps"], FEW, out, backend=Truthful())


def test_answers_are_not_appended_to_packed_files(tmp_path: Path) -> None:
    with pytest.raises(TempolocError, match=r"not to p\.jsonl\.xz"):
        run_experiment(ALL["sft"], FEW, tmp_path / "p.jsonl.xz", backend=Truthful())


# --- packed files ---


def test_packing_keeps_the_scores_and_drops_the_rest(tmp_path: Path) -> None:
    out = tmp_path / "sft-swapped.jsonl"
    run_experiment(ALL["sft-swapped"], FEW, out, trials=3, backend=Truthful())
    packed = pack_predictions(out, tmp_path / "packed")
    assert packed.name == "sft-swapped.jsonl.xz"
    found = [json.loads(line) for line in lzma.decompress(packed.read_bytes()).splitlines()]
    assert {tuple(row) for row in found} == {("clip", "task", "model", "fps", "trial", "text", "labels")}
    assert [(row["clip"], row["trial"]) for row in found] == sorted((r["clip"], r["trial"]) for r in rows(out))
    assert evaluate(packed, SIM, resamples=20) == evaluate(out, SIM, resamples=20)
    record, own = read_record(packed), read_record(out)
    assert record_path(packed).name == "sft-swapped.run.json"
    assert own["settings"].pop("labels")
    assert own.pop("asked").keys() == {row["clip"] for row in rows(out)}
    assert record == own
    # the same answers in another order make the same bytes
    shuffled = tmp_path / "other" / "sft-swapped.jsonl"
    shuffled.parent.mkdir()
    shuffled.write_text("".join(f"{line}\n" for line in reversed(out.read_text().splitlines())))
    write_record(shuffled, read_record(out))
    assert pack_predictions(shuffled, tmp_path / "again").read_bytes() == packed.read_bytes()


def test_what_cannot_be_packed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"clip": "a"}\n')
    with pytest.raises(TempolocError, match=r"cannot read the record file .*p\.run\.json"):
        pack_predictions(path, tmp_path)
    write_record(path, {"settings": {}})
    with pytest.raises(TempolocError, match=r"p\.jsonl has rows without clip or trial"):
        pack_predictions(path, tmp_path)
    path.write_text('{"clip": "a", "trial": 0}\n{"clip"\n')
    with pytest.raises(TempolocError, match=r"p\.jsonl:2 is not a prediction"):
        pack_predictions(path, tmp_path)
    path.write_text("")
    with pytest.raises(TempolocError, match="nothing to pack"):
        pack_predictions(path, tmp_path)
    record_path(path).write_text("[]")
    with pytest.raises(TempolocError, match="is not a JSON object"):
        read_record(path)


def test_a_run_without_tokens_is_measured(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"clip": "a", "trial": 0, "finish_reason": "length"}\n{"clip": "a", "trial": 1}\n')
    assert measured(path) == {"answers": 2, "clips": 1, "cut_off_answers": 1, "mean_tokens": {}, "seconds": 0.0}


# --- predictions for studies ---


def test_a_quick_study_asks_about_a_few_clips_and_shares_the_answers(tmp_path: Path) -> None:
    backend = Truthful()
    path = predictions(ALL["base"], SIM, tmp_path, profile="quick", backend=backend)
    few = [c.clip for c in asked_clips(ALL["base"], SIM, 2).clips]
    assert {(r["clip"], r["trial"]) for r in rows(path)} == {(clip, t) for clip in few for t in range(2)}
    once = predictions(ALL["sft"], SIM, tmp_path, profile="quick", backend=Truthful())  # no more than its own trials
    assert {(r["clip"], r["trial"]) for r in rows(once)} == {(clip, 0) for clip in few}
    again = Truthful()
    assert predictions(ALL["base"], SIM, tmp_path, profile="quick", backend=again) == path
    assert not again.asked
    # another question or model is another file, not an error
    others = [
        predictions(e, b, tmp_path, profile="quick", backend=Truthful(model=m))
        for e, b, m in [
            (for_model(ALL["base"], fps=4), SIM, "truthful"), (ALL["base"], replace(SIM, name="mine"), "truthful"),
            (ALL["base"], SIM, "other"), (for_model(ALL["base"], "x/y"), SIM, "truthful"),
        ]
    ]  # fmt: skip
    assert len({path, *others}) == 5


def test_what_two_experiments_ask_alike_is_asked_once(tmp_path: Path) -> None:
    base, former = (for_model(ALL[name], "x/y") for name in ("base", "former"))
    path = predictions(base, SIM, tmp_path, profile="quick", backend=Truthful())
    unused = Truthful()
    assert predictions(former, SIM, tmp_path, profile="quick", backend=unused) == path
    assert not unused.asked
    assert read_record(path)["experiment"]["name"] == "base"
    # more or fewer trials are another file, and a file of its own comes first
    once = replace(former, ask=replace(former.ask, trials=1))
    few = predictions(once, SIM, tmp_path, profile="quick", backend=Truthful())
    assert few.name == path.name.replace("base", "former")
    assert {row["trial"] for row in rows(few)} == {0}
    predictions(former, SIM, tmp_path, profile="quick", backend=Truthful())
    assert {row["trial"] for row in rows(few)} == {0, 1}
    assert {row["trial"] for row in rows(path)} == {0, 1}


def test_a_users_model_is_asked_once_as_the_zero_shot_and_the_fine_tuned_one(tmp_path: Path) -> None:
    base, sft = (for_model(ALL[name], "x/y") for name in ("base", "sft"))
    path = predictions(base, SIM, tmp_path, profile="quick", backend=Truthful())
    assert predictions(sft, SIM, tmp_path, profile="quick", backend=Truthful()) == path


def test_failed_clips_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = asked_clips(ALL["sft"], SIM, 3).clips[1].clip
    predictions(ALL["sft"], SIM, tmp_path, profile="quick", backend=Truthful(bad=[bad]))
    assert f"tempoloc: {bad}: no good" in capsys.readouterr().err


def test_a_model_that_answers_no_clip_says_why(tmp_path: Path) -> None:
    """Rather than that there is nothing to score."""
    bad = [clip.clip for clip in SIM.clips]
    with pytest.raises(TempolocError, match=r"sft-\w+: \d+ clips have no answer \(.*no good\)"):
        predictions(ALL["sft"], SIM, tmp_path, profile="quick", backend=Truthful(bad=bad))
    done = predictions(ALL["sft"], SIM, tmp_path, profile="quick", backend=Truthful())
    assert {row["clip"] for row in rows(done)}


def ship(data: Path, name: str, tmp_path: Path, benchmark: Clips = FEW, **kwargs: Any) -> Path:
    out = tmp_path / f"{name}.jsonl"
    run_experiment(ALL[name], benchmark, out, backend=Truthful(), **kwargs)
    return pack_predictions(out, data / "predictions")


def test_a_full_study_reads_what_is_shipped(data: Path, tmp_path: Path) -> None:
    packed = ship(data, "sft-4fps", tmp_path)
    unused = Truthful()
    for profile in ("full", "gpu8"):
        assert predictions(ALL["sft-4fps"], FEW, tmp_path / "r", profile=profile, backend=unused) == packed
    assert not unused.asked
    quick = predictions(ALL["sft-4fps"], FEW, tmp_path / "r", profile="quick", backend=unused)
    assert quick.parent == tmp_path / "r"
    assert unused.asked
    other = Truthful()
    other.name = "vllm"  # a study on vLLM is not to read transformers' answers
    found = predictions(ALL["sft-4fps"], FEW, tmp_path / "r", profile="full", backend=other)
    assert found.parent == tmp_path / "r"
    assert len(other.asked) == len(FEW.clips)


def test_other_models_and_benchmarks_are_never_read_from_what_is_shipped(data: Path, tmp_path: Path) -> None:
    ship(data, "sft", tmp_path)
    assert committed(ALL["sft"], FEW) is not None
    assert committed(for_model(ALL["sft"], "x/y"), FEW) is None
    assert committed(for_model(ALL["sft"], fps=4), FEW) is None
    assert committed(ALL["sft"], replace(FEW, name="mine")) is None
    assert committed(ALL["base"], FEW) is None
    few = replace(OWN, clips=OWN.with_videos())
    ship(data, "base-own", tmp_path, few)
    assert committed(ALL["base-own"], few) is not None
    assert committed(ALL["base-own"], replace(FEW, name="sim")) is None


def test_shipped_predictions_must_be_what_the_definition_says(data: Path, tmp_path: Path) -> None:
    ship(data, "sft", tmp_path)
    file = data / "experiments.toml"
    text, own = file.read_text(), "[experiments.sft]\n"
    assert own in text
    file.write_text(text.replace(own, f"{own}ask.sampling.temperature = 0.7\n"))
    with pytest.raises(TempolocError, match=r"sft\.jsonl\.xz was made with another sampling: run `tempoloc experiment"):
        committed(load_experiments(file)["sft"], FEW)
    file.write_text(text.replace('title = "tiny SFT"\n', 'title = "small SFT"\n'))  # only a name
    assert committed(load_experiments(file)["sft"], FEW) is not None


def test_shipped_predictions_must_be_complete(data: Path, tmp_path: Path) -> None:
    ship(data, "base", tmp_path, trials=9)
    with pytest.raises(TempolocError, match=r"base\.jsonl\.xz has 27 of 30 answers"):
        committed(ALL["base"], FEW)


def test_a_file_of_several_runs_is_no_experiment(tmp_path: Path) -> None:
    truth = {c.clip: c.boundaries for c in FEW.clips}
    both = [row for fps in (4, 8) for row in prediction_rows(FEW, truth, "m", fps)]
    write_jsonl(tmp_path / "p.jsonl", both)
    with pytest.raises(TempolocError, match="has 2 runs"):
        score(tmp_path / "p.jsonl", FEW, ALL["sft"])


@pytest.mark.parametrize("name", ALL)
def test_shipped_predictions_are_whole(name: str) -> None:
    """Either none are shipped (models in the making), or those of every experiment, all of them readable."""
    folder = data_dir() / "predictions"
    shipped = {p.name.removesuffix(".jsonl.xz") for p in folder.glob("*.jsonl.xz")}
    assert shipped in (set(), set(ALL))
    if shipped:
        asked = ALL[name]
        benchmark = load_benchmark(asked.benchmark)
        path = committed(asked, benchmark)
        assert path is not None
        (run,) = evaluate(path, benchmark, resamples=1).runs
        assert run.fps == asked.ask.fps
        wanted = replace(benchmark, clips=benchmark.head(asked.clips_per_task).clips)
        said = [(row["clip"], row["trial"]) for row in read_rows(path)]
        assert sorted(said) == sorted((c.clip, t) for c in wanted.clips for t in range(asked.ask.trials))
        timed = Counter(c.task for c in wanted.clips if any(not e.absent for e in c.events))  # of others: no error
        assert run.by_task("mae_s")["n"].drop("").to_dict() == timed
        assert sum(p.stat().st_size for p in folder.iterdir()) < 2 * 2**20
    same = {"val-seed0": "sft", "val-base": "base", "val-former": "former"}
    if shipped and name in same:  # the weights that were chosen are those that ship
        records = [read_record(folder / f"{n}.jsonl.xz") for n in (name, same[name])]
        revisions = [record["settings"]["backend_settings"]["revision"] for record in records]
        assert revisions[0] == revisions[1]


# --- the benchmarks of these experiments ---


def test_no_demonstration_is_in_two_splits() -> None:
    train = read_manifest(SIM.root / "train.jsonl.xz")
    by_split = {"validation": VALIDATION.clips, "base": OWN.clips, "test": SIM.clips, "sft": train}
    owners: dict[int | None, set[str]] = {}
    for split, clips in by_split.items():
        assert {c.split for c in clips} == {split}
        for c in clips:
            owners.setdefault(c.seed, set()).add(split)
    assert None not in owners
    assert {len(splits) for splits in owners.values()} == {1}


def test_the_validation_split_has_its_families_and_two_arms() -> None:
    counts = {key: (len(VALIDATION.of_task(key)), VALIDATION.of_task(key)[0].robot) for key in VALIDATION.tasks}
    assert counts == {
        "stack-two": (25, "Panda"), "stack-three": (25, "Panda"), "square": (25, "Panda"), "pick-place": (25, "Panda"),
        "stack-two-kinova3": (20, "Kinova3"), "stack-three-kinova3": (25, "Kinova3"),
        "square-kinova3": (25, "Kinova3"), "stack-three-slow": (25, "Panda"),
    }  # fmt: skip
    assert VALIDATION.with_videos() == ()


def test_the_slow_clips_are_the_others_slowed_down() -> None:
    source = {c.seed: c for c in VALIDATION.of_task("stack-three")}
    for slow in VALIDATION.of_task("stack-three-slow"):
        clip = source[slow.seed]
        assert slow.labels == clip.labels
        assert slow.boundaries == pytest.approx([2.2 * b for b in clip.boundaries], abs=1e-3)
        assert slow.instants == pytest.approx({k: 2.2 * v for k, v in clip.instants.items()}, abs=1e-3)
        assert clip.duration is not None
        assert slow.duration == pytest.approx(2.2 * clip.duration, abs=0.2)  # a frame of 5 fps
        assert (slow.fps, VALIDATION.tasks[slow.task].fps) == (5, 5)


def test_the_base_models_own_clips_are_here_for_a_quick_run() -> None:
    assert {key: len(OWN.of_task(key)) for key in OWN.tasks} == {"lift": 50, "door": 50}
    shipped = OWN.with_videos()
    assert [c.clip for c in shipped] == [c.clip for c in OWN.head(3).clips]
    for c in shipped:
        found = probe(c.video_path(OWN.root))
        assert (found.fps, found.duration) == (c.fps, pytest.approx(c.duration, abs=0.01))


# --- shifts ---


def test_shifts_are_of_what_was_written(tmp_path: Path) -> None:
    late = replace(ALL["sft"], ask=ALL["sft"].ask.changed(shift=5.0))
    for name, e in {"a": ALL["sft"], "b": late}.items():
        run_experiment(e, FEW, tmp_path / f"{name}.jsonl", trials=2, backend=Truthful())
    prompt, late_usable = (evaluate(tmp_path / f"{n}.jsonl", FEW, resamples=10).estimate("usable").value for n in "ab")
    assert prompt == 1
    assert late_usable is not None
    assert late_usable < 1  # strict scoring does not see the late answers
    how: Any = {"expected": 5, "tolerance": 0.25, "resamples": 50}
    shift = OVERLAY.answer_shift(tmp_path / "a.jsonl", tmp_path / "b.jsonl", FEW, **how)
    assert shift["key"].tolist() == ["stack-three", ""]
    assert shift[["clips", "events", "untimed"]].to_numpy().tolist() == [[3, 18, 0]] * 2
    assert shift[["median_s", "low", "high"]].to_numpy() == pytest.approx(5.0)
    assert shift["within_pct"].tolist() == [100.0] * 2
    back = OVERLAY.answer_shift(tmp_path / "b.jsonl", tmp_path / "a.jsonl", FEW, **how).iloc[0]
    assert (back["median_s"], back["within_pct"]) == (pytest.approx(-5.0), 0.0)


def written(path: Path, answers: dict[tuple[int, int], Sequence[float | None]]) -> Path:
    """Predictions (clip, trial) → times; an event without a time is left out of the answer."""
    made = []
    for (clip, trial), times in answers.items():
        c = FEW.clips[clip]
        lines = [
            f"Event {i}: <{t}> <{t + 1}> {label}"
            for i, (t, label) in enumerate(zip(times, c.labels, strict=True), 1)
            if t is not None
        ]
        made.append({"clip": c.clip, "task": c.task, "model": "m", "fps": 8, "trial": trial, "text": "\n".join(lines)})
    write_jsonl(path, made)
    return path


def test_shifts_pair_clip_trial_and_event(tmp_path: Path) -> None:
    a = written(tmp_path / "a.jsonl", {(1, 0): [1, 2, 3], (0, 1): [1, 2, 3], (0, 0): [1, None, 3], (2, 0): [9, 9, 9]})
    b = written(tmp_path / "b.jsonl", {(0, 0): [2, 3, None], (0, 1): [2, 3, 4], (1, 0): [5, 6, 7], (1, 1): [0, 0, 0]})
    how: Any = {"expected": 1, "tolerance": 0.25, "resamples": 200}
    task = OVERLAY.answer_shift(a, b, FEW, **how).iloc[0]
    # differences: clip 0: 1 (of trial 0), 1, 1, 1 (trial 1); clip 1: 4, 4, 4
    assert task[["clips", "events", "untimed"]].tolist() == [2, 7, 2]
    assert (task["median_s"], task["within_pct"]) == (1.0, pytest.approx(400 / 7))
    assert (task["low"], task["high"]) == (1.0, 4.0)
    found = written_boundaries(a, FEW)
    assert (found.clip.tolist(), found.trial.tolist()) == ([0, 0, 1, 2], [0, 1, 0, 0])
    c = written(tmp_path / "c.jsonl", {(2, 5): [1, 2, 3]})
    with pytest.raises(TempolocError, match="share no trial of a clip"):
        OVERLAY.answer_shift(a, c, FEW, **how)
    nothing = written(tmp_path / "d.jsonl", {(0, 0): [None, None, None]})
    empty = OVERLAY.answer_shift(a, nothing, FEW, **how).iloc[0]
    assert empty[["events", "untimed", "median_s"]].tolist() == [0, 3, None]


# --- the command ---


def run_command(*arguments: str | Path) -> tuple[int, str]:
    import typer

    app = typer.Typer()
    app.command()(cli_experiments.experiment)
    done = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=True)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Truthful:
    backend = Truthful()
    monkeypatch.setattr(engines, "make_engine", lambda *a, **k: backend)
    monkeypatch.setattr(experiments, "locate_model", lambda name: Place(Path(name)))
    monkeypatch.setattr(experiments, "_loaded", {})
    return backend


def test_the_command_runs_and_packs(fake: Truthful, tmp_path: Path) -> None:
    arguments = ("sft", "sft-shift5", "-o", tmp_path / "o", "--clips", 1, "--trials", 2, "--pack", tmp_path / "p")
    code, out = run_command(*map(str, arguments))
    assert code == 0
    assert f"{tmp_path / 'o' / 'sft.jsonl'}: 8 answers about 4 clips, 4 s on " in out
    assert {p.name for p in (tmp_path / "p").iterdir()} == {
        "sft.jsonl.xz", "sft.run.json", "sft-shift5.jsonl.xz", "sft-shift5.run.json",
    }  # fmt: skip
    assert len(fake.asked) == 16  # two trials of four clips: each crop is a question of its own
    run_command(*map(str, arguments))
    assert len(fake.asked) == 16


def test_the_command_says_what_failed_and_packs_nothing_of_it(fake: Truthful, tmp_path: Path) -> None:
    fake.bad = ["stack-three/000"]
    code, out = run_command("sft", "-o", tmp_path / "o", "--clips", "1", "--pack", tmp_path / "p")
    assert code == 1
    assert "stack-three/000: no good" in out
    assert not (tmp_path / "p").exists()


def test_the_command_asks_each_experiment_about_its_own_benchmark(fake: Truthful, tmp_path: Path) -> None:
    few = ("--clips", "1", "--trials", "1")
    assert run_command("sft", "base-own", "-o", tmp_path / "o", *few)[0] == 0
    assert [r.task for r in fake.asked] == [*SIM.tasks, *OWN.tasks]
    assert read_record(tmp_path / "o" / "base-own.jsonl")["settings"]["benchmark"] == "base-tasks"
    fake.asked.clear()
    assert run_command("base-own", "-o", tmp_path / "other", "--benchmark", "sim", *few)[0] == 0
    assert [r.task for r in fake.asked] == list(SIM.tasks)


def test_videos_of_several_benchmarks_have_a_folder_each(fake: Truthful, tmp_path: Path) -> None:
    """Clips of different benchmarks share names: one folder for all would show a model the wrong videos."""
    videos = tmp_path / "videos"
    shutil.copytree(SIM.root / "videos" / "stack-three", videos / "sim" / "stack-three")
    arguments = ("sft", "base-own", "-o", tmp_path / "o", "--clips", "1", "--trials", "1", "--video-root", videos)
    with pytest.raises(TempolocError, match=r"about sim and base-tasks: .*a folder for each, and has none for base-t"):
        run_command(*arguments)
    assert not fake.asked
    shutil.copytree(OWN.root / "videos" / "lift", videos / "base-tasks" / "lift")
    assert run_command(*arguments)[0] == 0
    assert [r.video.relative_to(videos).parts[0] for r in fake.asked] == ["sim", "base-tasks"]


def test_one_folder_is_for_one_model(tmp_path: Path) -> None:
    with pytest.raises(TempolocError, match="not with tempoloc-tiny, tempoloc-tiny-base"):
        run_command("base", "sft", "-o", tmp_path, "--model", tmp_path)
