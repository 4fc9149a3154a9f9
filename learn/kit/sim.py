"""sim.py BASE SECONDS PROCESSES OFFSET: states of training families (ONLY=PREFIX), as many as fit into the seconds, with seeds from OFFSET on."""
import os, random, sys, time
for k in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"): os.environ[k] = "1"
os.environ["MUJOCO_GL"] = "disable"
from multiprocessing import get_context
from pathlib import Path

SHARES = {"which-sft/which-panda": 12, "which-sft/which-iiwa": 7, "which-sft/which-iiwa-panda": 7, "which-sft/which-panda-robotiq140": 7,
          "which-sft/which-panda-xarm": 7, "which-sft/which-panda-robotiq3": 7, "sft/stack-three": 12, "sft/square": 3, "sft/pick-place": 3, "sft/stack-two": 4,
          "detours-sft/stack-three-panda-detours": 4, "detours-sft/stack-three-panda-robotiq140-detours": 3}
SHARES |= {f"gaps-sft/{t}-panda": 1.5 for t in ("push", "press", "thread", "pour")}
SHARES |= {f"hands/{t}-{r}": 1.5 for t in ("stack-three", "square", "pick-place", "stack-two") for r in ("iiwa", "iiwa-panda", "panda-robotiq140")}
SHARES = {k: v for k, v in SHARES.items() if k.startswith(os.environ.get("ONLY", ""))}
AT_ONCE = 15  # clips between two choices of a family: its model is made once

def wanted(family, seed):
    """Whether the hand visits what it never picks: such clips are too few (VISITS=0: all)."""
    if family.task != "which" or os.environ.get("VISITS", "1") == "0": return True
    import numpy as np
    from tempoloc_nb.lab.sim.which_plan import HELD_OUT, draw_plan
    return any(("pick", a.visit) in HELD_OUT for a in draw_plan(np.random.default_rng(seed), False, True).actions)

def work(args):
    number, base, until, offset = args
    from tempoloc_nb.lab.sim.make import _attempt
    from tempoloc_nb.lab.sim.tasks import find_families
    draw, made = random.Random(offset + number), 0
    seeds = dict.fromkeys(SHARES, offset + 1500 * number)
    while time.time() < until:
        (name,) = draw.choices(list(SHARES), SHARES.values())
        split, key = name.split("/")
        family, root = find_families(split, key)[0], Path(base) / split
        (root / "episodes" / key).mkdir(parents=True, exist_ok=True)
        for _ in range(AT_ONCE):
            if time.time() > until: break
            while not wanted(family, family.first_seed + seeds[name]): seeds[name] += 1
            try: made += _attempt(family, family.first_seed + seeds[name], root) == ""
            except Exception as x: print(name, seeds[name], repr(x)[:150], flush=True)
            seeds[name] += 1
    return made

if __name__ == "__main__":
    base, until, n, offset = sys.argv[1], time.time() + float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    with get_context("spawn").Pool(n) as pool:
        print("MADE", sum(pool.imap_unordered(work, [(i, base, until, offset) for i in range(n)])), flush=True)
