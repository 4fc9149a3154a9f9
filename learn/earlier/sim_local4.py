import os, sys, time
for k in ("OMP_NUM_THREADS","OPENBLAS_NUM_THREADS","NUMBA_NUM_THREADS"): os.environ[k]="1"
os.environ["MUJOCO_GL"]="disable"
from multiprocessing import get_context
from pathlib import Path
W=[("which-panda",.30),("which-iiwa",.14),("which-iiwa-panda",.18),("which-panda-robotiq140",.14),("which-panda-xarm",.14),("which-panda-robotiq3",.10)]
OLD={}
for t in ("push","press","thread","pour"): OLD[f"gaps-sft/{t}-panda"]=36
for t in ("stack-three","square","pick-place","stack-two"): OLD[f"sft/{t}"]=36
for r in ("panda","panda-robotiq140"): OLD[f"detours-sft/stack-three-{r}-detours"]=16
def model(fam, root):
    from tempoloc_nb.lab.sim.make import _save_model
    path=root/"models"/f"{fam.task}-{fam.robot}.xz"
    if not path.exists():
        path.parent.mkdir(parents=True,exist_ok=True); _save_model(fam.task,fam.robot,path)
def work(args):
    i,n,base,until=args
    base=Path(base)
    import random
    from tempoloc_nb.lab.sim.tasks import find_families
    from tempoloc_nb.lab.sim.make import _attempt
    R=random.Random(i)
    seeds={k:400_000+3000*i for k,_ in W}
    todo=sorted(OLD.items())[i::n]
    old=iter([(s,t) for s,t in todo])
    from tempoloc_nb.lab.sim.demonstration import workshop
    def which(count):
        k=R.choices([k for k,_ in W],[w for _,w in W])[0]
        fam=find_families("which-sft",k)[0]; root=base/"which-sft"; (root/"episodes"/k).mkdir(parents=True,exist_ok=True); model(fam,root)
        for _ in range(count):
            if time.time()>until: return
            try: _attempt(fam,fam.first_seed+seeds[k],root)
            except Exception as x: print(k,seeds[k],repr(x)[:150],flush=True)
            seeds[k]+=1
    while time.time()<until:
        s=next(old,None)
        if s is None: break
        if s:
            split,k=s[0].split("/"); fam=find_families(split,k)[0]; root=base/split; (root/"episodes"/k).mkdir(parents=True,exist_ok=True)
            got=0; q=200
            while got<s[1] and time.time()<until and q<200+3*s[1]:
                try: got+=_attempt(fam,fam.first_seed+q,root)=="" and True
                except Exception as x: print(s,repr(x)[:150],flush=True)
                q+=1
            model(fam,root); workshop.cache_clear()
    if i==0:
        from tempoloc_nb.lab.sim.tasks import ClipFamily
        model(ClipFamily("nut-assembly","nut-assembly","own","Panda",0), base/"sft")
if __name__=="__main__":
    base,until,n=sys.argv[1],time.time()+float(sys.argv[2]),int(sys.argv[3])
    with get_context("spawn").Pool(n) as p: list(p.imap_unordered(work,[(i,n,base,until) for i in range(n)]))
    print("DONE",flush=True)
