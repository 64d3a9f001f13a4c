"""CMP12: compiled code gives another result than the same code uncompiled. Needs a C++ compiler."""

import shutil

import pytest
import torch
from check_code import shown, span
from torch import nn

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(not shutil.which("g++"), reason="Inductor needs a C++ compiler"),
]


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    with torch._inductor.config.patch(fallback_random=False, emulate_precision_casts=False):
        yield
    torch._dynamo.reset()


class Norm(nn.Module):
    """The pattern of pytorch#183605: in fp16 its constant is 0, so a row without variance divides by 0."""

    def forward(self, x):
        return x * torch.rsqrt(x.var(dim=-1, keepdim=True) + 1e-9)


class Waves(nn.Module):
    def forward(self, x):
        for _ in range(8):
            x = torch.sin(x * 1.01) + x * 0.5
        return x


def difference(model: nn.Module, x: torch.Tensor, compiled: object = None) -> float:
    """What the check prints."""
    compiled = torch.compile(model) if compiled is None else compiled
    return float(shown(span("CMP12", "norm()"), model=model, compiled=compiled, x=x))


FLAT = torch.full((3, 5), 1e-10, dtype=torch.float16)


def test_compiled_code_hides_the_nan_of_the_uncompiled_and_the_check_shows_it():
    plain, compiled = Norm()(FLAT), torch.compile(Norm())(FLAT)
    assert plain.isnan().all() and (compiled == 0).all()
    printed = difference(Norm(), FLAT)
    assert printed != printed  # nan


def test_the_backends_tell_which_part_differs_and_disable_ends_it():
    for backend in ("eager", "aot_eager"):
        torch._dynamo.reset()
        assert torch.compile(Norm(), backend=backend)(FLAT).isnan().all(), backend
    torch._dynamo.reset()
    assert not torch.compile(Norm())(FLAT).isnan().any()
    torch._dynamo.reset()
    apart = torch.compiler.disable(Norm().forward)
    assert torch.compile(lambda x: apart(x) + 0)(FLAT).isnan().all()


def test_a_healthy_model_differs_by_rounding_only():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 8))
    assert difference(model, torch.randn(16, 64)) < 1e-5
    x = torch.randn(1000).bfloat16()
    assert 0 < difference(Waves(), x) < 0.02


def test_a_wrong_kernel_is_far_above_rounding():
    def wrong(graph, inputs):
        return lambda *given: [out * 1.2 for out in graph(*given)]

    x = torch.randn(100)
    assert difference(Waves(), x, torch.compile(Waves(), backend=wrong)) > 0.1


def test_half_precision_without_the_skipped_roundings_is_equal():
    x = torch.randn(1000).bfloat16()
    with torch._inductor.config.patch(emulate_precision_casts=True):
        assert difference(Waves(), x) == 0


def test_dropout_draws_other_numbers_until_told_otherwise():
    model, x = nn.Dropout(0.5), torch.randn(1000)

    def both() -> list[torch.Tensor]:
        torch._dynamo.reset()
        drawn = []
        for call in (model, torch.compile(model)):
            torch.manual_seed(1)
            drawn.append(call(x))
        return drawn

    assert not torch.equal(*both())
    with torch._inductor.config.patch(fallback_random=True):
        assert torch.equal(*both())
