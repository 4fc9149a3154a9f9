export PATH=/work/main/.venv/bin:$PATH OMP_NUM_THREADS=1
A="--model /work/tmp/ev/V1 --backend hf --device cpu --batch 8 --prompt tiny-absent --fps 8 --total-pixels 6422528 --stamps frame --repetition-penalty 1 --max-new-tokens 900"
tempoloc localize --benchmark one.jsonl $A --temperature 0 --top-p 1 --trials 1 -o o-base.jsonl
for v in zoom left right dark phase; do (cd variants/$v; tempoloc localize --benchmark questions.jsonl $A --temperature 0 --top-p 1 --trials 1 -o ../../o-$v.jsonl); done
tempoloc localize --benchmark one.jsonl $A --temperature 0.6 --top-p 0.95 --trials 5 -o o-t6.jsonl
