"""A causal language model with the Trainer, evaluated and saved on the way."""

import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

torch.manual_seed(0)
PAD, END = 0, 1


def row():
    start, length = int(torch.randint(2, 20, (1,))), int(torch.randint(5, 14, (1,)))
    ids = [*range(start, start + length), END]
    rest = 16 - len(ids)
    return {
        "input_ids": ids + [PAD] * rest,
        "attention_mask": [1] * len(ids) + [0] * rest,
        "labels": ids + [-100] * rest,
    }


config = GPT2Config(
    vocab_size=40,
    n_positions=16,
    n_embd=32,
    n_layer=2,
    n_head=2,
    bos_token_id=END,
    eos_token_id=END,
)
trainer = Trainer(
    model=GPT2LMHeadModel(config),
    args=TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        max_steps=36,
        per_device_train_batch_size=8,
        gradient_accumulation_steps=2,
        learning_rate=3e-3,
        warmup_steps=4,
        logging_steps=12,
        eval_strategy="steps",
        eval_steps=12,
        save_steps=12,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    ),
    train_dataset=[row() for _ in range(320)],
    eval_dataset=[row() for _ in range(16)],
)
trainer.train()
