"""The fields of nvidia-smi: their names, places and types, and the form that a cell must have."""

import re

from ...logs.kernel.places import bdf
from ...logs.kernel.tables import rows_of
from . import data_text
from .text import number, yes

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

# Throttle reasons and their bits in the mask: NVML.
REASONS = (
    ("hw_thermal_slowdown", 0x40),
    ("hw_power_brake_slowdown", 0x80),
    ("hw_slowdown", 0x8),
    ("sw_thermal_slowdown", 0x20),
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
    types["x.other"] = "t"
    return used, types


CANON, TYPE = field_names()


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
