"""sc.py QUESTIONS ROWS...: logs looked up for every question of their video; several trials combined as the product does."""
import json,sys,numpy as np
from collections import defaultdict
from pathlib import Path
from tempoloc_nb.clips.manifest import read_manifest
from tempoloc_nb.scoring.logs import read_log, look_up
from tempoloc_nb.inference.consensus import _combine_events
def get(x): return None if x is None else getattr(x,'time',x)
Q=list(read_manifest(Path(sys.argv[1]))); by={c.clip:c for c in Q}
for f in sys.argv[2:]:
    logs=defaultdict(dict); bad=0
    for l in open(f):
        r=json.loads(l); c=by[r['clip']]; logs[c.extra['shown']].setdefault(r['trial'], (read_log(r['text'],c.duration), r['text']))
    S=defaultdict(lambda:[0,0]); per=defaultdict(lambda:[0,0])
    for c in Q:
        own=logs.get(c.extra['shown'])
        if not own: continue
        ans=[look_up(own[t][0],c.labels) for t in sorted(own)]
        T=np.array([[get(t) if get(t) is not None else np.nan for _,t in a] for a in ans],float); A=np.array([[s=='absent' for s,_ in a] for a in ans])
        got=_combine_events(c.labels,T,T*np.nan,.25,'start',A)
        for e,g in zip(c.events,got):
            ok = g.absent if e.absent else g.boundary is not None and abs(g.boundary-e.boundary)<=.25
            keys=[c.extra['kind']+(' absent' if e.absent else ''),'absent' if e.absent else 'present']
            if not e.absent:
                fam=c.extra['shown'].split('/')[0]; h='held' if c.extra.get('held_out') else 'seen'; keys+=[fam,h,h+' '+fam]
                S['denied'][0]+=g.absent; S['denied'][1]+=1
                per[c.extra['shown']][0]+=ok; per[c.extra['shown']][1]+=1
            for k in keys: S[k][0]+=ok; S[k][1]+=1
    print(f,len(logs),'clips, unusable logs',sum(not l.usable for o in logs.values() for l,_ in o.values()))
    print('  '.join(f'{k} {100*x/n:.1f} ({n})' for k,(x,n) in sorted(S.items()) if not k.startswith('all-')))
