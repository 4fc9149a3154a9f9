import json,sys
from collections import defaultdict
from pathlib import Path
from tempoloc_nb.scoring.logs import read_log
from tempoloc_nb.inference.segment import combine_logs
from lk import man, base, ORD
import re
def logs(f,shift=0.0):
    out=defaultdict(list)
    for line in open(f):
        r=json.loads(line); c=man[r['clip']]
        think=r['text'].split('\n\n')[0]+'\n</think>'
        out[c.extra['shown']].append(read_log(think))
    return out
def look(log,label):
    m=re.search(r' for the (\w+) time',label); n=ORD[m[1]] if m else 1
    hits=[e.time for e in log.events if e.name==base(label)]
    return hits[n-1] if len(hits)>=n else None
def report(by,name):
    S=defaultdict(lambda:[0,0]); per=defaultdict(lambda:[0,0])
    for c in man.values():
        log=by.get(c.extra['shown'])
        if log is None: continue
        for e in c.events:
            u=look(log,e.label); ok= u is None if e.absent else u is not None and abs(u-e.boundary)<=.25
            for k in (c.extra['kind']+(' absent' if e.absent else ''),'absent' if e.absent else 'present'):
                S[k][0]+=ok;S[k][1]+=1
            if not e.absent:
                S['denied'][0]+=u is None;S['denied'][1]+=1
                per[c.extra['shown']][0]+=ok;per[c.extra['shown']][1]+=1
    print(f'{name:26s}',' '.join(f'{k} {100*a/n:.1f}' for k,(a,n) in sorted(S.items())), S['present'][1])
    return per
if __name__=='__main__':
    have={}
    for f in sys.argv[1:]:
        L=logs(f); have[f]=L
        report({k:v[0] for k,v in L.items()},f)
    if len(have)>1:
        for span in (.5,1.0):
            m={k:combine_logs([x for L in have.values() for x in L.get(k,[])],span) for k in next(iter(have.values()))}
            report(m,f'merged span {span}')
