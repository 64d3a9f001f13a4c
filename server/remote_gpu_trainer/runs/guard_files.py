"""What a guard keeps here: the user's confirmations, drills, a journal and its last round.

All of it lies in the state folder of the user, outside of any project. Nothing of it comes from a
job, a log or a box.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ..platforms.profile import Act
from ..text import UserError
from ..text.locking import lock
from . import known_jobs, ledger, local_files, this_machine
from .guard_decision import Confirmed
from .known_jobs import Known
from .local_files import Damaged, Seconds
from .this_machine import hash_of

MOST_BYTES = 16 << 20  # of the journal's end
CONFIRMED = "confirmed"  # the step at which a user did that
ANEW = {  # what to do about each file that is damaged
    "confirmed.json": "delete it, and run rgt guard confirm anew for each box",
    "last.json": "delete it; a round writes it anew",
    "journal.jsonl": "look whether what the guard asked to stop is off, and delete that line",
    "drills": "delete it; rgt drill makes another",
}


class Unfit(UserError):
    """The guard can't work. What is wrong; what to do."""


@dataclass
class Last:
    """The last round.

    `at`: seconds since 1970; `up`: of the clock that only runs while the machine does; `boot`:
    which start of the machine that was. `hold_until`: no box is judged before. `silent`: since when
    each address gave no answer. `lines`: what the round told; `notified`: when the user's command
    last got such a line. `blocked`: the first condition that doesn't hold, by the box's name.
    """

    at: Seconds
    up: float
    boot: str
    hold_until: Seconds = 0.0
    silent: dict[str, Seconds] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    notified: dict[str, Seconds] = field(default_factory=dict)
    blocked: dict[str, str] = field(default_factory=dict)
    code: int = 0

    __pydantic_config__ = local_files.STRICT


@dataclass(frozen=True)
class Step:
    """A line of the journal. `t`: seconds since 1970. `mark`: of what was confirmed then, '' for
    another step. The rest: of the box, as it was confirmed."""

    t: Seconds
    step: str
    id: str
    created: Seconds
    mark: str = ""

    __pydantic_config__ = local_files.LINE


@dataclass
class Receipt:
    """What a drill has shown. Times: seconds since 1970; `seconds` each step took.

    `command`: the hash of what stops a box, '' where nothing does. `survived`: the marked folders
    that kept their mark over a step. `here`: as `Confirmed` has it.
    """

    provider: str
    account: str
    kind: str
    command: str
    at: Seconds
    passed: bool
    survived: dict[str, list[str]]
    marked: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    costs: dict[str, float | None] = field(default_factory=dict)
    here: str = ""
    notes: list[str] = field(default_factory=list)

    __pydantic_config__ = local_files.STRICT

    def __post_init__(self) -> None:
        if self.passed and self.command and not self.survived.get("stop"):
            raise ValueError("passed, and nothing survived the stop")


@dataclass(frozen=True)
class Kept:
    """All that a guard keeps. `damage`: what is wrong with a file, or with a folder on the way to
    it, and what to do, a sentence each; what such a file held is left out."""

    confirmed: dict[str, Confirmed]
    last: Last | None
    steps: list[Step]
    receipts: list[Receipt]
    damage: list[str]

    def sent(self, own: Confirmed) -> tuple[float, ...]:
        """Return when a box was asked to stop since it was last seen off."""
        times: list[float] = []
        for step in self._of(own):
            times = [*times, step.t] if step.step == "stop" else times
            times = [] if step.step == "off" else times
        return tuple(times)

    def is_newest(self, own: Confirmed) -> bool:
        """Return whether nothing was confirmed of a box since: an older file may be put back."""
        marks = [step.mark for step in self._of(own) if step.step == CONFIRMED]
        return marks[-1:] == [_mark_of(own)]

    def is_unheard(self, own: Confirmed) -> bool:
        """Return whether a guard was ended while it asked a box to stop."""
        return any(step.step == "stop" for step in self._of(own)[-1:])

    def lost(self, jobs: list[Known]) -> dict[str, str]:
        """Return the boxes that jobs or confirmations name or the ledger held, and that it lost:
        {address: name}."""
        known = ledger.addresses()
        confirmed = {one.address: one.name for one in self.confirmed.values()}
        found = {address: address for address in known_jobs.lost(jobs)} | confirmed | ledger.lost()
        return {address: name for address, name in found.items() if address not in known}

    def drill(self, own: Confirmed) -> Receipt | None:
        """Return the newest drill of such a box of this account, passed or not."""
        wanted = (own.provider, own.account, own.kind)
        found = (o for o in self.receipts if (o.provider, o.account, o.kind) == wanted)
        return max(found, key=lambda one: one.at, default=None)

    def drilled(self, own: Confirmed, act: Act) -> float | None:
        """Return when the newest drill showed that this command stops such a box of this account,
        None where it didn't, or where that was on another machine or in other files."""
        last = self.drill(own)
        is_of_here = last and last.here and last.here == this_machine.mark()
        shows = last and last.passed and last.command == hash_of(act.command)
        return last.at if last and shows and is_of_here else None

    def _of(self, own: Confirmed) -> list[Step]:
        return [one for one in self.steps if (one.id, one.created) == (own.id, own.created)]


def place(name: str) -> Path:
    """Return a file of the guard."""
    return ledger.place().parent / "guard" / name


def read() -> Kept:
    """Return all that a guard keeps."""
    damage: list[str] = []

    def told(name: str, model: Any) -> Any:
        try:
            return local_files.read(place(name), model, ANEW[name])
        except Damaged as error:
            damage.append(str(error))
        return None

    confirmed, last = told("confirmed.json", dict[str, Confirmed]) or {}, told("last.json", Last)
    steps, why = local_files.read_lines(
        place("journal.jsonl"), Step, ANEW["journal.jsonl"], MOST_BYTES
    )
    receipts, more = local_files.read_all(place("drills"), Receipt, ANEW["drills"])
    damage += [str(told) for told in (why, *more) if told]
    damage += local_files.exposed(
        ledger.place().parent, place("."), place("drills"), known_jobs.place()
    )
    return Kept({one.address: one for one in confirmed.values()}, last, steps, receipts, damage)


@contextmanager
def only_one() -> Iterator[str]:
    """Let no second guard work meanwhile, and yield why that can't be ensured, '' if it is: such a
    guard may look and warn. Raises Unfit where another one works."""
    file, why = place("lock"), ""
    with ExitStack() as held:
        try:
            local_files.make_folder(file.parent)
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
            held.callback(os.close, descriptor)
            try:
                lock(descriptor, waits=False)
            except (BlockingIOError, PermissionError):
                raise Unfit("another guard is at work; wait for its end") from None
        except OSError as error:
            why = str(_not_written(file, error))
        yield why


def _not_written(file: Path, error: OSError) -> Unfit:
    return Unfit(f"the guard can't write {file} ({error.strerror}); check permissions and the disk")


def journal(step: str, own: Confirmed, **more: str) -> None:
    """Write a step before it is taken, onto the disk. Raises Unfit."""
    box = {name: getattr(own, name) for name in ("id", "created", "address", "provider", "command")}
    told = {"t": round(time.time(), 3), "step": step, **box, **more}
    file = place("journal.jsonl")
    try:
        local_files.append(file, json.dumps(told).encode(), sync=True)
    except OSError as error:
        raise _not_written(file, error) from None


def confirm(confirmed: Confirmed) -> None:
    """Note what the user has confirmed, here. Raises Damaged and Unfit."""
    name = "confirmed.json"
    known = local_files.read(place(name), dict[str, Confirmed], ANEW[name]) or {}
    confirmed = replace(confirmed, here=_make_mark())
    told = {**known, confirmed.address: confirmed}
    journal(CONFIRMED, confirmed, mark=_mark_of(confirmed))
    _write(name, {address: asdict(one) for address, one in told.items()})


def _mark_of(confirmed: Confirmed) -> str:
    return hash_of(json.dumps(asdict(confirmed), sort_keys=True))


def _make_mark() -> str:
    """Return the mark of this machine and these files. Raises Unfit."""
    try:
        return this_machine.make()
    except OSError as error:
        raise _not_written(this_machine.place(), error) from None


def note_round(told: Last) -> None:
    """Note a round. Raises Unfit."""
    _write("last.json", asdict(told))


def note_drill(receipt: Receipt) -> Path:
    """Keep the receipt of a drill, over what was kept of it before; return its file. Raises
    Unfit."""
    receipt.here = _make_mark()
    file = drill_file(receipt)
    _write(f"drills/{file.name}", asdict(receipt))
    return file


def drill_file(receipt: Receipt) -> Path:
    """Return the file of a receipt."""
    return place(f"drills/{receipt.provider}-{receipt.at * 1000:.0f}.json")


def _write(name: str, told: dict[str, Any]) -> None:
    try:
        local_files.write(place(name), json.dumps(told, ensure_ascii=False, indent=1).encode())
    except OSError as error:
        raise _not_written(place(name), error) from None
