"""One round of copies: the checkpoints first, by the plan, and then all else."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from .. import completeness, content, durable, results
from ..child import Failed
from ..completeness import COMPLETE, CORRUPT, REST, UNKNOWN
from ..context import Run, user_mask
from ..core.copying import ABSENT
from ..names import PLACE_FILE
from ..spec import place_kind
from . import groups, held, mirror, place, place_at
from .generations import Generations, digest_of, name_of
from .groups import Group
from .place import Files, join
from .plan import Copy, Drop, Forget, Here, Job, age_of, is_mixed, newest, plan, waits
from .reading import Reader
from .records import LAST, SAFE, Records, add_row, read_mixed, write_last
from .tool import Tools

LOG_EVERY = 600.0  # seconds between copies of the log, which always changes
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
    """One round over all. `full`: all is compared. `whole`: nothing may be absent. `tell` is called
    with a number that grows as long as the round gets on."""

    def __init__(
        self, run: Run, full: bool, whole: bool, tell: Callable[[int], None] = lambda _: None
    ):
        self.run, self.full, self.whole, self.tell = run, full, whole, tell
        self.moves, self.written = 0, -1.0
        self.as_of = run.now  # when the checkpoints were looked at last
        self.tools = Tools(durable.child_environment(run), self.moved)
        self.place = place_at(run.durable, self.tools, user_mask())
        self.again = run.folder.json(LAST).get("ok") is False
        seconds = float(os.environ.get("RGT_SYNC_SECONDS") or 0)
        self.reread_until = run.up + (min(REREAD, seconds / 2) if seconds else REREAD)
        self.records = Records(run)
        self.reader = Reader(run, self.records)
        address = durable.address_of_checkpoints(run)
        self.there = Generations(run.spec.name, self.place, address, self.records.known)
        self.held = held.generations(run)
        self.groups: list[Group] = []
        # What of them is of two saves, or of some of one; None: not looked at.
        self.mixed: list[Group] | None = None
        self.notes: list[str] = []
        self.mirror = mirror.Mirror(
            self.place,
            full,
            whole,
            self.again,
            self._is_late,
            self.notes,
            run.folder.at(".staged"),
            lambda: not self.reader.is_over(),
        )

    def moved(self) -> None:
        """Tell that something got on, once a second at most."""
        self.moves += 1
        if time.monotonic() - self.written >= 1:
            self.written = time.monotonic()
            self.tell(self.moves)

    def go(self) -> int:
        """Copy; return the worker's code."""
        run, failed, absent, copied, missing, verified = self.run, [], [], 0, False, True
        self.moved()
        why = durable.is_place(run, self.place)
        if why:
            with suppress(OSError):
                self.reader.look()  # what lies here tells of a save, wherever it is to go
            self._row(durable.Item("-", "", run.durable), Result("failed", False, why), 0)
            return self._end(False, [why], 0, [])
        marker = join(run.durable, PLACE_FILE)
        if isinstance(self.place, place.Local) and os.path.exists(marker):
            self.place.marker = marker
        if (run.checkpoints and run.spec.checkpoint.pattern) or self.held.known:
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
        if self.full or place_kind(run.durable) == "local":
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
        failed, overtaken, kinds = "", {}, set()
        missed = set(self.records.overtaken)  # a round that copies nothing forgets none
        try:
            there = self.there.read()
            if why := self.there.refusal():
                return Result("failed", False, why)
            begun = time.monotonic()
            while True:
                here = self._look()
                is_changed, failed = False, ""
                for action in plan(here, there, self._job(kinds)):
                    if isinstance(action, Drop):
                        self.there.drop(action.name)
                        self.run.event("generation-dropped", generation=action.name)
                        is_changed = True
                    elif isinstance(action, Copy):
                        kind = {one.kind for one in here if one.name == action.name}
                        # What a stage saved from being overtaken says nothing of the next one.
                        missed -= set() if action.is_staged else kind
                        if self._copy_group(action):
                            overtaken[action.name] = overtaken.get(action.name, 0) + 1
                            kinds, missed = kinds | kind, missed | kind
                        is_changed = max(overtaken.values(), default=0) < TRIES
                    elif isinstance(action, Forget):
                        self.held.drop(action.name)
                        self.groups = [one for one in self.groups if one.name != action.name]
                    elif action.key == "room":
                        failed = failed or action.text
                    else:
                        self.notes.append(action.text)
                spent, is_over = time.monotonic() - begun, self.reader.is_over()
                if spent > LONGEST and not is_over:
                    break
                if not is_changed:
                    if spent > REST + 1 or is_over or not waits(here, there):
                        break
                    time.sleep(0.25)
                    self.moved()
                there = self.there.listed()  # a bucket may list late what was just written
            self._reread()
            self.there.tell_newest()
        except (Failed, OSError) as error:
            return Result("failed", False, failed or str(error))
        mixed = {one.name for one in here if is_mixed(one, there)}
        cut = {one.name for one in here if one.is_cut}
        self.mixed = [
            group
            for group in self.groups
            if group.name in mixed or (group.lacks and group.name in cut)
        ]
        handled = {one.name for one in here if one.state == CORRUPT or self._find_there(one.stamp)}
        lost = [name for name in overtaken if name not in handled]
        # The next round stages them at once, whatever their names are by then.
        self.records.overtaken = frozenset(missed)
        if lost:
            self.run.event("copy-overtaken", names=", ".join(lost))
        if failed:
            return Result("failed", False, failed)
        return Result("ok", not lost, "; ".join(self.notes))

    def _look(self) -> list[Here]:
        self.as_of = self.run.now
        found = self.reader.look() + held.look(self.held)
        self.groups = [group for group, _ in found]
        return [one for _, one in found]

    def _job(self, overtaken: set[str]) -> Job:
        free_here = place.Local(self.tools).free(self.run.folder.path)
        free_there = self.place.free(self.there.home)
        return self.reader.job(frozenset(overtaken), free_here, free_there)

    def _copy_group(self, action: Copy) -> bool:
        """Copy a checkpoint as a generation; return whether it changed meanwhile. Raises Failed."""
        group = next(one for one in self.groups if one.name == action.name)
        staged = self.run.folder.at(".staged")
        try:
            files = _stage(group.files, staged) if action.is_staged else group.files
            if action.is_staged and groups.is_changed(group):
                return True
            sums = {}
            for name, path in files.items():
                sums[name], fault = completeness.digest(path, self.moved)
                if fault and not groups.is_changed(group):
                    self.records.corrupt[group.stamp] = f"{name}: {fault}"
                    return False
            if not action.is_staged and groups.is_changed(group):
                return True
            digest = digest_of({name: sums[name] for name in group.own})
            self.records.digests[group.stamp] = digest
            saver = self.records.before if self.reader.is_earlier(group) else self.records.own
            saver["digests"].append(digest)
            if same := self.there.find(digest):  # they lie there already, under another stamp
                self.there.known[same].update(ours=True, stamp=group.stamp)
                return False
            return self._put_group(group, action, files, sums, digest)
        except FileNotFoundError:
            return True
        finally:
            shutil.rmtree(staged, ignore_errors=True)

    def _put_group(
        self, group: Group, action: Copy, files: Files, sums: dict[str, str], digest: str
    ) -> bool:
        known = self.held.known.get(group.name)
        step = known["step"] if known else self.reader.step_of(group)
        name = name_of(action.line, step, digest)
        state, why = (known["state"], known["why"]) if known else self.reader.state_of(group)
        if action.is_mixed:
            state, why = UNKNOWN, MIXED
            self.notes.append(f"{group.name} is copied, not judged: {MIXED}")
        manifest: dict[str, Any] = {
            "run": self.run.spec.name,
            "source": known["source"] if known else group.name,
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
        self.there.begin(name, manifest)
        there = join(self.there.home, f"{name}/files")
        self.place.put(files, there, self.again)
        wrong = self.place.wrong(files, there)
        if not action.is_staged and groups.is_changed(group):
            self.there.drop(name)
            return True
        if wrong:
            raise Failed(f"differs at the destination: {wrong[0]}")
        manifest["copied"] = int(self.run.now)
        if not self.reader.is_earlier(group):
            self.records.own["has_copied"] = True
        self.there.commit(name, manifest)
        self.there.known[name]["ours"] = True
        self.run.event("copied", generation=name, source=group.name, step=step, state=state)
        self.there.tell_newest()
        self.records.write()
        return False

    def _reread(self) -> None:
        """At the end compare once more what lies both here and there, newest first, and mend it.
        Raises Failed."""
        if not self.full:
            return
        for group in self.groups:
            name = self._find_there(group.stamp)
            if not name or self._is_late():
                continue
            self.there.mend_manifest(name)
            there = join(self.there.home, f"{name}/files")
            wrong = self.place.wrong(group.own, there)
            if wrong and not groups.is_changed(group):
                self.place.put({n: group.own[n] for n in wrong}, there, True)
                wrong = self.place.wrong(group.own, there)
                self.run.event("generation-mended", generation=name)
                if wrong:
                    raise Failed(f"differs at the destination: {wrong[0]}")

    def _is_late(self) -> bool:
        return self.run.up >= self.reread_until

    def _find_there(self, stamp: str) -> str:
        """Return which generation has the bytes of a checkpoint here, '' for none."""
        return self.there.find(self.records.digests.get(stamp, ""))

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
        known = self.records.files.setdefault(item.there, {})
        try:
            files = mirror.files_in(item.here, _files_of(self.groups))
            # A save that began since the checkpoints were looked at belongs to the next round.
            begun = _files_of(groups.look(self.run))
            files = {n: path for n, path in files.items() if os.path.realpath(path) not in begun}
            for link in mirror.links_away(item.here):
                if not any(_covers(other.here, link) for other in self._items()):
                    name = os.path.relpath(link, item.here)
                    self.notes.append(
                        f"{name} in {item.name} is a link to {os.path.realpath(link)}, which isn't"
                        " copied; name it in durable.what if it should be"
                    )
            return Result("ok", self.mirror.copy(files, item.folders[1], known), "")
        except (Failed, OSError) as error:
            return Result("failed", False, str(error))

    def _copy_log(self) -> None:
        """Log and events go along uncompared: they change while one looks."""
        run, records = self.run, self.records
        if not self.full and 0 <= run.now - records.logged < LOG_EVERY:
            return
        records.logged = run.now
        for item in durable.own_files(run):
            with suppress(Failed, OSError):
                self.place.put(mirror.files_in(item.here, set()), item.folders[1])

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
        # A save that ended since then isn't among what is verified.
        record: dict[str, object] = {"t": int(self.as_of), "ok": ok, "verified": ok and verified}
        if absent:
            record.update(copied=copied, absent=absent[:10])
        if failed:
            record["why"] = failed[0]
        elif not ok:
            record["why"] = "something that durable.what names isn't there"
        if self.notes:
            notes = dict.fromkeys(durable.mask(run, text) for text in self.notes)
            record["notes"] = list(notes)[:10]
        if self.groups:  # else the folder, or the place, didn't answer
            stamps = {group.stamp for group in self.groups}
            self.records.forget_others(stamps, {group.name for group in self.groups})
        self.records.write()
        self._write_safe()
        write_last(run, record)
        return 1 if failed else 0

    def _write_safe(self) -> None:
        """Write what of the run is safe; what was safe stays where this round couldn't look."""
        known = self.there.known.values()
        there = [manifest for manifest in known if manifest.get("state") == COMPLETE]
        rows = [one for one in newest(self.there.listed()).values() if not one.role]
        best = max((one for one in rows if one.state == COMPLETE), key=age_of, default=None)
        record = {
            "verified": join(self.there.home, best.name) if best else "",
            "step": best.step if best else None,
            "named": bool(self.there.known[best.name].get("named")) if best else None,
            "at": self.there.known[best.name].get("copied") if best else None,
            "saved": best.at / 1e9 if best else None,
            "stamps": [str(one.get("stamp")) for one in there],
            "results": self._results(),
            "mixed": read_mixed(self.run)
            if self.mixed is None
            else {
                path: content.fingerprint([path]) for group in self.mixed for path in group.paths
            },
        }
        self.run.folder.write(SAFE, json.dumps(record) + "\n")

    def _results(self) -> dict[str, str]:
        """Return {path: stamp} of the results that are verified there."""
        copied = [group for group in self.groups if self._find_there(group.stamp)]
        proven = [path for group in copied for path in group.paths]
        items, found = self._items(), {}
        for name in self.run.spec.results if self.run.rank == 0 else ():
            for path in groups.expand(self.run, name):
                files = list(completeness.files_of(path))
                if files and all(
                    any(groups.is_within(file, one) for one in proven)
                    or self._is_mirrored(file, items)
                    for file in files
                ):
                    found[path] = content.fingerprint([path])
        return found

    def _is_mirrored(self, file: str, items: list[durable.Item]) -> bool:
        """Return whether a file was compared as it is now."""
        if not os.path.exists(file):
            return False
        stamp = mirror.stamp(file)
        for item in items:
            base, _ = item.folders
            known = self.records.files.get(item.there) or {}
            if known.get(os.path.relpath(file, base)) == stamp:
                return True
        return False

    def _row(self, item: durable.Item, result: Result, seconds: int) -> None:
        mode = "full" if self.full else "quick"
        row = (int(self.run.now), mode, result.word, item.name, item.there, seconds, result.detail)
        add_row(self.run, row)


def _files_of(checkpoints: list[Group]) -> set[str]:
    return {os.path.realpath(path) for one in checkpoints for path in one.files.values()}


def _covers(item: str, path: str) -> bool:
    """Return whether a copy of an item copies a path: links to folders in it aren't followed."""
    real = path if os.path.isdir(path) else os.path.dirname(path)
    root = item if os.path.isdir(item) else os.path.dirname(item)
    if not groups.is_within(path, item):
        return False
    return groups.is_within(os.path.realpath(real), os.path.realpath(root))


def _stage(files: Files, folder: str) -> Files:
    """Copy files into a folder here, so that they don't change while they are sent."""
    shutil.rmtree(folder, ignore_errors=True)
    staged = {}
    for name, path in files.items():
        staged[name] = os.path.join(folder, name)
        os.makedirs(os.path.dirname(staged[name]), exist_ok=True)
        shutil.copy2(path, staged[name])
    return staged
