"""ENV1: which card torch's own code calls unsupported, and with which words. The card and the build are described to it."""

import shlex
import warnings

import pytest
import torch
from check_code import shown, span

CU126 = ["sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90"]
CU130 = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"]


@pytest.fixture
def warned(monkeypatch):
    def check(capability: tuple[int, int], build: list[str]) -> str:
        monkeypatch.setattr(torch.version, "cuda", "13.0")
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
        monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: build)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: capability)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a card")
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            torch.cuda._check_capability()
            torch.cuda._check_cubins()
        return "\n".join(str(w.message) for w in seen)

    return check


@pytest.mark.parametrize("capability, build", [((12, 0), CU126), ((7, 0), CU130), ((6, 0), CU130)])
def test_a_card_that_the_build_has_no_code_for_is_named_with_the_signature(
    warned, says, capability, build
):
    says("ENV1", warned(capability, build))


def test_a_card_of_a_newer_major_number_is_named_in_the_older_words_too(warned, says):
    older = warned((12, 0), CU126).split("NVIDIA", 1)[-1]
    assert (
        "with CUDA capability sm_120 is not compatible with the current PyTorch installation"
        in older
    )
    says("ENV1", older)


@pytest.mark.parametrize(
    "capability, build", [((8, 9), CU126), ((7, 0), CU126), ((6, 1), CU126), ((12, 1), CU130)]
)
def test_code_of_the_same_major_and_a_lower_minor_number_runs(warned, capability, build):
    assert warned(capability, build) == ""


def test_only_cu126_of_this_release_serves_volta(warned):
    advice = warned((7, 0), CU130)
    assert "/cu126" in advice
    assert "/cu130" not in advice


def test_for_blackwell_cards_cu130_is_advised_and_below_2_14_cu129(warned):
    advice = warned((12, 0), CU126)
    assert "/cu130" in advice
    assert ("/cu129" in advice) == (torch.__version__ < (2, 14))


@pytest.mark.parametrize("line", [
    "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device",
    "    PyTorch no longer supports this GPU because it is too old.",
    "nvcc fatal   : Unsupported gpu architecture 'compute_120'",
    "ptxas fatal   : Value 'sm_120' is not defined for option 'gpu-name'",
])  # fmt: skip
def test_the_words_of_older_releases_and_compilers_are_recognised(says, line):
    says("ENV1", line)


@pytest.mark.parametrize("capability, build, confirmed", [
    ((12, 0), CU126, True),
    ((7, 0), CU130, True),
    ((8, 9), CU126, False),  # 8.0 and 8.6 serve it
    ((9, 0), CU130, False),
    ((8, 0), ["sm_86", "sm_90"], True),  # a higher minor number doesn't
])  # fmt: skip
def test_the_check_agrees_with_torch_on_whether_the_build_knows_the_card(
    warned, capability, build, confirmed
):
    complained = warned(capability, build) != ""
    printed = shown(shlex.split(span("ENV1", "get_arch_list"))[2])
    card, names = eval(printed.split(" ", 1)[1].replace(") [", "), ["))
    known = {(int(name[3:-1]), int(name[-1])) for name in names}
    serving = [one for one in known if one[0] == card[0] and one[1] <= card[1]]
    assert (not serving) == complained == confirmed
