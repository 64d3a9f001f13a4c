"""Bring the scene of a run here: ask each box at once, write a folder, and say what is odd.

The program is the runner's own part, sent to the box's Python over standard input. It leaves
nothing there. What comes back is data: names are checked, texts are cut and masked.
"""

from __future__ import annotations

import json
import re
import time
from base64 import b64decode
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeGuard
from zlib import decompressobj
from zlib import error as BadPacking

from ..boxes import box as boxes
from ..boxes.box import Box
from ..lookup.budget import tokens
from ..runner.scene import frames, judge
from ..runner.scene.kept import DUMP
from ..runner.scene.page import page
from ..text import BadRequest, UserError
from ..text.masking import shown
from . import run_script
from .run_script import sources

LIMIT = 45.0  # seconds for a box: 20 for the scene, the rest for a slow login and the way here
MOST = 128 << 20  # bytes of a reply
# What a scene holds, by kind; what lies deeper is read with care.
_KINDS: dict[str, type] = {
    "why": str, "at": int, "host": str, "folder": str, "end": str, "run": dict, "ranks": list,
    "expected": list, "gone": dict, "zombies": list, "processes": list, "others": list,
    "cards": dict, "kernel": dict, "memory": dict, "disks": dict, "shm": dict, "sockets": list,
    "software": dict, "checkpoint": dict, "log": dict, "recorder": dict, "files": dict,
    "silent": dict,
}  # fmt: skip
_NAME = re.compile(r"\w[\w.-]{0,120}\Z", re.ASCII)


class NoScene(UserError):
    """A box gave no scene. One line: what is wrong; what to do."""


class NothingThere(NoScene):
    """The box answered, and nothing trains there."""


@dataclass
class Snapshot:
    """The scenes of one run, and where they lie.

    `failed`: {box: why} of boxes that gave none; `empty`: of boxes on which nothing trains.
    """

    scenes: list[dict[str, Any]]
    page: str
    folder: str = ""
    failed: dict[str, str] = field(default_factory=dict)
    empty: dict[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return what `snapshot --json` prints."""
        first, rest = judge.odd(judge.standings(self.scenes)) if self.scenes else ([], [])
        return {
            "folder": self.folder,
            "odd": [{"ranks": one.ranks, "text": shown(one.text, 400)} for one in first],
            "others": [{"ranks": one.ranks, "text": shown(one.text, 400)} for one in rest],
            "page": self.page,
            "boxes": [shown(scene["host"], 80) for scene in self.scenes],
            "failed": self.failed,
            "empty": self.empty,
        }

    @property
    def code(self) -> int:
        """Return the exit code: 0 taken, 1 nothing there, 2 where a box gave no answer."""
        return 2 if self.failed else 0 if self.scenes else 1


@cache
def program() -> str:
    """Return what runs on the box."""
    return run_script.program("runner.scene.main", sources())


def take(
    places: list[Box], run: str = "", to: Path | None = None, *, accept_new: bool = False
) -> Snapshot:
    """Take the scene of a run from all its boxes, and write it into a folder here.

    `run`: a name under ~/runs, or a folder on the box; '' for the one that lives, else the newest.
    Raises BadRequest for a folder that holds something, NoScene for one that can't be written.
    """
    if to is not None and to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise BadRequest(f"--to: {to} is there already; name a new folder")
    taken = Snapshot([], "")
    with ThreadPoolExecutor(max(len(places), 1)) as pool:
        asked = [(box, pool.submit(partial(ask, box, run, accept_new=accept_new)))
                 for box in places]  # fmt: skip
    for box, answer in asked:
        name = shown(box.name, 80)
        try:
            taken.scenes.append(answer.result())
        except NothingThere as error:
            taken.empty[name] = str(error)
        except NoScene as error:
            taken.failed[name] = str(error)
    if taken.scenes:
        folder = to or _usual_folder(places[0], taken.scenes[0])
        taken.folder = str(folder)
        try:
            taken.page = page(taken.scenes, tokens)
            write(taken, folder)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise NoScene(
                f"the scene can't be read ({shown(repr(error), 80)}); take it anew"
            ) from None
    return taken


def _usual_folder(box: Box, scene: dict[str, Any]) -> Path:
    run = str(scene["run"].get("name") or Path(scene["folder"]).name or "no-run")
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    name = "-".join(re.sub(r"[^\w.-]+", "-", part)[:60].strip("-.") for part in (box.name, run))
    return Path("snapshots") / f"{name}-{stamp}"


def ask(box: Box, run: str, *, accept_new: bool = False) -> dict[str, Any]:
    """Return the scene of one box. Raises NoScene."""
    reply = boxes.run(
        box,
        program(),
        interpreter=boxes.PYTHON,
        args=(run,),
        limit=LIMIT,
        most=MOST,
        accept_new=accept_new,
    )
    if reply.outcome != "ok":
        raise NoScene(reply.text)
    name = shown(box.name, 80)
    try:
        scene = json.loads(reply.out)
    except (ValueError, RecursionError):
        scene = None
    if not _is_scene(scene):
        last = shown(reply.errors.strip().rpartition("\n")[2], 200) or "what came is no scene"
        if reply.code == 127:
            last = f"no python3 there ({last}); install one"
        kind = NothingThere if reply.code == 1 and not reply.out else NoScene
        raise kind(f"{name} gave no snapshot: {last}")
    earlier = scene.pop("earlier", {})
    if scene["ranks"] or not _is_scene(earlier):
        if not scene["ranks"] and not scene["run"]:
            raise NothingThere(f"{name}: no run and nothing that trains; name one with --run")
        return scene
    return {**earlier, **{key: scene[key] for key in ("end", "run", "log", "checkpoint")}}


def _is_scene(found: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(found, dict) and all(
        isinstance(found.get(name), kind) for name, kind in _KINDS.items()
    )


def write(taken: Snapshot, folder: Path) -> None:
    """Write a snapshot: the page, and of each box the scene, stacks, logs, dumps as files.

    `rgt lookup --log FOLDER` reads what is a log among them. Raises NoScene for a full disk.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "page.md").write_text(taken.page, encoding="utf-8")
        for at, scene in enumerate(taken.scenes):
            # A letter: a number would be read as a rank.
            place = folder if len(taken.scenes) == 1 else folder / f"box-{_letters(at)}"
            place.mkdir(exist_ok=True)
            for name, data in _files(scene).items():
                (place / name).write_bytes(data)
    except OSError as error:
        raise NoScene(f"{folder} can't be written ({error.strerror}); pass another --to") from None


def _letters(number: int) -> str:
    more, last = divmod(number, 26)
    return (_letters(more - 1) if more else "") + chr(ord("a") + last)


def _files(scene: dict[str, Any]) -> dict[str, bytes]:
    """Return {name: bytes} of one box's scene."""
    packed = scene.get("files", {})
    told = {name: value for name, value in scene.items() if name not in ("files", "log")}
    files = {"scene.json": json.dumps(told, ensure_ascii=False, indent=1).encode()}
    texts = {
        "stacks.log": _stacks(scene),
        "train.log": str(scene["log"].get("text") or ""),
        "kernel.log": "".join(f"{line}\n" for line in scene["kernel"]["lines"]),
    }
    for one in scene["ranks"]:
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
        return decompressobj().decompress(b64decode(text), DUMP)
    except (ValueError, BadPacking):
        return b""


def _stacks(scene: dict[str, Any]) -> str:
    """Return all stacks as py-spy prints them, each under its rank."""
    parts = []
    for one in judge.members_of(scene):
        if one["threads"]:
            command = shown(one.get("command") or "python", 200)
            rank = f"rank {one['rank']}\n" if isinstance(one["rank"], int) else ""
            parts.append(rank + frames.as_py_spy(one["pid"], command, one["threads"]))
    return "\n".join(parts)
