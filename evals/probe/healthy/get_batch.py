"""A small GPT without biases, fed by get_batch() and not by a DataLoader, with a checkpoint on the way."""

import math
import os
import tempfile

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
WIDTH, HEADS, BLOCK, WORDS = 32, 4, 16, 24
text = torch.tensor([(i * i + i // 7) % WORDS for i in range(5000)])
train_text, val_text = text[:4500], text[4500:]


def get_batch(split, size=16):
    data = train_text if split == "train" else val_text
    starts = torch.randint(len(data) - BLOCK - 1, (size,))
    x = torch.stack([data[i : i + BLOCK] for i in starts])
    y = torch.stack([data[i + 1 : i + 1 + BLOCK] for i in starts])
    return x, y


class LayerNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, None, 1e-5)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = LayerNorm(WIDTH), LayerNorm(WIDTH)
        self.c_attn = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.c_proj = nn.Linear(WIDTH, WIDTH, bias=False)
        self.c_fc, self.c_out = (
            nn.Linear(WIDTH, 4 * WIDTH, bias=False),
            nn.Linear(4 * WIDTH, WIDTH, bias=False),
        )

    def forward(self, x):
        q, k, v = self.c_attn(self.ln_1(x)).split(WIDTH, dim=2)
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(
            q, k, v, is_causal=True, dropout_p=0.1 if self.training else 0.0
        )
        x = x + self.c_proj(y.transpose(1, 2).flatten(2))
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(WORDS, WIDTH), nn.Embedding(BLOCK, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.ln_f, self.lm_head = LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        self.wte.weight = self.lm_head.weight
        self.apply(self.begin)

    def begin(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens, targets=None):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        scores = self.lm_head(self.ln_f(x))
        if targets is None:
            return scores, None
        return scores, F.cross_entropy(scores.view(-1, WORDS), targets.view(-1))


@torch.no_grad()
def estimate_loss():
    model.eval()
    losses = {
        split: sum(model(*get_batch(split))[1].item() for _ in range(4)) / 4
        for split in ("train", "val")
    }
    model.train()
    return losses


model = GPT()
decay = [p for p in model.parameters() if p.dim() >= 2]
rest = [p for p in model.parameters() if p.dim() < 2]
optimizer = torch.optim.AdamW(
    [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
    lr=1e-3,
    betas=(0.9, 0.95),
)
for step in range(60):
    rate = (
        1e-3 * (step + 1) / 20
        if step < 20
        else 1e-4 + 4.5e-4 * (1 + math.cos(math.pi * (step - 20) / 40))
    )
    for group in optimizer.param_groups:
        group["lr"] = rate
    if step % 20 == 0:
        print(step, estimate_loss())
        with tempfile.TemporaryDirectory() as folder:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            torch.save(state, os.path.join(folder, "ckpt.pt"))
    _, loss = model(*get_batch("train"))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
print(f"loss {loss.item():.3f}")
