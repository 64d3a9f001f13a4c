"""What is judged on the host: kernel log, disks, memory, device nodes, torch, AMD cards."""

import json
import re

from .box import amd_cards, nvidia_cards
from .kernel_log import ANOTHERS, HOST_KINDS, UNKNOWN_XID, xid_words
from .tables import BACK, LOG_ACTION, RANK, SXID, XID, XID_ENTRY
from .text import as_dict, as_list, bdf, number, short


def judge_log(box, add):
    """Xids, SXids and other bad lines since the last boot, driver load, or reset of the GPU."""
    if box.log is None:
        return
    judge_log_itself(box, add)
    new = [event for event in box.log["events"] if not event["old"] and event["level"] != "ok"]
    # Xid 154 is the driver's final statement about a GPU: it overrides the Xids before it.
    last_word = {}
    for position, event in enumerate(new):
        if event["kind"] == "xid" and event["code"] == 154:
            last_word[event["bdf"]] = (position, event["level"])
    groups = {}
    for position, event in enumerate(new):
        level, word = event["level"], last_word.get(event["bdf"])
        if event["kind"] == "xid" and word and position <= word[0] and RANK[level] < RANK["warn"]:
            level = word[1]
        groups.setdefault((event["bdf"], event["kind"], event["code"]), []).append((level, event))
    by_place = {gpu.bdf: gpu.label for gpu in box.gpus if gpu.bdf}
    labels = {bdf(str(one.get("bdf"))): label for label, one in amd_cards(box)}
    labels.update(by_place)
    own = {bdf(str(one.get("bdf"))) for one in box.missing_cards if one.get("node") == "open"}
    own.update(labels)
    for (place, kind, code), events in groups.items():
        if kind == "sxid":
            add_sxid(code, place, events, add)
            continue
        if kind == "gsp" and any(event["code"] in (119, 120) for event in new):
            continue  # the Xid says it, and which GPU
        worst = min((level for level, _ in events), key=RANK.get)
        evidence = line_of(events, worst)
        # A container, or a job on part of a node, sees the log of the whole host.
        foreign = place in box.foreign
        elsewhere = place and (foreign or (box.container and box.gpus and place not in own))
        if elsewhere and box.spare_nodes and not foreign:  # it may be this container's lost card
            elsewhere, worst = False, worst if worst == "warn" else "unknown"
        elif elsewhere:
            worst = "warn"
        elif kind in ("probe", "probe failed"):
            worst = level_of_probe(box, events[-1][1]["line"])
        label = labels.get(place, place)
        if kind != "xid":
            add_line(box, kind, place, label, worst, evidence, elsewhere, add)
        elif code != 79 or place not in by_place or not add.has("lost", label):
            add_xid(code, place, label, worst, evidence, elsewhere, add)


def judge_log_itself(box, add):
    """Can the kernel log be read, and does it go back far enough?"""
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
        told = box.gpus and all(gpu.raw("gpu_recovery_action") == "None" for gpu in box.gpus)
        first = f"{log['first']} s" if log["first"] else "some time"
        level = "warn" if told or box.log_excused else "unknown"
        add(None, "late_kernel_log", first, level=level)


def line_of(events, level):
    """The last line of this level, with the number of events."""
    line = next(event["line"] for other, event in reversed(events) if other == level)
    return times(line, events)


def times(line, events):
    """A line, with the number of its events if there are several."""
    return short(line, 250) + (f" ({len(events)} times)" if len(events) > 1 else "")


def add_xid(code, place, label, level, evidence, elsewhere, add):
    """A finding for the events of one Xid on one GPU."""
    unknown = ("unknown", "", "not in the table of Xids")
    _, action, what = XID.get(code, unknown)
    words = UNKNOWN_XID
    if action:
        ours = ANOTHERS if elsewhere else xid_words(code, level)
        words = f"{ours} (NVIDIA's action: {action})"
    if level == "fatal" and BACK not in words:
        words += "; if it comes back, " + BACK
    key, entry = f"xid {code} {place}", XID_ENTRY.get(code, "")
    expected = (code, what)
    add(label, "xid", evidence, level=level, expected=expected, do=(words,), entry=entry, key=key)


def add_sxid(code, place, events, add):
    """A finding for the events of one SXid on one NVSwitch.

    If a line says whether it is fatal, that line and its level count.
    """
    worded = [(level, event) for level, event in events if event["word"]]
    level = min((level for level, _ in worded or events), key=RANK.get)
    evidence = times(worded[0][1]["line"], events) if worded else line_of(events, level)
    told = {
        "always": "fatal by gpud's table",
        "maybe": "fatal if the line says so, by gpud's table",
        "never": "not fatal by gpud's table",
    }.get(SXID.get(code), "not in gpud's table")
    action = {
        "fatal": "reboot the box; every GPU on the switch is affected; if it comes back, " + BACK,
        "degraded": "finish your job, then reboot the box",
    }.get(level, "watch it")
    key = f"sxid {code} {place}"
    add(None, "sxid", evidence, level=level, expected=(code, told), do=(action,), key=key)


def add_line(box, kind, place, label, level, evidence, elsewhere, add):
    """A finding for the events of one other kind."""
    host = kind in HOST_KINDS
    if host and box.container and RANK[level] < RANK["warn"]:
        level = "warn"  # the host's log: another's disk or mount
    add(
        label,
        "kernel_log_line",
        evidence,
        level=level,
        expected=("" if host else " or load of the driver",),
        do=(ANOTHERS if elsewhere and not host else LOG_ACTION[kind],),
        entry="" if host else kind,
        key="mismatch" if kind == "mismatch" else f"{kind} {place}",
    )


def judge_system(box, add):
    """Disks, memory, device nodes. The limits are our own unless the finding names a source."""
    seen = set()
    for path, disk in sorted(as_dict(box.proc.get("disks")).items()):
        judge_disk(short(path, 80), disk, seen, add)
    limits, memory = as_dict(box.proc.get("cgroup")), as_dict(box.proc.get("memory"))
    limit, used = limits.get("limit_mib"), limits.get("used_mib")
    total, available = memory.get("total_mib"), memory.get("available_mib")
    if are_numbers(limit, used) and limit > 0 and used > 0.95 * limit:
        add(None, "container_memory", used, limit)
    elif are_numbers(total, available) and total > 0 and available < 1024:
        add(None, "little_memory", available, total)
    for one in map(as_dict, as_list(box.proc.get("dev"))):
        if one.get("error") and re.match(r"/dev/nvidia(\d+|ctl)$", str(one.get("path"))):
            add(None, "closed_node", one["path"], one["error"])
    switches, manager = box.proc.get("nvswitches"), box.proc.get("fabricmanager", "")
    needed = isinstance(switches, int) and switches > 0 and len(box.gpus) > 1
    if needed and manager is False and not box.container:
        ready = any("Completed" in (gpu.raw("fabric.state") or "") for gpu in box.gpus)
        add(None, "no_fabric_manager", switches, level="degraded" if ready else "fatal")
    for name in as_list(box.proc.get("unfinished")):
        if name != "gather_disks":
            add(None, "unfinished_part", short(name, 120), key=f"late {name}")
    judge_hidden_cards(box, add)


def are_numbers(*values):
    """Whether all values are numbers."""
    return all(isinstance(value, (int, float)) for value in values)


def judge_disk(path, disk, seen, add):
    """One path that the job writes to. `seen`: the disks that were judged, by other paths."""
    if disk is None:
        add(None, "dead_mount", path, key="disk " + path)
        return
    disk = as_dict(disk)
    if "error" in disk:
        if path != "/dev/shm" and disk["error"] != "No such file or directory":
            add(None, "path_error", path, disk["error"], key="disk " + path)
        return
    values = [disk.get(name) for name in ("total_mib", "free_mib", "inodes", "inodes_free")]
    if not are_numbers(*values) or not all(value >= 0 for value in values):
        add(None, "path_size", path, do=(path,), key="disk " + path)
        return
    total, free, inodes, inodes_free = values
    if path == "/dev/shm":
        if 0 < total <= 64:
            add(None, "shm_default", total)
        elif total < 1024:
            add(None, "shm_small", total)
        elif free < 64:
            add(None, "shm_full", free)
        return
    if disk.get("read_only") and disk.get("asked"):
        add(None, "path_read_only", path, key="disk " + path)
    place = disk.get("id") or (total, free, inodes)
    if disk.get("read_only") or total == 0 or place in seen:
        return
    seen.add(place)
    if free < 512:
        add(None, "disk_full", path, free, total, key="disk " + path)
    elif free < 5120:
        add(None, "disk_nearly_full", path, free, total, key="disk " + path)
    elif free < 0.03 * total and free < 51200:
        add(None, "disk_filling", path, free, total, key="disk " + path)
    if inodes and inodes_free < 100:
        add(None, "no_inodes", path, inodes_free, inodes, key="inodes " + path)
    elif inodes and inodes_free < 0.02 * inodes:
        add(None, "few_inodes", path, inodes_free, inodes, key="inodes " + path)


def judge_hidden_cards(box, add):
    """Cards and device nodes that nvidia-smi doesn't show: lost, or used by another job."""
    wsl = as_dict(box.proc.get("platform")).get("wsl")
    for one in box.missing_cards if not wsl else []:
        if one.get("node") == "open":
            add(bdf(str(one.get("bdf"))), "unknown_card", short(one.get("bdf")))
    for one in cards_without_driver(box) if box.gpus and not wsl else []:
        place, name = bdf(str(one.get("bdf"))), one.get("driver") or "none"
        if place not in ignored_cards(box):
            values = (short(one.get("bdf")), short(name, 40))
            add(place, "card_without_driver", *values, level=level_of_lost(box))
    untold = [one for one in box.missing_cards if "node" not in one]
    untold = [one for one in untold if not add.has("lost", bdf(str(one.get("bdf"))))]
    if untold and not box.container and not wsl:
        add(None, "hidden_cards", len(untold), len(nvidia_cards(box)))
    if box.spare_nodes and not any(key in ("lost", "count") for key, _ in add.keys):
        add(None, "spare_nodes", len(box.gpus) + box.spare_nodes, len(box.gpus))


def cards_without_driver(box):
    """Display devices of NVIDIA that no driver has, or only nouveau.

    A card with vfio-pci belongs to a virtual machine, a virtual function to none yet.
    """
    return [
        one
        for one in nvidia_cards(box)
        if str(one.get("class")).startswith(("0x0300", "0x0302"))
        and one.get("driver") in ("", "nouveau")
        and not one.get("virtual_function")
    ]


def ignored_cards(box):
    """Places of the cards that are too old for the driver; its log tells them."""
    events = box.log["events"] if box.log else []
    return {event["bdf"] for event in events if event["kind"] == "legacy" and not event["old"]}


def level_of_lost(box):
    """How bad a card is that the driver never got.

    On a part of a node it is probably another job's; in a container nobody can tell.
    """
    if box.foreign:
        return "warn"
    return "unknown" if box.container and box.gpus else "fatal"


def level_of_probe(box, line):
    """The level of a line that counts cards which the driver didn't get."""
    told = re.search(r"for (\d+) device", line)
    given = [one for one in nvidia_cards(box) if str(one.get("driver")).startswith("vfio")]
    if told and "was not called" in line and int(told.group(1)) <= len(given):
        return "warn"  # they belong to virtual machines
    return level_of_lost(box)


def judge_torch(box, add):
    """What the job's interpreter says: its torch, and a small kernel on each GPU."""
    torch = as_dict(box.proc.get("torch"))
    if not torch:
        return
    if torch.get("failed") or ("error" in torch and "torch" not in torch):
        add(None, "no_torch", short(torch.get("python"), 60), torch.get("error"))
    elif not torch.get("available"):
        error = str(torch.get("error", ""))
        action = "CPU-only torch, hidden devices, or a broken driver: see the text"
        entry = ""
        if "driver" in error and "old" in error:
            action = "install a torch for this driver, or take a box with a newer one"
            entry = "torch_driver"
        name, cuda = short(torch.get("torch"), 40), torch.get("cuda")
        told = short(error or "is_available() is False", 160)
        add(None, "torch_without_gpu", name, cuda, told, do=(action,), entry=entry)
    for one in map(as_dict, as_list(torch.get("devices"))):
        if not one.get("ok"):
            error, index = str(one.get("error", "a wrong sum")), one.get("index")
            action, entry = "restart the job; then reset the GPU", ""
            if "no kernel image" in error:
                action, entry = "install a torch with kernels for this card", "arch"
            gpu = index if isinstance(index, int) else None
            add(gpu, "failed_kernel", short(error, 200), do=(action,), entry=entry)


def judge_amd(record, box, add):
    """AMD cards: sysfs, and amd-smi if it is installed."""
    cards = amd_cards(box)
    labels, untold = [label for label, _ in cards], set()
    for label, one in cards:
        ras = sorted(as_dict(one.get("ras")).items())
        counts = [(name, text, re.search(r"ue: (\d{1,9})", str(text))) for name, text in ras]
        if not any(count for _, _, count in counts):
            untold.add(label)
        for name, text, count in counts:
            if count and int(count.group(1)):
                add(label, "amd_ras", name, text)
        now = number(str(one.get("current_link_width", "")))
        most = number(str(one.get("max_link_width", "")))
        if now and most and now < most:
            add(label, "narrow_amd_link", now, most)
    for name in ("amd-metric.json", "amd-bad-pages.json"):
        text = record["files"].get(name)
        if not text:
            continue
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError):
            add(None, "unreadable_amd_output", name, key=name)
            continue
        ended = (box.exit.get(name) or {"rc": 0})["rc"]
        for index, one in enumerate(as_list(answer) or as_list(as_dict(answer).get("gpu_data"))):
            label = labels[index] if index < len(labels) else index
            if name == "amd-bad-pages.json":
                judge_amd_pages(label, leaves_of(one), add)
            elif judge_amd_metric(label, leaves_of(one), add) and ended == 0:
                untold.discard(label)
    if untold and box.recorded:
        add(None, "amd_ecc_untold", len(untold), len(cards))


def judge_amd_pages(label, leaves, add):
    """`amd-smi bad-pages` of one card."""
    for key, value in leaves:
        if key == "status" and str(value).upper() in ("PENDING", "UN_RES", "UNRESERVABLE"):
            add(label, "amd_bad_pages", short(value, 20))


def judge_amd_metric(label, leaves, add):
    """`amd-smi metric` of one card. -> whether it tells of uncorrectable errors."""
    told = False
    for key, value in leaves:
        if isinstance(value, int) and "uncorrectable" in key:
            told = True
            if re.match(r"(total_)?uncorrectable(_count)?$", key) and value > 0:
                add(label, "amd_uncorrectable", key, value)
    return told


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
