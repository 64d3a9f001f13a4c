"""Write what was read as a folder, and read such a folder or one raw output."""

import glob
import json
import os
import re

from ...logs.kernel.kernel_log import parse_log
from ...logs.kernel.places import short
from .dcgm import is_of_dcgm
from .failures import HANDLE, smi_failure
from .fields import CANON
from .files import EXTRA_FILES, FILES, LIMIT
from .limits import file_of_limits, has_limits
from .memory_counts import has_memory_counts
from .smi_outputs import is_part_of_q

HEAD = 4000  # characters in which most outputs show what they are
MOST_LOOKED_AT = 200000  # characters, for what stands only further down


def save(record, folder):
    """Write a record, one file per command. Raises OSError."""
    os.makedirs(folder, exist_ok=True)
    files = dict(record["files"])
    files["proc.json"] = json.dumps(record.get("proc", {}), indent=1, sort_keys=True) + "\n"
    files["exit.json"] = json.dumps(record["exit"], indent=1, sort_keys=True) + "\n"
    for name, text in files.items():
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8", errors="replace", newline="") as handle:
            handle.write(text)


def load(path):
    """A recorded folder, a folder with any part of one, or a single file -> the record.

    Raises OSError, or ValueError with what to do.
    """
    record = {"files": {}, "exit": {}, "live": False}
    folder = not os.path.isfile(path)
    names = sorted(glob.glob(os.path.join(glob.escape(path), "*"))) if folder else [path]
    if not names:
        raise ValueError(
            "{} has no files; pass a folder with some of {}".format(path, ", ".join(FILES))
        )
    known = FILES + EXTRA_FILES + ("amd-metric.json", "amd-bad-pages.json", "table.txt", "q.txt")
    for name in filter(os.path.isfile, names):
        with open(name, "rb") as handle:
            raw = handle.read(LIMIT + 1)
        text, base = raw[:LIMIT].decode("utf-8", "replace"), os.path.basename(name)
        slot = base if base in known else kind_of(text)
        if file_of_limits(base):
            slot, text = "cgroup.txt", f"{file_of_limits(base)}:{text}"
        if slot == "unrecognised" and folder:
            continue
        if slot == "cgroup.txt":
            text = "\n".join(filter(None, [record["files"].pop(slot, ""), text]))
        if slot in record["files"]:
            raise ValueError(
                f"{path}: two files are {slot}; pass a folder with the outputs of one box"
            )
        if len(raw) > LIMIT:
            record.setdefault("cut", []).append(slot)
        record["files"][slot] = text
        if slot not in ("dmesg.txt", base) and parse_log(text)["events"]:
            record["files"].setdefault("dmesg.txt", text)  # somebody pasted two outputs as one
        if slot not in ("cgroup.txt", base) and has_limits(text):
            record["files"].setdefault("cgroup.txt", text)
    read_objects(record)
    return record


def read_objects(record):
    """Move exit.json and proc.json from the files of a record into its `exit` and `proc`."""
    for name, key in (("exit.json", "exit"), ("proc.json", "proc")):
        if name not in record["files"]:
            continue
        try:
            value = json.loads(record["files"].pop(name))
            if not isinstance(value, dict):
                raise ValueError("not an object")
            record[key] = value
        except (ValueError, RecursionError) as error:
            record.setdefault("unreadable", []).append(f"{name}: {short(error, 100)}")
            record[key] = {}


def kind_of(text):
    """Which output a raw text is, by its content, for captures with other file names."""
    kinds = (kind for kind, fits in KINDS_OF_OUTPUT if fits(text))
    return next(kinds, "unrecognised")


def first_cells(text):
    """The cells of the first line that isn't blank; none if there are fewer than three."""
    line = next((line for line in text[:HEAD].splitlines() if line.strip()), "")
    cells = [cell.strip() for cell in line.split(",")]
    return cells if len(cells) > 2 else []


def is_xml(text):
    """`nvidia-smi -q -x`."""
    head = text[:HEAD]
    return "<nvidia_smi_log" in head or (
        head.lstrip().startswith("<?xml") and "<gpu" in text[:100000]
    )


def is_query(text):
    """--query-gpu: two of its columns are known."""
    return sum(cell.split(" [")[0] in CANON for cell in first_cells(text)) >= 2


def is_topology(text):
    """`nvidia-smi topo -m`."""
    head = text[:HEAD]
    return re.search(r"^\s*GPU0\s", head, re.M) and re.search(r"^GPU0\s+.*X", head, re.M)


def is_kernel_log(text):
    """`dmesg`, what journalctl and /dev/kmsg give, or the events of a Kubernetes node."""
    return re.search(
        r"NVRM:|SXid|Xid \(|nvidia-(?:nvswitch|peermem)|\bkernel:|^\d+,\d+,\d+,[^;]*;"
        r"|^\[\s*\+?\d+\.\d+\]|amdgpu|pcieport|EDAC \S|(?:EXT4|BTRFS|XFS)\S* (?:error )?\("
        r"|\bkernel-monitor\b|\"_TRANSPORT\" ?:|\bnvme nvme\d|\bI/O error, dev "
        r"|\[Hardware Error\]:",
        text[:MOST_LOOKED_AT],
        re.M,
    )


# Which output a raw text is, by its content; the first that fits.
KINDS_OF_OUTPUT = (
    ("nvidia-smi-q.xml", is_xml),
    ("q.txt", lambda text: "NVSMI LOG" in text[:HEAD]),
    # | N/A   41C    P0             69W /  700W |       0MiB /  81559MiB |      0%      Default |
    (
        "table.txt",
        lambda text: re.search(r"^[>\s]*\|\s.*\d+MiB\s*/\s*\d+MiB", text[:MOST_LOOKED_AT], re.M),
    ),
    # Filesystem      Size  Used Avail Use% Mounted on
    ("df.txt", lambda text: re.search(r"^\s*Filesystem\s.*\bMounted on\s*$", text[:HEAD], re.M)),
    ("dcgm.txt", lambda text: is_of_dcgm(text[:HEAD])),
    ("edac.txt", lambda text: has_memory_counts(text[:MOST_LOOKED_AT])),
    (
        "retired.csv",
        lambda text: any(cell.startswith("retired_pages.address") for cell in first_cells(text)),
    ),
    ("apps.csv", lambda text: "pid" in first_cells(text)),
    ("nvidia-smi.csv", is_query),
    ("q.txt", lambda text: is_part_of_q(text[:MOST_LOOKED_AT])),
    ("nvlink.txt", lambda text: re.search(r"^\s+Link \d+:", text, re.M)),
    # GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-…)
    ("nvidia-smi-list.txt", lambda text: re.match(r"\s*^GPU \d+: ", text[:HEAD], re.M)),
    ("topo.txt", is_topology),
    (
        "nvidia-smi.csv",
        lambda text: smi_failure(text[:HEAD]) or HANDLE.search(text[:HEAD]),
    ),
    # 3b:00.0 3D controller [0302]: NVIDIA Corporation …
    (
        "lspci.txt",
        lambda text: re.search(
            r"^(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] ", text[:HEAD], re.M
        ),
    ),
    ("version.txt", lambda text: re.search(r"^NVML version\s*:", text[:HEAD], re.M)),
    ("dmesg.txt", is_kernel_log),
    ("cgroup.txt", lambda text: has_limits(text[:HEAD])),
    ("fabricmanager.txt", lambda text: "[tid " in text[:HEAD]),
)
