# bash .carryN/lease.sh WATCH : takes what a call brought, starts the runner, watches it WATCH seconds, brings results back.
# Re-entrant: every call is the same command; what is done stays done while the machine is held.
L=${LEASE:-/tmp/lease}; mkdir -p $L/{code,init,rs,site,states,valtmp,avtmp,stub,out,ans,in} $L/done
[ -f $L/t0 ] || date +%s > $L/t0
T0=$(cat $L/t0); say() { echo "[$(( $(date +%s) - T0 )) s] $*" | tee -a $L/lease.log; }
HERE=$PWD; WATCH=${1:-30}
if [ ! -f $L/done/tree ]; then
 cp -r tempoloc_nb data benchmarks pyproject.toml settings.ini $L/code/ && touch $L/done/tree; fi
for K in $HERE/.carry*/; do
 [ -d "$K" ] || continue
 [ -f $K/runner.py ] && cp $K/*.py $K/*.sh $K/*.txt $L/ 2>/dev/null
 for f in $K/*.tar.xz; do
  [ -f "$f" ] || continue; n=$(basename $f .tar.xz); [ -f $L/done/$n ] && continue
  case $n in core) d=site;; av) d=avtmp;; rs*) d=rs;; states*) d=states;; val*) d=valtmp;; init*) d=init;; code) d=code;; *) d=in;; esac
  (tar xJf $f -C $L/$d && case $d in *tmp) mv $L/$d $L/${d%tmp};; esac && touch $L/done/$n || say "FAILED to unpack $n") &
 done
 if [ -d $K/gl ] && [ ! -f $L/done/gl ] && [ -z "$DRY" ]; then for f in $K/gl/*.deb; do dpkg -x $f /; done; ldconfig; touch $L/done/gl; fi
done; wait
cd $L
cat > env.sh <<E
export LEASE=$L PYTHONPATH=$L/code:$L/rs:$L/site:$L/av:$L/stub OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 NUMBA_CACHE_DIR=$L/numba TORCHINDUCTOR_CACHE_DIR=$L/ind PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1 PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True TOKENIZERS_PARALLELISM=false
E
[ -n "$DRY" ] || echo 'export VK_DRIVER_FILES=/usr/local/nvidia/share/vulkan/icd.d/nvidia_icd.json __EGL_VENDOR_LIBRARY_FILENAMES=/usr/local/nvidia/share/glvnd/egl_vendor.d/10_nvidia.json' >> env.sh
. ./env.sh
[ -f stub/av/__init__.py ] || (mkdir -p stub/av && cp avstub.py stub/av/__init__.py)
say "unpacked: $(ls done | tr '\n' ' ')"
need="$(cat need.txt) $NEED"
ok=1; for n in $need; do [ -f done/$n ] || ok=0; done
alive() { [ -f runner.pid ] && kill -0 $(cat runner.pid) 2>/dev/null && ! grep -q "^State:.*Z" /proc/$(cat runner.pid)/status; }
if [ $ok = 1 ] && ! alive && [ ! -f done/all ]; then
 setsid nohup ${PY:-python3} runner.py >> runner.log 2>&1 < /dev/null & echo $! > runner.pid; say "runner started"; fi
t=$(date +%s); while [ $(( $(date +%s) - t )) -lt $WATCH ]; do
 [ $ok = 1 ] || break; [ -f done/all ] && break; [ -n "$UNTIL" ] && [ -f done/$UNTIL ] && break; alive || break; sleep 1; done
tail -n ${TAIL:-25} runner.log 2>/dev/null; [ -f done/stored ] || find states -name "*.npz" | wc -l; tail -n 8 extras.log 2>/dev/null; cat forms.txt 2>/dev/null
for v in out/V*; do [ -f $v/log.jsonl ] && echo "$v $(tail -n 1 $v/log.jsonl)"; done
[ -z "$DRY" ] && nvidia-smi --query-gpu=name,memory.total,memory.used,utilization.gpu --format=csv,noheader; free -g | sed -n 2p
if [ -n "$OUT" ]; then
 for v in out/V*; do n=$(basename $v); m=$v/model/model.safetensors
  [ -f $m ] || m=$(ls -d $v/steps/*/model.safetensors 2>/dev/null | tail -1)
  [ -n "$m" ] && [ -f "$m" ] && cp $m $OUT/$n.safetensors && echo "$n: $m"; done
 tar cJf $OUT/logs.tar.xz --ignore-failed-read *.log *.toml out/*/log.jsonl out/*/run.json out/*/*.log ans table.txt times.json flash.json forms/*/*.log forms/*/log.jsonl forms/*/run.json forms/*.jsonl forms.txt prof.txt 2>/dev/null
 [ -f done/stored ] && [ ! -f done/brought ] && XZ_OPT=-T0 tar cJf $OUT/states-new.tar.xz -C packed . && touch done/brought
 ls -la $OUT; fi
cat table.txt 2>/dev/null; say "call ends; alive: $(alive && echo yes || echo no)"
