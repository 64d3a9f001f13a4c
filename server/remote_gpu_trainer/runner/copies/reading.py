"""What a plan goes by: the checkpoints here, judged, and what else bears on it. Changes nothing."""

from __future__ import annotations

import time

from .. import content, history, log, procs
from ..completeness import AT_ONCE, COMPLETE, CORRUPT
from ..context import Run
from ..folder import ATTEMPT, RC
from . import groups
from .groups import Group
from .plan import Here, Job
from .records import Records


class Reader:
    """Looks at the checkpoints in the run's folder, again and again in one round."""

    def __init__(self, run: Run, records: Records):
        self.run, self.records = run, records
        self.known = content.Known(run.folder.at("own/whole.cache"))
        self._first_seen: dict[str, float] = {}  # by stamp

    def look(self) -> list[tuple[Group, Here]]:
        """Return the checkpoints here, newest first. Once the program that wrote them has ended, so
        that nothing completes them any more, also the complete files of corrupt ones. Raises
        OSError."""
        found = [(group, self.describe_group(group)) for group in groups.look(self.run)]
        corrupt, is_over = [group for group, one in found if one.state == CORRUPT], self.is_over()
        for group in [group for group in corrupt if is_over or self.is_earlier(group)]:
            parts = groups.parts_of(self.run, group, self.known)
            found += [(part, self.describe_group(part)) for part in parts]
        return found

    def state_of(self, group: Group) -> tuple[str, str]:
        """Return what a checkpoint is, and why; by the checksums in it where they were read."""
        fault = self.records.corrupt.get(group.stamp)
        return (CORRUPT, fault) if fault else groups.state_of(group, self.known)

    def step_of(self, group: Group) -> int | None:
        """Return a checkpoint's step, else that of the attempt's log when it was written."""
        first = self.run.folder.json(ATTEMPT).get("log_first")
        if group.step is not None or not isinstance(first, int):
            return group.step
        return log.step_at(self.run, first, group.saved / 1e9)

    def job(self, overtaken: frozenset[str], free_here: int | None, free_there: int | None) -> Job:
        """Return what bears on a plan besides."""
        folder, records = self.run.folder, self.records
        attempt, is_anew = folder.attempt(), bool(folder.json(ATTEMPT).get("anew"))
        if not records.own or records.own["attempt"] != attempt:
            before = records.own
            # Of one that no round saw nothing is known: it is taken for one like this.
            if not before or before["attempt"] != (attempt or 0) - 1:
                before = {"anew": is_anew and (attempt or 0) > 1}
            records.before = {"anew": before.get("anew"), "digests": before.get("digests") or []}
            records.own = {"attempt": attempt, "digests": []}
        records.own["anew"] = is_anew
        return Job(
            is_anew,
            frozenset(records.own["digests"]),
            overtaken | records.overtaken,
            free_here,
            free_there,
            self.is_over(),
            bool(records.before.get("anew")),
            frozenset(records.before.get("digests") or ()),
        )

    def is_earlier(self, group: Group) -> bool:
        """Return whether a checkpoint was saved before this attempt began."""
        return group.saved / 1e9 < self.run.folder.attempt_begun()

    def is_over(self) -> bool:
        """Return whether the program has ended, so that nothing changes any more."""
        return not procs.alive(self.run.folder, "train")

    def describe_group(self, group: Group) -> Here:
        """Return what a plan goes by of a checkpoint."""
        state, why = self.state_of(group)
        seen = self._first_seen.setdefault(group.stamp, time.monotonic())
        age = max(self.run.now - group.changed / 1e9, time.monotonic() - seen)
        has_rhythms = self._has_rhythms(group)
        return Here(
            group.name,
            group.kind,
            group.saved,
            self.step_of(group),
            group.is_named,
            state,
            group.stamp,
            age,
            self.records.digests.get(group.stamp, ""),
            group.size,
            group.apart,
            self._is_cut(group),
            has_rhythms,
            why,
            self.is_earlier(group),
            self._least_apart(group, state == COMPLETE and age >= AT_ONCE),
        )

    def _least_apart(self, group: Group, rests: bool) -> float | None:
        """Return the least seconds between its weights that were seen while its program lived, None
        where none were. `rests`: it is complete, and nothing writes it now."""
        row = self.records.rhythms.get(group.name)
        if row is None or group.apart is None:
            return None
        least: float | None = row.get("apart")
        if rests and not self.is_over() and not self.is_earlier(group):
            least = group.apart if least is None else min(least, group.apart)
            row["apart"] = least
        return least

    def _is_cut(self, group: Group) -> bool:
        """Return whether the program that wrote a checkpoint has died since. That of an attempt
        before this one has, whatever became of this one."""
        folder = self.run.folder
        if self.is_earlier(group) or not self.is_over():
            return self.is_earlier(group)
        noted = folder.json(RC)
        if noted.get("number") != folder.attempt() or noted.get("code") != 0:
            return True
        return self._has_failed()  # a pipe or a wrapper says 0 of whatever was killed in it

    def _has_failed(self) -> bool:
        """Return whether the attempt that is over ended with a failure, by its event."""
        number = self.run.folder.attempt()
        return history.last_failure(self.run.folder.read("events.jsonl")).get("attempt") == number

    def _has_rhythms(self, group: Group) -> bool:
        """Return whether a file of a checkpoint was written twice while another one wasn't."""
        if len(group.times) < 2:
            return False
        row = self.records.rhythms.setdefault(
            group.name, {"times": {}, "changed": [], "proven": False}
        )
        times, before = group.times, row["times"]
        changed = [name for name in times if name in before and times[name] != before[name]]
        if changed or not before:
            is_part = any(times[name] == before.get(name) for name in times)
            if is_part and set(changed) & set(row["changed"]):
                row["proven"] = True
            row["changed"], row["times"] = changed if is_part else [], times
        return bool(row["proven"])
