# bash .carryN/go.sh [WATCH]: unpack; with WATCH, when all is there, run adapt.py and bring back what it wrote.
L=/tmp/lease; mkdir -p $L/site $L/rs $L/av $L/done
[ -f $L/t0 ] || date +%s > $L/t0
say() { echo "[$(( $(date +%s) - $(cat $L/t0) )) s] $*"; }
[ -d $L/code ] || { mkdir $L/code; cp -r tempoloc_nb data benchmarks pyproject.toml settings.ini $L/code/; }
for K in $PWD/.carry*/; do
 [ -f $K/adapt.py ] && cp $K/adapt.py $L/code/benchmarks/
 for f in $K/*.tar.xz; do [ -f "$f" ] || continue; n=$(basename $f .tar.xz); case $n in core) d=site;; av) d=av;; code) d=code;; *) d=rs;; esac
  (tar xJf $f -C $L/$d && touch $L/done/$n && say unpacked $n) & done; wait
 if [ -d $K/gl ]; then for f in $K/gl/*.deb; do dpkg -x $f /; done; ldconfig; touch $L/done/gl; fi
done
say "have: $(ls $L/done | tr '\n' ' ')"
[ -n "$1" ] || exit 0
cd $L/code
export PYTHONPATH=$L/code:$L/rs:$L/site:$L/av OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 NUMBA_CACHE_DIR=$L/numba PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false HF_HOME=$L/hf
export MUJOCO_GL=egl VK_DRIVER_FILES=/usr/local/nvidia/share/vulkan/icd.d/nvidia_icd.json __EGL_VENDOR_LIBRARY_FILENAMES=/usr/local/nvidia/share/glvnd/egl_vendor.d/10_nvidia.json
setsid nohup python3 benchmarks/adapt.py $L/out --keep $L/keep --sim-python python3 --jobs ${JOBS:-6} > $L/adapt.log 2>&1 < /dev/null & P=$!
t=$(date +%s); last=
while kill -0 $P 2>/dev/null && [ $(( $(date +%s) - t )) -lt $1 ]; do sleep 2
 now=$(ls $L/out 2>/dev/null | tr '\n' ' '); v=$(ls $L/out/clips/videos/*/ 2>/dev/null | wc -l); [ "$now$((v/20))" != "$last" ] && { say "$v videos; $now"; last="$now$((v/20))"; }; done
say "ended or watched: $(kill -0 $P 2>/dev/null && echo alive || echo ended)"
tail -40 $L/adapt.log; nvidia-smi --query-gpu=memory.used,utilization.gpu --format=csv,noheader
(cd $L/out && tar cJf $OUT/answers.tar.xz *.jsonl *.run.json */answers.jsonl */seconds.json */run/run.json */run/log.jsonl 2>/dev/null); [ -d $L/out/adapted-50-seed0/run/model ] && (cd $L/out/adapted-50-seed0/run && xz -T8 -1 -c model/model.safetensors > $OUT/adapted50.safetensors.xz)
cp $L/adapt.log $OUT/; [ -d $L/keep ] && tar cJf $OUT/keep.tar.xz -C $L keep
tar cf $OUT/clips.tar -C $L/out clips/manifest.jsonl clips/videos 2>/dev/null; ls -la $OUT
for f in $L/out/*/run/*.log $L/out/*/run/log*; do [ -f $f ] && { echo "== $f"; tail -3 $f; }; done 2>/dev/null | head -60
