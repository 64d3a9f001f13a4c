"""Copies of a run to its durable place: when one is made, and whether all of it is whole there."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from . import asking, durable, procs, safe
from .context import Run, say
from .copies import mirror
from .copies.records import LAST, ROWS, write_last
from .copies.rounds import ABSENT, Round
from .copies.tool import NO_ROOM

HUNG = -1  # no worker's code: it was ended, for it made no progress
CUT = -2  # the time was over
SHORT = 10.0  # seconds that a copy may go on once the run was asked to end
LONGEST_WAIT = 60.0
# Nothing but a person mends these, so the last copy isn't tried again and again.
LASTING = re.compile(
    r"Read-only file system|Permission denied|Operation not permitted|Not a directory|File exists"
    r"|Is a directory|is missing on this box|durable place .* (on this box's own|held this run)"
    r"|a link to nothing|NoSuchBucket|AccessDenied|are of the run"
)
# Files of the run folder that change without anything new to copy.
OWN = re.compile(
    r"(log|stacks|state\.json|events\.jsonl|asked|rc|lock|attempt|place\.json|deadline.*"
    r"|synced\.tsv|copies\.json|safe\.json|results\.before|(last|final)-\w+|sync\..*|heart\w*"
    r"|run\.sh|.*\.pid|.*\.cache|.*\.tmp\..*|\..*)(/|$)"
)


class Sync:
    """The copies of one run, as its runner or keeper sees them: it starts workers and watches."""

    def __init__(self, run: Run):
        self.run = run
        self._child: subprocess.Popen[bytes] | None = None
        self._look: asking.Job | None = None
        self._left_behind: set[int] = set()  # workers that hang in the kernel
        self._next_look = run.up
        # {path: stamp} at the last look, at the worker's start, and copied for good.
        self._seen: dict[str, list[int]] = {}
        self._going: dict[str, list[int]] = {}
        self._copied: dict[str, list[int]] = {}
        self._started_at = run.up - run.spec.durable_seconds
        self._progress, self._moved_at = "", run.up
        self._failing_since: float | None = None
        self._failures, self._logged, self._is_told = 0, "", False
        self._is_last = False

    def beat(self, phase: str) -> None:
        """At each tick: start a copy when something new rests, and watch the one."""
        if not self.run.durable:
            return
        if phase in ("running", "saving"):
            self.run.folder.remove("final-sync")  # the program may change something again
        if self._is_going():
            if self._is_hung():
                self._end_hung()
            return
        if self._child is not None:
            self._note_end(self._child.returncode)
        if phase == "running" and self._wants_copy():
            self._start("quick")

    def last(self, whole: bool, until: float, beat: Callable[[], bool]) -> bool:
        """Copy all and compare it; True when that succeeded. `whole`: every item must be there.

        It tries until `until` (seconds since 1970), until nothing but a person can help, or until
        tries have failed for `copy_quiet` seconds: then the run is unsaved, and its keeper goes on
        trying. Once the run is asked to end, the try that goes on has SHORT seconds, or one last
        try has.
        """
        run = self.run
        if not run.durable:
            return True
        run.folder.remove("final-sync")
        self._is_last = True  # each minute is billed for the copy alone: told at the first failure
        wait, is_short, asked_before = run.spec.timings.sync_wait, False, run.asked
        failing_since: float | None = None
        was_before = beat()  # then the program has saved, and its copy is what is left to do

        def is_asked() -> bool:
            return beat() and not (was_before and run.asked == asked_before)

        if self._is_going():  # what it has copied needn't be copied again
            is_short = self._watch(run.up + until - run.now, is_asked)[1]
        while True:
            left = until - run.now
            if left <= 1:
                return False
            code, was_asked = self._attempt(
                "whole" if whole else "full",
                min(left, SHORT) if is_short else left,
                is_asked,
            )
            if code == 0:
                run.folder.write("final-sync", json.dumps({"t": int(run.now)}) + "\n")
                return True
            why = str(run.folder.json(LAST).get("why", ""))
            if code in (ABSENT, CUT) or is_short or was_asked:
                return False
            if code != HUNG and LASTING.search(why):
                return False
            failing_since = run.up if failing_since is None else failing_since
            if run.up - failing_since >= run.spec.timings.copy_quiet:
                return False
            if code == HUNG or why.startswith("differs"):
                continue
            over = run.up + min(wait, max(until - run.now, 0))
            wait = min(wait * 2, LONGEST_WAIT)
            while run.up < over and not is_short:
                run.clock.nap(run.spec.timings.tick)
                is_short = is_asked()

    def is_whole(self) -> bool:
        """Return whether all was verified after the last change of the program."""
        return not self.run.durable or self.run.folder.has("final-sync")

    def stop(self) -> None:
        """End the copy that goes on, unless a user started it by hand in a terminal."""
        if self._look is not None:
            self._look.give_up()
            self._look = None
        pid = procs.alive(self.run.folder, "sync")
        told = procs.stat(pid) if pid else None
        pids = {pid} if told and told.session == pid else set()
        if self._child is not None and self._child.poll() is None:
            pids.add(self._child.pid)
        for pid in pids:
            _kill_session(pid)
        over = time.monotonic() + 2
        while pids and time.monotonic() < over:
            if self._child is not None:
                self._child.poll()
            pids = {pid for pid in pids if procs.stat(pid)}
            time.sleep(0.01)
        if pids:  # it hangs in the kernel, and may hold the lock for days
            self.run.folder.remove("sync.lock")
        self._left_behind |= pids
        self._child = None

    def _attempt(self, mode: str, seconds: float, asked: Callable[[], bool]) -> tuple[int, bool]:
        """Copy once; return the code, and whether the run was asked to end meanwhile."""
        self._start(mode, seconds)
        return self._watch(self.run.up + seconds, asked)

    def _watch(self, end: float, asked: Callable[[], bool]) -> tuple[int, bool]:
        """Wait for the worker until `end` (of the clock that nobody sets); return as above."""
        run, was_asked = self.run, False
        while self._is_going():
            if not was_asked and asked():
                was_asked, end = True, min(end, run.up + SHORT)
            if run.up >= end:
                self.stop()
                return CUT, was_asked
            if self._is_hung():
                self._end_hung()
                return HUNG, was_asked
            run.clock.nap(min(run.spec.timings.tick, 0.1))
        told = run.folder.json(LAST)  # of a worker that isn't our child
        code = self._child.returncode if self._child is not None else int(not told.get("verified"))
        self._note_end(code)
        return code, was_asked

    def _start(self, mode: str, seconds: float = 0.0) -> None:
        """Start a worker in a session of its own; it outlives the runner."""
        run = self.run
        run.folder.remove("sync.progress")
        self._started_at = self._moved_at = run.up
        self._progress, self._going = "", self._seen
        env = {name: value for name, value in os.environ.items() if name != procs.MARK}
        env["RGT_SYNC_SECONDS"] = str(int(min(seconds, 1e9)))
        try:
            with open(run.folder.at("log", "runner.log"), "ab") as log:
                self._child = subprocess.Popen(
                    run.self_command("sync-worker", mode),
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log,
                    env=env, start_new_session=True,
                )  # fmt: skip
        except OSError as error:
            run.log(f"a copy can't be started: {error}")
            return
        procs.note_pid(run.folder, "sync", self._child.pid)

    def _is_going(self) -> bool:
        if self._child is not None:
            return self._child.poll() is None
        return bool(procs.alive(self.run.folder, "sync"))  # of a runner before this one

    def _is_hung(self) -> bool:
        """Return whether the copy made no progress for a while."""
        progress = self.run.folder.read("sync.progress")
        if progress != self._progress:
            self._progress, self._moved_at = progress, self.run.up
        return self.run.up - self._moved_at >= self.run.spec.timings.copy_quiet

    def _end_hung(self) -> None:
        run = self.run
        self._moved_at = run.up
        self.stop()
        seconds = run.spec.timings.copy_quiet
        why = f"the copy to {run.durable} made no progress for {seconds:.0f} s"
        run.event("sync-hung")
        self._note_failure(f"{why}; it was ended, and is tried again", at_once=True)

    def _note_end(self, code: int) -> None:
        """Take over what a worker left behind."""
        self._child = None
        if code == 0:
            self._copied = self._going
            if self._is_told:
                self.run.log(f"the copies to {self.run.durable} go on again")
            self._failing_since, self._failures = None, 0
            self._logged, self._is_told = "", False
            return
        why = self.run.folder.json(LAST).get("why") or f"its process ended with {code}"
        text = f"the copy to {self.run.durable} failed: {why}"
        self._note_failure(text, at_once=bool(NO_ROOM.search(text)))

    def _note_failure(self, text: str, at_once: bool = False) -> None:
        """Tell a failure: each in the events, each reason in the log, a lasting one by a notice."""
        run = self.run
        self._failures += 1
        run.event("sync-failed", **{"try": self._failures}, why=text)
        if self._failing_since is None:
            self._failing_since = run.up
        if text != self._logged:
            run.log(text)
            self._logged = text
        lasts = run.up - self._failing_since >= run.spec.timings.copy_quiet
        if (at_once or lasts or self._is_last) and not self._is_told:
            from . import notices

            notices.notify(run, text)
            self._is_told = True

    def _wants_copy(self) -> bool:
        """Return whether a new checkpoint rests, or something else has changed for long enough."""
        run = self.run
        self._left_behind = {pid for pid in self._left_behind if procs.stat(pid)}
        since, wait = run.up - self._started_at, run.spec.durable_seconds
        wait *= min(2 ** max(self._failures - 1, 0), 4)
        if self._left_behind or since < wait:
            return False
        before = self._seen
        if not self._look_around():
            return False
        new = {path for path, stamp in self._seen.items() if self._copied.get(path) != stamp}
        resting = {path for path in new if before.get(path) == self._seen[path]}
        return bool(resting) or bool(new) and since >= 4 * wait

    def _look_around(self) -> bool:
        """Return whether a look has come to its end. It may hang with a mount, and nobody waits."""
        run = self.run
        if self._look is None:
            if run.up >= self._next_look:
                paths = [item.here for item in durable.items(run)]
                paths += [run.inside(name) for name in run.spec.results]
                paths += [run.checkpoints] if run.checkpoints else []
                with suppress(OSError):
                    self._look = asking.Job(_stamps, paths, run.folder.path)
            return False
        if not self._look.poll():
            return False
        look, self._look = self._look, None
        # Cheap beside the run, however many files there are.
        seconds = 0.0
        try:
            seconds, self._seen = look.value()
        except asking.Failed:
            return False
        finally:
            self._next_look = run.up + max(50 * seconds, 0.5)
        return True


def _stamps(paths: list[str], own: str) -> tuple[float, dict[str, list[int]]]:
    """Return how many seconds the look took, and {path: stamp} of the files in and below these,
    without the runner's own."""
    found: dict[str, list[int]] = {}
    begun = time.monotonic()
    for path in dict.fromkeys(paths):
        for name in mirror.files_in(path, set()).values() if os.path.exists(path) else ():
            is_own = name.startswith(own + "/") and OWN.match(name[len(own) + 1 :])
            stamp = [] if is_own else mirror.stamp(name)
            if stamp:
                found[name] = stamp
    return time.monotonic() - begun, found


def _kill_session(leader: int) -> None:
    procs.send(
        [pid for pid, told in procs.table().items() if told.session == leader], signal.SIGKILL
    )


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
    told = f"not verified: {why}" if why else "not verified"
    for row in [row for row in rows if "\tfailed\t" in row] or [told]:
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
            run.folder.remove("sync.pid")


def _copy(run: Run, full: bool, whole: bool) -> int:
    code = Round(run, full, whole).go()
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
    run.folder.write("final-sync", json.dumps({"t": int(run.now)}) + "\n")
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
        try:
            self.file = os.open(self.run.folder.at("sync.lock"), os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            return -1  # a full disk: two copies at once do no harm but to each other's time
        over = self.run.up + 60
        while True:
            try:
                fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return self.file
            except OSError:
                if self.run.up >= over:
                    return None
                self.run.clock.nap(0.2)

    def __exit__(self, *_: object) -> None:
        if self.file >= 0:
            os.close(self.file)
