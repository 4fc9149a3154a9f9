import json,sys
from collections import defaultdict,Counter
from pathlib import Path
from tempoloc_nb.clips.manifest import read_manifest
from tempoloc_nb.scoring.logs import read_log, look_up, name_key
from tempoloc_nb.lab.sim.which_plan import HELD_OUT
Q=list(read_manifest(Path('wu/questions.jsonl'))); by={c.clip:c for c in Q}
for f in sys.argv[1:]:
    seen={}; 
    for l in open(f):
        r=json.loads(l); c=by[r['clip']]; seen.setdefault(c.extra['shown'],read_log(r['text'],c.duration))
    S=defaultdict(lambda:[0,0]); C=Counter()
    for c in Q:
        if c.extra['kind']!='all': continue
        log=seen[c.extra['shown']]
        for e,(s,g) in zip(c.events,look_up(log,c.labels)):
            g=getattr(g,'time',g)
            lab=e.label.split(' for the ')[0]; ok=g is not None and abs(g-e.boundary)<=.25
            S[lab][0]+=ok;S[lab][1]+=1
            if not ok:
                near=[x.name for x in log.events if abs(x.time-e.boundary)<.4]; C[(lab,near[0] if near else '-')]+=1
    print(f,'  '.join(f'{k} {a}/{n}' for k,(a,n) in sorted(S.items()) if a<n)); print(C.most_common(22))
