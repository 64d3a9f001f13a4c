"""TRL on the exact tokens.

    python3 train_trl.py      # torchrun for several GPUs
"""
import json

import peft
import torch
from trl import SFTConfig

import student
from examples import examples
from trial import Pace, Trainer

torch.set_num_threads(1)
tokenizer = student.tokenizer()
train, val = examples(tokenizer, 240), examples(tokenizer, 12)

model = peft.get_peft_model(student.model(), peft.LoraConfig(
    r=16, lora_alpha=32, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM"))
args = SFTConfig(
    output_dir="trained", num_train_epochs=2, learning_rate=2e-3,
    per_device_train_batch_size=4, gradient_accumulation_steps=2,
    lr_scheduler_type="cosine", warmup_steps=3, use_cpu=True, bf16=False,
    gradient_checkpointing=False, completion_only_loss=True, max_length=None,
    save_steps=0.1, logging_steps=2, report_to=[], dataloader_num_workers=0, seed=3)
trainer = Trainer(model=model, args=args, train_dataset=train, processing_class=tokenizer, callbacks=[Pace()])
trainer.train()
trainer.save_model("trained/final")
metrics = trainer.evaluate(val)
with open("trained/final/eval_results.json", "w") as f:
    json.dump({"global_step": trainer.state.global_step, **metrics}, f, indent=1)
