# make_build.sh [SCRATCH] : downloads what wheels.txt names and robosuite, and packs build/ (core, rs1, rs2, av .tar.xz). 3 minutes; needs pip, gcc, strip, xz.
set -euo pipefail
H=$(cd $(dirname $0) && pwd); W=${1:-$(mktemp -d)}; mkdir -p $W/wh $H/build; cd $W
P="--platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 --platform manylinux1_x86_64"
pip="python3 -m pip --disable-pip-version-check download -q --no-deps -d wh"
[ -f wh/.ready ] || { $pip --only-binary=:all: --python-version 3.12 --implementation cp $P $(sed -E 's/^([A-Za-z0-9_.]+)-([0-9][^-]*)-.*/\1==\2/' $H/wheels.txt)
 $pip $(grep -i '^robosuite==' $H/../constraints/sim.txt); touch wh/.ready; }
rm -rf site rs all; mkdir site rs all
for w in wh/*.whl; do case $w in *robosuite*) python3 -m zipfile -e $w all;; *) python3 -m zipfile -e $w site;; esac; done
find site -name '*.so*' -exec strip --strip-unneeded {} + 2>/dev/null || echo "some libraries could not be stripped"
python3 - $H site all rs <<'P'
import shutil, sys
from pathlib import Path
here, site, src, dst = map(Path, sys.argv[1:])
names = set((here / "site.txt").read_text().split())
for f in site.iterdir():
    if f.name not in names: print("left out", f.name); shutil.rmtree(f) if f.is_dir() else f.unlink()
for f in (site / "mujoco").iterdir():  # headers, shaders' sources, MJX and the viewer: nothing here uses them
    if f.name in ("include", "mjx", "testdata", "sample", "model"): shutil.rmtree(f)
keep = set((here / "earlier/assets.txt").read_text().split())
for f in (src / "robosuite").rglob("*"):
    r = f.relative_to(src / "robosuite")
    if f.is_dir() or "__pycache__" in f.parts: continue
    if str(r).startswith("models/assets") and f.suffix not in (".xml", ".json") and str(r) not in keep: continue
    if str(r).startswith("models/assets/robots") and r.parts[3] not in ("panda", "iiwa", "ur5e", "kinova3", "xarm7"): continue
    out = dst / "robosuite" / r; out.parent.mkdir(parents=True, exist_ok=True); shutil.copyfile(f, out)
P
for p in svt x265; do gcc -O1 -shared -fPIC $H/$p.c -o lib$p.so; done
ls -la site/av.libs | head -60
for n in svt:SvtAv1Enc x265:x265; do f=$(ls site/av.libs/lib${n#*:}* | head -1); gcc -O1 -shared -fPIC $H/${n%:*}.c -Wl,-soname,$(basename $f) -o $f; done
tar cJf $H/build/av.tar.xz -C site av av.libs
tar c -C site --exclude='av' --exclude='av.libs' --exclude='av-*' . | xz -9e > $H/build/core.tar.xz
(cd rs; find . -type f -path '*textures*' > ../rs2.txt; find . -type f -not -path '*textures*' > ../rs1.txt)
tar c -C rs -T rs1.txt | xz -9e > $H/build/rs1.tar.xz; tar c -C rs -T rs2.txt | xz -6 > $H/build/rs2.tar.xz
ls -la $H/build
