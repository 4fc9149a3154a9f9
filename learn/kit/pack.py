import json, sys, shutil
from pathlib import Path
import numpy as np
src,dst=Path(sys.argv[1]),Path(sys.argv[2])
only=[src/x for x in Path(sys.argv[3]).read_text().split()] if len(sys.argv)>3 else sorted(src.glob('*/episodes/*/*.npz'))
n=0
for f in only:
    out=dst/f.relative_to(src)
    if out.exists(): continue
    try:
        with np.load(f) as d:
            meta=json.loads(str(d['meta'])); q=d['qpos'][::2]; looks={k:d[k] for k in d.files if k.startswith('looks/')}
    except Exception as x: print(f,x); continue
    meta['rate']=15.0
    q=(np.round(q*16384)/16384).astype(np.float32)
    out.parent.mkdir(parents=True,exist_ok=True)
    looks={k:(v.astype(np.float32) if v.dtype==np.float64 else v) for k,v in looks.items()}
    np.savez(out,meta=np.array(json.dumps(meta)),qpos=q,aperture=np.zeros(0,np.float32),velocity=np.zeros((0,0,3),np.float32),**looks); n+=1



print(n)
