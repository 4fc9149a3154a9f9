import json,sys,re
from collections import Counter
from pathlib import Path
from tempoloc_nb.clips.manifest import read_manifest
from tempoloc_nb.scoring.logs import read_log
import numpy as np
man={c.clip:c for c in read_manifest(Path('wt/questions.jsonl'))}
# true logs from the simulated episodes
root=Path('/work/tmp/whichtest/which/work/episodes')
C=Counter(); T=Counter(); seen=set(); ok=Counter()
from tempoloc_nb.lab.sim.which_questions import event_label
from tempoloc_nb.lab.sim.which_plan import HELD_OUT
for l in open(sys.argv[1]):
    r=json.loads(l); c=man[r['clip']]; k=c.extra['shown']
    if k in seen: continue
    seen.add(k); fam=k.split('/')[0]
    f=root/fam/f'{c.seed:09d}.npz'
    if not f.exists(): continue
    m=json.loads(str(np.load(f)['meta'])); log=read_log(r['text'])
    for kind,thing,t in m['moments']:
        if kind in('grasp','release','push','press','insert','miss'):
            lab=event_label(kind,thing)
            near=[e for e in log.events if abs(e.time-t)<=.3]
            same=[e for e in near if e.name==lab]
            held=(('pick' if kind in('grasp','release','miss') else kind),thing) in HELD_OUT
            T[(kind,thing,held)]+=1
            if same: ok[(kind,thing,held)]+=1
            else: C[(lab,held,near[0].name if near else '-')]+=1
for k,n in sorted(T.items(),key=lambda x:str(x)): print(k,f'{ok[k]}/{n}')
for k,n in C.most_common(40): print(n,k)
