"""Runs on a box: takes files into a folder of its own, or sends the files of folders.

Its words: `take` or `give`, and what is wanted as JSON. Standard input and output: a Wire.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from contextlib import suppress

from ...runner import saved_elsewhere
from ..sent_job import job_in
from .wire import (
    PACKINGS,
    PARTS,
    Broken,
    Receiver,
    Refused,
    Sender,
    Wire,
    ended_output,
    leads_out,
    size_of,
    way_of,
)

RUN_D = "run.d/"  # in the folder: parts whose names hold the digest of their content
MOST_LOG = 1 << 30  # bytes of a log's end in which saves are looked for
SENT = "sent.json"  # in the folder: the names of what was sent into it


def main(words):
    """Do what the words say; return the exit code."""
    wire = Wire(sys.stdin.buffer, sys.stdout.buffer)
    wanted = json.loads(words[1])
    with ended_output(), suppress(Broken):  # nobody is there to be told
        try:
            (take_files if words[0] == "take" else send_files)(wire, wanted)
            return 0
        except Refused as error:
            wire.tell({"error": str(error)}, now=True)
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            wire.tell({"error": f"{where}{error.strerror or error}"}, now=True)
    return 1


def take_files(wire, wanted):
    """Take files into a folder. All change at once, at the end.

    `wanted`: the folder; `compares`: say only what is lacking; `keeps`: what was sent before and
    isn't listed any more stays.
    """
    top = os.path.realpath(os.path.expanduser(wanted["folder"]))
    is_new = not os.path.lexists(top)
    listed = wire.row()["list"]
    # The runner's own parts go when no process imports from them: the run itself removes them.
    before = {name for name in sent_before(top) if not name.startswith(RUN_D)}
    gone = sorted(before.difference(name for name, _ in listed))
    receiver = Receiver(wire, top)
    if not wanted["compares"]:
        receiver.begin(takes_over=True)
        share(top, [name for name, _ in listed])
    packs = [name for name in PACKINGS if importlib.util.find_spec(name)]
    wire.tell({"new": is_new, "gone": gone, "packs": packs}, now=True)
    receiver.answer(listed)
    while True:
        row = wire.row()
        if "file" in row:
            receiver.take(row)
        elif "texts" in row:
            receiver.take_texts(row)
        elif "end" in row:
            break
    if wanted["compares"]:
        return
    for name in () if wanted["keeps"] else gone:
        remove(top, name)
    receiver.put()
    names = {name for name, _ in listed}.union(before if wanted["keeps"] else ())
    write(os.path.join(top, SENT), json.dumps(sorted(names)))
    receiver.end()
    wire.tell({"done": True}, now=True)


def share(top, names):
    """Link what another run beside this one has of the same runner: the content is compared all the
    same, and a file that changes is replaced, never written."""
    beside = os.path.dirname(top)
    parts = {name.split("/")[1] for name in names if name.startswith(RUN_D + "runner-")}
    for part in parts:
        if os.path.lexists(os.path.join(top, RUN_D, part)):
            continue
        for run in sorted(os.listdir(beside)) if os.path.isdir(beside) else ():
            if os.path.isdir(os.path.join(beside, run, RUN_D, part)):
                for name in names:
                    if name.startswith(f"{RUN_D}{part}/"):
                        _link(os.path.join(beside, run, name), os.path.join(top, name))
                break


def _link(source, target):
    with suppress(OSError):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.link(source, target, follow_symlinks=False)


def send_files(wire, wanted):
    """Send the plain files of folders, and name their links.

    `wanted`: [[the name at the other end, the folder or file, what is left out at its top]]. What
    has no name there is a run's folder: the list names, too, what its log says was saved and lies
    in none of them.
    """
    files, links = {}, []
    for prefix, folder, left in wanted["folders"]:
        top = os.path.expanduser(folder)
        if prefix and os.path.isfile(top):
            add_file(files, prefix, top)
            continue
        if not os.path.isdir(top):
            raise Refused(f"no {'file or ' if prefix else ''}folder {ascii(top)}")
        for path, full in below(top, {*left, PARTS}):
            name = f"{prefix}/{path}" if prefix else path
            if name.startswith(RUN_D + "runner-"):
                continue
            if os.path.islink(full):
                links.append([name, os.readlink(full)])
            elif os.path.isfile(full):
                add_file(files, name, full)
    rows = [[name, size_of(full)] for name, full in files.items()]
    places = [folder for _, folder, _ in wanted["folders"]]
    missed = [] if wanted["folders"][0][0] else elsewhere(*places)
    wire.tell({"list": rows, "links": links, "elsewhere": missed}, now=True)
    sender = Sender(wire, files)
    for name, full in files.items():
        why = sender.send(name, full)
        gone = why and not os.path.lexists(full)
        wire.tell({"item": name, "why": "" if gone else why, "gone": bool(gone)})
    wire.tell({"end": True}, now=True)


def add_file(files, name, full):
    """Note a file by the name that it gets at the other end. Raises Refused for a second one."""
    if name in files:
        raise Refused(f"{ascii(full)} and {ascii(files[name])} would be the same file here")
    files[name] = full


def elsewhere(run, *also):
    """Return [path, bytes] of what the run's log says was saved, and that neither comes nor lies at
    the durable place."""
    folder = os.path.abspath(os.path.expanduser(run))
    sent = job_in(folder)
    try:
        work = os.path.expanduser(str(sent["rendered"]["work_dir"]))
        durable = str((sent["job"]["durable"] or {}).get("to", ""))
    except (KeyError, TypeError, AttributeError):
        work, durable = "", ""
    if not work and os.path.isdir(os.path.join(folder, "code")):
        work = os.path.join(folder, "code")
    noted = os.path.join(folder, "own/place.json")  # its $NAME is filled in
    with suppress(OSError, ValueError, KeyError, TypeError), open(noted, encoding="utf-8") as file:
        durable = str(json.load(file)["to"])
    places = [*also, durable] if durable.startswith(("/", "~")) else list(also)
    return saved_elsewhere.find(folder, work, places, MOST_LOG)


def below(top, left):
    """Yield (path below `top`, whole path) of each file and link, but for those left out."""

    def fail(error):
        raise error

    for base, folders, names in os.walk(top, onerror=fail):
        at = os.path.relpath(base, top)
        folders[:] = [one for one in folders if os.path.normpath(os.path.join(at, one)) not in left]
        linked = [one for one in folders if os.path.islink(os.path.join(base, one))]
        for name in sorted(linked + names):
            path = os.path.normpath(os.path.join(at, name))
            if path not in left:
                yield path, os.path.join(base, name)


def sent_before(top):
    """Return the names of what was sent into a folder."""
    try:
        with open(os.path.join(top, SENT), encoding="utf-8", errors="surrogateescape") as file:
            return [name for name in json.load(file) if isinstance(name, str)]
    except (OSError, ValueError, TypeError):
        return []


def remove(top, name):
    """Remove a file that was sent, and the folders that it leaves empty."""
    if leads_out(name) or way_of(top, name):
        return
    path = os.path.join(top, name)
    with suppress(OSError):
        os.unlink(path)
        while os.path.dirname(path) != top:
            path = os.path.dirname(path)
            os.rmdir(path)


def write(path, text):
    """Write a file whole or not at all."""
    with open(path + ".new", "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
    os.replace(path + ".new", path)
