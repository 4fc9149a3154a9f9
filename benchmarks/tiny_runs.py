"""Train a model of the study and make all its answers, with one command, on a machine with any number of GPUs.

    python benchmarks/tiny_runs.py OUT --init MODEL [--plan sft] [--sim-python .venv-sim/bin/python]

Six steps (`--only STEP` runs one; what it needs has to be there):

- `clips` simulates the clips that the model learns from, a folder a family in OUT/clips;
- `store` renders them, and random scenes, into OUT/store;
- `videos` simulates and renders the benchmarks' clips in OUT/videos; other boundaries than the shipped are an error;
- `train` trains from seeds 0, 1 and 2 in OUT/runs, and copies the model of seed 0 to OUT/models/tempoloc-tiny;
- `answer` asks the experiments of data/experiments.toml whose weights were made here (OUT/answers, OUT/packed), and
  localizes what no experiment is about (OUT/other);
- `list` writes OUT/clips.csv: each training clip with its seed and a hash of its start.

`tiny_ship.py OUT` puts what a finished run made where the repository keeps it.

The steps are many jobs, each with a log, OUT/logs/NAME.log. One begins as soon as what it needs is there and cores and
a GPU are free: videos are made while models train, and the first model is asked while the next one trains. The same
command goes on where it stopped. A job that ended well is noted in OUT/done; it runs again only if its command is
another, its result is gone, or what it needs was made anew.

robosuite needs an environment of its own (`make test-sim` makes `.venv-sim`). `--small` tries every step on a CPU with
a handful of clips; give it an OUT of its own and a `--plan` of a few short steps. At the end stand a table of the steps
and OUT/tiny_runs.json: the machine, and the seconds in which a job of each step ran. Steps overlap.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from engine_speed import machine
from jobs import Desk, Job, length

from tempoloc_nb.clips.manifest import load_benchmark, read_manifest, write_manifest
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.files import folder_or_nothing, sole_writer, write_json
from tempoloc_nb.core.machine import cores, gpu_count
from tempoloc_nb.core.settings import data_dir
from tempoloc_nb.lab.sim.benchmark import APART_S
from tempoloc_nb.lab.sim.tasks import ClipFamily, benchmark_name, families
from tempoloc_nb.lab.tiny.frame_store import SCENE_SHARES
from tempoloc_nb.lab.tiny.plan import load_plan
from tempoloc_nb.study.experiments import load_experiments

STEPS = ("clips", "store", "videos", "train", "answer", "list")
# Clips a family of a split.
LEARNED = {"sft": 120, "hands": 40, "gaps-sft": 50, "detours-sft": 120, "base": 15, "which-sft": 520}
WATCHED = {"test": 100, "validation": 25, "gaps": 8, "detours": 24}
FEWER = {"stack-two-kinova3": 20, "pick-place-kinova3": 0}  # the validation split's
QUESTIONS = ("which", "which-validation")  # benchmarks of many questions about a video
LOCALIZED = {"gaps": 5, "detours": 5, "skills": 5}  # trials
SLOW = {"stack-three": 2.0, "square": 2.0, "thread": 2.0}  # tasks whose clips take longer than others, about
SMALL = {"base": "lift", "sft": "stack-two", "gaps-sft": "push-panda", "test": "stack-three", "gaps": "push"}
SMALL |= {"validation": "stack-three"}
# Run in the simulator's environment, which has no torch.
SIMULATE = """
import sys
from tempoloc_nb.lab.sim.tasks import find_families
from tempoloc_nb.lab.sim.make import simulate_clips
split, key, n, out, workers, render = sys.argv[1:]
family = find_families(split, key)[0]
print(simulate_clips(family, int(n), out, render=render == "videos", states=False, workers=int(workers)))
"""
# Weights of the trainings here, as experiments name them.
WEIGHTS = re.compile(r"runs/sft(?:-seed(\d+))?/(?:model|steps/(\d+))")
COMMAND = "import sys; from tempoloc_nb.__main__ import main; sys.exit(main())"
FEW_SCENES = "import tempoloc_nb.lab.tiny.frame_store as store; store.SCENES_A_PART = 5; "


def made_weights(model: str) -> bool:
    """Whether a run makes the weights of an experiment's model."""
    return model == "tempoloc-tiny" or WEIGHTS.fullmatch(model) is not None


def copy_models(target: Path, folders: Sequence[Path]) -> str:
    """Copy the compiled models below `folders` to one place, where random scenes look for them."""
    found = [path for folder in folders for path in folder.glob("models/*.xz") if path.parent != target]
    for path in found:
        shutil.copy(path, target)
    return f"{len(found)} models"


def copy_model(source: Path, target: Path) -> str:
    """Copy a model's folder, all or nothing."""
    with folder_or_nothing(target, force=True) as part:
        shutil.copytree(source, part, dirs_exist_ok=True)
    return str(target)


def slow_down(folder: Path) -> None:
    """Make the validation split's slow clips of its `stack-three`, as the benchmark's README says."""
    from tempoloc_nb.video.files import encode, read

    clips = load_benchmark("validation").of_task("stack-three-slow")
    for clip in clips:
        number = clip.clip.rpartition("/")[2] + ".mp4"
        source = folder / "stack-three/videos/stack-three" / number
        target = folder / "stack-three-slow/videos/stack-three-slow" / number
        if source.is_file() and not target.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            images, count = read(source).images, round(clip.duration * clip.fps)
            picks = [images[min(len(images) - 1, round(k / 5 / 2.2 * 30))] for k in range(count)]
            encode(target, picks, 5.0, options={"crf": "34"})


def finish(folder: Path) -> str:
    """Write a benchmark's manifest and tasks to its folder of videos.

    Raises `TempolocError` if these are other clips than the shipped ones.
    """
    name = folder.name
    folder.mkdir(parents=True, exist_ok=True)
    if name == "validation":
        slow_down(folder)
    made = {c.clip: c for part in folder.glob("*/manifest.jsonl") for c in read_manifest(part)}
    shipped = data_dir() / "benchmarks" / name
    clips = load_benchmark(name).clips if shipped.is_dir() else tuple(made.values())
    for path in (*folder.glob("*/*.toml"), *shipped.glob("*.toml")):
        shutil.copy(path, folder)
    listed = []
    for clip in clips:
        key, number = Path(clip.video or clip.clip).with_suffix("").parts[-2:]
        video = f"{'../sim/' if name == 'skills' else ''}{key}/videos/{key}/{number}.mp4"
        if (folder / video).is_file():
            listed.append(replace(clip, video=video))
    pairs = [(c.boundaries, made[c.clip].boundaries) for c in listed if shipped.is_dir() and c.clip in made]
    apart = [round(max(abs(x - y) for x, y in zip(*both, strict=True)), 6) for both in pairs]
    told = f"{name}: {len(listed)} of {len(clips)} clips, {len(apart)} compared, {apart.count(0.0)} of them equal"
    told += f", boundaries at most {max(apart, default=0.0):.3f} s apart"
    print(told, flush=True)
    if any(x > APART_S for x in apart):
        raise TempolocError(f"{told}: these are other clips than the shipped ones")
    write_manifest(folder / "manifest.jsonl", listed)
    return told


class Study:
    """The jobs of the six steps, by what the caller asked for."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given, self.out, self.small, self.cores = given, given.out.resolve(), given.small, cores()
        self.plan = load_plan(given.plan)
        self.start = given.init.resolve() if given.init else None
        learned = self.chosen({split: 2 if self.small else n for split, n in LEARNED.items()})
        self.learned = {f: n for f, n in learned.items() if not self.plan.options.leaves_out(f.split, f.key)}
        self.watched = self.chosen(dict.fromkeys(WATCHED, 1) if self.small else WATCHED)
        code = FEW_SCENES + COMMAND if self.small else COMMAND
        self.simulator, self.render = (given.sim_python, "-c", SIMULATE), (given.sim_python, "-c", code, "tiny")
        self.ask = (sys.executable, "-m", "tempoloc_nb")

    def chosen(self, counts: Mapping[str, int]) -> dict[ClipFamily, int]:
        """How many clips of which families, of the splits in `counts`."""
        found = {}
        for family in families():
            n = counts.get(family.split, 0)
            if family.split == "validation":
                n = min(n, FEWER.get(family.key, n))
            if n and (not self.small or SMALL.get(family.split) == family.key):
                found[family] = n
        return found

    def jobs(self) -> list[Job]:
        """All jobs. What stands before others begins before them where both could."""
        clips = self.clips()
        store = self.store([job.name for job in clips])
        # Not before: the store needs all cores at once.
        videos = self.simulate(self.watched, "videos", needs=("store",))
        names = tuple(job.name for job in clips)
        table = self.out / "clips.csv"
        listing = (*self.render, "clips", *self.roots(), "-o", table, "--force")
        listed = Job("list", "list", listing, table, (*names, "store"), nice=True)
        return [*clips, *store, *self.train(), *videos, *self.finished(videos), *self.answers(), listed]

    def folder(self, family: ClipFamily) -> Path:
        """Where a family's clips are made."""
        if family in self.watched:
            return self.out / "videos" / benchmark_name(family.split) / family.key
        return self.out / "clips" / f"{family.split}--{family.key}"

    def roots(self) -> list[Path]:
        """The folders of training clips; the first gets the models of the random scenes."""
        return [self.folder(family) for family in self.learned]

    def simulate(self, counts: Mapping[ClipFamily, int], step: str, needs: tuple[str, ...] = ()) -> list[Job]:
        """A job a family, the longest first.

        Each gets twice its share of the cores, at least one: all cores work from the beginning, and short jobs are left
        for the end, because nobody knows before how long a family takes.
        """
        cost = {family: n * SLOW.get(family.task, 1.0) for family, n in counts.items()}
        share = {family: round(2 * self.cores * cost[family] / sum(cost.values())) for family in counts}
        workers = {family: min(n, self.cores, max(1, share[family])) for family, n in counts.items()}
        what, jobs = "videos" if step == "videos" else "episodes", []
        for family in sorted(counts, key=lambda family: cost[family] / workers[family], reverse=True):
            n, root, name = counts[family], self.folder(family), f"{family.split}--{family.key}"
            command = (*self.simulator, family.split, family.key, n, root, workers[family], what)
            nice = bool(needs)  # made while models train
            jobs.append(Job(name, step, command, root / "manifest.jsonl", needs, workers[family], nice=nice))
        return jobs

    def clips(self) -> list[Job]:
        """The training clips, and one clip of each task whose scenes would have no model without it."""
        there = {family.task for family in self.learned if family.robot == "Panda"}
        jobs = self.simulate(self.learned, "clips")
        for task in SCENE_SHARES:
            if task not in there:
                family = next(f for f in families() if (f.task, f.robot) == (task, "Panda"))
                root = self.out / "scenes" / task
                command = (*self.simulator, family.split, family.key, 1, root, 1, "episodes")
                jobs.append(Job(f"scenes--{task}", "clips", command, root / "manifest.jsonl"))
        return jobs

    def store(self, clips: Sequence[str]) -> list[Job]:
        """The models of the scenes, and the store."""
        roots, name = self.roots(), "nut-assembly-Panda.xz"
        folders = [*roots, *(self.out / "scenes" / task for task in SCENE_SHARES)]
        models, there = partial(copy_models, roots[0] / "models", folders), roots[0] / "models" / name
        store, scenes = self.out / "store", ("--scenes", self.given.scenes, "--which-scenes", self.given.which_scenes)
        prepare = (*self.render, "prepare", *roots, "-o", store, *scenes, "--workers", self.cores)
        return [
            Job("models", "store", models, there, tuple(clips)),
            Job("store", "store", prepare, store, ("models", *clips), self.cores),
        ]

    def finished(self, videos: Sequence[Job]) -> list[Job]:
        """The benchmarks' folders, once their videos are there."""
        jobs = []
        for split in (*dict.fromkeys(family.split for family in self.watched), "skills"):
            needs = [job.name for job in videos if job.name.startswith(f"{split}--")] or ["videos-sim"]
            folder = self.out / "videos" / benchmark_name(split)
            command, result = partial(finish, folder), folder / "manifest.jsonl"
            jobs.append(Job(f"videos-{folder.name}", "videos", command, result, tuple(needs)))
        for name in () if self.small else QUESTIONS:
            folder, workers = self.out / "videos" / name, max(1, self.cores // 4)
            make = (*self.simulator[:2], COMMAND, "simulate", "--benchmark", name, "-o", folder, "--workers", workers)
            result = folder / "manifest.jsonl"
            jobs.append(Job(f"videos-{name}", "videos", make, result, ("store",), workers, nice=True))
        return jobs

    def train(self) -> list[Job]:
        """A training a seed, and the copy of the first model under its name.

        Batches are made ahead, so half of a training's workers rest: their cores are free for videos.
        """
        declared = (WEIGHTS.fullmatch(each.model) for each in load_experiments().values())
        steps = {int(m[2]) for m in declared if m and m[2] and not m[1]}
        kept = sorted(step for step in steps if step <= self.plan.options.steps)
        seeds, most, runs = self.given.seeds, self.given.processes, self.out / "runs"
        workers, jobs = max(1, min(9, self.cores // (seeds + 1))), list[Job]()
        share = (most - 1) // -(-seeds // max(1, self.given.gpus))  # of a GPU: all train at once
        for seed in range(seeds):
            run = runs / (f"sft-seed{seed}" if seed else "sft")
            command = [*self.ask, "tiny", "train", self.given.plan, "--store", self.out / "store", "-o", run]
            command += ["--seed", seed, "--workers", workers, *(("--init", self.start) if self.start else ())]
            command += ["--partial"] if self.small else []  # few families are simulated
            if not seed:
                command += [word for k in kept for word in ("--keep", k)]
            # Most answers wait for the first: of two GPUs it has one for itself.
            gpu = max(1, min(most, share + (not seed)))
            used = (workers + 1) // 2 if self.given.gpus else self.cores
            jobs.append(Job(f"train-{seed}", "train", tuple(command), run / "model", ("store",), used, gpu))
        ship = self.out / "models" / "tempoloc-tiny"
        return [*jobs, Job("ship", "train", partial(copy_model, runs / "sft/model", ship), ship, ("train-0",))]

    def weights(self, model: str) -> tuple[Path, str] | None:
        """The folder of an experiment's model and the job that makes it; None for weights that are not made here."""
        if model == "tempoloc-tiny":
            return self.out / "models" / model, "ship"
        found = WEIGHTS.fullmatch(model)
        if not found or int(found[1] or 0) >= self.given.seeds or int(found[2] or 0) > self.plan.options.steps:
            return None
        return self.out / model, f"train-{int(found[1] or 0)}"

    def answers(self) -> list[Job]:
        """The experiments and the benchmarks without one, the longest first."""
        found, seen = list(self.localized()), set[tuple[str, str]]()
        made = {benchmark_name(family.split) for family in self.watched} | {*QUESTIONS}
        limits = ("--clips", 1, "--trials", 1) if self.small else ()
        for name, each in load_experiments().items():
            about, of = each.benchmark, self.weights(each.model)
            if of is None or about not in made or (self.small and (about in QUESTIONS or (each.model, about) in seen)):
                continue
            seen.add((each.model, about))
            command = (*self.ask, "experiment", name, "-o", self.out / "answers", "--model", of[0], *limits)
            where = ("--video-root", self.out / "videos" / about, "--pack", self.out / "packed")
            needs, result = (of[1], f"videos-{about}"), self.out / "packed" / f"{name}.jsonl.xz"
            clips = load_benchmark(about).head(each.clips_per_task).clips
            cost = each.ask.trials * len(clips) * each.ask.fps
            found.append((cost, Job(name, "answer", (*command, *where), result, needs, gpu=1)))
        return [job for _, job in sorted(found, key=lambda pair: pair[0], reverse=True)]

    def localized(self) -> Iterator[tuple[float, Job]]:
        """Answers to benchmarks that no experiment is about, asked as the model's card says, and their cost."""
        made = {"skills": 24}
        for family, n in self.watched.items():
            made[family.split] = made.get(family.split, 0) + n
        for name, trials in LOCALIZED.items():
            if name in made:
                clips, result = self.out / "videos" / name / "manifest.jsonl", self.out / "other" / f"{name}.jsonl"
                command = [*self.ask, "localize", "--model", self.out / "models/tempoloc-tiny", "-o", result]
                command += ["--benchmark", clips, "--trials", 1 if self.small else trials]
                needs = ("ship", f"videos-{name}")
                cost = trials * made[name] * 8
                yield cost, Job(f"localize-{name}", "answer", tuple(command), result, needs, gpu=1)


def report(desk: Desk, jobs: Sequence[Job]) -> None:
    """Print the table of the steps and write it, with the machine, to tiny_runs.json."""
    noted = {job.name: note for job in jobs if (note := desk.note(job.name))}
    notes = noted.values()
    rows = {}
    for step in STEPS:
        spans = [(note["began"], note["ended"]) for note in notes if note["step"] == step]
        wanted = sum(job.step == step for job in jobs)
        if wanted:
            rows[step] = {"jobs": wanted, "done": len(spans), "seconds": round(length(spans), 1)}
    whole = round(length((note["began"], note["ended"]) for note in notes), 1)
    for step, row in (rows | {"together": {"jobs": len(jobs), "done": len(notes), "seconds": whole}}).items():
        print(f"{step:10} {row['done']:4} of {row['jobs']:4} jobs {row['seconds']:10.1f} s")
    seconds = {name: round(note["ended"] - note["began"], 1) for name, note in noted.items()}
    said = [note["said"] for note in notes if "said" in note and note["step"] == "videos"]
    told = {"on": machine(), "seconds": whole, "steps": rows, "jobs": seconds, "boundaries": said}
    write_json(desk.out / "tiny_runs.json", told)


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing; status 1 if a job failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder of all that is made")
    parser.add_argument("--plan", default="sft", help="training plan: a name of data/training, or a TOML file")
    parser.add_argument("--init", type=Path, help="model folder to start from, instead of the plan's")
    parser.add_argument("--seeds", type=int, default=3, help="trainings, with seeds from 0 on")
    parser.add_argument("--scenes", type=int, default=8_000, help="random scenes in the store")
    parser.add_argument("--which-scenes", type=int, default=10_000, help="random scenes of the task which")
    parser.add_argument("--gpus", type=int, help="GPUs to use, 0 for the CPU; all by default")
    parser.add_argument("--processes", type=int, default=8, metavar="K", help="at most so many a GPU that answer")
    parser.add_argument("--sim-python", default=".venv-sim/bin/python", help="Python of the simulator's environment")
    parser.add_argument("--only", action="append", choices=STEPS, help="this step alone; repeatable")
    parser.add_argument("--small", action="store_true", help="a try on a CPU: a handful of clips")
    given = parser.parse_args(argv)
    if given.gpus is None:
        given.gpus = 0 if given.small else gpu_count()
    try:
        given.out.mkdir(parents=True, exist_ok=True)
        jobs = Study(given).jobs()
        with sole_writer(given.out):
            desk = Desk(given.out.resolve(), given.gpus, max(1, given.processes))
            desk.run_all([job for job in jobs if not given.only or job.step in given.only])
            report(desk, jobs)
    except TempolocError as error:
        print(error, file=sys.stderr)
        return 1
    return 1 if desk.failed else 0


if __name__ == "__main__":
    sys.exit(main())
