import sys
from dataclasses import replace
from pathlib import Path
if __name__=="__main__":
    from tempoloc_nb.clips.manifest import read_manifest, write_manifest
    from tempoloc_nb.lab.sim.make import render_episodes
    from tempoloc_nb.lab.sim.tasks import find_families
    root=Path(sys.argv[1])
    qs=list(read_manifest(Path(sys.argv[2])))
    for f in find_families("which-validation"):
        seeds={}
        for c in qs:
            k,n=c.extra["shown"].split("/")
            if k==f.key: seeds[int(n)]=c.seed
        print(render_episodes(root,f,[seeds[i] for i in sorted(seeds)],workers=int(sys.argv[3])),flush=True)
    write_manifest(root/"questions.jsonl",[replace(c,video=f"videos/{c.extra['shown']}.mp4") for c in qs])
    print("VAL",len(qs),flush=True)
