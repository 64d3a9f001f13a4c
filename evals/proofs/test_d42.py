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
