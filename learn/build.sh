# build.sh TREE : makes .carry1 … .carry4 in TREE (ignored there by .git/info/exclude)
K=/work/tmp/kit2; T=$1; for i in 1 2 3 4; do mkdir -p $T/.carry$i; done
cd $K/build
[ -f rs1.tar.xz ] || (cd /work/tmp/kit/rs && tar c --exclude='*/models/assets/textures' --exclude=__pycache__ robosuite | xz -T2 -9e > $K/build/rs1.tar.xz && tar c robosuite/models/assets/textures | xz -T2 -6 > $K/build/rs2.tar.xz)
[ -f states.tar.xz ] || tar c -C $K/states . | xz -9e > states.tar.xz
cp $K/kit/*.py $K/kit/*.sh core.tar.xz rs1.tar.xz $T/.carry1/; mkdir -p $T/.carry1/gl; cp /work/tmp/kit/gl/*.deb $T/.carry1/gl/
cp rs2.tar.xz states.tar.xz $T/.carry2/; cp $K/kit/lease.sh $T/.carry2/
cp av.tar.xz $T/.carry3/; cp $K/kit/lease.sh $T/.carry3/
tar c -C $K/val videos | xz -0 > val.tar.xz; cp val.tar.xz $T/.carry4/; cp $K/kit/lease.sh $T/.carry4/
du -sk --apparent-size $T/.carry*
