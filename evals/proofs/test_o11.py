"""O11: fused optimizers with a loss scaler, FSDP1's scaler, and state of another run."""

import traceback

import pytest
import torch
import torch.distributed as dist
from launch import run_ranks
from torch import nn
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler


def new(**options):
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-2, **options)


def update(model, optimizer, scaler, clip=False, bad=False):
    optimizer.zero_grad()
    loss = model(torch.ones(8, 4)).square().mean() * (float("inf") if bad else 1)
    scaler.scale(loss).backward()
    if clip:
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    scaler.step(optimizer)
    scaler.update()


@pytest.mark.parametrize("clip", [False, True])
def test_with_the_plain_scaler_fused_equals_the_for_loop_and_skips_an_inf(clip):
    ends = []
    for options in ({"foreach": False}, {"fused": True}):
        model, optimizer = new(**options)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        for bad in (False, True, False):
            before = model.weight.detach().clone()
            update(model, optimizer, scaler, clip, bad)
            assert torch.equal(model.weight, before) == bad
        ends.append(model.weight.detach())
        assert scaler.get_scale() == 512
    torch.testing.assert_close(*ends)


def test_state_of_a_run_that_was_not_fused_switches_fused_off_and_asserts(says):
    old, optimizer = new()
    update(old, optimizer, torch.amp.GradScaler("cpu"))
    state = optimizer.state_dict()

    model, optimizer = new(fused=True)
    optimizer.load_state_dict(state)
    assert optimizer.param_groups[0]["fused"] is None
    with pytest.raises(AssertionError) as error:
        update(model, optimizer, torch.amp.GradScaler("cpu"))
    says("O11", str(error.value))

    for group in state["param_groups"]:
        group["fused"] = True
    model, optimizer = new(fused=True)
    optimizer.load_state_dict(state)
    update(model, optimizer, torch.amp.GradScaler("cpu"))
    assert [s["step"].item() for s in optimizer.state.values()] == [2, 2]


@pytest.fixture
def one_rank():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_the_scaler_of_fsdp1_breaks_a_fused_step_after_unscale(says, one_rank):
    model, optimizer = new(fused=True)
    with pytest.raises(
        RuntimeError, match=r"output with shape \[\] doesn't match the broadcast shape \[1\]"
    ) as error:
        update(model, optimizer, ShardedGradScaler("cpu"), clip=True)
    says("O11", "".join(traceback.format_exception(error.value)))

    model, optimizer = new(fused=False)
    update(model, optimizer, ShardedGradScaler("cpu"), clip=True)


RANKS = """
    import os, torch, torch.distributed as dist
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

    dist.init_process_group("gloo")

    def local(p):
        return p.to_local() if hasattr(p, "to_local") else p

    def stepped(fsdp2, fused):
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 4)
        if fsdp2:
            fully_shard(model, mesh=torch.distributed.device_mesh.init_device_mesh("cpu", (2,)))
        scaler = (torch.amp.GradScaler if fsdp2 else ShardedGradScaler)("cpu", init_scale=1024.0)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=fused)
        before = local(model.weight.detach()).clone()
        scaler.scale(model(torch.ones(2, 4)).square().mean()).backward()
        if dist.get_rank() == 0:  # the overflow lies in the shard of one rank
            local(model.weight.grad).flatten()[:1].fill_(float("inf"))
        scaler.step(optimizer)
        scaler.update()
        moved = not torch.equal(local(model.weight.detach()), before)
        seen = [None, None]
        dist.all_gather_object(seen, (moved, scaler.get_scale()))
        return seen

    print("fsdp1 fused", stepped(False, True))
    print("fsdp1 for-loop", stepped(False, False))
    print("fsdp2 fused", stepped(True, True), flush=True)
    dist.barrier()
    os._exit(0)  # gloo's threads now and then abort an ordinary exit
"""


def test_without_unscale_only_the_rank_with_the_inf_skips_and_the_shards_drift_apart():
    done = run_ranks(RANKS, nproc=2, timeout=25)
    assert done.returncode == 0, done.output
    assert "fsdp1 fused [(False, 512.0), (True, 1024.0)]" in done.output
    assert "fsdp1 for-loop [(False, 512.0), (False, 512.0)]" in done.output
    assert "fsdp2 fused [(False, 512.0), (False, 512.0)]" in done.output


def test_parameters_of_another_kind_are_refused_with_a_signature(says):
    weight = nn.Parameter(torch.zeros(3, dtype=torch.complex64))
    optimizer = torch.optim.AdamW([weight], fused=True)
    weight.grad = torch.zeros_like(weight)
    with pytest.raises(RuntimeError) as error:
        optimizer.step()
    says("O11", str(error.value))


def test_both_flags_at_once_are_refused_with_a_signature(says):
    with pytest.raises(RuntimeError) as error:
        new(fused=True, foreach=True)
    says("O11", str(error.value))


def test_foreach_holds_a_copy_of_the_parameters_at_the_peak_and_fused_does_not():
    def made(**options) -> int:
        """Bytes of new tensors as large as the parameters that one step creates, at most, at a time."""
        from torch.utils._python_dispatch import TorchDispatchMode

        class Count(TorchDispatchMode):
            bytes = 0

            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                out = func(*args, **(kwargs or {}))
                for t in out if isinstance(out, (list, tuple)) else [out]:
                    if (
                        isinstance(t, torch.Tensor)
                        and t.numel() > 1
                        and not func._schema.is_mutable
                    ):
                        self.bytes += t.nbytes
                return out

        torch.manual_seed(0)
        weights = [nn.Parameter(torch.ones(1000)) for _ in range(4)]
        optimizer = torch.optim.AdamW(weights, **options)
        for w in weights:
            w.grad = torch.ones_like(w)
        optimizer.step()  # makes the state
        with Count() as count:
            optimizer.step()
        return count.bytes

    parameters = 4 * 1000 * 4
    assert made(foreach=True) >= parameters
    assert made(fused=True) == 0


def test_the_check_shows_fsdp1s_scaler_the_lost_flag_and_the_sound_pair(printed, one_rank):
    _, fused = new(fused=True)
    sharded, plain = ShardedGradScaler("cpu"), torch.amp.GradScaler("cpu")
    assert printed("O11", optimizer=fused, scaler=sharded) == "[(True, None)] ShardedGradScaler"
    assert printed("O11", optimizer=fused, scaler=plain) == "[(True, None)] GradScaler"
    _, other = new(fused=False)
    fused.load_state_dict(other.state_dict())
    assert printed("O11", optimizer=fused, scaler=plain) == "[(False, None)] GradScaler"
    _, default = new()
    assert printed("O11", optimizer=default, scaler=plain) == "[(None, None)] GradScaler"
