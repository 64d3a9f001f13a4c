"""ENV23: the driver's tools are there and its module isn't. The kernel log is a capture; lsmod and lspci print as on Ubuntu."""

from pathlib import Path

import pytest
from check_code import span
from stub_box import Box

CAPTURES = Path(__file__).parents[2] / "tests/gpu_health/gpu_captures"
LOADED = "Module                  Size  Used by\nnvidia_uvm           4956160  0\nnvidia              54095872  9 nvidia_uvm\next4                 1064960  1\n"
WITHOUT = "Module                  Size  Used by\nnouveau              3096576  0\nnvidiafb               61440  0\next4                 1064960  1\n"
CARD = "00:03.0 Ethernet controller: Google, Inc. Compute Engine Virtual Ethernet [gVNIC]\n00:04.0 3D controller: NVIDIA Corporation TU104GL [Tesla T4] (rev a1)\n"
NO_CARD = CARD.splitlines(keepends=True)[0]


@pytest.mark.parametrize(("modules", "devices", "confirmed"), [
    (WITHOUT, CARD, True), (LOADED, CARD, False), (WITHOUT, NO_CARD, False),
], ids=["no module", "loaded", "no card"])  # fmt: skip
def test_no_module_beside_a_card_confirms_it(tmp_path, modules, devices, confirmed):
    box = Box(tmp_path)
    box.prints("lsmod", modules)
    box.prints("lspci", devices)
    box.prints("dkms", "nvidia/535.183.01, 6.8.0-1014-gcp, x86_64: installed\n")
    box.prints("uname", "6.8.0-1015-gcp\n")
    box.prints("dmesg")
    box.program("sudo", 'exec "$@"')
    first, card, *_ = [*box.said(span("ENV23", "lsmod")).split("6.8.0-1015-gcp", 1), ""]
    assert (not first.strip() and "NVIDIA" in card) is confirmed  # nvidiafb is no driver


def test_a_driver_of_another_kernel_shows_beside_the_number_of_this_one(tmp_path):
    box = Box(tmp_path)
    box.prints("lsmod", WITHOUT)
    box.prints("dkms", "nvidia/535.183.01, 6.8.0-1014-gcp, x86_64: installed\n")
    box.prints("uname", "6.8.0-1015-gcp\n")
    said = box.said(span("ENV23", "lsmod"))
    assert "6.8.0-1015-gcp" in said.splitlines() and "6.8.0-1014-gcp, x86_64: installed" in said


def test_the_text_of_nvidia_smi_is_recognised(says):
    says("ENV23", (CAPTURES / "driver-not-loaded/nvidia-smi.csv").read_text(encoding="utf-8"))
