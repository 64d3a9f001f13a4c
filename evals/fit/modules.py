"""Models of plain torch, as people write them; `rgt fit modules.py:NAME` reckons them."""

from __future__ import annotations

import torch
from torch import nn


class Encoder(nn.Module):
    """torch's own encoder with learned positions, whose mean is classified."""

    def __init__(self, words, width, layers, heads, inner, length, classes, dropout=0.1):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Parameter(torch.zeros(1, length, width))
        layer = nn.TransformerEncoderLayer(width, heads, inner, dropout, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        """Return the scores of classes, of shape (batch, classes)."""
        return self.head(self.layers(self.words(x) + self.places).mean(1))


class Perceptron(nn.Module):
    """Linear layers with norms, dropout and GELU."""

    def __init__(self, inputs, width, layers, classes):
        super().__init__()
        parts: list[nn.Module] = [nn.Linear(inputs, width)]
        for _ in range(layers):
            parts += [nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Dropout(0.1)]
        self.parts = nn.Sequential(*parts, nn.Linear(width, classes))

    def forward(self, x):
        """Return the scores of classes, of shape (batch, classes)."""
        return self.parts(x)


def _block(inner, outer):
    return nn.Sequential(
        nn.Conv2d(inner, outer, 3, padding=1), nn.BatchNorm2d(outer), nn.ReLU(inplace=True),
        nn.Conv2d(outer, outer, 3, padding=1), nn.BatchNorm2d(outer), nn.ReLU(inplace=True),
    )  # fmt: skip


class UNet(nn.Module):
    """Convolutions down and up again, with what was on the way down beside them."""

    def __init__(self, width, depth, classes):
        super().__init__()
        sides = [width * 2**i for i in range(depth)]
        self.down = nn.ModuleList(_block(a, b) for a, b in zip([3, *sides], sides, strict=False))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * s, s, 2, 2) for s in sides[-2::-1])
        self.join = nn.ModuleList(_block(2 * s, s) for s in sides[-2::-1])
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        """Return the scores of each pixel, of shape (batch, classes, height, width)."""
        beside = []
        for block in self.down:
            x = block(x if not beside else nn.functional.max_pool2d(x, 2))
            beside.append(x)
        beside.pop()
        for up, join in zip(self.up, self.join, strict=True):
            x = join(torch.cat([up(x), beside.pop()], 1))
        return self.head(x)


class Recurrent(nn.Module):
    """An LSTM that predicts words, and returns its loss."""

    def __init__(self, words, width, layers):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.layers = nn.LSTM(width, width, layers, batch_first=True)
        self.head = nn.Linear(width, words)

    def forward(self, x):
        """Return the loss of predicting each next word."""
        scores = self.head(self.layers(self.words(x))[0])
        return nn.functional.cross_entropy(scores[:, :-1].flatten(0, 1), x[:, 1:].flatten())


class _Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(self.norms[0](x)).split(width, dim=2)
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in parts)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))


class Decoder(nn.Module):
    """A GPT in plain torch that returns its loss."""

    def __init__(self, words, width, layers, length):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(_Layer(width, width // 64) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        """Return the loss of predicting each next word."""
        state = self.words(x) + self.places(torch.arange(x.shape[1], device=x.device))
        for layer in self.layers:
            state = layer(state)
        scores = nn.functional.linear(self.norm(state), self.words.weight)
        return nn.functional.cross_entropy(scores[:, :-1].float().flatten(0, 1), x[:, 1:].flatten())
