"""O33: NumPy reads host memory only, and no tensor that needs a gradient."""

import warnings

import numpy as np
import pytest
import torch
from check_code import shown, span


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy 2 and the old form of __array__
        yield


def told(x) -> str:
    """What the line of the check prints."""
    return shown(span("O33", "getattr(x"), x=x)


# A meta tensor takes the same path as one on a GPU: the text differs in the device's name alone.
ELSEWHERE = torch.ones(2, device="meta")


@pytest.mark.parametrize(
    "convert",
    [
        lambda x: x.numpy(),
        np.array,
        lambda x: np.mean([x[0], x[1]]),
        lambda x: np.array([x[0], x[1]]),
        lambda x: np.sum([x[0], x[1]]),
    ],
)
def test_a_tensor_that_is_not_in_host_memory_is_refused(convert):
    with pytest.raises(TypeError) as error:
        convert(ELSEWHERE)
    text = str(error.value)
    assert "can't convert meta device type tensor to numpy. Use Tensor.cpu()" in text
    assert "device=" not in told(ELSEWHERE) and " meta " in told(ELSEWHERE)


def test_the_text_of_a_card(says):
    # https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/utils/tensor_numpy.cpp
    says(
        "O33",
        "TypeError: can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.",
    )


def test_a_tensor_with_a_gradient_is_refused_with_the_signature(says):
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError) as error:
        x.numpy()
    says("O33", str(error.value))
    assert told(x).endswith("cpu True")
    assert x.detach().cpu().numpy().tolist() == [1, 1]


def test_numbers_and_plain_tensors_of_the_host_pass_and_the_check_shows_nothing_odd():
    losses = [torch.ones(2, requires_grad=True).sum().item() for _ in range(3)]
    assert np.mean(losses) == 2 and told(losses[0]).endswith("None None")
    items = [torch.ones(()), torch.ones(())]
    assert torch.stack(items).detach().cpu().numpy().tolist() == [1, 1]
    kept = [item.requires_grad_() for item in (torch.ones(()), torch.ones(()))]  # losses
    assert torch.stack(kept).detach().cpu().numpy().tolist() == [1, 1]
    assert told(items[0]).endswith("cpu False")
