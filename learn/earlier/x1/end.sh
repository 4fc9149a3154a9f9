cd /tmp/learn; . ./env.sh; L=out/V0
cp $L/model/model.safetensors $OUT/V0.safetensors; cp $L/run.json $OUT/V0.run.json; xz -k -c $L/log.jsonl > $OUT/V0.log.jsonl.xz; tar cJf $OUT/ans.tar.xz ans reads.toml sim.log val.log
