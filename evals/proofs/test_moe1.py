"""MOE1: two ranks whose tokens go to different experts, under ZeRO-3 on the CPU; needs deepspeed."""

from types import SimpleNamespace

import pytest
from launch import run_ranks
from torch import nn

pytest.importorskip("deepspeed")

TRAIN = """
    import datetime
    import deepspeed
    import torch
    from torch import nn

    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # else it is compiled
    deepspeed.init_distributed("gloo", timeout=datetime.timedelta(seconds=8))
    rank = torch.distributed.get_rank()

    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))

        def forward(self, x, used, idle):
            return sum(expert(x) if i in used else 0 * expert(x) for i, expert in enumerate(self.experts) if idle or i in used)

    class OneTensor(nn.Module):
        def __init__(self):
            super().__init__()
            self.experts = nn.Parameter(torch.randn(2, 8, 8))

        def forward(self, x, used, idle):
            return sum(x @ self.experts[i] for i in used)

    class Net(nn.Module):
        def __init__(self, block):
            super().__init__()
            self.inp, self.block, self.out = nn.Linear(8, 8), block, nn.Linear(8, 1)

        def forward(self, x, used, idle):
            return self.out(self.block(self.inp(x), used, idle)).mean()

    def train(name, block, stage=3, leaf=None, mark=False, idle=False):
        net = Net(block)
        if mark:
            blocks = {type(m) for m in net.modules() if any("expert" in name for name, _ in m.named_children())}
            deepspeed.utils.set_z3_leaf_modules(net, list(blocks))
        zero = {"stage": stage, "stage3_param_persistence_threshold": 0} | ({"leaf_module": {"classes": leaf}} if leaf else {})
        config = {"train_micro_batch_size_per_gpu": 1, "zero_force_ds_cpu_optimizer": False, "zero_allow_untested_optimizer": True,
                  "zero_optimization": zero}
        engine = deepspeed.initialize(model=net, optimizer=torch.optim.Adam(net.parameters(), lr=0.01), config=config)[0]
        for step in range(4):
            used = [0, 1] if step == 0 else [rank]
            engine.backward(engine(torch.ones(1, 8) * (rank + 1), used, idle))
            engine.step()
            print("step", rank, name, step, flush=True)
        print("trained", name, rank, len(deepspeed.utils.get_z3_leaf_modules(engine.module)), flush=True)

    RUNS
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
"""


def run(*runs: str):
    return run_ranks(
        TRAIN.replace("RUNS", "\n    ".join(runs)), env={"DS_ACCELERATOR": "cpu"}, timeout=100
    )


def test_ranks_that_call_different_experts_do_not_get_through():
    done = run('train("plain", Experts())')
    assert "step 0 plain 0" in done.output and "step 1 plain 0" in done.output, done.output
    assert not done.lines("trained") and done.returncode != 0, done.output


def test_a_marked_block_idle_experts_that_compute_one_tensor_and_stage_2_get_through():
    done = run(
        'train("marked", Experts(), mark=True)',
        'train("config", Experts(), leaf=["Experts"])',
        'train("idle", Experts(), idle=True)',
        'train("tensor", OneTensor())',
        'train("stage2", Experts(), stage=2)',
    )
    assert done.lines("trained") == sorted(
        f"trained {name} {rank} {marks}"
        for rank in (0, 1)
        for name, marks in [("marked", 1), ("config", 1), ("idle", 0), ("tensor", 0), ("stage2", 0)]
    ), done.output


def test_a_name_that_the_model_lacks_stops_with_the_signature(says):
    from deepspeed.utils import set_z3_leaf_modules

    with pytest.raises(ValueError) as error:
        set_z3_leaf_modules(nn.Sequential(nn.Linear(2, 2)), ["MixtralSparseMoeBlock"])
    says("MOE1", str(error.value))


def test_three_blocks_are_marked_by_default():
    from deepspeed.runtime.zero.leaf_module_config import DeepSpeedZeroLeafModuleConfig

    assert [name.rpartition(".")[2] for name in DeepSpeedZeroLeafModuleConfig().classes] == [
        "MixtralSparseMoeBlock",
        "Qwen2MoeSparseMoeBlock",
        "Qwen3MoeSparseMoeBlock",
    ]


def test_the_line_of_the_check_prints_0_until_the_block_is_marked(printed):
    import deepspeed

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.experts = nn.ModuleList(nn.Linear(2, 2) for _ in range(2))

    model = nn.Sequential(nn.Linear(2, 2), Block())
    names = {"deepspeed": deepspeed, "engine": SimpleNamespace(module=model)}
    assert printed("MOE1", **names) == "0"
    deepspeed.utils.set_z3_leaf_modules(model, [Block])
    assert printed("MOE1", **names) == "1"
