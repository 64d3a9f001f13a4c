"""train_qcnet.py, going on from the checkpoint in RGT_RESUME_FROM; gradients of nan end it before they are saved."""
import os
import runpy

import pytorch_lightning as pl

from predictors import QCNet

fit = pl.Trainer.fit
pl.Trainer.fit = lambda self, *args: fit(self, *args, ckpt_path=os.environ.get("RGT_RESUME_FROM") or None)


def finite(self, optimizer):
    assert all(p.grad.isfinite().all() for p in self.parameters() if p.grad is not None), "gradients of nan"


QCNet.on_before_optimizer_step = finite
runpy.run_path("train_qcnet.py", run_name="__main__")
