"""ModelCheckpoint with the trial's disk time."""
from pytorch_lightning.callbacks import ModelCheckpoint

import trial


class TrialCheckpoint(ModelCheckpoint):
    def _save_checkpoint(self, trainer, filepath):
        super()._save_checkpoint(trainer, filepath)
        trial.disk_time(filepath)
