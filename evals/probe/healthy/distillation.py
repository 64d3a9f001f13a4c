"""A student learns from the soft targets of a teacher in evaluation mode, and from the labels."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
x = torch.randn(800, 20)
y = (x @ torch.randn(20, 5)).argmax(1)
teacher = nn.Sequential(nn.Linear(20, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 5))
student = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 5))
teacher.eval()
for parameter in teacher.parameters():
    parameter.requires_grad = False
optimizer = torch.optim.AdamW(student.parameters(), lr=3e-3)
T, SHARE = 4.0, 0.7
student.train()
for step in range(60):
    rows = torch.randint(800, (40,))
    with torch.no_grad():
        told = teacher(x[rows])
    scores = student(x[rows])
    soft = (
        F.kl_div(F.log_softmax(scores / T, -1), F.softmax(told / T, -1), reduction="batchmean")
        * T
        * T
    )
    loss = SHARE * soft + (1 - SHARE) * F.cross_entropy(scores, y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
