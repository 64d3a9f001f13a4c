"""ROC1: the chip's name is or isn't among those that the build has code for. The card and the build are described to torch."""

import shlex
from types import SimpleNamespace

import pytest
import torch
from check_code import shown, span

ROCM72 = "gfx900 gfx906 gfx908 gfx90a gfx942 gfx950 gfx1030 gfx1100 gfx1101 gfx1102 gfx1103 gfx1150 gfx1151 gfx1200 gfx1201"


@pytest.mark.parametrize(("cards", "confirmed"), [
    (["gfx1032"], [True]),
    (["gfx1010:xnack-"], [True]),
    (["gfx90a:sramecc+:xnack-"], [False]),
    (["gfx942:sramecc+:xnack-", "gfx1036"], [False, True]),  # the processor's own graphics
])  # fmt: skip
def test_a_name_before_the_colon_that_is_not_in_the_list_confirms_it(monkeypatch, cards, confirmed):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(cards))
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda i: SimpleNamespace(gcnArchName=cards[i])
    )
    monkeypatch.setattr(torch.cuda, "get_arch_list", ROCM72.split)
    printed = shown(shlex.split(span("ROC1", "gcnArchName"))[2])
    version, lists = printed.split(" ", 1)
    assert version == torch.__version__
    names, known = eval(lists.replace("] [", "], ["))
    assert [name.split(":")[0] not in known for name in names] == confirmed


@pytest.mark.parametrize("line", [
    "RuntimeError: HIP error: invalid device function",
    "RuntimeError: HIP error: device kernel image is invalid",
    "Search for `hipErrorInvalidImage' in https://rocm.docs.amd.com/projects/HIP/en/latest/ for more information.",
])  # fmt: skip
def test_the_texts_are_recognised(says, line):
    if line.startswith("Search"):
        line = "torch.AcceleratorError: CUDA error: " + line
    says("ROC1", line)
