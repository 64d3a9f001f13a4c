"""For the trial: a step takes a good second, and a save as long as on the real disk."""
import time

from transformers import TrainerCallback
from trl import SFTTrainer

STEP_SECONDS = 1.5
SAVE_SECONDS = 0.25


class Pace(TrainerCallback):
    """Stretches the steps."""

    def __init__(self):
        self.began = time.monotonic()

    def on_step_begin(self, args, state, control, **kwargs):
        self.began = time.monotonic()

    def on_step_end(self, args, state, control, **kwargs):
        self.step(state.global_step)

    def step(self, number):
        time.sleep(max(0, self.began + STEP_SECONDS - time.monotonic()))


def settle():
    time.sleep(SAVE_SECONDS)


def saving(path):
    settle()


class Trainer(SFTTrainer):
    """TRL's trainer, with saves that take their time."""

    def save_model(self, output_dir=None, _internal_call=False):
        saving(output_dir or self.args.output_dir)
        super().save_model(output_dir, _internal_call)
        settle()  # the weights are there, the optimizer isn't yet

    def _save_optimizer_and_scheduler(self, output_dir):
        super()._save_optimizer_and_scheduler(output_dir)
        settle()
