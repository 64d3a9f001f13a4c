"""What a cgroup leaves to a container, by its files as people paste them.

A file that is named for itself, what `cat` or `head` print below their command, or `grep`. A
number alone says nothing, but for the two of cpu.max with the kernel's usual period.
"""

import re

from ...logs.kernel.places import clean

# The file, and what stands in it. cpu.max: the microseconds of each period, and the period.
VALUES_OF_LIMITS = {
    "cpu.max": re.compile(r"(max|\d{1,12})\s+(\d{1,9})$"),
    "memory.max": re.compile(r"(max|\d{1,20})$"),
    "cpu.cfs_quota_us": re.compile(r"(-1|\d{1,12})$"),
    "cpu.cfs_period_us": re.compile(r"(\d{1,9})$"),
    "memory.limit_in_bytes": re.compile(r"(\d{1,20})$"),
}
NAME_OF_LIMIT = re.compile(
    r"(?<![\w.])({})(?![\w.])".format("|".join(map(re.escape, VALUES_OF_LIMITS)))
)
SIGN_OF_VALUE = re.compile(r"\s*[:=]\s*")
CPU_MAX_ALONE = re.compile(r"\s*(?:max|\d{3,9}) 100000\s*$")
NO_LIMIT = 1 << 60  # bytes; v1 writes nearly 2**63 for none


def file_of_limits(name):
    """The file of a cgroup that a file's name says it is, or ""."""
    name = re.sub(r"\.txt$", "", name)
    return name if name in VALUES_OF_LIMITS else ""


def has_limits(text):
    """Whether a text shows such a file with its value."""
    return bool(CPU_MAX_ALONE.match(text) or values_in(text))


def values_in(text):
    """The files of a text with the groups of their values -> {name: groups}."""
    found, waiting = {}, []
    if CPU_MAX_ALONE.match(text):
        text = "cpu.max:" + text
    for line in clean(text).splitlines():
        line = line.strip()
        names = list(NAME_OF_LIMIT.finditer(line))
        if names:
            name, rest = names[-1].group(1), line[names[-1].end() :]
            sign = SIGN_OF_VALUE.match(rest)
            value = VALUES_OF_LIMITS[name].match(rest[sign.end() :].strip()) if sign else None
            if value:
                found[name] = value.groups()
            waiting = [] if value else [match.group(1) for match in names]
        elif line and waiting:
            name = waiting.pop(0)
            value = VALUES_OF_LIMITS[name].match(line)
            if value:
                found[name] = value.groups()
            else:
                waiting = []
    return found


def parse_limits(text):
    """The limits -> {"quota": processors, "limit_mib": memory}, each where the text tells one."""
    values, limits = values_in(text), {}
    quota, period = values.get("cpu.max", (None, None))
    if quota is None:
        quota = values.get("cpu.cfs_quota_us", (None,))[0]
        period = values.get("cpu.cfs_period_us", (None,))[0]
    if quota and period and quota.isdigit() and int(period):
        limits["quota"] = int(quota) / int(period)
    memory = (values.get("memory.max") or values.get("memory.limit_in_bytes") or ("",))[0]
    if memory.isdigit() and 0 < int(memory) < NO_LIMIT:
        limits["limit_mib"] = int(memory) >> 20
    return limits
