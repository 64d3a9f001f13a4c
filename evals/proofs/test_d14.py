"""D14: number formats of FSDP, set in part. Two ranks; each case prints one line."""

import pytest
from check_code import span
from launch import run_ranks

CASES = """
    import torch, torch.distributed as dist
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, MixedPrecision, MixedPrecisionPolicy, fully_shard
    dist.init_process_group("gloo")
    rank, bf16, fp32, cpu = dist.get_rank(), torch.bfloat16, torch.float32, torch.device("cpu")
    mesh = dist.device_mesh.init_device_mesh("cpu", (2,))

    def thirty_steps(loaded):
        model = torch.nn.Linear(4, 4, bias=False)
        torch.nn.init.ones_(model.weight)
        fully_shard(model.to(loaded), mesh=mesh, mp_policy=MixedPrecisionPolicy(bf16, fp32))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        for _ in range(30):
            optimizer.zero_grad()
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
        moved = "moves" if (model.weight.to_local() < 0.999).all() else "stands still"
        {check}
        return (optimizer.state[model.weight]["exp_avg"].dtype, moved)

    def mean_gradient(reduce):                                   # 256 on rank 0, 1 on rank 1: 128.5
        model = torch.nn.Linear(1, 2, bias=False)
        fully_shard(model, mesh=mesh, mp_policy=MixedPrecisionPolicy(bf16, reduce))
        model(torch.full((1, 1), (256.0, 1.0)[rank])).sum().backward()
        return model.weight.grad.dtype, model.weight.grad.to_local().item()

    def position_257(wrap):
        net = torch.nn.Linear(4, 4)
        net.register_buffer("position", torch.arange(300.0))
        wrap(net)(torch.ones(2, 4)).sum().backward()
        return net.position.dtype, net.position[257].item()

    def two_formats(wrap):
        try:
            wrap(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4).to(bf16)))(torch.ones(2, 4))
        except (AssertionError, ValueError) as error:
            return (error,)

    fsdp1 = lambda net: FSDP(net, device_id=cpu, use_orig_params=True, mixed_precision=MixedPrecision(bf16, bf16, bf16))
    fsdp2 = lambda net: fully_shard(net, mesh=mesh, mp_policy=MixedPrecisionPolicy(bf16, bf16))
    for label, found in (
        ("loaded in bf16", thirty_steps(bf16)), ("loaded in fp32", thirty_steps(fp32)),
        ("no reduce_dtype", mean_gradient(None)), ("reduce_dtype fp32", mean_gradient(fp32)),
        ("buffer in FSDP1", position_257(fsdp1)), ("buffer in FSDP2", position_257(fsdp2)),
        ("mixed in FSDP1", two_formats(fsdp1)), ("mixed in FSDP2", two_formats(fsdp2)),
    ):
        print(label, *found, sep="|", flush=True)
    dist.barrier()
    dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def cases():
    """case -> what rank 0 found."""
    check = span("D14", "p.grad.dtype")  # its answer comes before the line of its case
    finished = run_ranks(CASES.replace("{check}", check), timeout=90)
    found = dict(line.split("|", 1) for line in finished.ranks[0].splitlines() if "|" in line)
    assert len(found) == 8, finished.output
    loaded = [line for line in finished.ranks[0].splitlines() if line.startswith("{(")]
    found |= zip(("bf16 checked", "fp32 checked"), loaded, strict=True)
    return found


def test_a_model_loaded_in_bf16_keeps_bf16_masters_and_loses_small_updates(cases):
    assert cases["loaded in bf16"] == "torch.bfloat16|stands still"
    assert cases["bf16 checked"] == "{(torch.bfloat16, torch.bfloat16)}"


def test_the_same_model_loaded_in_fp32_moves(cases):
    assert cases["loaded in fp32"] == "torch.float32|moves"
    assert cases["fp32 checked"] == "{(torch.float32, torch.float32)}"


def test_without_reduce_dtype_gradients_are_summed_in_bf16_and_their_dtype_does_not_show_it(cases):
    assert cases["no reduce_dtype"] == "torch.float32|128.0"


def test_reduce_dtype_fp32_keeps_the_small_gradient(cases):
    assert cases["reduce_dtype fp32"] == "torch.float32|128.5"


def test_fsdp1_with_a_buffer_dtype_rounds_position_257(cases):
    assert cases["buffer in FSDP1"] == "torch.bfloat16|256.0"


def test_fsdp2_leaves_buffers_as_they_are(cases):
    assert cases["buffer in FSDP2"] == "torch.float32|257.0"


@pytest.mark.parametrize("case", ["mixed in FSDP1", "mixed in FSDP2"])
def test_layers_of_two_formats_in_one_unit_are_refused(cases, case, says):
    says("D14", cases[case])


@pytest.mark.parametrize("version, other", [(1, "buffer_dtype"), (2, "output_dtype")])
def test_accelerate_takes_one_format_for_everything(version, other):
    accelerate = pytest.importorskip("accelerate")
    import torch

    plugin = accelerate.FullyShardedDataParallelPlugin(fsdp_version=version)
    plugin.set_mixed_precision("bf16")
    chosen = plugin.mixed_precision_policy
    assert {chosen.param_dtype, chosen.reduce_dtype, getattr(chosen, other)} == {torch.bfloat16}
