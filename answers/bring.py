"""bring.py OUT: what is new, in at most 8 files of 16 MiB, 60 MiB a call. Answers each time (small), videos once each."""
import io, json, os, sys, tarfile, time
from pathlib import Path
L = Path(os.environ["LEASE"]); TR = L / "tr"; out = Path(sys.argv[1]); mark = L / "brought.json"
had = set(json.loads(mark.read_text())) if mark.exists() else set()
small = [p for part in ("packed", "other", "logs", "done") for p in sorted((TR / part).glob("*")) if p.is_file()]
small += [p for p in (L / "run.log", L / "tiny.log", L / "sealed.log", TR / "tiny_runs.json", L / "code/benchmarks/results/sealed.jsonl") if p.exists()]
small += sorted((L / "code/data/benchmarks/sealed").glob("*")) + sorted((TR / "runs/sealed").rglob("*.json*"))
small += [p for p in sorted((TR / "videos").glob("*/manifest.jsonl"))] + [p for p in (TR / "videos").glob("*/*.npz")]
with tarfile.open(out / "answers.tar.xz", "w:xz") as t:
    for p in small: t.add(p, str(p.relative_to(L)))
left = 44 << 20
ready = {n for n in ("which", "which-validation", "sim", "validation", "gaps", "detours", "hands-validation", "objects-validation", "detours-validation") if (TR / f"done/videos-{n}.json").exists()}
groups = []
for name in ("which", "which-validation", "sim", "validation", "gaps", "detours"):
    if name not in ready: continue
    files = [p for p in sorted((TR / "videos" / name).rglob("*.mp4")) if str(p) not in had]
    part, size = [], 0
    for p in files:
        s = p.stat().st_size
        if size + s > 15 << 20: groups.append((name, part)); part, size = [], 0
        part.append(p); size += s
    if part: groups.append((name, part))
n = 0
for k, (name, part) in enumerate(groups):
    size = sum(p.stat().st_size for p in part)
    if size > left or n >= 6: break
    with tarfile.open(out / f"videos-{name}-{k}-{len(had)}.tar", "w") as t:
        for p in part: t.add(p, str(p.relative_to(TR)))
    had |= {str(p) for p in part}; left -= size; n += 1
mark.write_text(json.dumps(sorted(had)))
