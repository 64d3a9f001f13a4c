"""Judge the kernel log: which of its lines are about this job's devices, and how bad they are.

`box` is a `box.ExaminedBox`, and a place is a PCI address. `add` is a `findings.Findings`:
add(gpu, name, *values) adds the finding `name`, with None for `gpu` if it is about the whole box.
"""

import re

from ...logs.kernel.advice import BACK, RANK
from ...logs.kernel.kernel_log import HOST_KINDS, MACHINE_KINDS
from ...logs.kernel.log_rules import LOG_ACTION
from ...logs.kernel.places import bdf, short
from ...logs.kernel.repeated import PROGRAMS, with_repetition
from ...logs.kernel.storms import processes_of, same_unit, storm
from ...logs.kernel.xids import SXID, UNKNOWN_XID, XID, XID_ENTRY, previous_xid, xid_words
from .box import amd_cards, nvidia_cards
from .judge_host import level_of_lost
from .text import as_dict, as_list

SUSPECT = "several programs failed in one unit: run them on another card; if they pass, " + BACK
MANY = "several programs were stopped on this card: run one on another card; if it passes, " + BACK
CLEANED = "find out what ended these programs: their logs, or the line before the first of these"
ANOTHERS = "nothing: the device belongs to another job or container"
PORT = re.compile(r"\bpcieport ([0-9a-f:.]+): ")
HOT_PROCESSOR = re.compile(r"\bCPU(\d+): Package temperature ")


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
    events = with_repetition([event for event in box.log["events"] if not event["old"]])
    events = at_the_card(box, [event for event in events if event["level"] != "ok"])
    has_gsp_xid = any(event["code"] in (119, 120) for event in events)
    for (place, kind, code), group in grouped(levelled(events)).items():
        if kind == "sxid":
            add_sxid(code, place, group, add)
        elif kind == "iommu" and place not in devices.labels:
            continue  # a network card, a controller
        elif kind != "gsp" or not has_gsp_xid:  # the Xid says the same, and names the GPU
            judge_group(box, devices, place, kind, code, group, add)


def at_the_card(box, events):
    """Give the events of a PCIe port the place of the card behind it -> [event].

    The port above a card reports the card's errors too. sysfs says which card is behind it, or the
    driver's own line in the log names the card. Of a port about which nothing is known the place is
    dropped: it is no card's.
    """
    behind = {}
    for card in map(as_dict, as_list(box.proc.get("pci"))):
        for port in as_list(card.get("behind")):
            behind.setdefault(bdf(str(port)), set()).add(bdf(str(card.get("bdf"))))
    named = {event["bdf"] for event in events if event["kind"] == "aer card"}
    cards = {gpu.bdf for gpu in box.gpus} | {
        bdf(str(card.get("bdf"))) for card in nvidia_cards(box)
    }
    out = []
    for event in events:
        place = event["bdf"]
        if event["kind"] in ("aer", "aer card"):
            below = behind.get(place, set()) or (named if place not in cards else set())
            port = PORT.search(event["line"])
            if place not in named and len(below) == 1:
                place = min(below)
            elif port and bdf(port.group(1)) == place and place not in cards:
                place = None
            event = dict(event, kind="aer", bdf=place)
        out.append(event)
    return out


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
    unit = same_unit([event["line"] for _, event in group]) if kind == "xid" and code == 13 else ""
    if unit:
        worst, evidence = "degraded", f"{evidence} (only in {unit})"
    if owner == "another job":
        worst = "warn"
    elif owner == "perhaps this job":
        worst = worst if worst == "warn" else "unknown"
    elif kind in ("probe", "probe failed"):
        worst = level_of_probe(box, group[-1][1]["line"])
    elif kind == "processor heat":
        worst = level_of_heat([event["line"] for _, event in group])
    label, elsewhere = devices.labels.get(place, place), owner == "another job"
    if kind != "xid":
        add_line(box, kind, place, label, worst, evidence, elsewhere, add)
    # Of a GPU that is off the bus (Xid 79), the finding "lost" says the same.
    elif code != 79 or place not in devices.nvidia or not add.has("lost", label):
        advice = ANOTHERS if elsewhere else SUSPECT if unit else words_of_xid(code, worst, group)
        add_xid(code, place, label, worst, evidence, advice, add)


def words_of_xid(code, level, group):
    """Return what to do about the events of one Xid at one place. `group`: [(level, event)]."""
    lines = [event["line"] for _, event in group]
    cause = previous_xid(lines[-1]) if code == 45 and RANK[level] < RANK["warn"] else None
    if cause is not None:
        return xid_words(cause, level)
    several = len(processes_of(lines)) >= PROGRAMS
    if code in (43, 45) and several:
        return MANY if code == 43 else CLEANED
    return xid_words(code, level, lines[-1])


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
    """Return the last line of this level in [(level, event)], with what all of them amount to."""
    line = next(event["line"] for other, event in reversed(pairs) if other == level)
    return times(line, pairs)


def times(line, pairs):
    """Return a line cut to fit, with number, times and processes if there are several."""
    several = storm([event["line"] for _, event in pairs])
    return short(line, 250 - len(several)) + several


def add_xid(code, place, label, level, evidence, advice, add):
    """Add a finding for the events of one Xid on one GPU, with what to do and NVIDIA's own word."""
    unknown = ("unknown", "", "not in the table of Xids")
    _, nvidia_action, meaning = XID.get(code, unknown)
    advice = f"{advice} (NVIDIA's action: {nvidia_action})" if nvidia_action else UNKNOWN_XID
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
        "stalls": "not fatal by gpud's table, but NVLink traffic stops and programs hang",
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
    shared = of_host and kind not in MACHINE_KINDS
    if shared and box.container and RANK[level] < RANK["warn"]:
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


def level_of_probe(box, line):
    """Return the level of a line that counts the cards that the driver didn't get."""
    match = re.search(r"for (\d+) device", line)
    passed_through = [
        card for card in nvidia_cards(box) if str(card.get("driver")).startswith("vfio")
    ]
    if match and "was not called" in line and int(match.group(1)) <= len(passed_through):
        return "warn"  # they belong to virtual machines
    return level_of_lost(box)


def level_of_heat(lines):
    """Return the level of hot processors: worse if one stayed hot, or was hot again.

    Each says so at most every 300 s.
    """
    processors = [number for line in lines for number in HOT_PROCESSOR.findall(line)]
    return "degraded" if len(set(processors)) < len(processors) else "warn"


def ended(box):
    """The faults of the log that a boot, a load of the driver or a reset ended, in words."""
    old = [event for event in box.log["events"] if event["old"]] if box.log else []
    old = [event for event in old if event["code"] != 154]  # it goes with another Xid
    named = [
        f"Xid {event['code']}" if event["kind"] == "xid" else event["kind"]
        for event in old
        if event["level"] != "ok"
    ]
    return ", ".join(dict.fromkeys(named))
