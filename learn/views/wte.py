import json,sys,re
from collections import Counter
from pathlib import Path
from tempoloc_nb.clips.manifest import read_manifest
import numpy as np
man={c.clip:c for c in read_manifest(Path('wt/questions.jsonl'))}
root=Path('/work/tmp/whichtest/which/work/episodes')
from tempoloc_nb.lab.sim.which_questions import event_label
from tempoloc_nb.lab.sim.which_plan import HELD_OUT
seen=set(); C=Counter()
for l in open(sys.argv[1]):
    r=json.loads(l); c=man[r['clip']]; k=c.extra['shown']
    if k in seen: continue
    seen.add(k); fam=k.split('/')[0]; f=root/fam/f'{c.seed:09d}.npz'
    if not f.exists(): continue
    m=json.loads(str(np.load(f)['meta']))
    lines=[(float(a),re.sub(r' for the .* time','',b)) for a,b in re.findall(r'^([\d.]+) (.+?) [\d.]+$',r['text'],re.M)]
    for kind,thing,t in m['moments']:
        if kind=='grasp' and ('pick',thing) in HELD_OUT:
            true=event_label('grasp',thing).split(' the ')[1]
            arr=[b.split(' the ')[1] for a,b in lines if b.startswith('arriving') and t-1.8<a<t]
            g=[b.split(' the ')[1] for a,b in lines if b.startswith('grasp') and abs(a-t)<.3]
            print(k,thing,'arrive:',arr,'grasp:',g)
            C[(bool(arr) and arr[-1]==true, bool(g) and g[0]==true)]+=1
print(C)
