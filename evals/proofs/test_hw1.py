"""HW1: a lost card in the kernel log and in what nvidia-smi says. The texts are the driver's, from public reports."""

import pytest
from check_code import span
from stub_box import Box

LOADED = "[    8.690011] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  590.48.01\n"
XID_79 = "[ 5107.644336] NVRM: Xid (PCI:0000:03:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
XID_31 = (
    "[24128.834365] NVRM: Xid (PCI:0000:01:00): 31, Ch 00000003, engmask 00000101, intr 10000000\n"
)
LOST = "Unable to determine the device handle for gpu 0000:01:00.0: GPU is lost. Reboot the system to recover this GPU\n"
SOUND = """\
Attached GPUs                                          : 8
    GPU Recovery Action                                : None
"""
FEWER = SOUND.replace(": 8", ": 7")
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\n"


@pytest.mark.parametrize(("log", "report", "confirmed"), [
    (LOADED + XID_79, LOST, True),
    (LOADED, "", True),  # it doesn't return: an empty file
    (LOADED, FEWER, True),
    (LOADED, SOUND, False),
    (LOADED + XID_31, SOUND, False),  # a program's fault
    (LOADED, MISMATCH, False),  # ENV11: no card answers, and none is lost
])  # fmt: skip
def test_a_lost_card_is_told_by_its_number_or_by_a_silent_nvidia_smi(
    tmp_path, log, report, confirmed
):
    box = Box(tmp_path)
    box.prints("nvidia-smi", report)
    box.prints("dmesg", log)
    box.program("sudo", 'exec "$@"')
    box.program("sleep", "exec /bin/sleep 0.2")
    lines = box.said(span("HW1", "dmesg -T")).splitlines()
    numbers = {line.split("): ")[1].split(",")[0] for line in lines if "Xid" in line}
    answer = box.said(span("HW1", "smi.txt"))
    empty = answer == "0 smi.txt"
    fewer = "Attached GPUs" in answer and not answer.splitlines()[0].endswith(": 8")
    lost = "lost" in answer
    assert bool(numbers & {"79", "119", "120"} or empty or lost or fewer) is confirmed
    assert lost is (report == LOST)
    assert (answer == SOUND.strip()) is (report == SOUND)


def test_the_texts_are_recognised(says):
    for text in (XID_79, LOST):
        says("HW1", text)
