"""P10: forward values beyond 65504."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy


class Net(nn.Module):
    """A sound network whose middle layer gives about 1e5."""

    def __init__(self, fp32_block: bool = False):
        super().__init__()
        torch.manual_seed(0)
        self.start, self.block, self.norm, self.head = (
            nn.Linear(8, 8),
            nn.Linear(8, 8),
            nn.LayerNorm(8),
            nn.Linear(8, 3),
        )
        with torch.no_grad():
            self.block.weight.mul_(3e5)
        self.fp32_block = fp32_block

    def forward(self, x):
        x = self.start(x)
        if self.fp32_block:
            with torch.autocast("cpu", enabled=False):
                x = self.norm(self.block(x.float()))
        else:
            x = self.norm(self.block(x))
        return self.head(x)


def run(precision, fp32_block: bool = False):
    torch.manual_seed(1)
    model = Net(fp32_block)
    scaler = torch.amp.GradScaler("cpu", enabled=precision == torch.float16)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    scales = []
    for _ in range(20):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=precision, enabled=precision != torch.float32):
            loss = cross_entropy(model(torch.randn(16, 8)), torch.arange(16) % 3)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    return loss, scales


def test_fp16_gives_nan_and_the_scale_halves_at_every_step():
    loss, scales = run(torch.float16)
    assert loss.isnan() and scales[-1] == 65536 / 2**20


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_the_same_weights_and_batch_are_fine_in_fp32_and_bf16(precision):
    loss, _ = run(precision)
    assert loss.isfinite() and loss < 3


def test_one_block_in_fp32_is_enough():
    loss, scales = run(torch.float16, fp32_block=True)
    assert loss.isfinite() and scales[-1] == scales[-5]


def test_a_mask_of_minus_1e9_does_not_fit_into_fp16(says):
    scores, mask = torch.zeros(2).half(), torch.tensor([True, False])
    with pytest.raises(RuntimeError) as error:
        scores.masked_fill(mask, -1e9)
    says("P10", str(error.value))
    assert scores.masked_fill(mask, torch.finfo(scores.dtype).min).softmax(0).tolist() == [0, 1]


def test_the_older_wording_is_recognised(says):
    says("P10", "RuntimeError: value cannot be converted to type at::Half without overflow: -1e+09")


def test_a_sum_overflows_where_a_mean_does_not():
    ones = torch.ones(70000).half()
    assert ones.sum().isinf() and ones.mean() == 1


@pytest.mark.parametrize(
    "fp32_block, fp16_is_finite", [pytest.param(False, False, id="bad"), (True, True)]
)
def test_the_check_is_false_in_fp16_and_true_in_bf16_and_true_in_both_once_mended(
    printed, fp32_block, fp16_is_finite
):
    names = {"torch": torch, "model": Net(fp32_block), "x": torch.randn(16, 8)}
    assert printed("P10", d=torch.float16, **names) == f"torch.float16 {fp16_is_finite}"
    assert printed("P10", d=torch.bfloat16, **names) == "torch.bfloat16 True"


def test_the_check_is_false_in_both_where_an_operation_is_at_fault(printed):
    names = {"torch": torch, "model": lambda x: torch.log(x - x), "x": torch.ones(2, 2)}
    assert printed("P10", d=torch.float16, **names) == "torch.float16 False"
    assert printed("P10", d=torch.bfloat16, **names) == "torch.bfloat16 False"
