"""Did the kernel kill for want of host memory, and was it one of ours?"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import NamedTuple

from . import collectors
from .context import Run

_KILLED = re.compile(r"Killed process (\d+)\b")
_FIRST_NAMESPACE = "pid:[4026531836]"  # the same number on every Linux


class Mark(NamedTuple):
    """What the kernel had counted before an attempt.

    `own`: kills in this run's own cgroup, None where it has none that can be read. `lines`: the
    kernel's lines of kills. `machine`: kills on the whole machine, of whomever.
    """

    own: int | None
    lines: frozenset[str]
    machine: int


def note_kills(run: Run) -> Mark:
    """Return the counts before an attempt."""
    return Mark(_own(run.spec.rendered.cgroup), frozenset(_lines()), _machine())


def killed(run: Run, mark: Mark, pids: set[int]) -> str:
    """Return the reason where the kernel has killed for us since then, '' where it hasn't.

    Only the cgroup that is ours counts, or a line that names a process of ours: a neighbour's kill
    says nothing about this run.
    """
    own = _own(run.spec.rendered.cgroup)
    if own is not None and mark.own is not None and own > mark.own:
        return "the kernel killed for want of host memory"
    if _is_first_namespace():  # elsewhere the kernel's numbers are other processes'
        for line in set(_lines()) - mark.lines:
            found = _KILLED.search(line)
            if found and int(found[1]) in pids:
                return f"the kernel killed process {found[1]} for want of host memory"
    return ""


def is_likely(run: Run, mark: Mark) -> bool:
    """Return whether a kill without a sign may be one for memory.

    So where the machine counts one, and neither a cgroup of the run's own nor the kernel's log can
    say that it was somebody else's.
    """
    if _own(run.spec.rendered.cgroup) is not None:
        return False
    if _is_first_namespace() and set(_lines()) - mark.lines:
        return False
    return _machine() > mark.machine


def _own(root: str) -> int | None:
    """Return the kills that this process's own cgroup counts; None for a root cgroup.

    A container may see its own cgroup at the root of the mount. A machine's root, which counts all
    neighbours, gives itself away: version 2 has no memory.events there, version 1 a release_agent.
    """
    new = old = ""
    with suppress(OSError, ValueError), open("/proc/self/cgroup") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if not controllers:
                new = path.strip("/")
            elif "memory" in controllers.split(","):
                old = path.strip("/")
    for folder in dict.fromkeys((os.path.join(root, new), root)):
        # The local file leaves out the cgroups below this one.
        for name in ("memory.events.local", "memory.events"):
            count = _count(os.path.join(folder, name))
            if count is not None:
                return count
    root = os.path.join(root, "memory")
    for folder in dict.fromkeys((os.path.join(root, old), root)):
        if not os.path.exists(os.path.join(folder, "release_agent")):
            count = _count(os.path.join(folder, "memory.oom_control"))
            if count is not None:
                return count
    return None


def _count(path: str) -> int | None:
    """Return the number behind oom_kill in a file, None where there is none."""
    with suppress(OSError, ValueError), open(path) as file:
        for line in file:
            name, _, number = line.partition(" ")
            if name == "oom_kill":
                return int(number)
    return None


def _machine() -> int:
    return _count("/proc/vmstat") or 0


def _lines() -> list[str]:
    """Return the kernel's lines of kills, none where they can't be read."""
    return [line for line in collectors.kernel_log().splitlines() if _KILLED.search(line)]


def _is_first_namespace() -> bool:
    with suppress(OSError):
        return os.readlink("/proc/self/ns/pid") == _FIRST_NAMESPACE
    return False
