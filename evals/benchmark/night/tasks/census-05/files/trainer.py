"""The Trainer of transformers, with the trial's step and disk times."""
from transformers import Trainer

import trial


class TrialTrainer(Trainer):
    def training_step(self, *args, **kwargs):
        return trial.gpu_step(self.state.global_step + 1, lambda: super(TrialTrainer, self).training_step(*args, **kwargs))

    def _save(self, output_dir, state_dict=None):
        super()._save(output_dir, state_dict=state_dict)
        trial.disk_time(output_dir)

    def _save_optimizer_and_scheduler(self, output_dir):
        trial.save_state(self.state.global_step, super()._save_optimizer_and_scheduler, output_dir)
