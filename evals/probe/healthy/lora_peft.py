"""LoRA with peft on a small language model: the base stays frozen, the adapters train."""

import torch
from peft import LoraConfig, get_peft_model
from torch.utils.data import DataLoader, TensorDataset
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
VOCAB, LENGTH = 24, 12

base = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=32,
    )
)
lora = LoraConfig(
    r=8,
    lora_alpha=16,
    lora_dropout=0.05,
    target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
    task_type="CAUSAL_LM",
)
model = get_peft_model(base, lora)
model.print_trainable_parameters()

start = torch.randint(VOCAB, (256, 1))
sequences = (start + 3 * torch.arange(LENGTH)) % VOCAB
loader = DataLoader(TensorDataset(sequences), batch_size=16, shuffle=True)

trained = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(trained, lr=1e-2, weight_decay=0.0)
steps = 3 * len(loader)
scheduler = torch.optim.lr_scheduler.LambdaLR(
    optimizer, lambda step: min(1.0, (step + 1) / 5) * (1 - step / steps)
)
model.train()
for epoch in range(3):
    for (input_ids,) in loader:
        loss = model(
            input_ids=input_ids, attention_mask=torch.ones_like(input_ids), labels=input_ids
        ).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        scheduler.step()
    print(f"epoch {epoch} loss {loss.item():.3f}")
