"""Bring the snapshot of a run here: ask each box at once, write a folder, and say what is odd.

scripts/snapshot.py is sent to the box's Python over standard input. It leaves nothing there. What
comes back is data: names are checked, texts are cut and masked.
"""

from __future__ import annotations

import json
import re
import time
from base64 import b64decode
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeGuard
from zlib import decompressobj
from zlib import error as BadPacking

from ..boxes import box as boxes
from ..boxes.box import Box
from ..catalogue.bundle import bundle_root
from ..lookup.budget import tokens
from ..snapshot.files import LARGEST_TRACE
from ..snapshot.judge import compare_ranks, find_standings
from ..snapshot.page import format_page, format_stacks
from ..text import BadRequest, UserError
from ..text.masking import shown

PROGRAM_LIMIT = 20.0  # seconds for the program on a box
LIMIT = 45.0  # seconds for a box: the program's, and a slow login and the way here
MOST = 128 << 20  # bytes of a reply
# What a snapshot holds, by kind; what lies deeper is read with care.
_KINDS: dict[str, type] = {
    "why": str, "at": int, "host": str, "folder": str, "end": str, "run": dict, "ranks": list,
    "expected": list, "gone": dict, "zombies": list, "processes": list, "others": list,
    "cards": dict, "kernel": dict, "memory": dict, "disks": dict, "shm": dict, "sockets": list,
    "software": dict, "checkpoint": dict, "log": dict, "recorder": dict, "files": dict,
    "missing": dict,
}  # fmt: skip
_START = """\
import sys
if sys.version_info < (3, 8):
    sys.exit("this needs Python 3.8 or newer there; this is " + sys.version.split()[0])
exec(compile(SNAPSHOT, "snapshot.py", "exec"))
"""
_NAME = re.compile(r"\w[\w.-]{0,120}\Z", re.ASCII)


class NoSnapshot(UserError):
    """A box gave no snapshot. One line: what is wrong; what to do."""


class NothingThere(NoSnapshot):
    """The box answered, and nothing trains there."""


@dataclass
class Taken:
    """The snapshots of one run, one of each box, and where they lie.

    `failed`: {box: why} of boxes that gave none; `empty`: of boxes on which nothing trains.
    """

    snapshots: list[dict[str, Any]]
    page: str
    folder: str = ""
    failed: dict[str, str] = field(default_factory=dict)
    empty: dict[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return what `snapshot --json` prints."""
        first, rest = compare_ranks(find_standings(self.snapshots)) if self.snapshots else ([], [])
        return {
            "folder": self.folder,
            "odd": [{"ranks": one.ranks, "text": shown(one.text, 400)} for one in first],
            "others": [{"ranks": one.ranks, "text": shown(one.text, 400)} for one in rest],
            "page": self.page,
            "boxes": [shown(one["host"], 80) for one in self.snapshots],
            "failed": self.failed,
            "empty": self.empty,
        }

    @property
    def code(self) -> int:
        """Return the exit code: 0 taken, 1 nothing there, 2 where a box gave no answer."""
        return 2 if self.failed else 0 if self.snapshots else 1


@cache
def program() -> str:
    """Return the text of what runs on the box: scripts/snapshot.py, behind what an old Python can
    read."""
    text = (bundle_root() / "scripts" / "snapshot.py").read_text(encoding="utf-8")
    return f"SNAPSHOT = {text!r}\n{_START}"


def take_snapshot(
    places: list[Box], run: str = "", to: Path | None = None, *, accept_new: bool = False
) -> Taken:
    """Take the snapshot of a run from all its boxes, and write it into a folder here.

    `run`: a name under ~/runs, or a folder on the box; '' for the one that lives, else the newest.
    Raises BadRequest for a folder that holds something, NoSnapshot for one that can't be written.
    """
    if to is not None and to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise BadRequest(f"--to: {to} is there already; name a new folder")
    taken = Taken([], "")
    with ThreadPoolExecutor(max(len(places), 1)) as pool:
        asked = [(box, pool.submit(partial(ask_box, box, run, accept_new=accept_new)))
                 for box in places]  # fmt: skip
    for box, answer in asked:
        name = shown(box.name, 80)
        try:
            taken.snapshots.append(answer.result())
        except NothingThere as error:
            taken.empty[name] = str(error)
        except NoSnapshot as error:
            taken.failed[name] = str(error)
    if taken.snapshots:
        folder = to or _usual_folder(places[0], taken.snapshots[0])
        taken.folder = str(folder)
        try:
            taken.page = format_page(taken.snapshots, tokens)
            write_folder(taken, folder)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise NoSnapshot(
                f"the snapshot can't be read ({shown(repr(error), 80)}); take it anew"
            ) from None
    return taken


def _usual_folder(box: Box, snapshot: dict[str, Any]) -> Path:
    run = str(snapshot["run"].get("name") or Path(snapshot["folder"]).name or "no-run")
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    name = "-".join(re.sub(r"[^\w.-]+", "-", part)[:60].strip("-.") for part in (box.name, run))
    return Path("snapshots") / f"{name}-{stamp}"


def describe_ranks(box: Box, run: str) -> list[str]:
    """Return in words where the ranks of a run stand, who differs first; [] where a box doesn't
    tell in half of the usual time."""
    with suppress(NoSnapshot, LookupError, TypeError, ValueError, AttributeError):
        snapshot = ask_box(box, run, within=0.5)
        first, rest = compare_ranks(find_standings([snapshot]))
        return [shown(one.text, 400) for one in (*first, *rest)]
    return []


def ask_box(box: Box, run: str, *, accept_new: bool = False, within: float = 1.0) -> dict[str, Any]:
    """Return the snapshot of one box; `within` this share of the usual time. Raises NoSnapshot."""
    reply = boxes.run(
        box,
        program(),
        interpreter=boxes.PYTHON,
        args=("--json", "--limit", f"{PROGRAM_LIMIT * within:g}", "--", run),
        limit=LIMIT * within,
        most=MOST,
        accept_new=accept_new,
    )
    if reply.outcome != "ok":
        raise NoSnapshot(reply.text)
    name = shown(box.name, 80)
    try:
        snapshot = json.loads(reply.out)
    except (ValueError, RecursionError):
        snapshot = None
    if not _is_snapshot(snapshot):
        last = shown(reply.errors.strip().rpartition("\n")[2], 200) or "what came is no snapshot"
        if reply.code == 127:
            last = f"no python3 there ({last}); install one"
        kind = NothingThere if reply.code == 1 and not reply.out else NoSnapshot
        raise kind(f"{name} gave no snapshot: {last}")
    earlier = snapshot.pop("earlier", {})
    if snapshot["ranks"] or not _is_snapshot(earlier):
        if not snapshot["ranks"] and not snapshot["run"]:
            raise NothingThere(f"{name}: no run and nothing that trains; name one with --run")
        return snapshot
    return {**earlier, **{key: snapshot[key] for key in ("end", "run", "log", "checkpoint")}}


def _is_snapshot(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict) and all(
        isinstance(value.get(name), kind) for name, kind in _KINDS.items()
    )


def write_folder(taken: Taken, folder: Path) -> None:
    """Write a snapshot: the page, and of each box all that came, stacks, logs, dumps as files.

    `rgt lookup --log FOLDER` reads what is a log among them. Raises NoSnapshot for a full disk.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "page.md").write_text(taken.page, encoding="utf-8")
        for at, snapshot in enumerate(taken.snapshots):
            # A letter: a number would be read as a rank.
            place = folder if len(taken.snapshots) == 1 else folder / f"box-{_letters(at)}"
            place.mkdir(exist_ok=True)
            for name, data in _files(snapshot).items():
                (place / name).write_bytes(data)
    except OSError as error:
        raise NoSnapshot(
            f"{folder} can't be written ({error.strerror}); pass another --to"
        ) from None


def _letters(number: int) -> str:
    more, last = divmod(number, 26)
    return (_letters(more - 1) if more else "") + chr(ord("a") + last)


def _files(snapshot: dict[str, Any]) -> dict[str, bytes]:
    """Return {name: bytes} of one box's snapshot."""
    packed = snapshot.get("files", {})
    facts = {name: value for name, value in snapshot.items() if name not in ("files", "log")}
    files = {"snapshot.json": json.dumps(facts, ensure_ascii=False, indent=1).encode()}
    texts = {
        "stacks.log": format_stacks(snapshot),
        "train.log": str(snapshot["log"].get("text") or ""),
        "kernel.log": "".join(f"{line}\n" for line in snapshot["kernel"]["lines"]),
    }
    for one in snapshot["ranks"]:
        name = (
            f"rank_{one['rank']}.log" if isinstance(one["rank"], int) else f"pid-{one['pid']}.txt"
        )
        texts[name] = str(one["output"].get("text") or "")
    files.update({name: text.encode("utf-8", "replace") for name, text in texts.items() if text})
    for name, data in packed.items():
        if _NAME.match(name) and name not in files:
            files[name] = _unpacked(str(data))
    return files


def _unpacked(text: str) -> bytes:
    """Return a dump; an empty one where it can't be unpacked."""
    try:
        return decompressobj().decompress(b64decode(text), LARGEST_TRACE)
    except (ValueError, BadPacking):
        return b""
