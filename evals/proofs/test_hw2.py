"""HW2: error counts of the card's memory. The report is nvidia-smi's of a sound H100 with driver 590, the log lines are the driver's."""

import pytest
from check_code import span
from stub_box import Box

SOUND = """\
GPU 00000000:00:09.0
    ECC Mode
        Current                                        : Enabled
        Pending                                        : Enabled
    ECC Errors
        Volatile
            SRAM Correctable                           : 0
            SRAM Uncorrectable Parity                  : 0
            SRAM Uncorrectable SEC-DED                 : 0
            DRAM Correctable                           : 7
            DRAM Uncorrectable                         : 0
        Aggregate
            SRAM Correctable                           : 0
            SRAM Uncorrectable Parity                  : 0
            SRAM Uncorrectable SEC-DED                 : 0
            DRAM Correctable                           : 7
            DRAM Uncorrectable                         : 0
    Remapped Rows
        Correctable Error                              : 0
        Uncorrectable Error                            : 0
        Pending                                        : No
        Remapping Failure Occurred                     : No
"""
UNCORRECTED = "DRAM Uncorrectable                         : 0\n        Aggregate"
OLD = "DRAM Uncorrectable                         : 0\n    Remapped"
LOADED = "[    8.690011] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  590.48.01\n"
# https://github.com/stas00/ml-engineering/blob/master/compute/accelerator/nvidia/debug.md
XID_63 = "[ 9012.1] NVRM: Xid (PCI:0000:10:1c): 63, pid=1896, Row Remapper: New row marked for remapping, reset gpu to activate.\n"
XID_31 = "[ 9012.1] NVRM: Xid (PCI:0000:04:00): 31, Ch 00000003, engmask 00000101, intr 10000000\n"


def swapped(old: str, new: str) -> str:
    assert SOUND.count(old) == 1
    return SOUND.replace(old, new)


@pytest.mark.parametrize(("report", "log", "confirmed"), [
    (SOUND, LOADED, False),  # corrected errors change no result
    (swapped(UNCORRECTED, UNCORRECTED.replace(": 0", ": 2")), LOADED, True),
    (swapped(OLD, OLD.replace(": 0", ": 2")), LOADED, False),  # an old fault, repaired
    (swapped("Pending                                        : No", "Pending : Yes"), LOADED, True),
    (swapped("Failure Occurred                     : No", "Failure Occurred : Yes"), LOADED, True),
    (SOUND, LOADED + XID_63, True),
    (SOUND, LOADED + XID_31, False),  # a program's fault
])  # fmt: skip
def test_the_lines_of_the_check_confirm_it_only_for_an_uncorrected_fault(
    tmp_path, report, log, confirmed
):
    box = Box(tmp_path)
    box.prints("nvidia-smi", report)
    box.prints("dmesg", log)
    box.program("sudo", 'exec "$@"')
    part, bad = "", False
    for line in box.said(span("HW2", "ROW_REMAPPER")).splitlines():
        name, _, value = line.strip().partition(":")
        part = name if name in ("Volatile", "Aggregate") else part
        if "NVRM: Xid" in line:
            bad |= line.split("): ")[1].split(",")[0] in ("48", "63", "64", "94", "95")
        elif "Uncorrectable" in name:
            bad |= part == "Volatile" and value.strip() != "0"
        bad |= value.strip() == "Yes"
    assert bad is confirmed


def test_the_texts_are_recognised(says):
    says("HW2", XID_63)
    says("HW2", "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered")
