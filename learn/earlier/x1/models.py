import os, sys
os.environ["MUJOCO_GL"]="disable"
sys.path.insert(0,os.path.dirname(__file__))
import simstub
from multiprocessing import get_context
from pathlib import Path
def go(a):
    task,robot,path=a
    from tempoloc_nb.lab.sim.make import _save_model
    p=Path(path); p.parent.mkdir(parents=True,exist_ok=True)
    try: _save_model(task,robot,p)
    except Exception as x: print(a,repr(x)[:200],flush=True)
if __name__=="__main__":
    base=Path(sys.argv[1])
    from tempoloc_nb.lab.sim.tasks import find_families
    jobs=[("nut-assembly","Panda",str(base/"sft/models/nut-assembly-Panda.xz"))]
    for r in sorted(base.iterdir()):
        for f in (r/"episodes").iterdir():
            fam=find_families(r.name,f.name)[0]
            jobs.append((fam.task,fam.robot,str(r/"models"/f"{fam.task}-{fam.robot}.xz")))
    jobs+=[(f.task,f.robot,str(base/"which-sft"/"models"/f"which-{f.robot}.xz")) for f in find_families("which-sft") if f.robot!="XArm7"]
    jobs=sorted(set(jobs))
    with get_context("spawn").Pool(15) as p: list(p.imap_unordered(go,jobs,chunksize=1))
    print("MODELS",len(jobs),flush=True)
