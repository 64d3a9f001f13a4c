"""O34: ids of an embedding are whole numbers; an empty list becomes floats by itself."""

import pytest
import torch

EMBED = torch.nn.Embedding(4, 2)


@pytest.mark.parametrize(
    "ids", [torch.Tensor([1, 2]), torch.tensor([]), torch.tensor([1, 2]).half()]
)
def test_float_ids_are_refused_with_the_signature(says, ids):
    assert ids.dtype not in (torch.int64, torch.int32)
    with pytest.raises(RuntimeError) as error:
        EMBED(ids)
    says("O34", str(error.value))


@pytest.mark.parametrize("ids", [[1, 2], []])
def test_ids_with_a_type_pass_even_when_empty(ids):
    assert EMBED(torch.tensor(ids, dtype=torch.long)).shape == (len(ids), 2)
