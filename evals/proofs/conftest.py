"""Proofs run the failure that an entry describes, and its fix. `says` ties the text they see to the entry."""

import pytest

from remote_gpu_trainer import catalogue
from remote_gpu_trainer.signatures import Pattern

try:
    import torch

    torch.set_num_threads(1)  # small tensors: a pool of threads only waits for itself on a busy box
except ImportError:
    import os

    if os.environ.get("REQUIRE_ENGINES"):
        raise
    collect_ignore_glob = ["test_*.py"]
    print("evals/proofs: skipped, torch is not installed: pip install '.[proofs]'")


@pytest.fixture
def says():
    """says("O3", text): the text holds one of the signatures of O3."""

    def check(entry_id: str, text: str) -> None:
        entry = catalogue.load().get(entry_id)
        lines = text.splitlines()
        assert any(Pattern(s).matches(line) for s in entry.signatures for line in lines), (
            f"none of the signatures of {entry_id} in: {text[:400]!r}"
        )

    return check
