"""Per trial look-up, then the product's consensus (median of usable, absent by majority), against merged log then look-up."""
import sys, numpy as np
from collections import defaultdict
from ens import logs, look, man, report, base
from tempoloc_nb.inference.segment import combine_logs
from tempoloc_nb.inference.consensus import _combine_events
L=logs(sys.argv[1]); n=int(sys.argv[2]) if len(sys.argv)>2 else 5; L={k:v[:n] for k,v in L.items() if len(v)>=n}; print(len(L),'clips')
report({c:v[0] for c,v in L.items()},'first (whole)'); report({c:combine_logs(v) for c,v in L.items()},'merged, then looked up')
S=defaultdict(lambda:[0,0])
for c in man.values():
    own=L.get(c.extra['shown'])
    if own is None: continue
    t=np.array([[x if (x:=look(l,e.label)) is not None else np.nan for e in c.events] for l in own],float)
    for e,got in zip(c.events,_combine_events(c.labels,t,t*np.nan,.25,'start',np.isnan(t))):
        ok = got.absent if e.absent else got.boundary is not None and abs(got.boundary-e.boundary)<=.25
        for k in (c.extra['kind']+(' absent' if e.absent else ''),'absent' if e.absent else 'present'): S[k][0]+=ok;S[k][1]+=1
        if not e.absent: S['denied'][0]+=got.absent;S['denied'][1]+=1
print('looked up, then combined  ',' '.join(f'{k} {100*a/m:.1f}' for k,(a,m) in sorted(S.items())))
