"""Runs on a box: tell its runs, each under ~/runs and each that a process of this user belongs to.

It is sent to the box's Python with the runner's reader of processes. A run with the marker of an
end and no process is told by that, any other by its own script.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor

from ..runner import child, procs
from ..runner.folder import Folder
from .files_at_stake import files_of_run, times
from .sent_job import end_seconds, job_in

MOST_STATUS = 200_000  # bytes of a run's own answer


def main(words):
    """Print a row of JSON for each run. Words: the seconds for one run's script, the folder of the
    run that is asked for, and further folders."""
    limit = float(words[0])
    given = [os.path.realpath(os.path.expanduser(path)) for path in words[1:]]
    runs = os.path.expanduser("~/runs")
    names = os.listdir(runs) if os.path.isdir(runs) else []
    found = [os.path.join(runs, name) for name in names] + given
    folders = {os.path.realpath(path) for path in [*filter(_is_run, found), *_of_processes()]}
    with ThreadPoolExecutor(8) as pool:
        rows = pool.map(lambda path: _row(path, given[:1] == [path], limit), sorted(folders))
        sys.stdout.write(json.dumps(list(rows)) + "\n")
    return 0


def _is_run(path):
    return os.path.isfile(os.path.join(path, "run.sh"))


def _of_processes():
    """Yield the folders of the runs that processes with this home belong to."""
    for pid in procs.table():
        path = run_of(pid)
        if path and procs.environ(pid).get("HOME") == os.path.expanduser("~"):
            yield path


def run_of(pid):
    """Return the folder of the run that a process belongs to by its mark, '' for none."""
    path = procs.environ(pid).get(procs.MARK, "")
    if not os.path.isabs(path):
        return ""
    while not _is_run(path) and path != "/":
        path = os.path.dirname(path)  # that of a cell or of a further node
    return "" if path == "/" else os.path.realpath(path)


def lives(folder):
    """Return whether a run isn't over, or something of it goes on."""
    return not folder.ended() or any(procs.alive(folder, name) for name in ("runner", "train"))


def _row(path, is_asked_for, limit):
    folder = Folder(path)
    end = folder.ended()
    saved = files_of_run(path)
    row = {
        "folder": path,
        "end": end,
        "marker": folder.json("." + end),
        "asked_for": is_asked_for,
        "saved": _is_saved(folder, saved),
        "mark": _mark(folder, saved),
        "durable": folder.has("own/final-sync"),
        "began": bool(folder.attempt()),
    }
    if lives(folder):
        row["end"] = ""
        said = child.answer(["bash", folder.at("run.sh"), "status", "--json"], limit)
        row["status"] = (said or "")[:MOST_STATUS]
        row["end_seconds"] = _end_seconds(path)
    return row


def _end_seconds(path):
    """Return how long a run's own end may take, None where its job can't be read."""
    try:
        return end_seconds(job_in(path)["job"])
    except (KeyError, TypeError, AttributeError):
        return None


def _mark(folder, saved):
    """Return a text that changes once one of these files of a run does, or one that it saved: also
    by another program than its own. '' where none of these is there."""
    names = ("state.json", ".done", ".failed", ".preempted", ".unsaved")
    own = times([folder.at(name) for name in names])
    if not own or saved is None:
        return ""
    return hashlib.sha256(repr(own + saved).encode("utf-8", "surrogateescape")).hexdigest()


def _is_saved(folder, saved):
    """Return whether all of a run was verified at a durable place off this box, and nothing was
    saved since. The place isn't asked."""
    proof = times([folder.at("own/final-sync")])
    if not proof or saved is None or any(at > proof[0][2] for _, _, at in saved):
        return False
    try:
        return not (job_in(folder.path)["job"]["durable"] or {}).get("on_this_box")
    except (KeyError, TypeError, AttributeError):
        return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
