set -e
date +%s > /tmp/t0
K=$PWD/.carry1
for f in $K/gl/*.deb; do dpkg -x $f /; done; ldconfig
mkdir -p /tmp/learn/code /tmp/learn/rs /tmp/learn/states
tar xJf $K/code.tar.xz -C /tmp/learn/code & tar xJf $K/rs.tar.xz -C /tmp/learn/rs &
python3 -m pip install -q --no-deps --no-index $K/wheels/*.whl 2>&1 | grep -v -i warn || true
wait
cp -r $K/kit /tmp/learn/
cd /tmp/learn
cat > env.sh <<'X'
export PYTHONPATH=/tmp/learn/code:/tmp/learn/rs OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 NUMBA_CACHE_DIR=/tmp/numba
export VK_DRIVER_FILES=/usr/local/nvidia/share/vulkan/icd.d/nvidia_icd.json __EGL_VENDOR_LIBRARY_FILENAMES=/usr/local/nvidia/share/glvnd/egl_vendor.d/10_nvidia.json
X
. ./env.sh; mkdir -p /dev/shm/sim2
setsid nohup python3 kit/sim9.py /dev/shm/sim2 ${1:-1400} 9 > sim.log 2>&1 &
nvidia-smi -L; free -g | head -2; nproc; echo started $(( $(date +%s) - $(cat /tmp/t0) ))
