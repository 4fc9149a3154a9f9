"""Runs on the device, in a session of its own: models in their places, then tiny_runs.py (videos, answers) and sealed.py side by side."""
import json, os, shutil, subprocess, sys, time
from pathlib import Path
L = Path(os.environ["LEASE"]); DRY = bool(os.environ.get("DRY")); PY = sys.executable; T0 = int((L / "t0").read_text()); TR = L / "tr"
def say(*w): print(f"[{time.time() - T0:.0f} s]", *w, flush=True)
base = L / "code/data/models/tempoloc-tiny-base"
places = {"V1": "runs/sft-seed1/model", "V2": "runs/sft-seed2/model", "s23000": "runs/sft/steps/23000", "s34000": "runs/sft/steps/34000", "s40198": "runs/sft/steps/40198"}
for name, place in places.items():
    d = TR / place
    if not d.exists():
        shutil.copytree(base, d); os.chmod(d / "model.safetensors", 0o644); shutil.copy(L / "models" / f"{name}.safetensors", d / "model.safetensors")
for place in ("runs/sft/model", "models/tempoloc-tiny"):
    if not (TR / place).exists(): (TR / place).parent.mkdir(parents=True, exist_ok=True); shutil.copytree(L / "code/data/models/tempoloc-tiny", TR / place)
say("models are there")
# what the first lease of answers made is left out (detours, detours-validation, objects-validation); gaps are made on our CPU (pour is chaotic)
f = L / "code/benchmarks/tiny_runs.py"; src = f.read_text()
def swap(old, new):
    global src
    assert src.count(old) == 1 or new in src, (old, src.count(old)); src = src.replace(old, new)
swap('"gaps": 8, "detours": 24} | dict.fromkeys(CHOSEN, 15)', '"hands-validation": 15}')
swap('LOCALIZED = {"gaps": 5, "detours": 5, "skills": 5} | dict.fromkeys(CHOSEN, 1)', 'LOCALIZED = {"skills": 5, "hands-validation": 1}')
swap('self.cores // 4)', 'self.cores // 2 - 2 if name == "which" else self.cores // 4)')
swap('*self.train(), *videos, *self.finished(videos),', '*self.train(), *[j for j in self.finished(videos) if j.name.startswith("videos-which")], *sorted(videos, key=lambda j: ("test", "validation", "hands-validation").index(j.name.split("--")[0])), *[j for j in self.finished(videos) if not j.name.startswith("videos-which")],')
swap('limits = ("--clips", 1, "--trials", 1) if self.small else ()', 'limits = ("--clips", 1, "--trials", 1) if self.small else ("--clips", 100000)')
swap('    if any(x > APART_S for x in apart):\n        raise TempolocError(f"{told}: these are other clips than the shipped ones")\n', '    far = {c.clip for c in listed if shipped.is_dir() and c.clip in made and max(abs(x - y) for x, y in zip(c.boundaries, made[c.clip].boundaries, strict=True)) > APART_S}\n    if far:\n        print("LEFT OUT", sorted(far), flush=True)\n        for c in listed:\n            if c.clip in far: (folder / c.video).unlink(missing_ok=True)\n        listed = [c for c in listed if c.clip not in far]\n')
f.write_text(src)
tiny = [PY, L / "code/benchmarks/tiny_runs.py", TR, "--only", "videos", "--only", "answer", "--sim-python", os.environ.get("SIM_PY", PY), "--processes", os.environ.get("PER_GPU", "8"), *(["--small"] if DRY else [])]
sealed = [PY, L / "code/benchmarks/sealed.py", "tempoloc-tiny", "runs/sft-seed1/model", "runs/sft-seed2/model", "--n", "1" if DRY else os.environ.get("SEALED", "50"), "--batch", "4" if DRY else "100", "--sim-python", os.environ.get("SIM_PY", PY), *(["--task", "stack-three"] if DRY else [])]
def go(cmd, log, **env): return subprocess.Popen([str(c) for c in cmd], stdout=open(L / log, "a"), stderr=subprocess.STDOUT, cwd=TR, env=os.environ | env)
p = go(tiny, "tiny.log")
if not DRY: # the study's videos first: the GPUs wait for them
    while p.poll() is None and not (TR / "done/videos-which.json").exists() and time.time() - T0 < 500: time.sleep(1)
say("sealed begins"); q = go(["nice", "-n", "15", *sealed], "sealed.log")
say("tiny_runs ended with", p.wait()); say("sealed ended with", q.wait())
(L / "done/all").touch()
