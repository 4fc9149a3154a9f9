import shutil
from pathlib import Path
import sys
src=Path('/work/tmp/venv312/lib/python3.12/site-packages/robosuite'); dst=Path('/work/tmp/kit/rs/robosuite')
shutil.rmtree(dst.parent, ignore_errors=True)
keep=set(Path('/work/tmp/kit/assets.txt').read_text().split())
n=0
for f in src.rglob('*'):
    if f.is_dir() or '__pycache__' in f.parts: continue
    r=f.relative_to(src); s=str(r)
    if s.startswith('models/assets') and f.suffix not in ('.xml','.json') and s not in keep: continue
    if s.startswith('models/assets/robots') and r.parts[3] not in ('panda','iiwa','ur5e','kinova3','xarm7'): continue
    (dst/r).parent.mkdir(parents=True, exist_ok=True); shutil.copyfile(f, dst/r); n+=f.stat().st_size
print(n/1e6)
