"""A vision-language model gets a new connector between two trained parts."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
images = torch.randn(640, 3, 8, 8)
questions = torch.randint(0, 50, (640, 6))
answers = ((images.mean((1, 2, 3)) > 0).long() + questions[:, 0]) % 50
train = DataLoader(TensorDataset(images, questions, answers), batch_size=20, shuffle=True)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.vision_tower = nn.Sequential(nn.Conv2d(3, 16, 4, stride=4), nn.GELU(), nn.Flatten(2))
        self.mm_projector = nn.Linear(16, 32)
        self.embed = nn.Embedding(50, 32)
        self.language_model = nn.GRU(32, 64, batch_first=True)
        self.lm_head = nn.Linear(64, 50)

    def forward(self, images, questions):
        patches = self.mm_projector(self.vision_tower(images).transpose(1, 2))
        hidden, _ = self.language_model(torch.cat([patches, self.embed(questions)], dim=1))
        return self.lm_head(hidden[:, -1])


released = {name: w for name, w in Model().state_dict().items() if "mm_projector" not in name}
model = Model()
model.load_state_dict(released, strict=False)
model.requires_grad_(False)
model.mm_projector.requires_grad_(True)
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-4)
for inputs, asked, targets in train:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(inputs, asked), targets)
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
