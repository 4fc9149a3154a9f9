from ens import logs, report
from tempoloc_nb.inference.segment import combine_logs
L=logs('o-crops.jsonl'); L={k:v for k,v in L.items() if len(v)>=5}
T=logs('o-t6.jsonl')
print(len(L))
report({c:combine_logs(v) for c,v in L.items()},'5 crops merged'); report({c:combine_logs(v[:3]) for c,v in L.items()},'3 crops merged')
report({c:combine_logs(T[c]) for c in L},'5 trials merged'); report({c:v[0] for c,v in L.items()},'greedy')
