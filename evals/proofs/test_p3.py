"""P3: what torch says about bf16 on a card that only emulates it. torch's own code decides; the card is described to it."""

import re
from types import SimpleNamespace

import pytest
import torch
from remote_gpu_trainer.catalogue import bundle


@pytest.fixture
def card(monkeypatch):
    def describe(major: int, can_hold_bf16: bool = True):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
        monkeypatch.setattr(torch.version, "cuda", "12.8")
        monkeypatch.setattr(
            torch.cuda, "get_device_properties", lambda device: SimpleNamespace(major=major)
        )
        monkeypatch.setattr(
            torch.cuda, "_check_bf16_tensor_supported", lambda device: can_hold_bf16
        )

    return describe


@pytest.mark.parametrize("major", [7, 8, 9])
def test_every_card_that_can_hold_a_bf16_number_is_called_supported(card, major):
    card(major)
    assert torch.cuda.is_bf16_supported()


@pytest.mark.parametrize("major, native", [(7, False), (8, True), (9, True)])
def test_without_emulation_the_answer_follows_the_card(card, major, native):
    card(major)
    assert torch.cuda.is_bf16_supported(including_emulation=False) is native


def test_autocast_lets_an_emulating_card_pass_without_a_word(card, monkeypatch, recwarn):
    card(7)
    monkeypatch.setattr(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)
    assert torch.autocast("cuda", dtype=torch.bfloat16)._enabled
    assert not recwarn.list


def test_a_card_that_can_not_hold_bf16_is_refused_with_the_signature(card, monkeypatch, says):
    card(7, can_hold_bf16=False)
    monkeypatch.setattr(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)
    with pytest.raises(RuntimeError) as error:
        torch.autocast("cuda", dtype=torch.bfloat16)
    says("P3", str(error.value))


@pytest.mark.parametrize("line", [
    "ptxas /tmp/compile-ptx-src-ce8fce, line 77; error   : Feature '.bf16' requires .target sm_80 or higher",
    "ptxas /tmp/compile-ptx-src-ce8fce, line 77; error   : Feature 'cvt with .f32.bf16' requires .target sm_80 or higher",
    "ptxas /tmp/tmpv5eqmmj8.ptx, line 1759; error   : Feature 'cvt.bf16.f32' requires .target sm_80 or higher",
    "UserWarning: Tesla T4 does not support bfloat16 compilation natively, skipping",
    "ValueError: Your setup doesn't support bf16/gpu. You need torch>=1.10, using Ampere GPU with cuda>=11.0",
    "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your Tesla T4 GPU has compute capability 7.5.",
])  # fmt: skip
def test_the_lines_of_compilers_and_frameworks_are_recognised(says, line):
    says("P3", line)


def test_a_box_without_any_gpu_is_not_taken_for_an_old_card():
    assert torch.cuda.is_available() or not torch.cuda.is_bf16_supported()


def test_the_demand_of_tf32_is_no_sign_of_bf16_because_a_box_without_a_gpu_prints_it_too(says):
    with pytest.raises(AssertionError):
        says(
            "P3", "ValueError: --tf32 requires Ampere or a newer GPU arch, cuda>=11 and torch>=1.7"
        )


@pytest.mark.parametrize("name, major, native", [("Tesla T4", 7, False), ("A100", 8, True)])
def test_the_check_names_the_card_and_its_capability_which_decides(
    card, monkeypatch, capsys, name, major, native
):
    card(major)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: name)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (major, 0))
    exec(re.search(r'python -c "([^"]*)"', bundle.load().get("P3").check)[1], {})
    assert capsys.readouterr().out.split("\n")[0] == f"{name} ({major}, 0)"
    assert torch.cuda.is_bf16_supported(including_emulation=False) is native
