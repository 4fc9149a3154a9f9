# pause, render what was simulated, go on: STEPS
cd /tmp/learn; . ./env.sh
c0=$(stat -c %Y out/V0/checkpoint.pt); for i in $(seq 60); do [ "$(stat -c %Y out/V0/checkpoint.pt)" != "$c0" ] && break; sleep 1; done; sleep 1
pkill -INT -f "tiny trai[n]"; sleep 2; pkill -KILL -f "tiny trai[n]"
tail -n 1 out/V0/log.jsonl; ls /dev/shm/sim2/which-sft/episodes/*/*.npz | wc -l
rm -rf snap; mkdir -p snap/which-sft; cp -r states/which-sft/models snap/which-sft/; cp -rl /dev/shm/sim2/which-sft/episodes snap/which-sft/ 2>/dev/null || cp -r /dev/shm/sim2/which-sft/episodes snap/which-sft/
find snap -name "*.failed" -delete; find snap -name "*.partial*" -delete
cat > more.py <<'P'
import sys,time
from pathlib import Path
from tempoloc_nb.lab.tiny import frame_store as fs
if __name__=="__main__":
    t=time.time(); out=Path("/dev/shm/store/more")
    jobs=fs.episode_jobs(Path("snap/which-sft"),out,per_part=4,looks=1)
    n=fs.make_parts(jobs,10); print("RENDER",len(jobs),n,round(time.time()-t,1))
    for p in out.glob("*.npz"): p.rename(f"/dev/shm/store/all/more-{p.name}")
P
python3 more.py 2>&1 | grep -E "RENDER|Error"
python3 - <<P
import torch, json, glob
for f in glob.glob('out/*/checkpoint.pt'):
    c=torch.load(f,map_location='cpu',weights_only=True); o=json.loads(c['options']); o['stages'][1]['steps']=$1-3000; c['options']=json.dumps(o); torch.save(c,f); print(f,c['step'])
P
bash kit/a4.sh $1 40
(setsid nohup sh -c "nice python3 kit/valvid.py states/which-validation which-validation.jsonl.xz 3; mv states/which-validation/videos states/which-validation/questions.jsonl val/" > val.log 2>&1 &)
