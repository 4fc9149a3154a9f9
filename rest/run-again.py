"""All missing answers, side by side on one GPU."""
import os, shutil, subprocess, sys, time
from pathlib import Path
L = Path(os.environ["LEASE"]); DRY = os.environ.get("DRY"); PY = sys.executable; T0 = int((L / "t0").read_text()); TR = L / "tr"
def say(*w): print(f"[{time.time() - T0:.0f} s]", *w, flush=True)
tiny = L / "code/data/models/tempoloc-tiny"
for name, place in {}.items():
    d = TR / place
    if not d.exists():
        shutil.copytree(L / "code/data/models/tempoloc-tiny-base", d); os.chmod(d / "model.safetensors", 0o644); shutil.copy(L / "models" / f"{name}.safetensors", d / "model.safetensors")
(L / "logs").mkdir(exist_ok=True); (TR / "other").mkdir(exist_ok=True)
few = ["--clips", "1", "--trials", "1"] if DRY else ["--clips", "100000"]
jobs = {}
for name, model, about in (("which-asked", tiny, "which"), ("which", tiny, "which")):
    jobs[name] = ["experiment", name, "-o", TR / "answers", "--model", model, *few, "--video-root", TR / "videos" / about, "--pack", TR / "packed"]
for name in ():
    if (TR / "videos" / name / "manifest.jsonl").exists():
        jobs[name] = ["localize", "--model", "tempoloc-tiny", "-o", TR / f"other/{name}.jsonl", "--benchmark", TR / "videos" / name / "manifest.jsonl", "--trials", "1" if DRY else "5"]
begun = {n: time.time() for n in jobs}
procs = {n: subprocess.Popen([str(c) for c in (PY, "-m", "tempoloc_nb", *c)], cwd=TR, stdout=open(L / f"logs/{n}.log", "w"), stderr=subprocess.STDOUT) for n, c in jobs.items()}
say("began", *procs)
while procs:
    time.sleep(0.5)
    for n, p in list(procs.items()):
        if p.poll() is not None: say(n, "ended with", p.returncode, f"after {time.time() - begun[n]:.0f} s"); del procs[n]
(L / "done/all").touch()
