"""U57: a key or an argument that no dataclass has stops HfArgumentParser."""

from dataclasses import dataclass, field

import pytest
from check_code import span
from stub_box import Box
from transformers import HfArgumentParser


@dataclass
class Arguments:
    batch_size: int = field(default=1)


PARSER = HfArgumentParser(Arguments)


def test_an_unknown_key_of_a_file_is_refused_with_the_signature(says):
    with pytest.raises(ValueError) as error:
        PARSER.parse_dict({"batch_size": 2, "train_mm_proj_only": True})
    says("U57", str(error.value))


@pytest.mark.parametrize("extra", ["--local-rank=0", "\r"])
def test_an_unknown_argument_is_refused_with_the_signature(says, extra):
    with pytest.raises(ValueError) as error:
        PARSER.parse_args_into_dataclasses(["--batch_size", "2", extra])
    says("U57", str(error.value))
    assert str(error.value).endswith(r"['\r']" if extra == "\r" else f"['{extra}']")


def test_known_ones_pass_and_an_empty_list_keeps_the_notebooks_own_out():
    assert PARSER.parse_dict({"batch_size": 2})[0].batch_size == 2
    assert PARSER.parse_args_into_dataclasses(args=[])[0].batch_size == 1


@pytest.mark.parametrize(("key", "known"), [
    ("batch_size", True), ("batch", False), ("train_mm_proj_only", False), ("learning_rate", False),
])  # fmt: skip
def test_the_check_prints_nothing_for_an_unknown_key_alone(tmp_path, key, known):
    """`batch` is a part of a known name: still unknown."""
    box = Box(tmp_path)
    box.prints("python", PARSER.format_help())
    printed = box.said(span("U57", "--help").replace("NAME", key))
    assert (f"--{key}" in printed) is bool(printed) is known
    if known:
        PARSER.parse_dict({key: 2})
    else:
        with pytest.raises(ValueError):
            PARSER.parse_dict({key: 2})
