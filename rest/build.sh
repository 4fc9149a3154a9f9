# build.sh TREE VIDEOS : .carry1.. in TREE: core, av (learn/build), V1, V2, and videos.tar (parts)
set -euo pipefail
H=$(cd $(dirname $0) && pwd); T=$1; V=$2; B=$H/../learn/build
grep -qx '/.carry\*/' $(git -C $T rev-parse --git-common-dir)/info/exclude || echo '/.carry*/' >> $(git -C $T rev-parse --git-common-dir)/info/exclude
rm -rf $T/.carry*; mkdir -p $T/.carry1 $T/.carry2 $T/.carry3
cp $V/wb.tar $B/core.tar.xz $H/run.py $H/bring.py $H/lease.sh $T/.carry1/
cp $B/av.tar.xz $T/.carry2/; cp $H/lease.sh $T/.carry2/
cp $H/../learn/V1.safetensors.xz $T/.carry3/; cp $H/lease.sh $T/.carry3/
mkdir $T/.carry4; cp $H/../learn/V2.safetensors.xz $H/lease.sh $T/.carry4/
k=5; for p in $V/w[ac].tar; do mkdir $T/.carry$k; cp $p $H/lease.sh $T/.carry$k/; k=$((k+1)); done
{ echo core av V1 V2; for p in $V/*.tar; do basename $p .tar; done; } | tr '\n' ' ' > $T/.carry1/need.txt
du -sm $T/.carry*
