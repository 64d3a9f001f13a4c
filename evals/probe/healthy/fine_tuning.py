"""Two phases: first the head alone, then everything at a lower rate, with warm-up from 0."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
images = torch.randn(480, 3, 16, 16)
labels = torch.randint(0, 4, (480,))
images[:, 1] += labels.view(-1, 1, 1) * 0.3
train = DataLoader(TensorDataset(images, labels), batch_size=30, shuffle=True)
backbone = nn.Sequential(
    nn.Conv2d(3, 8, 3),
    nn.BatchNorm2d(8),
    nn.ReLU(inplace=True),
    nn.AdaptiveAvgPool2d(2),
    nn.Flatten(),
)
model = nn.Sequential(backbone, nn.Dropout(0.2), nn.Linear(32, 4))
for frozen, rate in ((True, 1e-2), (False, 1e-3)):
    backbone.requires_grad_(not frozen)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 8))
    for epoch in range(2):
        model.train()
        backbone.train(not frozen)
        for inputs, targets in train:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), targets, label_smoothing=0.1)
            loss.backward()
            optimizer.step()
            schedule.step()
        model.eval()
        with torch.no_grad():
            right = sum((model(i).argmax(1) == t).sum().item() for i, t in train)
        print(f"epoch {epoch}: loss {loss.item():.3f}, accuracy {right / 480:.3f}")
