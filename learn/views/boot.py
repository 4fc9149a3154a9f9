import numpy as np
from collections import defaultdict
from ens import logs, look
from lk import man
from tempoloc_nb.inference.segment import combine_logs
def per(by):
    out=defaultdict(lambda:[0,0])
    for c in man.values():
        log=by[c.extra['shown']]
        for e in c.events:
            if e.absent: continue
            u=look(log,e.label); out[c.extra['shown']][0]+=u is not None and abs(u-e.boundary)<=.25; out[c.extra['shown']][1]+=1
    return out
T=logs('o-t6.jsonl'); V=[logs(f'o-{v}.jsonl') for v in ('base','zoom','left','right','dark')]
a=per({c:combine_logs(v) for c,v in T.items()}); b=per({c:combine_logs([L[c][0] for L in V]) for c in T}); g=per({c:v[0] for c,v in V[0].items()})
keys=sorted(T); rng=np.random.default_rng(0)
for n,(x,y) in {'views - trials':(b,a),'views - greedy':(b,g)}.items():
    d=[]
    for _ in range(4000):
        s=rng.integers(0,len(keys),len(keys)); ks=[keys[i] for i in s]
        d.append(100*sum(x[k][0]-y[k][0] for k in ks)/sum(x[k][1] for k in ks))
    print(n,round(100*sum(x[k][0]-y[k][0] for k in keys)/sum(x[k][1] for k in keys),1),np.percentile(d,[2.5,97.5]).round(1))
