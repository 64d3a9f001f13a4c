"""Copies of a run to its durable place: who makes one, and whether all of it is whole there."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress

from . import child, durable, procs, safe
from .context import Run, say
from .copies import held, mirror
from .copies.records import LAST, ROWS, write_last
from .copies.rounds import Round
from .core import copying
from .core.copying import ABSENT
from .core.model import Copy, NoteFailure, Seen, Worker
from .locks import try_lock
from .names import find_name

WHOLE = "own/final-sync"  # in the run folder: all was compared after the program's last change
CUT = -1  # no code of a worker: its time was over, or it made no progress
HOLD_LOOK = 1.0  # seconds between two looks for what lies here alone
SEARCH = 1.0  # seconds between two looks for a worker that somebody else started
KILL_SECONDS = 2.0  # for a killed worker to be gone


class Sync:
    """The copies of one run, for its runner or supervisor: it starts workers and watches them. When
    one is started, cut or tried again: core/copying.py."""

    def __init__(self, run: Run):
        self.run = run
        self._child: child.Command | child.Found | None = None
        self._worker = Worker()  # as it was seen last
        self._mode = ""  # of that
        self._still = child.Stillness(run.up)
        self._last = ""  # what the worker before it left
        self._look: child.Function | None = None
        self._left_behind: set[int] = set()  # workers that hang in the kernel
        self._next_look = self._next_search = run.up
        # {path: stamp} at the last look, at the one before, at the worker's start, copied for good.
        self._seen: dict[str, list[int]] = {}
        self._before: dict[str, list[int]] = {}
        self._going: dict[str, list[int]] = {}
        self._copied: dict[str, list[int]] = {}
        self._logged = ""

    def see(self, copies: copying.Copying, is_training: bool, seen: Seen) -> Seen:
        """Return what is seen, with what bears on the copies: a worker, and what is new while the
        program trains."""
        run = self.run
        if not run.durable:
            return seen
        seen = seen._replace(worker=self._look_at_worker(copies))
        is_due = is_training and copying.is_due(run.spec, copies, run.up)
        if not is_due or self._is_blocked() or not self._look_around():
            return seen
        new = {path for path, stamp in self._seen.items() if self._copied.get(path) != stamp}
        rests = any(self._before.get(path) == self._seen[path] for path in new)
        return seen._replace(is_changed=bool(new), rests=rests)

    def start(self, action: Copy) -> None:
        """Start a worker in a session of its own; it outlives the runner."""
        run = self.run
        self._still, self._going, self._mode = child.Stillness(run.up), self._seen, action.mode
        self._worker = Worker(action.number, None)
        env = {name: value for name, value in os.environ.items() if name != procs.MARK}
        env["RGT_SYNC_SECONDS"] = str(int(min(action.seconds, 1e9)))
        try:
            with open(run.folder.at("log", "runner.log"), "ab") as log:
                words = run.self_command("sync-worker", action.mode)
                self._child = child.Command(words, output=child.NULL, errors=log, env=env)
        except OSError as error:
            self._worker = Worker(action.number, CUT, f"it can't be started: {error}")
            return
        procs.note_pid(run.folder, "sync", self._child.pid)

    def cut(self, is_hung: bool) -> None:
        """End the round that goes on."""
        if is_hung:
            self.run.event("sync-hung")
        self.stop()
        self._worker = self._worker._replace(code=CUT)

    def note_failure(self, action: NoteFailure) -> None:
        """Note that a round failed; in the log once as long as the reason is the same."""
        self.run.event("sync-failed", **{"try": action.count}, why=action.text)
        if action.text != self._logged:
            self.run.log(action.text)
            self._logged = action.text

    def note_success(self, before: copying.Copying, after: copying.Copying) -> None:
        """Note in the log that copies go on again."""
        if before.is_told and not after.is_told:
            self.run.log(f"the copies to {self.run.durable} go on again")
        if not after.failures:
            self._logged = ""

    def is_whole(self) -> bool:
        """Return whether all was verified after the last change of the program."""
        return not self.run.durable or self.run.folder.has(WHOLE)

    def stop(self) -> None:
        """End the copy that goes on, unless a user started it by hand in a terminal."""
        if self._look is not None:
            self._look.kill()
            self._look = None
        found = self._find_worker() if self._child is None else self._child
        workers = [] if found is None else [found]
        if isinstance(found, child.Found):
            process = procs.stat(found.pid)
            workers = [found] if process and process.session == found.pid else []
        for worker in workers:
            worker.kill(KILL_SECONDS)
        left = {worker.pid for worker in workers if worker.is_open}
        if left:  # it hangs in the kernel, and may hold the lock for days
            self.run.folder.remove("own/sync.lock")
        self._left_behind |= left
        self._child = None

    def _look_at_worker(self, copies: copying.Copying) -> Worker:
        run = self.run
        is_due = self._child is None and run.up >= self._next_search
        if is_due and (found := self._find_worker()):  # of a runner before this one, or by hand
            self._child, self._mode, self._last = found, "", run.folder.read(LAST)
            self._worker, self._still = Worker(copies.number, None), child.Stillness(run.up)
        if self._child is None:
            return self._worker
        if self._child.is_open:
            still = self._still.seconds(run.folder.read("own/sync.lock"), run.up)
            return self._worker._replace(still=still)
        last = run.folder.json(LAST)
        if isinstance(self._child, child.Command):
            code = self._child.code
        else:
            code = int(not last.get("ok") or run.folder.read(LAST) == self._last)
        self._child = None
        self._worker = self._worker._replace(code=int(code or 0), why=str(last.get("why") or ""))
        if code == 0:
            self._copied = self._going
        if code == 0 and self._mode in ("full", "whole"):
            run.folder.write(WHOLE, json.dumps({"t": int(run.now)}) + "\n")
        return self._worker

    def _find_worker(self) -> child.Found | None:
        """Return a worker that lives and that another process started, None for none."""
        self._next_search = self.run.up + SEARCH
        pid, start = procs.noted(self.run.folder, "sync")
        is_one = pid not in self._left_behind and procs.is_same_process(pid, start)
        return child.Found(pid, start) if is_one else None

    def is_going(self) -> bool:
        """Return whether a worker of a runner before this one works."""
        return self._find_worker() is not None

    def _is_blocked(self) -> bool:
        """Return whether a worker that nobody can kill may still hold the lock, or one works."""
        self._left_behind = {pid for pid in self._left_behind if procs.stat(pid)}
        return bool(self._left_behind) or self._child is not None

    def _look_around(self) -> bool:
        """Return whether a look has come to its end. It may hang with a mount, and nobody waits."""
        run = self.run
        if self._look is None:
            if run.up >= self._next_look:
                paths = [item.here for item in durable.items(run)]
                paths += [run.inside(name) for name in run.spec.results]
                paths += [run.checkpoints] if run.checkpoints else []
                with suppress(OSError):
                    self._look = child.Function(_stamps, paths, run.folder.path)
            return False
        if not self._look.poll():
            return False
        look, self._look = self._look, None
        # Cheap beside the run, however many files there are.
        seconds, self._before = 0.0, self._seen
        try:
            seconds, self._seen = look.value()
        except child.Failed:
            return False
        finally:
            self._next_look = run.up + max(50 * seconds, 0.5)
        return True


class Holder:
    """Looks for what is complete here alone, and holds it in a child that may hang."""

    def __init__(self, run: Run):
        self.run = run
        self._unheld: tuple[str, ...] = ()
        self._hold_worker = Worker()
        self._child: child.Function | None = None
        self._next_look = self._next_search = run.up
        self._attempt: int | None = None  # after which it was looked at last

    def look(self) -> tuple[tuple[str, ...], Worker]:
        """Return what lies here alone, as it was a moment ago, and how it is held. What can't be
        looked at holds nothing up: whoever begins looks again, and tells."""
        run, function = self.run, self._child
        if function is not None and function.poll():
            self._child, why = None, ""
            try:
                why = "; ".join(function.value())
            except child.Failed as error:
                why = str(error)
            self._hold_worker = self._hold_worker._replace(code=1 if why else 0, why=why)
            self._next_look = self._next_search = run.up
        attempt = run.folder.attempt()
        if run.up >= self._next_look or attempt != self._attempt:
            self._next_look, self._attempt = run.up + HOLD_LOOK, attempt
            self._unheld = ()
            with suppress(child.Failed):
                self._unheld = tuple(child.call(run, _names_alone, run))
        return self._unheld, self._hold_worker

    def begin(self, number: int) -> None:
        """Begin to hold it."""
        self._hold_worker = Worker(number, None)
        try:
            self._child = child.start(held.hold_groups, self.run)
        except child.Failed as error:
            self._hold_worker = Worker(number, 1, str(error))

    def stop(self) -> None:
        """End what goes on."""
        if self._child is not None:
            self._child.kill()
            self._child = None


def _names_alone(run: Run) -> list[str]:
    return [group.name for group in held.find_alone(run)]


def _stamps(paths: list[str], own: str) -> tuple[float, dict[str, list[int]]]:
    """Return how many seconds the look took, and {path: stamp} of the files in and below these,
    without the runner's own."""
    found: dict[str, list[int]] = {}
    begun = time.monotonic()
    for path in dict.fromkeys(paths):
        for name in mirror.files_in(path, set()).values() if os.path.exists(path) else ():
            stamp = [] if _is_own(name, own) else mirror.stamp(name)
            if stamp:
                found[name] = stamp
    return time.monotonic() - begun, found


def _is_own(path: str, folder: str) -> bool:
    """Return whether a path is one of the runner's own in the run's folder."""
    if not path.startswith(folder + "/"):
        return False
    top = path[len(folder) + 1 :].partition("/")[0]
    found = find_name(top)
    return top.startswith(".") if found is None else not found.is_theirs


def unverified(run: Run) -> str:
    """Say that what the run made is on this box only."""
    return f"the last copy to {run.durable} is not verified"


def by_hand(run: Run) -> int:
    """The verb sync: copy once, compare everything, and say how it went."""
    if not run.durable:
        say("no durable place is set")
        return 1
    with suppress(OSError):
        run.folder.make()
    before = len(run.folder.read(ROWS))
    if worker(run, "full") == 0:
        sys.stdout.write(f"verified at {run.durable}\n")
        return 0
    rows = run.folder.read(ROWS)[before:].splitlines()
    why = run.folder.json(LAST).get("why")
    fault = f"not verified: {why}" if why else "not verified"
    for row in [row for row in rows if "\tfailed\t" in row] or [fault]:
        say(row)
    return 1


def worker(run: Run, mode: str) -> int:
    """Copy once: quick (what is new), full (compare all), or whole (and nothing may be absent).

    0: done, and for full and whole verified; 3: all there is is there, but an item is absent.
    """
    if not run.durable:
        return 0
    if run.rank and os.path.exists(os.path.join(run.base, "state.json")):
        # Where the nodes share their folder, the first node copies for all.
        write_last(run, {"ok": True, "verified": True})
        return 0
    with _Lock(run) as lock:
        if lock is None:
            write_last(run, {"ok": False, "verified": False, "why": "another copy is going on"})
            return 1
        procs.note_pid(run.folder, "sync", os.getpid())
        is_over = run.folder.ended() in ("done", "unsaved")
        # Other nodes may have nothing of it.
        is_whole = run.rank == 0 and (mode == "whole" or mode == "full" and is_over)
        try:
            return _copy(run, mode != "quick", is_whole)
        finally:
            procs.forget_pid(run.folder, "sync")


def _copy(run: Run, full: bool, whole: bool) -> int:
    def tell(moves: int) -> None:
        procs.note_pid(run.folder, "sync", os.getpid(), moves)

    code = Round(run, full, whole, tell).go()
    last = run.folder.json(LAST)
    verified = last.get("verified")
    if verified and full and (unseen := safe.look_safe(run).unseen):
        verified, code = False, ABSENT  # nothing was verified but that the folder is empty
        write_last(run, {**last, "ok": False, "verified": False, "why": unseen})
    if verified and full and run.folder.ended() and not procs.alive(run.folder, "train"):
        _tell_whole(run)
    return code


def _tell_whole(run: Run) -> None:
    """After the run's end: all is there. A run that lacked nothing else is done."""
    run.folder.write(WHOLE, json.dumps({"t": int(run.now)}) + "\n")
    end = run.folder.ended()
    fields = run.folder.json(f".{end}")
    if end == "unsaved":
        fields.update(t=int(run.now), reason="", entry="", **{"class": ""})
        run.folder.mark("done", fields)
    elif unverified(run) in str(fields.get("reason")):
        fields["reason"] = fields["reason"].replace(f"; {unverified(run)}", "")
        run.folder.mark(end, fields)


class _Lock:
    """The lock of copies: None where another one still holds it after a minute."""

    def __init__(self, run: Run):
        self.run, self.file = run, -1

    def __enter__(self) -> int | None:
        over = self.run.up + 60
        while True:
            try:
                found = try_lock(self.run.folder.at("own/sync.lock"))
            except OSError:
                return -1  # a full disk: two copies at once do no harm but to each other's time
            if found is not None:
                self.file = found
                return found
            if self.run.up >= over:
                return None
            self.run.clock.nap(0.2)

    def __exit__(self, *_: object) -> None:
        if self.file >= 0:
            os.close(self.file)
