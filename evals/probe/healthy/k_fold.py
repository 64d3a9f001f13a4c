"""Five folds, each with a model, an optimizer and a scaling of its own."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FOLDS = 5
generator = torch.Generator().manual_seed(0)
x = 5 + 3 * torch.randn(400, 6, generator=generator)
y = ((x[:, 0] - 5) * (x[:, 1] - 5) + (x[:, 2] - 5) > 0).long()
folds = torch.randperm(400, generator=generator).chunk(FOLDS)


def fit(train_rows, seed):
    torch.manual_seed(seed)
    mean, std = x[train_rows].mean(0), x[train_rows].std(0)
    loader = DataLoader(
        TensorDataset((x[train_rows] - mean) / std, y[train_rows]), batch_size=32, shuffle=True
    )
    model = nn.Sequential(nn.Linear(6, 48), nn.ReLU(), nn.Linear(48, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(6):
        for inputs, labels in loader:
            loss = F.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model.eval(), mean, std


scores = []
for number, held_out in enumerate(folds):
    rest = torch.cat([fold for other, fold in enumerate(folds) if other != number])
    model, mean, std = fit(rest, seed=number)
    with torch.no_grad():
        predicted = model((x[held_out] - mean) / std).argmax(1)
    scores.append((predicted == y[held_out]).float().mean().item())
    print(f"fold {number} accuracy {scores[-1]:.3f}")
print(f"mean {sum(scores) / FOLDS:.3f}")
