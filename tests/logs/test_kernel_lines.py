"""Kernel logs in a look-up: the one reader of kernel logs says what failed in them."""

import os
import random
import re
from pathlib import Path

import pytest
from remote_gpu_trainer.logs import kernel_lines, reading, remote
from remote_gpu_trainer.lookup.answer import answer_for

PLAIN = "[{at}.000001] usb 1-1: new high-speed USB device number {at} using xhci_hcd"
XID = "[{at}.500000] NVRM: Xid (PCI:0000:3b:00): {code}, pid={pid}, name=python, {text}"
NMI = "[    0.122311] NMI watchdog: Enabled. Permanently consumes one hw-PMU counter."
LOST = "GPU has fallen off the bus."
ENTRIES = {13: "U22", 31: "U22", 32: "U22", 43: "U22", 45: "U22", 79: "HW1", 94: "HW2", 95: "HW2", 119: "HW1", 109: "U22"}  # fmt: skip


def log(tmp_path, *lines, name="dmesg.txt"):
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def first(path):
    answer = answer_for(log=path)
    return answer.matches[0]["id"] if answer.matches else None


def boot(number):
    return [PLAIN.format(at=at) for at in range(number)]


@pytest.mark.parametrize("code", ENTRIES)
@pytest.mark.parametrize("before", [0, 50])
@pytest.mark.parametrize("number", [1, 9, 40])
def test_an_xid_gives_its_entry_at_any_distance_and_in_any_number(code, before, number, tmp_path):
    text = LOST if code == 79 else "x"
    storm = [XID.format(at=100 + at, code=code, pid=7, text=text) for at in range(number)]
    assert first(log(tmp_path, NMI, *boot(before), *storm, *boot(before))) == ENTRIES[code]


def test_a_storm_is_one_line_with_number_times_and_process(tmp_path):
    storm = [XID.format(at=100 + at, code=31, pid=10 + at % 3, text="x") for at in range(672)]
    evidence = reading.from_path(log(tmp_path, *boot(60), *storm, *boot(60)))
    lines = [line for line in evidence.lines if "Xid" in line.text]
    assert len(lines) == 1 and lines[0] == evidence.decisive[0]
    assert (
        "31, (672 times, 3 different, from 100 s to 772 s; by python 10, python 11 and 1 more)"
        in lines[0].text
    )


def test_a_storm_in_a_file_too_large_to_be_kept_is_counted_whole(tmp_path):
    storm = [
        XID.format(at=9, code=95, pid=1, text=f"LTC TAG (0x{at % 29:x})") for at in range(20_000)
    ]
    evidence = reading.from_path(log(tmp_path, *boot(9000), *storm, *boot(9000)))
    assert "95, (20000 times, 29 different; by python 1)" in evidence.decisive[0].text


@pytest.mark.parametrize(
    "line",
    [
        NMI,
        "[    1.000001] watchdog: Delayed init of the lockup detector failed: -22",
        "[    1.000001] ACPI Error: AE_NOT_FOUND, Evaluating _PRS",
        "[    1.000001] systemd[1]: Started Process Core Dump (PID 812/UID 0).",
        "Nov 22 18:29:55 node7 kernel: [  966.503025] pcieport: probe of 0000:00 failed with error -110",
    ],
)
def test_a_line_of_the_kernel_that_isnt_an_event_is_no_failure(line, tmp_path):
    evidence = reading.from_path(log(tmp_path, *boot(20), line, *boot(20)))
    assert evidence.first is None and not evidence.failed()
    assert first(log(tmp_path, *boot(20), line, *boot(20))) is None


def test_a_fault_before_the_last_boot_is_told_as_old_and_not_claimed(tmp_path):
    path = log(
        tmp_path,
        XID.format(at=5, code=79, pid=1, text=LOST),
        "[    0.000000] Linux version 6.8.0-60-generic",
        *boot(60),
    )
    answer = answer_for(log=path)
    assert (
        answer.matches == []
        and "Xid 79" in answer.ask
        and answer.ask.startswith("Old, and not counted")
    )


@pytest.mark.parametrize(
    ("day", "found"), [("Wed Nov 18 04:25:12 2026", None), ("Fri Nov 20 09:25:12 2026", "HW1")]
)
def test_a_fault_of_days_before_the_run_is_told_as_old(day, found, tmp_path):
    steps = [f"2026-11-20 10:00:{at:02d} step {at} loss 2.{at}" for at in range(40)]
    log(tmp_path, *steps, name="train.log")
    fault = f"[{day}] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=python, {LOST}"
    log(tmp_path, fault)
    answer = answer_for(log=str(tmp_path))
    assert (answer.matches[0]["id"] if answer.matches else None) == found
    assert ("before this run's first line: Xid 79" in answer.ask) == (found is None)


def test_the_worst_of_several_faults_leads(tmp_path):
    lines = [
        XID.format(at=at, code=code, pid=1, text=LOST if code == 79 else "x")
        for at, code in enumerate([31, 45, 13, 79, 45, 45, 43])
    ]
    assert first(log(tmp_path, *boot(40), *lines, *boot(40))) == "HW1"


def test_a_programs_own_fault_leads_before_an_xid_that_follows_from_it(tmp_path):
    crash = [
        "Traceback (most recent call last):",
        '  File "train.py", line 9, in <module>',
        "    loss.item()",
        "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
    ]
    assert (
        first(log(tmp_path, *crash, XID.format(at=9, code=31, pid=1, text="MMU Fault"))) == "CMP10"
    )
    assert first(log(tmp_path, XID.format(at=9, code=79, pid=1, text=LOST), *boot(40))) == "HW1"


def test_a_log_without_a_line_of_the_kernel_is_left_alone():
    evidence = reading.from_text("step 1 loss 2.0\nValueError: bad\n")
    assert kernel_lines.read(evidence.lines) == (evidence.lines, "")


def test_shuffled_logs_find_every_number():
    rows = random.Random(45)
    for _ in range(20):
        code = rows.choice([13, 31, 43, 45, 48, 62, 74, 79, 94, 95, 109, 119])
        lines = boot(rows.randint(0, 200)) + [
            XID.format(at=1, code=code, pid=3, text="x")
        ] * rows.randint(1, 90)
        rows.shuffle(lines)
        evidence = reading.from_text("\n".join(lines))
        assert f"): {code}," in evidence.decisive[0].text


CLEAN_Q = """\
        Double Bit ECC                    : N/A
        Uncorrectable Error               : {errors}
            Pending                           : No
        Remapping Failure Occurred        : {failed}
        Memory Current Temp               : 46 C"""


def test_counters_of_zero_are_no_fault_and_others_are(tmp_path):
    assert first(log(tmp_path, CLEAN_Q.format(errors=0, failed="No"))) is None
    assert (
        "No error found" in answer_for(log=log(tmp_path, CLEAN_Q.format(errors=0, failed="No"))).ask
    )
    assert first(log(tmp_path, CLEAN_Q.format(errors=3, failed="No"))) == "HW2"
    assert first(log(tmp_path, CLEAN_Q.format(errors=0, failed="Yes"))) == "HW2"


def test_the_reader_on_a_box_has_the_tables_with_it():
    shipped = remote.sources()
    name = "remote_gpu_trainer.logs.kernel.xids"
    assert "RESTART_BM" in shipped[name] and "data_text(" not in shipped[name].replace(
        "import data_text", ""
    )


@pytest.mark.parametrize("capture", ["q-h100.txt", "q-h100mig.txt"])
def test_a_whole_output_of_a_healthy_card_tells_no_error(capture, tmp_path):
    if not os.environ.get("GPU_CAPTURES"):
        pytest.skip("GPU_CAPTURES names no folder of real captures")
    path = Path(os.environ["GPU_CAPTURES"]) / capture
    answer = answer_for(log=str(path))
    assert answer.matches == [] and answer.also == [] and "No error found" in answer.ask
    text = path.read_text(encoding="utf-8")
    ill = text.replace(
        "Remapping Failure Occurred           : No", "Remapping Failure Occurred           : Yes"
    )
    if ill != text:
        assert first(log(tmp_path, ill)) == "HW2"
    for row, value in (("HW Thermal Slowdown", "Active"), ("GPU Recovery Action", "Reset")):
        ill = re.sub(rf"({row}\s+: )[\w ]+", rf"\g<1>{value}", text)
        assert ill != text and "No error found" not in answer_for(log=log(tmp_path, ill)).ask
