"""D11: more GPUs mean a larger batch and fewer updates."""

import pytest
from check_code import span
from launch import run_ranks

REGRESSION = """
    import torch, torch.distributed as dist
    dist.init_process_group("gloo")
    gpus = dist.get_world_size()
    torch.manual_seed(0)
    inputs = torch.randn(64, 8)
    targets = inputs @ torch.arange(8.0)[:, None]
    batch_per_gpu, accumulation, lr = {per_gpu}, 1, {lr}
    sampler = torch.utils.data.DistributedSampler(range(64), shuffle=False)
    loader = torch.utils.data.DataLoader(range(64), batch_size=batch_per_gpu, sampler=sampler)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
    torch.nn.init.zeros_(model.module.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr)
    for rows in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs[rows]), targets[rows]).backward()
        optimizer.step()
    loss = torch.nn.functional.mse_loss(model.module(inputs), targets).item()
    print("RESULT", len(loader), loss, {product})
    dist.barrier()
    dist.destroy_process_group()
"""


def one_epoch(gpus, per_gpu=4, lr=0.02):
    """Steps, loss at the end, and the product that the entry's Check compares."""
    _, steps, loss, product = results(script(per_gpu, lr), gpus)
    return int(steps), float(loss), int(product)


def script(per_gpu, lr):
    return REGRESSION.format(per_gpu=per_gpu, lr=lr, product=span("D11", "accumulation * gpus"))


def results(script, gpus):
    """The words of rank 0's result line, whatever libraries print beside it."""
    return run_ranks(script, nproc=gpus, timeout=90).lines("RESULT")[0].split()


@pytest.fixture(scope="module")
def one_gpu():
    return one_epoch(1)


def test_the_same_settings_on_two_gpus_make_half_the_updates_and_learn_less(one_gpu):
    steps, loss, product = one_epoch(2)
    assert (one_gpu[0], steps) == (16, 8)
    assert (one_gpu[2], product) == (4, 8)  # unequal: the check says yes
    assert loss > 1.5 * one_gpu[1]


def test_half_the_batch_per_gpu_gives_the_old_run_back(one_gpu):
    steps, loss, product = one_epoch(2, per_gpu=2)
    assert (steps, product) == (one_gpu[0], one_gpu[2])
    assert loss == pytest.approx(one_gpu[1], rel=0.15)


def test_twice_the_rate_makes_up_for_half_the_updates(one_gpu):
    assert one_epoch(2, lr=0.04)[1] == pytest.approx(one_gpu[1], rel=0.35)


def test_ddp_averages_gradients_so_their_size_does_not_grow_with_the_gpus():
    gradient = script(64, 0.0).replace(
        '"RESULT", len(loader), loss', '"RESULT", model.module.weight.grad.norm().item()'
    )
    alone, pair = (results(gradient, gpus) for gpus in (1, 2))
    assert float(alone[1]) == pytest.approx(float(pair[1]), rel=1e-4)


ACCELERATED = """
    import torch
    from accelerate import Accelerator
    accelerator = Accelerator(cpu=True)
    optimizer = torch.optim.SGD(torch.nn.Linear(1, 1).parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step)
    optimizer, schedule = accelerator.prepare(optimizer, schedule)
    schedule.step()
    print(schedule.get_last_lr()[0])
"""


def test_a_schedule_prepared_by_accelerate_advances_one_step_a_gpu():
    pytest.importorskip("accelerate")
    assert [
        run_ranks(ACCELERATED, nproc=gpus, timeout=90).ranks[0].split()[0] for gpus in (1, 2)
    ] == ["1.0", "2.0"]
