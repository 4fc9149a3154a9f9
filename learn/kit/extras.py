"""What the last GPU does while the others train: flash decoding measured, then short trainings of other forms (FORMS), their answers, a profile of ten steps."""
import json, os, re, subprocess, sys, time
from pathlib import Path

L = Path(os.environ["LEASE"]); PY = sys.executable; DRY = bool(os.environ.get("DRY")); T0 = int((L / "t0").read_text())
END = float(os.environ["LEASE_EXTRAS_END"]); CORES = int(os.environ["ALL_CORES"]) - int(os.environ["TRAIN_CORES"])
STORE = os.environ.get("STORE", str(L / "store") if DRY else "/dev/shm/store")
TOKENS = int(os.environ.get("TOKENS", 128000))
FORMS = {
    "reads": lambda t: t,
    "muon": lambda t: t,
    "no-log": lambda t: re.sub(r"look_up_log = ([\d.]+), log = ([\d.]+), answer = ([\d.]+), still = ([\d.]+)",
                               lambda m: f"recite = {m[1]}, localize = {round(float(m[2]) + float(m[3]) + float(m[4]), 2)}", t),
    "own-names": lambda t: t.replace("renamed = 0.2", "renamed = 0.0"),
}
FORMS = {name: FORMS[name] for name in os.environ.get("FORMS", "muon,own-names").split(",")}  # reads, no-log: learn/forms has their answers, of 6,800 steps
(L / "forms").mkdir(exist_ok=True)
def now(): return time.time() - T0
def say(*words): print(f"[{now():.0f} s]", *words, flush=True)
def run(cmd, log, limit):
    with open(log, "a") as f:
        try: return subprocess.run([str(c) for c in cmd], stdout=f, stderr=subprocess.STDOUT, timeout=max(5, limit)).returncode
        except subprocess.TimeoutExpired: return "time is up"
def tail(path, n=4): return "\n".join(Path(path).read_text(errors="replace").splitlines()[-n:])

t = time.time()
while not (L / "done/av").exists() and time.time() - t < 60: time.sleep(1)
if os.environ.get("FLASH") and not DRY:
    code = run([PY, "code/benchmarks/flash_decoding.py", "--output", L / "flash.json", "--tiny-clips", 8, "--jobs", "15x10", "1x1", "--repeats", 2, "--steps", 40], "flash.log", 390)
    say("flash ended with", code, tail("flash.log"))

ASK = 130  # s for the answers
each = (END - ASK - now()) / 2 - 85  # s of steps: two forms, and the third if time is left
steps = 8 if DRY else int(os.environ.get("FORM_STEPS", 6800)) or int(each * float(os.environ.get("FORM_SPEED", 12.5)) * 128000 / TOKENS // 100 * 100)
say("steps of each form", steps)
if steps < 800 and not DRY: sys.exit("too little time for forms")
for name, change in FORMS.items():
    if not DRY and END - ASK - now() < steps / 10.9 + 25: say("no time for", name); continue
    out = L / "forms" / name; out.mkdir(exist_ok=True)
    text = (L / "code/data/training/reads.toml").read_text(); short = steps // 4
    text = re.sub(r'(name = "short"\nsteps = )\d+', lambda m: m[1] + str(short), text)
    text = change(re.sub(r'(name = "long"\nsteps = )\d+', lambda m: m[1] + str(steps - short), text))
    oom = any("OutOfMemory" in (L / "out" / v / "train.log").read_text(errors="replace") for v in os.listdir(L / "out") if (L / "out" / v / "train.log").exists())
    if oom: text = text.replace("tokens = 128000", "tokens = 96000")
    if not oom: text = text.replace("tokens = 128000", f"tokens = {TOKENS}")
    if DRY: text = text.replace(f"tokens = {TOKENS}", "tokens = 2500").replace("warmup = 300", "warmup = 2").replace("window = 16", "window = 4").replace("[12, 150]", "[12, 40]")
    (out / "reads.toml").write_text(text)
    cmd = [PY, *(["muon.py"] if name == "muon" else ["-m", "tempoloc_nb"]), "tiny", "train", out / "reads.toml", "--store", STORE, "-o", out, "--workers", max(1, CORES - 1) if not DRY else 1, "--seed", 0, "--partial", "--device", "cpu" if DRY else "cuda"]
    began = now(); code = run(cmd, out / "train.log", END - ASK + 60 - now() if not DRY else 600); say(name, "ended with", code, f"in {now() - began:.0f} s", tail(out / "train.log", 2))

import importlib.util
spec = importlib.util.spec_from_file_location("runner", L / "runner.py"); r = importlib.util.module_from_spec(spec); spec.loader.exec_module(r)
manifest = r.questions(); procs = []
for name in FORMS:
    model = L / "forms" / name / "model"
    if not (model / "model.safetensors").exists(): continue
    prompt = "tiny" if name == "no-log" else "tiny-absent"
    cmd = [PY, "-m", "tempoloc_nb", "localize", "--benchmark", manifest, "--shard", "1/40" if DRY else "1/2", "--model", model, "--backend", "hf", "--device", "cpu" if DRY else "cuda", "--batch", 4 if DRY else 150, "--prompt", prompt, "--fps", 8, "--total-pixels", 6422528, "--stamps", "frame", "--temperature", 0, "--top-p", 1, "--repetition-penalty", 1, "--max-new-tokens", 60 if DRY else 900, "--trials", 1, "-o", L / "forms" / f"{name}.jsonl"]
    procs.append((name, subprocess.Popen([str(c) for c in cmd], stdout=open(L / "forms" / name / "answers.log", "a"), stderr=subprocess.STDOUT)))
while any(p.poll() is None for _, p in procs) and now() < END + 60: time.sleep(1)
for name, p in procs:
    say("answers of", name, "ended with", p.poll())
    if p.poll() is None: p.kill()
with open(L / "forms.txt", "w") as f: subprocess.run([PY, "score.py", str(manifest), *(f"{n}={p}" for n in FORMS for p in (L / "forms").glob(f"{n}.*jsonl"))], stdout=f, stderr=subprocess.STDOUT)
name = next(iter(FORMS)); cmd = [PY, "prof.py", L / "prof.txt", "tiny", "train", L / "forms" / name / "reads.toml", "--store", STORE, "-o", L / "profiled", "--workers", max(1, CORES - 1) if not DRY else 1, "--seed", 0, "--partial", "--device", "cpu" if DRY else "cuda"]
os.environ["FROM"] = "4" if DRY else "200"
say("profile ended with", run(cmd, "prof.log", END + 75 - now()), tail("prof.log", 2))
(L / "done" / "extras").touch(); say("extras done")
