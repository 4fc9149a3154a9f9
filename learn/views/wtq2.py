from dataclasses import replace
from pathlib import Path
from tempoloc_nb.clips.manifest import load_benchmark, write_manifest
import shutil
root=Path('/work/tmp/whichtest/which/work/videos'); d=Path('wu'); (d/'videos').mkdir(parents=True,exist_ok=True)
ok=[]
for c in load_benchmark('which').clips:
    k=c.extra['shown']; v=root/f'{k}.mp4'; t=d/'videos'/f'{k}.mp4'
    if not v.exists() and not t.exists():
        v=Path('/work/main/data/benchmarks/which/videos')/f'{k}.mp4'
    if not t.exists() and v.exists():
        try:
            from tempoloc_nb.video.files import probe
            probe(v)
        except Exception: continue
        t.parent.mkdir(parents=True,exist_ok=True); shutil.copy(v,t)
    if t.exists(): ok.append(replace(c,video=f'videos/{k}.mp4'))
write_manifest(d/'questions.jsonl',ok); print(len(ok),len({c.extra['shown'] for c in ok}))
