"""A small language model with the Trainer: padded sequences, padding out of the loss."""

import tempfile

import torch
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, set_seed

set_seed(0)
PAD, BOS, EOS, VOCAB = 0, 1, 2, 32


class Counting(Dataset):
    """Sequences that count up from a random start, of different lengths."""

    def __init__(self, count, seed):
        generator = torch.Generator().manual_seed(seed)
        starts = torch.randint(3, VOCAB, (count,), generator=generator).tolist()
        lengths = torch.randint(4, 16, (count,), generator=generator).tolist()
        self.rows = [
            [BOS, *(3 + (start - 3 + i) % (VOCAB - 3) for i in range(length)), EOS]
            for start, length in zip(starts, lengths)
        ]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return {"input_ids": self.rows[index]}


def collate(rows):
    longest = max(len(row["input_ids"]) for row in rows)
    input_ids, attention_mask, labels = [], [], []
    for row in rows:
        ids, padding = row["input_ids"], longest - len(row["input_ids"])
        input_ids.append(ids + [PAD] * padding)
        attention_mask.append([1] * len(ids) + [0] * padding)
        labels.append(ids + [-100] * padding)
    return {
        "input_ids": torch.tensor(input_ids),
        "attention_mask": torch.tensor(attention_mask),
        "labels": torch.tensor(labels),
    }


config = LlamaConfig(
    vocab_size=VOCAB,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=4,
    max_position_embeddings=32,
    pad_token_id=PAD,
    bos_token_id=BOS,
    eos_token_id=EOS,
)
with tempfile.TemporaryDirectory() as out:
    args = TrainingArguments(
        output_dir=out,
        num_train_epochs=3,
        per_device_train_batch_size=16,
        per_device_eval_batch_size=32,
        learning_rate=5e-3,
        lr_scheduler_type="cosine",
        warmup_steps=5,
        weight_decay=0.01,
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        logging_steps=8,
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        seed=0,
    )
    trainer = Trainer(
        model=LlamaForCausalLM(config),
        args=args,
        train_dataset=Counting(320, 1),
        eval_dataset=Counting(64, 2),
        data_collator=collate,
    )
    trainer.train()
    print(f"eval loss {trainer.evaluate()['eval_loss']:.3f}")
