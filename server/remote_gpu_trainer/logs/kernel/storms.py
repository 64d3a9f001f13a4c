"""Many lines of one fault as one: how many, from when to when, by which processes."""

import re

from .places import short

# [  300.123456]      [Sat Mar  4 04:25:12 2026]      Nov 22 18:29:55 host kernel:
# 2026-11-20T16:31:06.123456+00:00 host kernel:      6,3973,227996636,-;
# [Jan21 11:05]      [  +0.000844]
STAMP = re.compile(
    r"\s*(?:<\d+>)?(?:\[\s*(?P<monotonic>\d+\.\d+)\]|\[\s*\+\d+\.\d+\]"
    r"|\[(?P<day>[A-Z]\w\w [A-Z]\w\w +\d+ [\d:]+ \d{4}|[A-Z]\w\w\d\d \d\d:\d\d)\]"
    r"|(?P<syslog>[A-Z]\w\w +\d+ \d\d:\d\d:\d\d)|(?P<iso>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)"
    r"|\d+,\d+,(?P<micro>\d+),)"
)
# pid=1234, name=python,      pid='<unknown>', name=<unknown>,      Killed process 4100 (python3)
# [python3:2254956]      task python3:77 blocked
PROCESSES = (
    re.compile(r"\bpid='?(\d+)'?(?:, name=([^,\n]{1,60}))?"),
    re.compile(r"Killed process (\d+) \(([^)]{1,60})\)"),
    re.compile(r"stuck for \d+s! \[([^\]:]{1,60}):(\d+)\]"),
    re.compile(r"task (\S.{0,60}):(\d+)\b.{0,80} blocked for more"),
)
MOST_NAMED = 2
# Graphics SM Warp Exception on (GPC 3, TPC 5, SM 1): Out Of Range Address
UNIT = re.compile(r"\bGPC (\d+), TPC (\d+)")


def when(line):
    """The time that a line begins with, as it writes it; seconds since boot as `300 s`."""
    stamp = STAMP.match(line)
    if not stamp:
        return ""
    seconds = stamp["monotonic"] or (stamp["micro"] and int(stamp["micro"]) / 1e6)
    if seconds:
        return f"{float(seconds):.0f} s"
    return " ".join((stamp["day"] or stamp["syslog"] or stamp["iso"] or "").split())


def process_of(line):
    """The process that a line names, as `python 1234`, or ""."""
    for pattern in PROCESSES:
        found = pattern.search(line)
        if found:
            pid, name = sorted(found.groups(""), key=lambda text: not text.isdigit())
            return f"{name} {pid}" if name.strip("<>") not in ("", "unknown") else f"pid {pid}"
    return ""


def processes_of(lines):
    """The processes that lines name, each once, in the order of the lines."""
    return list(dict.fromkeys(filter(None, map(process_of, lines))))


def storm(lines):
    """What a reader needs of lines that tell one fault: '', or ' (N times, from A to B; by P)'."""
    if len(lines) < 2:
        return ""
    processes = processes_of(lines)
    named = ", ".join(short(name, 40) for name in processes[:MOST_NAMED])
    more = len(processes) - MOST_NAMED
    by = f"; by {named}" + (f" and {more} more" if more > 0 else "") if processes else ""
    first, last = when(lines[0]), when(lines[-1])
    texts = {STAMP.sub("", line, count=1) for line in lines}
    distinct = f", {len(texts)} different" if 1 < len(texts) < len(lines) else ""
    span = f", from {first} to {last}" if first and last and first != last else ""
    return f" ({len(lines)} times{distinct}{span}{by})"


def same_unit(lines):
    """The unit of a card in which kernels of several processes failed, and nowhere else, or ''.

    A program's own fault comes anywhere on the card. NVIDIA's workflow for Xid 13 suspects the
    hardware where GPC and TPC repeat.
    """
    units = {}
    for line in lines:
        process, unit = process_of(line), UNIT.search(line)
        if process and unit:
            units.setdefault(process, set()).add("GPC {}, TPC {}".format(*unit.groups()))
    places = set().union(*units.values())
    return places.pop() if len(units) > 1 and len(places) == 1 else ""
