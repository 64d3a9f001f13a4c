"""Events that mean more the more of them there are: corrected errors, and Xids of many programs.

`kernel_log` gives each the level that it has alone. Python 3.8.
"""

import re

from .advice import RANK
from .kernel_log import seconds_of
from .storms import process_of, processes_of
from .xids import previous_xid, xid_level

# mcelog's threshold for a memory module: 10 corrected errors in 24 hours (mcelog.org)
CORRECTED_A_DAY = 10
DAY_S = 86400
# Programs that Xid 43 or 45 must have met on one GPU. One program with a bug fails again and again
# as well, so it is a reason to try another card, never a proof (our limit).
PROGRAMS = 3
XGMI_ERRORS = 100  # corrected errors of the links between AMD cards (our limit)

# Processes that the kernel killed within a day for want of memory. One may be a program's own fault
# and over; several say that the box or its container is too small for what runs there (our limit).
KILLED = 3

CORRECTED = re.compile(r"EDAC \S{1,20}: (\d{1,9}) CE")
XGMI = re.compile(r"(\d{1,12}) correctable hardware errors detected in")


def with_repetition(events):
    """Return events as they are to be judged: those that repetition makes worse have its level.

    `events` in the order of the log; those that it changes are copies.
    """
    programs = programs_of(events)
    failing, short_of_memory = are_failing(events), are_killed_often(events)
    xids = {(event["bdf"], event["code"]) for event in events if event["kind"] == "xid"}
    out = []
    for event in events:
        kind, place, code = event["kind"], event["bdf"], event["code"]
        if kind == "corrected memory" and failing:
            event = dict(event, kind="failing memory", level="degraded")
        elif kind == "corrected memory" and "Machine check events logged" not in event["line"]:
            event = dict(event, level="warn")
        elif kind == "amd xgmi":
            count = XGMI.search(event["line"])
            many = count and int(count.group(1)) >= XGMI_ERRORS
            event = dict(event, level="degraded" if many else "warn")
        elif kind == "killed" and short_of_memory:
            event = dict(event, level="degraded")
        elif kind == "xid" and code == 45 and is_bad(previous_xid(event["line"]), place, xids):
            event = dict(event, level=xid_level(previous_xid(event["line"]), ""))
        elif kind == "xid" and code == 43 and len(programs.get((place, code), ())) >= PROGRAMS:
            event = dict(event, level="degraded")
        elif kind == "xid" and code == 45 and len(programs.get((place, code), ())) >= PROGRAMS:
            event = dict(event, level="warn")
        out.append(event)
    return out


def programs_of(events):
    """{(place, Xid): the programs that met it there} for Xid 43, and 45 without another Xid there.

    Xid 45 is the clean-up after a program, so another Xid explains it.
    """
    lines = {}
    for event in events:
        if event["kind"] == "xid":
            lines.setdefault((event["bdf"], event["code"]), []).append(event["line"])
    explained = {place for place, code in lines if code != 45}
    return {
        (place, code): processes_of(own)
        for (place, code), own in lines.items()
        if code == 43 or (code == 45 and place not in explained)
    }


def are_failing(events):
    """Whether as many corrected errors came within a day as say that a memory module will fail.

    Lines without a time count as of one day. Where EDAC counts the errors, the machine checks that
    announce them aren't counted again.
    """
    own = [event for event in events if event["kind"] == "corrected memory"]
    counted = [event for event in own if CORRECTED.search(event["line"])]
    times = []
    for event in counted or own:
        match = CORRECTED.search(event["line"])
        second = seconds_of(event["line"]) or 0
        times += [second] * min(int(match.group(1)) if match else 1, CORRECTED_A_DAY)
    return are_within_a_day(times, CORRECTED_A_DAY)


def are_within_a_day(times, number):
    """Whether as many as `number` of these times, in seconds, lie within a day."""
    times = sorted(times)
    return any(last - first < DAY_S for first, last in zip(times, times[number - 1 :]))


def are_killed_often(events):
    """Whether the kernel killed several processes within a day. Lines without a time count as of
    one day."""
    own = [event["line"] for event in events if event["kind"] == "killed"]
    firsts = {process_of(line): seconds_of(line) or 0 for line in reversed(own)}
    return are_within_a_day(firsts.values(), KILLED)


def is_bad(code, place, xids):
    """Whether a clean-up (Xid 45) is the only trace of an Xid that asks for more than a look.

    `xids`: the (place, Xid) of the log.
    """
    return (
        code is not None and (place, code) not in xids and RANK[xid_level(code, "")] < RANK["warn"]
    )
