"""Faults of the machine around the GPUs: its memory, disks, processors and PCIe ports.

The lines are those of public reports, which the comments name.
"""

import json

import pytest

from tests.gpu_health.gpu_faults import CAPTURES, Text
from tests.gpu_health.script import gpu_health

CE = "EDAC MC1: {} CE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x2031c14 offset:0x940 grain:32 syndrome:0x0 - {} area:DRAM err_code:0001:0091 socket:0)"
EXT4 = "EXT4-fs error (device nvme19n1): ext4_wait_block_bitmap:517: comm etcd: Cannot read block bitmap - block_group = 34"
CHECKED = "mce: [Hardware Error]: Machine check events logged"


def judged(box, expect=""):
    """The findings about an edited capture."""
    files = dict(box.files)
    ends, proc = json.loads(files.pop("exit.json")), json.loads(files.pop("proc.json"))
    record = {"files": files, "exit": ends, "proc": proc, "live": False}
    return gpu_health.judge(record, gpu_health.expectations_of(expect))


def logged(*lines, capture="h100x8", container=""):
    """(gpu, level) of each finding after these lines of the kernel log."""
    box = Text(capture)
    box.log(*lines)
    box.proc(lambda proc: proc["platform"].update(container=container))
    return [(one["gpu"], one["level"]) for one in judged(box)]


def seen(change, capture="h100x8", expect=""):
    """(level, evidence) of each finding about a capture with another proc.json."""
    box = Text(capture)
    box.proc(change)
    return [(one["level"], one["evidence"]) for one in judged(box, expect)]


def pasted(text, folder):
    """The findings about a raw text that somebody pasted, and what it was taken for."""
    path = folder / "pasted.txt"
    path.write_text(text, encoding="utf-8")
    record = gpu_health.load(str(path))
    return gpu_health.judge(record), list(record["files"])


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([CE.format(262, " OVERFLOW")], [(None, "degraded")]),  # machine-shop-maintenance#66
        ([CE.format(2, " OVERFLOW")], [(None, "degraded")]),
        ([CHECKED, CE.format(1, "")], [(None, "warn")]),  # radiasoft/devops#134
        ([CE.format(4, ""), CE.format(5, "")], [(None, "warn")]),
        ([CHECKED, CE.format(4, ""), CE.format(6, "")], [(None, "degraded")]),
        ([CHECKED] * 9, []),
        ([CHECKED] * 10, [(None, "degraded")]),
        (["mce: CMCI storm detected: switching to poll mode"], [(None, "degraded")]),
        (
            [
                "[Hardware Error]: CPU:0 (19:1:1) MC17_STATUS[Over|CE|MiscV|AddrV|-|-|SyndV|CECC|-|-|-]: 0xdc2040000000011b"
            ],
            [(None, "degraded")],
        ),
        (
            [
                "[Hardware Error]: CPU:0 (19:1:1) MC17_STATUS[-|CE|MiscV|AddrV|-|-|SyndV|CECC|-|-|-]: 0x9c2040000000011b"
            ],
            [(None, "warn")],
        ),
    ],
)
def test_corrected_memory_errors_are_judged_by_their_number_and_by_overflow(lines, found):
    assert logged(*lines) == found
    assert logged(*lines, container="docker") == found


def test_corrected_errors_of_different_days_are_counted_apart():
    line = f"[{{}}.000000] {CE.format(5, '')}\n"
    for days, levels in ((0.5, ["degraded"]), (3, ["warn"])):
        box = Text("h100x8")
        box.files["dmesg.txt"] += line.format(90000) + line.format(90000 + int(days * 86400))
        assert [one["level"] for one in judged(box)] == levels


@pytest.mark.parametrize(
    "line",
    [
        EXT4,  # gardenlinux#263
        "XFS (dm-0): log I/O error -5",
        "XFS (dm-0): Filesystem has been shut down due to log error (0x2).",
        "XFS (sda4): Metadata corruption detected at xfs_dinode_verify.part.0+0x739/0x920 [xfs], inode 0x42",
        'XFS (dm-0): metadata I/O error in "xfs_imap_to_bp+0x5c/0x80 [xfs]" at daddr 0x8a66c0 len 32 error 5',
        "BTRFS error (device sda2): bdev /dev/sda2 errs: wr 0, rd 12, flush 0, corrupt 0, gen 0",
        "nvme nvme0: I/O 123 QID 4 timeout, aborting",
        "nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff",
        "Aborting journal on device nvme0n1p2-8.",
        "EXT4-fs warning (device vdb1): ext4_end_bio:343: I/O error 10 writing to inode 14 starting block 3864576)",
        "blk_update_request: critical medium error, dev nvme0n1, sector 8 op 0x0:(READ) flags 0x0",
    ],
    ids=lambda line: line[:40],
)
def test_a_disk_that_fails_needs_care_and_in_a_container_a_look(line):
    assert logged(line) == [(None, "degraded")]
    assert logged(line, container="docker") == [(None, "warn")]


@pytest.mark.parametrize(
    "line",
    [
        "EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode. Opts: (null)",
        "EXT4-fs error (device loop0): ext4_mark_recovery_complete:6229: comm mount: Orphan file not empty",
        "EXT4-fs warning (device nvme7n1): ext4_dx_add_entry:2355: Large directory feature is not enabled",
        "XFS (sda2): Ending clean mount",
        "BTRFS info (device sda2): using free space tree",
        "nvme nvme0: 16/0/0 default/read/poll queues",
        "EDAC MC0: Giving out device to module skx_edac controller Skylake Socket#0 IMC#0",
        "amdgpu 0000:03:00.0: amdgpu: socket: 0, die: 1, 0 uncorrectable hardware errors detected in total in umc block",
    ],
    ids=lambda line: line[:40],
)
def test_an_ordinary_line_of_a_disk_or_of_a_memory_controller_gives_nothing(line):
    assert logged(line) == []


@pytest.mark.parametrize(
    ("text", "named"),
    [
        # gardenlinux#263: kubectl describe node
        (f"  Warning  Ext4Error    2m13s (x2 over 2m13s)  kernel-monitor  {EXT4}\n", "EXT4-fs"),
        (f"2m13s   Warning   Ext4Error   node/shoot-7   {EXT4}\n", "EXT4-fs"),
        (json.dumps({"items": [{"type": "Warning", "message": EXT4}]}, indent=1), "EXT4-fs"),
        (
            json.dumps(
                {"MESSAGE": EXT4, "_TRANSPORT": "kernel", "__MONOTONIC_TIMESTAMP": "9000000"}
            ),
            "EXT4-fs",
        ),
        # returnn#1500: dmesg -H
        (
            "[Jan21 11:05] nvidia 0000:03:00.0: AER: can't recover (no error_detected callback)\n"
            "[  +0.000001] pcieport 0000:00:03.0: AER: Multiple Uncorrected (Fatal) error received: 0000:00:03.0\n",
            "0000:03:00",
        ),
    ],
    ids=["describe", "get", "get-json", "journal-json", "dmesg-H"],
)
def test_a_log_is_read_in_the_form_in_which_it_was_saved(text, named, tmp_path):
    findings, kinds = pasted(text, tmp_path)
    assert kinds == ["dmesg.txt"]
    (finding,) = [one for one in findings if one["level"] == "degraded"]
    assert named in finding["evidence"] or named == finding["gpu"]
    assert not [one for one in findings if "can't be read" in one["evidence"]]


def test_an_error_of_a_port_belongs_to_the_card_behind_it():
    port = "pcieport 0000:00:03.0: AER: Multiple Uncorrected (Fatal) error received: 0000:00:03.0"
    assert logged(port) == [(None, "degraded")]
    driver = "nvidia 0000:4e:00.0: AER: can't recover (no error_detected callback)"
    assert logged(driver, port) == [(3, "degraded")]
    box = Text("h100x8")
    box.log(port)
    box.proc(lambda proc: proc["pci"][3].update(behind=["0000:00:03.0"]))
    assert [(one["gpu"], one["level"]) for one in judged(box)] == [(3, "degraded")]


@pytest.mark.parametrize(
    ("code", "programs", "level"),
    [(43, 1, "warn"), (43, 2, "warn"), (43, 4, "degraded"), (45, 2, None), (45, 4, "warn")],
)
def test_an_xid_of_many_programs_on_one_card_is_told(code, programs, level):
    """pytorch#51382: Xid 43 of four programs, "likely a faulty device"."""
    place = Text("h100x8").short_place(3)
    lines = [f"NVRM: Xid (PCI:{place}): {code}, pid={35521 + at}, Ch 8" for at in range(programs)]
    assert logged(*lines) == ([(3, level)] if level else [])
    assert logged(*[lines[0]] * 4) == ([(3, "warn")] if code == 43 else [])


def test_a_clean_up_beside_another_xid_isnt_told_again():
    place = Text("h100x8").short_place(3)
    lines = [f"NVRM: Xid (PCI:{place}): 45, pid={at}, Ch 8" for at in range(4)]
    assert logged(f"NVRM: Xid (PCI:{place}): 31, pid=4, x", *lines) == [(3, "warn")]


def test_a_hung_task_of_nvidias_own_tools_waits_for_the_driver():
    """gpud#117: Xid 45, then a thread of DCGM hangs, and nvidia-smi too; gpud says reboot."""
    box = Text("h100x8")
    box.log("INFO: task cache_mgr_event:620917 blocked for more than 120 seconds.")
    (finding,) = judged(box)
    assert finding["level"] == "degraded" and "reboot" in finding["action"]


@pytest.mark.parametrize(
    ("line", "level"),
    [
        # ROCm#1886, ROCm#4021
        ("uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!", "fatal"),
        ("{1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!", "fatal"),
        ("socket: 0, die: 1, 2 new uncorrectable hardware errors detected in umc block", "fatal"),
        ("{1}1533 correctable hardware errors detected in total in xgmi_wafl block", "degraded"),
        ("{1}3 correctable hardware errors detected in total in xgmi_wafl block", "warn"),
    ],
)
def test_a_fault_of_an_amd_card_is_named(line, level):
    place = json.loads((CAPTURES / "amd" / "proc.json").read_text(encoding="utf-8"))["pci"][0][
        "bdf"
    ]
    record = gpu_health.load(str(CAPTURES / "amd"))
    record["files"]["dmesg.txt"] += f"[ 900.0] amdgpu {place}: amdgpu: {line}\n"
    assert [(one["gpu"], one["level"]) for one in gpu_health.judge(record)] == [(0, level)]


def test_an_sxid_that_stops_traffic_asks_for_a_reboot():
    """gpud#338: by gpud's table the NVLink traffic stalls, and the virtual machine is restarted."""
    line = "nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 12028, Data {0x00610002}"
    box = Text("h100x8")
    box.log(line)
    (finding,) = judged(box)
    assert finding["level"] == "degraded" and "reboot" in finding["action"]


def test_no_card_at_all_isnt_what_somebody_pays_for():
    record = gpu_health.load(str(CAPTURES / "no-gpu"))
    answer = gpu_health.report(record, gpu_health.expectations_of("gpus=8"))
    assert answer["verdict"] == "unfit"
    fatal = [one["evidence"] for one in answer["findings"] if one["level"] == "fatal"]
    assert fatal == ["gpus: 0"]


def test_a_paste_without_nvidia_smi_says_nothing_about_the_number_of_cards(tmp_path):
    path = tmp_path / "dmesg.txt"
    path.write_text("[ 5.0] NVRM: loading NVIDIA UNIX x86_64 Kernel Module\n", encoding="utf-8")
    answer = gpu_health.report(gpu_health.load(str(path)), gpu_health.expectations_of("gpus=8"))
    assert answer["verdict"] == "unknown"


TABLE = """\
    +-----------------------------------------------------------------------------+
    | NVIDIA-SMI 430.26       Driver Version: 430.26       CUDA Version: 10.2     |
    |-------------------------------+----------------------+----------------------+
    |   0  Tesla K80           Off  | 00000000:00:1E.0 Off |                    0 |
    | N/A   41C    P0    57W / 149W |  10447MiB / 11441MiB |      0%      Default |
    +-------------------------------+----------------------+----------------------+
    | Processes:                                                       GPU Memory |
    |  GPU       PID   Type   Process name                             Usage      |
    |=============================================================================|
    |    0      3701      C   python                                     10436MiB |
    +-----------------------------------------------------------------------------+
"""


@pytest.mark.parametrize("before", ["", "> ", "    "])
def test_a_quoted_table_is_read_and_its_process_is_named(before, tmp_path):
    """nvidia-container-runtime#17, nvidia-settings#67"""
    findings, kinds = pasted("".join(before + line + "\n" for line in TABLE.splitlines()), tmp_path)
    assert kinds == ["table.txt"]
    (held,) = [one for one in findings if "in use" in one["evidence"]]
    assert "python (pid 3701)" in held["evidence"] and held["gpu"] == 0


@pytest.mark.parametrize(
    "text",
    [
        "Filesystem      Size  Used Avail Use% Mounted on\noverlay         100G  20G   80G  20% /\nshm              64M     0   64M   0% /dev/shm\n/dev/loop1       56M   56M     0 100% /snap/core18/1\n",
        "Filesystem     1K-blocks     Used Available Use% Mounted on\nshm                65536        0     65536   0% /dev/shm\n",
    ],
)
def test_a_pasted_df_tells_the_size_of_the_shared_memory(text, tmp_path):
    """travis-docker#17"""
    findings, kinds = pasted(text, tmp_path)
    assert kinds == ["df.txt"]
    assert [(one["level"], one["entry"]) for one in findings if "64 MiB" in one["evidence"]] == [
        ("degraded", "DP15")
    ]
    assert not [one for one in findings if "snap" in one["evidence"]]


@pytest.mark.parametrize(
    ("counts", "levels"),
    [
        ({"ce": 3, "ue": 0}, []),
        ({"ce": 4000, "ue": 0}, ["degraded"]),
        ({"ce": 4000, "ue": 1}, ["fatal"]),
        ({"ce": None, "ue": None}, []),
    ],
)
def test_memory_errors_are_counted_by_the_day(counts, levels):
    found = seen(lambda proc: proc.update(edac={"mc0": counts}, uptime_s=20 * 86400.0))
    assert [level for level, _ in found] == levels


@pytest.mark.parametrize(
    ("cpu", "level", "words"),
    [
        ({"count": 64, "allowed": 64}, None, ""),
        ({"count": 64, "allowed": 64, "quota": 4.0}, "warn", "4 of 64 processors, for 8 GPUs"),
        ({"count": 64, "allowed": 6}, "warn", "6 of 64 processors, for 8 GPUs"),
        ({"periods": 9000, "throttled": 6000}, "warn", "67 % of the periods"),
        ({"periods": 9000, "throttled": 60}, None, ""),
        ({"times": [9000, 0, 800, 10**6, 0, 0, 100, 100]}, None, ""),
        ({"times": [9000, 0, 800, 10**6, 0, 0, 100, 900]}, "warn", "took 8 %"),
        ({"times": [9000, 0, 800, 10**6, 0, 0, 100, 9900]}, "degraded", "took 50 %"),
        ({"times": [20, 0, 8, 10**6, 0, 0, 1, 60]}, None, ""),
        ({"times": ["x", None]}, None, ""),
    ],
)
def test_processors_that_are_few_held_back_or_stolen_are_told(cpu, level, words):
    found = seen(lambda proc: proc.update(cpu=cpu))
    assert [one for one, _ in found] == ([level] if level else [])
    assert all(words in evidence for _, evidence in found)


def test_a_limit_below_what_was_rented_is_no_match():
    def limited(proc):
        proc.update(cpu={"count": 64, "allowed": 64, "quota": 8.0}, cgroup={"limit_mib": 65536})

    found = seen(limited, expect="cpus=32,ram=256")
    fatal = [evidence for level, evidence in found if level == "fatal"]
    assert sorted(fatal) == ["cpus: 8", "ram: 64.0 GiB"]
    assert any("memory: 65536 MiB" in evidence for level, evidence in found if level == "warn")
    assert [level for level, _ in seen(limited, expect="cpus=8,ram=60")] == ["warn", "warn"]


def test_what_a_container_hides_is_said_once():
    box = Text("container-no-log")
    for gpu in range(len(box.places)):
        box.cell(gpu, "power.draw", "[Insufficient Permissions]")
    (finding,) = judged(box)
    assert (finding["gpu"], finding["level"]) == (None, "unknown")
    assert finding["evidence"].endswith(": power.draw of GPU 0; the kernel log")
    assert [one["level"] for one in judged(box, "log=no")] == ["unknown"]


@pytest.mark.parametrize(
    ("named", "more", "found"),
    [
        (149, [], [(3, "degraded")]),  # NVLink
        (48, [], [(3, "fatal")]),
        (31, [], []),  # a program's own fault
        (149, [149], [(3, "degraded")]),  # the log has it too: said once
    ],
)
def test_a_clean_up_that_names_its_cause_stands_for_it(named, more, found):
    """open-gpu-kernel-modules: "caused by previous Xid %d". The log may begin only after it."""
    place = Text("h100x8").short_place(3)
    lines = [f"NVRM: Xid (PCI:{place}): {code}, NETIR_LINK_EVT Link 00" for code in more]
    line = (
        f"NVRM: Xid (PCI:{place}): 45, pid=5100, name=python3, Ch 01 caused by previous Xid {named}"
    )
    assert logged(*lines, line) == found


def test_a_clean_up_is_told_with_what_its_cause_asks_for():
    box = Text("h100x8")
    box.log(f"NVRM: Xid (PCI:{box.short_place(3)}): 45, pid=5, Ch 01 caused by previous Xid 48")
    (finding,) = judged(box)
    assert finding["action"].startswith("reset the GPU")


@pytest.mark.parametrize(
    ("programs", "apart", "level"),
    [(1, 1, "warn"), (2, 1, "warn"), (3, 1, "degraded"), (3, 50000, "warn")],
)
def test_programs_that_are_killed_again_and_again_lack_memory(programs, apart, level):
    """Of one process, several lines are one. A container may see its neighbours'."""
    text = "Memory cgroup out of memory: Killed process {} (python3) total-vm:120832kB, anon-rss:15596kB"
    lines = [f"[{100 + at * apart}.000000] {text.format(4100 + at)}" for at in range(programs)]
    lines += [lines[0]] * 3
    box = Text("h100x8")
    box.files["dmesg.txt"] += "".join(line + "\n" for line in lines)
    assert [one["level"] for one in judged(box)] == [level]
    box.proc(lambda proc: proc["platform"].update(container="docker"))
    assert [one["level"] for one in judged(box)] == ["warn"]


@pytest.mark.parametrize(
    "line",
    [
        "[Hardware Error]: System Fatal error.",
        "[Hardware Error]: CPU:3 (19:21:0) MC5_STATUS[-|UE|MiscV|AddrV|PCC|TCC|SyndV|-|-|-]: 0xbea0000000000108",
        "[Hardware Error]: CPU:3 (19:21:0) MC5_STATUS[Over|UE|MiscV|AddrV|-|TCC|SyndV|-|-|-]: 0xfc20000000000108",
        "mce: [Hardware Error]: CPU 2: Machine Check: 0 Bank 5: be00000000800400",
        "{1}[Hardware Error]: event severity: fatal",
        "x86/amd: Previous system reset reason [0x08000800]: an uncorrected error caused a data fabric sync flood event",
    ],
    ids=lambda line: line[:40],
)
def test_an_error_that_a_processor_couldnt_correct_needs_care(line, tmp_path):
    assert logged(line) == [(None, "degraded")]
    assert logged(line, container="docker") == [(None, "degraded")]


def test_a_pasted_machine_check_is_a_kernel_log(tmp_path):
    findings, kinds = pasted("[Hardware Error]: System Fatal error.\n", tmp_path)
    assert kinds == ["dmesg.txt"] and "degraded" in {one["level"] for one in findings}


@pytest.mark.parametrize(
    "line",
    [
        "mce: [Hardware Error]: CPU 2: Machine Check: 0 Bank 5: 9c00000000800400",  # corrected
        "{1}[Hardware Error]: event severity: corrected",
        "x86/amd: Previous system reset reason [0x00080800]: software wrote 0x6 to reset control register 0xCF9",
    ],
    ids=lambda line: line[:40],
)
def test_a_corrected_machine_check_or_an_ordinary_restart_gives_nothing(line):
    assert logged(line) == []


def test_a_card_that_is_off_the_bus_when_the_driver_loads_is_named(tmp_path):
    """The driver looks at each card before it says that it is loaded."""
    log = (
        "[ 18.308145] NVRM: The NVIDIA GPU 0000:5e:00.0\n"
        "              NVRM: (PCI ID: 10de:2330) installed in this system has\n"
        "              NVRM: fallen off the bus and is not responding to commands.\n"
        "[ 18.439662] NVRM: The NVIDIA probe routine failed for 1 device(s).\n"
        "[ 18.439669] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.158.01\n"
    )
    findings, _ = pasted(log, tmp_path)
    assert ("0000:5e:00", "fatal") in [(one["gpu"], one["level"]) for one in findings]
    findings, _ = pasted(
        log + "[ 90.1] NVRM: loading NVIDIA UNIX Open Kernel Module  570.158.01\n", tmp_path
    )
    assert "fatal" not in {one["level"] for one in findings}


def test_a_kernel_log_and_a_table_pasted_together_are_both_read(tmp_path):
    table = (
        "|   0  NVIDIA A40          On   | 00000000:03:00.0 Off |                    0 |\n"
        "|  0%   24C    P8    14W / 300W |      0MiB / 46068MiB |      0%      Default |\n"
    )
    log = "[  +6.010643] NVRM: Xid (PCI:0000:03:00): 119, pid=2710, name=nvidia-smi, Timeout waiting for RPC from GSP!\n"
    findings, kinds = pasted(log + table, tmp_path)
    assert kinds == ["table.txt", "dmesg.txt"]
    assert (0, "fatal") in [(one["gpu"], one["level"]) for one in findings]
    assert pasted(table, tmp_path)[1] == ["table.txt"]


SECTION = """\
    ECC Errors
        Volatile
            SRAM Correctable              : 0
            SRAM Uncorrectable            : {}
            DRAM Correctable              : 0
            DRAM Uncorrectable            : 0
    Remapped Rows
        Correctable Error                 : 0
        Uncorrectable Error               : 0
        Pending                           : {}
        Remapping Failure Occurred        : No
"""


def bad(findings):
    return [(one["gpu"], one["level"]) for one in findings if one["level"] in ("fatal", "degraded")]


@pytest.mark.parametrize("indent", [0, 4])
def test_sections_of_nvidia_smi_q_are_read_without_the_line_of_their_gpu(indent, tmp_path):
    def section(*values):
        lines = SECTION.format(*values).splitlines(keepends=True)
        return "".join(line[4 - indent :] for line in lines)

    findings, kinds = pasted(section(1, "No"), tmp_path)
    assert kinds == ["q.txt"] and bad(findings) == [(0, "fatal")]
    assert bad(pasted(section(0, "No"), tmp_path)[0]) == []
    assert bad(pasted(section(0, "No") + section(2, "No"), tmp_path)[0]) == [(1, "fatal")]
    assert [gpu for gpu, _ in bad(pasted(section(0, "Yes"), tmp_path)[0])] == [0]
    assert not [one for one in findings if "breaks off" in one["evidence"]]


@pytest.mark.parametrize(
    "text",
    [
        "RmInitAdapter failed! (0x26:0xffff:1106)",
        "rm_init_adapter failed for device bearing minor number 2",
    ],
)
def test_a_card_that_an_older_driver_cant_start_makes_a_box_unfit(text):
    assert logged(f"NVRM: {text}") == [(None, "fatal")]
