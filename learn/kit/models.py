"""Compile the models that states and scenes need: models.py STATES WORKERS [FAMILY ...]"""
import os, sys, time
os.environ["MUJOCO_GL"] = "disable"
from multiprocessing import get_context
from pathlib import Path

def go(job):
    task, robot, path = job
    path = Path(path)
    if path.exists():
        return f"there {path.name}"
    t = time.time()
    try:
        from tempoloc_nb.lab.sim.make import _save_model
        path.parent.mkdir(parents=True, exist_ok=True)
        _save_model(task, robot, path)
    except Exception as x:
        return f"FAILED {path.name} {x!r}"[:300]
    return f"{path.name} {time.time() - t:.1f} s"

if __name__ == "__main__":
    base, workers = Path(sys.argv[1]), int(sys.argv[2])
    from tempoloc_nb.lab.sim.tasks import find_families
    jobs = []
    for folder in sorted(base.glob("*/episodes/*")):
        f = find_families(folder.parts[-3], folder.name)[0]
        jobs.append((f.task, f.robot, str(base / f.split / "models" / f"{f.task}-{f.robot}.mjb")))
    scenes = ("stack-three", "nut-assembly", "lift", "stack-two", "pick-place", "door") if not os.environ.get("DRY") else ("lift",)
    jobs += [(task, "Panda", str(base / "base" / "models" / f"{task}-Panda.mjb")) for task in scenes]
    jobs = sorted(set(jobs), key=lambda j: (j[0] != "which", j))
    with get_context("spawn").Pool(min(workers, len(jobs))) as pool:
        for said in pool.imap_unordered(go, jobs, chunksize=1):
            print(said, flush=True)
    missing = [j[2] for j in jobs if not Path(j[2]).exists()]
    print("MODELS", len(jobs), "missing", missing, flush=True)
    sys.exit(bool(missing))
