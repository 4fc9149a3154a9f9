import sys
from dataclasses import replace
from pathlib import Path
if __name__=="__main__":
    from tempoloc_nb.clips.manifest import load_benchmark, write_manifest
    from tempoloc_nb.lab.sim.render import process_pool, render_job
    root=Path("/work/tmp/kit2/val")
    qs=list(load_benchmark("which-validation").clips)
    jobs=[]; seen=set()
    for c in qs:
        k=c.extra["shown"]
        if k in seen: continue
        seen.add(k); key,_,n=k.partition("/")
        ep=root/"episodes"/key/f"{c.seed:09d}.npz"
        if not ep.exists(): print("no",k,c.seed); continue
        robot={"which-panda":"Panda","which-kinova3":"Kinova3"}[key]
        out=root/"videos"/f"{k}.mp4"; out.parent.mkdir(parents=True,exist_ok=True)
        if not out.exists(): jobs.append((ep,root/"models"/f"which-{robot}.xz",out,256,c.fps,23))
    print(len(qs),len(jobs),qs[0].fps,flush=True)
    jobs.sort(key=lambda j:str(j[1]))
    with process_pool(1,len(jobs)) as pool:
        for i,n in enumerate(pool.map(render_job,jobs)): print(i,n,flush=True)
