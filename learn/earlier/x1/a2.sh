K=$PWD/.carry2
cd /tmp/learn; . ./env.sh
python3 -m pip install -q --no-deps --no-index $K/*.whl 2>&1 | grep -v -i warn
mkdir -p ans sim val; tar xf $K/sim.tar -C sim; cp $K/which-validation.jsonl.xz .
tar xJf $K/states.tar.xz -C states
python3 kit/models.py states 2>&1 | grep -E "MODELS|Error"
echo models at $(( $(date +%s) - $(cat /tmp/t0) )) ; find states -name "*.npz" | wc -l
mkdir -p /dev/shm/store
python3 kit/render.py states /dev/shm/store ${1:-2} 10 2>&1 | grep -E "RENDER|Error|none in" | tail -5
ls /dev/shm/store/all | wc -l; du -sh /dev/shm/store/all; ls /dev/shm/sim2/which-sft/episodes/*/*.npz | wc -l
echo rendered at $(( $(date +%s) - $(cat /tmp/t0) ))
