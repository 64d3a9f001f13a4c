"""One rate of 1e-2 for a pretrained backbone and a new head: test accuracy is far below healthy.py's."""

import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
INPUTS, USEFUL = 40, 4


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(INPUTS, 128), nn.ReLU())
        self.classifier = nn.Linear(128, classes)

    def forward(self, x):
        return self.classifier(self.backbone(x))


def download(path):
    """Stands in for a download: a backbone that learned to look at the useful inputs alone."""
    weight = torch.zeros(128, INPUTS)
    weight[:, :USEFUL] = torch.randn(128, USEFUL)
    torch.save({"0.weight": weight, "0.bias": torch.randn(128)}, path)


def examples(count):
    x = torch.randn(count, INPUTS)
    return x, (x[:, 0] * x[:, 1] > 0).long() + 2 * (x[:, 2] > 0).long()


with tempfile.TemporaryDirectory() as folder:
    download(Path(folder, "backbone.pt"))
    model = Net(classes=4)
    model.backbone.load_state_dict(torch.load(Path(folder, "backbone.pt"), weights_only=True))

train = DataLoader(TensorDataset(*examples(96)), batch_size=16, shuffle=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

for epoch in range(20):
    for x, y in train:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if epoch % 4 == 0:
        print(f"epoch {epoch} loss {loss.item():.3f}")

x, y = examples(4000)
with torch.no_grad():
    print(f"test accuracy {(model(x).argmax(1) == y).float().mean().item():.3f}")
