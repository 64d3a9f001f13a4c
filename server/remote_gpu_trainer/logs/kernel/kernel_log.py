"""Turn the lines of the kernel log into events."""

import re

from .forms import lines_of
from .log_rules import LOG_RULES
from .places import bdf, clean, short
from .traces import TRACED, Trace
from .xids import SXID, xid_level

# NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
# NVRM: Xid (0000:03:00): 14, Channel 00000001
# NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: …
XID_LINE = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)([^)]*)\): (\d{1,6})(?:[,\s](.*))?$")

# nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error
SXID_LINE = re.compile(r"SXid \(PCI:([0-9a-fA-F:.]+)\): (\d{1,6})(?:[,\s]+(.*))?$")

# [Feb 27 2025 15:10:02] [ERROR] [tid 12727] detected NVSwitch non-fatal error 12028 on fid 0
#   on NVSwitch pci bus id 00000000:86:00.0 …      one line, Fabric Manager's
FM_LINE = re.compile(
    r"detected NVSwitch (non-fatal|fatal) error (\d{1,6}) .{0,60}?pci bus id ([0-9a-fA-F:.]+)"
)

# A load of the driver begins with the first of these lines. The second comes after the driver has
# looked at each card, so what it says about a card that failed stands between the two.
LOAD_BEGINS = "nvidia-nvlink: Nvlink Core is being initialized"
LOAD_DONE = "NVRM: loading NVIDIA UNIX"

# These lines end everything before them: a boot, a load or unload of the driver.
# "NVRM: Try unloading the conflicting kernel module" is advice, and ends nothing.
# -- Boot 6d43c94c5e0a4d4c8f2f2e2f0a1b2c3d --   and   -- Reboot --      journalctl, between boots
BOOT = re.compile(r"Linux version \d+\.\d+|^-- (?:Boot [0-9a-f]{32}|Reboot) --")
OLD = re.compile(
    rf"{BOOT.pattern}|{LOAD_BEGINS}|{LOAD_DONE}"
    r"|nvidia: module unloaded|NVRM: (?!Try ).{0,60}unloading"
)

# What the driver says while it loads about cards that it can't use.
LOAD_KINDS = ("probe", "probe failed", "bar", "legacy", "module")

# A line that looks like one of a log:
# [   12.345678] NVRM: …      Jan 18 11:38:05 host kernel: …
# 6,3973,227996636,-;…      2026-11-20T16:31:06 …
# [Jan21 11:05] …      [  +0.000844] …      dmesg -H
#   Warning  Ext4Error  2m13s (x2 over 2m13s)  kernel-monitor  EXT4-fs error …      kubectl describe
# 2m13s  Warning  Ext4Error  node/a  EXT4-fs error …      kubectl get events
LOG_LIKE = re.compile(
    r"^\s*(?:<\d+>)?\[ *(?:\+?\d+\.\d+\]|[A-Z]\w{2} |[A-Z]\w{2}\d\d \d\d:\d\d\])|^--|^\d+,\d+,\d+,"
    r"|^[A-Z]\w{2}\.? +\d+ \d\d:\d\d|^\d{4}-\d\d-\d\d|NVRM:|SXid \(|\[Hardware Error\]:"
    r"|^\s*(?:\S{1,30} +)?(?:Warning|Normal) +[A-Z]\w+ ",
    re.M,
)

# nvidia 0000:3b:00.0: reset done      pci core, after a reset of one device
RESET_DONE = re.compile(r"\b([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2})\.[0-7]: reset done")

# Faults of the machine itself: they meet every container on it.
MACHINE_KINDS = (
    "host memory",
    "failing memory",
    "corrected memory",
    "machine check",
    "clock source",
    "processor heat",
)

# Faults of the host, not of the driver: only a boot ends them, and a container may see those of its
# neighbours.
HOST_KINDS = (
    *MACHINE_KINDS,
    "disk",
    "disk end",
    "nfs",
    "killed",
    "stuck",
    "stuck in a file system",
    "locked",
    "files",
    "network card",
    "network register",
    "panic",
    "nccl crash",
)

# A line with none of these is plain; the others are compared with every rule.
WORTH = re.compile(
    r"NVRM|SXid|AER|amdgpu|reset done|NVSwitch|peermem|libnccl|I/O|read-only|Disk failure"
    r"|reset failure|beyond end|nfs|Killed process|lockup|blocked for more|file-max|ACCESS_REG"
    r"|Kernel panic|insufficient power|High Temperature|multicast team|uvm encountered"
    r"|detected stall|LOCKUP|jiffies|EDAC|mce:|Memory failure|DMAR|AMD-Vi|clocksource"
    r"|EXT4-fs error|XFS \(|BTRFS|JBD2|Aborting journal|critical \w+ error|nvme nvme"
    r"|_STATUS\[|CMCI|Hardware Error|system reset reason"
)
NFS_OK = re.compile(r"nfs: server (\S{1,80}) OK")

# NVRM: The NVIDIA GPU 0000:b3:00.0 / NVRM: (PCI ID: …) installed in this system has /
# NVRM: fallen off the bus and is not responding
SPLIT_LINE = re.compile(r"NVRM: The NVIDIA GPU ([0-9a-f:.]+)", re.I)


LONGEST = 4000  # characters of a line that are compared; the kernel writes at most about 1000


class SplitReport:
    """The report of a lost GPU, which the driver writes in up to four lines."""

    def __init__(self, place, line):
        """`line`: its first line."""
        self.place, self.text, self.lines_left = place, line, 3

    def take(self, line):
        """Add the next line of the log. Return the event if it says that the GPU is lost."""
        self.text += " " + line.split("NVRM:")[-1].strip()
        self.lines_left -= 1
        if "fallen off the bus" not in line:
            return None
        self.lines_left = 0
        return event_of("xid", 79, self.place, "fatal", self.text, at_load=True)


def parse_log(text):
    """Kernel log -> {events, problems, first, boot, looks, odd, lines}.

    `first`: seconds after boot of the first line, or None; `boot`: it holds the boot or the load of
    the driver; `looks`: some line looks like one of a log; `odd`: how many of the `lines` don't.
    An event: {kind, code, bdf, level, line, at, old}. `at`: the number of its line, from 0. `old`:
    before the last boot, load of the driver, or reset of that GPU.
    """
    lines = lines_of(clean(text))
    events, problems = events_of(lines)
    starts = [line for line in lines if line.strip() and not line.startswith((" ", "\t"))]
    times = map(seconds_of, lines)
    return {
        "events": events,
        "problems": problems[:3],
        "first": next((seconds for seconds in times if seconds is not None), None),
        "boot": any(OLD.search(line) for line in lines),
        "looks": any(LOG_LIKE.search(line) for line in lines),
        "odd": sum(1 for line in starts if not LOG_LIKE.search(line)),
        "lines": len(lines),
    }


def events_of(lines):
    """-> (the events of a log, what can't be read in it)."""
    events, problems, report, trace = [], [], None, None
    load = {"begun": False, "before": 0}
    for at, line in enumerate(lines):
        if trace and not trace.take(line):
            trace = None
        if ends_events(line, events, load) or not WORTH.search(line):
            continue
        event, split = log_event(line[:LONGEST]), SPLIT_LINE.search(line)
        if split:
            report = SplitReport(bdf(split.group(1)), line)
        elif report:
            event = report.take(line) or event
            report = report if report.lines_left > 0 else None
        if event:
            event["at"] = at
            # back to None: the GPU was reset since
            if event["kind"] == "xid" and event["code"] == 154 and event["level"] == "ok":
                make_old(events, lambda other, place=event["bdf"]: other["bdf"] == place)
            events.append(event)
            trace = Trace(event) if event["kind"] in TRACED else None
        elif re.search(r"\bS?Xid\b", line) and "Xid (" in line:
            problems.append(f"a line names an Xid and can't be read: {short(line, 120)}")
    return events, problems


SECONDS = re.compile(r"(?:^|kernel: )(?:<\d+>)?\[\s*(\d{1,10})\.\d+\]|^\d+,\d+,(\d{1,16})\d{6},")


def seconds_of(line):
    """Seconds after boot at the beginning of a line, or None."""
    stamp = SECONDS.search(line[:200])
    return int(stamp.group(1) or stamp.group(2)) if stamp else None


def make_old(events, over):
    """Mark the events for which `over` is true."""
    for event in events:
        event["old"] = event["old"] or over(event)


def ends_events(line, events, load):
    """Mark the events that a line ends. Return whether it ends any.

    `load` is {begun, before}, and is updated here. `begun`: the first line of the current load of
    the driver was there. `before`: how many events came before the end of the previous load.
    """
    if LOAD_DONE in line:
        before, began = load["before"], load["begun"]
        load.update(begun=False, before=len(events))
        if not began:  # an old driver, or a log of NVRM's lines only
            make_old(events[:before], of_driver)
            make_old(events[before:], lambda event: of_driver(event) and not of_load(event))
        return True
    if OLD.search(line):
        whole = bool(BOOT.search(line))
        load["begun"] = LOAD_BEGINS in line
        make_old(events, lambda event: whole or of_driver(event))
        return True
    if not WORTH.search(line):
        return False
    back, done = NFS_OK.search(line), RESET_DONE.search(line)
    if back:
        server = f"server {back.group(1)} not"
        make_old(events, lambda event: event["kind"] == "nfs" and server in event["line"])
    elif done:
        make_old(events, lambda event: event["bdf"] == bdf(done.group(1)))
    return bool(back or done)


def of_driver(event):
    """Whether a load of the driver ends the event."""
    return event["kind"] not in HOST_KINDS


def event_of(kind, code, place, level, line, **more):
    """An event as `parse_log` gives it."""
    event = {"kind": kind, "code": code, "bdf": place, "level": level, "line": line}
    event.update(more, at=0, old=False)
    return event


def of_load(event):
    """Whether the driver says it while it loads: it looks at each card first."""
    return event["kind"] in LOAD_KINDS or event.get("at_load", False)


def log_event(line):
    """Return the event in a line, or None."""
    match = XID_LINE.search(line)
    if match:
        place, where, code, text = match.groups()
        level = xid_level(int(code), text or "")
        return event_of("xid", int(code), bdf(place), level, line, mig="GPU-I" in where)
    match = SXID_LINE.search(line)
    if match:
        place, code, text = match.groups()
        return sxid_event(place, code, text, line)
    match = FM_LINE.search(line)
    if match:
        word, code, place = match.groups()
        return sxid_event(place, code, word.capitalize(), line)
    for kind, level, pattern in LOG_RULES:
        match = pattern.search(line)
        if match:
            place = bdf(match.group(1)) if pattern.groups and match.group(1) else None
            if kind == "xid 79":
                return event_of("xid", 79, place, level, line)
            return event_of(kind, 0, place, level, line)
    return None


def sxid_event(place, code, text, line):
    """The event of an SXid. `word`: the line itself says whether it is fatal."""
    when, word = SXID.get(int(code)), re.match(r"(Fatal|Non-fatal)", text or "")
    if word and word.group(1) == "Fatal":
        level = "fatal"
    elif when is None:
        level = "unknown"
    elif when == "always" or (when == "maybe" and not word):
        level = "fatal"
    else:
        level = "warn" if when == "never" else "degraded"
    return event_of("sxid", int(code), bdf(place), level, line, word=bool(word))
