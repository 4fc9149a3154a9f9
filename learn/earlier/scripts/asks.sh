# asks.sh MANIFEST TAG NAME:GPU:CORES ...
cd /tmp/learn; . ./env.sh; M=$1; TAG=$2; shift 2
for spec in "$@"; do IFS=: read N G C <<< "$spec"
 CUDA_VISIBLE_DEVICES=$G taskset -c $C timeout ${LIMIT:-400} python3 -m tempoloc_nb localize --benchmark $M --model out/$N/model --backend hf --batch 300 --prompt tiny-absent --fps 8 --total-pixels 6422528 --stamps frame --temperature 0 --top-p 1 --repetition-penalty 1 --max-new-tokens 900 --trials 1 -o ans/$TAG-$N.jsonl > ans/$TAG-$N.log 2>&1 &
done; wait
for f in ans/$TAG-*.log; do echo $f; tail -n 2 $f; done
