"""T15: operations a step, each a launch or more on a GPU: in loops over parameters, parameter groups and modules, and without them."""

import pytest
import torch
from operation_counts import operations as counted
from torch import nn


def operations(call):
    return sum(n for name, n in counted(call).items() if name.startswith("aten"))


@pytest.fixture
def parameters():
    made = [nn.Parameter(torch.ones(3)) for _ in range(100)]
    for p in made:
        p.grad = torch.ones(3)
    return made


def one_step(parameters, **options):
    optimizer = torch.optim.AdamW(parameters, **options)
    optimizer.step()
    return operations(optimizer.step)


def test_fused_and_foreach_need_a_fraction_of_the_loop(parameters):
    loop, foreach, fused = (
        one_step(parameters, **o) for o in ({"foreach": False}, {"foreach": True}, {"fused": True})
    )
    assert loop > 4 * foreach > 4 * fused
    assert fused < 10


def test_a_group_for_each_parameter_takes_the_gain_away(parameters):
    apart = [{"params": [p]} for p in parameters]
    assert one_step(apart, foreach=True) > one_step(parameters, foreach=False)
    assert one_step(apart, fused=True) > 20 * one_step(parameters, fused=True)
    by_decay = [{"params": parameters[:50]}, {"params": parameters[50:], "weight_decay": 0.0}]
    assert one_step(by_decay, fused=True) < 20


def test_averaged_weights_in_one_call(parameters):
    copies = [p.detach().clone() for p in parameters]

    def loop():
        for copy, p in zip(copies, parameters, strict=True):
            copy.mul_(0.9).add_(p.detach(), alpha=0.1)

    def together():
        torch._foreach_lerp_(copies, [p.detach() for p in parameters], 0.1)

    assert operations(loop) >= 2 * operations(together)


def test_experts_in_one_product():
    experts = [nn.Linear(8, 8, bias=False) for _ in range(48)]
    x = torch.randn(48, 4, 8)
    weights = torch.stack([e.weight for e in experts])

    def loop():
        return torch.stack([e(x[i]) for i, e in enumerate(experts)])

    def together():
        return torch.bmm(x, weights.transpose(1, 2))

    assert torch.allclose(loop(), together(), atol=1e-5)
    assert operations(loop) > 20 * operations(together)


def test_the_number_of_operations_does_not_depend_on_the_batch():
    cell = nn.LSTMCell(4, 4)

    def run(batch):
        state = None
        for _ in range(50):
            state = cell(torch.zeros(batch, 4), state)

    assert operations(lambda: run(1)) == operations(lambda: run(256))


def test_compiled_code_is_one_graph_where_python_runs_many_operations():
    graphs = []
    compiled = torch.compile(
        lambda x: ((x.sin() * 2).cos() + 1).tanh(),
        backend=lambda g, i: (graphs.append(g), g.forward)[1],
    )
    compiled(torch.ones(4))
    compiled(torch.ones(4))
    assert (
        len(graphs) == 1
        and len([n for n in graphs[0].graph.nodes if n.op != "placeholder" and n.op != "output"])
        == 5
    )
