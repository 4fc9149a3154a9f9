# bash .carryN/lease.sh WATCH : takes what a call brought, starts run.py when all is there, watches it, brings results back.
L=${LEASE:-/tmp/lease}; mkdir -p $L/{code,site,av,models,tr,done}
[ -f $L/t0 ] || date +%s > $L/t0
T0=$(cat $L/t0); say() { echo "[$(( $(date +%s) - T0 )) s] $*" | tee -a $L/lease.log; }
HERE=$PWD; WATCH=${1:-1}
if [ ! -f $L/done/tree ]; then cp -r tempoloc_nb data benchmarks pyproject.toml settings.ini $L/code/ && touch $L/done/tree; fi
for K in $HERE/.carry*/; do
 [ -d "$K" ] || continue
 [ -f $K/run.py ] && cp $K/*.py $K/*.txt $L/
 for f in $K/*.tar.xz $K/*.safetensors.xz $K/*.tar; do
  [ -f "$f" ] || continue; n=$(basename $f); n=${n%%.*}; [ -f $L/done/$n ] && continue
  case $n in core) d=site;; av) d=av;; *) d=tr;; esac
  (case $f in *.tar.xz) tar xJf $f -C $L/$d;; *.tar) tar xf $f -C $L/$d;; *) xz -dc $f > $L/models/$n.safetensors;; esac && touch $L/done/$n || say "FAILED to unpack $n") &
 done
done; wait
cd $L
export LEASE=$L PYTHONPATH=${DRYPATH:-$L/code:$L/site:$L/av} OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 NUMBA_CACHE_DIR=$L/numba TORCHINDUCTOR_CACHE_DIR=$L/ind PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false
say "unpacked: $(ls done | tr '\n' ' ')"
ok=1; [ -f need.txt ] || ok=0; for n in $(cat need.txt); do [ -f done/$n ] || ok=0; done
alive() { [ -f run.pid ] && kill -0 $(cat run.pid) 2>/dev/null && ! grep -q "^State:.*Z" /proc/$(cat run.pid)/status; }
if [ $ok = 1 ] && ! alive && [ ! -f done/all ]; then setsid nohup ${PY:-python3} run.py >> run.log 2>&1 < /dev/null & echo $! > run.pid; say "runner started"; fi
t=$(date +%s); while [ $(( $(date +%s) - t )) -lt $WATCH ]; do [ $ok = 1 ] || break; [ -f done/all ] && break; alive || break; sleep 1; done
tail -n 25 run.log 2>/dev/null; wc -l tr/answers/*.jsonl tr/other/*.jsonl 2>/dev/null; tail -n 2 logs/*.log 2>/dev/null
[ -n "$OUT" ] && [ -f run.pid ] && ${PY:-python3} bring.py $OUT
say "call ends; alive: $(alive && echo yes || echo no)"
