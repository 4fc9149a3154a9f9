"""Runs on the device, in a session of its own: models, store, training, answers, table. Goes on where it stopped."""
import json, os, re, signal, subprocess, sys, time
from pathlib import Path

L = Path(os.environ["LEASE"]); os.chdir(L)
DRY = bool(os.environ.get("DRY")); PY = sys.executable
T0 = int((L / "t0").read_text())
CORES = int(os.environ.get("CORES", os.cpu_count() or 1))
GPUS = 0 if DRY else len(list(Path("/dev").glob("nvidia[0-9]*")))
PER = int(os.environ.get("PER_GPU", 1))  # trainings at once on one GPU
SEEDS = int(os.environ.get("SEEDS", max(1, GPUS) * PER))
LOOKS = int(os.environ.get("LOOKS", 1))
SCENES, WHICH = (1, 1) if DRY else (int(os.environ.get("SCENES", 8000)), int(os.environ.get("WHICH_SCENES", 10000)))
BUDGET = int(os.environ.get("BUDGET", 1800)) - int(os.environ.get("LOST", 90))  # s from T0 on
ANSWER = int(os.environ.get("ANSWER", 250)) + 60  # s for the questions and the last transfers
TRAIN_END = BUDGET - ANSWER
SPEED = float(os.environ.get("SPEED", 12.5)) / PER  # steps a second, before it is measured
NAMES = [int(x) for x in os.environ.get("NAMES", "").split(",") if x] or list(range(SEEDS))
def gpu_gb(): return 0 if DRY else int(subprocess.run(["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"], capture_output=True, text=True).stdout.split()[0]) / 1024
if not DRY and len(NAMES) > GPUS and gpu_gb() < 120: NAMES = NAMES[:GPUS]  # two trainings have no room on one H100
SEEDS = len(NAMES)
EXTRAS = os.environ.get("EXTRAS", "1" if GPUS > SEEDS else "")  # a GPU is left: extras.py uses it
INIT, TOKENS, LR = os.environ.get("INIT", ""), os.environ.get("TOKENS", "128000"), os.environ.get("LR", "8e-4")
TRAIN_CORES = int(os.environ.get("TRAIN_CORES", CORES * SEEDS // GPUS if EXTRAS and GPUS > SEEDS else CORES))
STORE = Path(os.environ.get("STORE", L / "store" if DRY else "/dev/shm/store"))
times = json.loads((L / "times.json").read_text()) if (L / "times.json").exists() else {}

def now(): return time.time() - T0
def say(*words): print(f"[{now():.0f} s]", *words, flush=True)
def done(name): return (L / "done" / name).exists()
def finish(name, began):
    times[name] = round(time.time() - began, 1); (L / "times.json").write_text(json.dumps(times)); (L / "done" / name).touch(); say(name, "took", times[name], "s")

def start(command, log, gpu=None, cores=None, **env):
    e = os.environ | {k: str(v) for k, v in env.items()}
    if gpu is not None: e["CUDA_VISIBLE_DEVICES"] = str(gpu)
    if cores and not DRY: command = ["taskset", "-c", cores, *command]
    process = subprocess.Popen([str(c) for c in command], stdout=open(log, "a"), stderr=subprocess.STDOUT, env=e, start_new_session=True)
    with open(L / "pids", "a") as f: f.write(f"{process.pid}\n")
    return process

def end_orphans():
    """End what outlived an earlier runner: it would hold the same folders."""
    for pid in (L / "pids").read_text().split() if (L / "pids").exists() else ():
        try: os.killpg(int(pid), signal.SIGKILL)
        except ProcessLookupError: pass
    (L / "pids").unlink(missing_ok=True)

def tail(path, n=6):
    lines = [x for x in Path(path).read_text(errors="replace").splitlines() if x.strip() and "warn" not in x.lower()]
    return "\n".join(lines[-n:])

def step_models():
    return start([PY, "models.py", "states", CORES], "models.log")

def step_sim():
    return start([PY, "sim.py", "states", os.environ.get("SIM", 130), CORES, os.environ.get("SIM_SEEDS", 600000)], "sim.log")

MAIN = "import sys; from tempoloc_nb.__main__ import main; sys.exit(main())"
FEW = "import tempoloc_nb.lab.tiny.frame_store as f; f.SCENES_A_PART = 5; f.SCENE_SHARES = {'lift': 1.0}; f.scene_jobs.__defaults__ = ('Panda', f.SCENE_SHARES); " if DRY else ""

# Parts in a drawn order, scenes first: what is rendered when time or room is over is a fair share of every family.
DRAWN = "import random, tempoloc_nb.lab.tiny.frame_store as g; make = g.make_parts; g.episode_jobs.__defaults__ = (4, 0, 1); g.make_parts = lambda jobs, *a, **k: make(sorted(jobs, key=lambda j: (bool(j.episodes), random.Random(str(j.part)).random())), *a, **k); "
STORE_S = int(os.environ.get("STORE_S", 330))  # s

def room_gb():
    """GB that the store may have: a copy on each GPU beside the training, and for a while one a training in memory, beside /dev/shm's."""
    if DRY: return float(os.environ.get("ROOM_GB", 1))
    gpu = gpu_gb() / (2 if len(NAMES) > GPUS else 1)
    free = int(re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())[1]) / 2**20
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.exists() and limit.read_text().strip().isdigit(): free = min(free, int(limit.read_text()) / 2**30)
    return min(gpu - 32, 0.7 * free / (1 + SEEDS), float(os.environ.get("ROOM_GB", 70)))

def stored_gb(): return sum(p.stat().st_size for p in STORE.glob("*.npz")) / 2**30

def store_within():
    """Render until all is there, or time or room is over; returns the process's status, 0 if it was ended here."""
    room, began, p = room_gb(), time.time(), step_store(); say(f"store: {room:.1f} GB of room, {STORE_S} s")
    while p.poll() is None:
        time.sleep(1)
        if time.time() - began > STORE_S or stored_gb() > room - 1:
            os.killpg(p.pid, signal.SIGKILL); p.wait()
            [q.unlink() for q in STORE.iterdir() if q.suffix != ".npz" or ".part" in q.name]
            say(f"rendering ended after {time.time() - began:.0f} s with {stored_gb():.1f} GB"); return 0
    return p.returncode

def step_store():
    roots = sorted(p.parent for p in (L / "states").glob("*/episodes"))
    return start([PY, "-c", FEW + DRAWN + MAIN, "tiny", "prepare", *roots, "-o", STORE, "--scenes", SCENES, "--which-scenes", WHICH, "--looks", LOOKS, "--workers", CORES], "store.log")

def plan(steps, out, name):
    text = (L / "code/data/training/reads.toml").read_text()
    short = 0 if INIT else 5 if DRY else min(3000, steps // 4)
    if INIT:
        a, b = text.index("[[stages]]"), text.rindex("[[stages]]")
        text = text[:a] + text[b:]
        text = text.replace('init = "tempoloc-tiny-base"', f'init = "{L}/init/V{name}"').replace("lr = 1e-3", f"lr = {LR}").replace("warmup = 300", "warmup = 150")
    text = text.replace("tokens = 128000", f"tokens = {TOKENS}")
    text = re.sub(r'(name = "short"\nsteps = )\d+', lambda m: m[1] + str(short), text)
    text = re.sub(r'(name = "long"\nsteps = )\d+', lambda m: m[1] + str(steps - short), text)
    if DRY: text = text.replace(f"tokens = {TOKENS}", "tokens = 2500").replace("warmup = 300", "warmup = 2").replace("warmup = 150", "warmup = 2").replace("window = 16", "window = 4").replace("[12, 150]", "[12, 40]")
    out.mkdir(parents=True, exist_ok=True); (out / "reads.toml").write_text(text)
    return short

def train(seed, steps, gpu):
    out = L / "out" / f"V{seed}"
    if steps: plan(steps, out, seed)
    oom = (out / "train.log").exists() and "OutOfMemory" in (out / "train.log").read_text(errors="replace")
    if steps and oom: (out / "reads.toml").write_text((out / "reads.toml").read_text().replace("tokens = 128000", "tokens = 96000"))
    steps = steps or planned(seed)
    share = max(1, TRAIN_CORES // SEEDS); a = NAMES.index(seed) * share
    every = 5 if DRY else 500
    keep = [x for k in range(every, steps, every) for x in ("--keep", k)]
    cmd = [PY, "-m", "tempoloc_nb", "tiny", "train", out / "reads.toml", "--store", STORE, "-o", out, "--workers", 1 if DRY else max(1, share - 1), "--seed", seed + 100 if INIT else seed, "--partial", "--device", "cpu" if DRY else "cuda", *keep]
    return start(cmd, out / "train.log", None if DRY else gpu, f"{a}-{a + share - 1}", OMP_NUM_THREADS=1)

def progress(seed):
    """(step, seconds of the run at it, steps a second of the last 300) by the log."""
    path = L / "out" / f"V{seed}" / "log.jsonl"
    lines = [json.loads(x) for x in path.read_text().splitlines() if x.endswith("}")] if path.exists() else []
    lines = [x for x in lines if "loss" in x and "seconds" in x]
    if not lines: return 0, 0.0, 0.0
    last = lines[-1]; before = [x for x in lines if x["step"] <= last["step"] - SPAN and x["seconds"] < last["seconds"]][-1:]
    speed = (last["step"] - before[0]["step"]) / (last["seconds"] - before[0]["seconds"]) if before else 0.0
    return last["step"], last["seconds"], speed

EDIT = """import torch, json, sys
f, short, long = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
c = torch.load(f, map_location='cpu', weights_only=True); o = json.loads(c['options'])
o['stages'][-1]['steps'] = long
if short: o['stages'][0]['steps'] = short
c['options'] = json.dumps(o); torch.save(c, f)"""

CHECK, SPAN = int(os.environ.get("CHECK", 900)), int(os.environ.get("SPAN", 300))

def replan(seed, process, steps, gpu, fit):
    """End a training at its next checkpoint, and go on with as many steps as fit."""
    point = L / "out" / f"V{seed}" / "checkpoint.pt"; t = time.time(); was = point.stat().st_mtime if point.exists() else 0
    while time.time() - t < 90 and (not point.exists() or point.stat().st_mtime == was): time.sleep(0.2)
    time.sleep(1); os.killpg(process.pid, signal.SIGKILL); process.wait()
    short = 0 if INIT else int(re.search(r'name = "short"\nsteps = (\d+)', (point.parent / "reads.toml").read_text())[1])
    text = (point.parent / "reads.toml").read_text()
    subprocess.run([PY, "-c", EDIT, str(point), str(short), str(fit - short)], check=True)
    out = point.parent
    (out / "reads.toml").write_text(re.sub(r'(name = "long"\nsteps = )\d+', lambda m: m[1] + str(fit - short), text))
    new = train(seed, 0, gpu); say(f"V{seed}: {fit} steps instead of {steps}")
    return new

def planned(seed):
    path = L / "out" / f"V{seed}" / "reads.toml"
    return sum(map(int, re.findall(r"^steps = (\d+)", path.read_text(), re.M))) if path.exists() else 0

def step_train():
    steps = 10 if DRY else int(os.environ.get("STEPS", 0)) or max(2000, int(SPEED * (TRAIN_END - now() - 80) / 500) * 500)
    running, seen, tries = {}, set(), {}
    for place, seed in enumerate(NAMES):
        gpu = place % max(1, GPUS); out = L / "out" / f"V{seed}"
        if (out / "model" / "model.safetensors").exists(): continue
        have = planned(seed) if (out / "checkpoint.pt").exists() else 0
        mates = sum(p % max(1, GPUS) == gpu for p in range(len(NAMES)))  # trainings that share the GPU
        mine = steps if DRY else max(2000, steps // mates // 500 * 500)
        running[seed] = [train(seed, 0 if have else mine, gpu), have or mine, gpu]
        if have: seen.add(seed)
    say("training seeds", sorted(running), "steps", {s: r[1] for s, r in running.items()}, "until", TRAIN_END)
    told = 0
    while running:
        time.sleep(1)
        for seed, (process, steps, gpu) in list(running.items()):
            at, _, speed = progress(seed)
            if process.poll() is not None:
                log = L / "out" / f"V{seed}" / "train.log"
                if process.returncode and "OutOfMemory" in log.read_text(errors="replace") and not (log.parent / "checkpoint.pt").exists():
                    plan_ = log.parent / "reads.toml"; plan_.write_text(plan_.read_text().replace("tokens = 128000", "tokens = 96000")); say(f"V{seed}: out of memory: 96,000 tokens a batch")
                say(f"V{seed} ended with {process.returncode} at step {at}:", tail(L / "out" / f"V{seed}" / "train.log", 3 if process.returncode == 0 else 12))
                if process.returncode and tries.get(seed, 0) < 2 and now() < TRAIN_END - 60:
                    tries[seed] = tries.get(seed, 0) + 1
                    running[seed] = [train(seed, 0, gpu), steps, gpu]; continue
                del running[seed]; continue
            if seed not in seen and at >= CHECK and speed:
                seen.add(seed); fit = int((at + speed * (TRAIN_END - now() - 15)) // 100 * 100)
                say(f"V{seed}: {speed:.2f} steps/s, {fit} would fit, {steps} planned")
                if not os.environ.get("STEPS") and not 0.97 <= fit / steps <= 1.08:
                    fit -= int(65 * speed)  # to begin again
                    if fit > at + 1500: running[seed] = [replan(seed, process, steps, gpu, fit), fit, gpu]
            if now() > TRAIN_END + 45:  # too slow after all: the last kept model is what there is
                say(f"V{seed}: time is up at step {at}"); os.killpg(process.pid, signal.SIGKILL); del running[seed]
        if now() - told > 60:
            told = now(); say("steps", {s: f"{progress(s)[0]} ({progress(s)[2]:.1f}/s)" for s in running})

def step_answer():
    manifest = questions(); procs = []
    shards = 1 if DRY else int(os.environ.get("SHARDS", 2))
    for v in sorted((L / "out").glob("V*")):
        seed = int(v.name[1:]); model = v / "model"
        if not (model / "model.safetensors").exists():
            kept = sorted(v.glob("steps/*/model.safetensors"))
            if not kept: continue
            model = kept[-1].parent
        for i in range(1, shards + 1):
            cmd = [PY, "-m", "tempoloc_nb", "localize", "--benchmark", manifest, "--shard", f"{i}/{shards}", "--model", model, "--backend", "hf", "--device", "cpu" if DRY else "cuda", "--batch", 4 if DRY else 300, "--prompt", "tiny-absent", "--fps", 8, "--total-pixels", 6422528, "--stamps", "frame", "--temperature", 0, "--top-p", 1, "--repetition-penalty", 1, "--max-new-tokens", 60 if DRY else 900, "--trials", 1, "-o", L / "ans" / f"val-{v.name}-{i}.jsonl"]
            procs.append((v.name, start(cmd, L / "ans" / f"val-{v.name}-{i}.log", None if DRY else seed % max(1, GPUS), OMP_NUM_THREADS=max(1, CORES // max(1, SEEDS * shards)))))
    while any(p.poll() is None for _, p in procs):
        time.sleep(1)
        if now() > BUDGET - 45: [os.killpg(p.pid, signal.SIGKILL) for _, p in procs if p.poll() is None]; say("answers cut off")
    for name, p in procs: say("answers of", name, "ended with", p.returncode)
    cols = [f"{v.name}=" + ",".join(str(x) for x in sorted((L / "ans").glob(f"val-{v.name}-*.jsonl"))) for v in sorted((L / "out").glob("V*"))]
    with open(L / "table.txt", "w") as f: subprocess.run([PY, "score.py", str(manifest), *cols], stdout=f, stderr=subprocess.STDOUT)
    say("table\n" + (L / "table.txt").read_text())

def questions():
    path = L / "val" / "questions.jsonl"
    if not path.exists():
        code = "import sys; from dataclasses import replace; from pathlib import Path; from tempoloc_nb.clips.manifest import load_benchmark, write_manifest; root = Path(sys.argv[1]); q = [replace(c, video=f\"videos/{c.extra['shown']}.mp4\") for c in load_benchmark('which-validation').clips]; q = [c for c in q if (root / c.video).exists()][:int(sys.argv[2])]; write_manifest(root / 'questions.jsonl', q); print(len(q))"
        say("questions", subprocess.run([PY, "-c", code, str(L / "val"), "3" if DRY else "100000"], capture_output=True, text=True).stdout)
    return path

def wait(name, make, log):
    if done(name): return
    began = time.time(); p = make(); code = p.wait(); say(name, "ended with", code, "\n" + tail(log))
    if code: sys.exit(f"{name} failed")
    finish(name, began)

if __name__ == "__main__":
    end_orphans()
    say(f"cores {CORES}, GPUs {GPUS}, seeds {SEEDS}, looks {LOOKS}, training ends at {TRAIN_END} s")
    if os.environ.get("SIM", "0") != "0" and not done("simulated"):
        before = set((L / "states").rglob("*.npz")); began, p = time.time(), step_sim()
        while p.poll() is None and time.time() - began < int(os.environ["SIM"]) + 30: time.sleep(0.5)
        if p.poll() is None: os.killpg(p.pid, signal.SIGKILL)
        new = sorted(str(f.relative_to(L / "states")) for f in set((L / "states").rglob("*.npz")) - before)
        (L / "sim.txt").write_text("".join(f + "\n" for f in new)); say("simulated", len(new), "states"); finish("simulated", began)
        start([PY, "pack.py", "states", "packed", "sim.txt"], "pack.log")
    wait("models", step_models, "models.log")
    if not done("stored"):
        began = time.time(); code = store_within(); say("stored ended with", code, "\n" + tail("store.log", 3))
        if code: sys.exit("stored failed")
        finish("stored", began)
    say(subprocess.run(["du", "-sm", str(STORE)], capture_output=True, text=True).stdout.strip(), len(list(STORE.glob("*.npz"))), "parts")
    if EXTRAS and not done("extras"):
        e = dict(LEASE_EXTRAS_END=TRAIN_END - 90, TRAIN_CORES=TRAIN_CORES, ALL_CORES=CORES)
        start([PY, "extras.py"], "extras.log", None if DRY else GPUS - 1, None if DRY else f"{TRAIN_CORES}-{CORES - 1}", **e); say("extras started")
    if not done("trained"):
        began = time.time(); step_train(); finish("trained", began)
    if not os.environ.get("NO_ANSWERS") and not DRY or DRY:
     while not (done("av") and (L / "val" / "videos").exists()) and now() < BUDGET - 60: time.sleep(1)
    if not done("answered") and not os.environ.get("NO_ANSWERS"):
        began = time.time(); step_answer(); finish("answered", began)
    (L / "done" / "all").touch()
