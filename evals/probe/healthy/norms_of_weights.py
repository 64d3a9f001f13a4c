"""Weight norm and spectral norm as parametrizations, with SWA at the end."""

import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm
from torch.optim.swa_utils import SWALR, AveragedModel

torch.manual_seed(0)
x = torch.randn(800, 20)
y = (x @ torch.randn(20, 5)).argmax(1)
model = nn.Sequential(
    weight_norm(nn.Linear(20, 64)),
    nn.ReLU(),
    spectral_norm(nn.Linear(64, 64)),
    nn.ReLU(),
    nn.Linear(64, 5),
)
averaged = AveragedModel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = SWALR(optimizer, swa_lr=0.05, anneal_epochs=3)
for epoch in range(5):
    for step in range(12):
        rows = torch.randint(800, (40,))
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if epoch >= 3:
        averaged.update_parameters(model)
        scheduler.step()
print(f"loss {loss.item():.3f}")
