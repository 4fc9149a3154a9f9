import json,lzma
from pathlib import Path
L=Path('/work/tmp/lg'); D=Path('/work/main/data/training')
stage={1:None,3:'again',4:'clips',5:'visits',6:'names'}
rows=[];off=0;calls=[]
secs={1:507.5,3:1501.8,4:1030.0,5:862.9,6:884.2}
for k,most in ((1,7000),(3,16000),(4,11000),(5,6198),(6,6403)):
    got=[json.loads(l) for l in open(next(L.glob(f'{k}/**/V0/log.jsonl')))]
    for r in got:
        if r['step']<=most and r['step']%60==0:
            r=dict(r); r['step']+=off
            if stage[k]: r['stage']=stage[k]
            rows.append(r)
    off+=most; calls.append({'to_step':off,'seconds':secs[k]})
(D/'sft.jsonl.xz').write_bytes(lzma.compress(''.join(json.dumps(r)+'\n' for r in rows).encode(),preset=9|lzma.PRESET_EXTREME))
print((D/'sft.jsonl.xz').stat().st_size,len(rows))
run=json.load(open(L/'3/out/V0/run.json'))
run|={'config':'sft','seed':0,'calls':calls}
(D/'sft.run.json').write_text(json.dumps(run,indent=2)+'\n')
