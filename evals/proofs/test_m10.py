"""M10: what offload moves into host memory, and the optimizer that DeepSpeed refuses with it."""

import re

import pytest
from check_code import span
from launch import run_ranks

pytest.importorskip("deepspeed")

OFFLOAD = """
    import logging, torch, deepspeed, torch.distributed as dist
    logging.disable(logging.WARNING)
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # else it compiles one
    deepspeed.init_distributed(dist_backend="gloo")
    net = torch.nn.Sequential(*(torch.nn.Linear(64, 64, bias=False) for _ in range(2)))
    engine, optimizer, _, _ = deepspeed.initialize(model=net, optimizer=torch.optim.AdamW(net.parameters()), config={{
        "train_micro_batch_size_per_gpu": 2, "bf16": {{"enabled": True}}, {extra}
        "zero_optimization": {{"stage": 2, "offload_optimizer": {{"device": "cpu"}}}},
        "zero_allow_untested_optimizer": True, "steps_per_print": 10**9}})
    engine.backward(engine(torch.ones(2, 64, dtype=torch.bfloat16)).mean())
    engine.step()
    moments = [v for s in optimizer.optimizer.state.values() for v in s.values() if torch.is_tensor(v) and v.numel() > 1]
    print("MOMENTS", sorted({{str(v.device) + " " + str(v.dtype) for v in moments}}), sum(v.numel() for v in moments), flush=True)
"""


def offload(extra=""):
    return run_ranks(
        OFFLOAD.format(extra=extra), nproc=1, timeout=60, env={"DS_ACCELERATOR": "cpu"}
    )


def test_an_optimizer_of_torch_is_refused_beside_offload(says):
    finished = offload()
    assert finished.returncode != 0
    says("M10", finished.output)


def test_the_flag_lets_it_through_and_the_moments_lie_on_the_cpu():
    finished = offload('"zero_force_ds_cpu_optimizer": False,')
    assert finished.lines("MOMENTS") == [f"MOMENTS ['cpu torch.float32'] {2 * 2 * 64 * 64}"], (
        finished.output
    )


@pytest.mark.parametrize(
    "line",
    [
        "156.46GB |  13.52GB | offload_param=none, offload_optimizer=OffloadDeviceEnum.cpu",
        "176.02GB |   0.48GB | offload_param=OffloadDeviceEnum.cpu, offload_optimizer=OffloadDeviceEnum.cpu",
        "117.83GB | offload_param=none, offload_optimizer=none",
    ],
)
def test_the_estimator_tells_how_much_moves_from_the_card_to_the_host(capsys, line):
    from deepspeed.runtime.zero.stage3 import (
        estimate_zero3_model_states_mem_needs_all_cold as estimate,
    )

    estimate(total_params=7e9, largest_layer_params=130e6, num_gpus_per_node=1)
    assert line in capsys.readouterr().out


def test_the_line_of_the_check_tells_a_model_that_offload_saves_from_one_that_fits(capsys):
    code = re.search(r'python -c "(.*)"', span("M10", "estimate_zero3"))[1]
    small = code.replace("7e9", "1e8").replace("130e6", "5e6")
    needs = []
    for line in (code, small):
        exec(line, {})
        row = next(r for r in capsys.readouterr().out.splitlines() if "offload_optimizer=none" in r)
        needs.append(float(row.split("|")[1].strip().removesuffix("GB")))
    assert needs[0] > 100 and needs[1] < 3
