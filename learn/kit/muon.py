"""muon.py … : `python -m tempoloc_nb …`, with Muon (Jordan et al. 2024; scaled as AdamW, Liu et al. 2025) for the layers' matrices."""
import sys, torch
from tempoloc_nb.lab.tiny import trainer as T

def newton_schulz(g):
    x = g.bfloat16(); turned = x.shape[-2] > x.shape[-1]
    if turned: x = x.mT
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        a = x @ x.mT
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.mT if turned else x

class Mixed(torch.optim.AdamW):
    """Matrices of `chosen` by Muon, all else by AdamW. Equal shapes go in one product."""
    def __init__(self, groups, chosen, **kw):
        ids = {id(p) for p in chosen}
        adam = [g | {"params": [p for p in g["params"] if id(p) not in ids]} for g in groups]
        super().__init__(adam, **kw)
        self.by_shape = {}
        for p in chosen: self.by_shape.setdefault(tuple(p.shape), []).append(p)
        self.moments = {s: torch.zeros(len(ps), *s, device=ps[0].device) for s, ps in self.by_shape.items()}
        self.decay = groups[0]["weight_decay"]
        self.ns = torch.compile(newton_schulz) if chosen[0].is_cuda else newton_schulz
    @torch.no_grad()
    def step(self, closure=None):
        super().step(closure); lr = self.param_groups[0]["lr"]
        for s, ps in self.by_shape.items():
            g, m = torch.stack([p.grad for p in ps]).float(), self.moments[s]
            m.lerp_(g, 0.05); u = self.ns(g.lerp(m, 0.95)) * (0.2 * max(s) ** 0.5)
            torch._foreach_mul_(ps, 1 - lr * self.decay)
            torch._foreach_add_(ps, list(u.float().unbind(0)), alpha=-lr)
    def zero_grad(self, set_to_none=True):
        super().zero_grad(set_to_none)
        for ps in self.by_shape.values():
            for p in ps: p.grad = None

begin = T.Trainer.__init__
def init(self, *a, **k):
    begin(self, *a, **k)
    chosen = [p for n, p in self.model.named_parameters() if p.ndim == 2 and (".layers." in n or ".blocks." in n or "merger" in n)]
    o = self.options
    self.optimizer = Mixed([{"params": g["params"], "weight_decay": g["weight_decay"]} for g in self.optimizer.param_groups], chosen, lr=o.lr, betas=o.betas, fused=chosen[0].is_cuda)
    print("muon:", len(chosen), "matrices,", sum(p.numel() for p in chosen), "of", sum(p.numel() for p in self.model.parameters()), "shapes", len(self.optimizer.by_shape), flush=True)
T.Trainer.__init__ = init
from tempoloc_nb.__main__ import main
if __name__ == "__main__": sys.exit(main())
