import json,re,sys
from collections import Counter,defaultdict
from pathlib import Path
from tempoloc_nb.clips.manifest import read_manifest
from tempoloc_nb.scoring.answers import parse_answer
man={c.clip:c for c in read_manifest(Path('questions.jsonl'))}
def getlog(t):
    return [(float(m[1]),m[2].strip()) for m in re.finditer(r'^([\d.]+) (.+?) [\d.]+$',t.split('\n\n')[0],re.M) if m[2]!='end']
def base(s): return re.sub(r' for the \w+ time','',s)
ORD={'first':1,'second':2,'third':3,'fourth':4,'fifth':5}
def look(log,label):
    m=re.search(r' for the (\w+) time',label); n=ORD[m[1]] if m else 1
    hits=[u for u,l in log if base(l)==base(label)]
    return hits[n-1] if len(hits)>=n else None
def score(f, logs=None):
    S=defaultdict(lambda:[0,0,0])
    rows=[json.loads(x) for x in open(f)] if f else []
    for r in rows:
        c=man[r['clip']]; a=parse_answer(r['text'],[e.label for e in c.events],c.duration); log=getlog(r['text'])
        for e,q in zip(c.events,a.events):
            k=c.extra['kind']+(' absent' if e.absent else '')
            b=q.boundary()
            okm = q.status=='absent' if e.absent else q.status=='ok' and abs(b-e.boundary)<=.25
            u=look(log,e.label); okl = u is None if e.absent else u is not None and abs(u-e.boundary)<=.25
            for kk in (k,'present' if not e.absent else 'absent'):
                S[kk][0]+=okm;S[kk][1]+=okl;S[kk][2]+=1
            if not e.absent: S['denied'][0]+=q.status=='absent'; S['denied'][1]+=u is None; S['denied'][2]+=1
    return S
if __name__=='__main__':
    for k,(m,l,n) in sorted(score(sys.argv[1]).items()): print(f'{k:20s} model {100*m/n:5.1f}  lookup {100*l/n:5.1f}  of {n}')
