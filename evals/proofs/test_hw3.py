"""HW3: when accelerate refuses GeForce 40 cards, and what silences it. The cards are described to accelerate's own check."""

import shlex

import pytest
import torch
from accelerate import PartialState
from accelerate.utils import environment
from check_code import shown, span


@pytest.fixture
def cards(monkeypatch):
    def describe(name: str, driver: str, count: int = 2):
        monkeypatch.setattr(environment, "get_gpu_info", lambda: ([name] * count, count))
        monkeypatch.setattr(environment, "get_driver_version", lambda: driver)

    return describe


@pytest.fixture
def state(monkeypatch):
    monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", "cuda")
    for name in ("LOCAL_RANK", "NCCL_P2P_DISABLE", "NCCL_IB_DISABLE"):
        monkeypatch.delenv(name, raising=False)
    PartialState._reset_state()
    yield PartialState
    PartialState._reset_state()


@pytest.mark.parametrize("name, driver, count, supported", [
    ("NVIDIA GeForce RTX 4090", "535.129.03", 2, False),
    ("NVIDIA GeForce RTX 4090", "550.40.07", 2, True),
    ("NVIDIA GeForce RTX 4090", "535.129.03", 1, True),
    ("NVIDIA GeForce RTX 5090", "535.129.03", 2, True),
    ("NVIDIA A100-SXM4-80GB", "470.57.02", 8, True),
])  # fmt: skip
def test_only_several_rtx_40_with_an_old_driver_are_refused(cards, name, driver, count, supported):
    cards(name, driver, count)
    assert environment.check_cuda_p2p_ib_support() is supported


@pytest.mark.parametrize("variables", [(), ("NCCL_P2P_DISABLE",), ("NCCL_IB_DISABLE",)])
def test_with_an_old_driver_both_variables_are_asked_for(
    cards, state, monkeypatch, says, variables
):
    cards("NVIDIA GeForce RTX 4090", "535.129.03")
    for name in variables:
        monkeypatch.setenv(name, "1")
    with pytest.raises(NotImplementedError) as error:
        state()
    says("HW3", str(error.value))


def test_both_variables_set_let_it_start(cards, state, monkeypatch):
    cards("NVIDIA GeForce RTX 4090", "535.129.03")
    monkeypatch.setenv("NCCL_P2P_DISABLE", "1")
    monkeypatch.setenv("NCCL_IB_DISABLE", "1")
    assert state().num_processes == 1


def test_a_newer_driver_needs_neither(cards, state):
    cards("NVIDIA GeForce RTX 4090", "550.40.07")
    assert state().num_processes == 1


@pytest.mark.parametrize(("claims", "zeros", "printed"), [
    (False, False, "False True"),  # a healthy pair of RTX 40
    (True, True, "True False"),  # an early driver: it claims the path, and what arrives is zeros
    (True, False, "True True"),
])  # fmt: skip
def test_the_check_tells_broken_copying_from_a_healthy_pair(monkeypatch, claims, zeros, printed):
    """The CPU's memory stands for both cards'; the driver is described to torch."""
    code = shlex.split(span("HW3", "can_device_access_peer"))[2]
    assert "device='cuda:0'" in code and ".to('cuda:1')" in code
    monkeypatch.setattr(torch.cuda, "can_device_access_peer", lambda a, b: claims)
    if zeros:
        monkeypatch.setattr(torch.Tensor, "to", lambda self, place: torch.zeros_like(self))
    assert shown(code.replace("cuda:0", "cpu").replace("cuda:1", "cpu")) == printed
