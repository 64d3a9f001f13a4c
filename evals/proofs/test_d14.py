"""D14: number formats of FSDP, set in part."""
import pytest
from launch import run_ranks

HEAD = """
    import torch, torch.distributed as dist
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, MixedPrecision, MixedPrecisionPolicy, fully_shard
    dist.init_process_group("gloo")
    rank, bf16, cpu = dist.get_rank(), torch.bfloat16, torch.device("cpu")
    mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
"""
TAIL = """
    dist.barrier()
    dist.destroy_process_group()
"""
STEPS = """
    model = torch.nn.Linear(4, 4, bias=False)
    torch.nn.init.ones_(model.weight)
    model.to(torch.{loaded})
    fully_shard(model, mesh=mesh, mp_policy=MixedPrecisionPolicy(param_dtype=bf16, reduce_dtype=torch.float32))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(30):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    moments = optimizer.state[model.weight]["exp_avg"].dtype
    print(model.weight.dtype, moments, "moved" if (model.weight.to_local() < 0.999).all() else "stands still")
"""
REDUCE = """
    model = torch.nn.Linear(1, 2, bias=False)
    fully_shard(model, mesh=mesh, mp_policy=MixedPrecisionPolicy(param_dtype=bf16, reduce_dtype={reduce}))
    model(torch.full((1, 1), (256.0, 1.0)[rank])).sum().backward()   # the mean of the gradients is 128.5
    print(model.weight.grad.to_local().item())
"""
BUFFER = """
    net = torch.nn.Linear(4, 4)
    net.register_buffer("position", torch.arange(300.0))
    {wrap}
    model(torch.ones(2, 4)).sum().backward()
    print(net.position.dtype, net.position[257].item())
"""
MIXED = """
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4).to(bf16))
    try:
        {wrap}
        model(torch.ones(2, 4))
    except (AssertionError, ValueError) as error:
        print(error)
"""
FSDP1_BF16 = "model = FSDP(net, device_id=cpu, use_orig_params=True, mixed_precision=MixedPrecision(bf16, bf16, bf16))"
FSDP2_BF16 = "model = fully_shard(net, mesh=mesh, mp_policy=MixedPrecisionPolicy(bf16, bf16))"


def first_lines(body):
    return [output.splitlines()[0] for output in run_ranks(HEAD + body + TAIL).ranks]


def test_a_model_loaded_in_bf16_keeps_bf16_masters_and_loses_small_updates():
    assert first_lines(STEPS.format(loaded="bfloat16")) == ["torch.bfloat16 torch.bfloat16 stands still"] * 2


def test_the_same_model_loaded_in_fp32_moves():
    assert first_lines(STEPS.format(loaded="float32")) == ["torch.float32 torch.float32 moved"] * 2


def test_without_reduce_dtype_gradients_are_summed_in_bf16():
    assert first_lines(REDUCE.format(reduce=None)) == ["128.0"] * 2


def test_reduce_dtype_fp32_keeps_the_small_gradient():
    assert first_lines(REDUCE.format(reduce="torch.float32")) == ["128.5"] * 2


def test_fsdp1_with_a_buffer_dtype_rounds_position_257():
    assert first_lines(BUFFER.format(wrap=FSDP1_BF16)) == ["torch.bfloat16 256.0"] * 2


def test_fsdp2_leaves_buffers_as_they_are():
    assert first_lines(BUFFER.format(wrap=FSDP2_BF16)) == ["torch.float32 257.0"] * 2


@pytest.mark.parametrize("wrap", ["FSDP(model, device_id=cpu, use_orig_params=True)", "fully_shard(model, mesh=mesh)"])
def test_layers_of_two_formats_in_one_unit_are_refused(wrap, says):
    for line in first_lines(MIXED.format(wrap=wrap)):
        says("D14", line)
