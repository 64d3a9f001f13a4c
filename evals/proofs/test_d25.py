"""D25: attention heads that a tensor-parallel size doesn't divide. One process plays rank 0 of 4 (fake backend)."""

from unittest import mock

import pytest
import torch
import torch.distributed as dist
from check_code import span, typed
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


def printed(config) -> str:
    """What the entry's Check prints for this configuration."""
    with mock.patch("transformers.AutoConfig.from_pretrained", return_value=config):
        return typed(span("D25", "MODEL"))


@pytest.mark.parametrize("heads", [6, 2])
def test_heads_that_do_not_divide_fail_in_the_first_forward(mesh, heads):
    model = parallelize_module(Attention(heads), mesh, PLAN)
    assert model.wq.weight.to_local().shape == (heads * HEAD // 4, 32)  # split without a word
    with pytest.raises(RuntimeError, match=r"shape '\[2, 3, -1, 8\]' is invalid for input of size"):
        model(torch.zeros(2, 3, 32))


def test_heads_that_divide_pass(mesh):
    model = parallelize_module(Attention(8), mesh, PLAN)
    assert model(torch.zeros(2, 3, 32)).shape == (2, 3, 32)


def test_the_check_prints_the_sizes_that_fit_both_kinds_of_heads():
    transformers = pytest.importorskip("transformers")
    heads = {"num_attention_heads": 28, "num_key_value_heads": 4}
    assert printed(transformers.Qwen2Config(**heads)) == "28 4 [1, 2, 4] [4, 28]"
    assert printed(transformers.Qwen2_5_VLConfig(text_config=heads)) == "28 4 [1, 2, 4] [4, 28]"
    assert printed(transformers.GPT2Config(n_head=6)) == "6 6 [1, 2, 3, 6] [6]"
    heads = {"num_attention_heads": 32, "num_key_value_heads": 8}
    assert printed(transformers.LlamaConfig(**heads)) == "32 8 [1, 2, 4, 8] [8, 16, 32]"


def test_the_entry_knows_what_the_libraries_print(says):
    # megatron-core's transformer_config.py, torchtitan's decoder.py, vLLM, verl's monkey_patch.py:
    # the addresses are under Sources. None of them runs here.
    says("D25", "num_attention_heads (28) must be a multiple of tensor_model_parallel_size (8).")
    says(
        "D25",
        "num_query_groups (3) must be a multiple or divisor of tensor_model_parallel_size (8).",
    )
    says("D25", "tensor_parallel_degree (16) must divide n_kv_heads (8).")
    says(
        "D25", "Total number of attention heads (28) must be divisible by tensor parallel size (8)."
    )
    says("D25", "num_attention_heads 28 must be divisible by ulysses_sp_size 8")
    says("D25", "num_key_value_heads 6 must be divisible by ulysses_sp_size 4or vise versa.")
