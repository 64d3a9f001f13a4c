"""P2: two switches for TF32, which torch 2.9 and later keep apart. The settings exist without a GPU too."""

import os
import subprocess
import sys

import pytest
import torch
from torch import backends

pytestmark = pytest.mark.skipif(
    not hasattr(backends, "fp32_precision"), reason="torch older than 2.9 has one switch"
)


@pytest.fixture(autouse=True)
def untouched_afterwards():
    yield
    backends.fp32_precision = "none"
    backends.cudnn.allow_tf32 = True
    torch.set_float32_matmul_precision("highest")
    backends.cuda.matmul.fp32_precision = "none"
    assert state() == ("none", "highest", False)


def state():
    """The new switch, then both old ones; "raises" where reading one is refused."""
    return (
        backends.cuda.matmul.fp32_precision,
        read(torch.get_float32_matmul_precision),
        read(old_flag),
    )


def old_flag():
    return backends.cuda.matmul.allow_tf32


def read(getter):
    try:
        return getter()
    except RuntimeError:
        return "raises"


def new_for_matmul(value):
    backends.cuda.matmul.fp32_precision = value


def new_for_all(value):
    backends.fp32_precision = value


def test_products_are_full_fp32_and_convolutions_tf32_unless_asked():
    assert state() == ("none", "highest", False)
    assert backends.cudnn.allow_tf32 and backends.cudnn.conv.fp32_precision == "tf32"


def test_the_old_call_sets_both_switches():
    torch.set_float32_matmul_precision("high")
    assert state() == ("tf32", "high", True)
    torch.set_float32_matmul_precision("highest")
    backends.cuda.matmul.allow_tf32 = True
    assert state() == ("tf32", "high", True)


@pytest.mark.parametrize("switch", [new_for_matmul, new_for_all])
def test_after_the_new_switch_both_old_ones_can_not_be_read(switch, says):
    switch("tf32")
    assert state() == ("tf32", "raises", "raises")
    for getter in (torch.get_float32_matmul_precision, old_flag):
        with pytest.raises(RuntimeError) as error:
            getter()
        says("P2", str(error.value))


def test_the_old_reading_is_wrong_after_the_new_switch_turned_tf32_off_again():
    torch.set_float32_matmul_precision("high")
    new_for_matmul("ieee")
    assert state() == ("ieee", "high", "raises")


def test_the_global_switch_changes_nothing_once_an_old_call_was_made():
    torch.set_float32_matmul_precision("high")
    new_for_all("ieee")
    assert state() == ("tf32", "high", True)
    torch.set_float32_matmul_precision("highest")
    new_for_all("tf32")
    assert state() == ("ieee", "highest", False)


@pytest.mark.parametrize("switch", [new_for_matmul, new_for_all])
def test_the_old_call_repairs_a_mixed_state(switch):
    switch("tf32")
    torch.set_float32_matmul_precision("high")
    assert state() == ("tf32", "high", True)


def test_convolution_and_recurrent_switches_that_differ_raise_as_well(says):
    backends.cudnn.conv.fp32_precision = "ieee"
    with pytest.raises(RuntimeError) as error:
        backends.cudnn.allow_tf32
    says("P2", str(error.value))


HINT = """
import torch
torch.cuda.is_available = lambda: True
torch.cuda.get_device_capability = lambda: (8, 0)
from torch._inductor import compile_fx
compile_fx._warn_tf32_disabled()
"""


def test_the_hint_of_the_compiler_is_recognised_and_since_2_14_printed_only_when_asked_for(says):
    """An Ampere card is described to the compiler."""

    def printed(**variables) -> str:
        env = {k: v for k, v in os.environ.items() if k != "TORCH_LOGS"} | variables
        command = [sys.executable, "-c", HINT]
        return subprocess.run(
            command, env=env, stderr=subprocess.PIPE, text=True, check=True
        ).stderr

    if torch.__version__ >= (2, 14):
        assert "TensorFloat32" not in printed()
        says("P2", printed(TORCH_LOGS="perf_hints"))
    else:
        says("P2", printed())


def test_the_check_reads_the_switch_in_each_state_and_never_raises(printed):
    assert printed("P2", torch=torch) == "none"
    torch.set_float32_matmul_precision("high")
    assert printed("P2", torch=torch) == "tf32"
    new_for_matmul("ieee")
    assert printed("P2", torch=torch) == "ieee"
    new_for_matmul("tf32")
    assert printed("P2", torch=torch) == "tf32"
