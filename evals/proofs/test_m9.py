"""M9: DDP keeps everything on every rank; sharding splits it. Counts the numbers that each of two ranks holds."""

import json

import pytest
from check_code import span
from launch import run_ranks

SCHEMES = """
    import contextlib, io, json, os, torch, torch.distributed as dist
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.distributed.tensor import DTensor
    from torch.nn.parallel import DistributedDataParallel as DDP
    dist.init_process_group("gloo")
    mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
    local = lambda t: (t.to_local() if isinstance(t, DTensor) else t).numel()
    found = {}
    for scheme in ("ddp", "zero1", "shard"):
        torch.manual_seed(0)
        blocks = torch.nn.Sequential(*(torch.nn.Linear(64, 64, bias=False) for _ in range(4)))
        if scheme == "shard":
            for block in blocks: fully_shard(block, mesh=mesh)
            model = fully_shard(blocks, mesh=mesh)
        else:
            model = DDP(blocks)
        if scheme == "zero1":
            optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=1e-3)
            inner = lambda: optimizer.optim.state
        else:
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
            inner = lambda: optimizer.state
        model(torch.ones(2, 64)).sum().backward()
        optimizer.step()
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(os.environ["CHECK"], {"model": model})
        found[scheme + " check"] = int(out.getvalue())
        found[scheme] = {"weights": sum(local(p) for p in model.parameters()),
                         "gradients": sum(local(p.grad) for p in model.parameters()),
                         "moments": sum(local(v) for s in inner().values() for v in s.values()
                                        if torch.is_tensor(v) and v.numel() > 1)}
    print("JSON", json.dumps(found), flush=True)
    dist.barrier()
    dist.destroy_process_group()
"""
N = 4 * 64 * 64


@pytest.fixture(scope="module")
def ranks():
    finished = run_ranks(SCHEMES, timeout=90, env={"CHECK": span("M9", "to_local")})
    found = [json.loads(line.removeprefix("JSON ")) for line in finished.lines("JSON")]
    assert len(found) == 2, finished.output
    return found


def test_a_second_card_under_ddp_takes_nothing_from_the_first(ranks):
    assert all(rank["ddp"] == {"weights": N, "gradients": N, "moments": 2 * N} for rank in ranks)


def test_sharding_gives_each_of_two_ranks_half_of_everything(ranks):
    assert all(
        rank["shard"] == {"weights": N // 2, "gradients": N // 2, "moments": N} for rank in ranks
    )


def test_sharding_the_optimizer_alone_splits_only_the_moments(ranks):
    assert all((rank["zero1"]["weights"], rank["zero1"]["gradients"]) == (N, N) for rank in ranks)
    assert sum(rank["zero1"]["moments"] for rank in ranks) == 2 * N


def test_the_line_of_the_check_prints_the_whole_model_or_a_share_of_it(ranks):
    for rank in ranks:
        assert [rank[f"{scheme} check"] for scheme in ("ddp", "zero1", "shard")] == [N, N, N // 2]
