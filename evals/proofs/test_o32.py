"""O32: view wants the elements in order; reshape gives the same numbers."""

import pytest
import torch
from check_code import shown, span


def test_a_transposed_tensor_is_refused_and_reshape_equals_contiguous_view(says):
    x = torch.arange(24).view(2, 3, 4).transpose(1, 2)
    code = span("O32", "is_contiguous")
    assert shown(code, x=x) == "False torch.Size([2, 4, 3]) (12, 1, 4)"
    assert shown(code, x=x.contiguous()) == "True torch.Size([2, 4, 3]) (12, 3, 1)"
    with pytest.raises(RuntimeError) as error:
        x.view(2, -1)
    says("O32", str(error.value))
    assert torch.equal(x.reshape(2, -1), x.contiguous().view(2, -1))


def test_the_accuracy_of_top_five_fails_by_view_and_not_by_reshape(says):
    scores, target = torch.randn(8, 10), torch.randint(10, (8,))
    top = scores.topk(5)[1].t()
    correct = top.eq(target.view(1, -1).expand_as(top))
    with pytest.raises(RuntimeError) as error:
        correct[:5].view(-1)
    says("O32", str(error.value))
    assert 0 <= correct[:5].reshape(-1).float().sum(0) <= 8
