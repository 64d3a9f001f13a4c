"""D16: what each ZeRO stage splits between two ranks, and when it talks. 8192 weights, two micro-batches a step."""

import json
import re
import shlex

import pytest
from check_code import shown, span
from launch import run_ranks

pytest.importorskip("deepspeed")

STAGES = """
    import os
    os.environ["DS_ACCELERATOR"] = "cpu"
    import json, logging, torch, deepspeed, torch.distributed as dist
    from torch.profiler import profile
    logging.disable(logging.WARNING)
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # else it compiles one
    deepspeed.init_distributed(dist_backend="gloo")
    for stage in range(4):
        net = torch.nn.Sequential(*(torch.nn.Linear(64, 64, bias=False) for _ in range(2)))
        engine, optimizer, _, _ = deepspeed.initialize(model=net, optimizer=torch.optim.AdamW(net.parameters()), config={
            "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2, "bf16": {"enabled": True},
            "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0, "overlap_comm": False},
            "zero_allow_untested_optimizer": True, "steps_per_print": 10**9})
        calls = []
        for _ in range(2):
            with profile() as seen:
                engine.backward(engine(torch.ones(2, 64, dtype=torch.bfloat16)).mean())
                engine.step()
            calls.append(sum(e.count for e in seen.key_averages() if e.key.startswith("gloo:")))
        moments = sum(v.numel() for s in optimizer.optimizer.state.values() for v in s.values()
                      if torch.is_tensor(v) and v.numel() > 1)
        print("JSON", json.dumps({"weights": sum(getattr(p, "ds_tensor", p).numel() for p in engine.module.parameters()),
                                  "moments": moments, "first": calls[0], "second": calls[1]}), flush=True)
"""


@pytest.fixture(scope="module")
def stages():
    """For each of the stages 0 to 3: sizes on rank 0, and collectives during the two micro-batches of a step."""
    finished = run_ranks(STAGES, timeout=120)
    found = [
        json.loads(line.removeprefix("JSON "))
        for line in finished.ranks[0].splitlines()
        if line.startswith("JSON")
    ]
    assert len(found) == 4, finished.output
    return found


def test_adam_keeps_two_numbers_a_weight_and_stage_1_halves_them(stages):
    assert [stage["moments"] for stage in stages] == [2 * 8192, 8192, 8192, 8192]


def test_only_stage_3_splits_the_weights(stages):
    assert [stage["weights"] for stage in stages] == [8192, 8192, 8192, 4096]


def test_stages_0_and_1_are_silent_until_the_last_micro_batch_and_2_and_3_are_not(stages):
    assert [stage["first"] > 0 for stage in stages] == [False, False, True, True]
    assert all(stage["second"] > 0 for stage in stages)


def test_the_command_of_the_check_tells_a_model_that_fits_from_one_that_does_not():
    command = shlex.split(span("D16", "estimate_zero3"))
    assert command[:2] == ["python", "-c"]

    def gigabytes(code):
        """A GPU's share without offload."""
        line = r"([\d.]+)GB \| offload_param=none, offload_optimizer=none"
        return float(re.search(line, shown(code))[1])

    assert gigabytes(command[2]) == 15.15
    large = command[2].replace("total_params=7e9", "total_params=70e9")
    assert gigabytes(large) > 80
