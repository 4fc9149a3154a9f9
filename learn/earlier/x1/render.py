import sys, time, random
from pathlib import Path
from tempoloc_nb.lab.tiny import frame_store as fs
if __name__=="__main__":
    base,out,looks,workers=Path(sys.argv[1]),Path(sys.argv[2]),int(sys.argv[3]),int(sys.argv[4])
    t=time.time()
    fs.SCENES_A_PART=250
    jobs=[]
    models=out/"models"; models.mkdir(parents=True,exist_ok=True)
    for r in sorted(base.iterdir()):
        if r.name=="which-validation": continue
        if not (r/"episodes").is_dir(): continue
        for f in (r/"episodes").iterdir():
            if not list(f.glob("*.npz")): print("none in",f); f.rename(r/f"empty-{f.name}")
        for m in (r/"models").glob("*.xz"):
            if not (models/m.name).exists(): (models/m.name).symlink_to(m)
        jobs+=fs.episode_jobs(r,out/r.name,per_part=4 if r.name=="which-sft" else 6,looks=looks)
    jobs+=fs.scene_jobs(models,out/"scenes",6000)
    jobs+=fs.scene_jobs(models,out/"scenes",10000,shares={"which":1.0})
    random.Random(0).shuffle(jobs)
    n=fs.make_parts(jobs,workers)
    print("RENDER",len(jobs),n,round(time.time()-t,1),flush=True)
    dst=out/"all"; dst.mkdir(exist_ok=True)
    for d in out.iterdir():
        if d.is_dir() and d.name not in ("all","models"):
            for p in d.glob("*.npz"): p.rename(dst/f"{d.name}-{p.name}")
