import json,re,sys
from collections import Counter,defaultdict
from pathlib import Path
from tempoloc_nb.clips.manifest import read_manifest
from tempoloc_nb.scoring.answers import parse_answer
man={c.clip:c for c in read_manifest(Path('questions.jsonl'))}
kinds=Counter(); ex=defaultdict(list); per=defaultdict(lambda:[0,0]); conf=Counter(); logs=defaultdict(set)
for f in sys.argv[1:]:
  for line in open(f):
    r=json.loads(line); c=man[r['clip']]; t=r['text']
    log=[(float(m[1]),m[2].strip()) for m in re.finditer(r'^([\d.]+) (.+?) [\d.]+$',t.split('\n\n')[0],re.M)]
    logs[c.extra['shown']].add(tuple(log))
    base=lambda s: re.sub(r' for the \w+ time','',s)
    a=parse_answer(t,[e.label for e in c.events],c.duration)
    for e,q in zip(c.events,a.events):
        if e.absent: continue
        per[c.extra['shown']][1]+=1
        b=q.boundary()
        if q.status=='ok' and abs(b-e.boundary)<=0.25: per[c.extra['shown']][0]+=1; continue
        verb=base(e.label).split(' the ')[0]; obj=base(e.label).split(' the ',1)[1]
        near=[(u,l) for u,l in log if abs(u-e.boundary)<=0.25 and l.split(' the ')[0]==verb]
        same=[(u,l) for u,l in near if base(l)==base(e.label)]
        if same: k='log right, lookup wrong'
        elif near: k='log: other object'; conf[(obj,base(near[0][1]).split(' the ',1)[1])]+=1
        else:
            near2=[(u,l) for u,l in log if abs(u-e.boundary)<=1.0 and base(l)==base(e.label)]
            any_=[(u,l) for u,l in log if abs(u-e.boundary)<=0.25]
            k='log: time off within 1 s' if near2 else 'log: other verb then' if any_ else 'log: nothing there'
        kinds[k]+=1; ex[k].append((r['clip'],e.label,round(e.boundary,2),q.status,b,[x for x in log if abs(x[0]-e.boundary)<1.5]))
print(kinds); print(conf.most_common(20))
for k in ex:
    print('==',k)
    for x in ex[k][:8]: print('  ',x)
bad=sorted(per.items(),key=lambda kv:kv[1][0]/kv[1][1])
print(len(per),[(k,v) for k,v in bad][:24])
print('distinct logs a clip',Counter(len(v) for v in logs.values()))
