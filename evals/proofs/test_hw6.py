"""HW6: a link with fewer lanes than the card has, read from the system's list of devices."""

import subprocess

import pytest


@pytest.fixture
def lanes(tmp_path, shell_of):
    """lanes(a="4 16", …): what the check prints beside a disk and the server's own display, which has no link."""

    def shown(card_class="0x030200", vendor="0x10de", **cards):
        for name, widths in {**cards, "disk": "4 4", "bmc": "0 0"}.items():
            device = tmp_path / name
            device.mkdir()
            now, most = widths.split()
            for file, text in {
                "class": {"disk": "0x010802", "bmc": "0x030000"}.get(name, card_class),
                "vendor": {"disk": "0x144d", "bmc": "0x1a03"}.get(name, vendor),
                "current_link_width": now,
                "max_link_width": most,
                "current_link_speed": "16.0 GT/s PCIe",
            }.items():
                (device / file).write_text(text + "\n")
        code = shell_of("HW6", "current_link_width").replace("/sys/bus/pci/devices", str(tmp_path))
        out = subprocess.run(
            ["bash", "-c", code], capture_output=True, text=True, check=True
        ).stdout
        return [line.split()[:3] for line in out.splitlines()]

    return shown


def test_a_narrow_link_shows_beside_what_the_card_can_do(lanes):
    assert lanes(bad="4 16", good="16 16") == [["bad", "4", "16"], ["good", "16", "16"]]


def test_a_card_of_eight_lanes_is_whole(lanes):
    assert lanes(small="8 8") == [["small", "8", "8"]]


def test_an_accelerator_without_a_display_class_is_listed_too(lanes):
    assert lanes(card_class="0x120000", vendor="0x1002", mi300="16 16") == [["mi300", "16", "16"]]


def test_a_radeon_shows_its_lanes_at_its_bridge(lanes):
    """Its own line, of the link inside the card, would be `16 16`."""
    assert lanes(card_class="0x060400", vendor="0x1002", bridge="4 16") == [["bridge", "4", "16"]]


def test_the_line_of_lspci_is_recognised(says):
    says("HW6", "\t\tLnkSta:\tSpeed 16GT/s, Width x4 (downgraded)")
