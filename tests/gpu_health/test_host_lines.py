"""Lines of the kernel log about the machine, and settings of a card that cost its renter speed."""

import json
import time

import pytest

from tests.gpu_health.gpu_faults import Text
from tests.gpu_health.script import gpu_health

STUCK = "watchdog: BUG: soft lockup - CPU#18 stuck for {}s! [python3:2254956]"
STALL = "rcu: \t(t={} jiffies g=65669 q=4492 ncpus=64)"
HOT = "mce: CPU{}: Package temperature above threshold, cpu clock throttled (total events = {})"
UNSTABLE = "clocksource:                       'tsc' is current clocksource."
UE = "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x7740c0 offset:0x140 grain:32 -  err_code:0x0101:0x0091)"
DMAR = "DMAR: [DMA Write NO_PASID] Request device [{}] fault addr 0x7ebb0000 [fault reason 0x05] PTE Write access is not set"


def findings(box):
    """(gpu, level, evidence) of each finding about an edited capture."""
    files = dict(box.files)
    ends, proc = json.loads(files.pop("exit.json")), json.loads(files.pop("proc.json"))
    return [
        (one["gpu"], one["level"], one["evidence"])
        for one in gpu_health.judge({"files": files, "exit": ends, "proc": proc, "live": False})
    ]


def logged(*lines, capture="h100x8", container=""):
    """(gpu, level) of each finding after these lines of the kernel log."""
    box = Text(capture)
    box.log(*lines)
    box.proc(lambda proc: proc["platform"].update(container=container))
    return [(gpu, level) for gpu, level, _ in findings(box)]


@pytest.mark.parametrize(
    ("line", "level"),
    [
        (UE, "fatal"),
        ("mce: Uncorrected hardware memory error in user-access at 7740c0140", "fatal"),
        (
            "Memory failure: 0x7741e2: Killing python3:60911 due to hardware memory corruption",
            "fatal",
        ),
        (
            "Memory failure: 0x7740c0: Sending SIGBUS to python3:51201 due to hardware memory corruption",
            "fatal",
        ),
        (STUCK.format(27), "warn"),
        (STUCK.format(119), "warn"),
        (STUCK.format(120), "degraded"),
        (STUCK.format(1043), "degraded"),
        (STALL.format(262520), "degraded"),
        (UNSTABLE, "degraded"),
        (HOT.format(0, 3058), "warn"),
        ("VFS: file-max limit 65536 reached", "degraded"),
        (
            "NVRM: installed in this system requires use of the NVIDIA open kernel modules.",
            "fatal",
        ),
        (
            "NVRM: installed in this system is not supported by open nvidia.ko because it does not include the required GPU",
            "fatal",
        ),
        ("NVRM: is not supported by open nvidia.ko because it does not include the", "fatal"),
    ],
    ids=lambda value: value[:50],
)
def test_a_line_about_the_machine_has_its_level(line, level):
    assert logged(line) == [(None, level)]


@pytest.mark.parametrize(
    "line",
    [
        "EDAC MC: Ver: 3.0.0",
        "EDAC MC0: Giving out device to module skx_edac controller Skylake Socket#0 IMC#0",
        "mce: [Hardware Error]: Machine check events logged",
        "mce: CPU supports 22 MCE banks",
        "mce: CPU0: Package temperature/speed normal",
        "Memory failure: 0x7740c0: recovery action for dirty LRU page: Recovered",
        "DMAR: IOMMU enabled",
        "DMAR: DRHD base: 0x000000fbffc000 flags: 0x0",
        "pci 0000:c0:00.2: AMD-Vi: IOMMU performance counters supported",
        "clocksource: Switched to clocksource tsc",
        "clocksource: tsc: mask: 0xffffffffffffffff max_cycles: 0x1fb6f4ae3e5, max_idle_ns: 440795283 ns",
        "tsc: Marking TSC unstable due to running on Hyper-V",
        "clocksource:                       'kvm-clock' (not 'tsc') is current clocksource.",
        STALL.format(21002),
    ],
    ids=lambda value: value[:50],
)
def test_an_ordinary_line_about_the_machine_gives_nothing(line):
    assert logged(line) == []


@pytest.mark.parametrize(
    "line",
    [
        DMAR.format("4e:00.0"),
        "DMAR:[DMA Read] Request device [4e:00.0] fault addr 7ebb0000",
        "nvidia 0000:4e:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0014 address=0xfd6 flags=0x0020]",
        "AMD-Vi: Event logged [IO_PAGE_FAULT device=0000:4e:00.0 domain=0x0014 address=0xfd6 flags=0x0020]",
    ],
    ids=["Intel", "older Intel", "AMD", "older AMD"],
)
def test_a_fault_of_the_iommu_belongs_to_the_card_that_it_names(line):
    assert logged(line) == [(3, "degraded")]


def test_a_fault_of_the_iommu_over_another_device_gives_nothing():
    assert logged(DMAR.format("00:14.0")) == []


def test_a_processor_that_is_hot_again_is_worse_than_many_that_are_hot_once():
    once = [HOT.format(cpu, 12) for cpu in (0, 4, 32)]
    assert logged(*once) == [(None, "warn")]
    assert logged(*once, HOT.format(4, 9021)) == [(None, "degraded")]
    newer = HOT.replace("above", "is above").replace("clock", "clock is")
    assert logged(newer.format(4, 1), newer.format(4, 2)) == [(None, "degraded")]


def test_a_container_shares_the_memory_of_its_machine_and_not_its_neighbours_programs():
    both = [UE, STUCK.format(1043)]
    assert logged(*both) == [(None, "fatal"), (None, "degraded")]
    assert logged(*both, container="docker") == [(None, "fatal"), (None, "warn")]


def test_a_boot_ends_errors_of_the_memory_and_a_load_of_the_driver_does_not():
    load = "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  590.44.01"
    assert logged(UE, load) == [(None, "fatal")]
    assert logged(UE, "Linux version 6.8.0-60-generic (builder@host)") == []


def test_the_drivers_advice_to_unload_another_module_ends_nothing():
    told = "NVRM: The NVIDIA probe routine was not called for 1 device(s)."
    advice = "NVRM: Try unloading the conflicting kernel module (and/or"
    assert logged(told, advice) == logged(told) == [(None, "fatal")]


def levels(capture, *cells, xml=()):
    """The levels of the findings on GPU 0 after its cells and its XML were edited."""
    box = Text(capture)
    for field, value in cells:
        box.cell(0, field, value)
    for tag, value in xml:
        box.xml(0, tag, value)
    return [level for gpu, level, _ in findings(box) if gpu == 0]


@pytest.mark.parametrize(
    ("watts", "expected"),
    [(350, []), (315, []), (280, ["warn"]), (200, ["warn"]), (175, ["warn"]), (174, ["degraded"])],
)
def test_a_power_limit_below_half_of_the_default_needs_care(watts, expected):
    limits = [(field, watts) for field in ("power.limit", "enforced.power.limit")]
    xml = [(tag, f"{watts}.00 W") for tag in ("power_limit", "current_power_limit")]
    assert levels("rtx3090x2", *limits, xml=xml) == expected


@pytest.mark.parametrize(
    ("clock", "expected"), [(1410, []), (1275, ["warn"]), (705, ["warn"]), (510, ["degraded"])]
)
def test_an_application_clock_below_half_of_the_default_needs_care(clock, expected):
    box = Text("a100x8")
    for name, value in (("applications_clocks", clock), ("default_applications_clocks", 1410)):
        tag = f"<{name}><graphics_clock>{value} MHz</graphics_clock></{name}>"
        box.xml_add(0, "\t\t<fb_memory_usage>", tag)
    assert [level for gpu, level, _ in findings(box) if gpu == 0] == expected


@pytest.mark.parametrize(("heat", "level"), [(45, "warn"), (79, "warn"), (84, "degraded")])
def test_an_idle_card_that_is_throttled_needs_care_if_it_is_hot(heat, level):
    throttled = ("clocks_event_reasons.sw_thermal_slowdown", "Active")
    assert levels("rtx3090x2", ("temperature.gpu", heat), throttled) == [level]


@pytest.mark.parametrize("field", ["fan.speed", "persistence_mode", "display_active"])
def test_any_field_that_failed_needs_care(field):
    assert levels("rtx3090x2", (field, "[Unknown Error]")) == ["degraded"]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("Licensed (Expiry: 2027-1-7 8:54:5 GMT)", []),
        ("N/A", []),
        ("Unlicensed", ["degraded"]),
        ("Unlicensed (Restricted)", ["fatal"]),
        ("Unlicensed (Unrestricted)", ["degraded"]),
    ],
)
@pytest.mark.parametrize("product", ["vgpu_software_licensed_product", "grid_licensed_product"])
def test_a_vgpu_needs_its_license(product, status, expected):
    box = Text("vgpu")
    tag = f"<{product}><license_status>{status}</license_status></{product}>"
    box.xml_add(0, "\t\t<fb_memory_usage>", tag)
    assert [level for gpu, level, _ in findings(box) if gpu == 0] == expected


def test_a_whole_card_in_a_virtual_machine_needs_no_license():
    box = Text("t4x1")
    product = "vgpu_software_licensed_product"
    tag = f"<{product}><license_status>Unlicensed (Restricted)</license_status></{product}>"
    box.xml_add(0, "\t\t<fb_memory_usage>", tag)
    assert findings(box) == []


@pytest.mark.parametrize(
    ("pstate", "clock", "generation", "expected"),
    [
        ("P0", 1410, 1, ["degraded"]),
        ("P0", 1410, 2, ["degraded"]),
        ("P0", 1410, 3, []),
        ("P0", 1410, 4, []),
        ("P0", 210, 1, []),
        ("P8", 1410, 1, []),
    ],
)
def test_a_link_stays_slow_only_if_its_card_is_awake(pstate, clock, generation, expected):
    cells = [("pstate", pstate), ("clocks.current.sm", clock)]
    cells.append(("pcie.link.gen.gpucurrent", generation))
    xml = [("current_link_gen", generation), ("performance_state", pstate)]
    assert levels("a100x8", *cells, xml=xml) == expected


def torched(archs, dev=(), **torch):
    """(level, evidence) of the findings on an H100 box whose torch says this."""
    box = Text("h100x8")
    nodes = [{"path": path, "error": ""} for path in ("/dev/nvidia0", "/dev/nvidiactl", *dev)]
    told = {"torch": "2.5.0", "cuda": "12.4", "archs": archs.split(), "devices": [], **torch}
    box.proc(lambda proc: proc.update(torch=told, dev=nodes))
    return [
        (level, text) for _, level, text in findings(box) if "torch" in text or "kernel" in text
    ]


@pytest.mark.parametrize(
    ("archs", "says"),
    [
        ("sm_70 sm_80 sm_86", "no kernel image for this card, only for sm_70 sm_80 sm_86"),
        ("sm_80 sm_100", "no kernel image for this card, only for sm_80 sm_100"),
        ("sm_80 sm_90", "a wrong sum"),
        ("sm_80 compute_80", "a wrong sum"),
        ("", "a wrong sum"),
    ],
)
def test_a_kernel_fails_without_an_error_if_torch_has_none_for_the_card(archs, says):
    failed = [{"index": 0, "ok": False}]
    assert torched(archs, available=True, devices=failed) == [
        ("fatal", f"a small kernel failed: {says}")
    ]


def test_a_torch_without_a_gpu_says_which_node_the_container_lacks():
    ((level, text),) = torched("sm_90", available=False)
    assert level == "fatal" and "/dev/nvidia-uvm is missing" in text
    ((_, text),) = torched("sm_90", dev=["/dev/nvidia-uvm"], available=False)
    assert text.endswith("is_available() is False")


@pytest.mark.parametrize(
    "unit",
    ["NVRM: ", "AMD-Vi: ", "rcu: t=1", "a: AMD-Vi", "DMAR: [DMA Read", "mce: CPU0: Package "],
)
def test_a_long_line_of_the_beginnings_of_patterns_is_read_in_seconds(unit):
    began = time.monotonic()
    gpu_health.parse_log("[    1.000000] NVRM: jiffies " + unit * (2_000_000 // len(unit)) + "\n")
    assert time.monotonic() - began < 10


def test_an_xid_far_behind_in_a_line_is_told_as_unread():
    line = "x" * 5000 + " NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus."
    assert (None, "unknown") in logged(line)
