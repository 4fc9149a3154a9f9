"""score.py MANIFEST NAME=ANSWERS ... : shares (%) by kind of question, one column a model"""
import json, sys
from collections import defaultdict
from pathlib import Path
from tempoloc_nb.clips.manifest import read_manifest
from tempoloc_nb.scoring.answers import parse_answer
man = {c.clip: c for c in read_manifest(Path(sys.argv[1]))}
cols, rows = [], defaultdict(dict)
for given in sys.argv[2:]:
    name, _, paths = given.partition("=")
    S, n = defaultdict(lambda: [0, 0]), 0
    for p in paths.split(","):
        if not Path(p).exists():
            continue
        for line in open(p):
            r = json.loads(line); c = man[r["clip"]]; n += 1
            kind = (c.extra or {}).get("kind", c.task)
            a = parse_answer(r["text"], [e.label for e in c.events], c.duration)
            for e, q in zip(c.events, a.events):
                S["status " + q.status][0] += 1
                t = q.boundary()
                ok = q.status == "absent" if e.absent else q.status == "ok" and t is not None and abs(t - e.boundary) <= 0.25
                for k in [kind + " absent" if e.absent else kind] + ([] if e.absent else ["present, within 0.25 s", f"arm {c.robot}"] + (["held-out pairs"] if (c.extra or {}).get("held_out") else [])):
                    S[k][0] += ok; S[k][1] += 1
                if not e.absent:
                    S["present, denied"][0] += q.status == "absent"; S["present, denied"][1] += 1
    cols.append(f"{name} ({n})")
    for k, (x, m) in S.items():
        rows[k][cols[-1]] = f"{100 * x / m:.1f} of {m}" if m else str(x)
print(f"{'':30s}" + "".join(f"{c:>18s}" for c in cols))
for k in sorted(rows):
    print(f"{k:30s}" + "".join(f"{rows[k].get(c, '-'):>18s}" for c in cols))
