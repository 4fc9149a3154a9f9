# STEPS SECONDS_TO_WATCH
cd /tmp/learn; . ./env.sh
S=${1:-12000}
python3 - <<P
import re
s=open('/tmp/learn/code/data/training/reads.toml').read()
s=re.sub(r'(name = "long"\nsteps = )\d+', lambda m: m[1]+str($S-3000), s)
open('/tmp/learn/reads.toml','w').write(s)
open('/tmp/learn/control.toml','w').write(s.replace('renamed = 0.2','renamed = 0.0'))
P
grep -n steps reads.toml
for g in 0 1 2 3; do
  P=reads; N=V$g; SEED=$g; [ $g = 3 ] && P=control && N=control && SEED=0
  a=$((16*g)); b=$((16*g+15))
  CUDA_VISIBLE_DEVICES=$g TORCHINDUCTOR_CACHE_DIR=/tmp/ind$g setsid nohup taskset -c $a-$b python3 -m tempoloc_nb tiny train /tmp/learn/$P.toml --store /dev/shm/store/all -o /tmp/learn/out/$N --workers ${W:-12} --seed $SEED --device cuda > train$g.log 2>&1 &
done
sleep ${2:-75}; for g in 0 1 2 3; do tail -n 2 train$g.log; done
tail -n 2 out/*/log.jsonl; nvidia-smi --query-gpu=memory.used,utilization.gpu --format=csv,noheader; free -g | head -2
echo at $(( $(date +%s) - $(cat /tmp/t0) ))
(setsid nohup taskset -c 15,31,47,63,14,30,46,62 python3 kit/val.py /tmp/learn/val 24 8 > val.log 2>&1 &)
