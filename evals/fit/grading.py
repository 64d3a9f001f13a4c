"""With the estimate and a margin as the limit: how many runs die, and how much is left unused.

Two kinds of rows. Of an H100, tests/records/fit_limits.json has the least memory in which a run was
seen to survive. Of public tables, tests/records/fit_rows.json has what nvidia-smi or torch showed.
A hash of the row's name says in which half it is: the margin is set on one, and graded on the other.
"""

from __future__ import annotations

import hashlib
import statistics
from dataclasses import dataclass

from remote_gpu_trainer.fit.model_config import model_of
from remote_gpu_trainer.fit.training_memory import GIB, estimate
from remote_gpu_trainer.fit.training_run import Run

MAY_DIE = 0.02  # of the rows on which a margin is set
FEW = 2  # convolutions of a model whose workspace doesn't count much
FULL = 38000  # MiB; a row of a card of 40 GB that shows more may have died
STEP, MOST_FIXED, MOST_SHARE = 0.05, 80, 100  # GiB, and how many steps and hundredths are tried


@dataclass(frozen=True)
class Row:
    """What a run was seen to take, and the estimate of its tensors' peak, in GiB.

    `estimated` is None where `rgt fit` doesn't cover the row.
    """

    name: str
    took: float
    estimated: float | None


@dataclass(frozen=True)
class Margin:
    """A limit is the estimate and `share` of it more, and `fixed` GiB."""

    fixed: float
    share: float

    def limit(self, row: Row) -> float:
        """Return the limit for a row, in GiB."""
        return (row.estimated or 0.0) * (1 + self.share) + self.fixed


@dataclass(frozen=True)
class Grade:
    """Of `rows`, how many die at the limit, and the median share of it that is left unused."""

    rows: int
    die: int
    unused: float


def halves(rows: list[Row]) -> tuple[list[Row], list[Row]]:
    """Return the covered rows to set a margin on, and those to grade it on."""
    known = [row for row in rows if row.estimated is not None]
    even = [row for row in known if _number(row.name) % 2 == 0]
    return even, [row for row in known if row not in even]


def _number(name: str) -> int:
    return int(hashlib.sha256(name.encode()).hexdigest(), 16)


def grade(rows: list[Row], margin: Margin) -> Grade:
    """Return how a margin does on rows."""
    die = sum(row.took > margin.limit(row) for row in rows)
    unused = statistics.median(1 - row.took / margin.limit(row) for row in rows)
    return Grade(len(rows), die, unused)


def margin_for(rows: list[Row], fixed: float | None = None) -> Margin:
    """Return the margin that leaves least unused while at most `MAY_DIE` of the rows die.

    `fixed`: GiB that are known already.
    """
    best: tuple[float, Margin] | None = None
    for step in range(MOST_FIXED) if fixed is None else (round(fixed / STEP),):
        for hundredth in range(MOST_SHARE):
            margin = Margin(step * STEP, hundredth / 100)
            found = grade(rows, margin)
            if found.die <= MAY_DIE * found.rows:
                if best is None or found.unused < best[0]:
                    best = (found.unused, margin)
                break
    if best is None:
        raise ValueError("no margin is large enough for these rows")
    return best[1]


def limited(record: dict) -> list[tuple[Row, Run]]:
    """Return the runs on the H100, each with how it was trained."""
    rows = []
    for told in record["runs"]:
        run = Run(**told["asked"])
        peak = estimate(model_of(told["config"]), run).peak
        took = (told["survives"] + record["context"]) / GIB
        rows.append((Row(told["run"], took, peak / GIB), run))
    return rows


def encoders(record: dict) -> list[Row]:
    """Return GPUMemNet's encoders of torch.nn."""
    return [
        Row(f"encoder {place}", took / 1024, estimated / 1024)
        for place, (*_, took, estimated) in enumerate(record["encoders"]["rows"])
    ]


def timm(record: dict, convolutions: bool) -> list[Row]:
    """Return GPUMemNet's models of timm, those of convolutions or the others.

    A row is left out where the run can't have ended: it shows no more than a smaller batch, or
    nearly all of the card.
    """
    rows = []
    for name, (found, estimates, seen) in record["timm"]["models"].items():
        if (found > FEW) != convolutions:
            continue
        most = 0.0
        for batch, estimated, took in zip(record["timm"]["batches"], estimates, seen, strict=True):
            if most < took < FULL:
                rows.append(Row(f"{name} {batch}", took / 1024, estimated and estimated / 1024))
            most = max(most, took)
    return rows


# What torchtune's README tells of Llama 3 on A100s and smaller cards, in GiB: the row, its figure,
# and what `rgt fit` is asked. None where it knows no option for what was done.
TORCHTUNE = (
    "https://github.com/pytorch/torchtune/blob/0031bfb080bd35ec533c412df883cf2bf7bf7fe4/README.md"
)
_PACKED = {"batch": 2, "sequence": 4096, "precision": "bf16"}
_LORA = {"batch": 2, "sequence": 2048, "lora": 8, "checkpointing": True, "chunked_loss": True}
TUNED: list[tuple[str, float, str, dict | None]] = [
    ("3B, packed samples", 60.0, "3B", _PACKED),
    ("3B, and compiled", 51.0, "3B", _PACKED),
    ("3B, and loss in pieces", 42.9, "3B", {**_PACKED, "chunked_loss": True}),
    (
        "3B, and checkpointing",
        24.9,
        "3B",
        {**_PACKED, "chunked_loss": True, "checkpointing": True},
    ),
    ("8B, LoRA", 16.2, "8B", {**_LORA, "precision": "bf16"}),
    ("8B, QLoRA", 7.4, "8B", {**_LORA, "precision": "4bit-bf16"}),
    (
        "70B, LoRA on 8 GPUs",
        27.6,
        "70B",
        {**_LORA, "precision": "bf16", "sharding": "fsdp", "gpus": 8},
    ),
    ("3B, samples of unsaid lengths", 25.5, "3B", None),
    ("3B, optimizer within the backward pass", 23.1, "3B", None),
    ("3B, and activations on the host", 21.8, "3B", None),
    ("3B, and 8-bit AdamW", 17.6, "3B", None),
    ("3B, LoRA, activations on the host", 8.5, "3B", None),
    ("3B, QLoRA, activations on the host", 4.6, "3B", None),
    ("8B, optimizer within the backward pass", 18.9, "8B", None),
    ("8B, all weights, unsaid options", 37.4, "8B", None),
    ("8B, LoRA, unsaid options", 30.3, "8B", None),
    ("70B, weights on the host", 13.9, "70B", None),
    ("405B, QLoRA", 44.8, "405B", None),
]


def torchtune(configs: dict[str, dict]) -> list[Row]:
    """Return torchtune's rows; `configs` are those of Llama 3 by their size."""
    rows = []
    for name, told, size, asked in TUNED:
        peak = estimate(model_of(configs[size]), Run(**asked)).peak / GIB if asked else None
        rows.append(Row(name, told, peak))
    return rows
