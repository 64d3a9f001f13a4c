"""Runs on a box: tell its runs, each under ~/runs and each that a process of this user belongs to.

It is sent to the box's Python with the runner's reader of processes. A run with the marker of an
end and no process is told by that, any other by its own script.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor

from ..runner import child, procs
from ..runner.folder import Folder
from .sent_job import end_seconds, job_in

MOST_STATUS = 200_000  # bytes of a run's own answer
MOST_FILES = 200_000  # where a run saves; of one with more nobody can tell whether it goes on


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
        variables = procs.environ(pid)
        path = variables.get(procs.MARK, "")
        if variables.get("HOME") == os.path.expanduser("~") and os.path.isabs(path):
            while not _is_run(path) and path != "/":
                path = os.path.dirname(path)  # that of a cell or of a further node
            if path != "/":
                yield path


def _row(path, is_asked_for, limit):
    folder = Folder(path)
    end = folder.ended()
    names = ("state.json", ".done", ".failed", ".preempted", ".unsaved")
    saved = _saved(path)
    row = {
        "folder": path,
        "end": end,
        "marker": folder.json("." + end),
        "asked_for": is_asked_for,
        "saved": _is_saved(folder, saved),
        "mark": _mark(folder, names, saved),
        "began": bool(folder.attempt()),
        "mounts": _mounts(path),
    }
    if not end or any(procs.alive(folder, name) for name in ("runner", "train")):
        row["end"] = ""
        said = child.answer(["bash", folder.at("run.sh"), "status", "--json"], limit)
        row["status"] = (said or "")[:MOST_STATUS]
        row["end_seconds"] = _end_seconds(path)
    return row


def _mounts(path):
    """Return the mount points on which a run's files are: its own, its code's and what it saves; []
    where its job can't be read."""
    try:
        work, saved = _places(path)
    except (KeyError, TypeError, AttributeError):
        return []
    mounts = set()
    for place in map(os.path.realpath, [path, work, *saved]):
        while not os.path.ismount(place):
            place = os.path.dirname(place)
        mounts.add(place)
    return sorted(mounts)


def _places(path):
    """Return where a run works, and where it saves what it names. Raises where its job can't be
    read."""
    found = job_in(path)
    job, work = found["job"], os.path.expanduser(found["rendered"].get("work_dir") or path)
    saved = [(job.get("checkpoint") or {}).get("folder") or "", *(job.get("results") or [])]
    plain = [re.split(r"[*?\[]", os.path.expanduser(name))[0] for name in saved if name]
    return work, [os.path.join(work, name) for name in plain]


def _end_seconds(path):
    """Return how long a run's own end may take, None where its job can't be read."""
    try:
        return end_seconds(job_in(path)["job"])
    except (KeyError, TypeError, AttributeError):
        return None


def _mark(folder, names, saved):
    """Return a text that changes once one of these files of a run does, or a file where it saves:
    also by another program than its own. '' where none of these is there. `saved`: see `_saved`."""
    own = _times([folder.at(name) for name in names])
    if not own or len(saved) > MOST_FILES:
        return ""
    return hashlib.sha256(repr(own + saved).encode("utf-8", "surrogateescape")).hexdigest()


def _saved(path):
    """Return what `_times` does for the files where a run saves, or for a few more than MOST_FILES;
    [] where its job can't be read."""
    try:
        places = _places(path)[1]
    except (KeyError, TypeError, AttributeError):
        return []
    found = []
    for place in places:
        # What stands before the first * of a pattern may be half a name.
        for above, folders, files in os.walk(place if os.path.isdir(place) else _above(place)):
            paths = [os.path.join(above, name) for name in sorted(files)]
            found += _times([one for one in paths if one.startswith(place)])
            folders[:] = sorted(n for n in folders if os.path.join(above, n).startswith(place))
            if len(found) > MOST_FILES:
                return found
    return found


def _above(path):
    return os.path.dirname(path.rstrip("/"))


def _times(paths):
    """Return path, size and time of the last change of each file that is there."""
    found = []
    for path in paths:
        try:
            told = os.lstat(path)
        except OSError:
            continue
        found.append((path, told.st_size, told.st_mtime_ns))
    return found


def _is_saved(folder, saved):
    """Return whether all of a run was verified at a durable place off this box, and nothing was
    saved since. `saved`: see `_saved`."""
    proof = _times([folder.at("own/final-sync")])
    if not proof or len(saved) > MOST_FILES or any(at > proof[0][2] for _, _, at in saved):
        return False
    try:
        return not (job_in(folder.path)["job"]["durable"] or {}).get("on_this_box")
    except (KeyError, TypeError, AttributeError):
        return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
