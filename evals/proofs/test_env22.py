"""ENV22: what torch makes of CUDA_VISIBLE_DEVICES, and a Check that tells the variable from the missing module.

The cards and the driver are described to torch; the variable is read by torch's own code.
"""

import shlex
import warnings

import pytest
import torch
from check_code import shown, span

UNKNOWN = (
    "CUDA initialization: CUDA unknown error - this may be due to an incorrectly set up environment, e.g. changing env "
    "variable CUDA_VISIBLE_DEVICES after program start. Setting the available devices to be zero."
)


@pytest.fixture
def box(monkeypatch):
    """box(cards, module): a machine whose driver lists these cards; CUDA itself needs the module too."""

    def describe(cards: int = 1, module: bool = True):
        def count():
            if not module:
                warnings.warn(UNKNOWN, stacklevel=2)
                return 0
            return torch.cuda._device_count_nvml()

        monkeypatch.setattr(torch.cuda, "_is_compiled", lambda: True)
        monkeypatch.setattr(torch.cuda, "_raw_device_count_nvml", lambda: cards)
        monkeypatch.setattr(torch._C, "_cuda_getDeviceCount", count, raising=False)

    return describe


@pytest.mark.parametrize(
    ("value", "cards", "left"),
    [("0", 1, 1), ("1", 1, 0), ("", 1, 0), ("-1", 1, 0), ("0,5,1", 2, 1), ("1", 2, 1)],
)
def test_the_variable_ends_at_the_first_number_that_does_not_exist(
    box, monkeypatch, value, cards, left
):
    box(cards)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    assert torch.cuda.device_count() == left


def told(monkeypatch) -> str:
    """What the Check's Python prints; its shell takes the variable away."""
    words = shlex.split(span("ENV22", "env -u"))
    assert words[:3] == ["env", "-u", "CUDA_VISIBLE_DEVICES"]
    with monkeypatch.context() as there:
        there.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        there.delenv("PYTORCH_NVML_BASED_CUDA_CHECK", raising=False)  # accelerate may have set it
        return shown(words[5].rstrip(";"))


def test_true_blames_the_variable_and_false_with_the_warning_the_module(box, monkeypatch, says):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    box()
    assert not torch.cuda.is_available()
    assert told(monkeypatch) == "True"
    box(module=False)
    with pytest.warns(UserWarning, match="CUDA unknown error") as seen:
        assert told(monkeypatch) == "False"
    says("ENV22", str(seen[0].message))


def test_a_count_would_find_the_card_although_the_module_is_missing(box, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    box(module=False)
    assert torch.cuda.device_count() == 1
