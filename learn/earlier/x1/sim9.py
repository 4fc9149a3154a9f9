import os, sys, time
for k in ("OMP_NUM_THREADS","OPENBLAS_NUM_THREADS","NUMBA_NUM_THREADS"): os.environ[k]="1"
os.environ["MUJOCO_GL"]="disable"
sys.path.insert(0,os.path.dirname(os.path.abspath(__file__)))
import simstub
from multiprocessing import get_context
from pathlib import Path
KEYS=["which-panda","which-panda-robotiq140","which-iiwa","which-iiwa-panda","which-panda","which-panda-xarm","which-panda-robotiq140","which-iiwa","which-panda","which-panda-robotiq3"]
def work(args):
    i,key,base,until=args
    from tempoloc_nb.lab.sim.tasks import find_families
    from tempoloc_nb.lab.sim.make import _attempt
    fam=find_families("which-sft",key)[0]; root=Path(base)/"which-sft"; (root/"episodes"/key).mkdir(parents=True,exist_ok=True)
    s=300_000+2000*i; n=0
    while time.time()<until:
        try: n+=_attempt(fam,fam.first_seed+s,root)==""
        except Exception as x: print(key,s,repr(x)[:150],flush=True)
        s+=1
    return key,n
if __name__=="__main__":
    base,until,n=sys.argv[1],time.time()+float(sys.argv[2]),int(sys.argv[3])
    os.nice(5)
    with get_context("spawn").Pool(n) as p:
        print([r for r in p.imap_unordered(work,[(i,KEYS[i%len(KEYS)],base,until) for i in range(n)],chunksize=1)],flush=True)
    print("DONE",flush=True)
