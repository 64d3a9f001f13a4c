"""U22: the Check picks the driver's faults out of a kernel log. Its lines are the driver's, from public reports."""

import pytest
from check_code import span
from stub_box import Box

QUIET = """\
[    8.102233] nvidia: loading out-of-tree module taints kernel.
[    8.690011] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  590.44.01  Mon Jun  1 00:00:00 UTC 2026
[   31.770102] EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode. Quota mode: none.
"""
XID = "[ 5107.644336] NVRM: Xid (PCI:0000:03:00): {}\n"


@pytest.mark.parametrize(("fault", "number"), [
    ("79, GPU has fallen off the bus.", "79"),
    ("74, pid=1234, name=python3, Channel 0x23, MMU Fault: ENGINE GRAPHICS", "74"),
    ("31, Ch 00000003, engmask 00000101, intr 10000000", "31"),
    ("", ""),
])  # fmt: skip
def test_the_check_prints_the_number_that_the_table_explains_and_nothing_of_a_quiet_log(
    tmp_path, fault, number
):
    box = Box(tmp_path)
    box.prints("dmesg", QUIET + (XID.format(fault) if fault else ""))
    box.program("sudo", 'exec "$@"')
    lines = box.said(span("U22", "dmesg -T")).splitlines()
    assert [line.split("): ")[1].split(",")[0] for line in lines] == [number] * bool(fault)


@pytest.mark.parametrize(("action", "failed", "fault"), [
    ("None", "No", False), ("Reset", "No", True), ("None", "Yes", True),
])  # fmt: skip
def test_where_the_log_is_closed_the_cards_own_report_answers(tmp_path, action, failed, fault):
    box = Box(tmp_path)
    report = f"""
    Product Name : NVIDIA H100 80GB HBM3
    MIG Mode
        Pending : Disabled
    ECC Mode
        Pending : Enabled
    GPU Recovery Action : {action}
    Remapped Rows
        Pending : No
        Remapping Failure Occurred : {failed}
"""
    box.prints("nvidia-smi", report)
    said = [line.split(" : ") for line in box.said(span("U22", "nvidia-smi -q")).splitlines()]
    assert len(said) == 5
    assert fault is any(
        value == "Yes" or ("Action" in name and value != "None") for name, value in said
    )
