"""Kernel log lines: every form of an Xid, what is old, what the driver's last word changes."""

import os
import re
from pathlib import Path

import pytest

from tests.gpu_health.gpu_faults import CAPTURES
from tests.gpu_health.script import gpu_health

REAL = os.environ.get("GPU_CAPTURES")
FORMS = [
    ("NVRM: Xid (0000:03:00): 13, Channel 00000001", "0000:03:00", 13),
    ("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", "0000:3b:00", 79),
    (
        "[    7.1] NVRM: Xid (PCI:0000:3B:00): 79, pid=1122, GPU has fallen off the bus.)",
        "0000:3b:00",
        79,
    ),
    (
        "NVRM: Xid (PCI:0000:05:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        "0000:05:00",
        79,
    ),
    (
        "NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: CE User Channel (0x9). RST: No, D-RST: No",
        "0000:01:00",
        94,
    ),
    (
        "Okt 06 17:59:27 balrog kernel: NVRM: Xid (PCI:0018:a1:1c): 31, pid=5, name=my exe [x], Ch 0000000a",
        "0018:a1:1c",
        31,
    ),
    (
        "6,3973,227996636,-;NVRM: Xid (PCI:0000:af:00): 119, pid=1582259, name=nvc:[driver], Timeout",
        "0000:af:00",
        119,
    ),
    ("<4>[16450076.435595] NVRM: Xid (PCI:0002:00:00): 120, GSP", "0002:00:00", 120),
    ("2026-11-20T10:00:00+0000 host kernel: NVRM: Xid (PCI:0000:10:00): 63", "0000:10:00", 63),
    (
        "[Mon Nov  2 10:00:00 2026] NVRM: Xid (PCI:0009:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
        "0009:01:00",
        154,
    ),
]


def findings(*lines):
    """(gpu, level, Xid or None) of a log alone, without the finding that nothing tells a GPU's state."""
    got = gpu_health.judge({"files": {"dmesg.txt": "\n".join(lines) + "\n"}, "exit": {}})
    out = []
    for one in got:
        if one["evidence"] != "no output shows the state of a GPU":
            found = re.search(r"no Xid (\d+)", one["threshold"])
            out.append((one["gpu"], one["level"], int(found.group(1)) if found else None))
    return out


@pytest.mark.parametrize(("line", "place", "code"), FORMS, ids=[form[0][:60] for form in FORMS])
def test_each_form_of_an_xid_is_read(line, place, code):
    event = gpu_health.parse_log(line + "\n")["events"][0]
    assert (event["kind"], event["bdf"], event["code"]) == ("xid", place, code)


def test_every_real_line_with_an_xid_is_read():
    if not REAL:
        pytest.skip("GPU_CAPTURES names no folder of real captures")
    for name in (
        "dmesg-xid-lines.txt",
        "dmesg-issue-lines.txt",
        "dmesg-xid-nvlink5-synthetic.txt",
        "dmesg-sxid-lines.txt",
        "dmesg-driver-init-fail.txt",
    ):
        text = (Path(REAL) / name).read_text(encoding="utf-8")
        lines = [line for line in text.splitlines() if "Xid (" in line]
        got = gpu_health.parse_log(text)
        assert got["problems"] == []
        assert len([event for event in got["events"] if event["line"].count("Xid (")]) == len(lines)


def test_a_place_is_the_same_in_all_its_spellings():
    assert {
        gpu_health.bdf(text)
        for text in ("00000000:3B:00.0", "0000:3b:00.0", "0000:3b:00", "3b:00.0")
    } == {"0000:3b:00"}
    assert gpu_health.bdf("00000010:3B:00.0") == "0010:3b:00"
    assert gpu_health.bdf("no place") is None


def test_the_table_knows_the_numbers_of_the_catalogue_and_no_others():
    assert len(gpu_health.XID) == 177
    assert not [
        sorted(codes)
        for codes, (level, action, _), ours in gpu_health.XID_ROWS
        if action == "NONE_LISTED" and level != "ok" and len(ours) < 2
    ]
    assert not {0, 177, 184, 186, 999} & set(gpu_health.XID)
    assert {level for level, _, _ in gpu_health.XID.values()} == {"ok", "warn", "degraded", "fatal"}


@pytest.mark.parametrize("code", [13, 31, 43, 45, 68, 69])
def test_an_applications_xid_is_no_broken_card(code):
    assert all(
        level == "warn"
        for _, level, _ in findings(
            f"[ 5.0] NVRM: Xid (PCI:0000:3b:00): {code}, pid=9, name=python3, x"
        )
    )


def test_faults_before_the_boot_the_driver_or_the_reset_are_over():
    fault = "[ 50.0] NVRM: Xid (PCI:0000:3b:00): 95, pid=9, Uncontained. RST: Yes, D-RST: No"
    other = "[ 51.0] NVRM: Xid (PCI:0000:4c:00): 95, pid=9, Uncontained. RST: Yes, D-RST: No"
    assert findings(fault, "[    0.000000] Linux version 6.8.0-60-generic") == []
    assert (
        findings(fault, "[ 60.0] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  590.44.01") == []
    )
    assert findings(fault, other, "[ 60.0] nvidia 0000:3b:00.0: reset done") == [
        ("0000:4c:00", "fatal", 95)
    ]
    assert findings(
        fault,
        other,
        "[ 60.0] NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)",
    ) == [("0000:4c:00", "fatal", 95)]
    assert findings("[    0.000000] Linux version 6.8.0-60-generic", fault) == [
        ("0000:3b:00", "fatal", 95)
    ]


def test_the_last_recovery_action_of_a_gpu_overrides_what_other_xids_suggest():
    lines = [
        "[ 1.0] NVRM: Xid (PCI:0000:3b:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x021425c6)",
        "[ 2.0] NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
        "[ 3.0] NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x4 (Drain and Reset)",
    ]
    assert findings(*lines[:2]) == [("0000:3b:00", "fatal", 149), ("0000:3b:00", "fatal", 154)]
    assert {level for _, level, code in findings(*lines) if code == 149} == {"degraded"}
    assert ("0000:4c:00", "fatal", 79) in findings(
        *lines, "[ 4.0] NVRM: Xid (PCI:0000:4c:00): 79, GPU has fallen off the bus."
    )


@pytest.mark.parametrize(
    ("line", "level"),
    [
        (
            "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
            "fatal",
        ),
        (
            "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Non-fatal, Link 30 LTSSM Fault Up",
            "degraded",
        ),
        ("nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 22003, Minion Halt", "fatal"),
        (
            "nvidia-nvswitch1: SXid (PCI:0000:0a:00.0): 22013, Non-fatal, Link 57 Minion Link DLREQ interrupt",
            "warn",
        ),
        ("nvidia-nvswitch1: SXid (PCI:0000:0a:00.0): 29999, Non-fatal, something new", "unknown"),
        (
            "[Feb 27 2026 15:10:02] [ERROR] [tid 1] detected NVSwitch non-fatal error 12028 on fid 0 on NVSwitch pci bus id 00000000:86:00.0 physical id 3 port 61",
            "degraded",
        ),
    ],
)
def test_an_sxid_is_fatal_or_not_by_its_word_and_the_table(line, level):
    assert [(gpu, found) for gpu, found, _ in findings(line)] == [(None, level)]


def test_many_lines_of_one_fault_are_one_finding_with_their_number():
    line = "[ 5.0] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
    got = gpu_health.judge({"files": {"dmesg.txt": (line + "\n") * 5000}, "exit": {}})
    assert [one["evidence"].endswith("(5000 times)") for one in got if one["level"] == "fatal"] == [
        True
    ]


def test_an_xid_of_a_card_that_the_container_does_not_have_is_only_a_warning():
    record = gpu_health.load(str(CAPTURES / "l40sx4"))
    record["files"]["dmesg.txt"] += (
        "[ 9000.0] NVRM: Xid (PCI:0000:e1:00): 79, GPU has fallen off the bus.\n"
    )
    assert [one["level"] for one in gpu_health.judge(record)] == ["fatal"]
    record["proc"]["platform"]["container"] = "docker"
    assert [one["level"] for one in gpu_health.judge(record)] == ["warn"]


def test_a_log_that_begins_late_is_said_and_only_hurts_where_the_driver_says_nothing_else():
    late = "[900000.000000] usb 1-1: new device\n[900001.000000] usb 1-2: new device\n"
    levels = {}
    for capture in ("h100x8", "a100x8"):
        record = gpu_health.load(str(CAPTURES / capture))
        record["files"]["dmesg.txt"] = late
        levels[capture] = [one["level"] for one in gpu_health.judge(record)]
    assert levels == {"h100x8": ["warn"], "a100x8": ["unknown"]}


@pytest.mark.parametrize(
    "line",
    [
        "AER: Uncorrected (Fatal) error received: 0000:3d:00.0",
        "AER: Uncorrectable (Fatal) error message received from 0000:3d:00.0",
        "AER: Multiple Uncorrectable (Non-Fatal) error message received from 0000:3d:00.0",
    ],
)
def test_old_and_new_words_for_an_uncorrectable_pcie_error_are_read(line):
    assert findings("[ 5.0] pcieport 0000:00:01.0: " + line) == [("0000:3d:00", "degraded", None)]
    assert findings("[ 5.0] pcieport 0000:00:01.0: " + line.replace("Uncorrect", "Correct")) == []


def test_what_to_do_is_never_nothing_where_a_card_is_worse_than_a_warning():
    for code, (level, _, _) in gpu_health.XID.items():
        got = gpu_health.judge(
            {
                "files": {"dmesg.txt": f"[ 5.0] NVRM: Xid (PCI:0000:3b:00): {code}, pid=9, x\n"},
                "exit": {},
            }
        )
        action = [one["action"] for one in got if f"no Xid {code} " in one["threshold"]]
        assert len(action) == (level != "ok") and (
            level == "warn" or not any("nothing to do" in text for text in action)
        ), (code, action)
    assert "reset the GPU" in gpu_health.xid_words(
        63, "degraded"
    ) and "another card" in gpu_health.xid_words(92, "degraded")


BEGIN = "[    8.455120] nvidia-nvlink: Nvlink Core is being initialized, major device number 236"
DONE = "[    8.690011] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  590.44.01  Mon Jun  1 2026"
FAILED = "[    8.610000] NVRM: The NVIDIA probe routine failed for 1 device(s)."


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([BEGIN, FAILED, DONE], [(None, "fatal", None)]),
        ([FAILED, DONE], [(None, "fatal", None)]),  # NVRM's lines only
        ([BEGIN, FAILED, DONE, BEGIN, DONE], []),
        ([FAILED, DONE, DONE], []),
        ([BEGIN, FAILED, BEGIN, DONE], []),  # the first load ended without success
        (
            [
                BEGIN,
                "[    8.500000] NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:",
                "[    8.500001] NVRM: BAR1 is 0M @ 0x0 (PCI:0000:04:00.0)",
                DONE,
            ],
            [("0000:04:00", "fatal", None)],
        ),
        (
            [
                BEGIN,
                "[    8.600000] NVRM: The NVIDIA probe routine was not called for 1 device(s).",
                DONE,
            ],
            [(None, "fatal", None)],
        ),
        (
            [
                BEGIN,
                "[    8.500000] NVRM: The NVIDIA GPU 0000:5d:00.0",
                "               NVRM: (PCI ID: 10de:2330) installed in this system has",
                "               NVRM: fallen off the bus and is not responding to commands.",
                FAILED,
                DONE,
            ],
            [("0000:5d:00", "fatal", 79), (None, "fatal", None)],
        ),
        (
            ["[    5.0] NVRM: Xid (PCI:0000:3b:00): 95, pid=9, Uncontained. RST: Yes", BEGIN, DONE],
            [],
        ),
        (
            [BEGIN, "[    8.5] NVRM: ignoring the legacy GPU 0000:05:02.0", DONE],
            [("0000:05:02", "warn", None)],
        ),
    ],
)
def test_what_the_driver_says_of_a_card_while_it_loads_counts_until_the_next_load(lines, found):
    got = findings("[    0.000000] Linux version 6.8.0-60-generic", *lines)
    assert sorted(got, key=str) == sorted(found, key=str)


def test_a_long_log_keeps_the_first_line_of_a_load():
    plain = "[    9.0] usb 1-1: new device"
    log = "\n".join([plain, BEGIN, plain, FAILED, plain, DONE, plain]).encode()
    assert gpu_health.worthy(log).decode().split("\n") == [plain, BEGIN, FAILED, DONE, plain]
