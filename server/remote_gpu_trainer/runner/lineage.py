"""Which line of checkpoints a folder holds: a small file beside them, copied along with them.

A user deletes the steps 40 to 60 and goes on from 30: the old 60 still lies at the durable place,
and is of an abandoned line. So the file names what the folder held when it was copied last.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from typing import NamedTuple

from .context import Run

FILE = ".rgt-run.json"
_ASIDE = re.compile(r"\.(torn(\.\d+)?|tmp)$")


class Lineage(NamedTuple):
    """`id`: of the line; `count`: grows with each change of the folder; `name` and `folder`: of the
    run and as its job says it; `names`: in the folder; `abandoned`: at the durable place only."""

    id: str
    count: int
    name: str
    folder: str
    names: list[str]
    abandoned: list[str]


def there(run: Run) -> str:
    """Return where this run's checkpoints lie at the durable place, '' for nowhere."""
    from . import durable
    from .copies.place import join

    if not run.durable or not run.checkpoints:
        return ""
    for item in durable.items(run):
        if (run.checkpoints + "/").startswith(item.here.rstrip("/") + "/"):
            return join(item.there, os.path.relpath(run.checkpoints, item.here))
    return ""


def parse(text: bytes | str | None) -> Lineage | None:
    """Return what such a file says, None for no such file."""
    try:
        told = json.loads(text or b"null")
        return Lineage(
            str(told["id"]), int(told["count"]), str(told["name"]), str(told["folder"]),
            list(map(str, told["names"])), list(map(str, told["abandoned"])),
        )  # fmt: skip
    except (ValueError, TypeError, KeyError):
        return None


def here(run: Run) -> Lineage | None:
    """Return the line of the checkpoint folder here."""
    try:
        with open(os.path.join(run.checkpoints, FILE), "rb") as file:
            return parse(file.read())
    except OSError:
        return None


def is_of(run: Run, line: Lineage) -> bool:
    """Return whether a line is this run's: its name and its checkpoint folder are."""
    return (line.name, line.folder) == (run.spec.name, run.given_checkpoints)


def note(run: Run) -> None:
    """Write down what the checkpoint folder holds, and tell which steps were abandoned."""
    if run.rank or not there(run):
        return
    try:
        names = sorted(os.listdir(run.checkpoints))
    except OSError:
        return
    set_aside = {_ASIDE.sub("", name) for name in names}
    names = [name for name in names if not name.startswith(".rgt-") and not _ASIDE.search(name)]
    before = here(run)
    if not names or before and before.names == names and is_of(run, before):
        return
    old = before or Lineage(uuid.uuid4().hex, 0, "", "", [], [])
    gone = [name for name in old.names if name not in set_aside and _is_newest(name, names)]
    left = [name for name in old.abandoned if name not in names]
    line = Lineage(old.id, old.count + 1, run.spec.name, run.given_checkpoints, names, left + gone)
    path = os.path.join(run.checkpoints, FILE)
    try:
        with open(path + ".tmp", "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(json.dumps(line._asdict()) + "\n")
        os.replace(path + ".tmp", path)
    except OSError:
        return
    if gone:
        tell_abandoned(run, gone)


def tell_abandoned(run: Run, names: list[str]) -> None:
    """Tell which checkpoints lie only at the durable place, and aren't gone on from."""
    run.event("abandoned", names=", ".join(names), at=there(run))
    run.log(
        f"{', '.join(names[:10])} at {there(run)}: newer than what this run goes on from, but of "
        "a line that was abandoned (deleted here); they stay there and are not restored"
    )


def _is_newest(name: str, names: list[str]) -> bool:
    """Return whether a name is later than all that differ from it in numbers alone."""
    alike = [other for other in names if _shape(other) == _shape(name)]
    return bool(alike) and all(_numbers(name) > _numbers(other) for other in alike)


def _shape(name: str) -> str:
    return re.sub(r"\d+", "0", name)


def _numbers(name: str) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", name)]
