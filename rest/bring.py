import os, sys, tarfile
from pathlib import Path
L = Path(os.environ["LEASE"]); TR = L / "tr"; out = Path(sys.argv[1])
with tarfile.open(out / "answers.tar.xz", "w:xz") as t:
    for part in (TR / "packed", TR / "other", TR / "answers", L / "logs"):
        for p in sorted(part.glob("*")):
            if p.is_file(): t.add(p, str(p.relative_to(L)))
    if (L / "run.log").exists(): t.add(L / "run.log", "run.log")
