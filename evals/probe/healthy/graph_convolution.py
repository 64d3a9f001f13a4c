"""A graph net on one graph: each step sees all nodes, the loss those with a label."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
NODES, CLASSES = 200, 4
labels = torch.randint(CLASSES, (NODES,))
near = (labels[:, None] == labels[None]) & (torch.rand(NODES, NODES) < 0.1)
links = (near | near.T | torch.eye(NODES, dtype=torch.bool)).float()
degree = links.sum(1).rsqrt()
adjacency = degree[:, None] * links * degree[None]
features = torch.randn(NODES, 16) + 0.3 * F.one_hot(labels, 16)
known = torch.rand(NODES) < 0.3


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(16, 32), nn.Linear(32, CLASSES)

    def forward(self, x):
        x = F.dropout(adjacency @ self.one(x), 0.2, self.training).relu()
        return adjacency @ self.two(x)


model = GCN()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
for epoch in range(60):
    model.train()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(features)[known], labels[known])
    loss.backward()
    optimizer.step()
    if epoch % 20 == 0:
        model.eval()
        with torch.no_grad():
            right = (model(features).argmax(1) == labels)[~known].float().mean()
        print(f"epoch {epoch} loss {loss.item():.3f} accuracy {right:.2f}")
