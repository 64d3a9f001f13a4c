"""D45: ranks of a DDP run whose weights drift apart without an error; the check names them, and each remedy ends it."""

import pytest
from check_code import span
from launch import run_ranks

RANKS = """
    import contextlib, io, torch, torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel as DDP
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    CHECK = {check!r}

    def drifted(model):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(CHECK, {{"model": model, "dist": dist}})
        return out.getvalue().strip()

    class Tuned(nn.Module):
        # A network and a temperature of its loss, inside one module.
        def __init__(self):
            super().__init__()
            self.net, self.temperature = nn.Linear(2, 1), nn.Parameter(torch.ones(1))
        def forward(self, x):
            return (self.net(x) * self.temperature).sum()

    def train(wrapped, parameters, loss, between=lambda: None, scale=1.0):
        optimizer = torch.optim.SGD(parameters, 0.1)
        for _ in range(3):
            optimizer.zero_grad()
            (loss(torch.full((1, 2), rank + 1.0)) * scale).backward()
            between()
            optimizer.step()

    def report(name, model):
        print(name, rank, drifted(model), flush=True)

    torch.manual_seed(0)
    whole = Tuned()
    ddp = DDP(whole)
    train(ddp, whole.parameters(), ddp)
    report("inside", whole)

    for name, remedy in (("outside", False), ("averaged", True)):
        whole = Tuned()
        ddp = DDP(whole.net)
        average = lambda: dist.all_reduce(whole.temperature.grad, dist.ReduceOp.SUM) if remedy else None
        with torch.no_grad():
            for value in whole.state_dict().values():
                dist.broadcast(value, 0)
        train(ddp, whole.parameters(), lambda x: (ddp(x) * whole.temperature).sum(), average)
        report(name, whole)

    torch.manual_seed(rank)
    whole = Tuned()
    ddp = DDP(whole)
    report("wrapped", whole)
    whole.net.reset_parameters()
    train(ddp, whole.parameters(), ddp)
    report("reset after", whole)
    model = whole
    {repair}
    report("repaired", whole)

    whole = Tuned()
    whole.net.reset_parameters()
    ddp = DDP(whole)
    train(ddp, whole.parameters(), ddp)
    report("reset before", whole)

    # A step that one rank leaves out, as after a nan of its own.
    whole = Tuned()
    ddp = DDP(whole)
    optimizer = torch.optim.SGD(whole.parameters(), 0.1)
    ddp(torch.ones(1, 2)).backward()
    if rank == 0:
        optimizer.step()
    report("skipped", whole)
    dist.barrier()
    dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def ranks():
    from remote_gpu_trainer.catalogue import bundle

    repair = next(
        code for code in bundle.load().get("D45").fix.split("`") if "dist.broadcast" in code
    )
    return run_ranks(RANKS.format(check=span("D45", "all_gather_object"), repair=repair))


ALL = "['temperature', 'net.weight', 'net.bias']"


@pytest.mark.parametrize(
    ("case", "printed"),
    [
        ("inside", "[]"),
        ("outside", "['temperature'"),
        ("averaged", "[]"),
        ("wrapped", "[]"),
        ("reset after", "['net.weight'"),
        ("repaired", "[]"),
        ("reset before", "[]"),
        ("skipped", "['temperature'"),
    ],
)
def test_the_check_names_what_drifted_and_nothing_else(ranks, case, printed):
    assert ranks.returncode == 0, ranks.output
    lines = [line for line in ranks.lines(case) if line.startswith((f"{case} 0", f"{case} 1"))]
    assert len(lines) == 2
    for line in lines:
        assert line.split(" ", case.count(" ") + 2)[-1].startswith(printed), lines
