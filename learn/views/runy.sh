export PATH=/work/main/.venv/bin:$PATH PYTHONPATH=/work/wt-eval OMP_NUM_THREADS=1
for v in $*; do
tempoloc localize --benchmark wu/questions.jsonl --model /work/tmp/new5/X$v --backend hf --device cpu --batch 8 --prompt log --fps 8 --total-pixels 6422528 --stamps frame --repetition-penalty 1 --max-new-tokens 1500 --temperature 0 --top-p 1 --trials 1 -o y$v-test.jsonl
tempoloc localize --benchmark one.jsonl --model /work/tmp/new5/X$v --backend hf --device cpu --batch 8 --prompt log --fps 8 --total-pixels 6422528 --stamps frame --repetition-penalty 1 --max-new-tokens 1500 --temperature 0 --top-p 1 --trials 1 -o x$v-one-val.jsonl
done
