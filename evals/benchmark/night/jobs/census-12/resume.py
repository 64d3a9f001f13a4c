"""python3 resume.py: train_trl.py, but it goes on from the checkpoint that RGT_RESUME_FROM names, and saves no nan."""
import os
import runpy

import trial

train, save = trial.Trainer.train, trial.Trainer.save_model


def go_on(self):
    return train(self, resume_from_checkpoint=os.environ.get("RGT_RESUME_FROM") or None)


def save_sound(self, *args, **more):
    if not all(p.isfinite().all() for p in self.model.parameters()):
        raise FloatingPointError("nan in the weights")
    save(self, *args, **more)


trial.Trainer.train, trial.Trainer.save_model = go_on, save_sound
runpy.run_path("train_trl.py", run_name="__main__")
