"""Prompt tokens have the label -100."""

import tempfile

import torch
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, set_seed

set_seed(0)
PROMPT, WORDS, END = 22, 40, 1


class Instructions(Dataset):
    """A question of random words; the answer follows from the last of them, then comes the end token."""

    def __init__(self, count, seed):
        generator = torch.Generator().manual_seed(seed)
        self.prompts = torch.randint(2, 2 + WORDS, (count, PROMPT), generator=generator)

    def __len__(self):
        return len(self.prompts)

    def __getitem__(self, index):
        prompt = self.prompts[index].tolist()
        answer = [2 + (prompt[-1] * 7 + 3) % WORDS, END]
        input_ids = prompt + answer
        labels = [-100] * len(prompt) + answer
        return {"input_ids": input_ids, "labels": labels, "attention_mask": [1] * len(input_ids)}


def collate(rows):
    return {key: torch.tensor([row[key] for row in rows]) for key in rows[0]}


model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=2 + WORDS,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=64,
    )
)
with tempfile.TemporaryDirectory() as out:
    args = TrainingArguments(
        output_dir=out,
        max_steps=60,
        per_device_train_batch_size=32,
        learning_rate=1e-2,
        warmup_steps=4,
        logging_steps=10,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = Trainer(
        model=model, args=args, train_dataset=Instructions(1024, 1), data_collator=collate
    )
    trainer.train()

rows = collate([Instructions(256, 2)[i] for i in range(256)])
model.eval()
with torch.no_grad():
    logits = model(rows["input_ids"], attention_mask=rows["attention_mask"]).logits
loss = torch.nn.functional.cross_entropy(logits[:, PROMPT - 1], rows["input_ids"][:, PROMPT])
right = (logits[:, PROMPT - 1].argmax(1) == rows["input_ids"][:, PROMPT]).float().mean()
print(f"answers: loss {loss.item():.3f}, right {right.item():.3f}")
