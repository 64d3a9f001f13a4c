"""Why an attempt ended: a class, an entry of the catalogue, a reason, and whether to try again."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from typing import NamedTuple

from . import child, collectors, log, memory, results
from .context import Run
from .core.model import Verdict
from .failures import SIGNS, entry_of


class Attempt:
    """What an attempt left. `code` is None where nobody could read it; `log_first`: its first log
    file; `memory`, `xids`: what the kernel told before it; `checkpoint`: the id it began with."""

    def __init__(
        self,
        number: int,
        code: int | None,
        log_first: int,
        step: int | None,
        memory: memory.Mark,
        xids: list[int],
        pids: Iterable[int] = (),
        checkpoint: str = "",
    ):
        self.number, self.code, self.step, self.log_first = number, code, step, log_first
        self.memory, self.xids, self.pids = memory, xids, set(pids)
        self.checkpoint = checkpoint


# A file while the runner waits before an attempt, with what for; empty for room, since a full disk
# has none but for its name.
WAITS = "own/waits-for-room"
LAST = 200_000  # bytes of an attempt's log that are searched
LAST_WORDS = 4000  # of a program that was killed: what it survived before isn't why
RECENT = 20_000  # a lost connection that long ago was got over


class Refusal(NamedTuple):
    """Why nothing is started. `kind`: of why's table, or ''; `entry`: of the catalogue, or ''."""

    kind: str
    entry: str
    reason: str


def refuse(run: Run, kind: str, reason: str) -> Refusal:
    """Return a refusal with the entry that the catalogue has for its kind."""
    return Refusal(kind, entry_of(run.spec, kind), reason)


def has_sign(kind: str, text: bytes) -> bool:
    """Return whether a log holds a text of this kind, in capitals or not."""
    text = text.lower()
    return any(sign.lower().encode() in text for sign in SIGNS[kind])


def classify(run: Run, attempt: Attempt, said: bytes | None = None) -> Verdict:
    """Return class, entry and reason of an attempt that ended by itself and didn't end well.

    The disk first, then the kernel, the log, the status. `said`: the log, where it isn't the
    attempt's. Class '' for an end that nobody saw and that left all it should.
    """
    text = log.tail(run, attempt.log_first, LAST) if said is None else said
    if attempt.code is None and said is None and _has_all(run, attempt, text):
        return Verdict("", "", "its exit code is unknown, and all that the job names is there")
    sign = _signal(attempt.code)
    near = text[-LAST_WORDS:] if sign == "KILL" else text
    for rule in (_disk, _memory, _card):
        verdict = rule(run, attempt, near)
        if verdict is not None:
            return verdict
    return _rest(run, attempt, text, near, sign)


def _has_all(run: Run, attempt: Attempt, text: bytes) -> bool:
    """Return whether results and final step show that a program came to its end, and nothing that
    it didn't: an error at the end of its log, or a result that is cut."""
    spec = run.spec
    if any(has_sign(kind, text[-LAST_WORDS:]) for kind in ("bug", "disk")) or results.find_corrupt(
        run
    ):
        return False
    if run.rank or (spec.final_step and (attempt.step or 0) < spec.final_step):
        return False
    return bool(spec.final_step or spec.results) and not results.look(run).missing


def _signal(code: int | None) -> str:
    if code is None or not 128 < code < 192:
        return ""
    try:
        return signal.Signals(code - 128).name[3:]
    except ValueError:
        return str(code - 128)


def _disk(run: Run, attempt: Attempt, near: bytes) -> Verdict | None:
    # Libraries that find no place for a cache say so and go on: only as last words it is why.
    if has_sign("read-only", near[-LAST_WORDS:]):
        reason = "a file system can't be written any more"
        return Verdict("disk", entry_of(run.spec, "read-only"), reason)
    full = full_folder(run)
    if full or has_sign("disk", near):
        where = f" in {full}" if full else ""
        return Verdict("disk", entry_of(run.spec, "disk"), f"no room left{where}")
    return None


def _memory(run: Run, attempt: Attempt, near: bytes) -> Verdict | None:
    if has_sign("shm", near):
        reason = "too little shared memory for the workers that load data"
        return Verdict("host-oom", entry_of(run.spec, "shm"), reason)
    if reason := memory.killed(run, attempt.memory, attempt.pids):
        return Verdict("host-oom", entry_of(run.spec, "host-oom"), reason)
    if run.spec.gpus and has_sign("oom", near):
        return Verdict("oom", entry_of(run.spec, "oom"), "the GPU ran out of memory")
    if has_sign("host-oom", near):
        return Verdict("host-oom", entry_of(run.spec, "host-oom"), "host memory ran out")
    return None


def _card(run: Run, attempt: Attempt, near: bytes) -> Verdict | None:
    """A job without a card can meet only what says that there is none."""
    causes = (
        ("kernel", "torch has no kernels for this GPU"),
        ("driver", "the driver does not fit torch"),
    )
    for kind, reason in causes if run.spec.gpus else ():
        if has_sign(kind, near):
            return Verdict("gpu", entry_of(run.spec, kind), reason)
    xids: list[int] = []
    if run.spec.gpus:
        said = collectors.xids(near.decode("utf-8", "replace"))
        xids = said or collectors.xids()[len(attempt.xids) :]
    if xids or (run.spec.gpus and has_sign("gpu", near)):
        xid = f" (Xid {xids[-1]})" if xids else ""
        return Verdict("gpu", entry_of(run.spec, "gpu"), f"the GPU or its driver failed{xid}")
    if has_sign("unseen", near):
        return Verdict("gpu", entry_of(run.spec, "unseen"), "the program saw no GPU")
    if run.spec.gpus and has_sign("in-use", near):
        return Verdict("gpu", entry_of(run.spec, "in-use"), "another process holds the GPU")
    return None


def _rest(run: Run, attempt: Attempt, text: bytes, near: bytes, sign: str) -> Verdict:
    code = attempt.code
    if has_sign("hang", near):
        return Verdict("hang", entry_of(run.spec, "hang"), "a collective operation timed out")
    if sign == "KILL" or has_sign("killed", text):
        reason = "killed by signal 9 from outside"
        if memory.is_likely(run, attempt.memory):
            reason += "; memory is likely: the kernel killed for it on this machine"
        return Verdict("killed", entry_of(run.spec, "killed"), reason)
    if sign in ("TERM", "HUP", "INT", "USR1", "USR2"):
        return Verdict(
            "killed", entry_of(run.spec, "killed"), f"ended by signal {sign} from outside"
        )
    if has_sign("port", text):
        return Verdict("network", entry_of(run.spec, "port"), "the port is taken")
    if has_sign("network", text[-RECENT:]):
        return Verdict("network", entry_of(run.spec, "network"), "a connection failed")
    if code is None and not has_sign("bug", text):
        reason = "it ended unseen: its exit code is unknown"
        return Verdict("killed", entry_of(run.spec, "killed"), reason)
    shown = "unknown" if code is None else code
    if code in (2, 126, 127) or has_sign("bug", text):
        return Verdict("bug", "", f"the program failed with exit status {shown}")
    return Verdict("unknown", "", f"exit status {shown}" + (f" (signal {sign})" if sign else ""))


def full_folder(run: Run) -> str:
    """Return the first of the run's folders that has no room left, '' for none."""
    for folder in (run.folder.path, run.checkpoints, run.durable):
        if not folder.startswith("/"):
            continue
        try:
            if child.call(run, _is_full, folder, limit=5):
                return folder
        except child.Failed:
            continue
    return ""


def _is_full(folder: str) -> bool:
    room = os.statvfs(folder)
    # btrfs and network mounts count no inodes.
    return room.f_bavail * room.f_frsize < 1 << 20 or bool(room.f_files and room.f_favail < 8)
