"""D42: ranks are forked from a process that has used CUDA. The use is played by torch's own flag, since there is no card."""

from types import SimpleNamespace

import pytest
import torch
from check_code import shown, span

pytest.importorskip("lightning", minversion="2.6.1")
from lightning.fabric.strategies.launchers import multiprocessing as launchers


@pytest.fixture(params=[False, True], ids=["untouched", "used"])
def used(request, monkeypatch):
    """Whether this process has used CUDA."""
    monkeypatch.setattr(torch.cuda, "_initialized", request.param)
    return request.param


def test_the_line_of_the_check_says_whether_the_process_has_used_cuda(used):
    assert shown(span("D42", "is_initialized")) == str(used)


def test_lightning_before_2_6_1_asks_for_just_that_and_refuses(used, monkeypatch, says):
    """Its old question is still there, for a torch that can't say whether it was forked."""
    cuda = SimpleNamespace(is_initialized=torch.cuda.is_initialized)
    monkeypatch.setattr(launchers, "torch", SimpleNamespace(cuda=cuda))
    if used:
        with pytest.raises(RuntimeError) as stop:
            launchers._check_bad_cuda_fork()
        says("D42", str(stop.value))
    else:
        launchers._check_bad_cuda_fork()


def test_later_ones_start_the_ranks_and_those_stop_with_torch_s_own_text(monkeypatch, says):
    monkeypatch.setattr(torch.cuda, "_initialized", True)
    launchers._check_bad_cuda_fork()  # in the notebook's process

    monkeypatch.setattr(torch.cuda, "_initialized", False)  # as torch leaves it in a forked rank
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)
    with pytest.raises(
        RuntimeError, match="Cannot re-initialize CUDA in forked subprocess"
    ) as stop:
        torch.cuda._lazy_init()
    says("DP18", str(stop.value))


@pytest.mark.parametrize("asked, cards, strategy", [("auto", 1, None), (2, 2, "ddp_fork")])
def test_in_a_notebook_lightning_takes_one_card_unless_asked_for_more(
    monkeypatch, asked, cards, strategy
):
    from lightning.pytorch.accelerators import CUDAAccelerator
    from lightning.pytorch.trainer.connectors import accelerator_connector as connector

    monkeypatch.setattr(connector, "_IS_INTERACTIVE", True)
    monkeypatch.setattr(CUDAAccelerator, "auto_device_count", staticmethod(lambda: 2))
    chosen = connector._AcceleratorConnector.__new__(connector._AcceleratorConnector)
    chosen._devices_flag, chosen._num_nodes_flag = asked, 1
    chosen._accelerator_flag = chosen.accelerator = CUDAAccelerator()
    chosen._set_devices_flag_if_auto_passed()
    assert chosen._devices_flag == cards
    if strategy:
        chosen._parallel_devices = [torch.device("cuda", i) for i in range(cards)]
        assert chosen._choose_strategy() == strategy
