"""Judge the host: kernel log, disks, memory, device nodes, torch and AMD cards.

`box` is a `box.ExaminedBox`, and a place is a PCI address. `add` is a `tables.Findings`:
add(gpu, name, *values) adds the finding `name`, with None for `gpu` if it is about the whole box.
"""

import json
import re
from typing import NamedTuple

from .box import amd_cards, nvidia_cards
from .kernel_log import ANOTHERS, HOST_KINDS, UNKNOWN_XID, xid_words
from .tables import BACK, LOG_ACTION, RANK, SXID, XID, XID_ENTRY
from .text import as_dict, as_list, bdf, number, short


class Devices:
    """The devices of a box by their place, because lines of the kernel log name the place."""

    def __init__(self, box):
        """`nvidia`: places of NVIDIA GPUs. `labels`: place -> label of the GPU in findings.

        `own`: the places of the devices that belong to this job.
        """
        self.nvidia = {gpu.bdf for gpu in box.gpus if gpu.bdf}
        self.labels = {bdf(str(card.get("bdf"))): label for label, card in amd_cards(box)}
        self.labels.update({gpu.bdf: gpu.label for gpu in box.gpus if gpu.bdf})
        opened = [card for card in box.missing_cards if card.get("node") == "open"]
        self.own = {bdf(str(card.get("bdf"))) for card in opened} | set(self.labels)


def judge_log(box, add):
    """Judge Xids, SXids and other bad lines since the last boot, driver load or GPU reset."""
    if box.log is None:
        return
    judge_reach_of_log(box, add)
    devices = Devices(box)
    events = [event for event in box.log["events"] if not event["old"] and event["level"] != "ok"]
    has_gsp_xid = any(event["code"] in (119, 120) for event in events)
    for (place, kind, code), group in grouped(levelled(events)).items():
        if kind == "sxid":
            add_sxid(code, place, group, add)
        elif kind != "gsp" or not has_gsp_xid:  # the Xid says the same, and names the GPU
            judge_group(box, devices, place, kind, code, group, add)


def levelled(events):
    """Give each event its level -> [(level, event)].

    Xid 154 is the driver's last word on a GPU. Its level replaces that of all Xids before it that
    are worse than a warning.
    """
    last_words = {}  # place -> (position, level) of its last Xid 154
    for position, event in enumerate(events):
        if event["kind"] == "xid" and event["code"] == 154:
            last_words[event["bdf"]] = (position, event["level"])
    pairs = []
    for position, event in enumerate(events):
        level, last = event["level"], last_words.get(event["bdf"])
        if event["kind"] == "xid" and last and position <= last[0] and RANK[level] < RANK["warn"]:
            level = last[1]
        pairs.append((level, event))
    return pairs


def grouped(pairs):
    """Group [(level, event)] by what happened where -> {(place, kind, code): [(level, event)]}.

    The groups and their events keep the order of the log.
    """
    groups = {}
    for level, event in pairs:
        groups.setdefault((event["bdf"], event["kind"], event["code"]), []).append((level, event))
    return groups


def judge_group(box, devices, place, kind, code, group, add):
    """Add one finding for the events of one kind at one place. `group`: [(level, event)]."""
    worst = worst_of(group)
    evidence, owner = line_of(group, worst), owner_of(box, devices, place)
    if owner == "another job":
        worst = "warn"
    elif owner == "perhaps this job":
        worst = worst if worst == "warn" else "unknown"
    elif kind in ("probe", "probe failed"):
        worst = level_of_probe(box, group[-1][1]["line"])
    label, elsewhere = devices.labels.get(place, place), owner == "another job"
    if kind != "xid":
        add_line(box, kind, place, label, worst, evidence, elsewhere, add)
    # Of a GPU that is off the bus (Xid 79), the finding "lost" says the same.
    elif code != 79 or place not in devices.nvidia or not add.has("lost", label):
        add_xid(code, place, label, worst, evidence, elsewhere, add)


def owner_of(box, devices, place):
    """Say who uses a device: "this job", "another job" or "perhaps this job".

    A container, or a job on part of a node, sees the log of the whole host. A card that the
    container doesn't list is another job's. But if the container has a device node without a GPU,
    the card may be one that this job lost.
    """
    if place and place in box.foreign:
        return "another job"
    if place and box.container and box.gpus and place not in devices.own:
        return "perhaps this job" if box.spare_nodes else "another job"
    return "this job"


def worst_of(pairs):
    """Return the worst level in [(level, event)]."""
    return min((level for level, _ in pairs), key=RANK.__getitem__)


def judge_reach_of_log(box, add):
    """Judge whether the kernel log can be read, and whether it goes back to the boot."""
    log, got = box.log, box.exit.get("dmesg.txt") or {"rc": 0, "timed_out": False}
    wsl = as_dict(box.proc.get("platform")).get("wsl")
    failed = (isinstance(got["rc"], int) and got["rc"] != 0) or got["timed_out"]
    if failed or wsl or not log["looks"]:
        why = "the kernel log can't be read (dmesg_restrict, or a container without it)"
        why = "WSL's kernel log holds no Xids" if wsl else why
        add(None, "no_kernel_log", why, level="warn" if box.log_excused else "unknown")
    elif box.recorded and log["odd"]:
        add(None, "odd_kernel_log", log["odd"], log["lines"])
    elif box.recorded and not log["boot"] and (log["first"] is None or log["first"] > 300):
        # The driver itself says that no GPU needs a reset, so the missing lines matter less.
        is_fit = box.gpus and all(gpu.raw("gpu_recovery_action") == "None" for gpu in box.gpus)
        first = f"{log['first']} s" if log["first"] else "some time"
        level = "warn" if is_fit or box.log_excused else "unknown"
        add(None, "late_kernel_log", first, level=level)


def line_of(pairs, level):
    """Return the last line of this level in [(level, event)], with the number of events."""
    line = next(event["line"] for other, event in reversed(pairs) if other == level)
    return times(line, pairs)


def times(line, events):
    """Return a line cut to fit, with the number of events if there are several."""
    return short(line, 250) + (f" ({len(events)} times)" if len(events) > 1 else "")


def add_xid(code, place, label, level, evidence, elsewhere, add):
    """Add a finding for the events of one Xid on one GPU. `elsewhere`: another job uses the GPU."""
    unknown = ("unknown", "", "not in the table of Xids")
    _, nvidia_action, meaning = XID.get(code, unknown)
    advice = UNKNOWN_XID
    if nvidia_action:
        own_advice = ANOTHERS if elsewhere else xid_words(code, level)
        advice = f"{own_advice} (NVIDIA's action: {nvidia_action})"
    if level == "fatal" and BACK not in advice:
        advice += "; if it comes back, " + BACK
    key, entry = f"xid {code} {place}", XID_ENTRY.get(code, "")
    expected = (code, meaning)
    add(label, "xid", evidence, level=level, expected=expected, do=(advice,), entry=entry, key=key)


def add_sxid(code, place, pairs, add):
    """Add a finding for the events of one SXid on one NVSwitch.

    If a line says itself whether the SXid is fatal, only such lines decide the level.
    """
    worded = [(level, event) for level, event in pairs if event["word"]]
    level = worst_of(worded or pairs)
    evidence = times(worded[0][1]["line"], pairs) if worded else line_of(pairs, level)
    by_table = {
        "always": "fatal by gpud's table",
        "maybe": "fatal if the line says so, by gpud's table",
        "never": "not fatal by gpud's table",
    }.get(SXID.get(code, ""), "not in gpud's table")
    action = {
        "fatal": "reboot the box; every GPU on the switch is affected; if it comes back, " + BACK,
        "degraded": "finish your job, then reboot the box",
    }.get(level, "watch it")
    key = f"sxid {code} {place}"
    add(None, "sxid", evidence, level=level, expected=(code, by_table), do=(action,), key=key)


def add_line(box, kind, place, label, level, evidence, elsewhere, add):
    """Add a finding for the events of a kind that is no Xid."""
    of_host = kind in HOST_KINDS
    if of_host and box.container and RANK[level] < RANK["warn"]:
        level = "warn"  # the disk or mount may be another container's
    add(
        label,
        "kernel_log_line",
        evidence,
        level=level,
        expected=("" if of_host else " or load of the driver",),
        do=(ANOTHERS if elsewhere and not of_host else LOG_ACTION[kind],),
        entry="" if of_host else kind,
        key="mismatch" if kind == "mismatch" else f"{kind} {place}",
    )


def judge_system(box, add):
    """Judge disks, memory and device nodes.

    The limits are our own, unless the finding names a source.
    """
    seen = set()
    for path, disk in sorted(as_dict(box.proc.get("disks")).items()):
        judge_disk(short(path, 80), disk, seen, add)
    judge_host_memory(box, add)
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
    if used is not None and 0 < 0.95 * limit < used:
        add(None, "container_memory", used, limit)
    elif available is not None and total > 0 and available < 1024:
        add(None, "little_memory", available, total)


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


def level_of_probe(box, line):
    """Return the level of a line that counts the cards that the driver didn't get."""
    match = re.search(r"for (\d+) device", line)
    passed_through = [
        card for card in nvidia_cards(box) if str(card.get("driver")).startswith("vfio")
    ]
    if match and "was not called" in line and int(match.group(1)) <= len(passed_through):
        return "warn"  # they belong to virtual machines
    return level_of_lost(box)


def judge_torch(box, add):
    """Judge the torch of the job's interpreter, and the small kernel that it ran on each GPU."""
    torch = as_dict(box.proc.get("torch"))
    if not torch:
        return
    if torch.get("failed") or ("error" in torch and "torch" not in torch):
        add(None, "no_torch", short(torch.get("python"), 60), torch.get("error"))
    elif not torch.get("available"):
        judge_torch_without_gpu(torch, add)
    for device in map(as_dict, as_list(torch.get("devices"))):
        if not device.get("ok"):
            judge_failed_kernel(device, add)


def judge_torch_without_gpu(torch, add):
    """Add a finding for a torch whose torch.cuda.is_available() is False."""
    error = str(torch.get("error", ""))
    action = "CPU-only torch, hidden devices, or a broken driver: see the text"
    entry = ""
    # The NVIDIA driver on your system is too old (found version 11040). Please update …
    if "driver" in error and "old" in error:
        action = "install a torch for this driver, or take a box with a newer one"
        entry = "torch_driver"
    name, cuda = short(torch.get("torch"), 40), torch.get("cuda")
    reason = short(error or "is_available() is False", 160)
    add(None, "torch_without_gpu", name, cuda, reason, do=(action,), entry=entry)


def judge_failed_kernel(device, add):
    """Add a finding for a small kernel that failed or gave a wrong sum on one GPU."""
    error, index = str(device.get("error", "a wrong sum")), device.get("index")
    action, entry = "restart the job; then reset the GPU", ""
    # CUDA error: no kernel image is available for execution on the device
    if "no kernel image" in error:
        action, entry = "install a torch with kernels for this card", "arch"
    gpu = index if isinstance(index, int) else None
    add(gpu, "failed_kernel", short(error, 200), do=(action,), entry=entry)


def judge_amd(record, box, add):
    """Judge AMD cards by sysfs, and by amd-smi if it is installed."""
    cards = amd_cards(box)
    labels = [label for label, _ in cards]
    # The cards of which no output counts the uncorrectable errors.
    uncounted = {label for label, card in cards if not judge_amd_card(label, card, add)}
    for name in ("amd-metric.json", "amd-bad-pages.json"):
        text = record["files"].get(name)
        if text:
            uncounted -= judge_amd_output(name, text, labels, box, add)
    if uncounted and box.recorded:
        add(None, "amd_ecc_untold", len(uncounted), len(cards))


def judge_amd_card(label, card, add):
    """Judge a card's errors and link by sysfs -> whether it counts uncorrectable errors."""
    ras = sorted(as_dict(card.get("ras")).items())
    # ue: 0
    # ce: 3
    counts = [(name, text, re.search(r"ue: (\d{1,9})", str(text))) for name, text in ras]
    for name, text, count in counts:
        if count and int(count.group(1)):
            add(label, "amd_ras", name, text)
    now = number(str(card.get("current_link_width", "")))
    most = number(str(card.get("max_link_width", "")))
    if now and most and now < most:
        add(label, "narrow_amd_link", now, most)
    return any(count for _, _, count in counts)


def judge_amd_output(name, text, labels, box, add):
    """Judge an output of amd-smi -> the cards whose uncorrectable errors it counts, by label."""
    counted = set()
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        add(None, "unreadable_amd_output", name, key=name)
        return counted
    ended = (box.exit.get(name) or {"rc": 0})["rc"]
    for index, card in enumerate(as_list(answer) or as_list(as_dict(answer).get("gpu_data"))):
        label = labels[index] if index < len(labels) else index
        if name == "amd-bad-pages.json":
            judge_amd_pages(label, leaves_of(card), add)
        elif judge_amd_metric(label, leaves_of(card), add) and ended == 0:
            counted.add(label)
    return counted


def judge_amd_pages(label, leaves, add):
    """Judge the output of `amd-smi bad-pages` for one card."""
    for key, value in leaves:
        if key == "status" and str(value).upper() in ("PENDING", "UN_RES", "UNRESERVABLE"):
            add(label, "amd_bad_pages", short(value, 20))


def judge_amd_metric(label, leaves, add):
    """Judge `amd-smi metric` for one card -> whether it counts uncorrectable errors."""
    counts_errors = False
    for key, value in leaves:
        if isinstance(value, int) and "uncorrectable" in key:
            counts_errors = True
            if re.match(r"(total_)?uncorrectable(_count)?$", key) and value > 0:
                add(label, "amd_uncorrectable", key, value)
    return counts_errors


def leaves_of(value, key="", depth=0):
    """Return [(key, leaf)] of a JSON value, ten levels deep."""
    if depth < 10 and isinstance(value, dict):
        return [
            leaf
            for name, item in value.items()
            for leaf in leaves_of(item, key if name == "value" else str(name), depth + 1)
        ]
    if depth < 10 and isinstance(value, list):
        return [leaf for item in value[:1000] for leaf in leaves_of(item, key, depth + 1)]
    return [(key, value)]
