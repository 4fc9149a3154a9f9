# build.sh TREE : makes .carry1 … .carry7 in TREE (ignored there by .git/info/exclude) from this folder and build/ (README)
H=$(cd $(dirname $0) && pwd); T=$1; B=$H/build
for i in 1 2 3 4 5 6 7; do rm -rf $T/.carry$i; mkdir -p $T/.carry$i; cp $H/kit/lease.sh $T/.carry$i/; done
cp $H/kit/*.py $B/core.tar.xz $B/rs1.tar.xz $T/.carry1/; cp -r $H/gl $T/.carry1/
cp $B/rs2.tar.xz $H/states.tar.xz $T/.carry2/; cp $H/states2.tar.xz $T/.carry3/
for v in 0 1 2; do  # a folder each, with the files of tempoloc-tiny-base and the weights
 d=$(mktemp -d); mkdir $d/V$v; cp $T/data/models/tempoloc-tiny-base/* $d/V$v/; chmod u+w $d/V$v/*; xz -dc $H/V$v.safetensors.xz > $d/V$v/model.safetensors
 [ -f $B/init$v.tar.xz ] || tar c -C $d . | xz -6 > $B/init$v.tar.xz; rm -rf $d; done
cp $B/init1.tar.xz $T/.carry3/; cp $B/init0.tar.xz $H/states3.tar.xz $T/.carry4/; cp $B/init2.tar.xz $H/states4.tar.xz $H/states5.tar.xz $T/.carry5/
cp $B/av.tar.xz $T/.carry6/; cp $H/val.tar.xz $T/.carry7/
du -sk --apparent-size $T/.carry*
