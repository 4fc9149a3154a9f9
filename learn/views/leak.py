import numpy as np, json
from pathlib import Path
from tempoloc_nb.clips.manifest import load_benchmark
fs=[f for f in sorted(Path('.').glob('states*/which-sft/episodes/*/*.npz'))]
tr={}
for f in fs:
    m=json.loads(str(np.load(f)['meta'])); tr.setdefault(tuple(round(t,2) for k,o,t in m['moments'] if k in('grasp','release','push','press','insert')),[]).append((str(f),m['moments']))
print(len(fs),len(tr))
allt={round(t[0],2):k for k in tr for t in [k] if k}
for name in ("which-validation","which"):
    b=load_benchmark(name); hits=0; n=0; part=0
    trset={frozenset(k) for k in tr}
    for c in b.clips:
        if c.extra['kind']!='all' : continue
        n+=1; t=[round(e.boundary,2) for e in c.events]
        hits+= frozenset(t) in trset or any(set(t)<=set(k) for k in tr if len(k)>=len(t))
    # two times of a clip both in one training clip
    print(name,n,'all-questions; with all times in one training clip:',hits)
