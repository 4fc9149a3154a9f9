import json, collections
from tempoloc_nb.clips.manifest import load_benchmark, read_manifest
from tempoloc_nb.scoring.logs import read_log, true_log, match_logs
from tempoloc_nb.lab.sim.which_questions import thing_label
R='/work/tmp/hand_res/'
man={c.clip:c for c in read_manifest(R+'clips/manifest.jsonl')}
truth={k:true_log([(a,thing_label(b),t) for a,b,t in c.extra['log']]) for k,c in man.items()}
def logs(name):
    out={}
    for l in open(R+name+'.jsonl'):
        d=json.loads(l); out.setdefault(d.get('shown') or d['clip'].split(':')[0].split('?')[0], d['text'])
    return out
q=load_benchmark(R+'keep'); shown={c.clip:c.extra['shown'] for c in q.clips}
for name in ['tempoloc-tiny']+[f'adapted-{n}-seed{s}' for n in (10,50) for s in range(3)]:
    texts={}
    for l in open(R+name+'.jsonl'):
        d=json.loads(l); texts[shown[d['clip']]]=d['text']
    tp=tt=f=bad=0; named=0
    st=collections.Counter()
    for k,t in texts.items():
        lg=read_log(t, man[k].duration); st[lg.status]+=1
        m=match_logs(lg.events, truth[k].events, .25); m2=match_logs(lg.events, truth[k].events, .25, names=False)
        tp+=len(m.pairs); named+=len(m2.pairs); tt+=m.truth; f+=m.found
    print(name, dict(st), f'F1 {2*tp/(f+tt):.2f} times alone {2*named/(f+tt):.2f} found {f} truth {tt}')
k=list(texts)[3]
print([ (round(e.time,2), e.numbered, e.outcome) for e in truth[k].events], [(round(e.time,2),e.name) for e in truth[k].moments])
for name in ('tempoloc-tiny','adapted-10-seed1','adapted-50-seed0','adapted-50-seed2'):
    for l in open(R+name+'.jsonl'):
        d=json.loads(l)
        if shown[d['clip']]==k: print(name, d['text']); break
for name in [f'adapted-{n}-seed{s}' for n in (10,50) for s in range(3)]:
    seen=set()
    for l in open(R+name+'.jsonl'):
        d=json.loads(l); k=shown[d['clip']]
        if k in seen: continue
        seen.add(k); lg=read_log(d['text'], man[k].duration)
        if lg.status!='ok': print(name,k,man[k].duration,lg.status,lg.faults[:3])
