"""Runs on a box: send files of a run, each as it is when nobody writes it any more.

A checkpoint is sent once nothing speaks against it and it lies still, by the rule of the copies;
any other file as it is read. What changes meanwhile is sent anew. Its words: what is wanted as
JSON, and the run's folder. Standard input and output: a Wire.
"""

from __future__ import annotations

import glob
import json
import os
import sys
import time
from contextlib import suppress

from ...runner import content
from ...runner.completeness import AT_ONCE, COMPLETE, CORRUPT, REST, UNKNOWN, WEIGHTS, judge_path
from ..sent_job import job_in
from .wire import NAP, TRIES, Broken, Refused, Sender, Wire, ended_output, size_of


def main(words):
    """Send the files that the words name; return the exit code."""
    wanted, folder = json.loads(words[0]), os.path.abspath(words[1])
    wire = Wire(sys.stdin.buffer, sys.stdout.buffer)
    with ended_output(), suppress(Broken, Refused):  # nobody is there to be told
        return _send(wire, folder, wanted["names"], wanted["seconds"])
    return 1


def _send(wire, folder, names, seconds):
    items, wrong = {}, []
    for name in names:
        found, why = find(folder, name)
        items.update(found)
        wrong += [[name, why]] if why else []
    # What lies in a folder that comes as well comes with it.
    items = {path: top for path, top in items.items() if not _folder_among(items, path)}
    first: dict[str, str] = {}
    for path, top in list(items.items()):
        rows = files_of(path, top)
        if taken := [first[name] for name, one in rows if first.get(name, one) != one]:
            del items[path]
            wrong.append([path, f"{taken[0]} would be the same file here; pull it alone"])
        else:
            first.update(rows)
    rows = [[name, size_of(path)] for name, path in first.items()]
    wire.tell({"folder": folder, "list": rows, "wrong": wrong}, now=True)
    sender = Sender(wire, first)
    for path, top in items.items():
        state, why = wait(path, seconds, wire.ping)
        if not why:
            why = send_item(sender, path, top, state)
        wire.tell({"item": os.path.relpath(path, top), "state": state, "why": why})
    wire.tell({"end": True}, now=True)
    return 0 if items else 1


def _folder_among(items, path):
    above = os.path.dirname(path)
    while above not in items and above != os.path.dirname(above):
        above = os.path.dirname(above)
    return above in items


def find(folder, name):
    """Return {path: the folder below which it lies} of what a name or pattern stands for, and why
    there is none.

    It lies in the work folder, the run's own or that of its checkpoints.
    """
    work_dir, checkpoints = places_of(folder)
    work = os.path.normpath(os.path.join(folder, _home(work_dir)))
    places = [(work, work), (folder, folder)]
    if checkpoints:
        saves = os.path.normpath(os.path.join(work, _home(checkpoints)))
        places.append((os.path.dirname(saves), saves))
    wanted = _home(name)
    is_outside = True
    for top, inside in places:
        path = os.path.normpath(os.path.join(top, wanted))
        if path != inside and not path.startswith(inside + "/"):
            continue
        is_outside = False
        # A name may hold what a pattern would take for its own.
        pattern = path if os.path.isabs(wanted) else glob.escape(top) + path[len(top) :]
        found = [path] if os.path.lexists(path) else glob.glob(pattern, recursive=True)
        found = [one for one in sorted(found) if os.path.exists(one)]
        if found:
            return {one: top for one in found}, ""
    if is_outside:
        return {}, f"{name} lies outside the run's work folder, {work}; name a file in it"
    return {}, f"nothing is called {name} in {work}; rgt ssh shows what is there"


def places_of(folder):
    """Return the work folder and the checkpoint folder that the job of a run names, '' for none.

    A cell's job is its queue's.
    """
    while not os.path.isfile(os.path.join(folder, "run.sh")) and folder != "/":
        folder = os.path.dirname(folder)
    sent = job_in(folder)
    try:
        checkpoint = sent["job"]["checkpoint"] or {}
        return str(sent["rendered"]["work_dir"]), str(checkpoint.get("folder", ""))
    except (KeyError, TypeError, AttributeError):
        return "", ""


def files_of(path, top):
    """Return (name below `top`, path) of a file, or of those in a folder."""
    return [(os.path.relpath(one, top), one) for one in content.files_of(path)]


def wait(path, seconds, pings=lambda: None):
    """Return the state of a file or folder, and why it can't be sent: '' once it can.

    A checkpoint must lie still for a moment, and longer where nothing proves it complete. Each may
    take so many seconds.
    """
    if not any(one.endswith(WEIGHTS) for one in content.files_of(path)):
        return "", ""
    until, stamp, since = time.monotonic() + seconds, "", 0.0
    while True:
        try:
            now = content.fingerprint([path])
            if now != stamp:
                stamp, since, verdict = now, time.monotonic(), judge_path(path)
            age = max(time.time() - content.stamp(path).changed / 1e9, time.monotonic() - since)
        except OSError as error:
            return UNKNOWN, error.strerror or str(error)
        need = AT_ONCE if verdict.state == COMPLETE else REST
        if verdict.state != CORRUPT and age >= need:
            return verdict.state, ""
        if verdict.state == CORRUPT and age >= 3 * REST:
            return CORRUPT, f"corrupt: {verdict.why}"
        if time.monotonic() > until:
            why = f"corrupt: {verdict.why}" if verdict.state == CORRUPT else "still being written"
            return verdict.state, why
        pings()
        time.sleep(NAP)


def send_item(sender, path, top, state):
    """Send a file, or a folder with all its files; return why it didn't come through, or ''."""
    lost = []
    for _ in range(TRIES):
        before = content.fingerprint([path]) if state else ""
        lost = [why for name, one in files_of(path, top) if (why := sender.send(name, one))]
        if not lost and (not state or before == content.fingerprint([path])):
            return ""
        if lost and not os.path.lexists(path):
            break
        if state:
            wait(path, REST * 2, sender.wire.ping)
    return lost[0] if lost else "it changed each time while it was read"


def _home(path):
    return os.path.expanduser(path) if path == "~" or path.startswith("~/") else path
