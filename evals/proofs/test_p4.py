"""P4: tensors of two precisions meet."""

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss, scaled_dot_product_attention


def into_a_buffer(write):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = nn.Linear(4, 4)(torch.randn(2, 4))
    return write(torch.zeros(4, 4), out)


def assign(buffer, out):
    buffer[torch.tensor([0, 1])] = out


def add(buffer, out):
    buffer.index_add_(0, torch.tensor([0, 1]), out)


def scatter(buffer, out):
    buffer.scatter_add_(0, torch.zeros(2, 4, dtype=torch.long), out)


def fill(buffer, out):
    buffer.masked_scatter_(torch.ones(4, 4, dtype=torch.bool), torch.cat([out, out]))


X, Q = torch.randn(2, 4), torch.randn(1, 1, 2, 4)
FAILURES = {
    "a half linear layer": lambda: nn.Linear(4, 4).half()(X),
    "a bf16 linear layer": lambda: nn.Linear(4, 4).bfloat16()(X),
    "bf16 input": lambda: nn.Linear(4, 4)(X.bfloat16()),
    "a half convolution": lambda: nn.Conv2d(3, 4, 3).half()(torch.randn(1, 3, 8, 8)),
    "half input to a convolution": lambda: nn.Conv2d(3, 4, 3)(torch.randn(1, 3, 8, 8).half()),
    "a half LSTM": lambda: nn.LSTM(3, 3).half()(torch.randn(1, 1, 3)),
    "a product outside autocast": lambda: X.bfloat16() @ torch.randn(4, 4),
    "attention": lambda: scaled_dot_product_attention(Q.half(), Q.half(), Q),
    "an assignment": lambda: into_a_buffer(assign),
    "index_add_": lambda: into_a_buffer(add),
    "scatter_add_": lambda: into_a_buffer(scatter),
    "masked_scatter_": lambda: into_a_buffer(fill),
    "numpy": lambda: X.bfloat16().numpy(),
    "addmm": lambda: torch.addmm(X.half(), X, torch.randn(4, 4)),
}


@pytest.mark.parametrize("name", FAILURES)
def test_each_meeting_of_two_precisions_fails_with_a_signature(name, says):
    with pytest.raises((RuntimeError, ValueError, TypeError)) as error:
        FAILURES[name]()
    says("P4", str(error.value))


def scaled_step(dtype):
    layer = nn.Linear(4, 4).to(dtype)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu")
    with torch.autocast("cpu", dtype=torch.float16):
        loss = layer(X.to(dtype)).float().square().mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)


def test_a_scaler_refuses_weights_that_were_cast_to_fp16(says):
    with pytest.raises(ValueError) as error:
        scaled_step(torch.float16)
    says("P4", str(error.value))


def test_with_fp32_weights_under_autocast_all_of_it_works():
    scaled_step(torch.float32)
    for dtype in (torch.float16, torch.bfloat16):
        with torch.autocast("cpu", dtype=dtype):
            out = nn.Linear(4, 4)(X)
        buffer = torch.zeros(4, 4, dtype=out.dtype)
        assign(buffer, out)
        add(buffer, out)
        scatter(buffer, out)
        assert (out.float() @ torch.randn(4, 4)).isfinite().all()


def test_an_fp16_loss_is_finite_inside_autocast_and_inf_outside():
    out, target = torch.full((4,), 300.0).half(), torch.zeros(4).half()
    with torch.autocast("cpu", dtype=torch.float16):
        assert mse_loss(out, target) == 90000
    assert mse_loss(out, target).isinf()


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: expected scalar type Half but found Float",
        "RuntimeError: Input type (torch.cuda.FloatTensor) and weight type (torch.cuda.HalfTensor) should be the same",
        "RuntimeError: Input type (torch.cuda.HalfTensor) and weight type (torch.cuda.FloatTensor) should be the same",
    ],
)
def test_the_wording_on_a_gpu_and_of_older_versions_is_recognised(says, line):
    says("P4", line)


OTHER_TYPES = {
    "NumPy's float64 in a linear layer": lambda: nn.Linear(4, 4)(X.double()),
    "integers in a linear layer": lambda: nn.Linear(4, 4)(X.long()),
    "float64 in a product": lambda: X.double() @ torch.randn(4, 4),
    "float64 in a convolution": lambda: nn.Conv2d(3, 4, 3)(torch.randn(1, 3, 8, 8).double()),
    "float64 in an LSTM": lambda: nn.LSTM(3, 3)(torch.randn(1, 1, 3).double()),
    "an assignment of integers": lambda: assign(
        torch.zeros(4, 4), torch.ones(2, 4, dtype=torch.long)
    ),
    "float64 in index_add_": lambda: add(torch.zeros(4, 4), torch.ones(2, 4).double()),
    "float64 in masked_scatter_": lambda: fill(torch.zeros(4, 4), torch.ones(2, 4).double()),
}


@pytest.mark.parametrize("name", OTHER_TYPES)
def test_types_that_are_not_half_precision_are_not_taken_for_it(name, says):
    with pytest.raises((RuntimeError, ValueError)) as error:
        OTHER_TYPES[name]()
    with pytest.raises(AssertionError):
        says("P4", str(error.value))


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same",
        "RuntimeError: expected scalar type Long but found Float",
    ],
)
def test_a_wrong_device_and_wrong_labels_are_not_taken_for_it(says, line):
    with pytest.raises(AssertionError):
        says("P4", line)


@pytest.mark.filterwarnings("ignore")
def test_the_check_says_who_was_cast_and_what_a_sound_place_looks_like(printed):
    def checked(x, model, inside=True):
        torch.set_autocast_enabled("cpu", inside)
        try:
            return printed("P4", x=x, model=model, torch=torch)
        finally:
            torch.set_autocast_enabled("cpu", False)

    assert checked(X, nn.Linear(4, 4)) == "torch.float32 {torch.float32} True"
    assert checked(X, nn.Linear(4, 4).half()) == "torch.float32 {torch.float16} True"
    assert checked(X.bfloat16(), nn.Linear(4, 4), False) == "torch.bfloat16 {torch.float32} False"
