# asks.sh MANIFEST TAG MODEL N EXTRA... : N processes, shards
cd /tmp/learn; . ./env.sh; M=$1; TAG=$2; MODEL=$3; N=$4; shift 4
for i in $(seq $N); do
 timeout ${LIMIT:-300} python3 -m tempoloc_nb localize --benchmark $M --shard $i/$N --model $MODEL --backend hf --device cuda --batch 300 --prompt tiny-absent --fps 8 --total-pixels 6422528 --stamps frame --temperature 0 --top-p 1 --repetition-penalty 1 --max-new-tokens 900 --trials 1 -o ans/$TAG-$i.jsonl "$@" > ans/$TAG-$i.log 2>&1 &
done; wait
for f in ans/$TAG-*.log; do tail -n 1 $f; done; wc -l ans/$TAG-*.jsonl | tail -1
