"""prof.py OUT tiny train … : profile ten steps after FROM (200), and time what waits for batches; then end."""
import os, sys, time, torch
out = sys.argv.pop(1); FROM = int(os.environ.get("FROM", 200)); N, FIRST = (10, 50) if FROM > 100 else (2, 1)
from tempoloc_nb.lab.tiny import trainer as T
cuda = torch.cuda.is_available()
sync = torch.cuda.synchronize if cuda else (lambda: None)
state = {"n": 0, "wait": [], "step": []}
batches = T.Trainer._batches
def timed(self):
    it = batches(self)
    while True:
        t = time.perf_counter(); b = next(it, None); w = time.perf_counter() - t
        if b is None: return
        state["n"] += 1; n = state["n"]
        if FIRST < n <= FROM: state["wait"].append(w)
        if n == FIRST + 1: sync(); state["t"] = time.perf_counter()
        if n == FROM: sync(); state["plain"] = (time.perf_counter() - state["t"]) / (FROM - FIRST - 1)
        if n == FROM + 1:
            state["prof"] = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU] + ([torch.profiler.ProfilerActivity.CUDA] if cuda else []), record_shapes=True); state["prof"].__enter__(); state["t"] = time.perf_counter()
        if n == FROM + 1 + N:
            sync(); wall = (time.perf_counter() - state["t"]) / N; p = state["prof"]; p.__exit__(None, None, None)
            key = "self_device_time_total" if cuda else "self_cpu_time_total"
            av = p.key_averages(); total = sum(getattr(x, key) for x in av) / 1e6 / N
            with open(out, "w") as f:
                f.write(f"step {1000 * state['plain']:.1f} ms (profiled {1000 * wall:.1f}), of it waiting for batches {1000 * sum(state['wait']) / len(state['wait']):.1f} ms; device busy {1000 * total:.1f} ms\n")
                f.write(av.table(sort_by=key, row_limit=60, max_name_column_width=90)); f.write("\n\nBY SHAPE\n")
                f.write(p.key_averages(group_by_input_shape=True).table(sort_by=key, row_limit=40, max_name_column_width=60))
            os._exit(0)
        yield b
T.Trainer._batches = timed
from tempoloc_nb.__main__ import main
if __name__ == "__main__": sys.exit(main())
