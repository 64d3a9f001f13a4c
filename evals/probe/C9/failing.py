"""resume_from_checkpoint stands in the arguments alone: the second run begins at step 0 again."""

import os
import tempfile

import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments, set_seed
from transformers.trainer_utils import get_last_checkpoint


class Points(Dataset):
    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        self.x = torch.randn(512, 8, generator=generator)
        self.y = (self.x[:, :3].sum(1) > 0).long()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return {"x": self.x[index], "labels": self.y[index]}


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
        self.steps = 0

    def forward(self, x, labels=None):
        self.steps += self.training
        logits = self.layers(x)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def main(out, max_steps):
    """What the job runs each time that it is started."""
    set_seed(0)
    last = get_last_checkpoint(out) if os.path.isdir(out) else None
    args = TrainingArguments(
        output_dir=out,
        max_steps=max_steps,
        per_device_train_batch_size=16,
        learning_rate=3e-3,
        lr_scheduler_type="constant",
        save_steps=5,
        save_total_limit=2,
        logging_steps=5,
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        resume_from_checkpoint=last,
    )
    trainer = Trainer(model=Classifier(), args=args, train_dataset=Points())
    trainer.train()
    done, step = trainer.model.steps, trainer.state.global_step
    print(f"{done} steps in this run, at step {step}, checkpoint {last and os.path.basename(last)}")


with tempfile.TemporaryDirectory() as folder:
    main(os.path.join(folder, "out"), max_steps=10)
    main(os.path.join(folder, "out"), max_steps=40)
