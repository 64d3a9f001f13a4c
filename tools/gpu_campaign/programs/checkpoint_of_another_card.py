"""A checkpoint that was saved on card 7 is loaded where there is one card, or none."""

import torch

location_of = torch.serialization.location_tag
torch.serialization.location_tag = lambda storage: "cuda:7"
torch.save({"weight": torch.ones(4)}, "last.pt")
torch.serialization.location_tag = location_of
torch.load("last.pt")
