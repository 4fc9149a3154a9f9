# [NAMES=0,1,2] [EXTRAS=1] build.sh TREE : packs .carry1, .carry2, ... in TREE (ignored there by .git/info/exclude) from this folder and build/ (make_build.sh),
# each under MOST bytes; prints their names. All but .carry1 are alike: they only bring archives.
set -euo pipefail
H=$(cd $(dirname $0) && pwd); T=$1; B=$H/build; N=${NAMES:-0,1,2}; export MOST=${MOST:-17400000}
grep -qx '/.carry\*/' $T/.git/info/exclude || echo '/.carry*/' >> $T/.git/info/exclude
rm -rf $T/.carry*
for v in ${N//,/ }; do  # a folder each, with the files of tempoloc-tiny-base and the weights
 [ -f $B/init$v.tar.xz ] && continue
 d=$(mktemp -d); mkdir $d/V$v; cp $T/data/models/tempoloc-tiny-base/* $d/V$v/; chmod u+w $d/V$v/*; xz -dc $H/V$v.safetensors.xz > $d/V$v/model.safetensors
 tar c -C $d . | xz -6 > $B/init$v.tar.xz; rm -rf $d; done
python3 - $H $T ${N//,/ } <<'P'
import os, shutil, sys
from pathlib import Path
here, tree, names, most = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:], int(os.environ["MOST"])
files = [here / "build/core.tar.xz", *(here / f"build/{n}.tar.xz" for n in ("rs1", "rs2", *(f"init{v}" for v in names)))]
files += sorted(here.glob("states*.tar.xz")) + ([here / "build/av.tar.xz", here / "val.tar.xz"] if os.environ.get("EXTRAS") else [])
bins = [[files[0]]]; room = [most - 800_000 - files[0].stat().st_size]
for f in sorted(files[1:], key=lambda f: -f.stat().st_size):
    k = next((k for k, left in enumerate(room) if left >= f.stat().st_size), None)
    if k is None: bins.append([]); room.append(most); k = len(bins) - 1
    bins[k].append(f); room[k] -= f.stat().st_size
for k, group in enumerate(bins, 1):
    out = tree / f".carry{k}"; out.mkdir()
    for f in group: shutil.copy(f, out)
    shutil.copy(here / "kit/lease.sh", out)
    print(out.name, sum(f.stat().st_size for f in group), *(f.name for f in group))
first = tree / ".carry1"
for f in (here / "kit").glob("*.py"): shutil.copy(f, first)
shutil.copytree(here / "gl", first / "gl")
(first / "need.txt").write_text(" ".join(f.name.split(".")[0] for f in files if f.name[:2] not in ("av", "va")))
P
