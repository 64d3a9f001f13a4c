#!/usr/bin/env python3
"""Is this GPU box fit to train on? Python 3.8, standard library only; also as `ssh HOST python3 - < gpu_health.py`.

usage:
  gpu_health.py [--expect LIST] [--python PATH] [--path DIR ...] [--stress SECONDS] [--record DIR] [--json]
  gpu_health.py --replay DIR_OR_FILE [--expect LIST] [--json]
  gpu_health.py --watch SECONDS [--pid PID]

--expect gpus=8,name=H100,vram=80,nvlink=all,driver>=550,torch=cu130 compares the box with what was paid for. `--expect help` lists the names.
--record writes what was gathered, one file a command; --replay judges such a folder, or a folder with any part of it, or one raw file.
Exit 0: fit. Exit 1: care or unfit. Exit 2: unknown, or wrong usage.

How levels make the verdict (function `verdict`): a fatal finding makes unfit; otherwise a degraded one makes care; otherwise an unknown one
makes unknown; warnings leave it fit. What could not be read is a finding of level unknown, so it is never fit. A replayed capture without
`exit.json` (a raw output from elsewhere) is judged by what it holds; what it lacks stands under `not_in_capture`.

Not covered: a fault that shows only under load (use --stress), the network between boxes, drivers of other makers than NVIDIA and AMD.
"""

import argparse
import errno
import glob
import json
import os
import re
import select
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time

# ---------------------------------------------------------------------------------------------------------------------------------------
# Tables. Sources: NVIDIA Xid catalogue page; open-gpu-kernel-modules 595.45.04; gpud's SXid table (from the Fabric Manager guide, Oct 2023);
# NVIDIA data sheets. Read on 2026-11-20. Names and actions of Xids are NVIDIA's, severities and SXid actions are ours.

# numbers | level | NVIDIA's action | what it is. Numbers that stand nowhere are unknown to this table, and reported as unknown.
XID_TABLE = """
1-7,9,10,12,15-24,26-30,33-36,47,49-53,55,56,65,73,90,91,111-118,138 | warn | CONTACT_SUPPORT | legacy or reserved number, unused on current GPUs
8 | warn | RESTART_APP | idle timeout of a channel
11,25 | warn | RESTART_APP | invalid command stream
13 | warn | RESTART_APP | fault inside a kernel, usually the application's bug
14,106,107 | ok | IGNORE | test message
31 | warn | RESTART_APP | GPU page fault, usually the application's illegal address
32 | degraded | RESTART_APP | push-buffer DMA fault, suspect the PCIe link
37,38,44,66,67 | warn | IGNORE | context-switch firmware or driver check
39-41,70-72,75-77,85,126-135 | warn | RESTART_APP | copy engine exception
42 | warn | CONTACT_SUPPORT | legacy video exception
43 | warn | IGNORE | the application was stopped, the GPU is healthy
45 | ok | WORKFLOW_XID_45 | clean-up after a killed application
46 | fatal | RESET_GPU | an engine stopped working
48 | fatal | WORKFLOW_XID_48 | uncorrectable ECC error
54 | fatal | CHECK_MECHANICALS | auxiliary power cable missing
57,58,59,61 | degraded | CONTACT_SUPPORT | memory link or power controller error of older GPUs
60 | warn | RESTART_APP | video processor exception
62 | fatal | RESET_GPU | power-management controller halted
63 | degraded | IGNORE | a page or row was retired, active after a reset
64 | fatal | RESET_GPU | a page or row could not be retired
68,69,82-84,86,88,89,96-105,139 | warn | RESTART_APP | engine exception, usually the application's
74 | fatal | WORKFLOW_NVLINK_ERR | NVLink error
78 | degraded | UPDATE_SWFW | vGPU could not start, versions differ
79 | fatal | RESTART_BM | the GPU has fallen off the bus
80 | degraded | RESTART_APP | command data damaged on the way to the GPU
81 | degraded | CONTACT_SUPPORT | legacy VGA error
87 | ok | CONTACT_SUPPORT | unused
152,153 | ok | IGNORE | informational
92 | degraded | IGNORE | too many corrected ECC errors
93 | warn | IGNORE | InfoROM write limit reached
94 | degraded | RESTART_APP | contained ECC error
95 | fatal | RESET_GPU | uncontained ECC error
108,121,137,141 | warn | IGNORE | NVLink address, C2C or fast-path error
109 | degraded | RESET_GPU | context switch timed out
110 | fatal | RESET_GPU | security fault
119 | fatal | RESET_GPU | GSP firmware did not answer
120 | fatal | RESET_GPU | GSP firmware crashed
122-125 | degraded | CONTACT_SUPPORT | flash or InfoROM error
136 | fatal | RESET_GPU | NVLink training failed
140 | fatal | RESET_GPU | ECC error escaped its handling
142 | warn | CONTACT_SUPPORT | video encoder error
143 | fatal | RESET_GPU | the GPU failed to initialise
144-149 | degraded | WORKFLOW_NVLINK5_ERR | NVLink 5 unit error, the line says fatal or not
150 | fatal | WORKFLOW_NVLINK5_ERR | NVLink 5 watchdog
151 | fatal | RESTART_VM | key rotation failed
154 | degraded | XID_154 | recovery action changed
155,156 | degraded | RESET_GPU | link declared down, or a resource was retired
157,160,161 | degraded | IGNORE | no spare resource, or a memory channel is marked for repair
158 | fatal | RESET_GPU | fatal timeout
159 | degraded | CHECK_UVM | coherent link error
162,174 | ok | NONE_LISTED | informational
163,164,170,176 | warn | NONE_LISTED | power smoothing, link or PCIe notice
165,166,168,175,185 | degraded | NONE_LISTED | power, memory or link resource lost
167,169,171-173 | fatal | NONE_LISTED | PCIe timeout, halted controller, uncorrectable memory or C2C error
"""

# SXids (NVSwitch). fatal: always fatal. maybe: fatal when the line says so. rest: never by itself.
SXID_ALWAYS = "10003,12020,22003,22011,23001-23017"
SXID_MAYBE = (
    "10001,10002,10004,10005,11001,11009,11013,11018-11020,12001,12002,12022,12024-12027,12030-12032,14017,15001,15006,15009,"
    "15010,15012,15013,19047,19048,19054,19056,19058,19060,19061,19063,19064,19066,19067,19069,19070,20034,22012,24004-24007"
)
SXID_NEVER = (
    "11004,11012,11021-11023,12021,12023,12028,15008,15011,19049,19055,19057,19059,19062,19065,19068,19071,19084,20001,20009,"
    "20012,22013,24001-24003"
)

# name pattern | memory GiB, the smallest sold under the name (RTX 3060: 8 and 12, 5060 Ti: 8 and 16) | compute capability | PCIe generation | watts | b bf16, f fp8 | peer to peer
SKU_TABLE = """
Tesla P100-SXM2-16GB|16|6.0|3|300||nvlink
Tesla P100-PCIE-16GB|16|6.0|3|250||pcie
Tesla P40$|24|6.1|3|250||pcie
V100-SXM[23]-16GB|16|7.0|3|300||nvlink
V100-SXM[23]-32GB|32|7.0|3|300||nvlink
V100S-PCIE-32GB|32|7.0|3|250||pcie
V100-PCIE-16GB|16|7.0|3|250||pcie
V100-PCIE-32GB|32|7.0|3|250||pcie
(Tesla|NVIDIA) T4$|16|7.5|3|70||pcie
A100-SXM4-40GB|40|8.0|4|400|b|nvlink
A100-SXM4-80GB|80|8.0|4|400|b|nvlink
A100-PCIE-40GB|40|8.0|4|250|b|bridge
A100 80GB PCIe|80|8.0|4|300|b|bridge
A800-SXM4-80GB|80|8.0|4|400|b|nvlink
A30$|24|8.0|4|165|b|bridge
A40$|48|8.6|4|300|b|bridge
A10G$|24|8.6|4|300|b|pcie
A10$|24|8.6|4|150|b|pcie
A2$|16|8.6|4|60|b|pcie
L40S$|48|8.9|4|350|bf|pcie
L40$|48|8.9|4|300|bf|pcie
L20$|48|8.9|4|275|bf|pcie
L4$|24|8.9|4|72|bf|pcie
H100 80GB HBM3|80|9.0|5|700|bf|nvlink
H100 PCIe|80|9.0|5|350|bf|bridge
H100 NVL|94|9.0|5|400|bf|bridge
H800$|80|9.0|5|700|bf|nvlink
H20$|96|9.0|5|500|bf|nvlink
H200 NVL|140|9.0|5|600|bf|bridge
(?<!G)H200$|140|9.0|5|700|bf|nvlink
GH200 480GB|96|9.0|5|900|bf|nvlink
GH200 144G|144|9.0|5|900|bf|nvlink
GB300|277|10.3|6|1400|bf|nvlink
(?<!G)B300|268|10.3|6|1100|bf|nvlink
GB200|185|10.0|5|1200|bf|nvlink
(?<!G)B200|179|10.0|5|1000|bf|nvlink
B100$|179|10.0|5|700|bf|nvlink
GB10$|128|12.1|5|140|bf|none
TITAN V$|12|7.0|3|250||none
TITAN RTX$|24|7.5|3|280||bridge
Quadro RTX 8000$|48|7.5|3|260||bridge
Quadro RTX 6000$|24|7.5|3|260||bridge
RTX A6000$|48|8.6|4|300|b|bridge
RTX A5000$|24|8.6|4|230|b|bridge
RTX A4000$|16|8.6|4|140|b|pcie
RTX 6000 Ada|48|8.9|4|300|bf|pcie
RTX 5000 Ada Generation$|32|8.9|4|250|bf|pcie
RTX 4500 Ada Generation$|24|8.9|4|210|bf|pcie
RTX 4000 SFF Ada|20|8.9|4|70|bf|pcie
RTX 4000 Ada Generation$|20|8.9|4|130|bf|pcie
RTX PRO 6000 Blackwell Max-Q|96|12.0|5|300|bf|pcie
RTX PRO 6000 Blackwell (Workstation|Server)|96|12.0|5|600|bf|pcie
RTX PRO 5000 Blackwell$|48|12.0|5|300|bf|pcie
RTX PRO 4500 Blackwell$|32|12.0|5|200|bf|pcie
RTX PRO 4000 Blackwell$|24|12.0|5|140|bf|pcie
RTX 2060$|6|7.5|3|160||none
RTX 2070$|8|7.5|3|175||none
RTX 2070 SUPER$|8|7.5|3|215||bridge
RTX 2080$|8|7.5|3|215||bridge
RTX 2080 SUPER$|8|7.5|3|250||bridge
RTX 2080 Ti$|11|7.5|3|250||bridge
RTX 3060$|8|8.6|4|170|b|none
RTX 3060 Ti$|8|8.6|4|200|b|none
RTX 3070$|8|8.6|4|220|b|none
RTX 3070 Ti$|8|8.6|4|290|b|none
RTX 3080$|10|8.6|4|320|b|none
RTX 3080 Ti$|12|8.6|4|350|b|none
RTX 3090$|24|8.6|4|350|b|bridge
RTX 3090 Ti$|24|8.6|4|450|b|bridge
RTX 4060$|8|8.9|4|115|bf|none
RTX 4060 Ti$|8|8.9|4|160|bf|none
RTX 4070$|12|8.9|4|200|bf|none
RTX 4070 SUPER$|12|8.9|4|220|bf|none
RTX 4070 Ti$|12|8.9|4|285|bf|none
RTX 4070 Ti SUPER$|16|8.9|4|285|bf|none
RTX 4080$|16|8.9|4|320|bf|none
RTX 4080 SUPER$|16|8.9|4|320|bf|none
RTX 4090$|24|8.9|4|450|bf|none
RTX 4090 D$|24|8.9|4|425|bf|none
RTX 5060 Ti$|8|12.0|5|180|bf|none
RTX 5070$|12|12.0|5|250|bf|none
RTX 5070 Ti$|16|12.0|5|300|bf|none
RTX 5080$|16|12.0|5|360|bf|none
RTX 5090$|32|12.0|5|575|bf|none
"""

# NVLinks a GPU has, and GB/s of one: NVIDIA Health Validation docs (H100 18 x 26.562, GB200 53.125), captured A100 (12 x 25).
NVLINKS = (
    ("H100 80GB HBM3", 18, 26.562),
    ("H200$", 18, 26.562),
    ("A100-SXM4", 12, 25.0),
    ("GB200|GB300", 18, 53.125),
)

# Dense tensor-core peak in TFLOPS, bf16 (fp16 before Ampere), as the data sheets give it. Read 2026-11-20 in torchtitan (tools/utils.py: H100, H200,
# A100, B200, L40S), Lightning 2.6.6 (fabric/utilities/throughput.py: L4, L40, A10, V100, T4) and for A40 and RTX 4090 in lists of the data sheets.
# A card that isn't here is compared with its neighbours only.
PEAK_TFLOPS = (
    ("H100 80GB HBM3|H200$", 989),
    ("H100 PCIe", 756),
    ("H100 NVL", 835),
    ("A100", 312),
    ("B200", 2250),
    ("L40S$", 362),
    ("L40$", 181),
    ("L4$", 121),
    ("A40$", 149),
    ("A10$", 125),
    ("V100", 112),
    ("T4$", 65),
    ("RTX 4090$", 165),
)

# Catalogue entries that a finding points at, by the word or the key of the finding. Only ids that the catalogue has; a test compares.
ENTRY = {
    "shm": "DP15",
    "sku": "VAST14",
    "held": "U11",
    "torch_driver": "ENV6",
    "arch": "ENV1",
    "no_runtime": "U31",
    "bf16": "P3",
    "stuck": "D20",
    "disk": "U6",
    "inodes": "U7",
    "container memory": "U41",
    "lost": "HW1",
    "count": "HW1",
    "gsp": "HW1",
    "init": "HW1",
    "ecc": "HW2",
    "remap": "HW2",
    "pages": "HW2",
    "repair": "HW2",
    "p2p": "HW3",
    "fabric": "HW4",
    "fabricmanager": "HW4",
    "fabric topology": "HW4",
    "throttle": "HW5",
    "capped": "HW5",
    "clock": "HW5",
    "width": "HW6",
    "gen": "HW6",
    "replays": "HW6",
    "aer": "HW6",
    "mig": "HW7",
    "cgroup": "ENV10",
    "mismatch": "ENV11",
}
XID_ENTRY = {
    48: "ecc",
    63: "ecc",
    64: "ecc",
    79: "lost",
    92: "ecc",
    94: "ecc",
    95: "ecc",
    109: "stuck",
    119: "gsp",
    120: "gsp",
}

# Fields asked in groups: one name that the driver doesn't know fails a whole call. The second name is the one of older drivers.
# Type: n number, y yes/no, m enabled/disabled, a active/not active, x hexadecimal mask, t text.
FIELDS = [
    [
        ("index", "n"),
        ("count", "n"),
        ("name", "t"),
        ("uuid", "t"),
        ("pci.bus_id", "t"),
        ("driver_version", "t"),
        ("memory.total", "n"),
        ("memory.used", "n"),
        ("memory.free", "n"),
        ("utilization.gpu", "n"),
        ("utilization.memory", "n"),
        ("temperature.gpu", "n"),
        ("temperature.memory", "n"),
        ("temperature.gpu.tlimit", "n"),
        ("power.draw", "n"),
        ("power.limit", "n"),
        ("enforced.power.limit", "n"),
        ("power.default_limit", "n"),
        ("clocks.current.sm|clocks.sm", "n"),
        ("clocks.max.sm", "n"),
        ("fan.speed", "n"),
        ("pstate", "t"),
        ("compute_mode", "t"),
        ("compute_cap", "t"),
        ("persistence_mode", "m"),
        ("display_active", "m"),
        ("mig.mode.current", "m"),
        ("mig.mode.pending", "m"),
        ("pcie.link.gen.gpucurrent|pcie.link.gen.current", "n"),
        ("pcie.link.gen.max", "n"),
        ("pcie.link.gen.hostmax", "n"),
        ("pcie.link.width.current", "n"),
        ("pcie.link.width.max", "n"),
    ],
    [
        ("index", "n"),
        ("pci.bus_id", "t"),
        ("ecc.mode.current", "m"),
        ("ecc.mode.pending", "m"),
        ("ecc.errors.corrected.volatile.total", "n"),
        ("ecc.errors.corrected.aggregate.total", "n"),
        ("ecc.errors.corrected.aggregate.dram", "n"),
        ("ecc.errors.corrected.aggregate.sram", "n"),
        ("ecc.errors.uncorrected.volatile.total", "n"),
        ("ecc.errors.uncorrected.aggregate.total", "n"),
        ("ecc.errors.uncorrected.aggregate.sram", "n"),
        ("ecc.errors.uncorrected.aggregate.sram.thresholdExceeded", "y"),
        ("retired_pages.single_bit_ecc.count", "n"),
        ("retired_pages.double_bit.count", "n"),
        ("retired_pages.pending", "y"),
        ("remapped_rows.correctable", "n"),
        ("remapped_rows.uncorrectable", "n"),
        ("remapped_rows.pending", "y"),
        ("remapped_rows.failure", "y"),
        ("remapped_rows.histogram.low", "n"),
        ("remapped_rows.histogram.none", "n"),
        ("inforom.checksum_validation", "t"),
    ],
    [
        ("index", "n"),
        ("pci.bus_id", "t"),
        ("gpu_recovery_action", "t"),
        ("clocks_throttle_reasons.active|clocks_event_reasons.active", "x"),
        ("clocks_throttle_reasons.hw_slowdown|clocks_event_reasons.hw_slowdown", "a"),
        (
            "clocks_throttle_reasons.hw_thermal_slowdown|clocks_event_reasons.hw_thermal_slowdown",
            "a",
        ),
        (
            "clocks_throttle_reasons.hw_power_brake_slowdown|clocks_event_reasons.hw_power_brake_slowdown",
            "a",
        ),
        (
            "clocks_throttle_reasons.sw_thermal_slowdown|clocks_event_reasons.sw_thermal_slowdown",
            "a",
        ),
        ("clocks_throttle_reasons.sw_power_cap|clocks_event_reasons.sw_power_cap", "a"),
        (
            "clocks_throttle_reasons.applications_clocks_setting|clocks_event_reasons.applications_clocks_setting",
            "a",
        ),
        ("clocks_event_reasons_counters.hw_thermal_slowdown", "n"),
        ("clocks_event_reasons_counters.hw_power_brake_slowdown", "n"),
        ("clocks_event_reasons_counters.sw_thermal_slowdown", "n"),
        ("fabric.state", "t"),
        ("fabric.status", "t"),
        ("fabric.health.summary", "t"),
    ],
]
WATCH_FIELDS = [
    "index",
    "pci.bus_id",
    "utilization.gpu",
    "utilization.memory",
    "memory.used",
    "memory.total",
    "power.draw",
    "power.limit",
    "temperature.gpu",
    "clocks.current.sm|clocks.sm",
    "clocks.max.sm",
    "clocks_throttle_reasons.active|clocks_event_reasons.active",
    "pcie.link.gen.gpucurrent|pcie.link.gen.current",
    "pstate",
]

# What every driver in the captures (465 to 610) tells, and what 590 and later tell besides. Missing: unknown.
REQUIRED = (
    "name",
    "pci.bus_id",
    "driver_version",
    "memory.total",
    "memory.used",
    "utilization.gpu",
    "temperature.gpu",
    "pcie.link.width.current",
    "pcie.link.width.max",
    "ecc.mode.current",
    "ecc.errors.uncorrected.volatile.total",
    "clocks_event_reasons.hw_slowdown",
    "mig.mode.current",
)
REQUIRED_590 = ("remapped_rows.failure", "remapped_rows.pending", "gpu_recovery_action")

FILES = (
    "nvidia-smi.csv",
    "nvidia-smi-q.xml",
    "nvidia-smi-list.txt",
    "nvlink.txt",
    "topo.txt",
    "apps.csv",
    "dmesg.txt",
    "proc.json",
    "exit.json",
)
EXTRA_FILES = ("fields.txt",)
LIMIT = 4 << 20  # bytes of one reply; more is cut, and said
# An MCP call has 50 s in all (contracts.md), and ssh takes its part. The first call that wakes the GPUs may take the whole series.
CALL_SECONDS, SERIES_SECONDS = 25.0, 42.0
LOGS = (
    "dmesg",
    "journalctl",
)  # their end counts: one that is too long loses its plain lines, see `worthy`


RESET = "reset the GPU while nothing runs on it (nvidia-smi --gpu-reset -i N), or reboot the box"
BACK = "hand the box back and ask for a refund"


def numbers(text):
    out = set()
    for part in text.split(","):
        low, _, high = part.strip().partition("-")
        out.update(range(int(low), int(high or low) + 1))
    return out


def xids():
    table = {}
    for line in XID_TABLE.strip().splitlines():
        codes, level, action, what = (part.strip() for part in line.split("|"))
        for code in numbers(codes):
            table[code] = (level, action, what)
    return table


XID = xids()
SXID = {}
for _codes, _kind in ((SXID_ALWAYS, "always"), (SXID_MAYBE, "maybe"), (SXID_NEVER, "never")):
    SXID.update((_code, _kind) for _code in numbers(_codes))
SKU = []
for _line in SKU_TABLE.strip().splitlines():
    _name, _gib, _cap, _gen, _watts, _types, _p2p = _line.rsplit("|", 6)
    SKU.append(
        (
            re.compile(_name),
            {
                "vram_gib": int(_gib),
                "compute_cap": _cap,
                "pcie_gen": int(_gen),
                "tdp_w": int(_watts),
                "bf16": "b" in _types,
                "fp8": "f" in _types,
                "p2p": _p2p,
            },
        )
    )
CANON = {}  # any name a field has had -> the name used here
TYPE = {}
for _group in FIELDS:
    for _names, _type in _group:
        _main = _names.split("|")[0].replace("clocks_throttle_reasons", "clocks_event_reasons")
        TYPE[_main] = _type
        for _one in _names.split("|"):
            CANON[_one] = _main
            CANON[_one.replace("clocks_throttle_reasons", "clocks_event_reasons")] = _main
CANON["kmd_version"] = "kmd_version"
CANON["reset_status.reset_required"] = "x.reset_required"
CANON["reset_status.drain_and_reset_recommended"] = "x.drain_and_reset"
CANON["gpu_bus_id"] = "pci.bus_id"
CANON["gpu_name"] = "name"
CANON["gpu_uuid"] = "uuid"


def sku_of(name):
    for pattern, sku in SKU:
        if pattern.search(name or ""):
            return sku
    return None


# ---------------------------------------------------------------------------------------------------------------------------------------
# Text from a box is data: cut, cleaned, never trusted.

# \x1b[4m, and the longer forms; a bell-ended title
ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|\x1b.")


COLOUR = re.compile(r"\x1b\[[0-9;]*[mK]")  # topo -m and dmesg colour their output


def clean(text):
    """ANSI sequences and control characters out, line ends and tabs kept."""
    text = ANSI.sub("", text.replace("\r\n", "\n"))
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "?", text)


def short(text, most=240):
    text = " ".join(clean(str(text)).split())
    return text if len(text) <= most else text[: most - 1] + "…"


NOT_AVAILABLE = (
    "n/a",
    "not supported",
    "not available",
    "requested functionality has been deprecated",
    "not found",
    "",
)


def state(cell):
    """What a cell says: value, na (not available, never 0), denied, lost, error, bad."""
    if cell is None:
        return "missing"
    text = cell.strip()
    bare = text.strip("[]").strip().lower()
    if text.startswith("[") != text.endswith("]"):
        return "bad"
    if bare in NOT_AVAILABLE:
        return "na"
    if bare == "insufficient permissions":
        return "denied"
    if bare in ("gpu is lost", "gpu requires reset"):
        return "lost"
    if bare in ("unknown error", "err!"):
        return "error"
    return "bad" if text.startswith("[") else "value"


# 81559 MiB · 26.562 GB/s · 16x · 0x0000000000000001 · 512 bank(s) · -5 C
NUMBER = re.compile(r"(-?\d{1,16}(?:\.\d{1,6})?)\s*(?:x|%|[a-zA-Z]{1,7}(?:/s)?|bank\(s\))?$")


def number(cell):
    if state(cell) != "value":
        return None
    text = cell.strip()
    if re.match(r"0[xX][0-9a-fA-F]{1,16}$", text):
        return int(text, 16)
    found = NUMBER.match(text)
    return float(found.group(1)) if found else None


def yes(cell):
    """True, False or None. Some drivers print Yes and No, others numbers."""
    if state(cell) != "value":
        return None
    text = cell.strip().lower()
    if text in ("yes", "no"):
        return text == "yes"
    return int(text) > 0 if re.match(r"\d{1,9}$", text) else None


def readable(field, cell):
    kind = TYPE.get(field, "t")
    text = cell.strip()
    if kind == "n" or kind == "x":
        return number(cell) is not None
    if kind == "y":
        return yes(cell) is not None
    if kind == "m":
        return text in ("Enabled", "Disabled")
    if kind == "a":
        return text in ("Active", "Not Active")
    if field == "pci.bus_id":
        return bdf(text) is not None
    if field == "driver_version":
        return re.match(r"\d{2,4}(\.\d{1,4}){1,3}$", text) is not None
    if field == "compute_cap":
        return re.match(r"\d{1,2}\.\d$", text) is not None
    if field == "compute_mode":
        return text in (
            "Default",
            "Prohibited",
            "Exclusive_Process",
            "Exclusive_Thread",
            "E. Process",
            "E. Thread",
        )
    if field == "pstate":
        return re.match(r"P\d{1,2}$", text) is not None
    return len(text) < 120 and "\ufffd" not in text and "?" not in text


BDF = re.compile(r"^(?:([0-9a-fA-F]{1,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.[0-7])?$")


def bdf(text):
    """00000000:3B:00.0, 0000:3b:00.0, 0000:3b:00 and 3b:00.0 are one place."""
    found = BDF.match((text or "").strip())
    if not found:
        return None
    return "%04x:%02x:%02x" % (
        int(found.group(1) or "0", 16),
        int(found.group(2), 16),
        int(found.group(3), 16),
    )


def version(text):
    found = re.match(r"\D{0,3}(\d{1,6}(?:\.\d{1,6}){0,4})", str(text or ""))
    return tuple(int(part) for part in found.group(1).split(".")) if found else ()


# ---------------------------------------------------------------------------------------------------------------------------------------
# Gather: every command once, with a time limit. The nvidia-smi calls one after another; the first that hangs ends the series.


def run(command, seconds):
    """-> {text, rc, seconds, timed_out, cut}. Never waits for a process that can't be killed (state D)."""
    began = time.monotonic()
    out = {"text": "", "rc": None, "seconds": 0.0, "timed_out": False, "cut": False}
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=dict(os.environ, LC_ALL="C", CUDA_DEVICE_ORDER="PCI_BUS_ID"),
        )  # so that torch counts GPUs as nvidia-smi does
    except OSError as error:
        out.update(rc=127 if isinstance(error, FileNotFoundError) else 126, text=str(error))
        return out
    chunks, size, handle = [], 0, process.stdout.fileno()
    while True:
        left = began + seconds - time.monotonic()
        if left <= 0 or not select.select([handle], [], [], left)[0]:
            out["timed_out"] = True
            break
        chunk = os.read(handle, 65536)
        if not chunk:
            break
        chunks.append(chunk)
        size += len(chunk)
        if size > LIMIT and command[0] in LOGS:
            chunks = [worthy(b"".join(chunks))]
            size = len(chunks[0])
        elif size > LIMIT:
            out["cut"] = True
            break
    if not out["timed_out"] and not out["cut"]:
        try:
            out["rc"] = process.wait(max(0.1, began + seconds - time.monotonic()))
        except subprocess.TimeoutExpired:
            out["timed_out"] = True
    if out["timed_out"] or out["cut"]:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except OSError:
            pass
        process.poll()
    process.stdout.close()
    out["text"] = b"".join(chunks)[:LIMIT].decode("utf-8", "replace")
    out["seconds"] = round(time.monotonic() - began, 3)
    return out


def read_text(path, most=65536):
    """The text of a small file, or None. Never blocks on a device."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            return os.read(handle, most).decode("utf-8", "replace")
        finally:
            os.close(handle)
    except OSError:
        return None


def wanted(group, known):
    """The names of a group to ask for: those that this driver knows, newest spelling that it knows; all of them if that is not known."""
    names = []
    for choices, _ in group:
        options = choices.split("|")
        hit = [name for name in options if name in known] if known else options[:1]
        if hit:
            names.append(hit[0])
    return names


def gather_nvidia(record, runner, limit):
    smi = shutil.which("nvidia-smi")
    if not smi and os.path.exists("/usr/lib/wsl/lib/nvidia-smi"):  # WSL keeps it off the PATH
        smi = "/usr/lib/wsl/lib/nvidia-smi"
    if not smi:
        record["exit"]["nvidia-smi.csv"] = {"rc": 127, "timed_out": False}
        return
    began, longest = time.monotonic(), [0.0]

    def ask(name, arguments):
        """One call, or None when the rest of the series is shorter than a call. `short`: it had less than the full time, so no hang."""
        left = SERIES_SECONDS - (time.monotonic() - began)
        if left < max(1.0, longest[0]):
            record["exit"].setdefault(
                name, {"rc": None, "seconds": 0.0, "timed_out": False, "cut": False}
            )["unasked"] = True
            return None
        seconds = min(limit, left) if record["exit"].get("nvidia-smi.csv") else left
        got = runner([smi] + list(arguments), seconds)
        longest[0] = max(longest[0], got["seconds"])
        return dict(got, limit_s=round(seconds, 1), short=seconds < limit)

    def call(name, *arguments, **more):
        got = ask(name, arguments)
        if got is None:
            return "", record["exit"][name]
        text = got.pop("text")
        old = record["exit"].get(name)
        record["files"][name] = record["files"].get(name, "") + text
        if old:
            got.update(
                rc=old["rc"] or got["rc"],
                seconds=round(old["seconds"] + got["seconds"], 3),
                cut=old["cut"] or got["cut"],
                asked=old.get("asked", []),
            )
        if more.get("asked"):
            got["asked"] = got.get("asked", []) + ([more["asked"]] if not got["timed_out"] else [])
        record["exit"][name] = got
        return text, got

    def hung(got):
        return got["timed_out"] and not got.get("short")

    text, got = call("fields.txt", "--help-query-gpu")
    if got["timed_out"]:
        return
    known = set(re.findall(r'"([a-z][\w.]+)"', text)) or set(
        re.findall(r"^([a-z][\w.]+)$", text, re.M)
    )
    if got["rc"] != 0 or len(known) < 10:
        known = set()
    for group in FIELDS:
        names = wanted(group, known)
        for _ in range(8):
            text, got = call(
                "nvidia-smi.csv", "--query-gpu=" + ",".join(names), "--format=csv", asked=names
            )
            # Field "fabric.state" is not a valid field to query.
            refused = re.search(r'Field "([\w.]+)" is not a valid field', text)
            if not refused or refused.group(1) not in names:
                break
            record["files"]["nvidia-smi.csv"] = record["files"]["nvidia-smi.csv"].replace(text, "")
            record["exit"]["nvidia-smi.csv"]["asked"].pop()
            record["exit"]["nvidia-smi.csv"]["rc"] = 0
            names = [name for name in names if name != refused.group(1)]
        if hung(got) or smi_failure(text):
            return
    if (
        known and "remapped_rows.failure" not in known
    ):  # driver 465 tells it only here; a card without rows says so in words
        extra = [
            "gpu_bus_id",
            "remapped_rows.correctable",
            "remapped_rows.uncorrectable",
            "remapped_rows.pending",
            "remapped_rows.failure",
        ]
        got = ask("nvidia-smi.csv", ["--query-remapped-rows=" + ",".join(extra), "--format=csv"])
        if got and got["timed_out"]:
            record["exit"]["nvidia-smi.csv"].update(
                timed_out=True, limit_s=got["limit_s"], short=got["short"]
            )
            if hung(got):
                return
        if got and got["rc"] == 0 and got["text"].startswith("gpu_bus_id"):
            record["files"]["nvidia-smi.csv"] += got["text"]
            record["exit"]["nvidia-smi.csv"]["asked"].append(extra)
    for name, arguments in (
        ("nvidia-smi-list.txt", ["-L"]),
        ("nvidia-smi-q.xml", ["-q", "-x"]),
        ("nvlink.txt", ["nvlink", "-s"]),
        ("topo.txt", ["topo", "-m"]),
        (
            "apps.csv",
            [
                "--query-compute-apps=gpu_bus_id,gpu_uuid,pid,process_name,used_gpu_memory",
                "--format=csv",
            ],
        ),
    ):
        if hung(call(name, *arguments)[1]):
            return


def worthy(raw):
    """A log without its plain lines: its first, the last (which may be half a line), and those that are judged; of too many the end."""
    lines = raw.split(b"\n")
    kept = [
        line
        for line in lines[1:-1]
        if WORTH.search(line.decode("latin-1")) or OLD.search(line.decode("latin-1"))
    ]
    out = b"\n".join(lines[:1] + kept + lines[-1:])
    return out if len(out) <= LIMIT // 2 else out[-(LIMIT // 2) :].split(b"\n", 1)[-1]


def log_start(text):
    """Seconds after boot of the first line that has a time, or None."""
    found = re.search(r"^(?:(?:<\d+>)?\[\s*(\d{1,10})\.\d+\]|\d+,\d+,(\d{1,16})\d{6},)", text, re.M)
    return int(found.group(1) or found.group(2)) if found else None


def with_journal(ring, journal):
    """The journal up to where the ring buffer begins, then the ring buffer."""
    start, kept = log_start(ring), []
    for line in journal.splitlines(True):
        at = log_start(line)
        if start is not None and at is not None and at > start:
            break
        kept.append(line)
    text = "".join(kept) + (ring if start is not None else "")
    return (
        text
        if len(text) <= LIMIT
        else worthy(text.encode("utf-8", "replace")).decode("utf-8", "replace")
    )


def gather_log(record, runner, limit):
    """dmesg, before it the journal where dmesg's beginning is overwritten; else the journal of this boot; else the ring buffer itself."""
    tried, ring = [], None
    for command in (["dmesg"], ["journalctl", "-k", "-b", "--no-pager", "-o", "short-monotonic"]):
        got = runner(command, min(limit, 10.0))
        text = got.pop("text")
        if got["rc"] == 0 and text.strip() and "-- No entries --" not in text:
            text = text if ring is None else with_journal(ring, text)
            record["files"]["dmesg.txt"], record["exit"]["dmesg.txt"] = text, got
            start = log_start(text)
            if ring is not None or OLD.search(text) or (start is not None and start <= 300):
                return
            ring = text
        tried.append(
            "%s: %s"
            % (command[0], "timed out" if got["timed_out"] else short(text or "empty", 120))
        )
    if ring is not None:
        return
    try:
        handle = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        lines = []
        try:
            while len(lines) < 50000:
                try:
                    lines.append(os.read(handle, 8192).decode("utf-8", "replace").splitlines()[0])
                except OSError as error:
                    if (
                        error.errno != errno.EPIPE
                    ):  # EPIPE: the record was overwritten meanwhile, the next one is there
                        break
        finally:
            os.close(handle)
        if lines:
            record["files"]["dmesg.txt"], record["exit"]["dmesg.txt"] = (
                "\n".join(lines) + "\n",
                {"rc": 0, "timed_out": False, "cut": False},
            )
            return
    except (OSError, IndexError) as error:
        tried.append("/dev/kmsg: %s" % error)
    record["files"]["dmesg.txt"] = "\n".join(tried) + "\n"
    record["exit"]["dmesg.txt"] = {"rc": 1, "timed_out": False, "cut": False}


def gather_system(proc):
    release = read_text("/proc/sys/kernel/osrelease") or ""
    where = proc["platform"] = {
        "kernel": release.strip(),
        "wsl": "microsoft" in release.lower() or os.path.exists("/dev/dxg"),
        "container": "",
    }
    if os.path.exists("/.dockerenv"):
        where["container"] = "docker"
    elif os.path.exists("/run/.containerenv"):
        where["container"] = "podman"
    elif os.environ.get("KUBERNETES_SERVICE_HOST"):
        where["container"] = "kubernetes"
    elif re.search(r"docker|kubepods|containerd|lxc", read_text("/proc/1/cgroup") or ""):
        where["container"] = "container"
    else:
        where["container"] = container_by_traces()
    uptime = (read_text("/proc/uptime") or "").split()
    proc["uptime_s"] = float(uptime[0]) if uptime else None
    proc["nvidia_version"] = read_text("/proc/driver/nvidia/version")
    proc["module_version"] = (read_text("/sys/module/nvidia/version") or "").strip() or None
    proc["pci"] = []
    for path in sorted(glob.glob("/sys/bus/pci/devices/*")):
        kind = (read_text(path + "/class") or "").strip()
        vendor = (read_text(path + "/vendor") or "").strip()
        if vendor not in ("0x10de", "0x1002") or not kind.startswith(
            ("0x0300", "0x0302", "0x0380", "0x1200")
        ):
            continue
        device = {"bdf": os.path.basename(path), "vendor": vendor, "class": kind}
        try:
            device["driver"] = os.path.basename(os.readlink(path + "/driver"))
        except OSError:
            device["driver"] = ""
        for name in (
            "current_link_width",
            "max_link_width",
            "current_link_speed",
            "max_link_speed",
        ):
            device[name] = (read_text(path + "/" + name) or "").strip()
        if vendor == "0x1002":
            for name in ("mem_info_vram_total", "mem_info_vram_used"):
                device[name] = (read_text(path + "/" + name) or "").strip()
            device["ras"] = {
                os.path.basename(item): (read_text(item) or "").strip()
                for item in glob.glob(path + "/ras/*_err_count")
            }
        proc["pci"].append(device)
    # NVSwitches are bridges; without nv-fabricmanager no CUDA program starts on a board that has them
    proc["nvswitches"] = sum(
        1
        for path in glob.glob("/sys/bus/pci/devices/*")
        if (read_text(path + "/vendor") or "").strip() == "0x10de"
        and (read_text(path + "/class") or "").startswith("0x0680")
    )
    if proc["nvswitches"]:
        names = [read_text(path) for path in glob.glob("/proc/[0-9]*/comm")]
        proc["fabricmanager"] = (
            any((name or "").startswith("nv-fabricmanage") for name in names)
            if read_text("/proc/1/comm")
            else None
        )
    proc["dev"] = []
    for path in sorted(glob.glob("/dev/nvidia*") + glob.glob("/dev/kfd") + glob.glob("/dev/dxg")):
        try:
            if not stat.S_ISCHR(os.stat(path).st_mode):
                continue
            error = ""
            if path == "/dev/nvidiactl":
                # Opening a node is how a container's device list shows itself: EPERM. The control node wakes no GPU.
                os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
        except OSError as failed:
            error = failed.strerror or str(failed)
        proc["dev"].append({"path": path, "error": error})
    memory = dict(re.findall(r"^(\w+):\s+(\d+) kB", read_text("/proc/meminfo") or "", re.M))
    proc["memory"] = {
        "total_mib": int(memory.get("MemTotal", 0)) // 1024,
        "available_mib": int(memory.get("MemAvailable", 0)) // 1024,
    }
    limits = {}
    for limit, used, files in (
        (
            "/sys/fs/cgroup/memory.max",
            "/sys/fs/cgroup/memory.current",
            "/sys/fs/cgroup/memory.stat",
        ),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
            "/sys/fs/cgroup/memory/memory.stat",
        ),
    ):
        text = (read_text(limit) or "").strip()
        if text.isdigit() and int(text) < 1 << 60:
            cache = re.search(r"^(?:total_)?inactive_file (\d+)", read_text(files) or "", re.M)
            limits = {
                "limit_mib": int(text) >> 20,
                "used_mib": max(
                    0,
                    int((read_text(used) or "0").strip() or 0)
                    - int(cache.group(1) if cache else 0),
                )
                >> 20,
            }
            break
    proc["cgroup"] = limits


def container_by_traces():
    """Pods of containerd and CRI-O, LXC, nspawn: under cgroup v2, and entered over ssh, they have none of the usual marks."""
    told = (read_text("/run/systemd/container") or "").strip()
    made = re.search(
        r"(?:^|\0)(?:container=([^\0]+)|KUBERNETES_SERVICE_HOST=)",
        read_text("/proc/1/environ") or "",
    )
    if told or made:
        return short(told or made.group(1) or "kubernetes", 20)
    # 1023 999 0:84 / / rw,relatime - overlay overlay rw,lowerdir=/var/lib/containerd/…      a host without disks may have such a root too
    root = re.search(
        r"^\S+ \S+ \S+ \S+ / .* - overlay .*", read_text("/proc/self/mountinfo") or "", re.M
    )
    if root and (
        re.search(r"docker|containerd|containers/storage|crio|enroot|kubelet", root.group(0))
        or (read_text("/proc/1/comm") or "").strip() not in ("systemd", "init")
    ):
        return "container"
    return ""


def minor_of(place):
    """(N of /dev/nvidiaN, the driver leaves the card out) for a place as sysfs writes it. N is None where the driver's folder doesn't tell."""
    told = read_text("/proc/driver/nvidia/gpus/%s/information" % place) or ""
    found = re.search(r"Device Minor:\s+(\d{1,4})", told)
    return int(found.group(1)) if found else None, bool(
        re.search(r"(?:Excluded|Blacklisted):\s+Yes", told)
    )


def gather_nodes(proc):
    """Which cards are this process's: Slurm and containers give some of a box. access() asks the device cgroup and wakes no GPU, as open() would."""
    listed = glob.glob("/proc/driver/nvidia/gpus/*/information")
    for card in proc.get("pci", []):
        if card.get("driver") == "nvidia" and listed:
            card["minor"], left_out = minor_of(card["bdf"])
            node = "/dev/nvidia%s" % card["minor"]
            card["node"] = (
                "hidden"
                if card["minor"] is None
                else "excluded"
                if left_out
                else "absent"
                if not os.path.exists(node)
                else "open"
                if os.access(node, os.R_OK | os.W_OK)
                else "denied"
            )


def gather_disks(paths, into):
    for path in paths:
        into[path] = None  # stays None when statvfs never comes back: a dead mount
        try:
            got = os.statvfs(path)
            into[path] = {
                "total_mib": got.f_blocks * got.f_frsize >> 20,
                "free_mib": got.f_bavail * got.f_frsize >> 20,
                "inodes": got.f_files,
                "inodes_free": got.f_favail,
                "read_only": bool(got.f_flag & 1),
                "id": str(os.stat(path).st_dev),
            }
        except OSError as error:
            into[path] = {"error": error.strerror or str(error)}


def gather_holders(proc):
    """Who holds GPU device nodes. Sees only its own pid namespace, and other users' processes only as root."""
    holders, hidden = [], 0
    for path in glob.glob("/proc/[0-9]*"):
        pid, nodes = os.path.basename(path), set()
        try:
            for item in os.listdir(path + "/fd"):
                try:
                    target = os.readlink(path + "/fd/" + item)
                except OSError:
                    continue
                if re.match(r"/dev/(nvidia\d+|kfd|dri/renderD\d+)$", target):
                    nodes.add(target)
        except PermissionError:
            hidden += 1
            continue
        except OSError:
            continue
        if nodes and int(pid) != os.getpid():
            status = read_text(path + "/status") or ""
            found = re.search(r"^State:\s+(\w)", status, re.M)
            name = re.search(r"^Name:\s+(.*)", status, re.M)
            holders.append(
                {
                    "pid": int(pid),
                    "state": found.group(1) if found else "?",
                    "name": short(name.group(1) if name else "?", 40),
                    "devices": sorted(nodes),
                }
            )
    proc["holders"], proc["hidden_processes"] = holders[:200], hidden


TORCH_PROBE = r"""
import json
out = {}
try:
    import torch
    out = {"torch": torch.__version__, "cuda": torch.version.cuda, "hip": getattr(torch.version, "hip", None), "available": torch.cuda.is_available(),
           "archs": torch.cuda.get_arch_list() if torch.cuda.is_available() else [], "devices": []}
    for index in range(torch.cuda.device_count() if out["available"] else 0):
        one = {"index": index, "name": torch.cuda.get_device_name(index)}
        try:
            x = torch.arange(1024, device="cuda:%d" % index, dtype=torch.float32)
            one["ok"] = float((x * 2 + 1).sum().item()) == 1048576.0
        except Exception as error:
            one["ok"], one["error"] = False, str(error)[:300]
        out["devices"].append(one)
    if not out["available"]:
        try:
            torch.zeros(1, device="cuda")
        except Exception as error:
            out["error"] = str(error)[:300]
except Exception as error:
    out["error"] = "%s: %s" % (type(error).__name__, str(error)[:300])
print("GPU_HEALTH " + json.dumps(out))
"""


def gather_torch(proc, runner, python):
    got = runner([python, "-c", TORCH_PROBE], 40.0)
    line = [part for part in got["text"].splitlines() if part.startswith("GPU_HEALTH ")]
    try:
        proc["torch"] = json.loads(line[-1][11:])
    except (IndexError, ValueError):
        proc["torch"] = {
            "error": "timed out" if got["timed_out"] else short(got["text"] or "no answer"),
            "failed": True,
        }
    proc["torch"]["python"] = python


def gather_amd(record, runner, limit):
    tool = shutil.which("amd-smi")
    if not tool:
        return
    for name, arguments in (
        ("amd-metric.json", ["metric", "--json"]),
        ("amd-bad-pages.json", ["bad-pages", "--json"]),
    ):
        got = runner([tool] + arguments, limit)
        record["files"][name] = got.pop("text")
        record["exit"][name] = got
        if got["timed_out"]:
            return


def gather(runner=run, python=None, paths=(), limit=CALL_SECONDS):
    """-> the record: {files, exit, proc, live}. Starts nothing that stays."""
    began = time.monotonic()
    record = {"files": {}, "exit": {"_by": "gpu_health 1"}, "live": True}
    proc, disks = {}, {}
    real = []
    for path in list(paths) or ["/", "/tmp", os.path.expanduser("~"), "."]:
        try:
            path = os.path.abspath(path)  # asks no file system: it may be dead
        except OSError:
            continue  # the current folder was removed
        if path not in real:
            real.append(path)
    jobs = [
        (gather_log, (record, runner, limit)),
        (gather_system, (proc,)),
        (gather_holders, (proc,)),
        (gather_amd, (record, runner, limit)),
    ]
    jobs += [
        (gather_disks, ([path], disks)) for path in ["/dev/shm"] + real
    ]  # a thread each: a dead mount holds its own only
    if python:
        jobs.append((gather_torch, (proc, runner, python)))
    threads, broken = [], []

    def guarded(target, arguments):
        try:
            target(*arguments)
        except Exception as error:  # what one part can't do is said, and the others go on
            broken.append("%s (%s)" % (target.__name__, short(error, 80)))

    for target, arguments in jobs:
        threads.append(
            threading.Thread(
                target=guarded, args=(target, arguments), daemon=True, name=target.__name__
            )
        )
        threads[-1].start()
    gather_nvidia(record, runner, limit)
    until, disks_until = time.monotonic() + (45.0 if python else 12.0), time.monotonic() + 3.0
    for thread in threads:
        thread.join(
            max(0.0, (disks_until if thread.name == "gather_disks" else until) - time.monotonic())
        )
    if not any(
        got.get("timed_out")
        for name, got in record["exit"].items()
        if name not in ("_by", "dmesg.txt")
    ):  # a hung driver may hold its files too
        guarded(gather_nodes, (proc,))  # after nvidia-smi, which makes the nodes
    record["proc"] = dict(
        proc,
        disks=dict(disks),
        unfinished=broken + [thread.name for thread in threads if thread.is_alive()],
    )
    record["seconds"] = round(time.monotonic() - began, 3)
    return record


def save(record, folder):
    os.makedirs(folder, exist_ok=True)
    files = dict(record["files"])
    files["proc.json"] = json.dumps(record.get("proc", {}), indent=1, sort_keys=True) + "\n"
    files["exit.json"] = json.dumps(record["exit"], indent=1, sort_keys=True) + "\n"
    for name, text in files.items():
        with open(
            os.path.join(folder, name), "w", encoding="utf-8", errors="replace", newline=""
        ) as handle:
            handle.write(text)


def kind_of(text):
    """Which output a raw text is, by its content. For captures that others took and named."""
    head = text[:4000]
    first = next((line for line in head.splitlines() if line.strip()), "")
    if "<nvidia_smi_log" in head or (head.lstrip().startswith("<?xml") and "<gpu" in text[:100000]):
        return "nvidia-smi-q.xml"
    if "NVSMI LOG" in head:
        return "q.txt"
    if re.search(r"^\|\s.*\d+MiB\s*/\s*\d+MiB", text[:200000], re.M):
        return "table.txt"
    cells = [cell.strip() for cell in first.split(",")]
    if len(cells) > 2 and any(cell.startswith("retired_pages.address") for cell in cells):
        return "retired.csv"
    if len(cells) > 2 and "pid" in cells:
        return "apps.csv"
    if len(cells) > 2 and sum(cell.split(" [")[0] in CANON for cell in cells) >= 2:
        return "nvidia-smi.csv"
    if re.search(r"^\s+Link \d+:", text, re.M):
        return "nvlink.txt"
    if re.match(r"GPU \d+: ", first):
        return "nvidia-smi-list.txt"
    if re.search(r"^\s*GPU0\s", head, re.M) and re.search(r"^GPU0\s+.*X", head, re.M):
        return "topo.txt"
    if smi_failure(head) or HANDLE.search(head):
        return "nvidia-smi.csv"
    if re.search(r"^(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] ", head, re.M):
        return "lspci.txt"
    if re.search(r"^NVML version\s*:", head, re.M):
        return "version.txt"
    if re.search(
        r"NVRM:|SXid|Xid \(|nvidia-(?:nvswitch|peermem)|\bkernel:|^\d+,\d+,\d+,[^;]*;|^\[\s*\d+\.\d+\]|amdgpu",
        text[:200000],
        re.M,
    ):
        return "dmesg.txt"
    if "[tid " in head:
        return "fabricmanager.txt"
    return "unrecognised"


def load(path):
    """A recorded folder, a folder with any part of one, or a single file -> the record. Raises OSError or ValueError with what to do."""
    record = {"files": {}, "exit": {}, "live": False}
    names = (
        [path] if os.path.isfile(path) else sorted(glob.glob(os.path.join(glob.escape(path), "*")))
    )
    if not names:
        raise ValueError("%s holds no file; expected some of: %s" % (path, ", ".join(FILES)))
    for name in names:
        if not os.path.isfile(name):
            continue
        with open(name, "rb") as handle:
            raw = handle.read(LIMIT + 1)
        text = raw[:LIMIT].decode("utf-8", "replace")
        base = os.path.basename(name)
        known = (
            FILES + EXTRA_FILES + ("amd-metric.json", "amd-bad-pages.json", "table.txt", "q.txt")
        )
        slot = base if base in known else kind_of(text)
        if base not in known and slot == "unrecognised" and os.path.isdir(path):
            continue
        if slot in record["files"]:
            raise ValueError(
                "%s: two files are both %s; a folder holds the outputs of one box" % (path, slot)
            )
        if len(raw) > LIMIT:
            record.setdefault("cut", []).append(slot)
        record["files"][slot] = text
    for name, key in (("exit.json", "exit"), ("proc.json", "proc")):
        if name in record["files"]:
            try:
                value = json.loads(record["files"].pop(name))
                if not isinstance(value, dict):
                    raise ValueError("not an object")
                record[key] = value
            except (ValueError, RecursionError) as error:
                record.setdefault("unreadable", []).append("%s: %s" % (name, short(error, 100)))
                record[key] = {}
    return record


# ---------------------------------------------------------------------------------------------------------------------------------------
# Parse: text in, values out. Nothing here reads a file, a clock or the network.

FAILURES = (
    # Failed to initialize NVML: Driver/library version mismatch
    ("mismatch", re.compile(r"Failed to initialize NVML: Driver/library version mismatch")),
    # NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that ...
    (
        "no_driver",
        re.compile(
            r"couldn.?t communicate with the NVIDIA driver|Failed to initialize NVML: Driver Not Loaded"
        ),
    ),
    # No devices were found
    ("no_devices", re.compile(r"^\s*No devices were found", re.M)),
    # Failed to initialize NVML: Unknown Error (only inside a container)
    ("cgroup", re.compile(r"Failed to initialize NVML: Unknown Error")),
    ("denied", re.compile(r"Failed to initialize NVML: Insufficient Permissions")),
    ("blocked", re.compile(r"GPU access blocked by the operating system")),
    ("library", re.compile(r"couldn.?t find (?:the )?libnvidia-ml")),
    ("nvml", re.compile(r"Failed to initialize NVML: \S.*")),
)
# Unable to determine the device handle for GPU 0000:09:00.0: Unknown Error · ... gpu 0000:01:00.0: GPU is lost. · new drivers: GPU0000:07:00.0
# newer ones: ... for GPU5: 0000:70:00.0: Unknown Error · ... for GPU0: Unknown Error
PLACE = r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?"
HANDLE = re.compile(
    r"Unable to determine the device handle for gpu\s*(?:(%s)|(\d{1,3})(?::\s*(%s))?): .{0,80}"
    % (PLACE, PLACE),
    re.I,
)
# nvidia-smi's exit codes follow nvmlReturn (man page; 18 from gputil#55)
RC_FAILURES = {
    8: "power",
    10: "interrupt",
    9: "no_driver",
    6: "no_devices",
    12: "library",
    18: "mismatch",
    17: "blocked",
    4: "denied",
    15: "lost",
    16: "reset",
}


def lost_handles(text):
    """(place or None, index or None, the line) of each GPU that nvidia-smi has no handle for."""
    return [
        (
            bdf(found.group(1) or found.group(3)),
            int(found.group(2)) if found.group(2) else None,
            short(found.group(0)),
        )
        for found in HANDLE.finditer(clean(text))
    ]


def smi_failure(text):
    """(kind, the line) when the text is nvidia-smi saying that it can't work at all."""
    for kind, pattern in FAILURES:
        found = pattern.search(text)
        if found:
            start, end = text.rfind("\n", 0, found.start()) + 1, text.find("\n", found.end())
            return kind, short(text[start : end if end > 0 else None])
    return None


ECC_PART = re.compile(
    r"ecc\.errors\.(?:un)?corrected\.(?:volatile|aggregate)\.[a-z0-9_.]+$"
)  # dram, sram, l2_cache …: a part may count where the total doesn't
HEADER_CELL = re.compile(r"[a-z][A-Za-z0-9_.]*(?: \[[^\]]{1,12}\])?$")


def parse_csv(text, asked=()):
    """-> ([cells by field], [problems]). Several tables may follow each other. A renamed column is known by its position."""
    rows, problems, header, block, count = [], [], None, -1, 0
    for line in clean(text).splitlines():
        if not line.strip():
            continue
        cells = [cell.strip() for cell in line.split(",")]
        if all(HEADER_CELL.match(cell) for cell in cells) and sum(
            cell.split(" [")[0] in CANON for cell in cells
        ):
            block += 1
            names = [cell.split(" [")[0] for cell in cells]
            was_asked = (
                asked[block]
                if block < len(asked)
                and isinstance(asked[block], list)
                and len(asked[block]) == len(names)
                else names
            )
            header = [
                CANON.get(name) or CANON.get(str(other)) or (name if ECC_PART.match(name) else None)
                for name, other in zip(names, was_asked)
            ]
            if block < len(asked) and isinstance(asked[block], list):
                want = [CANON.get(str(name)) for name in asked[block]]
                if len(want) != len(names) or any(
                    one != other for one, other in zip(header, want) if one and other
                ):
                    problems.append(
                        "%d columns came, %d were asked for, or in another order"
                        % (len(names), len(want))
                    )
            continue
        if header is None or smi_failure(line) or HANDLE.search(line):
            if not (smi_failure(line) or HANDLE.search(line)) and not line.startswith(
                "NVML library version"
            ):
                problems.append("a line before any header: %s" % short(line, 120))
            continue
        count += 1
        if count > 256:
            problems.append("more than 256 rows")
            break
        if len(cells) != len(header):
            problems.append(
                "a row has %d cells, its header %d: %s"
                % (len(cells), len(header), short(line, 120))
            )
            continue
        broken = [cell for cell in cells if cell.startswith("[") != cell.endswith("]")] + [
            line[-40:] for cell in cells[-1:] if not cell
        ]
        if broken:
            problems.append("a cell breaks off: %s" % short(broken[0], 40))
        row = {}
        for name, cell in zip(header, cells):
            if name and (name not in row or state(row[name]) != "value"):
                row[name] = cell
        rows.append(row)
    if block + 1 < len(asked):
        problems.append("%d tables came, %d were asked for" % (block + 1, len(asked)))
    return rows, problems[:5]


# Field -> the places where `-q -x` has it, oldest and newest drivers.
XML_PLACES = {
    "name": ["product_name"],
    "uuid": ["uuid"],
    "persistence_mode": ["persistence_mode"],
    "display_active": ["display_active"],
    "mig.mode.current": ["mig_mode/current_mig"],
    "mig.mode.pending": ["mig_mode/pending_mig"],
    "compute_mode": ["compute_mode"],
    "pcie.link.gen.gpucurrent": ["pci/pci_gpu_link_info/pcie_gen/current_link_gen"],
    "pcie.link.gen.max": ["pci/pci_gpu_link_info/pcie_gen/max_link_gen"],
    "pcie.link.width.current": ["pci/pci_gpu_link_info/link_widths/current_link_width"],
    "pcie.link.width.max": ["pci/pci_gpu_link_info/link_widths/max_link_width"],
    "memory.total": ["fb_memory_usage/total"],
    "memory.used": ["fb_memory_usage/used"],
    "memory.free": ["fb_memory_usage/free"],
    "utilization.gpu": ["utilization/gpu_util"],
    "utilization.memory": ["utilization/memory_util"],
    "fan.speed": ["fan_speed"],
    "ecc.mode.current": ["ecc_mode/current_ecc"],
    "ecc.mode.pending": ["ecc_mode/pending_ecc"],
    "pstate": ["performance_state"],
    "temperature.gpu": ["temperature/gpu_temp"],
    "temperature.memory": ["temperature/memory_temp"],
    "temperature.gpu.tlimit": ["temperature/gpu_temp_tlimit"],
    "x.slow": ["temperature/gpu_temp_slow_threshold"],
    "x.memory_max": ["temperature/gpu_temp_max_mem_threshold"],
    "x.gpu_max": ["temperature/gpu_temp_max_gpu_threshold"],
    "x.replays": ["pci/replay_counter"],
    "x.vbios": ["vbios_version"],
    "x.app_clock": ["applications_clocks/graphics_clock"],
    "x.app_default": ["default_applications_clocks/graphics_clock"],
    "x.fabric_bandwidth": ["fabric/health/bandwidth"],
    "x.fabric_route": ["fabric/health/route_unhealthy"],
    "x.minor": ["minor_number"],
    "x.fabric_recovery": ["fabric/health/route_recovery_in_progress"],
    "x.fabric_access": ["fabric/health/access_timeout_recovery"],
    "power.draw": [
        "gpu_power_readings/average_power_draw",
        "gpu_power_readings/instant_power_draw",
        "gpu_power_readings/power_draw",
        "power_readings/power_draw",
    ],
    "power.limit": ["gpu_power_readings/current_power_limit", "power_readings/power_limit"],
    "power.default_limit": [
        "gpu_power_readings/default_power_limit",
        "power_readings/default_power_limit",
    ],
    "clocks.current.sm": ["clocks/sm_clock"],
    "clocks.max.sm": ["max_clocks/sm_clock"],
    "gpu_recovery_action": ["gpu_recovery_action"],
    "x.reset_required": ["gpu_reset_status/reset_required"],
    "x.drain_and_reset": ["gpu_reset_status/drain_and_reset_recommended"],
    "remapped_rows.correctable": ["remapped_rows/remapped_row_corr"],
    "remapped_rows.uncorrectable": ["remapped_rows/remapped_row_unc"],
    "remapped_rows.pending": ["remapped_rows/remapped_row_pending", "remapped_rows"],
    "remapped_rows.failure": ["remapped_rows/remapped_row_failure", "remapped_rows"],
    "remapped_rows.histogram.low": [
        "remapped_rows/row_remapper_histogram/row_remapper_histogram_low"
    ],
    "remapped_rows.histogram.none": [
        "remapped_rows/row_remapper_histogram/row_remapper_histogram_none"
    ],
    "retired_pages.single_bit_ecc.count": [
        "retired_pages/multiple_single_bit_retirement/retired_count"
    ],
    "retired_pages.double_bit.count": ["retired_pages/double_bit_retirement/retired_count"],
    "retired_pages.pending": ["retired_pages/pending_retirement"],
    "ecc.errors.uncorrected.aggregate.sram.thresholdExceeded": [
        "ecc_errors/aggregate/sram_threshold_exceeded"
    ],
    "x.channel_repair": ["ecc_errors/channel_repair_pending"],
    "x.tpc_repair": ["ecc_errors/tpc_repair_pending"],
    "x.unrepairable": ["ecc_errors/unrepairable_memory"],
    "x.virtualization": ["gpu_virtualization_mode/virtualization_mode"],
    "fabric.state": ["fabric/state"],
    "fabric.status": ["fabric/status"],
    "fabric.health.summary": ["fabric/health/summary"],
}
for _reason in (
    "hw_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "sw_thermal_slowdown",
    "sw_power_cap",
    "applications_clocks_setting",
):
    XML_PLACES["clocks_event_reasons." + _reason] = [
        "clocks_event_reasons/clocks_event_reason_" + _reason,
        "clocks_throttle_reasons/clocks_throttle_reason_" + _reason,
    ]
# Counts that a sum gives: the field, its branch, the leaves.
ECC_SUMS = (
    ("ecc.errors.uncorrected.volatile.total", "volatile", "uncorrectable"),
    ("ecc.errors.uncorrected.aggregate.total", "aggregate", "uncorrectable"),
    ("ecc.errors.corrected.volatile.total", "volatile", "_correctable"),
    ("ecc.errors.corrected.aggregate.total", "aggregate", "_correctable"),
)
TYPE.update(
    {
        "x.minor": "n",
        "x.slow": "n",
        "x.memory_max": "n",
        "x.gpu_max": "n",
        "x.replays": "n",
        "x.app_clock": "n",
        "x.app_default": "n",
        "x.reset_required": "y",
        "x.drain_and_reset": "y",
        "x.channel_repair": "y",
        "x.tpc_repair": "y",
        "x.unrepairable": "y",
    }
)


def from_tree(places, find, leaves):
    """Cells from a tree, by a function that gives the text of a path, and one that gives the leaves of a branch."""
    cells = {}
    for field, paths in places.items():
        for path in paths:
            text = find(path)
            if text is not None:
                cells[field] = text.strip()
                if state(cells[field]) == "value":
                    break
    for field, branch, word in ECC_SUMS:
        found = [text for name, text in leaves("ecc_errors/" + branch) if word in "_" + name]
        counts = [number(text) for text in found]
        if found:
            cells[field] = (
                "%d" % sum(c for c in counts if c is not None)
                if any(c is not None for c in counts)
                else found[0].strip()
            )
            odd = [
                text
                for text, count in zip(found, counts)
                if count is None and state(text) not in ("na",)
            ]
            if odd:
                cells[field] = odd[0].strip()
    return cells


def parse_xml(text):
    """-> ([cells], [processes], [problems]); processes is None where the text has no such table."""
    import xml.etree.ElementTree as tree  # here, because the watch has no use for its memory

    text = clean(text)
    start = text.find("<?xml") if "<?xml" in text else text.find("<nvidia_smi_log")
    if start < 0 or "<!ENTITY" in text:
        return [], None, ["nvidia-smi -q -x: no XML, or XML that defines entities"]
    try:
        root = tree.fromstring(text[start:].strip())
    except (tree.ParseError, ValueError, RecursionError) as error:
        return [], None, ["nvidia-smi -q -x is damaged: %s" % short(error, 100)]
    gpus, processes, problems = [], None, []
    for item in root.findall("gpu")[:256]:

        def leaves(path):
            branch = item.find(path)
            return [(leaf.tag, leaf.text or "") for leaf in branch] if branch is not None else []

        def find(path):
            leaf = item.find(path)
            return (leaf.text or "") if leaf is not None and len(leaf) == 0 else None

        cells = from_tree(XML_PLACES, find, leaves)
        cells["pci.bus_id"] = item.get("id") or item.findtext("pci/pci_bus_id") or ""
        driver = root.findtext("driver_version")
        if driver:
            cells["driver_version"] = driver.strip()
        gpus.append(cells)
        table = item.find("processes")
        if table is not None:
            processes = processes or []
            for one in table.findall("process_info")[:500]:
                processes.append(
                    {
                        "bdf": bdf(cells["pci.bus_id"]),
                        "pid": one.findtext("pid") or "",
                        "name": one.findtext("process_name") or "",
                        "screen": (one.findtext("type") or "") == "G",
                        "mib": number(one.findtext("used_memory") or "N/A"),
                    }
                )
    for item in root.iter():
        if (item.tail or "").strip() or (len(item) and (item.text or "").strip()):
            problems.append(
                "nvidia-smi -q -x: words between its parts: %s"
                % short((item.tail or "").strip() or item.text, 80)
            )
            break
    attached = number(root.findtext("attached_gpus") or "N/A")
    if attached is not None and attached != len(gpus):
        problems.append(
            "nvidia-smi -q -x says %d attached GPUs and describes %d" % (attached, len(gpus))
        )
    if not gpus and not attached == 0:
        problems.append("nvidia-smi -q -x describes no GPU")
    return gpus, processes, problems


# The words of `-q` for the same places. What is not here keeps its own words, small, with underscores: "MIG Mode" is mig_mode.
Q_WORDS = {
    "mig_mode/current": "mig_mode/current_mig",
    "mig_mode/pending": "mig_mode/pending_mig",
    "gpu_uuid": "uuid",
    "ecc_mode/current": "ecc_mode/current_ecc",
    "ecc_mode/pending": "ecc_mode/pending_ecc",
    "temperature/gpu_current_temp": "temperature/gpu_temp",
    "temperature/gpu_t.limit_temp": "temperature/gpu_temp_tlimit",
    "temperature/memory_current_temp": "temperature/memory_temp",
    "temperature/gpu_slowdown_temp": "temperature/gpu_temp_slow_threshold",
    "temperature/gpu_max_operating_temp": "temperature/gpu_temp_max_gpu_threshold",
    "pci/replays_since_reset": "pci/replay_counter",
    "applications_clocks/graphics": "applications_clocks/graphics_clock",
    "default_applications_clocks/graphics": "default_applications_clocks/graphics_clock",
    "pci/gpu_link_info/pcie_generation/current": "pci/pci_gpu_link_info/pcie_gen/current_link_gen",
    "pci/gpu_link_info/pcie_generation/max": "pci/pci_gpu_link_info/pcie_gen/max_link_gen",
    "pci/gpu_link_info/link_width/current": "pci/pci_gpu_link_info/link_widths/current_link_width",
    "pci/gpu_link_info/link_width/max": "pci/pci_gpu_link_info/link_widths/max_link_width",
    "utilization/gpu": "utilization/gpu_util",
    "utilization/memory": "utilization/memory_util",
    "clocks/sm": "clocks/sm_clock",
    "max_clocks/sm": "max_clocks/sm_clock",
    "gpu_power_readings/instantaneous_power_draw": "gpu_power_readings/instant_power_draw",
    "remapped_rows/correctable_error": "remapped_rows/remapped_row_corr",
    "remapped_rows/uncorrectable_error": "remapped_rows/remapped_row_unc",
    "remapped_rows/pending": "remapped_rows/remapped_row_pending",
    "remapped_rows/remapping_failure_occurred": "remapped_rows/remapped_row_failure",
    "remapped_rows/bank_remap_availability_histogram/low": "remapped_rows/row_remapper_histogram/row_remapper_histogram_low",
    "remapped_rows/bank_remap_availability_histogram/none": "remapped_rows/row_remapper_histogram/row_remapper_histogram_none",
    "retired_pages/single_bit_ecc": "retired_pages/multiple_single_bit_retirement/retired_count",
    "retired_pages/double_bit_ecc": "retired_pages/double_bit_retirement/retired_count",
    "retired_pages/pending_page_blacklist": "retired_pages/pending_retirement",
    "gpu_reset_status/reset_required": "gpu_reset_status/reset_required",
    "gpu_reset_status/drain_and_reset_recommended": "gpu_reset_status/drain_and_reset_recommended",
}


def parse_q(text):
    """`nvidia-smi -q` -> ([cells], [problems]). Depth is by indentation."""
    gpus, problems, driver, tree, stack = [], [], "", None, []
    trees = []
    for line in clean(text).splitlines():
        found = re.match(r"Driver Version\s+: (\S+)", line)
        if found:
            driver = found.group(1)
        found = re.match(r"GPU ([0-9A-Fa-f:.]+)\s*$", line)
        if found:
            tree, stack = {"": found.group(1)}, []
            trees.append(tree)
            continue
        found = re.match(r"( +)([^:]{1,60}?)\s*(?:: (.*))?$", line)
        if tree is None or not found:
            continue
        depth, label, value = (
            len(found.group(1)),
            found.group(2).strip().lower().replace(" ", "_").replace("-", ""),
            found.group(3),
        )
        while stack and stack[-1][0] >= depth:
            stack.pop()
        path = "/".join([part for _, part in stack] + [label])
        for reason, field in (
            ("clocks_event_reasons/", "clocks_event_reason_"),
            ("clocks_throttle_reasons/", "clocks_throttle_reason_"),
        ):
            if path.startswith(reason):
                path = reason + field + label
        if value is None:
            stack.append((depth, label))
        else:
            tree.setdefault(Q_WORDS.get(path, path), value.strip())
            if label in ("hw_slowdown",):
                stack.append((depth, label))
    for tree in trees[:256]:

        def leaves(path):
            return [
                (name.rsplit("/", 1)[1], value)
                for name, value in tree.items()
                if name.rsplit("/", 1)[0] == path
            ]

        cells = from_tree(XML_PLACES, tree.get, leaves)
        cells["pci.bus_id"] = tree[""]
        if driver:
            cells["driver_version"] = driver
        gpus.append(cells)
    if text.count("\n    Processes") < len(gpus):
        problems.append("nvidia-smi -q breaks off: the processes come last, and aren't there")
    attached = re.search(r"^Attached GPUs\s+: (\d+)", text, re.M)
    if not gpus or (attached and int(attached.group(1)) != len(gpus)):
        problems.append(
            "nvidia-smi -q describes %d GPUs%s"
            % (len(gpus), ", and says %s" % attached.group(1) if attached else "")
        )
    return gpus, problems


# |   0  NVIDIA H100 80GB HBM3          On  |   00000000:00:09.0 Off |                    0 |
ROW_1 = re.compile(
    r"^\|\s+(\d+)\s+(\S.*?)\s+(On|Off|N/A)\s+\|\s+([0-9A-Fa-f:.]+)\s+(On|Off|N/A)\s+\|\s+(\S+)\s+\|"
)
# | N/A   41C    P0             69W /  700W |       0MiB /  81559MiB |      0%      Default |
ROW_2 = re.compile(
    r"^\|\s*(\S+?%?)\s+(\S+)\s+(P\d+|N/A|ERR!|Unknown)\s+(\S+)\s*/\s*(\S+)\s*\|\s+(\S+)\s*/\s*(\S+)\s*\|\s+(\S+)\s+(\S.*?)\s*\|"
)


def parse_table(text):
    """The default view -> [cells]. It cuts names and lacks links and remapped rows, so it can condemn a box, never clear it."""
    gpus, driver = [], re.search(r"Driver Version: ([\d.]+)", text)
    for line in clean(text).splitlines():
        one, two = ROW_1.match(line), ROW_2.match(line)
        if one:
            index, name, _, place, _, ecc = one.groups()
            cells = {"index": index, "pci.bus_id": place, "x.table": "1", "x.ecc_column": ecc}
            if "..." not in name:
                cells["name"] = name
            if driver:
                cells["driver_version"] = driver.group(1)
            if re.match(r"\d+$", ecc):
                cells["ecc.errors.uncorrected.volatile.total"] = ecc
            gpus.append(cells)
        elif re.match(r"^\|\s+\|\s+\|\s+(Enabled|Disabled|N/A)\*?\s+\|", line) and gpus:
            gpus[-1].setdefault("mig.mode.current", line.rstrip("|\n ").split()[-1].rstrip("*"))
        elif two and gpus:
            fan, temperature, _, draw, cap, used, total, busy, _ = two.groups()
            gpus[-1].update(
                {
                    "fan.speed": fan,
                    "temperature.gpu": temperature,
                    "power.draw": draw,
                    "power.limit": cap,
                    "memory.used": used,
                    "memory.total": total,
                    "utilization.gpu": busy,
                }
            )
    return gpus


def parse_list(text):
    """nvidia-smi -L -> ([{index, name, uuid, migs}], [problems])."""
    out, problems = [], []
    for line in clean(text).splitlines():
        gpu = re.match(r"GPU (\d{1,3}): (.{1,100}?) \(UUID: ([^)]{1,80})\)\s*$", line)
        mig = re.match(r"\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: ([^)]{1,80})\)\s*$", line)
        if gpu:
            out.append(
                {"index": int(gpu.group(1)), "name": gpu.group(2), "uuid": gpu.group(3), "migs": []}
            )
        elif mig and out:
            out[-1]["migs"].append(mig.group(1))
        elif (
            line.strip()
            and not smi_failure(line)
            and not HANDLE.search(line)
            and not line.startswith("NVML library version")
        ):
            problems.append("nvidia-smi -L: can't read the line: %s" % short(line, 100))
    return out[:256], problems[:3]


def parse_nvlink(text):
    """nvidia-smi nvlink -s -> ({index: {link: GB/s, None where inactive}}, {index: name}, [problems])."""
    out, names, problems, here = {}, {}, [], None
    for line in clean(text).splitlines():
        gpu = re.match(r"GPU (\d{1,3}): (.{0,100}?)(?: \(UUID: .*)?$", line)
        link = re.match(r"\s+Link (\d{1,3}): (?:([\d.]{1,10}) GB/s|(<inactive>)|(.*))\s*$", line)
        if gpu:
            here = out.setdefault(int(gpu.group(1)), {})
            names[int(gpu.group(1))] = gpu.group(2)
        elif link and here is not None and (link.group(2) or link.group(3)):
            here[int(link.group(1))] = number(link.group(2)) if link.group(2) else None
        elif line.strip() and not re.search(
            r"(?i)not (?:have or )?support|no nvlink|unable to retrieve|NVML", line
        ):
            problems.append("nvlink -s: can't read the line: %s" % short(line, 100))
    return out, names, problems[:3]


def parse_topo(text):
    """nvidia-smi topo -m -> ({(i, j): cell}, [problems])."""
    pairs, problems, heads = {}, [], None
    for line in clean(text).splitlines():
        if heads is None:
            if "GPU0" in line:
                heads = re.findall(r"GPU(\d{1,3})(?!\S)", line)
            continue
        row = re.match(r"GPU(\d{1,3})\s+(.*)", line)
        if row:
            cells = row.group(2).split()[: len(heads)]
            strange = [
                cell for cell in cells if not re.match(r"(X|NV\d{1,3}|PIX|PXB|PHB|NODE|SYS)$", cell)
            ]
            strange += [
                cell for head, cell in zip(heads, cells) if (cell == "X") != (head == row.group(1))
            ]
            if strange:
                problems.append(
                    "topo -m: GPU%s has the cell %s" % (row.group(1), short(strange[0], 20))
                )
                continue
            if len(cells) < len(heads):
                problems.append(
                    "topo -m: GPU%s has %d of %d cells" % (row.group(1), len(cells), len(heads))
                )
            pairs.update(((int(row.group(1)), int(head)), cell) for head, cell in zip(heads, cells))
    if heads and {int(head) for head in heads} != {one for one, _ in pairs}:
        problems.append("topo -m: rows and columns name other GPUs")
    return pairs, problems[:3]


APP_FIELDS = (
    "timestamp",
    "gpu_name",
    "gpu_bus_id",
    "gpu_serial",
    "gpu_uuid",
    "pid",
    "process_name",
    "name",
    "used_gpu_memory",
    "used_memory",
)


def parse_apps(text):
    """--query-compute-apps -> ([{bdf, pid, name, mib}], [problems])."""
    out, problems, header = [], [], None
    for line in clean(text).splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if "pid" in cells and header is None:
            header = [cell.split(" [")[0] for cell in cells]
            strange = [cell for cell in header if cell not in APP_FIELDS]
            if strange or not {"gpu_bus_id", "gpu_uuid"} & set(header):
                problems.append("compute apps: header %s" % short(line, 100))
        elif header and line.strip():
            if len(cells) < len(header):
                problems.append(
                    "compute apps: a row has %d cells, its header %d" % (len(cells), len(header))
                )
                continue
            extra, at = (
                len(cells) - len(header),
                header.index("process_name") if "process_name" in header else len(header) - 1,
            )
            cells[at : at + extra + 1] = [
                ", ".join(cells[at : at + extra + 1])
            ]  # a name may hold commas
            row = dict(zip(header, cells))
            if not re.match(r"\d{1,9}$|\[?N/A\]?$", row.get("pid", "")):
                problems.append("compute apps: pid %s" % short(row.get("pid", ""), 40))
            out.append(
                {
                    "bdf": bdf(row.get("gpu_bus_id", "")),
                    "uuid": row.get("gpu_uuid", ""),
                    "pid": row.get("pid", ""),
                    "name": row.get("process_name", ""),
                    "mib": number(row.get("used_gpu_memory", "N/A")),
                }
            )
        elif line.strip() and not smi_failure(line):
            problems.append("compute apps: can't read the line: %s" % short(line, 100))
    if header is None and not problems:
        problems.append("compute apps: no header")
    return out[:2000], problems[:3]


# NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
# NVRM: Xid (0000:03:00): 14, Channel 00000001      NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: ...
XID_LINE = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)([^)]*)\): (\d{1,6})(?:[,\s](.*))?$")
# nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)
SXID_LINE = re.compile(r"SXid \(PCI:([0-9a-fA-F:.]+)\): (\d{1,6})(?:[,\s]+(.*))?$")
# [Feb 27 2025 15:10:02] [ERROR] [tid 12727] detected NVSwitch non-fatal error 12028 on fid 0 on NVSwitch pci bus id 00000000:86:00.0 ...
FM_LINE = re.compile(
    r"detected NVSwitch (non-fatal|fatal) error (\d{1,6}) .{0,60}?pci bus id ([0-9a-fA-F:.]+)"
)
OLD = re.compile(
    r"Linux version \d+\.\d+|NVRM: loading NVIDIA UNIX|nvidia: module unloaded|NVRM: .{0,60}unloading"
)  # what is before is over
# pci core, after a reset of one device: "nvidia 0000:3b:00.0: reset done"
# [   12.345678] NVRM: …      Jan 18 11:38:05 host kernel: …      6,3973,227996636,-;…      2026-11-20T16:31:06 …
LOG_LIKE = re.compile(
    r"^\s*(?:<\d+>)?\[ *(?:\d+\.\d+\]|[A-Z]\w{2} )|^--|^\d+,\d+,\d+,|^[A-Z]\w{2}\.? +\d+ \d\d:\d\d|^\d{4}-\d\d-\d\d|NVRM:|SXid \(",
    re.M,
)
RESET_DONE = re.compile(r"\b([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2})\.[0-7]: reset done")
LOG_RULES = (  # (kind, level, pattern; a group is the device)
    # NVRM: GPU at 0000:01:00.0 has fallen off the bus.      NVRM: GPU 0000:18:00.0: GPU has fallen off the bus.
    (
        "xid 79",
        "fatal",
        re.compile(
            r"NVRM: .*GPU (?:at )?([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.?[0-7]?).{0,80}fallen off the bus",
            re.I,
        ),
    ),
    # NVRM: GPU 0000:98:00.0: RmInitAdapter failed! (0x62:0x65:1792)
    (
        "init",
        "fatal",
        re.compile(r"NVRM: GPU ([0-9a-f:.]+?): (?:RmInitAdapter|rm_init_adapter) failed", re.I),
    ),
    (
        "init",
        "fatal",
        re.compile(
            r"NVRM: (?:RmInitAdapter: Cannot initialize GSP|.*failed to wait for GFW_BOOT)()"
        ),
    ),
    # NVRM: API mismatch: the client has the version 535.171.04, but
    ("mismatch", "fatal", re.compile(r"NVRM: API mismatch()")),
    # NVRM: _kgspRpcRecvPoll: … Timeout after 6s of waiting for RPC response from GPU1 GSP! (the Xid line itself is read above)
    ("gsp", "fatal", re.compile(r"NVRM: .*(?:[Tt]imeout|timed out).{0,60}\bGSP\d?\b()")),
    ("reset required", "fatal", re.compile(r"NV_ERR_RESET_REQUIRED()")),
    # NVRM: The NVIDIA probe routine was not called for 3 device(s).
    (
        "probe",
        "fatal",
        re.compile(
            r"NVRM: (?:No NVIDIA graphics adapter probed|The NVIDIA probe routine was not called)()"
        ),
    ),
    # pcieport 0000:00:01.0: AER: Uncorrected (Fatal) error received: 0000:01:00.0      newer: … Uncorrectable (Fatal) error message received from …
    (
        "aer",
        "degraded",
        re.compile(
            r"AER: .{0,40}Uncorrect(?:ed|able).{0,60}?received(?: from|:):? ([0-9a-f:.]+)", re.I
        ),
    ),
    (
        "aer",
        "degraded",
        re.compile(r"nvidia ([0-9a-f:.]+): (?:AER: )?PCIe Bus Error: severity=Uncorrect", re.I),
    ),
    # NVRM: knvlinkDiscoverPostRxDetLinks_GH100: Getting peer2's postRxDetLinkMask failed!      gpud calls it unhealthy
    (
        "nvlink mask",
        "degraded",
        re.compile(
            r"NVRM: knvlink(?:Update|Discover)PostRxDet\w+: .{0,40}(?:Failed to update|postRxDetLinkMask failed)()"
        ),
    ),
    # detected number of NVSwitches don't match with any supported system topology, aborting fabric manager      its own log
    (
        "fabric topology",
        "fatal",
        re.compile(
            r"detected number of NVSwitches don't match with any supported system topology()"
        ),
    ),
    (
        "fabric team",
        "degraded",
        re.compile(r"failed to find the GPU handle \d+ in the multicast team()"),
    ),
    # nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing
    ("peermem", "warn", re.compile(r"nvidia[-_]peermem.{0,60}ERROR detected invalid context()")),
    # pt_main_thread[2536443]: segfault at 7f797fe00000 ip 00007f7c7ac69996 sp 00007f7c12fd7c30 error 4 in libnccl.so.2[7f7c7ac00000+d3d3000]
    ("nccl crash", "warn", re.compile(r"segfault at .{0,160} in libnccl\.so()")),
    # EXT4-fs (dm-0): Remounting filesystem read-only · I/O error, dev nvme0n1, sector 8 · nvme nvme4: I/O tag 22 … timeout, reset controller
    (
        "disk",
        "degraded",
        re.compile(
            r"Remounting filesystem read-only()|md/raid\S{0,20}: Disk failure on|\bnvme\S{1,20}: no available path - failing I/O"
            r"|nvme nvme\d+: (?:Disabling device after reset failure|I/O .{0,80}timeout, reset controller)"
            r"|I/O error while writing superblock|Buffer I/O error on dev (?:nvme|sd|vd|xvd|dm-|md)"
            r"|\bI/O error, dev (?:nvme|sd|vd|xvd|dm-|md)"
        ),
    ),
    ("disk end", "warn", re.compile(r"attempt to access beyond end of device()")),
    (
        "nfs",
        "degraded",
        re.compile(
            r"nfs: server \S{1,80} not responding()|nfs4_reclaim_open_state: Lock reclaim failed"
        ),
    ),
    # Out of memory: Killed process 4100 (python3) …      Memory cgroup out of memory: Killed process …
    ("killed", "warn", re.compile(r"[Oo]ut of memory: Killed process()")),
    # watchdog: BUG: soft lockup - CPU#18 stuck for 27s! [python3:2254956] · INFO: task python3:77 blocked for more than 120 seconds.
    (
        "stuck",
        "warn",
        re.compile(
            r"soft lockup - CPU#\d+ stuck()|task \S{1,80}:\d+.{0,20} blocked for more than \d+ seconds"
        ),
    ),
    ("files", "warn", re.compile(r"VFS: file-max limit \d+ reached()")),
    (
        "network card",
        "warn",
        re.compile(
            r"Detected insufficient power on the PCIe slot()|Port module event.{0,80}High Temperature"
        ),
    ),
    # mlx5_core 0000:d2:00.0: mlx5_cmd_out_err:838:(pid 268269): ACCESS_REG(0x805) op_mod(0x1) failed      usual in virtual machines
    ("network register", "warn", re.compile(r"mlx5_cmd_out_err.{0,40}ACCESS_REG.{0,40}failed()")),
    # In a log of this boot only where the machine went on; journals of netconsole and pstore hold it too.
    ("panic", "degraded", re.compile(r"Kernel panic - not syncing()")),
    # amdgpu 0000:03:00.0: amdgpu: GPU reset begin!      from general knowledge (facts, section 8)
    ("amd reset", "degraded", re.compile(r"amdgpu ([0-9a-f:.]+): .{0,40}GPU reset begin")),
    (
        "amd ecc",
        "fatal",
        re.compile(r"amdgpu ([0-9a-f:.]+): .{0,60}uncorrectable hardware errors? detected"),
    ),
    ("amd ring", "degraded", re.compile(r"amdgpu ([0-9a-f:.]+): .{0,60}ring \S+ timeout")),
)
LOG_ACTION = {
    "gsp": "reset the GPU or reboot the box; if it comes back, " + BACK,
    "init": "reboot the box; if it comes back, hand the box back and ask for a refund",
    "mismatch": "stop all GPU programs and reload the nvidia modules, or reboot the box",
    "reset required": "reset the GPU or reboot the box",
    "probe": "another driver (nouveau, vfio) holds the card: unbind it, or hand the box back",
    "aer": "finish, then reboot; if it comes back, hand the box back: slot, riser or card",
    "nvlink mask": "reboot the box; if it comes back, " + BACK,
    "fabric topology": "a switch is missing: reboot the box; if it comes back, " + BACK,
    "fabric team": "restart the job; if it comes back, reboot the box",
    "peermem": "the network card's access to GPU memory was cut off: watch NCCL, restart the job when it hangs",
    "nccl crash": "a job crashed inside NCCL: read its own log, and update NCCL if it comes back",
    "disk": "look whether the job's paths are on it; save what matters elsewhere, and change the box",
    "disk end": "look at the line before it for the device; a loop device is harmless",
    "nfs": "wait for the server, or move the job's paths off it",
    "killed": "the box or the container ran out of memory: fewer workers, or a larger limit",
    "stuck": "look at the disks and mounts that this process used; reboot when it comes back",
    "files": "raise fs.file-max, or open fewer files",
    "network card": "ask the provider: power or cooling of the network card",
    "network register": "nothing to do where NCCL works; a network port is then not this machine's to read",
    "panic": "the machine stopped: look what stands before it; if it comes back, " + BACK,
    "amd reset": "restart the job; if it comes back, reboot the box",
    "amd ecc": "reboot the box, or hand it back",
    "amd ring": "restart the job; if it comes back, reboot the box",
}


# Faults of the host, not of the driver: only a boot ends them, and a container may see those of its neighbours.
HOST_KINDS = (
    "disk",
    "disk end",
    "nfs",
    "killed",
    "stuck",
    "files",
    "network card",
    "network register",
    "panic",
    "nccl crash",
)
WORTH = re.compile(
    r"NVRM|SXid|AER|amdgpu|reset done|NVSwitch|peermem|libnccl|I/O|read-only|Disk failure|reset failure|beyond end|nfs|Killed process"
    r"|lockup|blocked for more|file-max|ACCESS_REG|Kernel panic|insufficient power|High Temperature|multicast team"
)
NFS_OK = re.compile(r"nfs: server (\S{1,80}) OK")


def parse_log(text):
    """Kernel log -> {events, problems, first (seconds after boot of the first line, or None), boot (holds its start)}.
    An event: {kind, code, bdf, level, line, old}. `old`: before the last boot, load of the driver, or reset of that GPU."""
    events, problems, first, boot, pending = [], [], None, False, None
    lines = clean(text).splitlines()
    for line in lines[-200000:]:
        if first is None:
            stamp = re.match(r"(?:<\d+>)?\[\s*(\d{1,10})\.\d+\]", line) or re.match(
                r"\d+,\d+,(\d{1,16})\d{6},", line
            )
            first = int(stamp.group(1)) if stamp else None
        if OLD.search(line):
            boot = True
            for event in events:
                event["old"] = (
                    event["old"] or event["kind"] not in HOST_KINDS or "Linux version" in line
                )
            continue
        if not WORTH.search(line):
            continue
        back = NFS_OK.search(line)
        if back:
            for event in events:
                event["old"] = event["old"] or (
                    event["kind"] == "nfs" and "server %s not" % back.group(1) in event["line"]
                )
            continue
        done = RESET_DONE.search(line)
        if done:
            for event in events:
                event["old"] = event["old"] or event["bdf"] == bdf(done.group(1))
            continue
        event = log_event(line)
        # NVRM: The NVIDIA GPU 0000:b3:00.0 / NVRM: (PCI ID: ...) installed in this system has / NVRM: fallen off the bus and is not responding
        split = re.search(r"NVRM: The NVIDIA GPU ([0-9a-f:.]+)", line, re.I)
        if split:
            pending = [bdf(split.group(1)), line, 3]
        elif pending:
            pending[1] += " " + line.split("NVRM:")[-1].strip()
            pending[2] -= 1
            if "fallen off the bus" in line:
                event = {
                    "kind": "xid",
                    "code": 79,
                    "bdf": pending[0],
                    "level": "fatal",
                    "line": pending[1],
                    "old": False,
                }
            if "fallen off the bus" in line or pending[2] <= 0:
                pending = None
        if event:
            if (
                event["kind"] == "xid" and event["code"] == 154 and event["level"] == "ok"
            ):  # back to None: the GPU was reset since
                for other in events:
                    other["old"] = other["old"] or other["bdf"] == event["bdf"]
            events.append(event)
        elif re.search(r"\bS?Xid\b", line) and "Xid (" in line:
            problems.append("a line names an Xid and can't be read: %s" % short(line, 120))
    return {
        "events": events,
        "problems": problems[:3],
        "first": first,
        "boot": boot,
        "looks": bool(LOG_LIKE.search(text)),
        "odd": sum(
            1
            for line in lines
            if line.strip() and not line.startswith((" ", "\t")) and not LOG_LIKE.search(line)
        ),
        "lines": len(lines),
    }


def recovery_level(text):
    """Level for a recovery action's words. None, Reset and Drain forms: NVML enum; other words are no good news (facts, section 1)."""
    words = re.sub(r"[^a-z0-9]+", " ", text.lower()).strip()
    if words in ("none", "0"):
        return "ok"
    return (
        "degraded"
        if "drain" in words
        else "fatal"
        if re.search(r"reset|reboot", words)
        else "degraded"
    )


def log_event(line):
    found = XID_LINE.search(line)
    if found:
        code, text = int(found.group(3)), found.group(4) or ""
        level = XID[code][0] if code in XID else "unknown"
        if 144 <= code <= 149:
            word = re.search(r"\b(Fatal|Nonfatal|Non-fatal)\b", text)
            level = "fatal" if word and word.group(1) == "Fatal" else level
        elif code in (94, 95):
            level = "fatal" if re.search(r"\bRST: Yes", text) else level
        elif code == 154:
            action = re.search(r"changed from .*? to (?:0x[0-9a-f]+ )?\(?([^()]*)\)?", text)
            level = recovery_level(action.group(1)) if action else "degraded"
        return {
            "kind": "xid",
            "code": code,
            "bdf": bdf(found.group(1)),
            "level": level,
            "line": line,
            "old": False,
            "mig": "GPU-I" in found.group(2),
        }
    found = SXID_LINE.search(line)
    fabric = None if found else FM_LINE.search(line)
    if found or fabric:
        place, code, text = (
            found.groups()
            if found
            else (fabric.group(3), fabric.group(2), fabric.group(1).capitalize())
        )
        code, kind = int(code), SXID.get(int(code))
        word = re.match(r"(Fatal|Non-fatal)", text or "")
        if word and word.group(1) == "Fatal":
            level = "fatal"
        elif kind is None:
            level = "unknown"
        elif kind == "always" or (kind == "maybe" and not word):
            level = "fatal"
        else:
            level = "degraded" if kind == "maybe" else "warn"
        return {
            "kind": "sxid",
            "code": code,
            "bdf": bdf(place),
            "level": level,
            "line": line,
            "old": False,
            "word": bool(word),
        }
    for kind, level, pattern in LOG_RULES:
        found = pattern.search(line)
        if found:
            place = bdf(found.group(1)) if found.group(1) else None
            if kind == "xid 79":
                return {
                    "kind": "xid",
                    "code": 79,
                    "bdf": place,
                    "level": level,
                    "line": line,
                    "old": False,
                }
            return {
                "kind": kind,
                "code": 0,
                "bdf": place,
                "level": level,
                "line": line,
                "old": False,
            }
    return None


class Gpu:
    """One GPU as all the sources tell it. `cells`: field -> [texts], the query first, then -q -x, -q, the table."""

    def __init__(self):
        self.index, self.bdf, self.uuid, self.cells = None, None, None, {}
        self.seen, self.links, self.migs, self.processes, self.listed_name, self.listed_uuid = (
            set(),
            None,
            None,
            [],
            None,
            None,
        )

    @property
    def label(self):
        return self.index if self.index is not None else self.bdf

    @property
    def node(self):
        minor = self.number("x.minor")
        return "/dev/nvidia%s" % (self.label if minor is None else int(minor))

    def raw(self, field):
        texts = self.cells.get(field, [])
        return next((text for text in texts if state(text) == "value"), texts[0] if texts else None)

    def number(self, field):
        return next(
            (value for value in map(number, self.cells.get(field, [])) if value is not None), None
        )

    def numbers(self, field):
        return [value for value in map(number, self.cells.get(field, [])) if value is not None]

    def most(self, field):
        return max(self.numbers(field) or [0])

    def most_of(self, start, end=""):
        """The largest number of all fields that begin and end so."""
        return max(
            [
                self.most(field)
                for field in self.cells
                if field.startswith(start) and field.endswith(end)
            ]
            or [0]
        )

    def is_yes(self, field):
        return any(yes(text) for text in self.cells.get(field, []))

    def says(self, field, *words):
        return any(text.strip() in words for text in self.cells.get(field, []))

    @property
    def name(self):
        return self.raw("name") if state(self.raw("name")) == "value" else self.listed_name or ""

    @property
    def mig(self):
        return self.says("mig.mode.current", "Enabled") or bool(self.migs)

    @property
    def vgpu(self):
        return (
            bool(re.search(r"\bGRID\b|-\d{1,3}[QCAB]$|-\d-\d{1,3}[QC]$", self.name))
            or "vgpu" in (self.raw("x.virtualization") or "").lower()
        )


class Box:
    def __init__(self):
        self.gpus, self.problems, self.failures, self.lost, self.log, self.topo = (
            [],
            [],
            [],
            [],
            None,
            {},
        )
        self.proc, self.exit, self.live, self.recorded, self.missing, self.sources = (
            {},
            {},
            False,
            False,
            [],
            [],
        )
        self.processes_known, self.driver, self.log_excused = False, "", False
        self.late = []  # calls of nvidia-smi that the time did not suffice for
        self.missing_cards, self.foreign, self.spare_nodes = (
            [],
            set(),
            0,
        )  # cards that nvidia-smi doesn't show; places of those that are another's


def as_dict(value):
    return value if isinstance(value, dict) else {}


def as_list(value):
    return value if isinstance(value, list) else []


def exit_of(value):
    """exit.json of other tools may hold a bare number, or the word for a time-out."""
    if isinstance(value, dict):
        code = next(
            (
                value[key]
                for key in ("rc", "exit", "code", "returncode", "exit_code")
                if key in value
            ),
            None,
        )
        late = any(value.get(key) for key in ("timed_out", "timeout", "timedout"))
        told = {
            key: value[key]
            for key in ("limit_s", "seconds")
            if isinstance(value.get(key), (int, float))
        }
        return dict(
            told,
            rc=code if isinstance(code, int) else None,
            timed_out=bool(late),
            cut=bool(value.get("cut")),
            asked=as_list(value.get("asked")),
            short=value.get("short") is True,
            unasked=value.get("unasked") is True,
        )
    out = {
        "rc": None,
        "timed_out": False,
        "cut": False,
        "asked": [],
        "short": False,
        "unasked": False,
    }
    if isinstance(value, str) and "time" in value.lower():
        return dict(out, timed_out=True)
    return dict(
        out,
        rc=value if isinstance(value, int) and not isinstance(value, bool) else None,
        timed_out=value is None,
    )


def parse(record):
    """The record -> a Box. Pure."""
    box = Box()
    files, box.live = record["files"], bool(record.get("live"))
    box.proc, raw_exit = as_dict(record.get("proc")), as_dict(record.get("exit"))
    box.recorded = box.live or "_by" in raw_exit
    box.exit = {
        name: exit_of(value) for name, value in raw_exit.items() if not name.startswith("_")
    }
    box.late = [
        name
        for name in CALLS
        if name in box.exit
        and (box.exit[name]["unasked"] or (box.exit[name]["timed_out"] and box.exit[name]["short"]))
    ]
    box.problems += ["%s can't be read" % text for text in record.get("unreadable", [])]
    box.problems += ["%s was cut at %d bytes" % (name, LIMIT) for name in record.get("cut", [])]
    for name in sorted(box.exit):
        if box.exit[name]["cut"]:
            box.problems.append("%s was cut at %d bytes" % (name, LIMIT))
    for name, text in sorted(files.items()):
        if "\ufffd" in text:
            box.problems.append("%s holds bytes that are no text" % name)
        if re.search(
            r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]",
            COLOUR.sub("", text) if name in ("topo.txt", "dmesg.txt") else text,
        ):
            box.problems.append("%s holds control characters" % name)
        if (
            box.recorded
            and not box.live
            and name in FILES
            and name in box.exit
            and text
            and not text.endswith("\n")
        ):
            box.problems.append("%s breaks off in its last line" % name)
        if box.recorded and name in FILES and name not in box.exit:
            box.problems.append("exit.json does not name %s" % name)
        if name.startswith(("nvidia-smi", "nvlink", "topo", "apps", "table", "q.", "fields")):
            failure = smi_failure(clean(text[:200000])) if name != "fields.txt" else None
            if failure and failure not in box.failures:
                box.failures.append(failure)
            box.lost += lost_handles(text)
    if box.recorded and not box.live:
        hung = (
            any(
                box.exit[name]["timed_out"] or box.exit[name]["unasked"]
                for name in box.exit
                if name != "dmesg.txt"
            )
            or box.failures
            or as_dict(box.exit.get("nvidia-smi.csv")).get("rc") == 127
        )
        for name in FILES[:7] if not hung else FILES[6:7]:
            if name not in files:
                box.missing.append(name)
        if not box.proc and "proc.json" not in " ".join(record.get("unreadable", [])):
            box.missing.append("proc.json")
    if box.recorded and box.proc:
        wrong = [
            name
            for name, kind in (
                ("platform", dict),
                ("disks", dict),
                ("memory", dict),
                ("pci", list),
                ("holders", list),
            )
            if not isinstance(box.proc.get(name), kind)
        ]
        if wrong or not box.proc["disks"]:
            box.problems.append("proc.json lacks %s" % ", ".join(wrong or ["disks"]))

    sources, processes = [], []
    if "nvidia-smi.csv" in files:
        rows, problems = parse_csv(
            files["nvidia-smi.csv"], as_dict(box.exit.get("nvidia-smi.csv")).get("asked", [])
        )
        sources.append(("csv", rows))
        box.problems += [
            "nvidia-smi --query-gpu: " + text
            for text in problems
            if rows or not (box.failures or box.lost)
        ]
    if "nvidia-smi-q.xml" in files and not (
        smi_failure(files["nvidia-smi-q.xml"]) or HANDLE.search(files["nvidia-smi-q.xml"])
    ):
        rows, listed, problems = parse_xml(files["nvidia-smi-q.xml"])
        sources.append(("xml", rows))
        box.problems += problems
        if listed is not None:
            box.processes_known, processes = True, processes + listed
    if "q.txt" in files:
        rows, problems = parse_q(files["q.txt"])
        sources.append(("q", rows))
        box.problems += problems
    if "table.txt" in files:
        sources.append(("table", parse_table(files["table.txt"])))
    by_place = {}
    for source, rows in sources:
        for cells in rows:
            place = bdf(cells.get("pci.bus_id", ""))
            index = number(cells.get("index", "N/A"))
            gpu = (
                by_place.get(place)
                if place
                else next(
                    (g for g in box.gpus if index is not None and g.index == int(index)), None
                )
            )
            if gpu is None:
                gpu = Gpu()
                gpu.bdf = place
                box.gpus.append(gpu)
                by_place[place or id(gpu)] = gpu
            if index is not None and gpu.index is None:
                gpu.index = int(index)
            if state(cells.get("uuid")) == "value":
                gpu.uuid = gpu.uuid or cells["uuid"]
            gpu.seen.add(source)
            for field, text in cells.items():
                if text not in gpu.cells.setdefault(field, []):
                    gpu.cells[field].append(text)
    box.sources = [source for source, rows in sources if rows]
    if "nvidia-smi-list.txt" in files:
        listed, problems = parse_list(files["nvidia-smi-list.txt"])
        if box.recorded and not listed and not box.failures and not box.lost:
            problems.append("nvidia-smi -L lists nothing")
        box.problems += problems
        if listed:
            box.sources.append("list")
        same = len({one["uuid"] for one in listed}) == len(listed)
        for one in listed:
            gpu = next(
                (g for g in box.gpus if same and g.uuid and g.uuid == one["uuid"]), None
            ) or next((g for g in box.gpus if g.index == one["index"]), None)
            if (
                gpu is None
                and not any(g.index is not None or g.uuid for g in box.gpus)
                and one["index"] < len(box.gpus)
            ):
                gpu = box.gpus[one["index"]]
            if gpu is None:
                gpu = Gpu()
                gpu.uuid = one["uuid"]
                box.gpus.append(gpu)
            gpu.index = one["index"] if gpu.index is None else gpu.index
            gpu.listed_name, gpu.migs, gpu.listed_uuid = one["name"], one["migs"], one["uuid"]
            gpu.seen.add("list")
    if box.gpus and all(g.index is None for g in box.gpus):
        for position, gpu in enumerate(box.gpus):
            gpu.index = position
    if "nvlink.txt" in files:
        links, names, problems = parse_nvlink(files["nvlink.txt"])
        box.problems += problems
        for index in sorted(links) if not box.gpus else []:
            gpu = Gpu()
            gpu.index, gpu.listed_name = index, names[index]
            box.gpus.append(gpu)
        for gpu in box.gpus:
            if gpu.index in links:
                gpu.links = links[gpu.index]
                gpu.seen.add("nvlink")
        if links:
            box.sources.append("nvlink")
    if "topo.txt" in files:
        box.topo, problems = parse_topo(files["topo.txt"])
        box.problems += problems
        covered = {one for one, _ in box.topo}
        answering = [gpu for gpu in box.gpus if gpu.seen & {"csv", "xml"}]
        if (
            box.recorded
            and len(answering) > 1
            and len(covered) != len(answering)
            and (box.exit.get("topo.txt") or {}).get("rc") == 0
            and len(covered) < len(box.gpus)
        ):
            box.problems.append("topo -m shows %d of %d GPUs" % (len(covered), len(answering)))
    if "apps.csv" in files and not smi_failure(files["apps.csv"]):
        listed, problems = parse_apps(files["apps.csv"])
        box.problems += problems
        box.processes_known, processes = True, processes + listed
    for one in processes:
        for gpu in box.gpus:
            if (one["bdf"] and one["bdf"] == gpu.bdf) or (
                not one["bdf"] and one.get("uuid") and one.get("uuid") == gpu.uuid
            ):
                if one["pid"] not in [old["pid"] for old in gpu.processes]:
                    gpu.processes.append(one)
    if "dmesg.txt" in files or "fabricmanager.txt" in files:
        box.log = parse_log(files.get("dmesg.txt", "") + files.get("fabricmanager.txt", ""))
        box.problems += box.log["problems"]
    if (
        "retired.csv" in files
    ):  # gpu_bus_id, retired_pages.address, retired_pages.cause: one row a page, [N/A] where there is none
        pages = {}
        for line in clean(files["retired.csv"]).splitlines()[1:]:
            cells = [cell.strip() for cell in line.split(",")]
            place = next((bdf(cell) for cell in cells if bdf(cell)), None)
            if place and any(re.match(r"0x[0-9a-fA-F]+$", cell) for cell in cells):
                kind = (
                    "retired_pages.double_bit.count"
                    if "Double" in line
                    else "retired_pages.single_bit_ecc.count"
                )
                pages[place, kind] = pages.get((place, kind), 0) + 1
        for (place, kind), count in sorted(pages.items()):
            gpu = next((g for g in box.gpus if g.bdf == place), None)
            if gpu is None:
                gpu = Gpu()
                gpu.bdf = place
                gpu.seen.add("retired")
                box.gpus.append(gpu)
            gpu.cells.setdefault(kind, []).append(str(count))
    for line in clean(files.get("lspci.txt", "")).splitlines():
        # 3b:00.0 3D controller [0302]: NVIDIA Corporation … (rev ff): the card no longer answers on the bus
        if "NVIDIA" in line and "(rev ff)" in line:
            box.lost.append((bdf(line.split()[0]), None, short(line)))
    told = dict(
        re.findall(r"^(NVML|DRIVER|KMD) version\s*: ([\d.]+)", files.get("version.txt", ""), re.M)
    )
    if "NVML" in told and version(told.get("KMD") or told.get("DRIVER"))[:2] not in (
        (),
        version(told["NVML"])[:2],
    ):
        box.failures.append(
            (
                "mismatch",
                "NVML version %s, driver version %s"
                % (told["NVML"], told.get("KMD") or told.get("DRIVER")),
            )
        )
    drivers = [
        gpu.raw("driver_version") for gpu in box.gpus if state(gpu.raw("driver_version")) == "value"
    ]
    box.driver = drivers[0] if drivers else ""
    cards = {bdf(str(one.get("bdf"))): one for one in nvidia_cards(box)}
    for gpu in box.gpus:
        if isinstance(as_dict(cards.get(gpu.bdf)).get("minor"), int):
            gpu.cells.setdefault("x.minor", []).append(str(cards[gpu.bdf]["minor"]))
    box.missing_cards = [
        one
        for place, one in sorted(cards.items(), key=str)
        if box.gpus and one.get("driver") == "nvidia" and place not in {gpu.bdf for gpu in box.gpus}
    ]
    box.foreign = {
        bdf(str(one.get("bdf")))
        for one in box.missing_cards
        if one.get("node") in ("hidden", "excluded", "absent", "denied")
    }
    nodes = [
        one
        for one in map(as_dict, as_list(box.proc.get("dev")))
        if re.match(r"/dev/nvidia\d+$", str(one.get("path"))) and not one.get("error")
    ]
    if (
        as_dict(box.proc.get("platform")).get("container")
        and box.gpus
        and not any("node" in one for one in cards.values())
    ):
        box.spare_nodes = max(0, len(nodes) - len(box.gpus))
    return box


# ---------------------------------------------------------------------------------------------------------------------------------------
# Judge: values in, findings out. Pure: no file, no clock, no command.
# Levels. fatal: do not train. degraded: finish what runs, then reset, repair or ask. warn: know it. unknown: could not be told.

RANK = {"fatal": 0, "degraded": 1, "unknown": 2, "warn": 3}


def verdict(findings):
    """The one place where levels become a verdict."""
    levels = {one["level"] for one in findings}
    return (
        "unfit"
        if "fatal" in levels
        else "care"
        if "degraded" in levels
        else "unknown"
        if "unknown" in levels
        else "fit"
    )


class Findings:
    def __init__(self):
        self.list, self.keys = [], set()

    def __call__(self, gpu, level, evidence, threshold, action, entry="", key=None):
        """Add a finding, once for each key and GPU."""
        if key and (key, gpu) in self.keys:
            return
        self.keys.add((key, gpu))
        self.list.append(
            {
                "gpu": gpu,
                "level": level,
                "evidence": short(evidence, 300),
                "threshold": threshold,
                "action": action,
                "entry": ENTRY.get(entry or key, ""),
            }
        )

    def has(self, key, gpu):
        return (key, gpu) in self.keys


def judge(record, expectations=None):
    """-> findings, worst first. `expectations`: what `expectations_of` gives."""
    box, add = parse(record), Findings()
    box.log_excused = any(what == "log" and not value for what, _, _, value in expectations or [])
    judge_tools(box, add)
    for gpu in box.gpus:
        if not judge_lost(box, gpu, add):
            judge_memory(gpu, add)
            judge_link(box, gpu, add)
            judge_speed(gpu, add)
            judge_modes(box, gpu, add)
            if gpu.seen & {"csv", "xml", "q", "table"}:
                judge_readable(box, gpu, add)
    judge_identity(box, add)
    judge_nvlink(box, add)
    judge_use(box, add)
    judge_log(box, add)
    judge_system(box, add)
    judge_torch(box, add)
    judge_amd(record, box, add)
    judge_agreement(box, add)
    judge_expectations(box, expectations or [], add)
    for text in box.problems[:20]:
        add(
            None,
            "unknown",
            text,
            "every answer is read whole",
            "run the probe again; if it stays, look at this output by hand",
            key=text,
        )
    return sorted(
        add.list, key=lambda one: (RANK[one["level"]], one["gpu"] is None, str(one["gpu"]))
    )


FAILURE_TEXT = {
    "mismatch": (
        "fatal",
        "driver and library are of one version (nvidia-smi exit 18)",
        "stop all GPU programs and reload the nvidia modules, or reboot the box",
        "mismatch",
    ),
    "no_driver": (
        "unknown",
        "the driver answers (nvidia-smi exit 9)",
        "no NVIDIA driver is loaded: build it for this kernel (DKMS, Secure Boot, nouveau), or "
        + BACK,
        "",
    ),
    "no_devices": (
        "fatal",
        "the driver has a GPU (nvidia-smi exit 6)",
        "look for RmInitAdapter in the kernel log; reboot the box, then " + BACK,
        "lost",
    ),
    "cgroup": (
        "fatal",
        "NVML starts; this text means a container that lost its devices (nvidia-docker#1730)",
        "restart the container; the host is fine",
        "cgroup",
    ),
    "denied": (
        "unknown",
        "NVML may be asked (exit 4)",
        "run as root, or with the devices given to the container",
        "",
    ),
    "blocked": (
        "fatal",
        "the system lets programs use the GPU (exit 17)",
        "start the container with the GPU, or ask the provider",
        "no_runtime",
    ),
    "library": (
        "unknown",
        "libnvidia-ml is there (exit 12)",
        "start the container with the NVIDIA runtime, or install the driver",
        "no_runtime",
    ),
    "nvml": ("fatal", "NVML starts", "reboot the box; if it stays, " + BACK, ""),
    "lost": (
        "fatal",
        "every GPU answers (exit 15: fell off the bus)",
        "reboot the box; if it comes back, " + BACK,
        "lost",
    ),
    "reset": ("fatal", "no GPU needs a reset (exit 16)", RESET, ""),
    "power": ("fatal", "every power cable is attached (exit 8)", BACK, ""),
    "interrupt": (
        "fatal",
        "the kernel gets the GPU's interrupts (exit 10)",
        "reboot the box; if it comes back, " + BACK,
        "",
    ),
}


NO_HANDLE = "every GPU has a handle; this is Xid 79 (NVIDIA: RESTART_BM)"
# What a call of nvidia-smi is, by its file.
CALLS = {
    "fields.txt": "--help-query-gpu",
    "nvidia-smi.csv": "--query-gpu",
    "nvidia-smi-list.txt": "-L",
    "nvidia-smi-q.xml": "-q -x",
    "nvlink.txt": "nvlink -s",
    "topo.txt": "topo -m",
    "apps.csv": "--query-compute-apps",
}


def nvidia_cards(box):
    return [one for one in as_list(box.proc.get("pci")) if as_dict(one).get("vendor") == "0x10de"]


def judge_tools(box, add):
    """Did nvidia-smi work at all? A whole-tool failure, a hang, a machine without one."""
    cards = nvidia_cards(box)
    for kind, line in box.failures:
        level, threshold, action, entry = FAILURE_TEXT[kind]
        if kind == "no_driver" and cards:
            level = "fatal"  # the card is there, the driver isn't: nothing can train here as it is
        add(
            None,
            level,
            line,
            threshold,
            action,
            entry,
            key="mismatch" if kind == "mismatch" else "tool",
        )
    for place, index, line in box.lost:
        gpu = next((g for g in box.gpus if place and g.bdf == place), None)
        add(
            gpu.label if gpu else place or index,
            "fatal",
            line,
            NO_HANDLE,
            "reboot the box; if it comes back, " + BACK,
            key="lost",
        )
    failed = bool(box.failures or box.lost)
    if box.late:
        add(
            None,
            "unknown",
            "nvidia-smi is slow: %d s for its calls, and no time was left for %s"
            % (
                sum(box.exit[name].get("seconds", 0) for name in CALLS if name in box.exit),
                ", ".join(
                    ("the rest of " if box.exit[name]["asked"] else "") + CALLS[name]
                    for name in box.late
                ),
            ),
            "all calls within %d s; without persistence mode each starts the driver anew (8 x A100: 30 s and not 2, Azure/aks-gpu#105)"
            % SERIES_SECONDS,
            "turn persistence mode on (nvidia-smi -pm 1, or start nvidia-persistenced), and run the probe again",
            key="slow",
        )
    for name in sorted(box.exit):
        got = box.exit[name]
        if name in box.late:
            continue
        if got["timed_out"] and name in CALLS:
            add(
                None,
                "fatal",
                "the nvidia-smi call for %s did not come back in time" % name,
                "nvidia-smi answers within %.0f s (8 x A100 without persistence mode: 30 s for the first call); it hangs after Xid 79 or 119"
                % got.get("limit_s", CALL_SECONDS),
                "don't call it again; reboot the box, and if it hangs again, " + BACK,
                key="hang",
            )
            failed = True
        elif got["timed_out"] and name != "dmesg.txt":
            add(
                None,
                "unknown",
                "%s did not come back in time" % name,
                "every command ends",
                "run it by hand",
                key="late " + name,
            )
    main = box.exit.get("nvidia-smi.csv") or {"rc": None}
    if main["rc"] == 14:
        add(
            None,
            "degraded",
            "nvidia-smi ended with 14",
            "0; 14 is a damaged InfoROM: usable, but the card wants repair (NVIDIA gpu-operator docs)",
            "finish, then ask the provider for another card",
            key="inforom",
        )
    elif main["rc"] in RC_FAILURES and not failed:
        level, threshold, action, entry = FAILURE_TEXT[RC_FAILURES[main["rc"]]]
        add(
            None,
            level,
            "nvidia-smi ended with %d" % main["rc"],
            threshold,
            action,
            entry,
            key="tool",
        )
        failed = True
    elif main["rc"] == 127:
        failed = True
        if cards:
            add(
                None,
                "fatal",
                "an NVIDIA card at %s and no nvidia-smi" % short(cards[0].get("bdf")),
                "driver and tools are installed",
                "install the driver, start the container with the GPU, or " + BACK,
                "no_runtime",
                key="tool",
            )
        elif not any(
            as_dict(one).get("vendor") == "0x1002" for one in as_list(box.proc.get("pci"))
        ):
            add(
                None,
                "unknown",
                "no nvidia-smi, no NVIDIA or AMD card in sysfs",
                "a GPU",
                "this box shows no GPU: start the container with it, or " + BACK,
                "no_runtime",
                key="tool",
            )
    elif isinstance(main["rc"], int) and main["rc"] != 0 and not failed:
        add(
            None,
            "unknown",
            "nvidia-smi ended with %d" % main["rc"],
            "0",
            "run nvidia-smi by hand",
            key="tool",
        )
    for name in ("nvidia-smi-list.txt", "nvidia-smi-q.xml", "apps.csv"):
        got = box.exit.get(name)
        if (
            got
            and not failed
            and not got["timed_out"]
            and isinstance(got["rc"], int)
            and got["rc"] not in (0, 14, main["rc"])
        ):
            add(
                None,
                "unknown",
                "the call for %s ended with %d" % (name, got["rc"]),
                "0",
                "run it by hand",
                key="rc " + name,
            )
    if box.missing and not failed:
        add(
            None,
            "unknown",
            "the recording lacks %s" % ", ".join(box.missing),
            "a recording is whole",
            "record again",
            key="missing",
        )
    told = [one for one in box.sources if one in ("csv", "xml", "q", "table")]
    amd = any(as_dict(one).get("vendor") == "0x1002" for one in as_list(box.proc.get("pci")))
    if not told and not failed and not amd:
        add(
            None,
            "unknown",
            "no output tells the state of a GPU",
            "nvidia-smi --query-gpu or -q -x",
            "record the whole box",
            key="state",
        )


def judge_lost(box, gpu, add):
    """A GPU that is gone gets one finding, and no other."""
    lost = [
        (field, text)
        for field, texts in sorted(gpu.cells.items())
        for text in texts
        if state(text) == "lost"
    ]
    if lost:
        need = any("reset" in text for _, text in lost)
        add(
            gpu.label,
            "fatal",
            "%s: %s" % lost[0],
            "every cell answers (NVML %s)" % ("16, reset required" if need else "15, GPU is lost"),
            RESET if need else "reboot the box; if it comes back, " + BACK,
            key="lost",
        )
        return True
    main = "csv" if "csv" in box.sources else "xml" if "xml" in box.sources else None
    if main and main not in gpu.seen:
        add(
            gpu.label,
            "fatal",
            "GPU %s (%s) is listed by %s and doesn't answer the query"
            % (gpu.label, gpu.listed_name or gpu.name or gpu.bdf, ", ".join(sorted(gpu.seen))),
            "every listed GPU answers; -L lists lost GPUs too (k8s-test-infra)",
            "reboot the box; if it comes back, " + BACK,
            key="lost",
        )
        return True
    for other in box.sources:
        if other in ("xml", "list", "nvlink") and other not in gpu.seen and main:
            add(
                gpu.label,
                "unknown",
                "GPU %s answers the query and is not in the output of %s"
                % (gpu.label, {"xml": "-q -x", "list": "-L", "nvlink": "nvlink -s"}[other]),
                "all outputs name the same GPUs",
                "run the probe again",
                key="disagree",
            )
    counts = gpu.numbers("count")
    if counts and counts[0] > len(box.gpus) + len(box.foreign) and gpu is box.gpus[0]:
        add(
            None,
            "fatal",
            "the driver counts %d GPUs and %d answer" % (counts[0], len(box.gpus)),
            "all answer",
            "reboot the box; if it comes back, " + BACK,
            key="count",
        )
    return False


RECOVERY_ACTION = {
    "ok": "",
    "fatal": "do what it says: reset the GPU, or reboot the box",
    "degraded": "finish what runs, start nothing new, then " + RESET,
}


def judge_memory(gpu, add):
    """ECC counters, remapped rows, retired pages. Sources: [mem] NVIDIA GPU Memory Error Management, [dcgm], [nhc], [gcm] in the facts."""
    label = gpu.label
    for text in gpu.cells.get("gpu_recovery_action", []):
        if state(text) == "value" and recovery_level(text) != "ok":
            level = recovery_level(text)
            add(
                label,
                level,
                "gpu_recovery_action: %s" % text,
                "None (NVML recovery action)",
                RECOVERY_ACTION[level],
                key="recovery",
            )
    if gpu.is_yes("x.reset_required"):
        add(label, "fatal", "reset_required: Yes", "No", RESET, key="recovery")
    elif gpu.is_yes("x.drain_and_reset"):
        add(
            label,
            "degraded",
            "drain_and_reset_recommended: Yes",
            "No",
            RECOVERY_ACTION["degraded"],
            key="recovery",
        )
    broken = gpu.is_yes("remapped_rows.failure")
    if broken:
        add(
            label,
            "fatal",
            "remapped_rows.failure: %s" % gpu.raw("remapped_rows.failure"),
            "No; a failed remap qualifies for replacement (NVIDIA memory error management)",
            BACK,
            key="remap",
        )
    elif gpu.is_yes("remapped_rows.pending"):
        add(
            label,
            "degraded",
            "remapped_rows.pending: %s" % gpu.raw("remapped_rows.pending"),
            "No; a pending remap works after a reset (NVIDIA memory error management)",
            RESET,
            key="remap",
        )
    elif gpu.most("remapped_rows.uncorrectable") >= 512:
        add(
            label,
            "degraded",
            "remapped_rows.uncorrectable: %d" % gpu.most("remapped_rows.uncorrectable"),
            "below 512 (DCGM, NVIDIA's limit)",
            BACK,
            key="remap",
        )
    elif gpu.most("remapped_rows.histogram.none") > 0:
        add(
            label,
            "degraded",
            "banks without a spare row: %d" % gpu.most("remapped_rows.histogram.none"),
            "0; the next fault there can't be remapped",
            "finish, then " + BACK,
            key="remap",
        )
    elif gpu.most("remapped_rows.uncorrectable") > 0:
        add(
            label,
            "warn",
            "remapped_rows.uncorrectable: %d" % gpu.most("remapped_rows.uncorrectable"),
            "0; repaired, below NVIDIA's limit of 512",
            "watch it",
            key="remap",
        )
    elif gpu.most("remapped_rows.histogram.low") > 0:
        add(
            label,
            "warn",
            "banks with few spare rows: %d" % gpu.most("remapped_rows.histogram.low"),
            "0",
            "watch it",
            key="remap",
        )
    single, double = (
        gpu.most("retired_pages.single_bit_ecc.count"),
        gpu.most("retired_pages.double_bit.count"),
    )
    if single + double >= 63:
        add(
            label,
            "fatal",
            "retired pages: %d" % (single + double),
            "below 63 (DCGM)",
            BACK,
            key="pages",
        )
    elif gpu.is_yes("retired_pages.pending"):
        add(
            label,
            "degraded",
            "retired_pages.pending: Yes",
            "No; works after a reset (DCGM warns)",
            RESET,
            key="pages",
        )
    elif double > 15 or single + double > 10:
        add(
            label,
            "degraded",
            "retired pages: %d, %d of them for double-bit errors" % (single + double, double),
            "at most 10 (gcm), 15 double-bit (DCGM)",
            "finish, then " + BACK,
            key="pages",
        )
    if gpu.is_yes("x.unrepairable"):
        add(label, "fatal", "unrepairable_memory: Yes", "No", BACK, key="repair")
    for field in ("x.channel_repair", "x.tpc_repair"):
        if gpu.is_yes(field):
            add(
                label,
                "degraded",
                "%s repair pending: Yes" % field[2:].split("_")[0],
                "No; repaired by a reset",
                RESET,
                key="repair",
            )
    if gpu.is_yes("ecc.errors.uncorrected.aggregate.sram.thresholdExceeded"):
        add(
            label,
            "fatal",
            "SRAM uncorrectable threshold exceeded: Yes",
            "No; qualifies for replacement (NVIDIA memory error management)",
            BACK,
            key="ecc",
        )
    elif gpu.most_of("ecc.errors.uncorrected.volatile.") > 0:
        add(
            label,
            "fatal",
            "uncorrectable ECC errors since the driver was loaded: %d"
            % gpu.most_of("ecc.errors.uncorrected.volatile."),
            "0 (DCGM, gcm, Azure NHC)",
            RESET + "; if it comes back, " + BACK,
            key="ecc",
        )
    elif (
        gpu.most_of("ecc.errors.corrected.") > 20000000
        or gpu.most_of("ecc.errors.corrected.", ".sram") > 10000
    ):
        add(
            label,
            "degraded",
            "corrected ECC errors: %d, in SRAM %d"
            % (gpu.most_of("ecc.errors.corrected."), gpu.most_of("ecc.errors.corrected.", ".sram")),
            "at most 20000000, in SRAM 10000 (Azure NHC, H100)",
            "finish, then ask for another card",
            key="ecc",
        )
    elif gpu.most_of("ecc.errors.uncorrected.aggregate.") > 0:
        add(
            label,
            "warn",
            "uncorrectable ECC errors: %d in its life, 0 since the driver was loaded"
            % gpu.most_of("ecc.errors.uncorrected.aggregate."),
            "0 (Azure NHC for SRAM)",
            "watch it; ask the provider if it grows",
            key="ecc",
        )
    checksum = gpu.raw("inforom.checksum_validation")
    if state(checksum) == "value" and checksum.strip().lower() != "valid":
        add(
            label,
            "degraded",
            "inforom.checksum_validation: %s" % checksum,
            "valid",
            "finish, then ask for another card",
            key="inforom",
        )


REPLAYS = (0.15, 0.3, 0.48, 0.96, 1.92, 3.84)  # a minute and lane, generations 1 to 6: DCGM


def judge_link(box, gpu, add):
    place = next((one for one in nvidia_cards(box) if bdf(str(one.get("bdf"))) == gpu.bdf), {})
    now, most = gpu.numbers("pcie.link.width.current"), gpu.numbers("pcie.link.width.max")
    for name, into in (("current_link_width", now), ("max_link_width", most)):
        value = number(str(place.get(name, "")))
        if value and value < 64:
            into.append(value)
    if now and most and 0 < min(now) < max(most):
        inside = "pass-through" in (gpu.raw("x.virtualization") or "").lower()
        add(
            gpu.label,
            "degraded",
            "PCIe width x%d of x%d" % (min(now), max(most)),
            "the widest the card can; width stays at idle (all captures)",
            "reboot; if it stays, slot or riser is bad, or the slot is wired so%s: ask, or --expect pcie=%d"
            % (" (a virtual machine can't see the slot)" if inside else "", min(now)),
            key="width",
        )
    now, most, busy = (
        gpu.number("pcie.link.gen.gpucurrent"),
        gpu.number("pcie.link.gen.max"),
        gpu.number("utilization.gpu"),
    )
    # An idle card lowers the generation; only under load it tells something.
    if (
        now
        and most
        and now < most
        and busy is not None
        and busy >= 50
        and not gpu.says("pstate", "P8", "P12")
    ):
        add(
            gpu.label,
            "degraded",
            "PCIe generation %d of %d at %d %% utilisation" % (now, most, busy),
            "the highest, under load",
            "reboot; if it stays, " + BACK,
            key="gen",
        )
    replays, minutes = gpu.most("x.replays"), box.proc.get("uptime_s")
    if replays and most and isinstance(minutes, (int, float)) and minutes > 0:
        lanes = max(gpu.numbers("pcie.link.width.max") or [16])
        bound = REPLAYS[min(int(most), len(REPLAYS)) - 1] * lanes * max(1.0, minutes / 60.0)
        if replays > bound:  # a mean over the whole uptime: the worst minute was worse
            add(
                gpu.label,
                "warn",
                "PCIe replays: %d since the driver was loaded" % replays,
                "%d in the %d minutes since boot (DCGM: %.2f a minute and lane)"
                % (bound, minutes / 60, REPLAYS[min(int(most), len(REPLAYS)) - 1]),
                "a bad slot, riser or cable: reboot, watch it, ask the provider",
                key="replays",
            )
    sku = None if gpu.vgpu else sku_of(gpu.name)
    if sku and most and most < sku["pcie_gen"]:
        add(
            gpu.label,
            "warn",
            "PCIe generation %d at most, the card can %d" % (most, sku["pcie_gen"]),
            "SKU table",
            "the host caps it: slower loading from host memory",
            key="gen",
        )


REASONS = (
    ("hw_thermal_slowdown", 0x40),
    ("hw_power_brake_slowdown", 0x80),
    ("hw_slowdown", 0x8),
    ("sw_thermal_slowdown", 0x20),
)  # bits: NVML


def judge_speed(gpu, add):
    """Throttling and heat. The software power cap is normal under load and never a finding."""
    mask = int(gpu.most("clocks_event_reasons.active"))
    active = [
        name
        for name, bit in REASONS
        if gpu.says("clocks_event_reasons." + name, "Active") or mask & bit
    ]
    busy = gpu.number("utilization.gpu")
    if [name for name in active if name.startswith("hw_")]:
        add(
            gpu.label,
            "degraded",
            "throttled now: %s" % ", ".join(active),
            "no hardware slowdown (gpud, Azure NHC)",
            "heat or power supply: ask the provider, or change the box",
            key="throttle",
        )
    elif active:
        add(
            gpu.label,
            "degraded" if busy is None or busy >= 50 else "warn",
            "throttled now: %s at %s %% utilisation"
            % (active[0], "?" if busy is None else int(busy)),
            "no thermal slowdown",
            "cooling: ask the provider, or change the box",
            key="throttle",
        )
    else:
        for name in ("hw_thermal_slowdown", "hw_power_brake_slowdown"):
            spent = gpu.most("clocks_event_reasons_counters." + name)
            if spent > 0:
                add(
                    gpu.label,
                    "warn",
                    "%s for %.1f s since the driver was loaded" % (name, spent / 1e6),
                    "0",
                    "watch clocks under load (--stress)",
                    key="throttle",
                )
        if gpu.most("clocks_event_reasons_counters.sw_thermal_slowdown") > 60e6:
            add(
                gpu.label,
                "warn",
                "sw_thermal_slowdown for %.0f s since the driver was loaded"
                % (gpu.most("clocks_event_reasons_counters.sw_thermal_slowdown") / 1e6),
                "60 s (ours)",
                "watch clocks under load (--stress)",
                key="throttle",
            )
    heat, margin, slow = (
        gpu.most("temperature.gpu"),
        gpu.number("temperature.gpu.tlimit"),
        gpu.number("x.slow"),
    )
    slow = slow if slow and slow > 40 else 90  # 89 to 95 in the captures that tell it
    top = gpu.number("x.gpu_max")
    slow = (
        int(min(slow, top + 1)) if top and top > 40 else slow
    )  # the highest it may work at, 85 to 93 in the captures; gpud
    if (margin is not None and margin <= 0) or heat >= slow:
        add(
            gpu.label,
            "degraded",
            "GPU at %d C%s" % (heat, ", %d C to its limit" % margin if margin is not None else ""),
            "below %d C and above 0 to the limit" % slow,
            "cooling: ask the provider, or change the box",
            key="throttle",
        )
    limit = gpu.number("x.memory_max")
    if limit and limit > 40 and gpu.most("temperature.memory") >= limit:
        add(
            gpu.label,
            "degraded",
            "memory at %d C" % gpu.most("temperature.memory"),
            "below %d C (-q -x)" % limit,
            "cooling: ask the provider, or change the box",
            key="throttle",
        )
    clock, usual_clock = gpu.number("x.app_clock"), gpu.number("x.app_default")
    now, top = gpu.number("clocks.current.sm"), gpu.number("clocks.max.sm")
    held = gpu.says("clocks_event_reasons.applications_clocks_setting", "Active") or mask & 0x2
    if (
        held
        and now
        and top
        and busy is not None
        and busy >= 50
        and now < min(0.5 * top, 0.95 * (usual_clock or top))
    ):
        add(
            gpu.label,
            "degraded",
            "held at %d MHz of %d by a clock setting, at %d %% utilisation" % (now, top, busy),
            "at least half of the highest, or the default (ours)",
            "take it back: nvidia-smi -rgc and -rac; or ask the provider",
            key="clock",
        )
    elif clock and usual_clock and clock < usual_clock:
        add(
            gpu.label,
            "warn",
            "application clock %d MHz, default %d MHz" % (clock, usual_clock),
            "the default (Azure NHC and gcm want a fixed one)",
            "expect less speed, or take it back: nvidia-smi -rac",
            key="clock",
        )
    if (
        state(gpu.raw("power.draw")) == "na"
        and HBM.search(gpu.name)
        and not gpu.vgpu
        and not gpu.mig
    ):
        add(
            gpu.label,
            "warn",
            "power.draw: %s" % gpu.raw("power.draw"),
            "readable on a data-centre GPU (DCGM)",
            "watch clocks under load (--stress)",
            key="power",
        )
    cap, normal, enforced = (
        gpu.number("power.limit"),
        gpu.number("power.default_limit"),
        gpu.number("enforced.power.limit"),
    )
    if cap and enforced and enforced < 0.9 * cap:
        add(
            gpu.label,
            "degraded",
            "enforced power limit %d W, set %d W" % (enforced, cap),
            "0.9 of the set limit (ours): something else holds it lower",
            "power supply or heat of the machine: ask the provider, or change the box",
            "capped",
            key="power",
        )
    elif cap and normal and cap < 0.9 * normal:
        add(
            gpu.label,
            "warn",
            "power limit %d W, default %d W" % (cap, normal),
            "0.9 of the default (ours)",
            "expect less speed, or raise it: nvidia-smi -pl",
            "capped",
            key="power",
        )


HBM = re.compile(r"P100|V100|A100|A800|A30$|H100|H800|H20$|H200|B100|B200|B300|GB200|GB300")


def judge_modes(box, gpu, add):
    current, pending = gpu.raw("mig.mode.current"), gpu.raw("mig.mode.pending")
    if state(current) == state(pending) == "value" and current != pending:
        add(
            gpu.label,
            "degraded",
            "MIG mode %s, pending %s" % (current, pending),
            "the same",
            RESET,
            key="mig",
        )
    elif gpu.says("mig.mode.current", "Enabled") and "list" in gpu.seen and not gpu.migs:
        add(
            gpu.label,
            "fatal",
            "MIG mode is on and there is no instance",
            "one instance; CUDA sees no device without",
            "make instances (nvidia-smi mig -cgi … -C), or turn MIG off and reset",
            key="mig",
        )
    elif current in ("Enabled", "Disabled"):
        modes = [g.raw("mig.mode.current") for g in box.gpus]
        if modes.count(current) * 2 < len(modes) or (
            modes.count(current) * 2 == len(modes) and current == "Enabled"
        ):
            add(
                gpu.label,
                "degraded",
                "MIG mode %s, on the others not" % current,
                "one mode in the box",
                "set it like the others and reset, or leave this GPU out",
                key="mig",
            )
    current, pending = gpu.raw("ecc.mode.current"), gpu.raw("ecc.mode.pending")
    if state(current) == state(pending) == "value" and current != pending:
        add(
            gpu.label,
            "warn",
            "ECC mode %s, pending %s" % (current, pending),
            "the same",
            RESET,
            key="eccmode",
        )
    elif current == "Disabled" and HBM.search(gpu.name) and not gpu.vgpu:
        add(
            gpu.label,
            "degraded",
            "ECC mode Disabled",
            "Enabled on a data-centre GPU: without it a memory error is silent",
            "nvidia-smi -e 1, then reset the GPU",
            key="eccmode",
        )
    elif state(current) == "value" and any(g.raw("ecc.mode.current") != current for g in box.gpus):
        modes = [g.raw("ecc.mode.current") for g in box.gpus]
        if modes.count(current) * 2 < len(modes):
            add(
                gpu.label,
                "warn",
                "ECC mode %s, on most of the others not" % current,
                "one mode in the box",
                "nvidia-smi -e, then reset the GPU",
                key="eccmode",
            )
    mode = gpu.raw("compute_mode")
    if mode == "Prohibited":
        add(
            gpu.label,
            "fatal",
            "compute_mode: Prohibited",
            "Default",
            "nvidia-smi -c 0 -i N",
            key="compute",
        )
    elif mode in ("Exclusive_Process", "E. Process"):
        add(
            gpu.label,
            "warn",
            "compute_mode: %s" % mode,
            "Default",
            "one process a GPU, or nvidia-smi -c 0 -i N",
            key="compute",
        )
    if no_persistence(gpu) and HBM.search(gpu.name):
        add(
            gpu.label,
            "warn",
            "persistence_mode: Disabled",
            "Enabled",
            "nvidia-smi -pm 1: else each start takes seconds and counters are reset",
            key="persistence",
        )
    fabric = (
        gpu.raw("fabric.state") or "N/A",
        gpu.raw("fabric.status") or "N/A",
        gpu.raw("fabric.health.summary") or "N/A",
    )
    if state(fabric[0]) == "value" and (
        "Completed" not in fabric[0] or (state(fabric[1]) == "value" and "Success" not in fabric[1])
    ):
        add(
            gpu.label,
            "fatal",
            "fabric state %s, status %s" % fabric[:2],
            "Completed and Success; CUDA and NCCL can't start before",
            "wait a minute; then restart nvidia-fabricmanager, reboot, or " + BACK,
            key="fabric",
        )
    elif state(fabric[2]) == "value" and fabric[2] != "Healthy":
        add(
            gpu.label,
            "fatal" if fabric[2] == "Unhealthy" else "degraded",
            "fabric health: %s" % fabric[2],
            "Healthy",
            "reboot the box, then " + BACK,
            key="fabric",
        )
    elif gpu.says("x.fabric_bandwidth", "Degraded") or any(
        gpu.says("x.fabric_" + part, "True") for part in ("route", "recovery", "access")
    ):
        told = [
            "%s %s" % (part, gpu.raw("x.fabric_" + part))
            for part in ("bandwidth", "route", "recovery", "access")
            if gpu.says("x.fabric_" + part, "Degraded", "True")
        ]
        add(
            gpu.label,
            "degraded",
            "fabric health: %s" % ", ".join(told),
            "bandwidth full, no route unhealthy or in recovery (gpud, DCGM)",
            "wait a minute; if it stays, reboot the box, then " + BACK,
            key="fabric",
        )


def no_persistence(gpu):
    """The driver is unloaded with the last program. Windows and virtual GPUs have no such mode."""
    return (
        gpu.says("persistence_mode", "Disabled")
        and not gpu.vgpu
        and state(gpu.raw("driver_model.current")) != "value"
    )


COSMETIC = (
    "fan.speed",
    "power.draw",
    "power.limit",
    "enforced.power.limit",
    "power.default_limit",
    "utilization.gpu",
    "utilization.memory",
    "persistence_mode",
    "display_active",
    "pstate",
)


def judge_readable(box, gpu, add):
    """Cells that failed, can't be read, may not be read, or aren't there."""
    failed = sorted(
        field
        for field, texts in gpu.cells.items()
        if any(state(text) == "error" for text in texts) and field in TYPE
    )
    if failed:
        hard = [field for field in failed if field not in COSMETIC]
        sure = gpu.raw("gpu_recovery_action") == "None" or not gpu.cells.get("x.table")
        add(
            gpu.label,
            "degraded" if hard or not sure else "warn",
            "%s: %s"
            % (", ".join(failed[:4]), next(t for t in gpu.cells[failed[0]] if state(t) == "error")),
            "every sensor answers; fan or power alone may pass (i3pystatus#850, nvidia_gpu_exporter#393)",
            "ask again after 5 s; if it stays, look at the recovery action and the kernel log, then "
            + RESET,
            key="sensor",
        )
    unread = [
        field
        for field, texts in gpu.cells.items()
        for text in texts
        if state(text) == "bad"
        or (state(text) == "value" and field in TYPE and not readable(field, text))
    ]
    nominal = (sku_of(gpu.name) or {}).get("vram_gib", 0) * 1024
    if gpu.number("memory.total") == 0 or 0.9 * nominal <= (gpu.number("memory.total") or 0) < (
        gpu.number("memory.used") or 0
    ):
        unread.append("memory.total")
    if gpu.numbers("temperature.gpu") and not -40 < gpu.most("temperature.gpu") < 150:
        unread.append("temperature.gpu")
    if unread:
        add(
            gpu.label,
            "unknown",
            "can't read %s"
            % ", ".join(
                "%s (%s)" % (f, short((gpu.cells.get(f) or ["?"])[0], 30))
                for f in sorted(set(unread))[:4]
            ),
            "values of a known form",
            "run the probe again; if it stays, look at this output by hand",
            key="unread",
        )
    denied = [
        field
        for field, texts in gpu.cells.items()
        if any(state(text) == "denied" for text in texts) and field in TYPE
    ]
    if denied:
        add(
            gpu.label,
            "unknown",
            "%s: [Insufficient Permissions]" % ", ".join(sorted(denied)[:4]),
            "readable",
            "run as root",
            key="denied",
        )
    need = REQUIRED + (REQUIRED_590 if version(box.driver)[:1] >= (590,) else ())
    lacks = [
        field
        for field in need
        if not any(state(text) != "missing" for text in gpu.cells.get(field, []))
    ]
    if lacks == ["clocks_event_reasons.hw_slowdown"] and gpu.cells.get(
        "clocks_event_reasons.active"
    ):
        lacks = []
    if (
        state(gpu.raw("ecc.errors.uncorrected.volatile.total")) == "na"
        and gpu.says("ecc.mode.current", "Enabled")
        and not gpu.vgpu
    ):
        lacks.append("ecc.errors.uncorrected.volatile.total")
    if not gpu.name or (
        not gpu.mig
        and not gpu.vgpu
        and all(
            state(gpu.raw(field)) == "na"
            for field in ("memory.total", "temperature.gpu", "utilization.gpu")
        )
    ):
        lacks.append("name, memory, temperature or utilisation")
    if lacks and not box.late:
        add(
            gpu.label,
            "unknown",
            "not told: %s" % ", ".join(lacks[:5])
            + (" and %d more" % (len(lacks) - 5) if len(lacks) > 5 else ""),
            "what drivers 465 to 610 tell",
            "ask for these fields",
            key="lacks",
        )


def usual(values):
    """The most common value."""
    values = [value for value in values if value not in (None, "")]
    return max(sorted(set(values), key=str), key=values.count) if values else None


def judge_identity(box, add):
    """Is each card what its name says, and like the others?"""
    there = [gpu for gpu in box.gpus if not add.has("lost", gpu.label)]
    names, memories = (
        usual([gpu.name for gpu in there]),
        usual([gpu.number("memory.total") for gpu in there]),
    )
    for gpu in there:
        sku, total, odd = sku_of(gpu.name), gpu.number("memory.total"), []
        others = [g.name for g in there if g is not gpu]
        told = {text for text in gpu.cells.get("name", []) if state(text) == "value"} | (
            {gpu.listed_name} if gpu.listed_name else set()
        )
        if len(told) > 1:
            odd.append("its outputs call it %s" % " and ".join(sorted(told)))
        if len(told) > 1 and all(sku_of(name) for name in told) and len(there) > 1:
            odd.append("among %s" % usual(others))
        elif (
            len(told) == 1
            and len(there) > 1
            and gpu.name
            and names
            and gpu.name != names
            and [g.name for g in there].count(names) * 2 > len(there)
        ):
            odd.append("%s among %s" % (gpu.name, names))
        if (
            not gpu.vgpu
            and sku
            and total
            and min(gpu.numbers("memory.total")) < 0.9 * sku["vram_gib"] * 1024
        ):
            odd.append(
                "%s has %d MiB, less than 0.9 of %d GiB"
                % (gpu.name, min(gpu.numbers("memory.total")), sku["vram_gib"])
            )
        elif (
            len(there) > 1
            and total
            and memories
            and min(gpu.numbers("memory.total")) < 0.9 * memories
            and not odd
        ):
            odd.append("%d MiB, the others have %d" % (min(gpu.numbers("memory.total")), memories))
        cap = gpu.raw("compute_cap")
        if (
            sku
            and state(cap) == "value"
            and readable("compute_cap", cap)
            and cap != sku["compute_cap"]
        ):
            odd.append(
                "%s reports compute capability %s, expected %s"
                % (gpu.name, cap, sku["compute_cap"])
            )
        if odd and len(told) > 1 and len(odd) == 1:
            add(
                gpu.label,
                "unknown",
                odd[0],
                "all outputs say the same",
                "run the probe again",
                key="identity",
            )
        elif odd:
            add(
                gpu.label,
                "degraded",
                "; ".join(odd),
                "name, memory (0.90 for ECC) and capability of one SKU, all cards alike",
                "not the card the name promises: compare with what was rented, and " + BACK,
                "sku",
                key="identity",
            )
    firmware = usual([gpu.raw("x.vbios") for gpu in there])
    for gpu in there:
        own = gpu.raw("x.vbios")
        if (
            state(own) == "value"
            and (sku_of(gpu.name) or {}).get("p2p") == "nvlink"
            and own.lower() != str(firmware).lower()
            and gpu.name == names
        ):
            add(
                gpu.label,
                "warn",
                "VBIOS %s, most of the others %s" % (short(own, 30), short(firmware, 30)),
                "one version in the box (gcm, Azure NHC)",
                "a card that was exchanged: ask the provider if it is slower than the others",
                key="vbios",
            )
    drivers = {
        text
        for gpu in there
        for text in gpu.cells.get("driver_version", []) + gpu.cells.get("kmd_version", [])
        if state(text) == "value"
    }
    module = (
        box.proc.get("module_version")
        or (
            re.search(r"Module\s+([\d.]+)", str(box.proc.get("nvidia_version") or ""))
            or [None, None]
        )[1]
    )
    if len(drivers) > 1 or (
        drivers and module and version(module)[:2] != version(sorted(drivers)[0])[:2]
    ):
        add(
            None,
            "fatal",
            "driver %s, kernel module %s" % (" and ".join(sorted(drivers)), module or "?"),
            "one version",
            FAILURE_TEXT["mismatch"][2],
            key="mismatch",
        )
    bare = [gpu for gpu in there if not gpu.vgpu]
    if (
        len(bare) > 1
        and all((sku_of(gpu.name) or {}).get("p2p") == "none" for gpu in bare)
        and "RTX" in bare[0].name
    ):
        if re.search(r"RTX (?:40|50)\d\d", bare[0].name):
            add(
                None,
                "warn",
                "%d x %s have no peer-to-peer on stock drivers" % (len(bare), bare[0].name),
                "SKU table; nccl-tests#117",
                "set NCCL_P2P_DISABLE=1 if NCCL hangs",
                key="p2p",
            )


STABLE = (
    "name",
    "memory.total",
    "mig.mode.current",
    "mig.mode.pending",
    "ecc.mode.current",
    "ecc.mode.pending",
    "compute_mode",
    "pcie.link.width.max",
    "pcie.link.gen.max",
    "gpu_recovery_action",
    "remapped_rows.pending",
    "remapped_rows.failure",
    "power.default_limit",
)


def judge_agreement(box, add):
    """Two outputs that tell different things about a GPU that is else fine: one of them is damaged."""
    blamed = {one["gpu"] for one in add.list}
    for gpu in box.gpus:
        if gpu.label in blamed:
            continue
        for field in STABLE:
            said = {
                number(text) if TYPE.get(field) == "n" else {"0": "No", "1": "Yes"}.get(text, text)
                for text in gpu.cells.get(field, [])
                if state(text) == "value"
            }
            if len(said) > 1 and "x.table" not in gpu.cells:
                add(
                    gpu.label,
                    "unknown",
                    "%s: %s" % (field, " and ".join(sorted(map(str, gpu.cells[field])))),
                    "all outputs say the same",
                    "run the probe again",
                    key="disagree",
                )
        if gpu.uuid and gpu.listed_uuid and gpu.uuid != gpu.listed_uuid:
            add(
                gpu.label,
                "unknown",
                "uuid %s, in -L %s" % (gpu.uuid, gpu.listed_uuid),
                "all outputs say the same",
                "run the probe again",
                key="disagree",
            )


def judge_nvlink(box, add):
    """Inactive, missing and slow links. Without a bridge, cards that only can take one are no fault."""
    there = [gpu for gpu in box.gpus if not add.has("lost", gpu.label) and not gpu.mig]
    counts = usual([len(gpu.links) for gpu in there if gpu.links])
    # Boards with two or four P100 or V100 wire some of the 6 links (RWTH Aachen's nodes: 2): all alike, and every pair by NVLink.
    pairs = [
        box.topo.get((one.index, two.index), "") for one in there for two in there if one is not two
    ]
    lives = {
        len([speed for speed in (gpu.links or {}).values() if speed is not None]) for gpu in there
    }
    as_wired = (
        len(lives) == 1
        and all(re.search("P100|V100", gpu.name) for gpu in there)
        and bool(pairs)
        and all(cell.startswith("NV") for cell in pairs)
    )
    for gpu in there:
        sxm = (sku_of(gpu.name) or {}).get("p2p") == "nvlink"
        want = next(
            ((links, speed) for pattern, links, speed in NVLINKS if re.search(pattern, gpu.name)),
            None,
        )
        if (
            gpu.links is None
            and box.recorded
            and sxm
            and len(there) > 1
            and not box.failures
            and not box.late
            and not add.has("hang", None)
            and not add.has("disagree", gpu.label)
        ):
            add(
                gpu.label,
                "unknown",
                "its NVLinks were not told",
                "nvlink -s lists them",
                "run nvidia-smi nvlink -s by hand",
                key="nvlink",
            )
        if gpu.links is None:
            continue
        dead = sorted(link for link, speed in gpu.links.items() if speed is None)
        live = [speed for speed in gpu.links.values() if speed is not None]
        level = "fatal" if sxm and len(there) > 1 else "degraded"
        if sxm and len(there) > 1 and not gpu.links:
            add(
                gpu.label,
                "fatal",
                "no NVLink is listed",
                "%s links" % (want[0] if want else counts or "its"),
                "reboot the box, then " + BACK,
                key="nvlink",
            )
        elif dead and not live and not sxm:
            continue  # no bridge
        elif dead and not live and len(there) == 1:
            add(
                gpu.label,
                "warn",
                "all %d NVLinks inactive, one GPU in the box" % len(dead),
                "active",
                "nothing to do for one GPU",
                key="nvlink",
            )
        elif dead and live and as_wired:
            add(
                gpu.label,
                "warn",
                "NVLink %s inactive (%d of %d), on every GPU as many"
                % (", ".join(map(str, dead[:6])), len(dead), len(gpu.links)),
                "every pair has an NVLink: a board may wire only some of them",
                "nothing, or say how many were paid for: --expect nvlink=N",
                key="nvlink",
            )
        elif dead:
            add(
                gpu.label,
                level,
                "NVLink %s inactive (%d of %d)"
                % (", ".join(map(str, dead[:6])), len(dead), len(gpu.links)),
                "none inactive (NVIDIA Health Validation, Azure NHC)",
                "reboot the box; if it stays, " + BACK,
                key="nvlink",
            )
        elif (
            counts
            and not any(text.startswith("nvlink") for text in box.problems)
            and len(gpu.links)
            < max(counts, want[0] if sxm and want and "GH200" not in gpu.name else 0)
        ):
            add(
                gpu.label,
                level,
                "%d NVLinks listed" % len(gpu.links),
                "%d" % max(counts, want[0] if sxm and want else 0),
                "reboot the box; if it stays, " + BACK,
                key="nvlink",
            )
        elif live and (min(live) < 0.95 * max(live) or (want and min(live) < 0.9 * want[1])):
            add(
                gpu.label,
                "degraded",
                "an NVLink at %.3f GB/s" % min(live),
                "%.3f GB/s" % (want[1] if want else max(live)),
                "reboot the box; if it stays, " + BACK,
                key="nvlink",
            )
    cells = [cell for (one, two), cell in box.topo.items() if one != two]
    common = usual(cells)
    if (
        cells
        and not any(cell.startswith("NV") for cell in cells)
        and len(there) > 1
        and all((sku_of(gpu.name) or {}).get("p2p") == "nvlink" for gpu in there)
        and not any(add.has("nvlink", gpu.label) for gpu in there)
    ):
        add(
            None,
            "degraded",
            "topo -m: no pair of the %d GPUs is connected by NVLink (%s)" % (len(there), common),
            "NV and a number (gpud asks NVML)",
            "restart nvidia-fabricmanager or reboot the box; if it stays, " + BACK,
            key="nvlink",
        )
    if common and common.startswith("NV") and cells.count(common) * 2 > len(cells):
        by_gpu = {}
        for (one, two), cell in sorted(box.topo.items()):
            if one != two and cell != common:
                for end in (one, two):
                    by_gpu.setdefault(end, []).append((one, two, cell))
        while by_gpu:  # the GPU with most odd cells explains them
            gpu = max(sorted(by_gpu), key=lambda index: len(by_gpu[index]))
            one, two, cell = by_gpu[gpu][0]
            if not any(add.has("nvlink", end) or add.has("lost", end) for end in (one, two)):
                add(
                    gpu,
                    "degraded",
                    "topo -m: GPU%d to GPU%d is %s, the others %s" % (one, two, cell, common),
                    common,
                    "reboot the box; if it stays, " + BACK,
                    key="nvlink",
                )
            gone = set(by_gpu.pop(gpu))
            by_gpu = {
                end: [item for item in items if item not in gone] for end, items in by_gpu.items()
            }
            by_gpu = {end: items for end, items in by_gpu.items() if items}


def judge_use(box, add):
    """Memory in use, and by whom."""
    holders = [
        one
        for one in map(as_dict, as_list(box.proc.get("holders")))
        if isinstance(one.get("pid"), int)
    ]
    stuck = [one for one in holders if one.get("state") in ("D", "Z")]
    for one in stuck:
        add(
            None,
            "degraded",
            "process %s (%s) holds %s in state %s"
            % (
                one.get("pid"),
                short(one.get("name"), 40),
                ", ".join(map(str, as_list(one.get("devices")))),
                one["state"],
            ),
            "no holder in state D or Z",
            "abort the dead mount that it waits for, or reboot the box",
            "held",
            key="holder %s" % one.get("pid"),
        )
    for gpu in box.gpus:
        used = gpu.number("memory.used")
        if add.has("lost", gpu.label) or used is None or gpu.mig or gpu.vgpu:
            continue
        if not box.processes_known:
            if (
                used >= 1024
                and gpu.number("utilization.gpu") == 0
                and not gpu.says("display_active", "Enabled")
            ):
                add(
                    gpu.label,
                    "warn",
                    "%d MiB in use at 0 %% utilisation, and nothing tells by whom" % used,
                    "1024 MiB (ours; gcm 15 MiB)",
                    "nvidia-smi, fuser -v /dev/nvidia*",
                    "held",
                    key="use",
                )
            continue
        named = ["%s (pid %s)" % (short(one["name"], 60), one["pid"]) for one in gpu.processes]
        named += [
            "%s (pid %s)" % (short(one.get("name"), 40), one["pid"])
            for one in holders
            if gpu.node in as_list(one.get("devices"))
        ]
        screen = gpu.says("display_active", "Enabled")
        if named and used >= 1024:
            add(
                gpu.label,
                "warn",
                "%d MiB in use by %s" % (used, ", ".join(named[:3])),
                "1024 MiB (ours)",
                "another job is on this GPU: wait, or choose another",
                "held",
                key="use",
            )
        elif (
            used > 15
            and not screen
            and used < 1024
            and any(not one.get("screen") for one in gpu.processes)
        ):
            add(
                gpu.label,
                "warn",
                "%d MiB in use by %s" % (used, ", ".join(named[:3])),
                "15 MiB (gcm)",
                "another program is on this GPU",
                "held",
                key="use",
            )
        elif not named and used >= 1024 and not stuck:
            busy = gpu.number("utilization.gpu") or 0
            add(
                gpu.label,
                "warn" if busy or screen else "degraded",
                "%d MiB in use and no process listed%s"
                % (used, ", %d %% utilisation" % busy if busy else ""),
                "1024 MiB (ours; gcm 15 MiB)",
                "a process of another container, or one that died: fuser -v /dev/nvidia*, restart the container, or reboot",
                "held",
                key="use",
            )
        elif not named and used > 15 and not screen:
            add(
                gpu.label,
                "warn",
                "%d MiB in use and no process listed" % used,
                "15 MiB (gcm)",
                "fuser -v /dev/nvidia*",
                "held",
                key="use",
            )


NVIDIA_WORDS = {
    "IGNORE": "nothing to do",
    "RESTART_APP": "restart the job",
    "RESET_GPU": RESET,
    "RESTART_BM": "reboot the box",
    "RESTART_VM": "reboot the box",
    "CONTACT_SUPPORT": "ask the provider",
    "CHECK_MECHANICALS": "power cable: " + BACK,
    "UPDATE_SWFW": "versions of host and guest differ: ask the provider",
    "WORKFLOW_XID_48": RESET,
    "WORKFLOW_NVLINK_ERR": "reboot the box",
    "WORKFLOW_NVLINK5_ERR": RESET,
    "CHECK_UVM": "restart the job",
    "XID_154": "do what it says",
    "NONE_LISTED": "ask the provider",
    "WORKFLOW_XID_45": "look at the Xid next to it",
}
# NVIDIA's IGNORE says that the job may go on, not that the card is well.
XID_WORDS = {
    92: "finish, then ask for another card",
    157: "finish, then ask for another card",
    161: "finish, then ask for another card",
}
ANOTHERS = "nothing: this device isn't this job's or this container's"


def xid_words(code, level):
    action = XID.get(code, ("", "", ""))[1]
    if action == "IGNORE" and RANK[level] < RANK["unknown"]:
        return XID_WORDS.get(code, "finish what runs, then " + RESET)
    return NVIDIA_WORDS.get(action, "ask the provider")


def judge_log(box, add):
    """Xids, SXids and the driver's other bad lines, since the last boot, load of the driver, or reset of that GPU."""
    if box.log is None:
        return
    by_place = {gpu.bdf: gpu for gpu in box.gpus if gpu.bdf}
    radeons = {bdf(str(one.get("bdf"))): label for label, one in amd_cards(box)}
    own = (
        set(by_place)
        | set(radeons)
        | {bdf(str(one.get("bdf"))) for one in box.missing_cards if one.get("node") == "open"}
    )
    container = as_dict(box.proc.get("platform")).get("container") and box.gpus
    got = box.exit.get("dmesg.txt") or {"rc": 0, "timed_out": False}
    text_rc, wsl = got["rc"], as_dict(box.proc.get("platform")).get("wsl")
    if (
        (isinstance(text_rc, int) and text_rc != 0)
        or got["timed_out"]
        or wsl
        or not box.log["looks"]
    ):
        add(
            None,
            "warn" if box.log_excused else "unknown",
            "WSL's kernel log holds no Xids"
            if wsl
            else "the kernel log can't be read (dmesg_restrict, or a container without it)",
            "readable",
            "run as root on the host, or accept not knowing: --expect log=no",
            key="log",
        )
    elif box.recorded and box.log["odd"]:
        add(
            None,
            "unknown",
            "%d of %d lines of the kernel log look like no log"
            % (box.log["odd"], box.log["lines"]),
            "0",
            "look at the log by hand",
            key="log",
        )
    elif (
        box.recorded
        and not box.log["boot"]
        and (box.log["first"] is None or box.log["first"] > 300)
    ):
        told = box.gpus and all(gpu.raw("gpu_recovery_action") == "None" for gpu in box.gpus)
        add(
            None,
            "warn" if told or box.log_excused else "unknown",
            "the kernel log begins %s after boot: earlier lines are overwritten"
            % ("%d s" % box.log["first"] if box.log["first"] else "some time"),
            "it reaches back to the load of the driver",
            "journalctl -k -b as root",
            key="log",
        )
    new = [event for event in box.log["events"] if not event["old"] and event["level"] != "ok"]
    last_154 = {}
    for position, event in enumerate(new):
        if event["kind"] == "xid" and event["code"] == 154:
            last_154[event["bdf"]] = (position, event["level"])
    groups = {}
    for position, event in enumerate(new):
        level = event["level"]
        after = last_154.get(event["bdf"])
        if event["kind"] == "xid" and after and position <= after[0] and RANK[level] < RANK["warn"]:
            level = after[1]  # the driver's own last word on this GPU
        groups.setdefault((event["bdf"], event["kind"], event["code"]), []).append((level, event))
    for (place, kind, code), events in groups.items():
        worst = min((level for level, _ in events), key=RANK.get)
        if kind == "sxid" and any(event["word"] for _, event in events):
            worst = min((level for level, event in events if event["word"]), key=RANK.get)
        line = next(event["line"] for level, event in reversed(events) if level == worst)
        if kind == "sxid":
            line = next((event["line"] for _, event in events if event["word"]), line)
        if kind == "gsp" and any(event["code"] in (119, 120) for event in new):
            continue  # the Xid says it, and which GPU
        gpu = by_place.get(place)
        label = gpu.label if gpu else radeons.get(place, place) if kind != "sxid" else None
        evidence = short(line, 250) + (" (%d times)" % len(events) if len(events) > 1 else "")
        # A container, or a job on a part of a node, sees the whole host's log.
        elsewhere = (
            place and kind != "sxid" and (place in box.foreign or (container and place not in own))
        )
        if (
            elsewhere and box.spare_nodes and place not in box.foreign
        ):  # it may be this container's lost card
            elsewhere, worst = False, worst if worst == "warn" else "unknown"
        elif elsewhere:
            worst = "warn"
        if kind == "xid":
            if code == 79 and gpu is not None and add.has("lost", gpu.label):
                continue
            level, action, what = XID.get(
                code, ("unknown", "", "a number that this table doesn't know")
            )
            words = (
                "NVIDIA: %s. Ours: %s" % (action, ANOTHERS if elsewhere else xid_words(code, worst))
                if action
                else "look it up in NVIDIA's Xid catalogue"
            )
            if worst == "fatal" and BACK not in words:
                words += "; if it comes back, " + BACK
            add(
                label,
                worst,
                evidence,
                "no Xid %d since boot, load of the driver or reset: %s (NVIDIA Xid catalogue)"
                % (code, what),
                words,
                XID_ENTRY.get(code, ""),
                key="xid %d %s" % (code, place),
            )
        elif kind == "sxid":
            action = {
                "fatal": "reboot the box; every GPU on the switch is affected; if it comes back, "
                + BACK,
                "degraded": "finish, then reboot the box",
            }.get(worst, "watch it")
            add(
                None,
                worst,
                evidence,
                "no SXid %d (%s)"
                % (
                    code,
                    {
                        "always": "fatal by gpud's table",
                        "maybe": "fatal when the line says so, gpud's table",
                        "never": "not fatal by gpud's table",
                    }.get(SXID.get(code), "not in gpud's table"),
                ),
                "ours: " + action,
                key="sxid %d %s" % (code, place),
            )
        else:
            if (
                kind in HOST_KINDS
                and as_dict(box.proc.get("platform")).get("container")
                and RANK[worst] < RANK["warn"]
            ):
                worst = "warn"  # the host's log: another's disk or mount
            add(
                label,
                worst,
                evidence,
                "no such line since boot%s"
                % ("" if kind in HOST_KINDS else " or load of the driver"),
                ANOTHERS if elsewhere and kind not in HOST_KINDS else LOG_ACTION[kind],
                "" if kind in HOST_KINDS else kind,
                key="mismatch" if kind == "mismatch" else "%s %s" % (kind, place),
            )


def judge_system(box, add):
    """Disks, inodes, /dev/shm, memory, device nodes. Thresholds are ours unless the line says otherwise."""
    seen = set()
    for path, disk in sorted(as_dict(box.proc.get("disks")).items()):
        path = short(path, 80)
        if disk is None:
            add(
                None,
                "degraded",
                "%s does not answer" % path,
                "a mount answers within 3 s",
                "a dead network mount: abort it, or reboot the box",
                key="disk " + path,
            )
            continue
        disk = as_dict(disk)
        if "error" in disk:
            if path == "/dev/shm" or disk["error"] == "No such file or directory":
                continue
            add(
                None,
                "unknown",
                "%s: %s" % (path, disk["error"]),
                "readable",
                "choose another path",
                key="disk " + path,
            )
            continue
        values = [disk.get(name) for name in ("total_mib", "free_mib", "inodes", "inodes_free")]
        if not all(isinstance(value, (int, float)) and value >= 0 for value in values):
            add(
                None,
                "unknown",
                "%s: size can't be read" % path,
                "numbers",
                "df %s" % path,
                key="disk " + path,
            )
            continue
        total, free, inodes, inodes_free = values
        if path == "/dev/shm":
            if 0 < total <= 64:
                add(
                    None,
                    "degraded",
                    "/dev/shm has %d MiB" % total,
                    "more than 64 MiB, docker's default: DataLoader workers die with a bus error",
                    "start the container with --shm-size or --ipc=host",
                    "shm",
                    key="shm",
                )
            elif total < 1024:
                add(
                    None,
                    "warn",
                    "/dev/shm has %d MiB" % total,
                    "1024 MiB",
                    "few workers, or a larger --shm-size",
                    "shm",
                    key="shm",
                )
            elif free < 64:
                add(
                    None,
                    "degraded",
                    "/dev/shm has %d MiB free" % free,
                    "64 MiB free",
                    "remove what dead jobs left there",
                    "shm",
                    key="shm",
                )
            continue
        place = disk.get("id") or (total, free, inodes)
        if disk.get("read_only") or total == 0 or place in seen:
            continue
        seen.add(place)
        if free < 512:
            add(
                None,
                "fatal",
                "%s: %d MiB free of %d" % (path, free, total),
                "512 MiB free",
                "free space before anything is started: a checkpoint would be cut",
                "disk",
                key="disk " + path,
            )
        elif free < 5120:
            add(
                None,
                "degraded",
                "%s: %d MiB free of %d" % (path, free, total),
                "5 GiB free",
                "free space, or write elsewhere",
                "disk",
                key="disk " + path,
            )
        elif free < 0.03 * total and free < 51200:
            add(
                None,
                "warn",
                "%s: %d MiB free of %d" % (path, free, total),
                "3 % free, or 50 GiB",
                "look at the size of your checkpoints",
                "disk",
                key="disk " + path,
            )
        if inodes and inodes_free < 100:
            add(
                None,
                "fatal",
                "%s: %d inodes free of %d" % (path, inodes_free, inodes),
                "100 free",
                "remove small files (caches, datasets)",
                "inodes",
                key="inodes " + path,
            )
        elif inodes and inodes_free < 0.02 * inodes:
            add(
                None,
                "degraded",
                "%s: %d inodes free of %d" % (path, inodes_free, inodes),
                "2 % free",
                "remove small files (caches, datasets)",
                "inodes",
                key="inodes " + path,
            )
    limits, memory = as_dict(box.proc.get("cgroup")), as_dict(box.proc.get("memory"))
    limit, used = limits.get("limit_mib"), limits.get("used_mib")
    if (
        isinstance(limit, (int, float))
        and isinstance(used, (int, float))
        and limit > 0
        and used > 0.95 * limit
    ):
        add(
            None,
            "degraded",
            "memory: %d of %d MiB of the container's limit in use" % (used, limit),
            "0.95 of the limit",
            "end other processes, or ask for a larger limit",
            "container memory",
            key="memory",
        )
    elif (
        isinstance(memory.get("available_mib"), (int, float))
        and isinstance(memory.get("total_mib"), (int, float))
        and memory["total_mib"] > 0
        and memory["available_mib"] < 1024
    ):
        add(
            None,
            "degraded",
            "memory: %d of %d MiB available" % (memory["available_mib"], memory["total_mib"]),
            "1024 MiB",
            "end other processes",
            key="memory",
        )
    for one in map(as_dict, as_list(box.proc.get("dev"))):
        if one.get("error") and re.match(r"/dev/nvidia(\d+|ctl)$", str(one.get("path"))):
            add(
                None,
                "fatal",
                "%s: %s" % (one["path"], one["error"]),
                "the node can be opened",
                "the container's device list lacks it (cgroup): restart the container",
                "no_runtime",
                key="node",
            )
    switches, manager = box.proc.get("nvswitches"), box.proc.get("fabricmanager", "")
    told = any("Completed" in (gpu.raw("fabric.state") or "") for gpu in box.gpus)
    if (
        isinstance(switches, int)
        and switches > 0
        and len(box.gpus) > 1
        and manager is False
        and not as_dict(box.proc.get("platform")).get("container")
    ):
        add(
            None,
            "degraded" if told else "fatal",
            "%d NVSwitches and no nv-fabricmanager runs" % switches,
            "it runs; without it CUDA can't start on this board (gpud)",
            "systemctl start nvidia-fabricmanager; its version is the driver's",
            key="fabricmanager",
        )
    for name in as_list(box.proc.get("unfinished")):
        if name not in ("gather_disks",):
            add(
                None,
                "unknown",
                "%s did not come to its end" % short(name, 120),
                "every part ends in time",
                "run it again",
                key="late %s" % name,
            )
    where = as_dict(box.proc.get("platform"))
    for one in box.missing_cards if not where.get("wsl") else []:
        place = bdf(str(one.get("bdf")))
        if one.get("node") == "open":
            add(
                place,
                "fatal",
                "the card at %s has the nvidia driver and nvidia-smi doesn't know it"
                % short(one.get("bdf")),
                "every card answers whose device node may be opened",
                "look for RmInitAdapter in the kernel log; reboot, then " + BACK,
                key="lost",
            )
    untold = [
        one
        for one in box.missing_cards
        if "node" not in one and not add.has("lost", bdf(str(one.get("bdf"))))
    ]
    if untold and not where.get("container") and not where.get("wsl"):
        add(
            None,
            "unknown",
            "%d of %d NVIDIA cards are not shown by nvidia-smi: lost, or another job's"
            % (len(untold), len(nvidia_cards(box))),
            "/proc/driver/nvidia/gpus tells which device node is whose",
            "compare with the number of GPUs that were asked for: --expect gpus=N",
            key="count",
        )
    if box.spare_nodes and not any(key in ("lost", "count") for key, _ in add.keys):
        add(
            None,
            "unknown",
            "%d device nodes /dev/nvidiaN and %d GPUs answer"
            % (len(box.gpus) + box.spare_nodes, len(box.gpus)),
            "a GPU for each node",
            "a GPU of this container may have fallen off: restart the container; if it stays away, "
            + BACK,
            key="count",
        )


def judge_torch(box, add):
    torch = as_dict(box.proc.get("torch"))
    if not torch:
        return
    python = short(torch.get("python"), 60)
    if torch.get("failed") or ("error" in torch and "torch" not in torch):
        add(
            None,
            "unknown",
            "%s: %s" % (python, torch.get("error")),
            "torch can be imported",
            "install torch there, or give the job's own --python",
            key="torch",
        )
    elif not torch.get("available"):
        error = str(torch.get("error", ""))
        old = "driver" in error and "old" in error
        add(
            None,
            "fatal",
            "torch %s (CUDA %s) finds no GPU: %s"
            % (
                short(torch.get("torch"), 40),
                torch.get("cuda"),
                short(error or "is_available() is False", 160),
            ),
            "torch.cuda.is_available()",
            "install a torch for this driver, or take a box with a newer one"
            if old
            else "CPU-only torch, hidden devices, or a broken driver: see the text",
            "torch_driver" if old else "",
            key="torch",
        )
    for one in map(as_dict, as_list(torch.get("devices"))):
        if not one.get("ok"):
            error = str(one.get("error", "a wrong sum"))
            add(
                one.get("index") if isinstance(one.get("index"), int) else None,
                "fatal",
                "a small kernel failed: %s" % short(error, 200),
                "it runs and its sum is right",
                "install a torch with kernels for this card"
                if "no kernel image" in error
                else "restart the job; then reset the GPU",
                "arch" if "no kernel image" in error else "",
                key="torch",
            )


def amd_cards(box):
    """[(label, card)]. Beside NVIDIA GPUs that answer, a Ryzen's own graphics is not one to train on, and a label is a place."""
    cards = [
        one
        for one in map(as_dict, as_list(box.proc.get("pci")))
        if one.get("vendor") == "0x1002"
        and one.get("driver") in ("amdgpu", "")
        and str(one.get("mem_info_vram_total", "")).isdigit()
    ]
    if not box.gpus:
        return list(enumerate(cards))
    return [
        (bdf(str(one.get("bdf"))), one)
        for one in cards
        if one.get("ras") or not str(one.get("class")).startswith("0x03")
    ]


def judge_amd(record, box, add):
    """AMD through sysfs, and amd-smi where it is. Level of the facts, section 8."""
    cards = amd_cards(box)
    labels, untold = [label for label, _ in cards], set()
    for index, one in cards:
        if not any(
            re.search(r"ue: \d{1,9}", str(text)) for text in as_dict(one.get("ras")).values()
        ):
            untold.add(index)
        for name, text in sorted(as_dict(one.get("ras")).items()):
            found = re.search(r"ue: (\d{1,9})", str(text))
            if found and int(found.group(1)):
                add(
                    index,
                    "fatal",
                    "%s: %s" % (name, text),
                    "ue: 0",
                    "reboot the box, or hand it back",
                    key="ras",
                )
        now, most = (
            number(str(one.get("current_link_width", ""))),
            number(str(one.get("max_link_width", ""))),
        )
        if now and most and now < most:
            add(
                index,
                "degraded",
                "PCIe width x%d of x%d" % (now, most),
                "the widest the card can",
                "reboot; if it stays, " + BACK,
                key="width",
            )
    for name in ("amd-metric.json", "amd-bad-pages.json"):
        text = record["files"].get(name)
        if not text:
            continue
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError):
            add(None, "unknown", "%s can't be read" % name, "JSON", "run amd-smi by hand", key=name)
            continue
        ended = (box.exit.get(name) or {"rc": 0})["rc"]
        for index, one in enumerate(as_list(answer) or as_list(as_dict(answer).get("gpu_data"))):
            index = labels[index] if index < len(labels) else index
            for key, value in leaves_of(one):
                if (
                    name == "amd-metric.json"
                    and ended == 0
                    and re.search(r"uncorrectable", key)
                    and isinstance(value, int)
                ):
                    untold.discard(index)
                if (
                    name == "amd-metric.json"
                    and re.match(r"(total_)?uncorrectable(_count)?$", key)
                    and isinstance(value, int)
                    and value > 0
                ):
                    add(
                        index,
                        "fatal",
                        "amd-smi metric: %s %d" % (key, value),
                        "0",
                        "reboot the box, or hand it back",
                        key="ras",
                    )
                if (
                    name == "amd-bad-pages.json"
                    and key == "status"
                    and str(value).upper() in ("PENDING", "UN_RES", "UNRESERVABLE")
                ):
                    add(
                        index,
                        "degraded",
                        "amd-smi bad-pages: %s" % short(value, 20),
                        "none pending",
                        "reboot the box",
                        key="pages",
                    )
    if untold and box.recorded:
        add(
            None,
            "unknown",
            "%d of %d AMD GPUs, and neither amd-smi nor ras files tell their ECC state"
            % (len(untold), len(cards)),
            "amd-smi metric --ecc, bad-pages",
            "install amd-smi, or run it on the host",
            key="amd",
        )


def leaves_of(value, key="", depth=0):
    """(key, leaf) of a JSON value, ten levels deep."""
    if depth < 10 and isinstance(value, dict):
        return [
            leaf
            for name, one in value.items()
            for leaf in leaves_of(one, key if name == "value" else str(name), depth + 1)
        ]
    if depth < 10 and isinstance(value, list):
        return [leaf for one in value[:1000] for leaf in leaves_of(one, key, depth + 1)]
    return [(key, value)]


# ---------------------------------------------------------------------------------------------------------------------------------------
# Expectations: what was paid for, and what the job needs.

EXPECT = {  # name -> kind of its value, what it is
    "gpus": ("count", "number of GPUs"),
    "name": ("text", "part of the card's name"),
    "vram": (
        "memory",
        "GiB of each card (80, 80GB, 81920MiB), 0.90 accepted; under MIG of the largest instance",
    ),
    "nvlink": ("links", "all, or links a GPU"),
    "driver": ("version", "version"),
    "torch": ("build", "version, or its CUDA as cu130 (needs --python)"),
    "cuda": ("build", "of torch (needs --python)"),
    "cc": ("version", "compute capability"),
    "bf16": ("yes", "yes or no"),
    "fp8": ("yes", "yes or no"),
    "p2p": ("yes", "yes or no"),
    "pcie": ("count", "width"),
    "pciegen": ("count", "highest generation"),
    "ecc": ("yes", "on or off"),
    "mig": ("yes", "on or off"),
    "disk": ("size", "GiB free on the largest writable path (500, 500GB, 4TiB)"),
    "shm": ("size", "GiB of /dev/shm"),
    "ram": ("size", "GiB"),
    "log": ("yes", "no: this box's kernel log can't be read, don't hold it against the box"),
}
KINDS = {  # kind -> what is expected, the operators it can have
    "count": ("a number", "= == >= <= > <"),
    "size": ("a size: 500, 500GB, 500GiB or 4TB", "= == >= <= > <"),
    "memory": ("a size: 80, 80GB or 81920MiB", "= == >= <= > <"),
    "version": ("a version: 550 or 9.0", "= == >= <= > <"),
    "build": ("a version or a CUDA: 2.6, or cu130 with =", "= == >= <= > <"),
    "links": ("all or a number", "= == >="),
    "yes": ("yes or no", "= =="),
    "text": ("a word", "= =="),
}
YES, NO = ("yes", "on", "true", "1", "enabled"), ("no", "off", "false", "0", "disabled")
GIB = {
    "": 1.0,
    "g": 1.0,
    "gib": 1.0,
    "gb": 1e9 / (1 << 30),
    "t": 1024.0,
    "tib": 1024.0,
    "tb": 1e12 / (1 << 30),
    "m": 1 / 1024.0,
    "mib": 1 / 1024.0,
    "mb": 1e6 / (1 << 30),
}


def value_of(kind, text):
    """The value that a text is, or None when it is none of its kind."""
    low = text.lower()
    if kind == "text":
        return text
    if kind == "yes":
        return True if low in YES else False if low in NO else None
    if kind == "links" and low == "all":
        return "all"
    if kind in ("count", "links"):
        found = re.match(r"(?:x|gen)?(\d{1,6})$", low)
        return int(found.group(1)) if found else None
    if kind in ("size", "memory"):
        found = re.match(r"(\d{1,9}(?:\.\d{1,3})?) ?([a-z]{0,3})$", low)
        unit = found.group(2) if found else "?"
        unit = (
            unit[:1] + "ib" if kind == "memory" and unit in ("gb", "tb", "mb") else unit
        )  # a card of 80 GB has 80 GiB
        return float(found.group(1)) * GIB[unit] if unit in GIB else None
    if kind == "build" and re.match(r"cu\d{2,4}$", low):
        return low
    return version(low) if re.match(r"v?\d{1,6}(?:\.\d{1,6}){0,4}$", low) else None


def expectations_of(text):
    """'gpus=8,driver>=550' -> [(name, operator, value as typed, value)]. Raises ValueError with what was found, what is expected, what to do."""
    out = []
    for part in (text or "").split(","):
        if not part.strip():
            continue
        found = re.match(r"\s*([a-z0-9]+)\s*(>=|<=|==|=|>|<)\s*(\S.*?)\s*$", part)
        if not found or found.group(1) not in EXPECT:
            raise ValueError(
                "--expect: can't read %r; expected NAME=VALUE, with NAME one of %s"
                % (part.strip(), ", ".join(sorted(EXPECT)))
            )
        what, operator, want = found.groups()
        kind = EXPECT[what][0]
        words, operators = KINDS[kind]
        value = value_of(kind, want)
        if (
            value is None
            or operator not in operators.split()
            or (kind == "build" and isinstance(value, str) and operator not in ("=", "=="))
        ):
            raise ValueError(
                "--expect: found %r, expected %s, one of %s, and %s; do: --expect help tells what each name takes"
                % (short(part, 60), what, operators, words)
            )
        out.append((what, operator, want, value))
    return out


def compare(got, operator, want):
    if isinstance(got, tuple):
        got = got[: len(want)] if operator in ("=", "==") else got
    return {
        "=": got == want,
        "==": got == want,
        ">=": got >= want,
        "<=": got <= want,
        ">": got > want,
        "<": got < want,
    }[operator]


def judge_expectations(box, expectations, add):
    cards = amd_cards(box)
    torch, answered = (
        as_dict(box.proc.get("torch")),
        [gpu for gpu in box.gpus if gpu.seen - {"list", "nvlink"} or not box.sources],
    )
    disks = [
        as_dict(disk)
        for path, disk in as_dict(box.proc.get("disks")).items()
        if path != "/dev/shm"
        and isinstance(as_dict(disk).get("free_mib"), (int, float))
        and not as_dict(disk).get("read_only")
    ]
    shm = as_dict(as_dict(box.proc.get("disks")).get("/dev/shm")).get("total_mib")
    ram = as_dict(box.proc.get("cgroup")).get("limit_mib") or as_dict(box.proc.get("memory")).get(
        "total_mib"
    )
    told = bool(answered or cards) or any(kind == "no_devices" for kind, _ in box.failures)

    def miss(gpu, what, got, operator, want, entry="sku"):
        add(
            gpu,
            "fatal",
            "%s: %s" % (what, got),
            "expected %s%s%s" % (what, operator, want),
            "not what was paid for, or not what the job needs: change the box or the job, or "
            + BACK,
            entry,
            key="expect " + what,
        )

    def unknown(what, operator, want):
        add(
            None,
            "unknown",
            "%s could not be read" % what,
            "expected %s%s%s" % (what, operator, want),
            "find out by hand",
            key="expect " + what,
        )

    for what, operator, want, value in expectations:
        if what == "log":
            continue
        if what == "gpus":
            listed = len({gpu.label for gpu in box.gpus}) + len(cards)
            if not told and not box.gpus:
                unknown(what, operator, want)
            elif not compare(listed, operator, value):
                miss(None, what, str(listed), operator, want)
        elif what in ("disk", "shm", "ram"):
            got = (
                max([disk["free_mib"] for disk in disks] or [0])
                if what == "disk"
                else shm
                if what == "shm"
                else ram
            )
            if not isinstance(got, (int, float)) or not got:
                unknown(what, operator, want)
            elif not compare(got / 1024.0, ">=" if operator in ("=", "==") else operator, value):
                miss(
                    None,
                    what,
                    "%.1f GiB" % (got / 1024.0),
                    operator,
                    want,
                    "shm" if what == "shm" else "disk" if what == "disk" else "",
                )
        elif what in ("torch", "cuda"):
            if not torch.get("torch"):
                unknown(what, operator, want)
            elif (
                isinstance(value, str)
                and "cu" + str(torch.get("cuda") or "").replace(".", "") != value
            ):
                miss(
                    None,
                    what,
                    "%s, CUDA %s" % (short(torch["torch"], 40), torch.get("cuda")),
                    operator,
                    want,
                    "torch_driver",
                )
            elif not isinstance(value, str) and not compare(
                version(torch["torch"] if what == "torch" else torch.get("cuda")), operator, value
            ):
                miss(
                    None,
                    what,
                    short(torch["torch"] if what == "torch" else torch.get("cuda"), 40),
                    operator,
                    want,
                    "",
                )
        elif what == "driver":
            if not box.driver:
                unknown(what, operator, want)
            elif not compare(version(box.driver), operator, value):
                miss(None, what, box.driver, operator, want, "torch_driver")
        elif what == "vram" and cards:
            for label, one in cards:
                enough(
                    label,
                    int(one["mem_info_vram_total"]) / float(1 << 30),
                    operator,
                    want,
                    value,
                    miss,
                )
        elif not answered:
            unknown(what, operator, want)
        for gpu in (
            answered
            if what not in ("gpus", "disk", "shm", "ram", "torch", "cuda", "driver")
            else []
        ):
            if not add.has("lost", gpu.label):
                expect_of_gpu(gpu, what, operator, want, value, miss, unknown, add)


def enough(label, gib, operator, want, value, miss, where=""):
    if not compare(
        gib,
        ">=" if operator in ("=", "==") else operator,
        value * (0.9 if operator in ("=", "==", ">=") else 1.0),
    ):
        miss(label, "vram", "%.1f GiB%s" % (gib, where), operator, want)


def expect_of_gpu(gpu, what, operator, want, value, miss, unknown, add):
    sku = sku_of(gpu.name)
    if what == "name":
        if not gpu.name:
            unknown(what, operator, want)
        elif want.lower().replace(" ", "") not in gpu.name.lower().replace(" ", ""):
            miss(gpu.label, what, gpu.name, operator, want)
        elif add.has("identity", gpu.label) and len(set(gpu.cells.get("name", []))) > 1:
            miss(gpu.label, what, " and ".join(sorted(gpu.cells["name"])), operator, want)
    elif what == "vram":
        got = gpu.number("memory.total")
        slices = [
            int(size) for name in gpu.migs or [] for size in re.findall(r"\.(\d{1,4})gb", name)
        ]  # 3g.40gb
        if gpu.mig and slices:
            enough(
                gpu.label, max(slices), operator, want, value, miss, " in the largest MIG instance"
            )
        elif got is None or gpu.mig:
            unknown(what, operator, want)
        else:
            enough(gpu.label, got / 1024.0, operator, want, value, miss)
    elif what == "nvlink":
        live = [speed for speed in (gpu.links or {}).values() if speed is not None]
        known = next((links for pattern, links, _ in NVLINKS if re.search(pattern, gpu.name)), None)
        need = value if value != "all" else max(known or 1, len(gpu.links or {}))
        if gpu.links is None:
            unknown(what, operator, want)
        elif len(live) < need and not (add.has("nvlink", gpu.label) and live):
            miss(gpu.label, what, "%d active links" % len(live), operator, want, "")
        elif len(live) < need:
            for one in add.list:  # one fault, one finding: raised to what was paid for
                if one["gpu"] == gpu.label and "NVLink" in one["evidence"]:
                    one["level"] = "fatal"
    elif what in ("bf16", "fp8"):
        if sku is None:
            unknown(what, operator, want)
        elif sku[what] != value:
            miss(
                gpu.label,
                what,
                "%s: %s" % (gpu.name, "yes" if sku[what] else "no"),
                operator,
                want,
                "bf16" if what == "bf16" else "",
            )
    elif what == "p2p":
        if sku is None:
            unknown(what, operator, want)
        elif (sku["p2p"] != "none") != value:
            miss(gpu.label, what, "%s: %s" % (gpu.name, sku["p2p"]), operator, want, "")
    elif what == "cc":
        got = (
            gpu.raw("compute_cap")
            if state(gpu.raw("compute_cap")) == "value"
            else (sku or {}).get("compute_cap")
        )
        if not got:
            unknown(what, operator, want)
        elif not compare(version(got), operator, value):
            miss(gpu.label, what, got, operator, want)
    elif what in ("pcie", "pciegen"):
        got = gpu.number("pcie.link.width.current" if what == "pcie" else "pcie.link.gen.max")
        if got is None:
            unknown(what, operator, want)
        elif not compare(got, ">=" if operator == "=" else operator, value):
            miss(gpu.label, what, "%d" % got, operator, want)
        elif what == "pcie":  # said to be wired so: no longer a fault
            add.list[:] = [
                one
                for one in add.list
                if not (one["gpu"] == gpu.label and one["evidence"].startswith("PCIe width"))
            ]
    elif what in ("ecc", "mig"):
        got = gpu.raw(what + ".mode.current")
        if state(got) != "value":
            if value:
                miss(gpu.label, what, "not available", operator, want)
        elif (got == "Enabled") != value:
            if not (what == "ecc" and add.has("eccmode", gpu.label)):
                miss(gpu.label, what, got, operator, want, "")
        elif what == "ecc" and not value:
            add.list[:] = [
                one
                for one in add.list
                if not (one["gpu"] == gpu.label and one["evidence"] == "ECC mode Disabled")
            ]


# ---------------------------------------------------------------------------------------------------------------------------------------
# Stress: load on all GPUs at once, as training has it. Off by default. Needs torch on the box; never run on fewer than the visible GPUs.

STRESS_WORKER = r"""
import json, sys, time
config = json.loads(sys.argv[1])

def say(**values):
    print("GPU_HEALTH " + json.dumps(values), flush=True)

say(stage="import")
import torch
kind = config.get("device", "cuda")
devices = [torch.device(kind, i) for i in range(torch.cuda.device_count())] if kind == "cuda" else [torch.device("cpu")]
if not devices or (kind == "cuda" and not torch.cuda.is_available()):
    say(stage="failed", error="torch sees no GPU")
    sys.exit(0)

def wait(device):
    if kind == "cuda":
        torch.cuda.synchronize(device)

def mark(result):  # bit for bit: the sum of the bits, and a sum in which the place counts
    bits = result.contiguous().view(torch.int16).flatten().to(torch.int64)
    place = torch.arange(bits.numel(), device=bits.device, dtype=torch.int64) % 8191 + 1
    return [int(bits.sum().item()), int((bits * place).sum().item())]

small = config.get("size")
for device in devices:
    if kind == "cuda":
        free = torch.cuda.mem_get_info(device)[0]
        if free < 3 << 30:
            say(stage="failed", gpu=device.index, error="%d MiB free on GPU %d, the load needs 3 GiB" % (free >> 20, device.index))
            sys.exit(0)
capable = kind != "cuda" or all(torch.cuda.get_device_capability(device)[0] >= 8 for device in devices)
dtype, size = (torch.bfloat16 if capable else torch.float16), small or 8192
seed = torch.Generator().manual_seed(20)
left, right = ((torch.rand(size, size, generator=seed) - 0.5).to(dtype) for _ in range(2))
work = {}
say(stage="matmul", dtype=str(dtype), size=size)
for device in devices:
    a, b = left.to(device), right.to(device)
    out = torch.empty(size, size, device=device, dtype=dtype)
    torch.mm(a, b, out=out)
    wait(device)
    work[device] = {"a": a, "b": b, "out": out, "first": mark(out), "other": 0, "runs": 0, "spent": 0.0, "checks": 1}
until, batch = time.monotonic() + config["seconds"] * 0.7, config.get("batch", 20)
while time.monotonic() < until:
    events = {}
    for device, one in work.items():
        if kind == "cuda":
            with torch.cuda.device(device):
                events[device] = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
                events[device][0].record()
                for _ in range(batch):
                    torch.mm(one["a"], one["b"], out=one["out"])
                events[device][1].record()
        else:
            began = time.monotonic()
            for _ in range(batch):
                torch.mm(one["a"], one["b"], out=one["out"])
            one["spent"] += time.monotonic() - began
    for device, one in work.items():
        wait(device)
        if kind == "cuda":
            one["spent"] += events[device][0].elapsed_time(events[device][1]) / 1000
        one["runs"] += batch
        one["checks"] += 1
        one["other"] += mark(one["out"]) != one["first"]
for device, one in work.items():
    say(stage="matmul done", gpu=device.index or 0, name=torch.cuda.get_device_name(device) if kind == "cuda" else "cpu", mark=one["first"], checks=one["checks"], differ=one["other"],
        tflops=round(2 * size ** 3 * one["runs"] / one["spent"] / 1e12, 2))
for one in work.values():
    one.clear()
block = (small or 16384) ** 2
for device in devices:
    say(stage="memory copy", gpu=device.index or 0)
    source, target = (torch.zeros(block, device=device, dtype=torch.float32) for _ in range(2))
    target.copy_(source)
    wait(device)
    began = time.monotonic()
    for _ in range(20):
        target.copy_(source)
    wait(device)
    copied = 2 * 20 * block * 4 / (time.monotonic() - began) / 1e9
    host = torch.zeros(block // 4, dtype=torch.float32)
    host = host.pin_memory() if kind == "cuda" else host
    target[: block // 4].copy_(host)
    wait(device)
    began = time.monotonic()
    for _ in range(10):
        target[: block // 4].copy_(host, non_blocking=True)
    wait(device)
    say(stage="copy done", gpu=device.index or 0, copy_gb_s=round(copied, 1), h2d_gb_s=round(10 * block / (time.monotonic() - began) / 1e9, 2))
    del source, target, host
if kind == "cuda" and len(devices) > 1:
    say(stage="all-reduce")
    import torch.cuda.nccl
    tensors = [torch.full((block // 4,), float(device.index + 1), device=device) for device in devices]
    torch.cuda.nccl.all_reduce(tensors)
    for device in devices:
        wait(device)
    want = float(sum(range(1, len(devices) + 1)))
    right = [bool((tensor == want).all().item()) for tensor in tensors]
    began = time.monotonic()
    for _ in range(10):
        torch.cuda.nccl.all_reduce(tensors)
    for device in devices:
        wait(device)
    spent = time.monotonic() - began
    say(stage="all-reduce done", right=right, bus_gb_s=round(10 * block * 2 * (len(devices) - 1) / len(devices) / spent / 1e9, 1))
say(stage="end")
"""

# GB/s of one lane: PCI-SIG line rates less their coding.
LANE = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.56}


def stress(seconds, python, record, device="cuda", size=None):
    """-> (what was measured, findings). Samples clocks and reasons beside the load, and reads the kernel log again after it."""
    samples, stop = [], threading.Event()
    smi = shutil.which("nvidia-smi")
    fields = [
        "index",
        "temperature.gpu",
        "power.draw",
        "clocks.current.sm",
        "clocks_throttle_reasons.active",
    ]

    def sample():
        while not stop.wait(2.0):
            got = run([smi, "--query-gpu=" + ",".join(fields), "--format=csv"], 10.0)
            if got["timed_out"]:
                samples.append({"hung": True})
                return
            rows, _ = parse_csv(got["text"], [fields])
            samples.append({"rows": rows})

    if not any(one["timed_out"] for one in map(exit_of, record["exit"].values())) and smi:
        threading.Thread(target=sample, daemon=True).start()
    got = run(
        [
            python,
            "-c",
            STRESS_WORKER,
            json.dumps({"seconds": seconds, "device": device, "size": size}),
        ],
        seconds * 2 + 90.0,
    )
    stop.set()
    again = {"files": {}, "exit": {}}
    gather_log(again, run, 10.0)
    return judged_stress(got, samples, record, again["files"].get("dmesg.txt", ""))


def judged_stress(got, samples, record, log_after):
    """Pure: the worker's answer, the samples beside it and the log after it -> (what was measured, findings)."""
    add, lines = Findings(), []
    for line in clean(got["text"]).splitlines():
        if line.startswith("GPU_HEALTH "):
            try:
                lines.append(as_dict(json.loads(line[11:])))
            except (ValueError, RecursionError):
                continue
    lines = [line for line in lines if isinstance(line.get("stage"), str)]
    stages = [str(one.get("stage")) for one in lines]
    matmul = [
        one
        for one in lines
        if one.get("stage") == "matmul done" and isinstance(one.get("tflops"), (int, float))
    ]
    copies = [one for one in lines if one.get("stage") == "copy done"]
    reduced = [one for one in lines if one.get("stage") == "all-reduce done"]
    box = parse(record)
    measured = {
        "matmul": [
            {key: one.get(key) for key in ("gpu", "name", "tflops", "checks", "differ")}
            for one in matmul
        ],
        "copy": [{key: one.get(key) for key in ("gpu", "copy_gb_s", "h2d_gb_s")} for one in copies],
        "all_reduce_bus_gb_s": reduced[-1].get("bus_gb_s") if reduced else None,
        "dtype": next((one.get("dtype") for one in lines if one.get("dtype")), None),
    }
    failed = next((one for one in lines if one.get("stage") == "failed"), None)
    last = next((one for one in reversed(lines)), {})
    if failed:
        add(
            failed.get("gpu"),
            "unknown",
            "stress: %s" % short(failed.get("error")),
            "the load runs",
            "free the GPU, or give the job's --python",
            key="stress",
        )
    elif got["timed_out"]:
        add(
            last.get("gpu"),
            "fatal",
            "stress: no answer in the stage %s" % short(last.get("stage", "start"), 40),
            "each stage ends",
            "reboot the box; a hang in all-reduce: set NCCL_P2P_DISABLE=1 and try again",
            "stuck" if last.get("stage") == "all-reduce" else "",
            key="stress",
        )
    elif not stages or stages == ["import"]:
        add(
            None,
            "unknown",
            "stress: %s" % short(got["text"] or "the interpreter gave no answer", 200),
            "torch in the interpreter",
            "give the job's --python",
            key="stress",
        )
    elif stages[-1] != "end":
        add(
            last.get("gpu"),
            "fatal",
            "stress: ended in the stage %s: %s"
            % (short(last.get("stage"), 40), short(got["text"][-200:], 200)),
            "it runs to its end",
            "restart; then reset the GPU",
            key="stress",
        )
    for one in matmul:
        if one.get("differ"):
            add(
                one.get("gpu"),
                "fatal",
                "the same product came out otherwise in %s of %s runs"
                % (one["differ"], one.get("checks")),
                "bit for bit the same each time",
                "this GPU computes wrongly: " + BACK,
                key="wrong",
            )
    for name in sorted({str(one.get("name")) for one in matmul}):
        alike = [one for one in matmul if str(one.get("name")) == name]
        common = usual([json.dumps(one.get("mark")) for one in alike])
        for one in alike:
            if (
                len(alike) > 1
                and json.dumps(one.get("mark")) != common
                and [json.dumps(other.get("mark")) for other in alike].count(common) > 1
            ):
                add(
                    one.get("gpu"),
                    "fatal",
                    "the product differs from that of the other %s" % short(name, 60),
                    "bit for bit the same on cards of one kind",
                    "this GPU computes wrongly: " + BACK,
                    key="wrong",
                )
            elif len(alike) == 2 and json.dumps(alike[0].get("mark")) != json.dumps(
                alike[1].get("mark")
            ):
                add(
                    None,
                    "fatal",
                    "the two %s give different products" % short(name, 60),
                    "bit for bit the same",
                    "one of them computes wrongly: " + BACK,
                    key="wrong",
                )
        peak = next((value for pattern, value in PEAK_TFLOPS if re.search(pattern, name)), None)
        speeds = sorted(one["tflops"] for one in alike)
        for one in alike:
            if peak and one["tflops"] < 0.5 * peak:
                add(
                    one.get("gpu"),
                    "degraded",
                    "matmul at %.0f TFLOPS" % one["tflops"],
                    "0.5 of the %d that the data sheet names (ours)" % peak,
                    "look at clocks, power limit and heat; or change the box",
                    key="slow",
                )
            elif len(alike) > 1 and one["tflops"] < 0.85 * speeds[len(speeds) // 2]:
                add(
                    one.get("gpu"),
                    "degraded",
                    "matmul at %.0f TFLOPS, the others at %.0f"
                    % (one["tflops"], speeds[len(speeds) // 2]),
                    "0.85 of the median (ours): the slowest card sets the pace",
                    "look at clocks, power limit and heat; or change the box",
                    key="slow",
                )
    for one in copies:
        gpu = next((g for g in box.gpus if g.label == one.get("gpu")), None)
        width, gen = (
            (gpu.number("pcie.link.width.current"), gpu.number("pcie.link.gen.max"))
            if gpu
            else (None, None)
        )
        best = LANE.get(int(gen), 0) * width if width and gen else 0
        if best and isinstance(one.get("h2d_gb_s"), (int, float)) and one["h2d_gb_s"] < 0.4 * best:
            add(
                one.get("gpu"),
                "degraded",
                "host to device at %.1f GB/s" % one["h2d_gb_s"],
                "0.4 of %.0f GB/s (PCIe %d x%d, ours)" % (best, gen, width),
                "look at the PCIe link under load and at NUMA; or change the box",
                key="h2d",
            )
    for one in reduced:
        for index, right in enumerate(as_list(one.get("right"))):
            if not right:
                add(
                    index,
                    "fatal",
                    "a wrong sum after all-reduce",
                    "%d GPUs add up" % len(one["right"]),
                    "NVLink or PCIe path: reboot, then " + BACK,
                    key="wrong",
                )
    for item in samples:
        if item.get("hung"):
            add(
                None,
                "fatal",
                "nvidia-smi did not come back under load",
                "10 s",
                "reboot the box, and if it hangs again, " + BACK,
                key="hang",
            )
        for row in item.get("rows", []):
            mask, index = (
                number(row.get("clocks_event_reasons.active", "N/A")),
                number(row.get("index", "N/A")),
            )
            names = [name for name, bit in REASONS if mask is not None and int(mask) & bit]
            if names:
                add(
                    int(index or 0),
                    "degraded",
                    "throttled under load: %s" % ", ".join(names),
                    "power cap only",
                    "heat or power supply: ask the provider, or change the box",
                    key="throttle",
                )
            if any(state(text) == "lost" for text in row.values()):
                add(
                    int(index or 0),
                    "fatal",
                    "[GPU is lost] under load",
                    "it answers",
                    "reboot the box; if it comes back, " + BACK,
                    key="lost",
                )
    before, after = record["files"].get("dmesg.txt", ""), log_after
    last = before.rstrip("\n").rsplit("\n", 1)[
        -1
    ]  # a ring buffer may have lost its beginning meanwhile
    fresh = (
        {"files": {"dmesg.txt": after[after.rindex(last) + len(last) :]}}
        if last and last in after
        else None
    )
    if fresh and fresh["files"]["dmesg.txt"].strip():
        late = parse(dict(record, files=dict(record["files"], **fresh["files"])))
        late.recorded, late.exit = False, {}
        judge_log(late, add)
    return measured, add.list


# ---------------------------------------------------------------------------------------------------------------------------------------
# Watch: one nvidia-smi that repeats itself, one JSON line a sample, findings when they change.

STUCK_POWER, IDLE_SAMPLES = (
    0.3,
    3,
)  # ours: a spinning collective draws little; three samples in a row, so that a pause between steps is none


def watch_row(row):
    """Cells of one GPU -> numbers, None where the driver says none."""
    mask = number(row.get("clocks_event_reasons.active", "N/A"))
    bits = REASONS + (("sw_power_cap", 0x4),)
    out = {
        "gpu": number(row.get("index", "N/A")),
        "throttle": [name for name, bit in bits if mask is not None and int(mask) & bit],
    }
    for name, field in (
        ("util", "utilization.gpu"),
        ("mem_util", "utilization.memory"),
        ("mem_mib", "memory.used"),
        ("mem_total_mib", "memory.total"),
        ("power_w", "power.draw"),
        ("limit_w", "power.limit"),
        ("temp_c", "temperature.gpu"),
        ("sm_mhz", "clocks.current.sm"),
        ("pcie_gen", "pcie.link.gen.gpucurrent"),
    ):
        out[name] = number(row.get(field, "N/A"))
    out["gpu"] = int(out["gpu"]) if out["gpu"] is not None else None
    out["lost"] = any(state(text) == "lost" for text in row.values())
    return out


def judge_sample(gpus, streaks, holders):
    """Findings of one sample. `streaks` counts samples in a row, by GPU; `holders()` tells who holds a GPU, asked only when one is idle.
    `seen` counts a GPU's samples: rows of one sample may come late, as two, so one that lacks a GPU says nothing yet."""
    add, why = Findings(), {}
    most = max([streak["seen"] for streak in streaks.values()] or [0])
    for one in gpus:
        streak = streaks.setdefault(one["gpu"], {"idle": 0, "stuck": 0, "seen": 0})
        streak["seen"] = max(streak["seen"] + 1, most)
    most = max([streak["seen"] for streak in streaks.values()] or [0])
    for label in sorted(
        label
        for label, streak in streaks.items()
        if label is not None and most - streak["seen"] >= 2
    ):
        add(
            label,
            "fatal",
            "GPU %d is in no sample any more" % label,
            "every GPU is in every sample",
            "stop the job, reboot the box; if it comes back, " + BACK,
            key="lost",
        )
    for one in gpus:
        label = one["gpu"]
        streak = streaks[label]
        if one["lost"]:
            add(
                label,
                "fatal",
                "[GPU is lost]",
                "it answers",
                "stop the job, reboot the box; if it comes back, " + BACK,
                key="lost",
            )
            continue
        hard = [name for name in one["throttle"] if name != "sw_power_cap"]
        if hard:
            add(
                label,
                "degraded",
                "throttled: %s at %s C" % (", ".join(hard), one["temp_c"]),
                "power cap only",
                "heat or power supply: ask the provider",
                key="throttle",
            )
        quiet = (
            one["util"] is not None
            and one["util"] >= 95
            and one["power_w"]
            and one["limit_w"]
            and one["power_w"] < STUCK_POWER * one["limit_w"]
            and (one["mem_util"] or 0) <= 5
        )
        streak["stuck"] = streak["stuck"] + 1 if quiet else 0
        streak["idle"] = streak["idle"] + 1 if one["util"] == 0 else 0
        if streak["stuck"] >= IDLE_SAMPLES:
            why[str(label)] = (
                "busy at idle power: its kernel waits, as in a collective that another rank never joined"
            )
            add(
                label,
                "degraded",
                "%d %% utilisation at %.0f W of %.0f W for %d samples"
                % (one["util"], one["power_w"], one["limit_w"], streak["stuck"]),
                "more than %.1f of the limit under load (ours)" % STUCK_POWER,
                "py-spy dump on every rank: one of them is elsewhere",
                "stuck",
                key="stuck",
            )
        if streak["idle"] >= IDLE_SAMPLES:
            why[str(label)] = holders(label)
    return add, why


def judge_end(words, code, places, sampled):
    """Findings of the last words and the exit code of a nvidia-smi that ended by itself. `places`: place -> index of the GPUs seen before."""
    add = Findings()
    for place, index, line in lost_handles(words):
        known = places.get(place, "")
        add(
            int(known) if known.isdigit() else place or index,
            "fatal",
            line,
            NO_HANDLE,
            "stop the job, reboot the box; if it comes back, " + BACK,
            key="lost",
        )
    failure = smi_failure(words)
    kind = failure[0] if failure else RC_FAILURES.get(code)
    if kind and sampled and not add.list:  # what never worked is no news of the GPUs
        level, threshold, action, _ = FAILURE_TEXT[kind]
        add(
            None,
            level,
            failure[1] if failure else "nvidia-smi ended with %s" % code,
            threshold,
            action,
            key="tool",
        )
    return add


class Holders:
    """Why a GPU is idle, from the state and the CPU time of the processes that hold it. Looks at most every 30 s.
    `nodes`: index -> N of /dev/nvidiaN where the driver tells; in a container with one card of several they differ."""

    def __init__(self, clock=time.monotonic):
        self.clock, self.at, self.known, self.cpu, self.nodes = clock, None, [], {}, {}

    def __call__(self, gpu):
        now = self.clock()
        if self.at is None or now - self.at >= 30:
            proc = {}
            gather_holders(proc)
            seconds = now - self.at if self.at is not None else None
            self.at, self.known = now, proc["holders"]
            for one in self.known:
                fields = (read_text("/proc/%d/stat" % one["pid"]) or "").rpartition(")")[2].split()
                spent = (
                    (int(fields[11]) + int(fields[12])) / float(os.sysconf("SC_CLK_TCK"))
                    if len(fields) > 12
                    else None
                )
                old = self.cpu.get(one["pid"])
                one["cpu"] = (
                    (spent - old) / seconds
                    if None not in (spent, old, seconds) and seconds
                    else None
                )
                self.cpu[one["pid"]] = spent
        mine = [
            one
            for one in self.known
            if "/dev/nvidia%s" % self.nodes.get(gpu, gpu) in one["devices"]
        ]
        if not mine:
            return "no process of this container holds it"
        one = mine[0]
        if one["state"] == "D":
            return "process %d waits for a disk or a network file system (state D)" % one["pid"]
        if one["state"] in "ZT":
            return "process %d is %s" % (one["pid"], "dead" if one["state"] == "Z" else "stopped")
        if one["state"] == "R" or (one.get("cpu") or 0) > 0.7:
            return (
                "process %d works on the CPU: loading data, compiling, saving or evaluating"
                % one["pid"]
            )
        return (
            "process %d sleeps: it waits for workers, the network, a lock or another rank"
            % one["pid"]
        )


def watch(interval, pid=None, out=None):
    """Prints until a signal, the end of `pid`, or the end of nvidia-smi. Exit 0, 1 when something was degraded or fatal, 2 when it can't watch."""
    out = out or sys.stdout

    def say(**values):
        out.write(
            json.dumps(dict({"t": round(time.time(), 3)}, **values), separators=(",", ":")) + "\n"
        )
        out.flush()

    smi = shutil.which("nvidia-smi")
    if not smi:
        sys.stderr.write("gpu_health.py: no nvidia-smi on the PATH: nothing to watch\n")
        return 2
    helped = run([smi, "--help-query-gpu"], CALL_SECONDS)
    known = set(re.findall(r'"([a-z][\w.]+)"', helped["text"]))
    names = wanted([(name, "") for name in WATCH_FIELDS], known)
    try:
        kmsg = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(kmsg, 0, os.SEEK_END)
    except OSError:
        kmsg = None
    process = subprocess.Popen(
        [
            smi,
            "--query-gpu=" + ",".join(names),
            "--format=csv,noheader,nounits",
            "-lms",
            str(max(100, int(interval * 1000))),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    ended = []
    for number_ in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number_, lambda which, _: ended.append("signal %d" % which))
    say(start={"interval_s": interval, "fields": names, "kernel_log": kmsg is not None})
    handle, rest, rows, streaks, holders, last = (
        process.stdout.fileno(),
        b"",
        [],
        {},
        Holders(),
        time.monotonic(),
    )
    places, standing, sampled, worst = {}, {}, 0, 0
    words, stray, code = (
        "",
        "",
        None,
    )  # lines that are no row: before the last sample, since then; nvidia-smi's exit code
    while not ended:
        try:
            ready = select.select([handle], [], [], 0.2 if rows else min(1.0, interval))[0]
        except InterruptedError:
            continue
        chunk = os.read(handle, 65536) if ready else b""
        full = bool(rows) and not chunk  # a pause, or the end: the sample is whole
        if ready and not chunk:
            code = process.wait()
            stray = "%s\n%s\n%s\n" % (words, stray, rest.decode("utf-8", "replace"))
            ended.append("nvidia-smi ended with %s: %s" % (code, short(stray, 120)))
            worst = 2 if code != 0 or not (sampled or rows) else worst
        if chunk:
            last = time.monotonic()
            *lines, rest = (rest + chunk)[-LIMIT:].split(b"\n")
            for line in lines:
                text = line.decode("utf-8", "replace")
                cells = [cell.strip() for cell in text.split(",")]
                if len(cells) == len(names):
                    row = {CANON[name]: cell for name, cell in zip(names, cells)}
                    rows = [other for other in rows if other.get("index") != row.get("index")] + [
                        row
                    ]  # a late reader keeps the newest
                    place, index = bdf(row.get("pci.bus_id", "")), row.get("index", "")
                    if place not in places and index.isdigit() and place:
                        minor = minor_of(place + ".0")[0]
                        holders.nodes[int(index)] = int(index) if minor is None else minor
                    places[place] = index
                elif text.strip():
                    stray = (stray + text[:300] + "\n")[-1000:]
        if full:
            gpus, rows, sampled = [watch_row(row) for row in rows], [], sampled + 1
            add, why = judge_sample(gpus, streaks, holders)
            if code is None:
                words, stray = stray, ""
            for event in kernel_events(kmsg):
                label = places.get(event["bdf"], event["bdf"])
                add(
                    int(label) if str(label).isdigit() else label,
                    event["level"],
                    event["line"],
                    "no such line while the job runs",
                    LOG_ACTION.get(event["kind"])
                    or (
                        xid_words(event["code"], event["level"])
                        if event["code"] in XID
                        else "look it up in NVIDIA's Xid catalogue"
                    ),
                    key="%s %s" % (event["kind"], event["code"]),
                )
            now = {(one["gpu"], one["level"], one["action"]): one for one in add.list}
            line = {
                "gpus": [
                    {key: value for key, value in one.items() if key != "lost"} for one in gpus
                ]
            }
            new, over = (
                [one for key, one in now.items() if key not in standing],
                [one["evidence"] for key, one in standing.items() if key not in now],
            )
            if any(one["level"] in ("degraded", "fatal") for one in new):
                worst = max(worst, 1)
            line.update(
                {
                    key: value
                    for key, value in (("findings", new), ("over", over), ("why", why))
                    if value
                }
            )
            standing = now
            say(**line)
        if pid and not ended and not os.path.exists("/proc/%d" % pid):
            ended.append("process %d ended" % pid)
        if not ready and time.monotonic() - last > max(CALL_SECONDS, 3 * interval):
            say(
                findings=[
                    {
                        "gpu": None,
                        "level": "fatal",
                        "evidence": "nvidia-smi gave nothing for %d s" % (time.monotonic() - last),
                        "threshold": "a sample every %s s" % interval,
                        "action": "don't call it again; reboot the box, and if it hangs again, "
                        + BACK,
                        "entry": "",
                    }
                ]
            )
            worst, ended = 1, ["nvidia-smi hangs"]
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except OSError:
        pass
    last_words = judge_end(stray, code, places, sampled).list if code is not None else []
    if last_words:
        say(findings=last_words)
        worst = 1 if any(one["level"] in ("degraded", "fatal") for one in last_words) else worst
    say(end=ended[0] if ended else "")
    return worst


def kernel_events(kmsg):
    """The events of records that came since the last look."""
    lines = []
    while kmsg is not None and len(lines) < 1000:
        try:
            lines.append(os.read(kmsg, 8192).decode("utf-8", "replace").splitlines()[0])
        except (OSError, IndexError):
            break
    return (
        [event for event in parse_log("\n".join(lines))["events"] if event["level"] != "ok"]
        if lines
        else []
    )


# ---------------------------------------------------------------------------------------------------------------------------------------
# Report.


def recognised(box, record):
    """What kind of place this is, in words."""
    where, out = as_dict(box.proc.get("platform")), []
    if where.get("container"):
        out.append("container (%s)" % short(where["container"], 20))
    if box.foreign:
        out.append(
            "%d of %d NVIDIA cards are this job's"
            % (len(nvidia_cards(box)) - len(box.foreign), len(nvidia_cards(box)))
        )
    if where.get("wsl"):
        out.append("WSL")
    if any(gpu.vgpu for gpu in box.gpus):
        out.append("vGPU")
    if any("pass-through" in (gpu.raw("x.virtualization") or "").lower() for gpu in box.gpus):
        out.append("virtual machine with the GPU passed through")
    if any(gpu.mig for gpu in box.gpus):
        out.append("MIG")
    if amd_cards(box):
        out.append("AMD")
    # A finding on data-centre cards only: elsewhere nothing is lost but the seconds of a start.
    if any(no_persistence(gpu) and not HBM.search(gpu.name) for gpu in box.gpus):
        out.append("persistence mode off (nvidia-smi -pm 1)")
    if not box.gpus and "AMD" not in out:
        out.append("no GPU seen")
    return out


def brief(box):
    """Cards in few words: those that are alike stand together, with the list of their indexes."""
    out = []
    for gpu in box.gpus:
        sku, total = sku_of(gpu.name) or {}, gpu.number("memory.total")
        one = {
            "name": short(gpu.name, 60),
            "memory_mib": int(total) if total is not None else None,
            "bf16": sku.get("bf16"),
            "fp8": sku.get("fp8"),
            "p2p": sku.get("p2p"),
        }
        if gpu.links:
            one["nvlinks"] = len([1 for speed in gpu.links.values() if speed is not None])
        if gpu.mig:
            one["mig"] = [short(name, 20) for name in gpu.migs or []]
        out.append((gpu.label, one))
    for label, one in amd_cards(box):
        out.append((label, {"name": "AMD", "memory_mib": int(one["mem_info_vram_total"]) >> 20}))
    groups = []
    for label, one in out:
        same = next(
            (
                group
                for group in groups
                if {key: value for key, value in group.items() if key != "gpu"} == one
            ),
            None,
        )
        if same:
            same["gpu"].append(label)
        else:
            groups.append(dict({"gpu": [label]}, **one))
    return groups


def report(record, expectations=None, extra=()):
    """The whole answer as one object, in the shape of contracts.md with a few fields besides."""
    findings = judge(record, expectations) + list(extra)
    findings.sort(key=lambda one: RANK[one["level"]])
    box = parse(record)
    lacks = (
        []
        if box.recorded
        else [
            name
            for name in FILES[:8]
            if name not in record["files"] and not (name == "proc.json" and box.proc)
        ]
    )
    return {
        "verdict": verdict(findings),
        "findings": findings,
        "gpus": brief(box),
        "probe_seconds": record.get("seconds"),
        "driver": box.driver or None,
        "recognised": recognised(box, record),
        "not_in_capture": lacks,
    }


def as_text(answer):
    """Findings first, worst first; then one line for each kind of card."""
    lines = ["verdict: %s" % answer["verdict"]]
    for one in answer["findings"]:
        lines.append(
            "%s %s: %s"
            % (
                one["level"],
                "box" if one["gpu"] is None else "GPU %s" % one["gpu"],
                one["evidence"],
            )
        )
        lines.append("    expected: %s" % one["threshold"])
        lines.append(
            "    do: %s%s" % (one["action"], " [%s]" % one["entry"] if one["entry"] else "")
        )
    for one in answer["gpus"]:
        lines.append(
            "%d x %s, %s MiB (GPU %s)"
            % (
                len(one["gpu"]),
                one["name"] or "GPU",
                one["memory_mib"],
                ", ".join(map(str, one["gpu"])),
            )
        )
    about = (["driver %s" % answer["driver"]] if answer["driver"] else []) + answer["recognised"]
    if answer["probe_seconds"] is not None:
        about.append("%.1f s" % answer["probe_seconds"])
    if about:
        lines.append(", ".join(about))
    if answer["not_in_capture"]:
        lines.append("not in this capture: %s" % ", ".join(answer["not_in_capture"]))
    return "\n".join(lines)


EXIT = {"fit": 0, "care": 1, "unfit": 1, "unknown": 2}


class Usage(argparse.ArgumentParser):
    def error(self, message):
        sys.stderr.write("gpu_health.py: %s; see --help\n" % message)
        raise SystemExit(2)


def main(arguments=None):
    parser = Usage(
        prog="gpu_health.py",
        description=(__doc__ or "").split("\n\n")[0],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=(__doc__ or "").split("\n\n", 1)[-1],
    )
    parser.add_argument(
        "--expect",
        default="",
        metavar="LIST",
        help="what was paid for: gpus=8,name=H100,vram=80,nvlink=all,driver>=550,torch=cu130; help lists the names",
    )
    parser.add_argument(
        "--python",
        metavar="PATH",
        help="the job's own interpreter: its torch, CUDA, and a small kernel really launched",
    )
    parser.add_argument(
        "--path",
        action="append",
        default=[],
        metavar="DIR",
        help="a path that the job writes to; may be repeated (default: /, /tmp, home, here)",
    )
    parser.add_argument(
        "--stress",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="load the GPUs for so long; needs torch in --python",
    )
    parser.add_argument(
        "--watch",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="a JSON line every SECONDS, until a signal or the end of --pid",
    )
    parser.add_argument(
        "--pid", type=int, metavar="PID", help="with --watch: stop when this process has ended"
    )
    parser.add_argument("--record", metavar="DIR", help="write what was gathered")
    parser.add_argument("--replay", metavar="DIR", help="judge a recording instead of this box")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    options = parser.parse_args(arguments)
    if options.expect.strip() == "help":
        print("\n".join("%-8s %s" % (name, text) for name, (_, text) in sorted(EXPECT.items())))
        return 0
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")
    try:
        expectations = expectations_of(options.expect)
    except ValueError as error:
        sys.stderr.write("gpu_health.py: %s\n" % error)
        return 2
    if options.watch:
        return watch(options.watch, options.pid)
    extra, measured = [], None
    if options.replay:
        try:
            record = load(options.replay)
        except (OSError, ValueError) as error:
            sys.stderr.write("gpu_health.py: can't replay: %s\n" % error)
            return 2
    else:
        record = gather(python=options.python, paths=options.path)
        if options.stress:
            measured, extra = stress(options.stress, options.python or sys.executable, record)
        if options.record:
            try:
                save(record, options.record)
            except OSError as error:
                sys.stderr.write("gpu_health.py: can't record: %s\n" % error)
                return 2
    answer = report(record, expectations, extra)
    if measured is not None:
        answer["stress"] = measured
    print(json.dumps(answer, ensure_ascii=False) if options.json else as_text(answer))
    return EXIT[answer["verdict"]]


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # a thread that waits for a dead mount must not hold the answer back
