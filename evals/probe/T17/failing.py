"""A small LLaMA is trained by transformers' Trainer on a large machine."""

import tempfile

import torch
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, set_seed

set_seed(0)
WORDS = 40


class Counting(Dataset):
    def __len__(self):
        return 512

    def __getitem__(self, index):
        row = (index + torch.arange(32)) % WORDS
        return {"input_ids": row, "labels": row}


config = LlamaConfig(
    vocab_size=WORDS,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=4,
    max_position_embeddings=64,
)
with tempfile.TemporaryDirectory() as out:
    args = TrainingArguments(
        output_dir=out,
        max_steps=32,
        per_device_train_batch_size=16,
        learning_rate=2e-3,
        logging_steps=8,
        gradient_checkpointing=True,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = Trainer(model=LlamaForCausalLM(config), args=args, train_dataset=Counting())
    trainer.train()
