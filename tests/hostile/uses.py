"""How each command is used well: its command line, the good files that it needs, and which of them it reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import typer
from made import MODEL

from tempoloc_nb.cli.main import app

MANIFEST = "m/manifest.jsonl"


@dataclass(frozen=True, slots=True)
class Use:
    """A good command line. `reads`: files that it opens; `output`: what it writes, a file or folder ("" for none).

    "SERVER" in the line becomes the server's address. `changes`: files that it is told to change.
    """

    line: tuple[str, ...]
    needs: tuple[str, ...]
    reads: tuple[str, ...]
    output: str = ""
    changes: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    weight: int = 2

    @property
    def command(self) -> str:
        """The command's name, without what it is given."""
        return next(" ".join(self.line[:n]) for n in (3, 2, 1) if self.line[:n] in TREE)


def _tree(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """(words, command) of every command that can be called."""
    if not hasattr(command, "commands"):
        yield path, command
        return
    names = command.list_commands(None)
    for name in names:
        found = command.made(name) if hasattr(command, "made") else command.get_command(None, name)
        yield from _tree(found, (*path, name))


TREE = dict(_tree(typer.main.get_command(app)))

ASK = ("--model", MODEL, "--backend", "openai", "--server", "SERVER")
EVENTS = ("-e", "grasping the mug", "-e", "releasing the mug")
OUT = ("-o", "out.jsonl")
HALVES = "train=0.5,validation=0.5"


def use(line: str | tuple[str, ...], needs: str, reads: str = "", **more: Any) -> Use:
    words = tuple(line.split()) if isinstance(line, str) else line
    output = next((words[i + 1] for i, w in enumerate(words) if w == "-o"), "")
    return Use(words, tuple(needs.split()), tuple(reads.split()), **{"output": output, **more})


SCORE = ("--benchmark", MANIFEST)
SETTINGS = (("TEMPOLOC_SETTINGS", "project/settings.ini"),)

USES: tuple[Use, ...] = (
    use(("find", "v/a.mp4", *EVENTS, *ASK, "--trials", "2", "-o", "out.csv"), "v", "v/a.mp4"),
    use(("find", "v", "--task", "bare.toml", *ASK, "--json", "-o", "out.json"), "v bare.toml", "bare.toml v/b.mp4"),
    use(("find", "v/a.mp4", *EVENTS, *ASK, "--prompt", "prompts/json", "-o", "out.vtt"), "v prompts",
        "prompts/json/system.txt prompts/json/user.txt prompts/json/prompt.toml"),
    use(("find", "v/a.mp4", *EVENTS, *ASK, "--prompt", "card-absent", "--window", "2", "-o", "out.json"), "v",
        "v/a.mp4"),
    use(("find", "lr", "-e", "grasp", *ASK, "-o", "out.csv"), "lr", "lr/meta/info.json"),
    use(("find", "demos.hdf5", *EVENTS, *ASK, "-o", "out.csv"), "demos.hdf5", "demos.hdf5"),
    use(("find", "demos.hdf5", *EVENTS, *ASK, "--fuse", "--gripper", "action[6]", "--inverted"), "demos.hdf5",
        "demos.hdf5"),
    use(("find", "v/a.mp4", *EVENTS, "--model", "model", "--trials", "1"), "v model",
        "model/config.json model/model.safetensors model/tokenizer.json model/processor_config.json"
        " model/tokenizer_config.json model/generation_config.json model/chat_template.jinja", weight=1),
    use(("segment", "v", *ASK, "--trials", "2", "-o", "out.csv"), "v", "v/a.mp4 v/b.mp4"),
    use(("segment", "v/a.mp4", *ASK, "--moments", "--json", "-o", "out.vtt"), "v", "v/a.mp4"),
    use(("segment", "v/a.mp4", *ASK, "--window", "1.95", "--prompt", "prompts/log", "-o", "out.json"), "v prompts",
        "prompts/log/system.txt prompts/log/user.txt prompts/log/prompt.toml"),
    use(("segment", "lr", *ASK, "--trials", "1", "--write", "-o", "out"), "lr",
        "lr/meta/info.json lr/data/chunk-000/file-000.parquet"),
    use(("segment", "demos.hdf5", *ASK, "--gripper", "action[6]", "-o", "out.csv"), "demos.hdf5", "demos.hdf5"),
    use(("segment", "isaac.hdf5", *ASK, "--by", "gripper", "--gripper", "action[6]", "--verbs", "grasp,release", "-o",
         "out.json"), "isaac.hdf5", "isaac.hdf5"),
    use(("segment", "isaac.hdf5", *ASK, "--by", "both", "--gripper", "action[6]", "--structured", "json",
         "--window", "1.6", "-o", "out.csv"), "isaac.hdf5", "isaac.hdf5"),
    Use(("example", "out"), (), (), "out", weight=1),
    use("review m p.jsonl --export page", "m p.jsonl p.run.json", f"p.jsonl {MANIFEST} m/mug.toml m/a.mp4",
        output="page", weight=3),
    use("review lr -o out.jsonl --export page", "lr", "lr/meta/info.json lr/data/chunk-000/file-000.parquet",
        output="page", weight=1),
    use(("localize", *ASK, *SCORE, "--trials", "2", *OUT), "m", f"{MANIFEST} m/mug.toml m/a.mp4", weight=4),
    use(("localize", *ASK, "--benchmark", "m/mug.toml", "--video-root", "m", *OUT), "m", "m/mug.toml m/b.mp4"),
    use(("localize", *ASK, *SCORE, "--prompt", "prompts/mine", *OUT), "m prompts",
        "prompts/mine/system.txt prompts/mine/user.txt prompts/mine/prompt.toml"),
    use(("localize", "--model", "loo-median", *SCORE, *OUT), "m", f"{MANIFEST} m/mug.toml"),
    use(("localize", "--model", "train-median", "--train", MANIFEST, *SCORE, *OUT), "m", MANIFEST, weight=1),
    use(("localize", *ASK, *SCORE, "--trials", "3", "-o", "p.jsonl"),
        "m p.jsonl p.run.json p.errors.jsonl", "p.jsonl p.run.json p.errors.jsonl", output="",
        changes=("here/p.jsonl", "here/p.run.json", "here/p.errors.jsonl"), weight=4),
    use(("localize", "--model", "model", *SCORE, "--plan", *OUT), "m model",
        f"{MANIFEST} model/config.json", output=""),
    use(("evaluate", "p.jsonl", *SCORE, "--resamples", "20", "--workers", "1"), "m p.jsonl p.run.json",
        f"p.jsonl p.jsonl p.run.json {MANIFEST} m/mug.toml", weight=4),
    use(("evaluate", "q.jsonl", "p.jsonl", *SCORE, "--resamples", "20", "--workers", "1", "--json"),
        "m p.jsonl p.run.json q.jsonl q.run.json", "q.jsonl q.run.json"),
    use(("consensus", "p.jsonl", *SCORE, *OUT), "m p.jsonl p.run.json", f"p.jsonl p.jsonl p.run.json {MANIFEST}",
        weight=3),
    use(("consensus", "p.jsonl", "q.jsonl", *SCORE, *OUT), "m p.jsonl p.run.json q.jsonl q.run.json",
        "q.jsonl q.run.json p.jsonl", weight=1),
    use(("fuse", "q.jsonl", *SCORE, "--signals", "demos.hdf5", *OUT), "m q.jsonl q.run.json demos.hdf5",
        f"q.jsonl q.run.json demos.hdf5 {MANIFEST}"),
    use(("consensus", "s.jsonl", *SCORE, *OUT), "m s.1-of-2.jsonl s.1-of-2.run.json s.2-of-2.jsonl s.2-of-2.run.json",
        "s.1-of-2.jsonl s.2-of-2.jsonl s.2-of-2.run.json", weight=4),
    use("import-recipe results --task cube --model mine -o out.jsonl", "results",
        "results/results_cube_stacking_demo0.pkl results/results_cube_stacking_demo1.pkl", weight=4),
    use("models model --json", "model", "model/config.json model/tokenizer_config.json model/processor_config.json"),
    use("doctor --model model --fps 2", "model",
        "model/config.json model/processor_config.json model/tokenizer_config.json", weight=1),
    use("serve --model model --port 0 --device cpu", "model", "model/config.json model/model.safetensors"
        " model/tokenizer.json model/chat_template.jinja", weight=1),  # told to end once it serves
    use("models", "project", "project/data/models.toml project/settings.ini", env=SETTINGS),
    use("simulate --task lift --n 1 --no-render -o sims", "project", "project/settings.ini", env=SETTINGS, weight=1),
    use("fetch pub/manifest.jsonl pub --base SERVER", "pub", "pub/manifest.jsonl pub/files.jsonl pub/mug/a.mp4",
        changes=("pub/mug/a.mp4",)),
    use("overlay -i v -o out --workers 1", "v", "v/a.mp4 v/b.mp4"),
    use("overlay -i v/a.mp4 -o out --workers 1", "v", "v/a.mp4", weight=1),
    use("overlay -i v/a.mp4 -o out --workers 1 --model tempoloc-tiny --stamps pair", "v", "v/a.mp4", weight=1),
    use("study --plan --profile quick", "project",
        "project/settings.ini project/nbs/studies/04_zero_shot.ipynb project/nbs/studies/01_published_results.ipynb"
        " project/data/models.toml project/data/benchmarks/recipe/manifest.jsonl.xz", env=SETTINGS),
    use(("experiment", "sft", "--model", "nowhere", *SCORE, "-o", "runs"), "m project",
        f"project/data/experiments.toml project/data/models.toml {MANIFEST}", env=SETTINGS),
    use(("dataset", "build", "--manifest", MANIFEST, "-o", "out", "--split", HALVES, "--prompt", "prompts/mine"),
        "m prompts", f"{MANIFEST} {MANIFEST} m/mug.toml m/a.mp4 prompts/mine/system.txt", changes=("here/out.part*",)),
    use("dataset build --recipe-videos rv --recipe-pickle recipe.pkl --split train=0.5,validation=0.5 -o out",
        "rv recipe.pkl", "recipe.pkl recipe.pkl rv/lift_demo0_agentview.mp4", changes=("here/out.part*",)),
    use("dataset stats hf --json", "hf", "hf/summary.json hf/train/state.json hf/train/dataset_info.json"
        " hf/train/data-00000-of-00001.arrow"),
    use("dataset stats hf --figure out.svg", "hf", "hf/train/data-00000-of-00001.arrow", output="out.svg", weight=1),
    use(("dataset", "caption", "v", "--server", "SERVER", "--model", MODEL, "--prompts", "prompts/caption",
         "-o", "out"), "v prompts", "prompts/caption/scene.txt prompts/caption/narrative.txt v/a.mp4"),
    use(("dataset", "caption", "cosmos/t.jsonl", "--server", "SERVER", "--model", MODEL, "-o", "out"), "cosmos m",
        "cosmos/t.jsonl"),
    use(("dataset", "caption", "v", "--server", "SERVER", "--model", MODEL, "-o", "caps"), "v caps",
        "caps/a/caption.json caps/a/sample_args.json caps/a/caption.txt", output="", changes=("here/caps*",)),
    use("dataset import cosmos cosmos/t.jsonl -o out.jsonl --task mug", "cosmos m mug.toml", "cosmos/t.jsonl",
        weight=4),
    use(("dataset", "import", "csv", "c.csv", "--manifest", MANIFEST, "--who", "me", *OUT), "m c.csv",
        f"c.csv c.csv c.csv {MANIFEST}", weight=4),
    use(("dataset", "import", "vtt", "subs", "--manifest", MANIFEST, "--who", "me", *OUT), "m subs",
        "subs/mug/a.vtt subs/mug/b.vtt", weight=3),
    use("dataset import lerobot lr -o out", "lr", "lr/meta/info.json lr/meta/info.json lr/meta/tasks.parquet"
        " lr/meta/subtasks.parquet lr/meta/episodes/chunk-000/file-000.parquet lr/data/chunk-000/file-000.parquet",
        weight=3),
    use("dataset import lerobot lr2 -o out", "lr2", "lr2/meta/info.json lr2/meta/info.json lr2/meta/episodes.jsonl"
        " lr2/meta/subtasks.jsonl lr2/data/chunk-000/episode_000000.parquet", weight=2),
    use("dataset import hdf5 demos.hdf5 --task cups --signal grasp --signal release -o out.jsonl",
        "demos.hdf5 mug.toml", "demos.hdf5", weight=4),
    use("dataset import hdf5 isaac.hdf5 --task mug -o out.jsonl", "isaac.hdf5", "isaac.hdf5"),
    use(("dataset", "export", "cosmos", MANIFEST, "--captions", "caps", *OUT), "m caps",
        f"{MANIFEST} caps/a/caption.json m/a.mp4"),
    use("dataset export cosmos-reasoner hf --split train -o out", "hf",
        "hf/train/data-00000-of-00001.arrow hf/videos/mug/a.mp4"),
    use(("dataset", "export", "csv", MANIFEST, "--predictions", "p.jsonl", "-o", "out.csv"), "m p.jsonl p.run.json",
        f"p.jsonl {MANIFEST}"),
    use(("dataset", "export", "vtt", MANIFEST, "--predictions", "p.jsonl", "-o", "out"), "m p.jsonl p.run.json",
        f"p.jsonl {MANIFEST}"),
    use(("dataset", "export", "hf", MANIFEST, "-o", "out"), "m", f"{MANIFEST} {MANIFEST} m/mug.toml m/a.mp4",
        changes=("here/out.part*",)),
    use(("dataset", "export", "lmms-eval", MANIFEST, "-o", "out"), "m", f"{MANIFEST} {MANIFEST} m/mug.toml m/a.mp4",
        changes=("here/out.part*",)),
    use("dataset export lerobot lr.jsonl --dataset lr --sarm -o out", "lr lr.jsonl stack.toml",
        "lr.jsonl lr/meta/info.json lr/meta/episodes/chunk-000/file-000.parquet stack.toml"),
    use("dataset export lerobot lr.jsonl --dataset lr2 -o out", "lr2 lr.jsonl stack.toml",
        "lr.jsonl lr2/meta/info.json lr2/meta/episodes.jsonl lr2/data/chunk-000/episode_000000.parquet"),
    use("dataset export hdf5 demos.jsonl -o demos.hdf5 --signal grasp --signal release",
        "demos.jsonl demos.hdf5 mug.toml", "demos.jsonl demos.hdf5", output="", changes=("here/demos.hdf5",)),
    use("dataset export hdf5 demos.jsonl -o demos.hdf5 --task-spec spec.json",
        "demos.jsonl demos.hdf5 mug.toml spec.json", "spec.json spec.json demos.jsonl", output="",
        changes=("here/demos.hdf5",)),
    use("check-labels labels.hdf5 --json", "labels.hdf5", "labels.hdf5", weight=4),
    use("check-labels labels.hdf5 --figure out.svg", "labels.hdf5", "labels.hdf5", output="out.svg"),
    use("check-labels demos.hdf5 --task-spec spec.json", "demos.hdf5 spec.json", "spec.json demos.hdf5"),
    use(("check-labels", MANIFEST), "m", f"{MANIFEST} m/mug.toml"),
    # without Isaac Lab's generator, and without a task of its own: that is said after the files are read
    use(("generate", MANIFEST, "--boundaries", "truth", *OUT), "m", f"{MANIFEST} m/mug.toml", weight=1),
    use(("generate", MANIFEST, "--boundaries", "truth", "--mimicgen", "prompts", *OUT), "m prompts", MANIFEST,
        weight=1),
    use(("generate", "demos.hdf5", "--boundaries", "truth", *OUT), "demos.hdf5", "demos.hdf5", weight=1),
    use("dataset export hdf5 skills/manifest.jsonl -o isaac.hdf5 --task-spec auto.yaml --index --object mug --create",
        "skills isaac.hdf5 auto.yaml", "auto.yaml auto.yaml skills/mug.toml isaac.hdf5",
        output="", changes=("here/isaac.hdf5",)),
    use("dataset export autodata skills/mug.toml -o out.yaml", "skills", "skills/mug.toml", weight=1),
    use("dataset import autodata auto.yaml -o out.toml", "auto.yaml", "auto.yaml", weight=3),
    use("sft config --engine transformers --set train.epoch=3 -o out.toml", "project", "project/data/models.toml"
        " project/settings.ini", env=SETTINGS, weight=1),
    use("sft check sft.toml --engine transformers --gpus 1", "sft.toml hf model",
        "sft.toml sft.toml model/config.json hf/train/data-00000-of-00001.arrow hf/summary.json", weight=3),
    use("sft check cosmos.toml --gpus 8 --json", "cosmos.toml hf model", "cosmos.toml cosmos.toml model/config.json"),
    use("sft launch sft.toml --engine transformers --dry-run", "sft.toml hf model", "sft.toml"),
    use("sft launch cosmos.toml --dry-run", "cosmos.toml hf model", "cosmos.toml", weight=1),
    use("tiny prepare episodes -o out --workers 1", "episodes", "episodes/manifest.jsonl", weight=1),
    use("tiny clips episodes -o out.csv --workers 1", "episodes", "episodes/manifest.jsonl", weight=1),
    use("tiny train plan.toml --store store -o out --init nowhere", "plan.toml store", "plan.toml store/part.npz"),
    use("tiny segment store -o out --steps 1 --device cpu", "store", "store/part.npz", weight=1),
)  # fmt: skip


def missing() -> set[str]:
    """Commands that no use is about."""
    return {" ".join(path) for path in TREE} - {u.command for u in USES}
