cd /tmp/learn; . ./env.sh
python3 kit/pack.py /dev/shm/sim2 /tmp/pack; du -sm /tmp/pack; tar c -C /tmp/pack . | xz -T12 -3 > /tmp/new.tar.xz; ls -la /tmp/new.tar.xz; split -b 15000000 -d /tmp/new.tar.xz $OUT/new.; ls $OUT
