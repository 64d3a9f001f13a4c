"""What a plan goes by: the checkpoints here, judged, and what else bears on it. Changes nothing."""

from __future__ import annotations

import time

from .. import content, log, procs
from ..completeness import CORRUPT
from ..context import Run
from . import groups
from .groups import Group
from .plan import Here, Job
from .records import Records


class Reader:
    """Looks at the checkpoints in the run's folder, again and again in one round."""

    def __init__(self, run: Run, records: Records):
        self.run, self.records = run, records
        self.known = content.Known(run.folder.at("whole.cache"))
        self._first_seen: dict[str, float] = {}  # by stamp

    def look(self) -> list[tuple[Group, Here]]:
        """Return the checkpoints here, newest first. Once the program has ended, so that nothing
        completes them any more, also the complete files of corrupt ones. Raises OSError."""
        found = [(group, self._judge(group)) for group in groups.look(self.run)]
        if self.is_over():
            for whole in [group for group, one in found if one.state == CORRUPT]:
                parts = groups.parts_of(self.run, whole, self.known)
                found += [(part, self._judge(part)) for part in parts]
        return found

    def state_of(self, group: Group) -> tuple[str, str]:
        """Return what a checkpoint is, and why; by the checksums in it where they were read."""
        fault = self.records.corrupt.get(group.stamp)
        return (CORRUPT, fault) if fault else groups.state_of(group, self.known)

    def step_of(self, group: Group) -> int | None:
        """Return a checkpoint's step, else that of the attempt's log when it was written."""
        first = self.run.folder.json("attempt.json").get("log_first")
        if group.step is not None or not isinstance(first, int):
            return group.step
        return log.step_at(self.run, first, group.saved / 1e9)

    def job(self, overtaken: frozenset[str], free_here: int | None, free_there: int | None) -> Job:
        """Return what bears on a plan besides."""
        folder, records = self.run.folder, self.records
        attempt = folder.number("attempt")
        if not records.own or records.own["attempt"] != attempt:
            records.own = {"attempt": attempt, "digests": []}
        return Job(
            bool(folder.json("attempt.json").get("anew")),
            frozenset(records.own["digests"]),
            overtaken,
            free_here,
            free_there,
            self.is_over(),
        )

    def is_over(self) -> bool:
        """Return whether the program has ended, so that nothing changes any more."""
        return not procs.alive(self.run.folder, "train")

    def _judge(self, group: Group) -> Here:
        state, why = self.state_of(group)
        seen = self._first_seen.setdefault(group.stamp, time.monotonic())
        return Here(
            group.name,
            group.kind,
            group.saved,
            self.step_of(group),
            group.is_named,
            state,
            group.stamp,
            max(self.run.now - group.changed / 1e9, time.monotonic() - seen),
            self.records.digests.get(group.stamp, ""),
            group.size,
            group.apart,
            self._is_cut(group),
            self._has_rhythms(group),
            why,
        )

    def _is_cut(self, group: Group) -> bool:
        """Return whether the program that wrote a checkpoint has died since."""
        folder = self.run.folder
        if self.is_over():
            told = folder.json("rc")
            return told.get("number") != folder.number("attempt") or told.get("code") != 0
        return group.saved / 1e9 < folder.changed("attempt")

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
