import sys, numpy as np
from dataclasses import replace
from pathlib import Path
from PIL import Image as I
from tempoloc_nb.clips.manifest import read_manifest, write_manifest
from tempoloc_nb.video.files import encode, probe, read
q=[c for c in read_manifest(Path('questions.jsonl'))]
one={}
for c in q:
    k=c.extra['shown']
    if k not in one or c.extra['kind']=='alone' and one[k].extra['kind']!='alone': one[k]=c
def zoom(a,s,dx=0,dy=0):
    h,w=a.shape[:2]; m=round(h*(1-s)/2)
    return np.asarray(I.fromarray(a).crop((m+dx,m+dy,w-m+dx,h-m+dy)).resize((w,h),I.Resampling.BICUBIC))
V={'zoom':lambda a:zoom(a,.93),'left':lambda a:zoom(a,.95,-6,4),'right':lambda a:zoom(a,.95,6,-4),'dark':lambda a:(a*.82).astype(np.uint8),'phase':None}
for name,f in V.items():
    out=[]
    for k,c in one.items():
        t=Path(f'variants/{name}/{k}.mp4'); t.parent.mkdir(parents=True,exist_ok=True)
        p=probe(Path('videos')/f'{k}.mp4'); ims=list(read(Path('videos')/f'{k}.mp4').images)
        if name=='phase': ims=ims[2:]; g=ims
        else: g=[f(np.asarray(a)) for a in ims]
        if not t.exists(): encode(t,g,p.fps,options={'crf':'18'})
        out.append(replace(c,video=f'{k}.mp4'))
    write_manifest(Path(f'variants/{name}/questions.jsonl'),out); print(name,len(out),flush=True)
write_manifest(Path('one.jsonl'),list(one.values()))
