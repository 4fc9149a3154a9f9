K=$PWD/.carry2
cd /tmp/learn; . ./env.sh
python3 -m pip install -q --no-deps --no-index $K/*.whl 2>&1 | grep -v -i warn
mkdir -p ans sim; tar xf $K/sim.tar -C sim
while [ ! -f /dev/shm/sim/done ] && [ $(( $(date +%s) - $(cat /tmp/t0) )) -lt 330 ]; do sleep 2; done
cat sim.log | tail -3; for d in /dev/shm/sim/*/episodes/*; do echo $d $(ls $d/*.npz | wc -l); done
echo sim at $(( $(date +%s) - $(cat /tmp/t0) ))
M=$(nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits | head -1); L=2; [ $M -gt 100000 ] && L=3
echo looks $L
mkdir -p /dev/shm/store
unset MUJOCO_GL
python3 kit/render.py /dev/shm/sim /dev/shm/store ${LOOKS:-$L} 60 2>&1 | grep -v -E "WARN|Exception ignored|Traceback|File |TypeError" | tail -5
ls /dev/shm/store/all | wc -l; du -sh /dev/shm/store/all
echo rendered at $(( $(date +%s) - $(cat /tmp/t0) ))
