"""Judge the host: disks, memory, the fabric manager, and cards that the driver doesn't show.

`box` is a `box.ExaminedBox`, and a place is a PCI address. `add` is a `findings.Findings`:
add(gpu, name, *values) adds the finding `name`, with None for `gpu` if it is about the whole box.
"""

import math
import re
from typing import NamedTuple

from ...logs.kernel.places import bdf, short
from ...logs.kernel.repeated import CORRECTED_A_DAY
from .box import nvidia_cards
from .text import as_dict, as_list


def judge_system(box, add):
    """Judge disks, memory and device nodes.

    The limits are our own, unless the finding names a source.
    """
    seen = set()
    for path, disk in sorted(as_dict(box.proc.get("disks")).items()):
        judge_disk(short(path, 80), disk, seen, add)
    judge_host_memory(box, add)
    judge_memory_errors(box, add)
    judge_processors(box, add)
    for node in map(as_dict, as_list(box.proc.get("dev"))):
        if node.get("error") and re.match(r"/dev/nvidia(\d+|ctl)$", str(node.get("path"))):
            add(None, "closed_node", node["path"], node["error"])
    judge_fabric_manager(box, add)
    for name in as_list(box.proc.get("unfinished")):
        if name != "gather_disks":  # the path that hung gets the finding dead_mount instead
            add(None, "unfinished_part", short(name, 120), key=f"late {name}")
    judge_hidden_cards(box, add)


def judge_host_memory(box, add):
    """Judge the container's memory limit. If that isn't nearly used up, judge the box's memory."""
    limits, memory = as_dict(box.proc.get("cgroup")), as_dict(box.proc.get("memory"))
    limit, used = as_number(limits.get("limit_mib")) or 0, as_number(limits.get("used_mib"))
    total, available = (
        as_number(memory.get("total_mib")) or 0,
        as_number(memory.get("available_mib")),
    )
    cards = [gpu.number("memory.total") or 0 for gpu in box.gpus]
    if 0 < limit < min(max(cards, default=0), total or limit + 1):
        add(None, "less_memory_than_a_gpu", limit, max(cards))
    if used is not None and 0 < 0.95 * limit < used:
        add(None, "container_memory", used, limit)
    elif available is not None and total > 0 and available < 1024:
        add(None, "little_memory", available, total)


PROCESSORS_A_GPU = 2  # a process that trains, and one that loads data (our limit)
THROTTLED = 0.25  # of the periods in which a container used processors (our limit)
STEAL_WARN, STEAL_DEGRADED = 0.05, 0.2  # of the time in which programs wanted to run (our limits)
DAYS_UNKNOWN = 100.0  # that a box may have counted of which nobody says how long (our limit)
LEAST_TICKS = 3000  # of the kernel's clock, 100 a second: less tells nothing


def judge_memory_errors(box, add):
    """Judge what EDAC counted since the boot: memory errors that were corrected, or couldn't be.

    Of counts that somebody pasted nothing says since when, so that a few may be years old.
    """
    uptime = as_number(box.proc.get("uptime_s"))
    days = DAYS_UNKNOWN if uptime is None else max(1.0, uptime / 86400.0)
    since = "since a time that isn't told" if uptime is None else f"up {days:.1f} days"
    for name, counts in sorted(as_dict(box.proc.get("edac")).items()):
        counts = as_dict(counts)
        uncorrected, corrected = as_number(counts.get("ue")), as_number(counts.get("ce"))
        values = (short(name, 20), since)
        if uncorrected:
            add(None, "uncorrected_memory", uncorrected, *values, key=f"host memory {name}")
        elif corrected and corrected >= CORRECTED_A_DAY * days:
            add(None, "corrected_memory", corrected, *values, key=f"host memory {name}")
        elif corrected and uptime is None:
            add(None, "few_corrected", corrected, *values, key=f"host memory {name}")


def processors_of(box):
    """How many processors the job may use, by its affinity and its container's quota, or None."""
    cpu = as_dict(box.proc.get("cpu"))
    known = [as_number(cpu.get(name)) for name in ("allowed", "quota")]
    return min([number for number in known if number], default=None)


def judge_processors(box, add):
    """Judge the processors that the job may use, and how much of their time others take."""
    cpu, mine = as_dict(box.proc.get("cpu")), processors_of(box)
    total = as_number(cpu.get("count"))
    if mine and mine < min(total or math.inf, PROCESSORS_A_GPU * len(box.gpus)):
        of = f" of {total:g}" if total else ""
        add(None, "few_processors", f"{mine:g}{of}", len(box.gpus))
    periods, throttled = as_number(cpu.get("periods")), as_number(cpu.get("throttled"))
    if periods and throttled and periods >= 1000 and throttled > THROTTLED * periods:
        add(None, "throttled_container", 100 * throttled / periods)
    share = stolen_share(as_list(cpu.get("times")))
    if share and share >= STEAL_WARN:
        level = "degraded" if share >= STEAL_DEGRADED else "warn"
        add(None, "stolen_time", 100 * share, level=level)


def stolen_share(times):
    """The share of the time that the machine wanted to run in which others ran, or None.

    `times`: the first line of /proc/stat, in ticks: user, nice, system, idle, iowait, irq, softirq,
    steal, since the boot of the machine.
    """
    ticks = [value for value in times[:8] if isinstance(value, (int, float))]
    if len(ticks) < 8:
        return None
    wanted = sum(ticks) - ticks[3] - ticks[4]
    return ticks[7] / wanted if wanted >= LEAST_TICKS else None


def judge_fabric_manager(box, add):
    """Judge nv-fabricmanager: without it no CUDA program starts on a board with NVSwitches."""
    switches, manager = box.proc.get("nvswitches"), box.proc.get("fabricmanager", "")
    needed = isinstance(switches, int) and switches > 0 and len(box.gpus) > 1
    if needed and manager is False and not box.container:
        ready = any("Completed" in (gpu.raw("fabric.state") or "") for gpu in box.gpus)
        add(None, "no_fabric_manager", switches, level="degraded" if ready else "fatal")


def as_number(value):
    """The value if it is a number, otherwise None."""
    return value if isinstance(value, (int, float)) else None


class DiskSizes(NamedTuple):
    """The size of a file system in MiB and in inodes, and how much of each is free."""

    total: float
    free: float
    inodes: float
    inodes_free: float


def sizes_of(disk):
    """Return the DiskSizes of a disk as it was gathered, or None if a size is missing."""
    names = ("total_mib", "free_mib", "inodes", "inodes_free")
    values = [as_number(disk.get(name)) for name in names]
    known = [value for value in values if value is not None and value >= 0]
    return DiskSizes(*known) if len(known) == len(names) else None


def judge_disk(path, disk, seen, add):
    """Judge one path that the job writes to.

    `seen` holds the disks that were judged already, under other paths.
    """
    if disk is None:
        add(None, "dead_mount", path, key="disk " + path)
        return
    disk = as_dict(disk)
    if "error" in disk:
        if path != "/dev/shm" and disk["error"] != "No such file or directory":
            add(None, "path_error", path, disk["error"], key="disk " + path)
        return
    sizes = sizes_of(disk)
    if sizes is None:
        add(None, "path_size", path, do=(path,), key="disk " + path)
        return
    if path == "/dev/shm":
        judge_shm(sizes, add)
        return
    if disk.get("read_only") and disk.get("asked"):
        add(None, "path_read_only", path, key="disk " + path)
    place = disk.get("id") or (sizes.total, sizes.free, sizes.inodes)
    if not disk.get("read_only") and sizes.total != 0 and place not in seen:
        seen.add(place)
        judge_space(path, sizes, add)
        judge_inodes(path, sizes, add)


def judge_shm(sizes, add):
    """Judge /dev/shm. Docker's default of 64 MiB is too little for data loaders."""
    if 0 < sizes.total <= 64:
        add(None, "shm_default", sizes.total)
    elif sizes.total < 1024:
        add(None, "shm_small", sizes.total)
    elif sizes.free < 64:
        add(None, "shm_full", sizes.free)


def judge_space(path, sizes, add):
    """Judge the free space of a disk."""
    values, key = (path, sizes.free, sizes.total), "disk " + path
    if sizes.free < 512:
        add(None, "disk_full", *values, key=key)
    elif sizes.free < 5120:
        add(None, "disk_nearly_full", *values, key=key)
    elif sizes.free < 0.03 * sizes.total and sizes.free < 51200:
        add(None, "disk_filling", *values, key=key)


def judge_inodes(path, sizes, add):
    """Judge the free inodes of a disk.

    A file system that creates inodes as needed reports 0 of 0, so it gets no finding.
    """
    values, key = (path, sizes.inodes_free, sizes.inodes), "inodes " + path
    if sizes.inodes and sizes.inodes_free < 100:
        add(None, "no_inodes", *values, key=key)
    elif sizes.inodes and sizes.inodes_free < 0.02 * sizes.inodes:
        add(None, "few_inodes", *values, key=key)


def judge_hidden_cards(box, add):
    """Judge cards and device nodes that nvidia-smi doesn't show: lost, or used by another job."""
    wsl = as_dict(box.proc.get("platform")).get("wsl")
    for card in box.missing_cards if not wsl else []:
        if card.get("node") == "open":
            add(bdf(str(card.get("bdf"))), "unknown_card", short(card.get("bdf")))
    for card in cards_without_driver(box) if box.gpus and not wsl else []:
        place, name = bdf(str(card.get("bdf"))), card.get("driver") or "none"
        if place not in ignored_cards(box):
            values = (short(card.get("bdf")), short(name, 40))
            add(place, "card_without_driver", *values, level=level_of_lost(box))
    hidden = [card for card in box.missing_cards if "node" not in card]
    hidden = [card for card in hidden if not add.has("lost", bdf(str(card.get("bdf"))))]
    if hidden and not box.container and not wsl:
        add(None, "hidden_cards", len(hidden), len(nvidia_cards(box)))
    if box.spare_nodes and not any(key in ("lost", "count") for key, _ in add.keys):
        add(None, "spare_nodes", len(box.gpus) + box.spare_nodes, len(box.gpus))


def cards_without_driver(box):
    """Return NVIDIA's display devices that have no driver, or only nouveau.

    Two kinds are left out as healthy: a card with vfio-pci, which a virtual machine uses, and a
    virtual function, which waits for one.
    """
    return [
        card
        for card in nvidia_cards(box)
        if str(card.get("class")).startswith(("0x0300", "0x0302"))
        and card.get("driver") in ("", "nouveau")
        and not card.get("virtual_function")
    ]


def ignored_cards(box):
    """Return the places of the cards that are too old for the driver, according to its log."""
    events = box.log["events"] if box.log else []
    return {event["bdf"] for event in events if event["kind"] == "legacy" and not event["old"]}


def level_of_lost(box):
    """Return the level of a card that the driver never got.

    For a job on part of a node, the card is probably another job's. In a container nobody can tell.
    """
    if box.foreign:
        return "warn"
    return "unknown" if box.container and box.gpus else "fatal"
