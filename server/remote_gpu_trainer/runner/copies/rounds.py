"""One round of copies: the checkpoints first, by the plan, and then all else."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from .. import completeness, content, durable, log, procs, results
from ..completeness import COMPLETE, CORRUPT, REST, UNKNOWN
from ..context import Run, user_mask
from . import groups, mirror, place
from .generations import Generations, digest_of, name_of
from .groups import STATE, Group
from .place import Files, join
from .plan import Copy, Drop, Here, Job, There, is_mixed, newest, plan, rests
from .tool import Failed, Tools

ABSENT = 3  # the code where all there is was copied, but something isn't there
SAFE = "safe.json"  # in the run's folder: what of the run is safe; safe.py reads it
LOG_EVERY = 600.0  # seconds between copies of the log, which always changes
BATCH = 2 << 30  # bytes that are compared between two looks at the clock
# What was compared earlier in the run is compared once more at its end, for so long at most.
REREAD = 600.0
LONGEST = 60.0  # seconds for checkpoints, where the program saves on and on; then all else
TRIES = 3  # of a checkpoint that changes while it is copied, in one round
MIXED = "its program died after it had written only some of its files anew"


class Result(NamedTuple):
    """How an item went: ok, absent or failed; whether all its files were compared; why not."""

    word: str
    verified: bool
    detail: str


class Round:
    """One round over all. `full`: all is compared. `whole`: nothing may be absent."""

    def __init__(self, run: Run, full: bool, whole: bool):
        self.run, self.full, self.whole = run, full, whole
        self.moves, self.written = 0, -1.0
        self.tools = Tools(durable.child_environment(run), self.moved)
        self.place = place.at(run.durable, self.tools, user_mask())
        self.again = run.folder.has(".sync-failed")
        seconds = float(os.environ.get("RGT_SYNC_SECONDS") or 0)
        self.reread_until = run.up + (min(REREAD, seconds / 2) if seconds else REREAD)
        told = run.folder.json(STATE)
        is_same = told.get("place") == durable.place_id(run)
        self.state: dict[str, Any] = told if is_same else {}
        self.table: dict[str, dict[str, list[int]]] = self.state.get("files") or {}
        self.digests: dict[str, str] = told.get("digests") or {}  # by stamp
        self.corrupt: dict[str, str] = told.get("corrupt") or {}  # by stamp: why
        self.known = content.Known(run.folder.at("whole.cache"))
        self.there = Generations(
            run.spec.name,
            self.place,
            durable.address_of_checkpoints(run),
            self.state.get("known") or {},
        )
        self.handled: dict[str, str] = {}  # name -> stamp of what needs no further copy
        self.groups: list[Group] = []
        self.mixed: list[Group] = []  # of them, what is of two saves
        self.told: list[str] = []

    def moved(self) -> None:
        """Tell that something got on, once a second at most."""
        self.moves += 1
        if time.monotonic() - self.written >= 1:
            self.written = time.monotonic()
            self.run.folder.write("sync.progress", f"{os.getpid()} {self.moves}\n")

    def go(self) -> int:
        """Copy; return the worker's code."""
        run, failed, absent, copied, missing, verified = self.run, [], [], 0, False, True
        self.moved()
        why = durable.is_place(run, self.place)
        if why:
            self._row(durable.Item("-", "", run.durable), Result("failed", False, why), 0)
            return self._end(False, [why], 0, [])
        marker = join(run.durable, durable.FILE)
        if isinstance(self.place, place.Local) and os.path.exists(marker):
            self.place.marker = marker
        if run.checkpoints and run.spec.checkpoint_pattern:
            begun = run.now
            result = self._copy_checkpoints()
            item = durable.Item("checkpoints", run.checkpoints, self.there.home)
            self._row(item, result, int(run.now - begun))
            if result.word == "failed":
                failed.append(durable.mask(run, result.detail))
        for item in self._items():
            begun = run.now
            result = self._mirror(item)
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
        if not failed:
            self._copy_log()
        if self.full or place.kind_of(run.durable) == "local":
            # A mount that went in the middle: what was compared since lies on another disk.
            why = durable.is_place(run, self.place)
            failed += [why] if why else []
        if self.full and absent and not copied and not failed:
            missing = self._has_saved()  # then the names are wrong
        code = self._end(verified and not missing, failed, copied, absent)
        return ABSENT if code == 0 and missing else code

    def _items(self) -> list[durable.Item]:
        """Return what is mirrored: what the job names, and results that this doesn't cover."""
        found = durable.items(self.run)
        if self.run.rank == 0:
            for name in self.run.spec.results:
                for path in groups.expand(self.run, name):
                    if os.path.exists(path) and not any(_covers(o.here, path) for o in found):
                        found.append(durable.item_of(self.run, path))
        return found

    # The checkpoints.

    def _copy_checkpoints(self) -> Result:
        failed, overtaken = "", {}
        try:
            there, free = self.there.read(), None
            if self.there.foreign:
                why = f"the checkpoints at {self.there.home} are of the run {self.there.foreign!r}"
                return Result("failed", False, f"{why}; give this run another durable.to")
            first_seen: dict[str, float] = {}
            begun = time.monotonic()
            while True:
                self.groups = groups.look(self.run)
                here = [self._here(group, first_seen) for group in self.groups]
                if self._is_over():
                    here += [self._here(part, first_seen) for part in self._add_parts(here)]
                free = self.place.free(self.there.home)
                actions = plan(here, there, self._job(frozenset(overtaken), free))
                is_changed = False
                for action in actions:
                    if isinstance(action, Drop):
                        self.there.drop(action.name)
                        self.run.event("generation-dropped", generation=action.name)
                        is_changed = True
                    elif isinstance(action, Copy):
                        group = next(g for g in self.groups if g.name == action.name)
                        if self._copy_group(group, action):
                            overtaken[group.name] = overtaken.get(group.name, 0) + 1
                        is_changed = max(overtaken.values(), default=0) < TRIES
                    elif action.key == "room":
                        failed = failed or action.text
                    else:
                        self.told.append(action.text)
                spent = time.monotonic() - begun
                if spent > LONGEST and not self._is_over():
                    break
                if not is_changed:
                    if spent > REST + 1 or not self._waits_for_rest(here, there):
                        break
                    time.sleep(0.25)
                    self.moved()
                there = self.there.listed()  # a bucket may list late what was just written
            self._reread()
            self.there.tell_newest()
        except (Failed, OSError) as error:
            return Result("failed", False, failed or str(error))
        self._note_handled(here)
        mixed = {one.name for one in here if is_mixed(one, there)}
        self.mixed = [group for group in self.groups if group.name in mixed]
        lost = [name for name in overtaken if name not in self.handled]
        if lost:
            self.run.event("copy-overtaken", names=", ".join(lost))
        if failed:
            return Result("failed", False, failed)
        return Result("ok", not lost, "; ".join(self.told))

    def _add_parts(self, here: list[Here]) -> list[Group]:
        """Add the complete files of corrupt checkpoints; return them. The program has ended, so
        that nothing completes these any more."""
        corrupt = [group for group, one in zip(self.groups, here) if one.state == CORRUPT]
        parts = [part for one in corrupt for part in groups.parts_of(self.run, one, self.known)]
        self.groups += parts
        return parts

    def _here(self, group: Group, first_seen: dict[str, float]) -> Here:
        state = CORRUPT
        if group.stamp not in self.corrupt:
            state, why = groups.state_of(group, self.known)
            if state == CORRUPT:
                self.told.append(f"{group.name} is corrupt: {why}")
        seen = first_seen.setdefault(group.stamp, time.monotonic())
        age = max(self.run.now - group.changed / 1e9, time.monotonic() - seen)
        return Here(
            group.name,
            group.kind,
            group.saved,
            self._step(group),
            group.is_named,
            state,
            group.stamp,
            age,
            self.digests.get(group.stamp, ""),
            group.size,
            group.apart,
            self._is_cut(group),
            self._has_rhythms(group),
        )

    def _step(self, group: Group) -> int | None:
        """Return a checkpoint's step, else that of the attempt's log when it was written."""
        first = self.run.folder.json("attempt.json").get("log_first")
        if group.step is not None or not isinstance(first, int):
            return group.step
        return log.step_at(self.run, first, group.saved / 1e9)

    def _is_cut(self, group: Group) -> bool:
        """Return whether the program that wrote a checkpoint has died since."""
        folder = self.run.folder
        if self._is_over():
            told = folder.json("rc")
            return told.get("number") != folder.number("attempt") or told.get("code") != 0
        return group.saved / 1e9 < folder.changed("attempt")

    def _has_rhythms(self, group: Group) -> bool:
        """Return whether a file of a checkpoint was written twice while another one wasn't."""
        if len(group.times) < 2:
            return False
        kept = self.state.setdefault("rhythms", {})
        row = kept.setdefault(group.name, {"times": {}, "changed": [], "proven": False})
        times, before = group.times, row["times"]
        changed = [name for name in times if name in before and times[name] != before[name]]
        if changed or not before:
            is_part = any(times[name] == before.get(name) for name in times)
            if is_part and set(changed) & set(row["changed"]):
                row["proven"] = True
            row["changed"], row["times"] = changed if is_part else [], times
        return bool(row["proven"])

    def _job(self, overtaken: frozenset[str], free: int | None) -> Job:
        run = self.run
        told, attempt = run.folder.json("attempt.json"), run.folder.number("attempt")
        own = self.state.get("own")
        if not own or own.get("attempt") != attempt:
            own = self.state["own"] = {"attempt": attempt, "digests": []}
        return Job(
            bool(told.get("anew")),
            frozenset(own["digests"]),
            overtaken,
            place.Local(self.tools).free(run.folder.path),
            free,
            self._is_over(),
        )

    def _is_over(self) -> bool:
        """Return whether the program has ended, so that nothing changes any more."""
        return not procs.alive(self.run.folder, "train")

    def _copy_group(self, group: Group, action: Copy) -> bool:
        """Copy a checkpoint as a generation; return whether it changed meanwhile. Raises Failed."""
        staged = self.run.folder.at(".staged")
        try:
            files = _stage(group.files, staged) if action.is_staged else group.files
            if files is not group.files and self._is_changed(group):
                return True
            sums = {}
            for name, path in files.items():
                sums[name], fault = completeness.digest(path, self.moved)
                if fault and not self._is_changed(group):
                    self.corrupt[group.stamp] = f"{name}: {fault}"
                    self.told.append(f"{group.name} is corrupt: {name}: {fault}")
                    return False
            if files is group.files and self._is_changed(group):
                return True
            digest = digest_of({name: sums[name] for name in group.own})
            self.digests[group.stamp] = digest
            self.state["own"]["digests"].append(digest)
            for told in self.there.known.values():
                if told.get("digest") == digest and told.get("state") in (COMPLETE, UNKNOWN):
                    # These bytes lie there already, under another stamp.
                    told["ours"], told["stamp"] = True, group.stamp
                    self.handled[group.name] = group.stamp
                    return False
            return self._put_group(group, action, files, sums, digest)
        except FileNotFoundError:
            return True
        finally:
            shutil.rmtree(staged, ignore_errors=True)

    def _put_group(
        self, group: Group, action: Copy, files: Files, sums: dict[str, str], digest: str
    ) -> bool:
        step = self._step(group)
        name = name_of(action.line, step, digest)
        state, why = groups.state_of(group, self.known)
        if action.is_mixed:
            state, why = UNKNOWN, MIXED
            self.told.append(f"{group.name} is copied, not judged: {MIXED}")
        told: dict[str, Any] = {
            "run": self.run.spec.name,
            "source": group.name,
            "kind": group.kind,
            "line": action.line,
            "anew": action.is_anew,
            "step": step,
            "named": group.is_named,
            "apart": action.apart,
            "role": group.role,
            "lacks": group.lacks,
            "state": state,
            "why": why,
            "digest": digest,
            "stamp": group.stamp,
            "saved": group.saved,
            "size": group.size,
            "links": group.links,
            "files": {n: [os.path.getsize(path), sums[n]] for n, path in files.items()},
        }
        self.there.begin(name, told)
        there = join(self.there.home, f"{name}/files")
        self.place.put(files, there, self.again)
        wrong = self.place.wrong(files, there)
        if files is group.files and self._is_changed(group):
            self.there.drop(name)
            return True
        if wrong:
            raise Failed(f"differs at the destination: {wrong[0]}")
        told["copied"] = int(self.run.now)
        self.there.commit(name, told)
        self.there.known[name]["ours"] = True
        self.run.event("copied", generation=name, source=group.name, step=step, state=state)
        self.there.tell_newest()
        self._write_state()
        return False

    def _is_changed(self, group: Group) -> bool:
        return content.fingerprint(sorted(group.files.values())) != group.moment

    def _waits_for_rest(self, here: list[Here], there: list[There]) -> bool:
        """Return whether a checkpoint may rest within a moment, and is to be copied then."""
        stamps = {one.stamp for one in there}
        return (
            any(
                not rests(one, there)
                and one.state != CORRUPT
                and one.stamp not in stamps
                and one.stamp not in self.corrupt
                and one.digest not in {other.digest for other in there}
                for one in here
            )
            and not self._is_over()
        )

    def _reread(self) -> None:
        """At the end compare once more what lies both here and there, newest first, and mend it.
        Raises Failed."""
        if not self.full:
            return
        by_digest = {told.get("digest"): name for name, told in self.there.known.items()}
        for group in self.groups:
            name = by_digest.get(self.digests.get(group.stamp, "-"))
            if name is None or self.run.up >= self.reread_until:
                continue
            there = join(self.there.home, f"{name}/files")
            wrong = self.place.wrong(group.own, there)
            if wrong and not self._is_changed(group):
                self.place.put({n: group.own[n] for n in wrong}, there, True)
                wrong = self.place.wrong(group.own, there)
                self.run.event("generation-mended", generation=name)
                if wrong:
                    raise Failed(f"differs at the destination: {wrong[0]}")

    def _note_handled(self, here: list[Here]) -> None:
        """Note which checkpoints need no further copy as they are now."""
        digests = self._digests_there()
        for one in here:
            if one.state == CORRUPT or self.digests.get(one.stamp, "-") in digests:
                self.handled[one.name] = one.stamp

    def _digests_there(self) -> set[str]:
        """Return the digests of the generations that lie there as a whole."""
        known = self.there.known.values()
        counted = (COMPLETE, UNKNOWN)
        return {str(told.get("digest")) for told in known if told.get("state") in counted}

    # All else.

    def _mirror(self, item: durable.Item) -> Result:
        """Mirror one item and compare it."""
        if os.path.islink(item.here) and not os.path.exists(item.here):
            return Result("failed", False, f"a link to nothing: {os.readlink(item.here)}")
        if not os.path.exists(item.here):
            if self.whole:
                why = f"no {item.here} after the run's end, although durable.what names it"
                return Result("failed", False, why)
            return Result("absent", False, "nothing there yet")
        taken = {os.path.realpath(path) for one in self.groups for path in one.files.values()}
        there = item.there if os.path.isdir(item.here) else os.path.dirname(item.there)
        known = self.table.setdefault(item.there, {})
        try:
            files = mirror.files_in(item.here, taken)
            for link in mirror.links_away(item.here):
                if not any(_covers(other.here, link) for other in self._items()):
                    name = os.path.relpath(link, item.here)
                    self.told.append(
                        f"{name} in {item.name} is a link to {os.path.realpath(link)}, which isn't"
                        " copied; name it in durable.what if it should be"
                    )
            stamps = {name: _stamp(path) for name, path in files.items()}
            for name in set(known) - set(files):
                del known[name]
            new = [name for name in files if known.get(name) != stamps[name]]
            targets: Files = {}
            for name, as_, why in mirror.guard(self.place, there, files, new, self.whole):
                if why:
                    self.told.append(why)
                if as_:
                    targets[as_] = files[name]
            self.place.put(targets, there, self.again)
            verified = self._compare(there, targets, files, stamps, known)
        except (Failed, OSError) as error:
            return Result("failed", False, str(error))
        return Result("ok", verified, "")

    def _compare(
        self,
        there: str,
        targets: Files,
        files: Files,
        stamps: dict[str, list[int]],
        known: dict[str, list[int]],
    ) -> bool:
        """Compare by content what is new, and at the end all once more. Raises Failed.

        A file that changed meanwhile was still being written, and counts in the next round.
        """
        if not (self.full or self.place.checks_often):
            return False
        # A file that has changed and isn't copied was left out, so that it replaces nothing.
        same = [n for n in files if known.get(n) == stamps[n] and n not in targets]
        old = {n: files[n] for n in same}
        for must, part in ((True, targets), (False, old if self.full else {})):
            for batch in _batches(part):
                if not must and self.run.up >= self.reread_until:
                    break
                changed = {n for n, path in batch.items() if _stamp(path) != stamps.get(n)}
                wrong = [n for n in self.place.wrong(batch, there) if n not in changed]
                if wrong and not must:  # it was the same once: what lies there was damaged
                    self.place.put({n: batch[n] for n in wrong}, there, True)
                    wrong = self.place.wrong({n: batch[n] for n in wrong}, there)
                for name in batch:
                    if name in stamps and name not in changed and name not in wrong:
                        known[name] = stamps[name]
                wrong = [n for n in wrong if n in stamps and _stamp(batch[n]) == stamps[n]]
                if wrong:
                    raise Failed(f"differs at the destination: {wrong[0]}")
        return True

    def _copy_log(self) -> None:
        """Log and events go along uncompared: they change while one looks."""
        run, at = self.run, float(self.state.get("log") or 0)
        if not self.full and 0 <= run.now - at < LOG_EVERY:
            return
        self.state["log"] = run.now
        for item in durable.own_files(run):
            with suppress(Failed, OSError):
                there = item.there if os.path.isdir(item.here) else os.path.dirname(item.there)
                self.place.put(mirror.files_in(item.here, set()), there)

    def _has_saved(self) -> bool:
        """Return whether the program has left results or checkpoints."""
        run = self.run
        if run.rank == 0 and len(results.look(run).missing) < len(run.spec.results):
            return True
        files = (name for _, _, names in os.walk(run.checkpoints) for name in names)
        return bool(run.checkpoints) and any(not name.startswith(".rgt-") for name in files)

    # What is written down.

    def _end(self, verified: bool, failed: list[str], copied: int, absent: list[str]) -> int:
        """Write down how the round went."""
        run = self.run
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
        if self.told:
            told["notes"] = list(dict.fromkeys(durable.mask(run, text) for text in self.told))[:10]
        self._write_state()
        self._write_safe()
        write_last(run, told)
        return 1 if failed else 0

    def _write_safe(self) -> None:
        """Write what of the run is safe; what was safe stays where this round couldn't look."""
        there = [told for told in self.there.known.values() if told.get("state") == COMPLETE]
        rows = [one for one in newest(self.there.listed()).values() if not one.role]
        best = max((one for one in rows if one.state == COMPLETE), key=_age, default=None)
        told = {
            "verified": join(self.there.home, best.name) if best else "",
            "step": best.step if best else None,
            "named": bool(self.there.known[best.name].get("named")) if best else None,
            "at": self.there.known[best.name].get("copied") if best else None,
            "saved": best.at / 1e9 if best else None,
            "stamps": [str(one.get("stamp")) for one in there],
            "results": self._results(),
            "mixed": {
                path: content.fingerprint([path])
                for group in self.mixed
                for path in {*group.own.values(), *(item.path for item in group.items)}
            },
        }
        self.run.folder.write(SAFE, json.dumps(told) + "\n")

    def _results(self) -> dict[str, str]:
        """Return {path: stamp} of the results that are verified there."""
        digests = self._digests_there()
        proven = {
            os.path.join(path, "")
            for group in self.groups
            for path in {*group.own.values(), *(item.path for item in group.items)}
            if self.digests.get(group.stamp, "-") in digests
        }
        found = {}
        for name in self.run.spec.results if self.run.rank == 0 else ():
            for path in groups.expand(self.run, name):
                is_proven = any((path + "/").startswith(folder) for folder in proven)
                if is_proven or self._is_mirrored(path):
                    found[path] = content.fingerprint([path])
        return found

    def _is_mirrored(self, path: str) -> bool:
        """Return whether all files of a path were compared as they are now."""
        files = list(completeness.files_of(path))
        for item in self._items():
            base = item.here if os.path.isdir(item.here) else os.path.dirname(item.here)
            known = self.table.get(item.there) or {}
            if files and all(
                os.path.exists(file) and known.get(os.path.relpath(file, base)) == _stamp(file)
                for file in files
            ):
                return True
        return False

    def _write_state(self) -> None:
        stamps = {group.stamp for group in self.groups}
        names = {group.name for group in self.groups}
        rhythms = self.state.get("rhythms") or {}
        told = {
            **self.state,
            "place": durable.place_id(self.run),
            "rhythms": {name: row for name, row in rhythms.items() if name in names},
            "files": self.table,
            "digests": {s: d for s, d in self.digests.items() if s in stamps},
            "corrupt": {s: why for s, why in self.corrupt.items() if s in stamps},
            "known": self.there.known,
        }
        self.run.folder.write(STATE, json.dumps(told) + "\n")

    def _row(self, item: durable.Item, result: Result, seconds: int) -> None:
        mode = "full" if self.full else "quick"
        row = (int(self.run.now), mode, result.word, item.name, item.there, seconds, result.detail)
        words = [durable.mask(self.run, str(field)) for field in row]
        self.run.folder.append("synced.tsv", "\t".join(words) + "\n")


def write_last(run: Run, told: dict[str, object]) -> None:
    """Write how the last copy went."""
    told = {"t": int(run.now), **told, "to": run.durable}
    run.folder.write("last-sync", json.dumps(told) + "\n")


def _covers(item: str, path: str) -> bool:
    """Return whether a copy of an item copies a path: links to folders in it aren't followed."""
    real = path if os.path.isdir(path) else os.path.dirname(path)
    root = item if os.path.isdir(item) else os.path.dirname(item)
    if not groups.is_within(path, item):
        return False
    return groups.is_within(os.path.realpath(real), os.path.realpath(root))


def _age(one: There) -> tuple[int, int]:
    return one.at, one.copied


def _stamp(path: str) -> list[int]:
    with suppress(OSError):
        return mirror.stamp(path)
    return []


def _stage(files: Files, folder: str) -> Files:
    """Copy files into a folder here, so that they don't change while they are sent."""
    shutil.rmtree(folder, ignore_errors=True)
    staged = {}
    for name, path in files.items():
        staged[name] = os.path.join(folder, name)
        os.makedirs(os.path.dirname(staged[name]), exist_ok=True)
        shutil.copy2(path, staged[name])
    return staged


def _batches(files: Files) -> Iterator[Files]:
    """Cut files into parts of some gigabytes or some hundred files."""
    batch: Files = {}
    size = 0
    for name, path in files.items():
        batch[name] = path
        size += (_stamp(path) or [0])[0]
        if size >= BATCH or len(batch) >= 500:
            yield batch
            batch, size = {}, 0
    if batch:
        yield batch
