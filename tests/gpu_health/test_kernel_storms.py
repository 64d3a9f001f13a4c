"""Kernel logs as they come: storms, old boots, traces, NVRM's own messages, recovery actions."""

import random

import pytest

from tests.gpu_health.gpu_faults import CAPTURES, Text
from tests.gpu_health.script import gpu_health

PLAIN = "[{at}.000001] usb 1-1: new high-speed USB device number {at} using xhci_hcd"
XID = "[{at}.500000] NVRM: Xid (PCI:0000:3b:00): {code}, pid={pid}, name=python, {text}"


def judged(*lines):
    return gpu_health.judge({"files": {"dmesg.txt": "\n".join(lines) + "\n"}, "exit": {}})


def xids(*lines):
    """(level, evidence) of the findings about Xids."""
    return [
        (one["level"], one["evidence"]) for one in judged(*lines) if "no Xid" in one["threshold"]
    ]


@pytest.mark.parametrize("code", [13, 31, 32, 43, 48, 74, 79, 94, 95, 119])
@pytest.mark.parametrize("before", [0, 40, 20_000])
def test_an_xid_is_found_at_any_distance(code, before):
    plain = [PLAIN.format(at=at) for at in range(before)]
    line = XID.format(at=before, code=code, pid=7, text="x")
    found = xids(*plain, line, *plain)
    assert len(found) == 1 and f" {code}, pid=7" in found[0][1]


@pytest.mark.parametrize("number", [2, 9, 40, 5000])
def test_a_storm_is_one_finding_with_number_times_and_processes(number):
    lines = [XID.format(at=at, code=31, pid=100 + at % 3, text="x") for at in range(number)]
    ((level, evidence),) = xids(*lines)
    assert level == "warn" and f"({number} times" in evidence
    assert f"from 0 s to {number - 0.5:.0f} s" in evidence or f"to {number - 1} s" in evidence
    assert "by python 100, python 101" in evidence
    assert ("and 1 more" in evidence) == (number > 2)


def test_a_flood_of_copies_is_told_with_the_number_of_different_lines():
    """NVSentinel#1120: 800,000 lines of Xid 95 on one node, 29 different ones."""
    lines = [
        XID.format(at=9, code=95, pid=1, text=f"Uncontained: LTC TAG (0x{at % 29:x}). RST: Yes")
        for at in range(29_000)
    ]
    ((level, evidence),) = xids(*lines)
    assert level == "fatal" and "(29000 times, 29 different; by python 1)" in evidence


def test_a_clean_up_that_repeats_is_no_fault_of_the_card():
    """NVSentinel#1710: Xid 45 of ending programs became 672 fatal events in three hours."""
    box = Text("h100x8")
    place = box.short_place(2)
    box.log(
        *[f"NVRM: Xid (PCI:{place}): 45, pid={pid}, name=python, Ch 00000008" for pid in range(672)]
    )
    answer = gpu_health.report({"files": box.files, "exit": {}})
    assert answer["verdict"] == "fit"
    assert [(one["gpu"], one["level"]) for one in answer["findings"]] == [(2, "warn")]
    assert "find out what ended these programs" in answer["findings"][0]["action"]


@pytest.mark.parametrize(("code", "word"), [(163, "cool the card"), (168, "turn ECC on")])
def test_what_nvidia_notes_beside_an_xid_is_told_though_it_lists_no_action(code, word):
    """NVSentinel#1888: 163 and 168 went to the support although the catalogue says what to do."""
    (finding,) = [
        one
        for one in judged(XID.format(at=1, code=code, pid=1, text="x"))
        if one["level"] != "unknown"
    ]
    assert word in finding["action"] and "ask the provider" not in finding["action"]


SM = "Graphics SM Warp Exception on (GPC {gpc}, TPC {tpc}, SM 1): Out Of Range Address"


@pytest.mark.parametrize(
    ("units", "level"),
    [
        ([(1, 3, 5), (2, 3, 5), (3, 3, 5)], "degraded"),  # three programs, one unit
        ([(1, 3, 5), (1, 3, 5)], "warn"),  # one program
        ([(1, 3, 5), (1, 0, 2), (2, 3, 5)], "warn"),  # a burst over the card
        ([(1, 3, 5), (2, 1, 0)], "warn"),
    ],
)
def test_an_xid_13_of_several_programs_in_one_unit_suspects_the_card(units, level):
    """NVSentinel#270: which unit repeats decides, by NVIDIA's workflow for Xid 13."""
    lines = [
        XID.format(at=at, code=13, pid=pid, text=SM.format(gpc=gpc, tpc=tpc))
        for at, (pid, gpc, tpc) in enumerate(units)
    ]
    ((found, evidence),) = xids(*lines)
    assert found == level and ("only in GPC 3, TPC 5" in evidence) == (level == "degraded")


TRACE = """\
INFO: task python:280058 blocked for more than 120 seconds.
      Tainted: P           OE    --------- -  - 4.18.0-372.36.1.el8_6.x86_64 #1
"echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this message.
task:python          state:D stack:    0 pid:280058 ppid:279966 flags:0x00000084
Call Trace:
 __schedule+0x2d1/0x860
 schedule+0x35/0xa0
 {call}
 vfs_write+0xa5/0x1b0
 entry_SYSCALL_64_after_hwframe+0x61/0xc6"""


@pytest.mark.parametrize(
    ("call", "level", "named"),
    [
        ("gpfs_f_rdwr_iter+0x217/0x300 [mmfslinux]", "degraded", "GPFS"),
        ("ll_file_io_generic+0x3b0/0xb20 [lustre]", "degraded", "Lustre"),
        ("rpc_wait_bit_killable+0x1e/0xa0 [sunrpc]", "degraded", "NFS"),
        ("nfs_wait_bit_killable+0x1e/0x70", "degraded", "NFS"),
        ("ceph_aio_write+0x1e/0x70 [ceph]", "degraded", "CephFS"),
        ("request_wait_answer+0x13b/0x210 [fuse]", "degraded", "FUSE"),
        ("cifs_strict_writev+0x1e/0x70 [cifs]", "degraded", "SMB"),
        ("os_acquire_rwlock_write+0x35/0x40 [nvidia]", "degraded", "NVIDIA's driver"),
        ("ext4_file_write_iter+0x35/0x40 [ext4]", "warn", "blocked for more"),
        ("jbd2_log_wait_commit+0x35/0x40", "warn", "blocked for more"),
    ],
)
def test_a_hung_task_is_judged_by_what_it_waits_for(call, level, named):
    lines = [f"[Sat Mar  4 04:25:12 2026] {line}" for line in TRACE.format(call=call).splitlines()]
    (finding,) = [one for one in judged(*lines) if one["level"] != "unknown"]
    assert finding["level"] == level and named in finding["evidence"]


def test_the_trace_of_one_task_isnt_that_of_the_next():
    first = "[ 1.0] INFO: task a:1 blocked for more than 120 seconds."
    lines = [
        first,
        "[ 1.1]  schedule+0x35/0xa0",
        *(
            "[ 2.0] " + line
            for line in TRACE.format(call="nfs_wait_bit_killable+0x1e/0x70").splitlines()
        ),
    ]
    found = sorted(
        (one["level"], one["evidence"].split("task ")[1][:6])
        for one in judged(*lines)
        if one["level"] != "unknown"
    )
    assert found == [("degraded", "python"), ("warn", "a:1 bl")]


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("watchdog: BUG: soft lockup - CPU#18 stuck for 27s! [python3:4410]", "warn"),
        ("NMI watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [nvidia-smi:991]", "warn"),
        ("rcu: INFO: rcu_sched self-detected stall on CPU", "warn"),
        ("NVRM: GPU is lost, skipping nvidia_ioctl", "fatal"),
        ("NVRM: Device start failed for 0000:3b:00.0 (ret=-5)", "fatal"),
        ("NVRM: Can't find an IRQ for your NVIDIA card!", "fatal"),
        ("NVRM: NVSwitch init failed.", "fatal"),
        ("NVRM: Fatal Error while attempting to resize PCIe BARs.", "fatal"),
        ("nvidia-uvm: uvm encountered global fatal error 0x60, requiring os reboot to recover.", "fatal"),
        ("NVRM: krcWatchdog_IMPL: RC watchdog: GPU is probably locked!  Notify Timeout Seconds: 7", "degraded"),
        ("NVRM: Going over RM unhandled interrupt threshold for irq 104", "degraded"),
    ],
)  # fmt: skip
def test_a_message_of_the_driver_or_the_watchdog_is_found(line, level):
    box = Text("v100x4")
    box.log(line)
    assert [one["level"] for one in gpu_health.judge({"files": box.files, "exit": {}})] == [level]


@pytest.mark.parametrize(
    "line",
    [
        "NMI watchdog: Enabled. Permanently consumes one hw-PMU counter.",
        "NVRM: Persistence mode is deprecated and will be removed in a future release.",
        "NVRM: GPU at PCI:0000:3b:00: GPU-5e1a4d6c-0000-0000-0000-000000000000",
        "NVRM: GPU Board Serial Number: 1650523000000",
        "NVRM: iovaspaceDestruct_IMPL: 4 left-over mappings in IOVAS 0x700",
        "NVRM: BAR resize resource not supported.",
        "NVRM: Attaching device to GPU power domain",
        "watchdog: Delayed init of the lockup detector failed: -22",
    ],
)
def test_a_message_that_every_healthy_box_may_have_is_none(line):
    box = Text("v100x4")
    box.log(line)
    assert gpu_health.judge({"files": box.files, "exit": {}}) == []


@pytest.mark.parametrize(
    ("text", "level", "word"),
    [
        ("None", "ok", ""),
        ("Reset", "fatal", "reset the GPU"),
        ("GPU Reset Required", "fatal", "reset the GPU"),
        ("Reboot", "fatal", "reboot the box"),
        ("Node Reboot Required", "fatal", "reboot the box"),
        ("System Reboot", "fatal", "reboot the box"),
        ("Bus Reset", "fatal", "reboot the box"),
        ("Drain P2P", "degraded", "peer-to-peer"),
        ("Drain and Reset", "degraded", "start nothing new"),
        ("Recover IMEX Domain", "degraded", "IMEX"),
        ("2", "fatal", "reboot the box"),
        ("3", "degraded", "peer-to-peer"),
        ("Replace Fuse", "degraded", "do what it says"),
    ],
)
def test_each_recovery_action_has_a_level_and_its_own_words(text, level, word):
    assert gpu_health.recovery_of(text)[0] == level
    assert word in gpu_health.recovery_of(text)[1]


def test_an_xid_154_says_what_to_do_by_its_action():
    for text, level in (
        ("0x2 (Node Reboot Required)", "fatal"),
        ("0x5 (Recover IMEX Domain)", "degraded"),
    ):
        found = xids(
            f"[ 1.0] NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to {text}"
        )
        assert [one for one, _ in found] == [level]
    (finding,) = [
        one
        for one in judged(
            "[ 1.0] NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x3 (Drain P2P)"
        )
        if "154" in one["evidence"]
    ]
    assert "peer-to-peer" in finding["action"] and "(NVIDIA's action: XID_154)" in finding["action"]


def test_a_fault_that_a_boot_ended_is_told_as_old_and_judges_nothing():
    answer = gpu_health.report(gpu_health.load(str(CAPTURES / "old-faults")))
    assert answer["verdict"] == "fit" and answer["findings"] == []
    assert [text for text in answer["recognised"] if "ended since" in text] == [
        "older faults, ended since: Xid 79, Xid 95"
    ]


@pytest.mark.parametrize("mark", ["-- Reboot --", "-- Boot 6d43c94c5e0a4d4c8f2f2e2f0a1b2c3d --"])
def test_a_journal_of_several_boots_counts_the_last(mark):
    lines = [
        XID.format(at=5, code=79, pid=1, text="GPU has fallen off the bus."),
        mark,
        PLAIN.format(at=1),
    ]
    assert xids(*lines) == []
    assert len(xids(*lines, lines[0])) == 1


def test_events_shuffled_among_plain_lines_are_all_found():
    rows = random.Random(45)
    for _ in range(50):
        codes = rows.sample(
            [8, 13, 31, 32, 43, 46, 48, 62, 63, 64, 69, 74, 79, 92, 94, 95, 109, 119, 120, 143], 5
        )
        lines = [
            XID.format(at=1, code=code, pid=3, text="x")
            for code in codes
            for _ in range(rows.randint(1, 30))
        ]
        lines += [PLAIN.format(at=1)] * 300
        rows.shuffle(lines)
        assert len(xids(*lines)) == len(codes)
