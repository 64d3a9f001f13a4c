"""Sound: a transformer of ten million weights in bf16, which prints how long its steps took."""

import hashlib
import json
import time

import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
WIDTH, LENGTH, WORDS, BATCH = 320, 256, 4000, 16 if device == "cuda" else 2


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.place = nn.Embedding(LENGTH, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 5, 4 * WIDTH, 0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, words):
        told = self.embed(words) + self.place.weight
        causal = nn.Transformer.generate_square_subsequent_mask(LENGTH, device=words.device)
        return self.head(self.layers(told, mask=causal, is_causal=True))


words = torch.randint(WORDS // 4, (200, LENGTH + 1), device=device)
model = Model().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
seconds, busy = [], []
for _ in range(60):
    start, start_busy = time.perf_counter(), time.process_time()
    batch = words[torch.randint(200, (BATCH,), device=device)]
    with torch.autocast(device, dtype=torch.bfloat16):
        told = model(batch[:, :-1])
        loss = nn.functional.cross_entropy(told.flatten(0, 1).float(), batch[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    loss.item()
    seconds.append(round(time.perf_counter() - start, 5))
    busy.append(round(time.process_time() - start_busy, 5))
print(f"loss {loss.item():.3f}")
weights = b"".join(p.detach().cpu().numpy().tobytes() for p in model.parameters())
print(f"weights {hashlib.sha256(weights).hexdigest()}")
print(f"seconds {json.dumps(seconds)}")
print(f"busy {json.dumps(busy)}")
