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
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import IO, NamedTuple

from . import durable, lineage, procs
from .context import Run, say, user_mask
from .copies import listing, place
from .copies.listing import Listing
from .copies.tool import Failed, Tools, memory

ABSENT = 3  # a worker's code: all there is was copied, but an item isn't there
HUNG = -1  # no worker's code: it was ended, for it made no progress
CUT = -2  # the time was over
SHORT = 10.0  # seconds that a copy may go on once the run was asked to end
LOG_EVERY = 600.0  # seconds between copies of the log, which always changes
LONGEST_WAIT = 60.0
BATCH = 2 << 30  # bytes that are compared between two looks at the clock
# What was compared earlier in the run is compared once more at its end, for so long at most.
REREAD = 600.0
# Nothing but a person mends these, so the last copy isn't tried again and again.
LASTING = re.compile(
    r"Read-only file system|Permission denied|Operation not permitted|Not a directory|File exists"
    r"|Is a directory|is missing on this box|durable place .* (on this box's own|held this run)"
    r"|a link to nothing|leads to nothing|leads back to|NoSuchBucket|AccessDenied"
)
# Files of the run folder that change without anything new to copy.
OWN = re.compile(
    r"(log|stacks|state\.json|events\.jsonl|asked|rc|paths|lock|attempt|place\.json|deadline.*"
    r"|synced\.tsv|verified\.json|results\.before|(last|final)-\w+|sync\..*|heart\w*|run\.sh"
    r"|.*\.pid|.*\.cache|.*\.tmp\..*|\..*)(/|$)"
)


class Sync:
    """The copies of one run, as its runner or keeper sees them: it starts workers and watches."""

    def __init__(self, run: Run):
        self.run = run
        self._child: subprocess.Popen[bytes] | None = None
        self._look: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] | None = None
        self._left_behind: set[int] = set()  # workers that hang in the kernel
        self._next_look = run.up
        # Lines of `find`: seen at the last look, at the worker's start, and copied for good.
        self._seen: frozenset[bytes] = frozenset()
        self._going: frozenset[bytes] = frozenset()
        self._copied: frozenset[bytes] = frozenset()
        self._started_at = run.up - run.spec.durable_seconds
        self._progress, self._moved_at = "", run.up
        self._failing_since: float | None = None
        self._failures, self._logged, self._is_told = 0, "", False
        self._is_last = False

    def beat(self, phase: str) -> None:
        """At each heartbeat: start a copy when something new lies still, and watch the one."""
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
            why = str(run.folder.json("last-sync").get("why", ""))
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
            self._look.kill()
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
        told = run.folder.json("last-sync")  # of a worker that isn't our child
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
        procs.note(run.folder, "sync", self._child.pid)

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
        hangs = int(run.folder.number("sync.hung") or 0) + 1
        run.folder.write("sync.hung", f"{hangs}\n")
        self.stop()
        seconds = run.spec.timings.copy_quiet
        why = f"the copy to {run.durable} made no progress for {seconds:.0f} s"
        run.event("sync-hung", count=hangs)
        self._note_failure(f"{why}; it was ended, and is tried another way", at_once=True)

    def _note_end(self, code: int) -> None:
        """Take over what a worker left behind."""
        self._child = None
        if code == 0:
            self._copied |= self._going
            if self._is_told:
                self.run.log(f"the copies to {self.run.durable} go on again")
            self._failing_since, self._failures = None, 0
            self._logged, self._is_told = "", False
            return
        why = self.run.folder.json("last-sync").get("why") or f"its process ended with {code}"
        self._note_failure(f"the copy to {self.run.durable} failed: {why}")

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
        """Return whether something new lies still, or has changed for long enough."""
        run = self.run
        self._left_behind = {pid for pid in self._left_behind if procs.stat(pid)}
        fresh = None if self._left_behind else self._look_around()
        if fresh is None:
            return False
        since, wait = run.up - self._started_at, run.spec.durable_seconds
        wait *= min(2 ** max(self._failures - 1, 0), 4)
        lies_still, new = fresh
        return lies_still and since >= wait or new and since >= 4 * wait

    def _look_around(self) -> tuple[bool, bool] | None:
        """Return whether something new lies still, and whether anything is new; None: not yet.

        A look is a child process that may hang with a mount, and nobody waits for it.
        """
        run = self.run
        if self._look is None:
            if (
                run.up >= self._next_look
                and run.up - self._started_at >= run.spec.durable_seconds / 2
            ):
                self._begin_look()
            return None
        if self._look.poll() is None:
            return None
        begun = time.monotonic()
        seen = self._lines()
        before, self._seen = self._seen, seen
        # Cheap beside the run, however many files there are.
        pause = max(100 * (time.monotonic() - begun), 1.0)
        self._next_look = run.up + pause
        new = seen - self._copied
        return bool(new & before), bool(new)

    def _begin_look(self) -> None:
        paths = [item.here for item in durable.items(self.run)]
        try:
            self._output = memory()
            self._look = subprocess.Popen(
                ["find", "-L", *paths, "-type", "f", "!", "-name", ".rgt-*",
                 "-printf", r"%T@ %s %p\0"],
                stdin=subprocess.DEVNULL, stdout=self._output, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        except OSError as error:
            self._next_look = self.run.up + LOG_EVERY
            self.run.log(f"can't look for something new to copy: {error}")

    def _lines(self) -> frozenset[bytes]:
        """Return what a look has found, a line a file, without the runner's own files."""
        self._look, output = None, self._output
        if output is None:
            return frozenset()
        with output:
            output.seek(0)
            text = output.read()
        lines = frozenset(filter(None, text.split(b"\0")))
        own = os.fsencode(self.run.folder.path) + b"/"
        if own not in text:
            return lines
        return frozenset(line for line in lines if not _is_own(line, own))


def _is_own(line: bytes, own: bytes) -> bool:
    path = line.split(b" ", 2)[2]
    return path.startswith(own) and bool(OWN.match(os.fsdecode(path[len(own) :])))


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
    before = len(run.folder.read("synced.tsv"))
    if worker(run, "full") == 0:
        sys.stdout.write(f"verified at {run.durable}\n")
        return 0
    rows = run.folder.read("synced.tsv")[before:].splitlines()
    for row in [row for row in rows if "\tfailed\t" in row] or ["not verified"]:
        say(row)
    return 1


def worker(run: Run, mode: str) -> int:
    """Copy once: quick (what is new), full (compare all), or whole (and nothing may be absent).

    0: done, and for full and whole verified; 3: all there is is there, but an item is absent.
    """
    if not run.durable:
        return 0
    run.anchor()
    if run.rank and os.path.exists(os.path.join(run.base, "state.json")):
        # Where the nodes share their folder, the first node copies for all.
        _write_last(run, {"ok": True, "verified": True})
        return 0
    with _Lock(run) as lock:
        if lock is None:
            _write_last(run, {"ok": False, "verified": False, "why": "another copy is going on"})
            return 1
        procs.note(run.folder, "sync", os.getpid())
        is_over = run.folder.ended() in ("done", "unsaved")
        # Other nodes may have nothing of it.
        is_whole = run.rank == 0 and (mode == "whole" or mode == "full" and is_over)
        try:
            return _Round(run, mode != "quick", is_whole).go()
        finally:
            run.folder.remove("sync.pid")


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


class Result(NamedTuple):
    """How an item went: ok, absent or failed; whether all its files were compared; why not."""

    word: str
    verified: bool
    detail: str


class _Round:
    """One round over all items."""

    def __init__(self, run: Run, full: bool, whole: bool):
        self.run, self.full, self.whole = run, full, whole
        self.moves, self.written = 0, -1.0
        hangs = int(run.folder.number("sync.hung") or 0)
        self.tools = Tools(durable.child_environment(run), self.moved)
        self.place = place.at(run.durable, self.tools, hangs % 2 == 1, user_mask())
        self.again = run.folder.has(".sync-failed")
        seconds = float(os.environ.get("RGT_SYNC_SECONDS") or 0)
        self.reread_until = run.up + (min(REREAD, seconds / 2) if seconds else REREAD)
        self.table: dict[str, dict[str, list[int]]] = {}
        self.log_copied = 0.0

    def moved(self) -> None:
        """Tell that something got on, once a second at most."""
        self.moves += 1
        if time.monotonic() - self.written >= 1:
            self.written = time.monotonic()
            self.run.follow()
            self.run.folder.write("sync.progress", f"{os.getpid()} {self.moves}\n")

    def go(self) -> int:
        """Copy; return the worker's code."""
        run, failed, absent, copied, missing, verified = self.run, [], [], 0, False, True
        self.moved()
        why = durable.is_place(run, self.place)
        if why:
            self._row(durable.Item("-", "", run.durable), Result("failed", False, why), 0)
            return self._end(False, [why], 0, [])
        self._read_table()
        lineage.note(run)
        for item in durable.items(run):
            begun = run.now
            result = self._copy(item)
            self._row(item, result, int(run.now - begun))
            if result.word == "absent":
                absent.append(item.name)
            elif result.word == "ok":
                copied += 1
                verified = verified and result.verified
            elif os.path.lexists(item.here):
                failed.append(durable.mask(run, result.detail))
            else:
                missing = True
        run.follow()
        if not failed:
            self._copy_log()
        if self.full or place.kind_of(run.durable) == "local":
            # A mount that went in the middle: what was compared since lies on another disk.
            why = durable.is_place(run, self.place)
            failed += [why] if why else []
        if self.full and absent and not copied and not failed:
            missing = self._has_saved()  # then the names are wrong
        code = self._end(verified and not missing, failed, copied, absent)
        if code == 0 and missing:
            return ABSENT
        return code

    def _end(self, verified: bool, failed: list[str], copied: int, absent: list[str]) -> int:
        """Write down how the round went."""
        run = self.run
        run.follow()
        ok = not failed and (verified or not self.full)
        if failed:
            run.folder.touch(".sync-failed")
        else:
            run.folder.remove(".sync-failed")
        told: dict[str, object] = {"ok": ok, "verified": ok and verified}
        if absent:
            told.update(copied=copied, absent=absent[:10])
        if failed:
            told["why"] = failed[0]
        elif not ok:
            told["why"] = "something that durable.what names isn't there"
        self._write_table()
        _write_last(run, told)
        if ok and self.full and run.folder.ended() and not procs.alive(run.folder, "train"):
            self._tell_whole()
        return 1 if failed else 0

    def _tell_whole(self) -> None:
        """After the run's end: all is there. A run that lacked nothing else is done."""
        run = self.run
        run.folder.write("final-sync", json.dumps({"t": int(run.now)}) + "\n")
        end = run.folder.ended()
        fields = run.folder.json(f".{end}")
        if end == "unsaved":
            fields.update(t=int(run.now), reason="", entry="", **{"class": ""})
            run.folder.mark("done", fields)
        elif unverified(run) in str(fields.get("reason")):
            fields["reason"] = fields["reason"].replace(f"; {unverified(run)}", "")
            run.folder.mark(end, fields)

    def _copy(self, item: durable.Item) -> Result:
        """Copy one item and compare it."""
        if os.path.islink(item.here) and not os.path.exists(item.here):
            return Result("failed", False, f"a link to nothing: {os.readlink(item.here)}")
        if not os.path.exists(item.here):
            if self.whole:
                why = f"no {item.here} after the run's end, although durable.what names it"
                return Result("failed", False, why)
            return Result("absent", False, "nothing there yet")
        try:
            listed = listing.look(item.here)
            there = item.there if not listed.only else os.path.dirname(item.there)
            known = self.table.setdefault(item.there, {})
            new = [name for name, stamp in listed.files.items() if known.get(name) != [*stamp]]
            self.place.put(listed, there, self.again, new)
            verified = self._compare(listed, there, known, new)
        except (Failed, OSError) as error:
            self.table.pop(item.there, None)
            return Result("failed", False, str(error))
        if listed.fault:
            return Result("failed", False, listed.fault)
        left = f"left out: {', '.join(listed.leave[:5])}" if listed.leave else ""
        return Result("ok", verified, left)

    def _compare(
        self, listed: Listing, there: str, known: dict[str, list[int]], new: list[str]
    ) -> bool:
        """Compare by content what hasn't been, and at the end all once more. Raises Failed.

        A file that changed meanwhile was still being written, and counts in the next round.
        """
        if not (self.full or self.place.checks_often):
            return False
        for name in set(known) - set(listed.files):
            del known[name]
        old = sorted(set(listed.files) - set(new)) if self.full else []
        old.sort(key=lambda name: -listed.files[name].time)
        batches = [(batch, True) for batch in _batches(listed, new)]
        batches += [(batch, False) for batch in _batches(listed, old)]
        for batch, must in batches:
            if not must and self.run.up >= self.reread_until:
                break
            wrong = [n for n in self.place.wrong(listed, there, batch) if listed.is_unchanged(n)]
            for name in batch:
                if name not in wrong and listed.is_unchanged(name):
                    known[name] = [*listed.files[name]]
            if wrong:
                raise Failed(f"differs at the destination: {wrong[0]}")
        return True

    def _copy_log(self) -> None:
        """Log and events go along uncompared: they change while one looks."""
        run = self.run
        if not self.full and 0 <= run.now - self.log_copied < LOG_EVERY:
            return
        self.log_copied = run.now
        for item in durable.own_files(run):
            with suppress(Failed, OSError):
                listed = listing.look(item.here)
                there = item.there if not listed.only else os.path.dirname(item.there)
                self.place.put(listed, there, False, list(listed.files))

    def _has_saved(self) -> bool:
        """Return whether the program has left results or checkpoints."""
        from . import results

        run = self.run
        if run.rank == 0 and len(results.look(run).missing) < len(run.spec.results):
            return True
        files = (name for _, _, names in os.walk(run.checkpoints) for name in names)
        return bool(run.checkpoints) and any(not name.startswith(".rgt-") for name in files)

    def _row(self, item: durable.Item, result: Result, seconds: int) -> None:
        mode = "full" if self.full else "quick"
        row = (int(self.run.now), mode, result.word, item.name, item.there, seconds, result.detail)
        words = [durable.mask(self.run, str(field)) for field in row]
        self.run.folder.append("synced.tsv", "\t".join(words) + "\n")

    def _read_table(self) -> None:
        """Read which files were compared at this place, as they were then."""
        told = self.run.folder.json("verified.json")
        if told.get("place") == durable.place_id(self.run):
            self.table = told.get("files") or {}
            self.log_copied = told.get("log") or 0.0

    def _write_table(self) -> None:
        told = {"place": durable.place_id(self.run), "log": self.log_copied, "files": self.table}
        self.run.folder.write("verified.json", json.dumps(told) + "\n")


def _batches(listed: Listing, names: list[str]) -> Iterator[list[str]]:
    """Cut names into parts of some gigabytes or some hundred files."""
    batch: list[str] = []
    size = 0
    for name in names:
        batch.append(name)
        size += listed.files[name].size
        if size >= BATCH or len(batch) >= 500:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _write_last(run: Run, told: dict[str, object]) -> None:
    told = {"t": int(run.now), **told, "to": run.durable}
    run.folder.write("last-sync", json.dumps(told) + "\n")
