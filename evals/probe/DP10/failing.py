"""A torchvision network with loaded weights is tuned on colour images."""

import torch
from torch.utils.data import DataLoader, Dataset
from torchvision.models import squeezenet1_1

torch.manual_seed(0)
torch.set_num_threads(1)
MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)


class Images(Dataset):
    """Images of one colour each, with noise."""

    def __len__(self):
        return 128

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        image = 0.3 + 0.4 * torch.rand(3, 32, 32, generator=generator)
        image[index % 3] += 0.25
        image = image.clamp(0, 1)
        return image, index % 3


released = squeezenet1_1(weights=None).state_dict()  # stands in for a download
model = squeezenet1_1(weights=None)
model.load_state_dict(released)
model.classifier[1] = torch.nn.Conv2d(512, 3, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for epoch in range(2):
    for images, labels in DataLoader(Images(), batch_size=8, shuffle=True):
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.3f}")
