import json,sys
from collections import defaultdict
from lk import man
from tempoloc_nb.scoring.answers import parse_answer
from tempoloc_nb.inference.consensus import combine_answers
def texts(fs):
    out=defaultdict(list)
    for f in fs:
        for l in open(f):
            r=json.loads(l); out[r['clip']].append(r['text'])
    return out
def rep(name,T):
    ok=n=den=abs_ok=abs_n=0; conf=[]
    for c,ts in T.items():
        clip=man[c]; a=[parse_answer(t,[e.label for e in clip.events],clip.duration) for t in ts]
        for e,q in zip(clip.events,combine_answers(a,.25,'start')):
            if e.absent: abs_n+=1; abs_ok+=q.absent; continue
            good=q.boundary is not None and abs(q.boundary-e.boundary)<=.25
            ok+=good; n+=1; den+=q.absent; conf.append((q.confidence or 0,good))
    pos=[c for c,g in conf if g]; neg=[c for c,g in conf if not g]
    auc=sum((p>q)+.5*(p==q) for p in pos for q in neg)/max(1,len(pos)*len(neg))
    print(name,f'{100*ok/n:.1f} of {n}, denied {100*den/n:.1f}, AUROC {auc:.2f}')
rep('base',texts(['o-base.jsonl'])); rep('5 trials',texts(['o-t6.jsonl']))
rep('5 views',texts([f'o-{v}.jsonl' for v in ('base','zoom','left','right','dark')]))
rep('4 views',texts([f'o-{v}.jsonl' for v in ('base','zoom','left','right')]))
rep('3 views',texts([f'o-{v}.jsonl' for v in ('base','zoom','right')]))
