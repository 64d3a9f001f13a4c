"""A wall clock that somebody sets, for one Python process: what a test can't do to the machine's own. Executed before a program's text.

TORTURE_CLOCK names a file with a line for each jump: when it was, by the machine's clock, and how many seconds the clock is off since
then. Times of files follow: what was written after a jump carries the time that the clock showed.
"""

import os
import time

PLACE = os.environ.get("TORTURE_CLOCK", "")
_time, _stat, _read = time.time, os.stat, {"at": -1, "jumps": []}


def _jumps():
    try:
        changed = _stat(PLACE).st_mtime_ns
        if changed != _read["at"]:
            with open(PLACE) as file:
                _read["jumps"] = [tuple(map(float, line.split())) for line in file]
            _read["at"] = changed
    except (OSError, ValueError):
        pass  # it is written at this moment
    return _read["jumps"]


def _off(at):
    return next((off for since, off in reversed(_jumps()) if at >= since), 0.0)


def _shown(told):
    """A file's times as the clock showed them when it was written."""
    names = ("st_atime", "st_mtime", "st_ctime")
    times = {name: getattr(told, name) + _off(getattr(told, name)) for name in names}
    exact = {
        f"{name}_ns": getattr(told, f"{name}_ns") + int(_off(getattr(told, name)) * 10**9)
        for name in names
    }
    rest = {name: getattr(told, name) for name in ("st_blksize", "st_blocks", "st_rdev")}
    whole = tuple(int(times[name]) for name in names)
    return os.stat_result((*told[:7], *whole), {**times, **exact, **rest})


def _wrapped(look):
    return lambda *words, **named: _shown(look(*words, **named))


if PLACE:
    time.time = lambda: (lambda now: now + _off(now))(_time())
    time.time_ns = lambda: int(time.time() * 10**9)
    os.stat, os.lstat, os.fstat = map(_wrapped, (os.stat, os.lstat, os.fstat))
