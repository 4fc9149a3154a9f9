# build.sh TREE : packs .carry1, .carry2, ... in TREE, from ../learn/build (learn/make_build.sh), ../learn's V1 and V2, and V0's earlier weights out of the history.
set -euo pipefail
H=$(cd $(dirname $0) && pwd); T=$1; B=$H/../learn/build; M=$B/models; export MOST=${MOST:-17400000}; mkdir -p $M
grep -qx '/.carry\*/' $T/.git/info/exclude || echo '/.carry*/' >> $T/.git/info/exclude
rm -rf $T/.carry*
for s in 23000:4e4e3506 34000:c74a5a48 40198:b735fd76; do [ -f $M/s${s%%:*}.safetensors.xz ] || git -C $H show ${s##*:}:learn/V0.safetensors.xz > $M/s${s%%:*}.safetensors.xz; done
cp -f $H/../learn/V1.safetensors.xz $H/../learn/V2.safetensors.xz $M/
python3 - $H $T $B <<'P'
import os, shutil, sys
from pathlib import Path
here, tree, build, most = *map(Path, sys.argv[1:]), int(os.environ["MOST"])
files = [build / "core.tar.xz", *(build / f"{n}.tar.xz" for n in ("rs1", "rs2", "av")), *sorted((build / "models").glob("*.xz"))]
bins = [[files[0]]]; room = [most - 800_000 - files[0].stat().st_size]
for f in sorted(files[1:], key=lambda f: -f.stat().st_size):
    k = next((k for k, left in enumerate(room) if left >= f.stat().st_size), None)
    if k is None: bins.append([]); room.append(most); k = len(bins) - 1
    bins[k].append(f); room[k] -= f.stat().st_size
for k, group in enumerate(bins, 1):
    out = tree / f".carry{k}"; out.mkdir()
    for f in group: shutil.copy(f, out)
    shutil.copy(here / "lease.sh", out); print(out.name, sum(f.stat().st_size for f in group), *(f.name for f in group))
first = tree / ".carry1"
for f in here.glob("*.py"): shutil.copy(f, first)
shutil.copytree(here / "../learn/gl", first / "gl")
(first / "need.txt").write_text(" ".join(f.name.split(".")[0] for f in files))
P
