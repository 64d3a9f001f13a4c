"""A small LLaMA learns to count on, by transformers' Trainer."""

import tempfile

import torch
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, set_seed

set_seed(0)
WORDS, LENGTH = 40, 96


class Counting(Dataset):
    """Rows that count on from a word, in steps of one to three."""

    def __len__(self):
        return 512

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        start, stride = torch.randint(1, WORDS, (2,), generator=generator).tolist()
        row = (start + (1 + stride % 3) * torch.arange(LENGTH)) % WORDS
        return {"input_ids": row, "labels": row}


config = LlamaConfig(
    vocab_size=WORDS,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
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
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = Trainer(model=LlamaForCausalLM(config), args=args, train_dataset=Counting())
    trainer.train()
