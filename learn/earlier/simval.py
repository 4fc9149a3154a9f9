import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.lab.sim.tasks import find_families
from tempoloc_nb.lab.sim.make import _attempt, _save_model
def go(job):
    fam, seed = job
    return _attempt(fam, seed, Path("/work/tmp/sim/which-validation"))
if __name__ == "__main__":
    import tempoloc_nb.core.settings
    fams={f.key:f for f in find_families("which-validation")}
    jobs={}
    for c in load_benchmark("which-validation").clips:
        key,num=c.extra["shown"].split("/")
        jobs[(key,int(num))]=(fams[key],c.seed)
    jobs=[jobs[k] for k in sorted(jobs)]
    for k in fams: Path(f"/work/tmp/sim/which-validation/episodes/{k}").mkdir(parents=True,exist_ok=True)
    with ProcessPoolExecutor(2, get_context("spawn")) as p:
        for i,(j,r) in enumerate(zip(jobs,p.map(go,jobs))): print(i,j[0].key,j[1],r,flush=True)
    for k,f in fams.items():
        path=Path(f"/work/tmp/sim/which-validation/models/{f.task}-{f.robot}.xz"); path.parent.mkdir(exist_ok=True)
        _save_model(f.task,f.robot,path)
