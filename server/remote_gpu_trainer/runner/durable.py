"""The durable place: which one it is, and whether it is still the one that held this run.

At first use it gets a file with a random id, and the run folder notes it. A mount that is gone, a
new disk under the same name, or another bucket has no such file, or another id.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from . import child, secrets
from .child import Failed
from .context import PLACE, Run, home, plain_environment
from .copies import place_at
from .copies.generations import Generations
from .copies.place import Place, join
from .copies.tool import Tools
from .names import PLACE_FILE
from .spec import place_kind
from .why import Refusal, refuse

MEASURED = "own/rehearsed.json"  # in the run folder: the bytes of a checkpoint, by the rehearsal
LIMIT = 90.0  # seconds for a place to answer
IN_MEMORY = ("tmpfs", "ramfs")
BLOCK_DEVICES = "/sys/dev/block"
# EC2's own name for disks that a stop loses; its volumes are called Amazon Elastic Block Store.
INSTANCE_STORE = "Amazon EC2 NVMe Instance Storage"


class Item(NamedTuple):
    """Something that goes to the durable place. `name`: as the job says it."""

    name: str
    here: str
    there: str

    @property
    def folders(self) -> tuple[str, str]:
        """Return the folders here and there below which its files have their names."""
        if os.path.isdir(self.here):
            return self.here, self.there
        return os.path.dirname(self.here), os.path.dirname(self.there)


def child_environment(run: Run) -> dict[str, str]:
    """Return the environment of a program that copies: with the secrets, without settings."""
    return {**plain_environment(), **secrets.load(run)}


def mask(run: Run, text: str) -> str:
    """Return what a program that copies said, in one line and without secrets."""
    text = secrets.Mask(secrets.load(run).values()).text(text)
    return " ".join(text.split())


def items(run: Run) -> list[Item]:
    """Return what goes to the durable place, and where it lies here and there."""
    return [_item(run, name, run.spec.durable.what) for name in run.spec.durable.what]


def address_of(run: Run, path: str) -> str:
    """Return where a path of the run lies at the durable place."""
    for item in items(run):
        if (path + "/").startswith(item.here.rstrip("/") + "/"):
            return join(item.there, os.path.relpath(path, item.here))
    return _item(run, path, run.spec.durable.what).there


def address_of_checkpoints(run: Run) -> str:
    """Return where the checkpoint folder lies at the durable place."""
    return address_of(run, run.checkpoints) if run.checkpoints else join(run.durable, "checkpoints")


def item_of(run: Run, path: str) -> Item:
    """Return a path that goes to the durable place although `durable.what` doesn't name it."""
    return Item(path, path, address_of(run, path))


def own_files(run: Run) -> list[Item]:
    """Return the run's log and events, which lie aside from all that is the user's."""
    paths = {name: run.folder.at(name) for name in ("log", "events.jsonl")}
    return [
        Item(name, path, join(run.durable, f"runner/{os.path.relpath(path, run.base)}"))
        for name, path in paths.items()
    ]


def check(run: Run, beat: Callable[[], bool] | None = None) -> list[Refusal]:
    """Return why this place can't be used, before the first step. It may take LIMIT seconds."""
    if not run.durable:
        return []
    if run.durable.startswith("$"):
        name = run.durable.split("/")[0]
        said = f"durable.to begins with {name}, which isn't set here"
        return [refuse(run, "", f"{said}; export it before the start, or write the path")]
    tools = Tools(dict(os.environ), _nothing)
    missing = [name for name in place_at(run.durable, tools).needs if not tools.has(name)]
    if missing:
        return [refuse(run, "python", f"{name} is missing on this box") for name in missing]
    try:
        found = child.call(run, _look, run, True, limit=LIMIT, beat=beat)
    except Failed as error:
        if place_kind(run.durable) == "local":
            return [refuse(run, "unwritable", f"the durable folder {run.durable}: {error}")]
        # A network that is gone for a moment refuses no run: nothing is called verified meanwhile.
        said = mask(run, str(error))
        run.event("durable-silent", why=said)
        run.log(f"the durable place {run.durable} doesn't answer yet: {said}")
        return []
    if found:
        return [refuse(run, "unwritable" if found.startswith("can't") else "absent", found)]
    with suppress(Failed):
        found = child.call(run, _look_for_room, run, limit=LIMIT, beat=beat)
    return [refuse(run, "disk", found)] if found else []


def _look_for_room(run: Run) -> str:
    """Return why two checkpoints of the size that the rehearsal measured don't fit, the new one
    beside the old; '' where they do, or where it isn't known. Raises Failed."""
    size = run.folder.json(MEASURED).get("bytes")
    if not isinstance(size, int) or not size or not run.checkpoints:
        return ""
    of = place_at(run.durable, Tools(child_environment(run), _nothing))
    there = Generations(run.spec.name, of, address_of_checkpoints(run), {})
    free = of.free(there.home)
    if free is None:
        return ""
    there.read()
    bytes_there = sum(int(manifest.get("size") or 0) for manifest in there.known.values())
    need = max(size, 2 * size - bytes_there)
    if free >= need:
        return ""
    return (
        f"the durable place {run.durable} has {free / 1e6:,.1f} MB free, and needs"
        f" {need / 1e6:,.1f} MB: a checkpoint took {size / 1e6:,.1f} MB in the rehearsal, and a new"
        " one is copied beside the old one; make room there (or rehearse again, if they are smaller"
        " now)"
    )


def is_place(run: Run, of: Place | None = None) -> str:
    """Return '' while the durable place is the one that the run noted, else what is wrong.

    It may hang with the place, so it is asked in a process that may.
    """
    try:
        return _look(run, first=False, of=of)
    except Failed as error:
        return f"the durable place {run.durable} doesn't answer: {mask(run, str(error))}"


def place_id(run: Run) -> str:
    """Return the id of the place that the run noted, '' for none."""
    noted = run.folder.json(PLACE)
    return str(noted.get("id", "")) if noted.get("to") == run.durable else ""


def on_own_disk(path: str) -> str:
    """Return what of this box would hold a path: its root disk, its memory or a disk that a stop of
    the box loses; '' for none of them."""
    while not os.path.exists(path):
        path = os.path.dirname(path) or "/"
    source, kind = _mount_of(path)
    if kind in IN_MEMORY:
        return "memory"
    # Two volumes of one btrfs differ in number, and have one source.
    device = os.stat(path).st_dev
    is_root = device == os.stat("/").st_dev
    if is_root or source.startswith("/dev/") and source == _mount_of("/")[0]:
        return "root disk"
    number = f"{os.major(device)}:{os.minor(device)}"
    return "instance store" if _is_instance_store(os.path.join(BLOCK_DEVICES, number)) else ""


def _is_instance_store(device: str) -> bool:
    """Return whether a block device, or one below it, is a disk that a stop of the box loses."""
    own = os.path.realpath(device)
    for disk in (own, os.path.dirname(own)):  # a partition lies in its disk
        with suppress(OSError), open(os.path.join(disk, "device/model"), errors="replace") as file:
            if file.read().strip() == INSTANCE_STORE:
                return True
    with suppress(OSError):
        below = os.path.join(own, "slaves")
        return any(_is_instance_store(os.path.join(below, name)) for name in os.listdir(below))
    return False


def _nothing() -> None:
    pass


def _item(run: Run, name: str, names: list[str]) -> Item:
    path = home(name)
    if not os.path.isabs(path):
        below_work = os.path.join(run.work, path)
        path = below_work if os.path.lexists(below_work) else run.folder.at(path)
    # A way out of the folder here is none out of the durable place.
    path = os.path.normpath(path)
    for folder in (run.work, run.base):
        if (path + "/").startswith(folder.rstrip("/") + "/"):
            return Item(name, path, join(run.durable, os.path.relpath(path, folder)))
    below = os.path.basename(path)
    # Of two folders with one name, each would cover the other's files there.
    others = [other.rstrip("/") for other in names if other.rstrip("/") != name.rstrip("/")]
    if any(("/" + other).endswith("/" + below) for other in others):
        below = path.lstrip("/")
    return Item(name, path, join(run.durable, below))


def _look(run: Run, first: bool, of: Place | None = None) -> str:
    """Compare the place's id with the one noted; at first use give it one. Raises Failed."""
    of = of or place_at(run.durable, Tools(child_environment(run), _nothing))
    is_local = place_kind(run.durable) == "local"
    noted = place_id(run)
    if is_local and (why := _goes_with_box(run, run.durable)):
        return why
    data = of.read(join(run.durable, PLACE_FILE))
    found = _id_in(data)
    if noted and found != noted:
        is_now = "is another one now" if found else f"is empty or has lost its {PLACE_FILE}"
        return (
            f"the durable place {run.durable}, which held this run before, {is_now}; mount the "
            f"right one, or remove {run.folder.at(PLACE)} to use it as a new one"
        )
    try:
        if not found and run.rank == 0:
            import uuid

            found = uuid.uuid4().hex
            of.write(join(run.durable, PLACE_FILE), (json.dumps({"id": found}) + "\n").encode())
        elif first and is_local:
            of.write(join(run.durable, ".rgt-write-test"), b"x")
            os.unlink(join(run.durable, ".rgt-write-test"))
    except (Failed, OSError) as error:
        return f"can't write to the durable place {run.durable}: {mask(run, str(error))}"
    if place_kind(run.durable) == "ssh":  # an address of this very box
        here = os.path.join(home("~"), home(run.durable.partition(":")[2]))
        is_this_box = found and _id_in(_read_small(os.path.join(here, PLACE_FILE))) == found
        if is_this_box and (why := _goes_with_box(run, here)):
            return why
    if found and not noted:
        run.folder.write(PLACE, json.dumps({"to": run.durable, "id": found}) + "\n")
    return _other_run(run, of) if first else ""


def _goes_with_box(run: Run, path: str) -> str:
    """Return why the durable place, which is a path of this box, goes with it; '' where it doesn't,
    or where the job wants it so."""
    where = "" if run.spec.durable.on_this_box else on_own_disk(path)
    once = "; it held this run before: is its volume mounted?" if place_id(run) else ""
    return where and (
        f"the durable place {run.durable} is on this box's own {where} and goes with it"
        f"{once}; mount a volume there, or set durable.on_this_box: true"
    )


def _read_small(path: str) -> bytes | None:
    with suppress(OSError), open(path, "rb") as file:
        return file.read(4096)
    return None


def _other_run(run: Run, of: Place) -> str:
    """Return whose checkpoints lie where this run's would go, '' for nobody else's."""
    if not run.checkpoints:
        return ""
    found = Generations(run.spec.name, of, address_of_checkpoints(run), {})
    found.read()
    return found.refusal()


def _id_in(data: bytes | None) -> str:
    try:
        return str(json.loads(data or b"{}").get("id", ""))
    except (ValueError, AttributeError):
        return ""


def _mount_of(path: str) -> tuple[str, str]:
    """Return (source, type) of the file system that holds a path."""
    real, best = os.path.realpath(path), ("", "", "")
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                source, where, kind = line.split(" ")[:3]
                where = where.replace("\\040", " ")
                if (real + "/").startswith(where.rstrip("/") + "/") and len(where) >= len(best[0]):
                    best = (where, source, kind)
    except (OSError, ValueError):
        pass
    return best[1], best[2]
