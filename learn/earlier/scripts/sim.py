"""Simulate the old families, then which-sft until a deadline: python sim.py ROOT SECONDS PROCS"""
import os, sys, time
for k in ("OMP_NUM_THREADS","OPENBLAS_NUM_THREADS","NUMBA_NUM_THREADS"): os.environ[k]="1"
os.environ["MUJOCO_GL"]="disable"
from multiprocessing import get_context
from pathlib import Path
import types
try: import av
except ImportError:
    class Stub(types.ModuleType):
        __path__=[]
        def __getattr__(self,n):
            if n.startswith("__"): raise AttributeError(n)
            return type(n,(Exception,),{})
    for m in ("av","av.container","av.stream","av.video","av.video.frame","av.video.stream","av.error","av.video.reformatter","av.packet","av.filter","av.audio","av.codec"): sys.modules[m]=Stub(m)
SHARES={"which-panda":26,"which-iiwa":11,"which-iiwa-panda":8,"which-panda-robotiq140":11,"which-panda-xarm":5,"which-panda-robotiq3":3}
OLD={}
for t in ("stack-three","square","stack-two","pick-place"):
    OLD[f"sft/{t}"]=90
    for r in ("iiwa","panda-robotiq140","iiwa-panda"): OLD[f"hands/{t}-{r}"]=20
for t in ("door","lift"): OLD[f"base/{t}"]=30
for t in ("press","push","thread","pour"): OLD[f"gaps-sft/{t}-panda"]=30
for r in ("panda","panda-robotiq140"): OLD[f"detours-sft/stack-three-{r}-detours"]=40
def model(fam, root):
    from tempoloc_nb.lab.sim.make import _save_model
    path=root/"models"/f"{fam.task}-{fam.robot}.xz"
    if not path.exists():
        path.parent.mkdir(parents=True,exist_ok=True); _save_model(fam.task,fam.robot,path)
def work(args):
    old, key, first, base, until = args
    from tempoloc_nb.lab.sim.tasks import find_families, ClipFamily
    from tempoloc_nb.lab.sim.make import _attempt
    base=Path(base); counts={}
    for spec, target in old:
        split,k=spec.split("/"); fam=find_families(split,k)[0]; root=base/split
        (root/"episodes"/k).mkdir(parents=True,exist_ok=True)
        n=0; s=0
        while n<target and time.time()<until-40:
            try: n+=_attempt(fam,fam.first_seed+s,root)==""
            except Exception as x: print(spec,s,repr(x)[:200],flush=True)
            s+=1
        model(fam,root); counts[spec]=n
    fam=find_families("which-sft",key)[0]; root=base/"which-sft"
    (root/"episodes"/key).mkdir(parents=True,exist_ok=True)
    if first % 10000 == 0: model(fam,root)
    n=0; s=first
    while time.time()<until:
        try: n+= _attempt(fam,fam.first_seed+s,root)==""
        except Exception as x: print(key,s,repr(x)[:200],flush=True)
        s+=1
    counts[key]=n
    return counts, s-first
def nut(args):
    from tempoloc_nb.lab.sim.tasks import ClipFamily
    model(ClipFamily("nut-assembly","nut-assembly","own","Panda",0), Path(args)/"sft")
if __name__=="__main__":
    base,seconds,procs=sys.argv[1],float(sys.argv[2]),int(sys.argv[3])
    until=time.time()+seconds
    total=sum(SHARES.values()); jobs=[]
    for key,w in SHARES.items():
        for j in range(max(1,round(procs*w/total))): jobs.append([[],key,100_000+1000*j,base,until])
    for j in jobs:
        if j[1]=="which-panda" and j[2]==100_000: j[2]=100_000
    specs=sorted(OLD.items(), key=lambda x:-x[1])
    later=[j for j in jobs if j[1] in ("which-panda","which-iiwa","which-panda-robotiq140") and j[2]!=100_000]
    for i,s in enumerate(specs): later[i%len(later)][0].append(s)
    print(len(jobs),[len(j[0]) for j in jobs],flush=True)
    with get_context("spawn").Pool(len(jobs)) as pool:
        extra=pool.apply_async(nut,(base,))
        tot={}; tried=0
        for counts,k in pool.imap_unordered(work,jobs,chunksize=1):
            tried+=k
            for key,n in counts.items(): tot[key]=tot.get(key,0)+n
        extra.get()
    print("SIM",tot,"which",sum(n for k,n in tot.items() if k.startswith("which")),"tried",tried,flush=True)
    (Path(base)/"done").write_text("1")
