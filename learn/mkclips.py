import csv,lzma,io
from pathlib import Path
from tempoloc_nb.lab.tiny.frame_store import list_clips, csv_text
S=Path('/work/tmp/allstates')
rows=list_clips([*sorted(S.iterdir()), Path('/work/tmp/stnew/which-sft')])
print(len(rows), rows[0])
p=Path('/work/main/data/training/clips.csv.xz')
old=list(csv.DictReader(io.StringIO(lzma.decompress(p.read_bytes()).decode())))
keys=list(rows[0])
keep=[{k:r[k] for k in keys} for r in old if r['split'] in ('base','validation','test')]
seen={(r['split'],r['family'],r['robot'],str(r['seed'])) for r in keep}
new=[r for r in rows if (r['split'],r['family'],r['robot'],str(r['seed'])) not in seen]
dup=len(rows)-len(new)
allr=keep+sorted(new,key=lambda r:(r['split'],r['family'],r['robot'],int(r['seed'])))
fam={}
for r in allr: fam.setdefault((r['split'],r['family'],r['robot']),[]).append(r)
out=[r for k in fam for r in sorted(fam[k],key=lambda r:int(r['seed']))]
p.write_bytes(lzma.compress(csv_text(out).encode(),preset=9|lzma.PRESET_EXTREME))
print(len(keep),len(new),dup,len(out),p.stat().st_size)
