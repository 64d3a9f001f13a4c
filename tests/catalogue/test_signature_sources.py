"""tools/signature_sources.py finds a text wherever a library keeps it, and misses one that it doesn't keep."""

import pytest
import signature_sources as tool
from remote_gpu_trainer.catalogue.entry import Signature

SOURCE = """
def refuse(size, name):
    raise ValueError(
        f"The batch of {size} must be divisible by "
        "the number of generations used for evaluation ({}).".format(size)
    )
    raise OSError("Cannot write " + name + " because the disk of this box is full")
"""


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("library")
    (folder / "refusing.py").write_text(SOURCE)
    (folder / "broken.py").write_text("{{ a template }}")
    (folder / "compiled.so").write_bytes(
        b"\x7fELF\0unexpected pos \0Tensor.item() cannot be called on\0"
    )
    return tool.Texts(tool.pieces_in(folder))


@pytest.mark.parametrize(
    ("text", "is_regex"),
    [
        ("must be divisible by the number of generations", False),
        (r"batch of \d+ must be divisible by the number of generations used", True),
        ("ValueError: the number of generations used for evaluation (8)", False),
        ("because the disk of this box is full", False),
        ("Tensor.item() cannot be called on meta tensors", False),
    ],
    ids=["across lines", "around a value", "with the exception", "added", "compiled"],
)
def test_a_text_of_the_library_is_found(texts, text, is_regex):
    assert texts.contain(Signature(text, is_regex))


@pytest.mark.parametrize(
    "text", ["must be divisible by num_generations", "the disk is full", "meta tensors"]
)
def test_a_text_that_it_does_not_keep_is_missed(texts, text):
    assert not texts.contain(Signature(text))
