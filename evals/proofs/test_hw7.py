"""HW7: MIG in the fields of a capture from a cut card, and of one from whole cards."""

from check_code import span
from smi_capture import CAPTURES, smi
from stub_box import Box


def told(tmp_path, capture: str) -> str:
    box = Box(tmp_path)
    smi(box, capture, (CAPTURES / capture / "nvidia-smi-list.txt").read_text(encoding="utf-8"))
    return box.said(span("HW7", "mig.mode.current"), CUDA_VISIBLE_DEVICES="0")


def test_a_cut_card_says_enabled_and_lists_its_slices(tmp_path):
    lines = told(tmp_path, "h100mig").splitlines()
    assert lines[1].endswith(", Enabled")
    assert sum("MIG-" in line for line in lines) == 2
    assert lines[-1] == "0"


def test_whole_cards_say_disabled(tmp_path):
    lines = told(tmp_path, "h100x8").splitlines()
    assert [line.split(", ")[-1] for line in lines[1:9]] == ["Disabled"] * 8
    assert not any("MIG-" in line for line in lines)
