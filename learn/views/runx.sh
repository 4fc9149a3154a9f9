export PATH=/work/main/.venv/bin:$PATH PYTHONPATH=/work/wt-eval OMP_NUM_THREADS=1
for v in $*; do
for q in wt/questions one; do
tempoloc localize --benchmark $q.jsonl --model /work/tmp/new5/X$v --backend hf --device cpu --batch 8 --prompt log --fps 8 --total-pixels 6422528 --stamps frame --repetition-penalty 1 --max-new-tokens 1500 --temperature 0 --top-p 1 --trials 1 -o x$v-$(basename $(dirname $q)/$(basename $q)| tr / -)-$( [ $q = one ] && echo val || echo test).jsonl
done; done
