"""A rehearsal: train, save, kill and resume in minutes, beside the run.

It is a run of its own in the run's folder: other state, other checkpoints, the same program for a
few steps.
"""

from __future__ import annotations

import copy
import fnmatch
import json
import os
import re
import select
import shutil
import signal
import stat
import sys
from contextlib import suppress
from typing import Dict, NamedTuple, Tuple

from ..text import proc
from ..text.masking import strip_controls
from . import (
    card_memory,
    checkpoints,
    child,
    content,
    durable,
    fetch,
    killing,
    launchers,
    log,
    opened,
    preflight,
    procs,
    program,
    results,
    resuming,
    saving,
    stopping,
)
from .child import Failed
from .context import Run, say
from .copies import groups
from .core.phases import CODES, REHEARSING
from .folder import Folder
from .locks import Lease, RunLock
from .probing import RehearsalProbe

FOLDER = "rehearsal"  # in the run folder
LONG = 90.0  # seconds after which it is said how a rehearsal gets shorter
STRAY = 2.0  # seconds between two looks at the run's own checkpoints
STILL = 1.0  # seconds in which nothing more is written to a first checkpoint
MOST_STILL = 3.0  # seconds to wait for that, where it is written over and over
PATIENCE = 30.0  # seconds from a first save in which a program may still open a checkpoint
LAST_SAVE = 1.0  # seconds in which a program that has saved may still end by itself
STEPS = 3  # steps after which a program without checkpoints has trained
SHARE = 0.2  # of the rehearsal's time, for such a program that prints none
BEFORE = "before.json"  # in the rehearsal's folder: what lay in the run's checkpoint folder
COPIES = "held"  # there: copies of those files, as long as they are small
MOST_COPIED = 1 << 28  # bytes of these copies
MOST_LOOKED = 100_000  # files among which saves are looked for
# Names of what programs save.
SAVED = (".pt", ".pth", ".ckpt", ".safetensors", ".distcp", ".pth.tar", ".pt.tar")
NOBODYS = frozenset(("__pycache__", "node_modules", "venv", "env", "site-packages"))
_DIGITS = re.compile(r"[0-9]+")
EARLY = 5.0  # seconds by which the clock of a network disk may be behind
SLACK = 60.0  # seconds beyond the limit until the guard ends the program


class Failure(Exception):
    """What went wrong in which phase: `save: no whole checkpoint in 10 minutes`."""


class Strayed(Exception):
    """The program changed the run's own checkpoints."""


def rehearse(run: Run, for_memory: bool = False) -> int:
    """Rehearse and print what came of it; return the exit code.

    `for_memory`: up to the first save alone, for what the program takes of the cards.
    """
    run.folder.make()
    lock = RunLock(run)
    refusal = lock.take() or Lease(run).respect()
    if refusal:
        say(refusal)
        return CODES["preempted"]
    end_left(run)
    code = Rehearsal(run, for_memory).go()
    lock.release()
    return code


def end_left(run: Run) -> None:
    """Kill what a rehearsal left that was itself killed."""
    killing.kill_program(Folder(run.folder.at(FOLDER)))


def of(run: Run) -> Run:
    """Return the run that rehearses another one: the same job with folders of its own."""
    folder = run.folder.at(FOLDER)
    fresh = os.path.join(folder, f"checkpoints-{os.getpid()}")
    spec = copy.deepcopy(run.spec)
    spec.rendered.run_dir, spec.rendered.work_dir = folder, run.work
    spec.checkpoint.folder = fresh if run.checkpoints else ""
    spec.results = [_moved(run, name, fresh) for name in run.spec.results]
    spec.queue.cells = []
    own = Run(spec, run.script, run.rank, run.clock)
    # A node's folder lies in its run's; a rehearsal's is of one node.
    own.base, own.folder = folder, Folder(folder)
    return own


def _size_of(run: Run, path: str) -> int:
    sizes = [group.size for group in groups.look(run) if path in {i.path for i in group.items}]
    return sizes[0] if sizes else content.stamp(path).size


def _moved(run: Run, name: str, fresh: str) -> str:
    """Return a result as the rehearsal has it: one among the checkpoints lies in its own folder."""
    path, top = os.path.normpath(run.inside(name)), (run.checkpoints or "\0").rstrip("/") + "/"
    return os.path.join(fresh, path[len(top) :]) if path.startswith(top) else name


class Rehearsal:
    """`real` is the run that is rehearsed, `run` the rehearsal itself."""

    def __init__(self, real: Run, for_memory: bool = False):
        self.real, self.run = real, of(real)
        self.for_memory = for_memory
        self.memory: card_memory.CardMemory | None = None
        self.has_saved = self.has_failed = False
        self.fresh = self.run.checkpoints  # the rehearsal's own, '' for a job that names none
        self.saves: Saves = {}  # what lay in `looked` before and looks like a save
        self.looked: set[str] = {real.work}
        self.begun = real.now - EARLY
        self.last: Save | None = None  # what the last look found
        self.elsewhere: Save | None = None
        self.program = program.Program(self.run)
        self.limit = self.run.up + self.run.spec.rehearsal.minutes * 60
        self.number = 0
        self.ended: int | None = None  # the code of a program that ended before it saved
        self.aside: list[str] = []  # results that weren't there before
        self.before: dict[str, str] | None = None  # the run's own checkpoints; None: not known
        self.stray_at = 0.0
        self.probe: RehearsalProbe | None = None
        self._inode = 0  # of the first save

    def go(self) -> int:
        """Return 0 where all phases went well."""
        run = self.run
        run.folder.make()
        for name in os.listdir(run.folder.path):
            if name.startswith("checkpoints-"):  # of an earlier rehearsal that failed
                shutil.rmtree(run.folder.at(name), ignore_errors=True)
        if run.checkpoints:
            os.makedirs(run.checkpoints)
        run.folder.remove(f"log/{card_memory.RECORD}")
        self._listen()
        own, guards = os.pipe()  # closed with this process, however that ends
        seconds = self.limit - run.up + SLACK
        child.Function(_guard, guards, run.folder, seconds, keep=guards)
        os.close(guards)
        code = 1
        try:
            code = self._phases()
        except Failure as failure:
            self.has_failed = True
            self.program.end()
            if self.elsewhere or not self._strays():
                print(f"failed {failure}", flush=True)
                self._print_tail()
        except Strayed:
            pass  # told below
        finally:
            self.program.end()
            if self._move_strays():
                code = 1
            elif self.elsewhere is not None:
                code = self._tell_elsewhere(self.elsewhere) or code
            self._tell_memory()
            if self.probe is not None:
                self.probe.tell()
            self._set_aside()
            for line in self._put_back():
                print(line)
            os.close(own)
        if code == 0 and self.fresh:
            shutil.rmtree(self.fresh, ignore_errors=True)
        return code

    def _phases(self) -> int:
        run = self.run
        refusals = preflight.check(run, beat=lambda: bool(run.asked))
        if refusals:
            preflight.tell_refusals(run, refusals)
            return 1
        # Nothing of a rehearsal goes there or comes from there.
        run.spec.durable.to = run.durable = ""
        if run.spec.data:
            self._tell_phase("data: bringing what the job lists, which the run then finds here")
            verdict = fetch.data(run, lambda: bool(run.asked))
            if verdict is not None:
                raise Failure(f"data: {verdict.reason}")
            if run.asked:
                raise Failure("data: interrupted")
        named = [*run.spec.results, *self.real.spec.results]
        paths = [self.real.inside(name) for name in named]
        self.aside = [path for path in paths if not os.path.lexists(path)]
        results.note_before(run)
        self.before = self._list_real()
        with suppress(Failed):
            child.call(run, note_before, run.folder, self.real.checkpoints, self._others())
        if self.before and self._names_checkpoints():
            print(
                f"failed save: the command names {self.real.checkpoints}, where this run's"
                f" {len(self.before)} checkpoints lie, and a rehearsal would write among them;"
                " rehearse under another name (--set name=NAME) and folder, or make the program"
                " read RGT_CHECKPOINT_DIR"
            )
            return 1
        self.saves = self._list_saves() or {}
        self.probe = RehearsalProbe(run)
        self.memory = card_memory.CardMemory(run)
        saved = self._until_saved()
        self.has_saved = saved is not None
        self.program.end()
        if saved is None and self.ended is not None:
            return self._evaluate()
        print("ok kill: KILL, nothing left running", flush=True)
        if self.for_memory:
            return 0
        return self._resume(saved) if saved else self._again()

    def _tell_memory(self) -> None:
        """Print what the program took of the cards, and leave it as JSON beside the log."""
        if self.memory is None or self.probe is None:
            return
        self.memory.end()
        processes = card_memory.read_processes(self.probe.place)
        measurement = card_memory.measured(self.memory, processes, self.has_saved)
        measurement["has_failed"] = self.has_failed
        measurement["died"] = self.has_failed and b"out of memory" in self._tail().lower()
        self.run.folder.write(f"log/{card_memory.RECORD}", json.dumps(measurement) + "\n")
        if measurement["cards"] or processes or self.for_memory:
            for line in card_memory.lines(measurement):
                print(line, flush=True)

    def _tell_phase(self, what: str) -> None:
        """Say what the rehearsal does now, for whoever waits for it."""
        print(f"{REHEARSING}{what}", file=sys.stderr, flush=True)

    def _others(self) -> list[str]:
        """Return the folders that aren't the checkpoints' where these lie above them."""
        return [self.real.work, self.real.base, self.real.folder.path, self.run.folder.path]

    def _put_back(self) -> list[str]:
        """Leave the run's checkpoint folder as it was; return what to say of that."""
        try:
            return list(child.call(self.run, put_back, self.run.folder))
        except Failed as error:
            return [f"  can't look at {self.real.checkpoints} again: {error}"]

    def _names_checkpoints(self) -> bool:
        """Return whether the command or a variable names the run's folder of checkpoints."""
        spec, real = self.run.spec, self.real
        words = [spec.command] if isinstance(spec.command, str) else list(spec.command)
        text = " ".join([*words, *spec.variables.values(), *spec.setup])
        given = {real.given_checkpoints, real.checkpoints}
        folders = {re.sub(r"^(\./)+", "", folder).rstrip("/") for folder in given} - {"", ".", "~"}
        named = [
            re.sub(r"^(\./)+", "", word) for word in re.split(r"[\s;&|()<>`'\"=,:@\[\]]+", text)
        ]
        return any((word + "/").startswith(folder + "/") for word in named for folder in folders)

    def _until_saved(self) -> checkpoints.Checkpoint | None:
        """Train up to the first whole checkpoint, and tell what it took.

        A program whose job names none trains for some steps, or to its end; then None.
        """
        run, begin = self.run, self.run.up
        first = grew = saved = 0.0
        found, last, still = None, checkpoints.Checkpoint("", None, ""), 0.0
        waits = "first run, until it has saved" if run.checkpoints else "first run, for some steps"
        self._tell_phase(waits)
        is_long = bool(run.spec.rehearsal.arguments)
        self._launch("train")
        while self.program.alive():
            self._look("train")
            if not is_long and run.up >= begin + LONG:
                is_long = True
                self._tell_phase(f"{waits}; rehearsal.arguments of the job can let it save sooner")
            first = first or (run.up if log.tail(run, self.program.first, 1) else 0)
            grew = grew or (run.up if _has_files(run.checkpoints) else 0)
            if grew and checkpoints.glance(run):
                saved = saved or run.up
                now = checkpoints.latest(run) or last
                is_next = bool(last.path) and now.path != last.path
                if now.id != last.id:
                    last, still = now, run.up
                # A folder of several files looks whole between two of them.
                is_whole = is_next or run.up >= min(still + STILL, saved + MOST_STILL)
                if is_whole and not (self.probe and self.probe.waits(saved)):
                    break
            elif not run.checkpoints and first and self._has_trained(first):
                print(f"ok train: first line after {first - begin:.0f} s")
                return None
            if run.up >= self.limit:
                minutes = f"{run.spec.rehearsal.minutes:g} minutes"
                raise Failure(f"save: no whole checkpoint in {minutes}")
        if not _has_files(run.checkpoints):
            self._look_elsewhere(at_the_end=True)
        found = checkpoints.newest(run)
        if found is None:
            code = self.ended = self.program.wait_for_code()
            where = run.folder.at("log")
            if code == 0 and not run.checkpoints:
                print(f"ok train: ran to its end in {run.up - begin:.0f} s")
                return None
            what = " before the first checkpoint" if run.checkpoints else ""
            raise Failure(f"train: ended with {code}{what}; see {where}")
        saved = saved or run.up
        size = self._size(found)
        self.real.folder.write(durable.MEASURED, json.dumps({"bytes": size}) + "\n")
        print(f"ok train: first line after {(first or run.up) - begin:.0f} s")
        print(
            f"ok save: first whole checkpoint after {saved - begin:.0f} s, a save takes"
            f" {saved - (grew or saved):.0f} s and {-(-size // (1 << 20))} MB:"
            f" {os.path.basename(found.path)}",
            flush=True,
        )
        return found

    def _has_trained(self, first_up: float) -> bool:
        """Return whether a program without checkpoints has shown enough to be killed."""
        run = self.run
        if run.up >= first_up + run.spec.rehearsal.minutes * 60 * SHARE:
            return True
        if self.probe and self.probe.waits(first_up):
            return False
        steps = set(log.find_steps(run, log.tail(run, self.program.first, 65536)))
        return len(steps) >= STEPS and run.up >= first_up + STRAY

    def _again(self) -> int:
        """Start the program again, which has no checkpoint to go on from: it must train again."""
        run, begin = self.run, self.run.up
        self._tell_phase("second run, which begins again")
        self._launch("again")
        while self.program.alive() and not log.tail(run, self.program.first, 1):
            self._look("again")
            if run.up >= self.limit:
                raise Failure("again: no line in the log after a kill")
        if not self.program.alive() and self.program.wait_for_code() != 0:
            raise Failure(f"again: it doesn't start after a kill; see {run.folder.at('log')}")
        self.program.end()
        print(
            f"ok again: after a kill its first line came in {run.up - begin:.0f} s; it begins at 0"
            " again, as the job names no checkpoint",
            flush=True,
        )
        return 0

    def _resume(self, saved: checkpoints.Checkpoint) -> int:
        """Start the program again: it must come beyond what it had saved, or to its end."""
        run = self.run
        # What the program saved while it was being killed is what it goes on from.
        saved = checkpoints.newest(run) or saved
        self._inode = saving.inode_of(saved.path)
        begin = run.up
        self._tell_phase(f"second run, from {os.path.basename(saved.path)} until it has saved")
        watch = self._launch("resume", saved)
        assert watch is not None
        newest, found = watch.newest, watch.found()
        first, first_at, is_frozen = "", 0.0, False
        while self.program.alive():
            self._look("resume")
            if not is_frozen:
                # Until it is known whether the program opened one, nothing else here reads them.
                found = watch.found()
                written = checkpoints.written_since(run, newest)
                first_at = first_at or (run.up if written else 0.0)
                first = first or written
                # A save may be the last thing that the program does: then its results count too. A
                # program may also save once before it loads.
                is_frozen = bool(first) and run.up >= first_at + LAST_SAVE
                if found is False and run.spec.resume != "none":
                    is_other = written not in ("", first)
                    is_frozen = is_frozen and (is_other or run.up >= first_at + PATIENCE)
            elif checkpoints.glance(run) and (newer := checkpoints.saved_since(run, newest)):
                doubt = self._ask_to_save(saved, newer)
                self.program.end()
                name = os.path.basename(newer.path)
                watch.close()
                self._tell_resume(found, saved, f"saved {name} after {first_at - begin:.0f} s")
                print(doubt, flush=True)
                return 0
            if run.up >= self.limit:
                minutes = f"{run.spec.rehearsal.minutes:g} minutes"
                raise Failure(f"resume: no whole checkpoint in {minutes}")
        code = self.program.wait_for_code()
        self.program.end()
        if code != 0:
            raise Failure(f"resume: ended with {code}; see {run.folder.at('log')}")
        found = found if is_frozen else watch.found()
        watch.close()
        came = f"ran to its end in {run.up - begin:.0f} s"
        newer = checkpoints.saved_since(run, newest, now=True)
        if newer:
            came = f"saved {os.path.basename(newer.path)} and {came}"
        self._tell_resume(found, saved, came, has_saved=bool(newer))
        return self._evaluate()

    def _evaluate(self) -> int:
        """Look for the results of a program that came to its end."""
        run = self.run
        missing, stale = results.look(run)
        if missing:
            old = f"; from before and not written again: {' '.join(stale)}" if stale else ""
            print(f"failed evaluate: missing {' '.join(missing)}{old}")
            return 1
        if run.spec.results:
            print("ok evaluate: all expected files are there")
        return 0

    def _ask_to_save(self, before: checkpoints.Checkpoint, newer: checkpoints.Checkpoint) -> str:
        """Ask the program to save, as a stop does, and say what came of it and what a stop costs.

        `before`, `newer`: two saves of its own, one after the other.
        """
        run = self.run
        self._tell_phase("asking it to save, as a stop does")
        stopping.wait_for_save(run, "asked", run.spec.checkpoint.save_seconds, tells=False)
        newest = run.now * 1e9
        name, until = run.spec.save_signal, run.up + run.spec.checkpoint.save_seconds
        targets = program.save_targets(run, self.program.pid)
        is_deaf = saving.ignores(targets, getattr(signal, f"SIG{name}"))
        self.program.ask_to_save("rehearsal")
        while self.program.alive() and run.up < until and not is_deaf:
            run.clock.nap(0.2)
            if checkpoints.glance(run) and checkpoints.saved_since(run, int(newest)):
                break
        if checkpoints.saved_since(run, int(newest), now=True):
            return f"ok stop: saves when {name} asks, so a stop costs it no steps"
        spec = self.real.spec
        is_shortened = bool(spec.rehearsal.arguments)
        cost = stopping.tell_steps_between(
            before.step, newer.step, is_shortened, (spec.checkpoint.every_minutes or 0) * 60
        )
        how = "goes on, and is killed" if self.program.alive() else "ends without a save"
        doubt = f"unsure stop: at {name} the program {how}, so a stop or the deadline costs {cost}"
        if saving.is_in_place(before.path, newer.path, self._inode):
            doubt += (
                f"; it saves over {os.path.basename(newer.path)} in place, so an end inside a save"
                " tears that checkpoint here: "
            )
            doubt += (
                "the copy at the durable place is left then"
                if self.real.spec.durable.to
                else "name a durable place, or let it save to another name and rename"
            )
        return doubt

    def _tell_resume(
        self, found: bool | None, saved: checkpoints.Checkpoint, came: str, has_saved: bool = True
    ) -> None:
        """Print what came of the second start. Raises Failure where it saved, and had opened no
        checkpoint (`found`, as Opened tells it)."""
        name = os.path.basename(saved.path)
        if self.run.spec.resume == "none":
            print(f"ok resume: began anew as resume: none says, {came}", flush=True)
        elif found is False and has_saved:
            raise Failure(
                f"resume: the program seems to begin anew: it {came}, and opened neither {name} nor"
                " another checkpoint; make it load what RGT_RESUME_FROM names"
            )
        elif found:
            print(f"ok resume: opened a checkpoint, {came}", flush=True)
        elif found is False:
            print(f"unsure resume: {came} without a checkpoint, old or new", flush=True)
        else:
            why = "whether the program opened a checkpoint couldn't be seen"
            print(f"unsure resume: {came}; {why}", flush=True)

    def _launch(
        self, phase: str, saved: checkpoints.Checkpoint | None = None
    ) -> opened.Opened | None:
        """Start the program; where it is to go on from `saved`, that is watched from before."""
        run, self.number = self.run, self.number + 1
        try:
            found = resuming.choose_checkpoint(run)
        except resuming.Lost as lost:
            raise Failure(f"{phase}: {lost}") from None
        extra = [*run.spec.rehearsal.arguments, *resuming.arguments(run, found)]
        words = program.with_arguments(program.words_of(run.spec.command), extra)
        watch = opened.Opened(run, (found or saved).path) if saved else None
        self.program.start(
            launchers.wrap(run, words),
            self.number,
            found.path if found else "",
            {**resuming.variables(run, found), **card_memory.ASKED},
            self.probe.folder if self.probe else "",
        )
        return watch

    def _look(self, phase: str) -> None:
        """Wait for a moment; end the program where it strays or somebody interrupts."""
        run = self.run
        run.clock.nap(0.2)
        if self.memory is not None:
            self.memory.look()
        if run.asked:
            raise Failure(f"{phase}: interrupted")
        if run.up >= self.stray_at:
            # Looked at soon: a program that keeps its last three deletes the run's.
            self.stray_at = run.up + STRAY
            if self.elsewhere is None and self._strays():
                if self.before:
                    self.program.end()
                    raise Strayed
                self._go_on_with(
                    Save(self.real.checkpoints, self.real.spec.checkpoint.pattern, False)
                )
            elif self.elsewhere is None and not _has_files(self.fresh):
                self._look_elsewhere()
        elif self.elsewhere is None and not _has_files(self.fresh):
            self.looked |= _opened(run)

    def _look_elsewhere(self, at_the_end: bool = False) -> None:
        """Look for saves that aren't in RGT_CHECKPOINT_DIR, and go on with them once they rest."""
        now = self._list_saves()
        if now is None:
            return
        found = find_save(self.saves, now)
        is_seen, self.last = found is not None and self.last == found, found
        if found and (is_seen or at_the_end):
            if found.is_shared:
                self.elsewhere = found
                raise Failure(f"save: {found.folder} held such files before, which nobody touches")
            self._go_on_with(found)

    def _go_on_with(self, save: Save) -> None:
        """Let the rehearsal go on with the checkpoints where the program saves them."""
        self.elsewhere = save
        self.run.checkpoints = save.folder
        self.run.spec.checkpoint.folder = save.folder
        self.run.spec.checkpoint.pattern = save.pattern
        self.run.spec.results = list(self.real.spec.results)

    def _list_saves(self) -> Saves | None:
        try:
            found = child.call(
                self.run,
                list_saves,
                sorted(self.looked),
                self.real.spec.checkpoint.pattern,
                self.run.folder.path,
            )
        except Failed:
            return None
        now = {path: (stamp[0], stamp[1]) for path, stamp in found.items()}
        # In a folder that is looked at only now, since the program holds a file of it open.
        old = {path: stamp for path, stamp in now.items() if stamp[0] < self.begun * 1e9}
        self.saves = {**old, **self.saves}
        return now

    def _tell_elsewhere(self, save: Save) -> int:
        """Move away what the program saved elsewhere, and print the line for the job; return 1
        where the job names another folder."""
        real, now = self.real, self._list_saves() or {}
        top = save.folder + "/"
        new = {path for path in now if path.startswith(top) and self.saves.get(path) != now[path]}
        with suppress(OSError):
            items = {os.path.join(save.folder, path[len(top) :].split("/")[0]) for path in new}
            items |= {
                os.path.join(save.folder, name)
                for name in os.listdir(save.folder)
                if fnmatch.fnmatch(name, save.pattern) and not save.is_shared
            }
        is_own = save.folder == real.checkpoints
        folder = os.path.relpath(save.folder, real.work)
        folder = save.folder if folder.startswith("..") else folder
        line = f"checkpoint: {{folder: {_yaml(folder)}, pattern: {_yaml(save.pattern)}}}"
        if is_own:
            print(
                f"note save: the program saves to {folder} as the job names it, without a look at"
            )
            print("  RGT_CHECKPOINT_DIR; the run does the same")
        elif real.checkpoints:
            print(
                f"failed save: the program saves to {save.folder}, not to the folder that the job"
            )
            print(f"  names. Write in the job: {line}")
        else:
            print(f"note save: the program saves to {save.folder}, which the job doesn't name, so")
            print(f"  nothing is copied or gone on from. Write in the job: {line}")
        to = self.run.folder.at(f"strays-{os.getpid()}")
        for path in sorted(items):
            if _move(path, to):
                print(f"  moved to {to}: {os.path.basename(path)}")
            else:
                print(f"  can't move {path}: move it away before the start")
        return int(bool(real.checkpoints) and not is_own)

    def _listen(self) -> None:
        def ask(number: int, _: object) -> None:
            self.run.asked = f"signal {signal.Signals(number).name[3:]}"

        for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
            signal.signal(sign, ask)

    def _size(self, found: checkpoints.Checkpoint) -> int:
        """Return the bytes of a checkpoint with all files that belong to it; 0 if unknown."""
        with suppress(Failed):
            return int(child.call(self.run, _size_of, self.run, found.path))
        return 0

    def _list_real(self) -> dict[str, str] | None:
        """Return the stamps of the run's own checkpoints; None where they can't be listed."""
        run, real = self.run, self.real
        if not real.checkpoints:
            return {}
        try:
            found = child.call(
                run, content.newest_first, real.checkpoints, real.spec.checkpoint.pattern
            )
        except Failed:
            return None
        own = run.folder.path + "/"
        items = [content.Item(*item) for item in found]
        # The rehearsal's folder may lie below the run's folder of checkpoints.
        return {
            item.path: f"{item.changed} {item.size}"
            for item in items
            if not own.startswith(item.path + "/") and not item.path.startswith(own)
        }

    def _strays(self) -> Strays | None:
        """Return what the program changed among the run's own checkpoints, None for nothing."""
        now = self._list_real() if self.before is not None else None
        if now is None or self.before is None:
            return None
        changed = sorted(path for path in now if self.before.get(path) != now[path])
        gone = sorted(path for path in self.before if path not in now)
        return Strays(changed, gone) if changed or gone else None

    def _move_strays(self) -> bool:
        """Move away what the program saved among the run's checkpoints, or a start would go on
        from it; return whether there was anything."""
        found = None if self.elsewhere else self._strays()
        if found is None:
            return False
        if not self.before and not found.gone:
            self.elsewhere = Save(self.real.checkpoints, self.real.spec.checkpoint.pattern, False)
            return False
        print(
            f"failed save: the program saved to {self.real.checkpoints}, where this run's"
            " checkpoints lie, not to the folder in RGT_CHECKPOINT_DIR; make it read that variable,"
            " or rehearse under another name"
        )
        to = self.run.folder.at(f"strays-{os.getpid()}")
        for path in found.changed:
            over = ", which the rehearsal wrote over" if path in (self.before or {}) else ""
            if _move(path, to):
                print(f"  moved to {to}: {os.path.basename(path)}{over}")
            else:
                print(f"  can't move {path}: move it away before the start")
        for path in found.gone:
            print(f"  the rehearsal deleted {path}")
        return True

    def _set_aside(self) -> None:
        """Move the results that only the rehearsal wrote: they aren't the run's."""
        for path in self.aside:
            if os.path.lexists(path) and _move(path, self.run.folder.at("results")):
                self.run.event("set-aside", path=path)

    def _print_tail(self) -> None:
        """Print the end of what the program said: the log is on the box, the reader often isn't."""
        lines = self._tail().decode("utf-8", "replace").replace("\r", "\n").splitlines()
        for line in lines[-20:]:
            print(strip_controls(line))

    def _tail(self) -> bytes:
        """Return the end of what the program said."""
        return log.tail(self.run, self.program.first, 16384) if self.number else b""


def note_before(folder: Folder, checkpoints_: str, others: list[str]) -> None:
    """Note all that lies in a folder of checkpoints, and keep copies of what is small, for
    `put_back`. Nothing where it holds one of the `others`: what else is written there is theirs."""
    top = checkpoints_.rstrip("/")
    shutil.rmtree(folder.at(COPIES), ignore_errors=True)
    folder.remove(BEFORE)
    if not top or any((other + "/").startswith(top + "/") for other in others):
        return
    left, rows = MOST_COPIED, {}
    for path in _all_below(top):
        file_stat = os.lstat(path)
        name = os.path.relpath(path, top)
        rows[name] = [file_stat.st_mtime_ns, file_stat.st_size]
        if stat.S_ISREG(file_stat.st_mode) and file_stat.st_size <= left:
            left -= file_stat.st_size
            kept = os.path.join(folder.at(COPIES), name)
            os.makedirs(os.path.dirname(kept), exist_ok=True)
            shutil.copy2(path, kept)
    record = {"top": top, "was_there": os.path.isdir(top), "files": rows}
    folder.write(BEFORE, json.dumps(record) + "\n")


def put_back(folder: Folder) -> list[str]:
    """Leave a folder of checkpoints as `note_before` found it: what is new is moved into the
    rehearsal's folder, what was written over or removed is put back; return what to say of that.

    A program that finds its config.json there refuses to begin, or takes it for its own.
    """
    noted, copies, lines = folder.json(BEFORE), folder.at(COPIES), []
    top, rows = noted.get("top"), noted.get("files") or {}
    if not top:
        return []
    to, moved = folder.at("written"), []
    now = {os.path.relpath(path, top): path for path in _all_below(top)}
    for name in sorted({_topmost_new(name, rows) for name in now if name not in rows}):
        if _move(os.path.join(top, name), to):
            moved.append(name)
        else:
            lines.append(f"  can't move {top}/{name}: move it away before the start")
    for name, row in rows.items():
        path, kept = os.path.join(top, name), os.path.join(copies, name)
        with suppress(OSError):
            file_stat = os.lstat(path)
            if [file_stat.st_mtime_ns, file_stat.st_size] == row:
                continue
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            shutil.copy2(kept, path + ".rgt-tmp")
            os.replace(path + ".rgt-tmp", path)
            lines.append(f"  put back as it was: {path}")
        except OSError:
            lines.append(f"  the rehearsal wrote over or removed {path}, which can't be put back")
    if not noted.get("was_there"):
        with suppress(OSError):
            os.rmdir(top)
    if moved:
        names = ", ".join(moved[:8]) + (f" and {len(moved) - 8} more" if moved[8:] else "")
        lines.append(f"note save: the program wrote to {top} besides; moved to {to}: {names}")
    shutil.rmtree(copies, ignore_errors=True)
    folder.remove(BEFORE)
    return lines


def _topmost_new(name: str, rows: dict[str, list[int]]) -> str:
    """Return the first part of a path that held nothing before."""
    parts = name.split("/")
    for count in range(1, len(parts)):
        above = "/".join(parts[:count])
        if not any(other.startswith(above + "/") for other in rows):
            return above
    return name


def _all_below(top: str) -> list[str]:
    """Return all files and links in a folder."""
    found = []
    for base, inside, names in os.walk(top):
        links = [name for name in inside if os.path.islink(os.path.join(base, name))]
        empty = [] if inside or names or base == top else [base]
        found += [os.path.join(base, name) for name in [*names, *links]] + empty
    return found


class Strays(NamedTuple):
    """Paths among the run's own checkpoints that the rehearsal wrote, and that it deleted."""

    changed: list[str]
    gone: list[str]


class Save(NamedTuple):
    """Where a program saves that doesn't ask RGT_CHECKPOINT_DIR: a folder, and a glob of what it
    saves there. `is_shared`: files of that form lay there before."""

    folder: str
    pattern: str
    is_shared: bool


Saves = Dict[str, Tuple[int, int]]  # {path: (ns since 1970, bytes)}


def list_saves(folders: list[str], pattern: str, left: str) -> Saves:
    """Return the files that look like a checkpoint's, by their names or by the job's `pattern`.

    Not those below `left`, in hidden folders, or where nobody's own files are.
    """
    found: Saves = {}
    seen = 0
    for top in folders:
        for base, inside, names in os.walk(top):
            inside[:] = [
                name
                for name in inside
                if not name.startswith(".")
                and name not in NOBODYS
                and os.path.join(base, name) != left
            ]
            seen += len(names) + 1
            if seen > MOST_LOOKED:
                return found
            for name in names:
                path = os.path.join(base, name)
                if name.endswith(SAVED) or _matches(path, pattern):
                    with suppress(OSError):
                        file_stat = os.lstat(path)
                        if stat.S_ISREG(file_stat.st_mode):
                            found[path] = (file_stat.st_mtime_ns, file_stat.st_size)
    return found


def find_save(before: Saves, now: Saves) -> Save | None:
    """Return where the newest of the files that are new lies; None for no new one."""
    new = {path: stamp for path, stamp in now.items() if before.get(path) != stamp}
    if not new:
        return None
    newest = max(new, key=lambda path: new[path])
    folder, name = os.path.split(newest)
    # One of several files of a checkpoint: the folder is the checkpoint, as in checkpoint-500/.
    if _DIGITS.search(os.path.basename(folder)) and not any(
        path.startswith(folder + "/") for path in before
    ):
        folder, name = os.path.split(folder)
    pattern = _DIGITS.sub("*", name)
    is_shared = any(
        fnmatch.fnmatch(path[len(folder) + 1 :].split("/")[0], pattern)
        for path in before
        if path.startswith(folder + "/")
    )
    return Save(folder, pattern, is_shared)


def _matches(path: str, pattern: str) -> bool:
    """Return whether a file, or a folder above it, has a name of the job's pattern."""
    last = pattern.rpartition("/")[2]
    names = path.split("/")[-2:]
    return last not in ("", "*") and any(fnmatch.fnmatch(name, last) for name in names)


def _opened(run: Run) -> set[str]:
    """Return the folders of the files that the program holds open and that look like its saves."""
    found = set()
    for pid in procs.of_program(run.folder):
        for path in proc.read_open_files(pid).values():
            if path.startswith("/") and path.endswith(SAVED):
                found.add(os.path.dirname(path))
    return found


def _yaml(text: str) -> str:
    """Return a text as YAML and JSON have it."""
    return text if re.fullmatch(r"[A-Za-z0-9_./-]+", text) else json.dumps(text)


def _has_files(folder: str) -> bool:
    try:
        return bool(os.listdir(folder))
    except OSError:
        return False


def _move(path: str, to: str) -> bool:
    """Move something into a folder of the rehearsal."""
    target = os.path.join(to, os.path.basename(path))
    try:
        os.makedirs(to, exist_ok=True)
        if os.path.isdir(target) and not os.path.islink(target):
            shutil.rmtree(target)
        elif os.path.lexists(target):
            os.unlink(target)
        shutil.move(path, target)
    except OSError:
        return False
    return True


def _guard(reader: int, folder: Folder, seconds: float) -> None:
    """End the program where the rehearsal is killed, or stopped beyond `seconds`.

    `reader`: the file whose end says that the rehearsal is gone.
    """
    for sign in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(sign, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    select.select([reader], [], [], seconds)
    killing.kill_program(folder)
    put_back(folder)
