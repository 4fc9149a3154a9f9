# MODEL MANIFEST OUT [extra]
M=$1; Q=$2; O=$3; shift 3
nice -n -4 tempoloc localize --benchmark $Q --model $M --backend hf --device cpu --batch 8 --prompt tiny-absent --fps 8 --total-pixels 6422528 --stamps frame --temperature 0 --top-p 1 --repetition-penalty 1 --max-new-tokens 900 --trials 1 -o $O "$@"
