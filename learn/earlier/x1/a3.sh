K=$PWD/.carry3
cd /tmp/learn; . ./env.sh
python3 -m pip install -q --no-deps --no-index $K/*.whl 2>&1 | grep -v -i warn
mkdir -p ans sim val; tar xf $K/sim.tar -C sim; cp $K/which-validation.jsonl.xz .
for i in $(seq 60); do grep -q MODELS models.log && break; sleep 1; done; grep -v -i -E "warn|logo|___|^\"\"\"" models.log | tail -3
mkdir -p /dev/shm/store
echo models at $(( $(date +%s) - $(cat /tmp/t0) ))
python3 kit/render.py states /dev/shm/store ${1:-1} 15 2>&1 | grep -E "RENDER|Error|none in" | tail -5
ls /dev/shm/store/all | wc -l; du -sh /dev/shm/store/all
echo rendered at $(( $(date +%s) - $(cat /tmp/t0) ))
