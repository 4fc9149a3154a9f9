"""The good files: a small one of each kind that a command reads, made with the package itself."""

from __future__ import annotations

import csv
import hashlib
import json
import pickle
import shutil
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "helpers"))

LABELS = ("grasping the mug", "releasing the mug")
TIMES = {"a": (0.5, 1.25), "b": (0.75, 1.5)}
MODEL = "nvidia/Cosmos-Reason1-7B"

Run = Callable[..., None]


def make_all(folder: Path, run: Run, server: str) -> None:
    """Fill `folder`; `run` runs a command in it."""
    videos(folder)
    manifests(folder)
    shutil.copytree(ROOT / "data" / "prompts" / "recipe", folder / "prompts" / "mine")
    (folder / "prompts" / "mine" / "prompt.toml").write_text('form = "json"\n')
    shutil.copytree(ROOT / "data" / "prompts" / "recipe-json", folder / "prompts" / "json", dirs_exist_ok=True)
    shutil.copytree(ROOT / "data" / "prompts" / "log", folder / "prompts" / "log")
    shutil.copytree(ROOT / "data" / "prompts" / "caption", folder / "prompts" / "caption")
    asked = ("--model", MODEL, "--benchmark", "m/manifest.jsonl", "--backend", "openai", "--server", server)
    run("localize", *asked, "--trials", "3", "-o", "p.jsonl")
    run("localize", *asked, "--trials", "3", "--shard", "1/2", "-o", "s.jsonl")
    run("localize", *asked, "--trials", "3", "--shard", "2/2", "-o", "s.jsonl")
    run("consensus", "p.jsonl", "--benchmark", "m/manifest.jsonl", "-o", "q.jsonl")
    (folder / "p.errors.jsonl").write_text(
        json.dumps({"clip": "mug/b", "request_id": "0" * 16, "trials": [0], "error": "no answer"}) + "\n"
    )
    run("dataset", "export", "csv", "m/manifest.jsonl", "-o", "c.csv", "--predictions", "p.jsonl")
    run("dataset", "export", "vtt", "m/manifest.jsonl", "-o", "subs", "--predictions", "p.jsonl")
    run("dataset", "export", "cosmos", "m/manifest.jsonl", "-o", "cosmos/t.jsonl")
    run("dataset", "build", "--manifest", "m/manifest.jsonl", "-o", "hf", "--split", "train=0.5,validation=0.5")
    run("dataset", "caption", "v", "-o", "caps", "--server", server, "--model", MODEL)
    public(folder)
    lerobot(folder)
    hdf5(folder)
    label_file(folder / "labels.hdf5", demos=6)
    skills(folder)
    run("dataset", "export", "autodata", "skills/mug.toml", "-o", "auto.yaml")
    pickles(folder)
    model(folder)
    store(folder)
    run("sft", "config", "--engine", "transformers", "--model", "model", "--dataset", "hf", "-o", "sft.toml")
    run("sft", "config", "--model", "model", "--dataset", "hf", "-o", "cosmos.toml")
    project(folder)


def label_file(path: Path, demos: int) -> None:
    import labelled_demos

    labelled_demos.label_file(path, demos=demos)


def videos(folder: Path) -> None:
    from video_clips import write_clip

    (folder / "v").mkdir()
    for seed, name in enumerate(TIMES):
        write_clip(folder / "v" / f"{name}.mp4", 64, (64, 48), time_base=Fraction(1, 32), rate=32, seed=seed)
    write_clip(folder / "long.mp4", 48, (64, 48), time_base=Fraction(1, 4), rate=4)


def manifests(folder: Path) -> None:
    (folder / "m").mkdir()
    lines = []
    for name, times in TIMES.items():
        shutil.copy(folder / "v" / f"{name}.mp4", folder / "m")
        events = [{"label": label, "boundary": t} for label, t in zip(LABELS, times, strict=True)]
        where = {"video": f"{name}.mp4", "fps": 32.0, "duration": 2.0}
        lines.append(json.dumps({"clip": f"mug/{name}", "task": "mug", **where, "events": events}))
    (folder / "m" / "manifest.jsonl").write_text("\n".join(lines) + "\n")
    task = f'key = "mug"\nevents = {json.dumps(LABELS)}\nfps = 32.0\n\n[boundaries]\n'
    (folder / "m" / "mug.toml").write_text(task + "".join(f"{n} = {list(t)}\n" for n, t in TIMES.items()))
    (folder / "bare.toml").write_text(f'key = "mug"\nevents = {json.dumps(LABELS)}\n')


def public(folder: Path) -> None:
    """A benchmark by reference, one of whose files is here already."""
    (folder / "pub" / "mug").mkdir(parents=True)
    content = (folder / "v" / "a.mp4").read_bytes()
    (folder / "pub" / "mug" / "a.mp4").write_bytes(content)
    where = {"repository": "somebody/mugs", "commit": "0123abc", "source": "a.mp4", "licence": "MIT"}
    line = {"path": "mug/a.mp4", **where, "url": "https://raw.githubusercontent.com/somebody/mugs/0123abc/a.mp4"}
    line |= {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (folder / "pub" / "files.jsonl").write_text(json.dumps(line) + "\n")
    events = [{"label": label, "boundary": t} for label, t in zip(LABELS, TIMES["a"], strict=True)]
    clip = {"clip": "mug/a", "task": "mug", "video": "mug/a.mp4", "fps": 32.0, "duration": 2.0, "events": events}
    (folder / "pub" / "manifest.jsonl").write_text(json.dumps(clip) + "\n")


def lerobot(folder: Path) -> None:
    import numpy as np
    from lerobot_folders import small_dataset

    clips = [[np.full((48, 64, 3), 10 * k + e, np.uint8) for k in range(20)] for e in range(2)]
    for name, version in (("lr", "v3.0"), ("lr2", "v2.1")):
        small_dataset(folder / name, clips, [["grasp"] * 8 + ["lift"] * 12] * 2, version=version)
    rows = [
        {"clip": f"stack/episode_{e:06d}", "task": "stack", "video": None, "fps": 10.0, "duration": 2.0,
         "events": [{"label": "grasp", "boundary": 0.5}, {"label": "lift", "boundary": 1.2}], "episode_index": e}
        for e in range(2)
    ]  # fmt: skip
    (folder / "lr.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "stack.toml").write_text('key = "stack"\nevents = ["grasp", "lift"]\n')


def hdf5(folder: Path) -> None:
    """Demonstrations with signals and pictures, as MimicGen and Isaac Lab Mimic lay them out."""
    import h5py
    import numpy as np

    isaac = {"env_name": "Isaac-Stack", "type": 2, "sim_args": {"dt": 0.01, "decimation": 5, "num_envs": 1}}
    layouts: dict[str, tuple[str, Any]] = {
        "demos.hdf5": ("datagen_info/subtask_term_signals", {"env_name": "S", "env_kwargs": {"control_freq": 20}}),
        "isaac.hdf5": ("obs/datagen_info/subtask_term_signals", isaac),
    }
    for name, (group, args) in layouts.items():
        with h5py.File(folder / name, "w") as file:
            file.create_group("data").attrs["env_args"] = json.dumps(args)
            for i, rises in enumerate(((10, 25), (15, 30))):
                demo = file.create_group(f"data/demo_{i}")
                actions = np.zeros((40, 7))
                actions[:, 6] = np.where((np.arange(40) >= rises[0]) & (np.arange(40) < rises[1]), 1, -1)  # it closes
                demo["actions"] = actions if name == "isaac.hdf5" else 0 * actions
                demo.attrs["num_samples"] = 40
                demo.create_dataset("obs/agentview_image", data=np.full((40, 48, 64, 3), i, np.uint8))
                for signal, step in zip(("grasp", "release"), rises, strict=True):
                    demo[f"{group}/{signal}"] = (np.arange(40) >= step).astype(np.int64)
    rows = [
        {"clip": f"mug/d{i}", "task": "mug", "video": None, "duration": 2.0, "demo": f"demo_{i}",
         "events": [{"label": LABELS[0], "boundary": 0.4}, {"label": LABELS[1], "boundary": 1.1}]}
        for i in range(2)
    ]  # fmt: skip
    (folder / "demos.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "mug.toml").write_text(f'key = "mug"\nevents = {json.dumps(LABELS)}\n')
    each = {"subtask_term_offset_range": [0, 0]}
    steps = {f"subtask_{i}": {**each, "subtask_term_signal": s} for i, s in enumerate(("grasp", "release", None), 1)}
    (folder / "spec.json").write_text(json.dumps({"task": {"task_spec": steps}}))


def skills(folder: Path) -> None:
    """The same demonstrations with the starts that SkillGen wants, and AutoData's descriptor of their task."""
    (folder / "skills").mkdir()
    names, times = ("reach", LABELS[0], "bring", LABELS[1]), (0.3, 0.5, 1.0, 1.4)
    rows = [
        {"clip": f"mug/d{i}", "task": "mug", "video": None, "duration": 2.0, "demo": f"demo_{i}",
         "events": [{"label": n, "boundary": t} for n, t in zip(names, times, strict=True)]}
        for i in range(2)
    ]  # fmt: skip
    (folder / "skills" / "manifest.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    parts = ("grasp", *names[:2]), ("release", *names[2:])
    text = "".join(f'\n[[subtasks]]\nname = "{n}"\nstart = "{a}"\nend = "{b}"\n' for n, a, b in parts)
    (folder / "skills" / "mug.toml").write_text(f'key = "mug"\nevents = {json.dumps(names)}\n{text}')


def pickles(folder: Path) -> None:
    answer = "Event 1: <0.5> <1.0> grasping the cube\nEvent 2: <1.0> <1.5> releasing the cube"
    (folder / "results").mkdir()
    for i in range(2):
        found = {"video_path": "/data/a.mp4", "prompt_type": "cube", "fps8": [answer, None], "fps4": [answer]}
        (folder / "results" / f"results_cube_stacking_demo{i}.pkl").write_bytes(pickle.dumps(found))
    (folder / "rv").mkdir()
    for i, name in enumerate(TIMES):
        shutil.copy(folder / "v" / f"{name}.mp4", folder / "rv" / f"lift_demo{i}_agentview.mp4")
    responses = {f"lift_demo_{i}": answer for i in range(2)}
    (folder / "recipe.pkl").write_bytes(pickle.dumps({"system_prompt": "Say when.", "responses": responses}))


def model(folder: Path) -> None:
    from tempoloc_nb.lab.tiny.architecture import TinyShape, build_tiny

    small = {"hidden": 64, "layers": 2, "heads": 4, "kv_heads": 2, "intermediate": 96, "vision_hidden": 48}
    build_tiny(folder / "model", TinyShape(**small, vision_layers=2, vision_heads=2, vision_intermediate=64))  # type: ignore[arg-type]


def store(folder: Path) -> None:
    """Inputs of `tempoloc tiny`."""
    from training_store import made_up_store

    from tempoloc_nb.lab.tiny.frame_store import ARRAYS, write_part

    made = made_up_store()
    (folder / "store").mkdir()
    write_part(folder / "store" / "part.npz", made.recordings, {name: getattr(made, name) for name in ARRAYS})
    (folder / "plan.toml").write_text((ROOT / "data" / "training" / "sft.toml").read_text())
    (folder / "episodes").mkdir()
    (folder / "episodes" / "manifest.jsonl").write_bytes((folder / "m" / "manifest.jsonl").read_bytes())


def project(folder: Path) -> None:
    """What `tempoloc study` needs: settings, tasks, a benchmark and a study."""
    place = folder / "project"
    place.mkdir()
    shutil.copy(ROOT / "settings.ini", place)
    for name in ("tasks", "benchmarks/recipe", "prompts", "fonts", "sft"):
        shutil.copytree(ROOT / "data" / name, place / "data" / name)
    (place / "data" / "benchmarks" / "sim").mkdir()
    shutil.copy(ROOT / "data" / "benchmarks" / "sim" / "manifest.jsonl.xz", place / "data" / "benchmarks" / "sim")
    for name in ("models.toml", "experiments.toml"):
        shutil.copy(ROOT / "data" / name, place / "data")
    (place / "nbs" / "studies").mkdir(parents=True)
    for path in sorted((ROOT / "nbs" / "studies").glob("0[14]_*.ipynb")):
        book = json.loads(path.read_text())
        for cell in book["cells"]:
            cell["outputs"] = [] if cell["cell_type"] == "code" else cell.pop("outputs", None)
            if cell["cell_type"] != "code":
                del cell["outputs"]
        (place / "nbs" / "studies" / path.name).write_text(json.dumps(book))
    with (folder / "table.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["clip", "event"], ["mug/a", "x"]])
