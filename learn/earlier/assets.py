import re, sys, os
from pathlib import Path
import robosuite
from tempoloc_nb.lab.sim.scene import make_environment
root = Path(robosuite.__file__).parent
files=set()
combos=[(t,"Panda") for t in ("lift","door","stack-two","stack-three","square","nut-assembly","pick-place","push","press","thread","pour","which")]
combos+=[("which",r) for r in ("IIWA","IIWA-panda","Panda-robotiq140","Panda-xarm","Panda-robotiq3")]
for t,r in combos:
    env=make_environment(t,r); env.reset()
    xml=env.sim.model.get_xml()
    for f in re.findall(r'file="([^"]+)"',xml): files.add(f)
rel=sorted({os.path.relpath(f,root) for f in files})
Path('/work/tmp/kit/assets.txt').write_text("\n".join(rel))
print(len(rel), sum((root/f).stat().st_size for f in rel)/1e6)
