"""One runner a run folder, and one trainer a checkpoint folder.

The first is a lock of the kernel on this machine. The second is a lease: a file in the checkpoint
folder, so it holds wherever the run folder went and on every machine that sees the checkpoints.
Whoever holds it changes it at every beat.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import suppress
from typing import Any

from . import child, procs
from .context import Run
from .folder import Folder

LEASE = ".rgt-lease"  # of node 0; node N of a run has .rgt-lease-N
LIMIT = 30.0  # seconds for a look at the checkpoint folder


def try_lock(path: str) -> int | None:
    """Lock a file, which is made where there is none; None where another process holds it.

    Return a descriptor: the lock lasts as long as it, or a copy in another process, is open. Raises
    OSError where the file can't be made, or its file system knows no locks.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(file)
        if isinstance(error, BlockingIOError):
            return None
        raise
    return file


class RunLock:
    """The lock of a run folder; it ends with its process."""

    def __init__(self, run: Run):
        self.run = run
        self._file = -1

    def take(self, wait: float = 0) -> str:
        """Return '' when it is held, else why it isn't. `wait`: seconds for one that leaves."""
        path, until = self.run.folder.at("lock"), self.run.up + wait
        while True:
            try:
                file = try_lock(path)
            except OSError as error:
                return f"can't lock {path} ({error.strerror}); put the run folder on a local disk"
            if file is not None:
                self._file = file
                if self.is_held():
                    return ""
                self.release()  # the file was removed meanwhile
            elif self.run.up >= until:
                return f"{self.run.spec.name}: a run holds {path}"
            else:
                self.run.clock.nap(0.1)

    def is_held(self) -> bool:
        """Return whether it is still the lock of the run folder, which may be another one now."""
        try:
            there = os.stat(self.run.folder.at("lock"))
            return os.path.samestat(os.fstat(self._file), there)
        except OSError:
            return False

    def release(self) -> None:
        """Give it back."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


class Lease:
    """The lease of the checkpoint folder. Nothing here hangs longer than LIMIT."""

    def __init__(self, run: Run):
        self.run = run
        name = LEASE if run.rank == 0 else f"{LEASE}-{run.rank}"
        self.path = _place(run.checkpoints, name) if run.checkpoints else ""
        self._token = ""  # '' while it isn't held
        self._count = 0
        self._is_lost = False
        self._job: child.Function | None = None
        self._beat_at = -1e9

    def take(self, beat: child.Beat | None = None) -> str:
        """Return '' when it is held, else why it isn't.

        A run on this machine is asked for by its processes. Of one on another machine only the
        beat can tell, so this waits for one, `lease_dead` seconds at most.
        """
        return self._claim(beat, True)

    def respect(self, beat: child.Beat | None = None) -> str:
        """Return '' when nobody trains into the folder, else who does. Takes nothing."""
        return self._claim(beat, False)

    def beat(self) -> None:
        """Every `lease_beat` seconds change the lease, in a child that may hang."""
        self._finish(0)
        if not self._token or self.run.up < self._beat_at + self.run.spec.timings.lease_beat:
            return
        if self._job is None:
            self._beat_at = self.run.up
            with suppress(OSError):
                self._job = child.Function(_beat, self.path, self._token, self._text())
        # As a rule it answers at once: a process that slept for long learns here that it lost.
        self._finish(0.2)

    def lost(self) -> bool:
        """Return whether another run has taken the lease over."""
        self._finish(0)
        return self._is_lost

    def free(self) -> None:
        """Give the lease back."""
        if self._token and not self._is_lost:
            with suppress(child.Failed):
                child.call(self.run, _free, self.path, self._token, limit=5)
        self._token = ""

    def _finish(self, seconds: float) -> None:
        """Take the answer of the child that beats, if there is one."""
        if self._job is None or not self._job.poll(seconds):
            return
        job, self._job = self._job, None
        with suppress(child.Failed):
            self._is_lost = job.value() == "lost" or self._is_lost

    def _claim(self, beat: child.Beat | None, take: bool) -> str:
        if not self.path:
            return ""
        run, token = self.run, _token()
        seen: Any = None
        since = run.up
        while True:
            try:
                text = self._text(token) if take else ""
                found = child.call(run, _look, self.path, text, limit=LIMIT, beat=beat)
            except child.Failed as failed:
                if run.asked:
                    return f"{run.spec.name}: {run.asked}"
                # Preflight says what is wrong with the folder.
                run.log(f"no lease on {self.run.checkpoints}: {failed}")
                return ""
            if found is None:
                if take:
                    self._token, self._is_lost, self._beat_at = token, False, run.up
                    self._warn_of_buckets()
                return ""
            lease = _parse(found[0])
            who = self._living(lease)
            if who:
                return who
            if who is None:  # another machine: only its beat can tell
                if seen is not None and seen != found:
                    return self._elsewhere(lease)
                if seen is None:
                    seen, since = found, run.up
                    self._say_waiting(lease)
                if run.up < since + run.spec.timings.lease_dead:
                    run.clock.nap(min(1.0, run.spec.timings.lease_beat / 2))
                    if beat is not None and beat():
                        return f"{run.spec.name}: {run.asked}"
                    continue
            if not take:
                return ""
            seen = None
            with suppress(child.Failed):
                child.call(run, _remove, self.path, found[0], limit=LIMIT, beat=beat)
            run.event("lease-taken-over", host=str(lease.get("host")), pid=str(lease.get("pid")))

    def _living(self, lease: dict[str, Any]) -> str | None:
        """Return who holds a lease of this machine, '' for nobody, None for another machine."""
        run = self.run
        if not lease or [lease.get(key) for key in ("host", "boot", "space")] != _machine():
            job, restart = _slurm()
            before = lease.get("restart")
            is_ours = bool(job) and lease.get("job") == job
            return "" if is_ours and isinstance(before, int) and before < restart else None
        folder = str(lease.get("folder") or "?")
        into = f"trains into {self.run.checkpoints}"
        for name in ("runner", "supervisor"):
            pid, start = (lease.get(name) or [0, 0])[:2]
            is_own_supervisor = name == "supervisor" and run.folder.path == folder
            if procs.is_same_process(pid, start) and pid != os.getpid() and not is_own_supervisor:
                return (
                    f"{run.spec.name}: the run in {folder} (pid {pid}) {into}; stop it"
                    f" (bash {folder}/run.sh stop), or give this one another checkpoint folder"
                )
        is_own = folder == run.folder.path and run.folder.attempt() is not None
        left = sorted(procs.of_program(Folder(folder)) - {os.getpid()})
        if left and not is_own:
            pids = " ".join(map(str, left))
            return (
                f"{run.spec.name}: a program of an earlier run in {folder} {into};"
                f" end it (kill {pids}), or give this one another checkpoint folder"
            )
        return ""

    def _elsewhere(self, lease: dict[str, Any]) -> str:
        return (
            f"{self.run.spec.name}: a run on {lease.get('host') or 'another machine'} trains into"
            f" {self.run.checkpoints}; stop it there, or give this one another"
            " checkpoint folder"
        )

    def _say_waiting(self, lease: dict[str, Any]) -> None:
        seconds = self.run.spec.timings.lease_dead
        self.run.log(
            f"a run on {lease.get('host') or 'another machine'} held"
            f" {self.run.checkpoints}; waiting {seconds:g} s for a sign of life"
        )

    def _text(self, token: str = "") -> str:
        """Return the lease's text for this beat: a line of JSON, filled up to a block.

        A block that is there already can be written again on a full disk.
        """
        run, self._count = self.run, self._count + 1
        host, boot, space = _machine()
        pid, start = os.getpid(), procs.stat(os.getpid())
        job, restart = _slurm()
        lease = {
            "token": token or self._token, "beat": self._count, "name": run.spec.name,
            "host": host, "boot": boot, "space": space,
            "runner": [pid, start.start if start else 0],
            "supervisor": list(procs.noted(run.folder, "supervisor")),
            "folder": run.folder.path,
            "job": job, "restart": restart,
        }  # fmt: skip
        text = json.dumps(lease) + "\n"
        return text + " " * (-len(text) % 4096)

    def _warn_of_buckets(self) -> None:
        kind = file_system(self.run.checkpoints)
        if kind.startswith("fuse"):
            self.run.log(
                f"the checkpoint folder is on {kind}: two runs on two machines can't be kept"
                " apart there for sure; give each a folder of its own"
            )


def _place(folder: str, name: str) -> str:
    """Return the path of a lease: one file, whatever name leads to the folder.

    It lies beside the folder, since trainers refuse to begin in one that isn't empty; but in the
    folder where that is a mount, for what lies beside it is on this box alone.
    """
    real = os.path.realpath(folder)
    if os.path.ismount(real):
        return os.path.join(real, name)
    return os.path.join(os.path.dirname(real), f".{os.path.basename(real)}{name}")


def _machine() -> list[str]:
    """Return what tells one machine from another: name, boot, and namespace of processes."""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return [procs.host(), procs.boot_id(), space]


def _token() -> str:
    """Return a text that no other process has."""
    process = procs.stat(os.getpid())
    return " ".join([*_machine(), str(os.getpid()), str(process.start if process else 0)])


def _slurm() -> tuple[str, int]:
    """Return the job of Slurm that this is, '' for none, and how often it was requeued."""
    restart = os.environ.get("SLURM_RESTART_COUNT", "")
    return os.environ.get("SLURM_JOB_ID", ""), int(restart) if restart.isdigit() else 0


def _parse(text: str) -> dict[str, Any]:
    with suppress(ValueError):
        found = json.loads(text.partition("\n")[0])
        return found if isinstance(found, dict) else {}
    return {}


def _look(path: str, text: str) -> list[Any] | None:
    """Return [text, stamp] of the lease; None where there was none, and it was made of `text`."""
    if text:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with suppress(FileExistsError):
            _make(path, text)
            return None
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return [file.read(), os.fstat(file.fileno()).st_mtime_ns]
    except FileNotFoundError:
        return _look(path, text) if text else None


def _make(path: str, text: str) -> None:
    """Write the lease where there is none. Raises FileExistsError and OSError."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o660)
    try:
        os.write(file, text.encode())
        os.fsync(file)
    except OSError:
        os.unlink(path)
        raise
    finally:
        os.close(file)


def _beat(path: str, token: str, text: str) -> str:
    """Change the lease in its place; return 'lost' where it is another run's by now."""
    try:
        file = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        _make(path, text)  # somebody emptied the folder
        return ""
    try:
        lease = _parse(os.pread(file, 1 << 20, 0).decode("utf-8", "replace"))
        if not lease:
            return ""  # it is just being written
        if lease.get("token") != token:
            return "lost"
        try:
            os.pwrite(file, text.encode(), 0)
            os.fsync(file)
        except OSError:
            os.utime(file)
        return ""
    finally:
        os.close(file)


def _remove(path: str, text: str) -> None:
    """Take a dead lease away. One that somebody else has renewed meanwhile is put back."""
    aside = f"{path}.{os.uname().nodename}.{os.getpid()}"
    os.rename(path, aside)
    try:
        with open(aside, encoding="utf-8", errors="replace") as file:
            is_same = file.read() == text
        if not is_same:
            os.link(aside, path)
    finally:
        os.unlink(aside)


def _free(path: str, token: str) -> None:
    with open(path, encoding="utf-8", errors="replace") as file:
        is_ours = _parse(file.read()).get("token") == token
    if is_ours:
        os.unlink(path)


def file_system(path: str) -> str:
    """Return the type of the file system that a path is on, '' where it isn't known."""
    best, kind, path = "", "", os.fsencode(path).decode("latin-1")
    try:
        with open("/proc/self/mountinfo", encoding="latin-1") as file:
            for line in file:
                words, _, rest = line.partition(" - ")
                point = words.split()[4].encode("latin-1").decode("unicode_escape")
                inside = path == point or path.startswith(point.rstrip("/") + "/")
                if inside and len(point) >= len(best):
                    best, kind = point, rest.split()[0]
    except (OSError, IndexError, ValueError):
        return ""
    return kind
