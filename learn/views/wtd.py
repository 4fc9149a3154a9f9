import json,sys
from collections import defaultdict
from pathlib import Path
from tempoloc_nb.clips.manifest import read_manifest
from tempoloc_nb.scoring.logs import read_log
import numpy as np
man={c.clip:c for c in read_manifest(Path('wt/questions.jsonl'))}
root=Path('/work/tmp/whichtest/which/work/episodes')
from tempoloc_nb.lab.sim.which_questions import event_label
from tempoloc_nb.lab.sim.which_plan import HELD_OUT
per=defaultdict(lambda:[0,0]); seen=set(); rows=[]
for l in open(sys.argv[1]):
    r=json.loads(l); c=man[r['clip']]; k=c.extra['shown']
    if k in seen: continue
    seen.add(k); fam=k.split('/')[0]
    f=root/fam/f'{c.seed:09d}.npz'
    if not f.exists(): continue
    m=json.loads(str(np.load(f)['meta'])); log=read_log(r['text']); ok=n=0; held=0
    for kind,thing,t in m['moments']:
        if kind in('grasp','release','push','press','insert'):
            h=(('pick' if kind in('grasp','release') else kind),thing) in HELD_OUT; held+=h
            n+=1; ok+=any(e.name==event_label(kind,thing) and abs(e.time-t)<=.3 for e in log.events)
    per[bool(held)][0]+=ok; per[bool(held)][1]+=n; rows.append((k,held,ok,n,m.get('objects')))
print({k:(round(100*a/b,1),b) for k,(a,b) in per.items()})
for r in rows: print(r)
