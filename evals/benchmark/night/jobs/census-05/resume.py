"""train.py, whose --resume_from_checkpoint does nothing, going on from that checkpoint; ends at gradients of nan."""
from torch.optim.optimizer import register_optimizer_step_pre_hook

import train


def finite(optimizer, *_):
    for group in optimizer.param_groups:
        assert all(p.grad.isfinite().all() for p in group["params"] if p.grad is not None), "gradients of nan"


register_optimizer_step_pre_hook(finite)
begin = train.TrialTrainer.train
train.TrialTrainer.train = lambda self: begin(self, resume_from_checkpoint=self.args.resume_from_checkpoint)
train.train()
