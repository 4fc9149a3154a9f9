# STEPS WATCH
cd /tmp/learn; . ./env.sh
S=${1:-12000}
python3 - <<P
import re
s=open('/tmp/learn/code/data/training/reads.toml').read()
s=re.sub(r'(name = "long"\nsteps = )\d+', lambda m: m[1]+str($S-3000), s)
open('/tmp/learn/reads.toml','w').write(s)
P
grep -n steps reads.toml
setsid nohup python3 -m tempoloc_nb tiny train /tmp/learn/reads.toml --store /dev/shm/store/all -o /tmp/learn/out/V0 --workers 7 --seed 0 --device cuda > train0.log 2>&1 &
sleep ${2:-60}; tail -n 2 train0.log out/V0/log.jsonl; nvidia-smi --query-gpu=memory.used,utilization.gpu --format=csv,noheader; free -g | head -2
echo at $(( $(date +%s) - $(cat /tmp/t0) ))
