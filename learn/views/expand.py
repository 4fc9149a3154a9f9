"""expand.py BENCH ONE_QUESTIONS ROWS OUT: a row for each question of the videos whose logs ROWS has."""
import json,sys
from pathlib import Path
from tempoloc_nb.clips.manifest import load_benchmark, read_manifest
bench=load_benchmark(sys.argv[1]); one={c.clip:c.extra['shown'] for c in read_manifest(Path(sys.argv[2]))}
rows={}
for l in open(sys.argv[3]):
    r=json.loads(l); rows.setdefault(one[r['clip']],{})[r['trial']]=r
with open(sys.argv[4],'w') as f:
    for c in bench.clips:
        for t,r in sorted(rows.get(c.extra['shown'],{}).items()):
            f.write(json.dumps(r|{'clip':c.clip,'task':c.task})+'\n')
import shutil; shutil.copy(Path(sys.argv[3]).with_suffix('.run.json'),Path(sys.argv[4]).with_suffix('.run.json'))
