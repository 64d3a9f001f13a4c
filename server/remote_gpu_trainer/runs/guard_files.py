"""What a guard keeps here: the user's confirmations, drills, a journal and its last round.

All of it lies in the state folder of the user, outside of any project. Nothing of it comes from a
job, a log or a box.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..platforms.profile import Act
from ..text import UserError, write_whole
from ..text.locking import lock
from . import ledger
from .guard_decision import Confirmed


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

    at: float = 0.0
    up: float = 0.0
    boot: str = ""
    hold_until: float = 0.0
    silent: dict[str, float] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    notified: dict[str, float] = field(default_factory=dict)
    blocked: dict[str, str] = field(default_factory=dict)
    code: int = 0


def place(name: str) -> Path:
    """Return a file of the guard."""
    return ledger.place().parent / "guard" / name


@contextmanager
def only_one() -> Iterator[None]:
    """Let no second guard work meanwhile. Raises Unfit."""
    file, descriptor = place("lock"), -1
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        lock(descriptor, waits=False)
    except (BlockingIOError, PermissionError) as error:
        if descriptor < 0:
            raise _not_written(file, error) from None
        os.close(descriptor)
        raise Unfit("another guard is at work; wait for its end") from None
    except OSError as error:
        if descriptor >= 0:
            os.close(descriptor)
        raise _not_written(file, error) from None
    try:
        yield
    finally:
        os.close(descriptor)


def _not_written(file: Path, error: OSError) -> Unfit:
    return Unfit(f"the guard can't write {file} ({error.strerror}); check permissions and the disk")


def journal(step: str, **fields: Any) -> None:
    """Write a step before it is taken, onto the disk. Raises Unfit."""
    file = place("journal.jsonl")
    line = json.dumps({"t": round(time.time(), 3), "step": step, **fields}, ensure_ascii=False)
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "a") as out:
            out.write(line + "\n")
            out.flush()
            os.fsync(out.fileno())
    except OSError as error:
        raise _not_written(file, error) from None


def asked_at(confirmed: Confirmed) -> float | None:
    """Return when a box was last asked to stop, None if it never was."""
    found = None
    with suppress(OSError):
        for line in place("journal.jsonl").read_text(encoding="utf-8").splitlines():
            with suppress(ValueError, TypeError, KeyError):
                told = json.loads(line)
                same = told["id"] == confirmed.id and told["created"] == confirmed.created
                if told["step"] == "stop" and same:
                    found = float(told["t"])
    return found


def confirmations() -> dict[str, Confirmed]:
    """Return what the user has confirmed, by the box's address. Raises Unfit."""
    told = _read("confirmed.json")
    try:
        return {address: Confirmed(**row) for address, row in told.items()}
    except (TypeError, AttributeError):
        raise Unfit(
            f"{place('confirmed.json')} can't be read; delete it, and confirm anew"
        ) from None


def confirm(confirmed: Confirmed) -> None:
    """Note what the user has confirmed. Raises Unfit."""
    rows = {address: asdict(one) for address, one in confirmations().items()}
    _write("confirmed.json", {**rows, confirmed.address: asdict(confirmed)})


def last() -> Last | None:
    """Return the last round, None where none can be read."""
    try:
        return Last(**_read("last.json")) if place("last.json").exists() else None
    except (Unfit, TypeError):
        return None


def note_round(told: Last) -> None:
    """Note a round. Raises Unfit."""
    _write("last.json", asdict(told))


def drills() -> list[dict[str, Any]]:
    """Return the receipts of drills on this machine."""
    found = []
    for file in place("drills").glob("*.json"):
        with suppress(OSError, ValueError):
            told = json.loads(file.read_text(encoding="utf-8"))
            found += [told] if isinstance(told, dict) else []
    return found


def note_drill(receipt: dict[str, Any]) -> Path:
    """Keep the receipt of a drill; return its file. Raises Unfit."""
    name = f"{receipt['provider']}-{time.strftime('%Y%m%d-%H%M%S')}.json"
    _write(f"drills/{name}", receipt)
    return place(f"drills/{name}")


def drilled(confirmed: Confirmed, act: Act) -> float | None:
    """Return when a drill last showed that this command stops such a box of this account."""
    wanted = (confirmed.provider, confirmed.account, confirmed.kind, hash_of(act.command))
    times = [
        float(told["at"])
        for told in drills()
        if told.get("passed") is True
        and tuple(told.get(n) for n in ("provider", "account", "kind", "command")) == wanted
    ]
    return max(times, default=None)


def hash_of(*words: str) -> str:
    """Return the hash of a command's words."""
    return hashlib.sha256("\0".join(words).encode()).hexdigest()


def _read(name: str) -> dict[str, Any]:
    try:
        found = json.loads(place(name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict):
        raise Unfit(f"{place(name)} can't be read; look at it, or delete it")
    return found


def _write(name: str, told: dict[str, Any]) -> None:
    try:
        write_whole(place(name), json.dumps(told, ensure_ascii=False, indent=1).encode(), 0o600)
    except OSError as error:
        raise _not_written(place(name), error) from None
