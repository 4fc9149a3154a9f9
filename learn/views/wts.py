import json,sys
from collections import defaultdict
from tempoloc_nb.clips.manifest import read_manifest
from pathlib import Path
from tempoloc_nb.scoring.answers import parse_answer
from tempoloc_nb.lab.sim.which_plan import HELD_OUT
man={c.clip:c for c in read_manifest(Path('wt/questions.jsonl'))}
for f in sys.argv[1:]:
    S=defaultdict(lambda:[0,0]); 
    for l in open(f):
        r=json.loads(l); c=man[r['clip']]; a=parse_answer(r['text'],c.labels,c.duration,form=r.get('form','lines'))
        for e,q in zip(c.events,a.events):
            ok = q.status=='absent' if e.absent else q.usable and abs(q.start-e.boundary)<=.25
            keys=[c.extra['kind']+(' absent' if e.absent else ''),'absent' if e.absent else 'present']
            if not e.absent: 
                fam=c.extra['shown'].split('/')[0]; keys+=[fam,'heldQ' if c.extra.get('held_out') else 'seenQ', (('held ' if c.extra.get('held_out') else 'seen ')+fam)]
                S['denied'][0]+=q.status=='absent'; S['denied'][1]+=1
            for k in keys: S[k][0]+=ok; S[k][1]+=1
    print(f); print('  '.join(f'{k} {100*x/n:.1f} ({n})' for k,(x,n) in sorted(S.items())))
