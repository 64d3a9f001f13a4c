"""P21: which float16 operations the processor still refuses, which it has learned, and the texts of older torch."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

HALF = torch.ones(2, 2, dtype=torch.float16)

REFUSED = {"svd": torch.linalg.svd, "qr": torch.linalg.qr, "det": torch.linalg.det}


@pytest.mark.parametrize("name", REFUSED)
def test_an_operation_without_half_on_the_cpu(name, says):
    with pytest.raises(RuntimeError) as stop:
        REFUSED[name](HALF)
    says("P21", f"RuntimeError: {stop.value}")
    REFUSED[name](HALF.float())


def test_cdist():
    with pytest.raises(RuntimeError, match="cdist.*not implemented for 'Half'"):
        torch.cdist(HALF, HALF)
    torch.cdist(HALF.float(), HALF.float())


def test_avg_pool3d(says):
    x = torch.ones(1, 1, 2, 2, 2, dtype=torch.float16)
    with pytest.raises(RuntimeError) as stop:
        F.avg_pool3d(x, 2)
    says("P21", f"NotImplementedError: {stop.value}")
    F.avg_pool3d(x.float(), 2)


def test_ctc_loss(says):
    scores, lengths = torch.zeros(5, 1, 4), (torch.tensor([[1, 2]]), (5,), (2,))
    with pytest.raises(RuntimeError) as stop:
        F.ctc_loss(scores.half().log_softmax(-1), *lengths)
    says("P21", str(stop.value))
    F.ctc_loss(scores.half().float().log_softmax(-1), *lengths)


@pytest.mark.parametrize(
    "layer, shape",
    [
        (nn.LayerNorm(4), (2, 4)),
        (nn.Linear(4, 4), (2, 4)),
        (nn.Conv2d(3, 3, 3), (1, 3, 4, 4)),
        (nn.GroupNorm(1, 4), (2, 4)),
        (nn.Softmax(-1), (2, 4)),
        (nn.GELU(), (2, 4)),
        (nn.Upsample(scale_factor=2, mode="bilinear"), (1, 3, 4, 4)),
    ],
)
def test_what_torch_has_learned(layer, shape):
    x = torch.ones(shape, dtype=torch.float16, requires_grad=True)
    layer.half()(x).float().sum().backward()
    assert x.grad.dtype == torch.float16


def test_the_check_shows_it():
    model = nn.Sequential(nn.Linear(2, 2).half(), nn.Linear(2, 2, device="meta"))
    assert ("cpu", torch.float16) in {(p.device.type, p.dtype) for p in model.parameters()}


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: \"LayerNormKernelImpl\" not implemented for 'Half'",
        "RuntimeError: \"addmm_impl_cpu_\" not implemented for 'Half'",
        "RuntimeError: \"slow_conv2d_cpu\" not implemented for 'Half'",
        "RuntimeError: \\\"addmm_impl_cpu_\\\" not implemented for 'Half'",
        "RuntimeError: \"baddbmm_with_gemm\" not implemented for 'Half'",
        "RuntimeError: \"softmax_lastdim_kernel_impl\" not implemented for 'Half'",
        "RuntimeError: \"log_softmax_lastdim_kernel_impl\" not implemented for 'Half'",
        "RuntimeError: \"softmax_kernel_impl\" not implemented for 'Half'",
        "RuntimeError: \"unfolded2d_copy\" not implemented for 'Half'",
        "RuntimeError: \"compute_indices_weights_linear\" not implemented for 'Half'",
        "RuntimeError: \"clamp_min_scalar_cpu\" not implemented for 'Half'",
        "RuntimeError: _thnn_conv2d_forward not supported on CPUType for Half",
    ],
)
def test_texts_of_older_torch(text, says):
    says("P21", text)


@pytest.mark.parametrize(
    "text",
    [
        "NotImplementedError: \"_amp_foreach_non_finite_check_and_unscale_cuda\" not implemented for 'BFloat16'",
        "RuntimeError: \"addmm_cuda\" not implemented for 'Char'",
        "RuntimeError: \"addmm_impl_cpu_\" not implemented for 'Bool'",
        "RuntimeError: \"svd_cuda\" not implemented for 'Half'",
    ],
)
def test_texts_of_other_failures(text, says):
    with pytest.raises(AssertionError, match="none of the signatures"):
        says("P21", text)


def test_the_check_names_half_precision_on_the_cpu_and_passes_the_card_and_fp32(printed):
    def checked(model, x):
        text = printed("P21", model=model, x=x, torch=torch)
        return "('cpu', torch.float16)" in text or text.endswith("cpu torch.float16")

    card = nn.Linear(2, 2, device="meta").half()
    on_card = torch.ones(1, 2, device="meta", dtype=torch.float16)
    assert checked(nn.Linear(2, 2).half(), HALF) and checked(card, HALF)
    assert not checked(card, on_card) and not checked(nn.Linear(2, 2), HALF.float())
    assert not checked(card, torch.tensor([1, 2]))  # token ids on the CPU: O27
