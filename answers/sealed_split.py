from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.inference.record import read_rows
from tempoloc_nb.study.tables import event_lines, line_share
from tempoloc_nb.inference.consensus import combine_trials
u = load_benchmark("sealed")
asked = u.only({c.clip for c in u.clips if "shown" in c.extra})
L=[]
for n in ("tempoloc-tiny","sft-seed1","sft-seed2"):
    rows=[r for r in read_rows(u.root/f"{n}.jsonl.xz") if r["clip"] in {c.clip for c in asked.clips}]
    L.append(event_lines({a.clip:a.events for a in combine_trials(rows,asked)},asked))
fam=lambda d: d["shown"].str.split("/").str[0]
print(sorted(set(fam(L[0]))))
def show(name, keep):
    P=[d[keep(d)] for d in L]; T=[d[~d["absent"]] for d in P]
    f=lambda parts,col="right": (lambda e: f"{100*e.value:.1f} [{100*e.low:.0f}, {100*e.high:.0f}]")(line_share(parts,col))
    print(name, {k:f([d[d["kind"]==k] for d in T]) for k in ("ordered","swapped","alone","second")}, "absent", f([d[d["absent"]] for d in P]), "denied", f(T,"denied"), "held", f([d[d["held_out"]] for d in T]) if all(d["held_out"].any() for d in T) else "-", "others", f([d[~d["held_out"]] for d in T]), len(T[0]), [round(100*d["right"].mean(),1) for d in T])
show("trained", lambda d: ~fam(d).str.contains("rethink"))
show("unseen hand", lambda d: fam(d).str.contains("rethink"))
for f in sorted(set(fam(L[0]))): show(f, lambda d,f=f: fam(d)==f)
