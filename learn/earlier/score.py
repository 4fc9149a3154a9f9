"""score.py MANIFEST PRED...: shares by kind of question"""
import json, sys, lzma
from collections import defaultdict
from pathlib import Path
from tempoloc_nb.clips.manifest import read_manifest
from tempoloc_nb.scoring.answers import parse_answer
man={c.clip:c for c in read_manifest(Path(sys.argv[1]))}
S=defaultdict(lambda:[0,0]); status=defaultdict(int); n=0
def add(k,ok): S[k][0]+=ok; S[k][1]+=1
for p in sys.argv[2:]:
    for l in (lzma.open if p.endswith('xz') else open)(p,'rt'):
        r=json.loads(l); c=man[r['clip']]; n+=1
        kind=c.extra.get('kind',c.task) if c.extra else c.task
        if kind=='sim': kind=c.task
        a=parse_answer(r['text'],[e.label for e in c.events],c.duration)
        for e,q in zip(c.events,a.events):
            status[q.status]+=1
            t=q.boundary()
            if e.absent: add(kind+' absent',q.status=='absent')
            else:
                ok=q.status=='ok' and t is not None and abs(t-e.boundary)<=.25
                add(kind,ok); add('present',ok); add('denied',q.status=='absent')
                if c.extra.get('held_out'): add('held-out q',ok)
                add('arm '+str(c.robot),ok)
print(n,dict(status))
for k in sorted(S): print(f'{k:28s} {100*S[k][0]/S[k][1]:5.1f}  {S[k][1]}')
