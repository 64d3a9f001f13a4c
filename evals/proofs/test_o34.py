"""O34: ids of an embedding are whole numbers; an empty list becomes floats by itself."""

import pytest
import torch
from check_code import shown, span

EMBED = torch.nn.Embedding(4, 2)


def told(ids) -> str:
    """What the line of the check prints."""
    return shown(span("O34", "batch.items()"), batch={"input_ids": ids})


@pytest.mark.parametrize(
    "ids", [torch.Tensor([1, 2]), torch.tensor([]), torch.tensor([1, 2]).half()]
)
def test_float_ids_are_refused_with_the_signature(says, ids):
    assert "int" not in told(ids)
    with pytest.raises(RuntimeError) as error:
        EMBED(ids)
    says("O34", str(error.value))


@pytest.mark.parametrize("ids", [[1, 2], []])
def test_ids_with_a_type_pass_even_when_empty(ids):
    ids = torch.tensor(ids, dtype=torch.long)
    assert EMBED(ids).shape == (len(ids), 2)
    assert told(ids) == f"{{'input_ids': (torch.int64, torch.Size([{len(ids)}]))}}"
