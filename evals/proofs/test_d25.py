"""D25: attention heads that a tensor-parallel size doesn't divide. One process plays rank 0 of 4 (fake backend)."""

import ast
import json
import re
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist
from remote_gpu_trainer.catalogue import bundle
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

HEAD = 8
PLAN = {"wq": ColwiseParallel(), "wo": RowwiseParallel()}


class Attention(torch.nn.Module):
    def __init__(self, heads: int):
        super().__init__()
        self.wq = torch.nn.Linear(32, heads * HEAD, bias=False)
        self.wo = torch.nn.Linear(heads * HEAD, 32, bias=False)

    def forward(self, x):
        queries = self.wq(x).view(*x.shape[:2], -1, HEAD)
        return self.wo(queries.flatten(2))


@pytest.fixture
def mesh():
    fake = pytest.importorskip("torch.testing._internal.distributed.fake_pg")
    dist.init_process_group("fake", store=fake.FakeStore(), rank=0, world_size=4)
    yield init_device_mesh("cpu", (4,), mesh_dim_names=("tp",))
    dist.destroy_process_group()


def fitting(folder, **config) -> list:
    """What the entry's Check prints for a model of this configuration."""
    (folder / "MODEL").mkdir(exist_ok=True)
    (folder / "MODEL/config.json").write_text(json.dumps(config))
    code = re.search(r'python -c "(.*?)"`', bundle.load().get("D25").check, re.S)[1]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True
    )
    return ast.literal_eval(done.stdout.replace(" ", ",", 2))


@pytest.mark.parametrize("heads", [6, 2])
def test_heads_that_do_not_divide_fail_in_the_first_forward(mesh, heads):
    model = parallelize_module(Attention(heads), mesh, PLAN)
    assert model.wq.weight.to_local().shape == (heads * HEAD // 4, 32)  # split without a word
    with pytest.raises(RuntimeError, match=r"shape '\[2, 3, -1, 8\]' is invalid for input of size"):
        model(torch.zeros(2, 3, 32))


def test_heads_that_divide_pass(mesh):
    model = parallelize_module(Attention(8), mesh, PLAN)
    assert model(torch.zeros(2, 3, 32)).shape == (2, 3, 32)


def test_the_check_prints_the_sizes_that_fit_both_kinds_of_heads(tmp_path):
    assert fitting(tmp_path, num_attention_heads=28, num_key_value_heads=4) == (28, 4, [1, 2, 4])
    assert fitting(tmp_path, num_attention_heads=6) == (6, 6, [1, 2, 3, 6])
    assert fitting(tmp_path, text_config={"num_attention_heads": 8}) == (8, 8, [1, 2, 4, 8])


def test_the_entry_knows_what_three_libraries_print(says):
    says("D25", "num_attention_heads (28) must be a multiple of tensor_model_parallel_size (8).")
    says(
        "D25",
        "num_query_groups (3) must be a multiple or divisor of tensor_model_parallel_size (8).",
    )
    says("D25", "tensor_parallel_degree (16) must divide n_kv_heads (8).")
    says(
        "D25", "Total number of attention heads (28) must be divisible by tensor parallel size (8)."
    )
