"""CMP5: results that lie in memory which the next call writes again. A backend of our own replays into fixed buffers on the CPU, as a CUDA graph does on the GPU."""

import pytest
import torch
from check_code import block, shown
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def replayed(graph, _):
    """Each call writes its results into the memory of the first one."""
    memory = []

    def call(*args):
        results = graph(*args)
        if not memory:
            memory.extend(torch.empty_like(one) if torch.is_tensor(one) else one for one in results)
        for kept, new in zip(memory, results):
            if torch.is_tensor(new):
                kept.copy_(new)
        return [one.detach() if torch.is_tensor(one) else one for one in memory]

    return make_boxed_func(call)


def compiled(model, by_graphs: bool):
    backend = "aot_eager"
    if by_graphs:
        backend = aot_autograd(fw_compiler=replayed, bw_compiler=replayed)
    return torch.compile(model, backend=backend)


def small():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


X, Y = torch.ones(2, 4), torch.zeros(2, 4)


@pytest.mark.parametrize("by_graphs", [True, False])
def test_a_kept_result_holds_the_next_calls_data_until_it_is_copied(by_graphs):
    model = small()
    step, expected = compiled(model, by_graphs), model(X)
    step(X)  # the first call makes the buffers
    kept = step(X)
    copied = kept.clone()
    step(Y)
    assert torch.equal(copied, expected)
    assert torch.equal(kept, expected) != by_graphs


def ratio(model) -> float:
    """What the lines of the check print."""
    return float(shown(block("CMP5"), torch=torch, model=model, loss_of=lambda m: m(X).sum()))


def test_accumulated_gradients_come_out_too_small_and_the_check_shows_it():
    assert ratio(compiled(small(), by_graphs=True)) < 3


def test_the_check_gives_four_for_a_sound_model():
    for model in (small(), compiled(small(), by_graphs=False)):
        assert ratio(model) == pytest.approx(4, rel=1e-4)


def test_gradients_made_outside_the_graphs_and_set_to_zero_add_up():
    plain, model = small(), small()
    step = compiled(model, by_graphs=True)
    model(X).sum().backward()  # uncompiled: .grad is the model's own memory
    model.zero_grad(set_to_none=False)
    for _ in range(4):
        step(X).sum().backward()
        plain(X).sum().backward()
    for ours, right in zip(model.parameters(), plain.parameters()):
        torch.testing.assert_close(ours.grad, right.grad)
