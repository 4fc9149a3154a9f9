from ens import logs, report
from tempoloc_nb.inference.segment import combine_logs
L=logs('o-t6.jsonl')
import statistics
for k in range(5): report({c:v[k] for c,v in L.items()},f'trial {k}')
report({c:combine_logs(v) for c,v in L.items()},'5 trials merged')
report({c:combine_logs(v[:3]) for c,v in L.items()},'3 trials merged')
