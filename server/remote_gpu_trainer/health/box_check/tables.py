"""The tables of the check: GPU cards, nvidia-smi's fields, Xids, bad log lines, and findings.

Sources, read on 2026-11-20: NVIDIA's Xid catalogue page and data sheets; open-gpu-kernel-modules
595.45.04; gpud's SXid table, which is from the Fabric Manager guide of October 2023.
"""

import re

from . import data_text
from .text import bdf, number, short, yes

RESET = "reset the GPU while nothing runs on it (nvidia-smi --gpu-reset -i N), or reboot the box"
BACK = "hand the box back and ask for a refund"

# The levels of findings, worst first. fatal: don't train. degraded: finish your job, then reset,
# repair or ask. unknown: it couldn't be read. warn: good to know.
RANK = {"fatal": 0, "degraded": 1, "unknown": 2, "warn": 3}

LIMIT = 4 << 20  # bytes of one reply; cutting a longer one gives a finding
CALL_SECONDS = 25.0  # for one call of nvidia-smi
# For all its calls: an MCP call has 50 s, and ssh needs some of them. The first call wakes the
# GPUs, and may use all of this time.
SERIES_SECONDS = 42.0

# The files of a recording, in the order in which a finding names missing ones.
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
LOGS = ("dmesg", "journalctl")  # the end counts, so a long one loses plain lines instead
# The call of nvidia-smi that makes a file.
CALLS = {
    "fields.txt": "--help-query-gpu",
    "nvidia-smi.csv": "--query-gpu",
    "nvidia-smi-list.txt": "-L",
    "nvidia-smi-q.xml": "-q -x",
    "nvlink.txt": "nvlink -s",
    "topo.txt": "topo -m",
    "apps.csv": "--query-compute-apps",
}


def rows_of(text):
    """The rows of a table as lists of cells. An indented line continues the row before it."""
    joined = re.sub(r"\n[ \t]+", " ", re.sub(r"(?m)^[ \t]*#.*\n", "", text))
    return [[cell.strip() for cell in line.split(" | ")] for line in joined.splitlines() if line]


def codes_of(text):
    """'1-3,7' -> {1, 2, 3, 7}"""
    codes = set()
    for part in text.split(","):
        low, _, high = part.strip().partition("-")
        codes.update(range(int(low), int(high or low) + 1))
    return codes


# Xid -> (level, NVIDIA's action, what it is)
XID_TABLE = data_text("xids.txt")
XID = {code: tuple(row[1:]) for row in rows_of(XID_TABLE) for code in codes_of(row[0])}
# SXid (NVSwitch) -> whether it is fatal: always, maybe (if the line says so), or never
SXID_FATAL = {
    "always": "10003,12020,22003,22011,23001-23017",
    "maybe": (
        "10001,10002,10004,10005,11001,11009,11013,11018-11020,12001,12002,12022,12024-12027,"
        "12030-12032,14017,15001,15006,15009,15010,15012,15013,19047,19048,19054,19056,19058,"
        "19060,19061,19063,19064,19066,19067,19069,19070,20034,22012,24004-24007"
    ),
    "never": (
        "11004,11012,11021-11023,12021,12023,12028,15008,15011,19049,19055,19057,19059,19062,"
        "19065,19068,19071,19084,20001,20009,20012,22013,24001-24003"
    ),
}
SXID = {code: when for when, codes in SXID_FATAL.items() for code in codes_of(codes)}

# (pattern of the card's name, what a card of that name has)
CARD_TABLE = data_text("cards.txt")
SKU = [
    (
        re.compile(name),
        {
            "vram_gib": int(gib),
            "compute_cap": capability,
            "pcie_gen": int(generation),
            "tdp_w": int(watts),
            "bf16": "b" in types,
            "fp8": "f" in types,
            "p2p": p2p,
        },
    )
    for name, gib, capability, generation, watts, types, p2p in rows_of(CARD_TABLE)
]


def sku_of(name):
    """What a card of this name has, or None for a name that isn't in the table."""
    for pattern, sku in SKU:
        if pattern.search(name or ""):
            return sku
    return None


# Data-centre cards, most of them with HBM.
HBM = re.compile(r"P100|V100|A100|A800|A30$|H100|H800|H20$|H200|B100|B200|B300|GB200|GB300")
# NVLinks of a GPU, and GB/s of one: NVIDIA Health Validation docs (H100 18 x 26.562, GB200 53.125),
# a captured A100 (12 x 25).
NVLINKS = (
    ("H100 80GB HBM3", 18, 26.562),
    ("H200$", 18, 26.562),
    ("A100-SXM4", 12, 25.0),
    ("GB200|GB300", 18, 53.125),
)
# Cards that a virtual machine may have with fewer lanes than they support: name, lanes.
# Unconfirmed: only AWS rents the A10G, and no public source says how it is wired.
FEWER_LANES = (("A10G$", 8),)
# Unified memory: nvidia-smi shows no memory size for these.
NO_OWN_MEMORY = re.compile(r"GB10\b|Thor|Orin")
# Dense tensor-core peak in TFLOPS, bf16 (fp16 before Ampere), as the data sheets give it. Read on
# 2026-11-20 in torchtitan (tools/utils.py: H100, H200, A100, B200, L40S), in Lightning 2.6.6
# (fabric/utilities/throughput.py: L4, L40, A10, V100, T4), and for A40 and RTX 4090 in lists of the
# data sheets. A card that isn't here is compared with its neighbours only.
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

# Throttle reasons and their bits in the mask: NVML.
REASONS = (
    ("hw_thermal_slowdown", 0x40),
    ("hw_power_brake_slowdown", 0x80),
    ("hw_slowdown", 0x8),
    ("sw_thermal_slowdown", 0x20),
)

# The groups of --query-gpu: [[("name|newer name", type)]]
FIELD_TABLE = data_text("fields.txt")
FIELDS = [
    [("|".join(names), kind) for kind, *names in rows_of(group)]
    for group in re.sub(r"(?m)^#.*\n", "", FIELD_TABLE).strip().split("\n\n")
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
# The fields that every driver in the captures (465 to 610) reports, and those that 590 and later
# report besides. A finding of level unknown names missing ones.
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

# Field -> its places in `-q -x`
PLACE_TABLE = data_text("xml_places.txt")
XML_PLACES = {field: places.split() for field, places in rows_of(PLACE_TABLE)}
# Place in `-q` -> place in `-q -x`
Q_TABLE = data_text("q_places.txt")
Q_PLACES = dict(rows_of(Q_TABLE))
# Fields that are sums: the field, its branch, a word in the names of the leaves.
ECC_SUMS = (
    ("ecc.errors.uncorrected.volatile.total", "volatile", "uncorrectable"),
    ("ecc.errors.uncorrected.aggregate.total", "aggregate", "uncorrectable"),
    ("ecc.errors.corrected.volatile.total", "volatile", "_correctable"),
    ("ecc.errors.corrected.aggregate.total", "aggregate", "_correctable"),
)


def field_names():
    """-> ({any name that a field has had: the name used here}, {name used here: type})."""
    used, types = {}, {}
    for names, kind in (field for group in FIELDS for field in group):
        main = names.split("|")[0].replace("clocks_throttle_reasons", "clocks_event_reasons")
        types[main] = kind
        for name in names.split("|"):
            used[name] = main
            used[name.replace("clocks_throttle_reasons", "clocks_event_reasons")] = main
    used["kmd_version"] = "kmd_version"
    used["reset_status.reset_required"] = "x.reset_required"
    used["reset_status.drain_and_reset_recommended"] = "x.drain_and_reset"
    used["gpu_bus_id"] = "pci.bus_id"
    used["gpu_name"] = "name"
    used["gpu_uuid"] = "uuid"
    for name in ("minor", "slow", "memory_max", "gpu_max", "replays", "app_clock", "app_default"):
        types["x." + name] = "n"
    for name in ("reset_required", "drain_and_reset", "channel_repair", "tpc_repair"):
        types["x." + name] = "y"
    types["x.unrepairable"] = "y"
    return used, types


CANON, TYPE = field_names()

LOG_TABLE = data_text("log_rules.txt")


def log_rules():
    """-> ([(kind, level, pattern)] in the order of the table, {kind: what to do})."""
    rules, actions = [], {}
    for paragraph in re.sub(r"(?m)^ *#.*\n", "", LOG_TABLE).strip().split("\n\n"):
        kind, level, action = rows_of(re.sub(r"\n  (?! )", "\n", paragraph))[0]
        if action != "-":
            actions[kind] = action.format(BACK=BACK)
        patterns = re.findall(r"(?m)^  (\S.*)$", paragraph)
        rules += [(kind, level, re.compile(pattern)) for pattern in patterns]
    return rules, actions


LOG_RULES, LOG_ACTION = log_rules()

# Catalogue entries that a finding points at, by its key or the word given with it. A test compares
# them with the catalogue.
ENTRY = {
    word: entry
    for entry, words in (
        ("DP15", ["shm"]),
        ("VAST14", ["sku"]),
        ("U11", ["held"]),
        ("ENV6", ["torch_driver"]),
        ("ENV1", ["arch"]),
        ("U31", ["no_runtime"]),
        ("P3", ["bf16"]),
        ("D20", ["stuck"]),
        ("U6", ["disk"]),
        ("U7", ["inodes"]),
        ("U41", ["container memory"]),
        ("HW1", ["lost", "count", "gsp", "init", "probe failed"]),
        ("HW2", ["ecc", "remap", "pages", "repair"]),
        ("HW3", ["p2p"]),
        ("HW4", ["fabric", "fabricmanager", "fabric topology"]),
        ("HW5", ["throttle", "capped", "clock"]),
        ("HW6", ["width", "gen", "replays", "aer"]),
        ("HW7", ["mig"]),
        ("ENV10", ["cgroup"]),
        ("ENV11", ["mismatch"]),
    )
    for word in words
}
# Xid -> word in ENTRY
XID_ENTRY = {48: "ecc", 63: "ecc", 64: "ecc", 92: "ecc", 94: "ecc", 95: "ecc"}
XID_ENTRY.update({79: "lost", 109: "stuck", 119: "gsp", 120: "gsp"})

FINDING_TABLE = data_text("findings.txt")


def finding_texts():
    """-> {name: {level, key, entry, found, expected, do}}."""
    records, record = {}, {}
    text = re.sub(r"(?m)^#.*\n", "", FINDING_TABLE)
    text = text.replace("{RESET}", RESET).replace("{BACK}", BACK).replace("\n    ", " ")
    for line in text.splitlines():
        if line.startswith("  "):
            label, text = line.strip().split(": ", 1)
            record[label] = text
        elif line:
            name, level, key, entry = [*line.split(" | "), "", ""][:4]
            record = records[name] = {"level": level, "key": key.strip(), "entry": entry}
    return records


FINDINGS = finding_texts()


def verdict(findings):
    """Turn the levels of findings into the verdict."""
    levels = {finding["level"] for finding in findings}
    for level, word in (("fatal", "unfit"), ("degraded", "care"), ("unknown", "unknown")):
        if level in levels:
            return word
    return "fit"


class Findings:
    """Collects findings. Call it with the name of a finding and the values of its texts."""

    def __init__(self):
        """`list`: the findings; `keys`: their (key, GPU)."""
        self.list, self.keys = [], set()

    def __call__(self, gpu, name, *values, level=None, expected=(), do=(), key=None, entry=None):
        """Add a finding, once for each key and GPU. The record has the defaults."""
        record = FINDINGS[name]
        key = record["key"] if key is None else key
        entry = record["entry"] if entry is None else entry
        if key and (key, gpu) in self.keys:
            return
        self.keys.add((key, gpu))
        self.list.append(
            {
                "gpu": gpu,
                "level": level or record["level"],
                "evidence": short(record["found"] % values, 300),
                "threshold": record["expected"] % expected,
                "action": record["do"] % do,
                "entry": ENTRY.get(entry or key, ""),
            }
        )

    def has(self, key, gpu):
        """Whether a finding with this key was added for this GPU."""
        return (key, gpu) in self.keys


def readable(field, cell):
    """Whether a cell has the form of its field."""
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
