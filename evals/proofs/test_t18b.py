"""T18b: each saving switch left on costs work in every step, for the same gradients; the loading switch costs nothing."""

import contextlib
import subprocess

import pytest
import torch
from check_code import span
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

ROWS = torch.randn(16, 32, generator=torch.Generator().manual_seed(0))
ALL_ON = {"offload": True, "recompute": True, "micro": 1}
ALL_OFF = {"offload": False, "recompute": False, "micro": 16}


class Work(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.operations = self.copies = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.operations += 1
        self.copies += func is torch.ops.aten.clone.default
        return func(*args, **(kwargs or {}))


def step(offload, recompute, micro):
    """(operations, copies to and from the host, gradients) of one update over the same 16 rows."""
    torch.manual_seed(0)
    blocks = torch.nn.ModuleList(
        torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.Tanh()) for _ in range(8)
    )
    pieces = ROWS.split(micro)
    away = (
        saved_tensors_hooks(torch.clone, torch.clone) if offload else contextlib.nullcontext()
    )  # to the host and back
    with Work() as work, away:
        for piece in pieces:
            rows = piece
            for block in blocks:
                rows = checkpoint(block, rows, use_reentrant=False) if recompute else block(rows)
            (rows.square().mean() / len(pieces)).backward()
    return work.operations, work.copies, [p.grad for p in blocks.parameters()]


def test_a_config_for_a_small_card_does_many_times_the_work_for_the_same_gradients():
    saving, _, old = step(**ALL_ON)
    plain, _, new = step(**ALL_OFF)
    assert saving > 20 * plain
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(old, new, strict=True))


@pytest.mark.parametrize("switch", ALL_ON)
def test_each_switch_taken_back_alone_saves_work(switch):
    assert step(**{**ALL_ON, switch: ALL_OFF[switch]})[0] < step(**ALL_ON)[0]


def test_offload_copies_in_every_step_until_it_is_off():
    assert step(**{**ALL_OFF, "offload": True})[1] > 10
    assert step(**ALL_OFF)[1] == 0


def test_low_cpu_mem_usage_changes_nothing_after_loading(small_llama, tmp_path):
    transformers = pytest.importorskip("transformers")
    transformers.LlamaForCausalLM(small_llama).save_pretrained(tmp_path)
    on, off = (
        transformers.LlamaForCausalLM.from_pretrained(tmp_path, low_cpu_mem_usage=value)
        for value in (True, False)
    )
    assert on.dtype == off.dtype and on.get_memory_footprint() == off.get_memory_footprint()
    assert all(torch.equal(a, b) for a, b in zip(on.parameters(), off.parameters(), strict=True))


@pytest.mark.parametrize(
    "config, found",
    [
        ('{"zero_optimization": {"stage": 3}}', True),
        ("offload_optimizer_device: cpu", True),
        ("load_in_4bit: true", True),
        ("optim: paged_adamw_32bit", True),
        ("fsdp: full_shard auto_wrap", True),
        ("low_vram: true", True),
        ("bf16: true\nper_device_train_batch_size: 16\noptim: adamw_torch_fused\n", False),
        ("gradient_checkpointing: true", False),  # T17
    ],
)
def test_the_grep_of_the_check_finds_a_switch_and_nothing_in_a_plain_config(
    tmp_path, config, found
):
    (tmp_path / "config").write_text(config)
    command = span("T18b", "grep").replace("CONFIG", "config")
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True)
    assert bool(done.stdout) is found and not done.stderr
