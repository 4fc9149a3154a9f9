"""Fresh clips of which-validation's families: python val.py ROOT N PROCS  (needs av)"""
import os, sys, time
for k in ("OMP_NUM_THREADS","OPENBLAS_NUM_THREADS","NUMBA_NUM_THREADS"): os.environ[k]="1"
from dataclasses import replace
from pathlib import Path
if __name__=="__main__":
    from tempoloc_nb.lab.sim.make import simulate_clips
    from tempoloc_nb.lab.sim.tasks import find_families
    from tempoloc_nb.lab.sim.which_questions import which_questions
    from tempoloc_nb.clips.manifest import read_manifest, write_manifest
    root,n,procs=Path(sys.argv[1]),int(sys.argv[2]),int(sys.argv[3])
    t=time.time()
    for f in find_families("which-validation"):
        print(simulate_clips(replace(f,first_seed=f.first_seed+500_000),n,root,render=True,states=False,workers=procs),round(time.time()-t),flush=True)
    clips=list(read_manifest(root/"manifest.jsonl"))
    write_manifest(root/"questions.jsonl",[q for c in clips for q in which_questions(c)])
    print("VAL",len(clips),flush=True)
