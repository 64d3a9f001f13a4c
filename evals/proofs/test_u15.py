"""U15: what compression saves on text, on weights and on what is compressed already."""

import gzip
import json
import random
import shutil

import pytest
import torch
from check_code import in_shell, span

SIZE = 400_000


def share(data: bytes) -> float:
    """Size after compression, divided by the size before. The entry's table has it for larger files."""
    return len(gzip.compress(data, 6)) / len(data)


@pytest.fixture
def weights():
    torch.manual_seed(0)
    return torch.randn(SIZE) * 0.02


@pytest.fixture
def text():
    words = random.Random(0).choices("the loss gpu train what is of a model".split(), k=40_000)
    lines = [json.dumps({"id": i, "prompt": " ".join(words[i : i + 40])}) for i in range(2000)]
    return "\n".join(lines).encode()


@pytest.mark.skipif(not shutil.which("zstd"), reason="needs zstd")
def test_the_check_counts_what_is_left_of_the_first_bytes(tmp_path, text):
    (tmp_path / "a.jsonl").write_bytes(text)
    (tmp_path / "a.gz").write_bytes(gzip.compress(text))
    for name, size, worth in (("a.jsonl", len(text), True), ("a.gz", None, False)):
        code = span("U15", "head -c").replace("FILE", name)
        left = int(in_shell(code, tmp_path)) / (size or (tmp_path / name).stat().st_size)
        assert left < 0.5 if worth else left > 0.9


def test_text_shrinks_to_a_fraction(text):
    assert share(text) < 0.3


def test_weights_hardly_shrink(weights):
    assert share(weights.numpy().tobytes()) > 0.9
    assert 0.7 < share(weights.bfloat16().view(torch.int16).numpy().tobytes()) < 0.85


def test_weights_that_are_mostly_zero_do(weights):
    weights[torch.rand(SIZE) < 0.9] = 0
    assert share(weights.numpy().tobytes()) < 0.2


def test_what_is_compressed_already_does_not_shrink_again(text):
    assert share(gzip.compress(text)) > 0.95
