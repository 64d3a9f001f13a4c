"""O34: ids of an embedding are whole numbers; an empty list becomes floats by itself."""

import contextlib

import pytest
import torch
from check_code import shown, span

EMBED = torch.nn.Embedding(4, 2)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(4, 2)

    def forward(self, ids):
        return self.embed(ids)


def told(ids, capsys) -> str:
    """What the hook of the check prints, though the forward pass may fail."""
    model = Model()
    shown(span("O34", "register_forward_pre_hook"), model=model, torch=torch)
    with contextlib.suppress(RuntimeError):
        model(ids)
    return capsys.readouterr().out.strip()


@pytest.mark.parametrize(
    "ids", [torch.Tensor([1, 2]), torch.tensor([]), torch.tensor([1, 2]).half()]
)
def test_float_ids_are_refused_with_the_signature(says, capsys, ids):
    assert "int" not in told(ids, capsys)
    with pytest.raises(RuntimeError) as error:
        EMBED(ids)
    says("O34", str(error.value))


@pytest.mark.parametrize("ids", [[1, 2], []])
def test_ids_with_a_type_pass_even_when_empty(capsys, ids):
    ids = torch.tensor(ids, dtype=torch.long)
    assert EMBED(ids).shape == (len(ids), 2)
    assert told(ids, capsys) == f"torch.int64 torch.Size([{len(ids)}])"
