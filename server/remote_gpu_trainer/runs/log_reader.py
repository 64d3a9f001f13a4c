"""Runs on a box: send a run's log as it lies there, and go on with it for as long as it grows.

It is sent to the box's Python with the runner's reader of processes. It prints frames: a line of
JSON, and behind it as many bytes of the log as its `size` says. `at` is the log file's number and
the byte in it where they begin. It ends when its standard input does: then nobody reads it any
more.
"""

from __future__ import annotations

import json
import os
import re
import select
import sys
import time

from ..runner import procs
from ..runner.folder import Folder

PIECE = 1 << 20  # bytes of one frame
NAP = 0.25  # seconds between two looks at a log that grows
SIGN = 10.0  # seconds between two frames; an empty one shows that the connection holds
NEAR = 1 << 16  # bytes before a place in which the beginning of its line is looked for
STALE = 170.0  # seconds without a heartbeat after which a run on another machine isn't alive
_NAME = re.compile(r"train\.log\.(\d{4,9})\Z")
_NODE = re.compile(r"node-[0-9]{1,6}\Z")


def main(words):
    """Send the log that the words name: what is wanted as JSON, and the run's folder."""
    try:
        _send(os.path.abspath(words[1]), json.loads(words[0]))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0


def _send(base, wanted):
    folder, others = find_folder(base)
    found = attempts(folder)
    answer = {
        "folder": folder,
        "alive": is_alive(folder),
        "attempts": [number for number, _, _ in found],
        "others": others,
    }
    _put(answer)
    if others or (wanted["attempt"] and wanted["attempt"] not in answer["attempts"]):
        return
    number, at = wanted["at"] or first_place(folder, wanted, found)
    until = next((log for n, log, _ in found if wanted["attempt"] and n > wanted["attempt"]), None)
    last = time.monotonic()
    while True:
        was_alive = is_alive(folder)
        moved = False
        for name in [n for n in numbers_of(folder) if n >= number]:
            if until is not None and name >= until:
                _put({"end": "attempt"})
                return
            if name > number:
                number, at = name, 0
            if at > _size(path_of(folder, number)):
                at = 0  # somebody moved the file away, and the runner began it anew
            for piece in pieces(path_of(folder, number), at):
                frame = {"at": [number, at], "size": len(piece)}
                if at == 0:
                    # Written by the runner a moment after the program's first line may be.
                    frame["begins"] = [row for row in attempts(folder) if row[1] == number]
                _put(frame, piece)
                at += len(piece)
                moved, last = True, time.monotonic()
        if wanted["attempt"] and until is None:
            later = [log for n, log, _ in attempts(folder) if n > wanted["attempt"]]
            until = min(later, default=None)
        if not wanted["follow"]:
            _put({"end": "all"})
            return
        if not was_alive:
            _put({"end": "ended"})
            return
        if not moved and time.monotonic() - last > SIGN:
            _put({})
            last = time.monotonic()
        if select.select([0], [], [], NAP)[0] and not os.read(0, 4096):
            return


def _put(frame, data=b""):
    sys.stdout.buffer.write(json.dumps(frame).encode() + b"\n" + data)
    sys.stdout.buffer.flush()


def find_folder(base):
    """Return the folder that holds the log, or the paths of several, one of which is to be named.

    It is the run's own, that of the only node which this box has, or of a queue's only cell.
    """
    if numbers_of(base) or os.path.exists(os.path.join(base, "state.json")):
        cells = _below(os.path.join(base, "cells"), "")
        if numbers_of(base) or not cells:
            return base, []
    else:
        cells = _below(os.path.join(base, "cells"), "") or _below(base, _NODE.pattern)
    if len(cells) == 1:
        return cells[0], []
    return base, cells[:1000]


def _below(folder, pattern):
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    paths = [os.path.join(folder, name) for name in names if re.match(pattern, name)]
    return [path for path in paths if os.path.isdir(os.path.join(path, "log"))]


def path_of(folder, number):
    """Return the path of a log file."""
    return os.path.join(folder, "log", f"train.log.{number:04d}")


def numbers_of(folder):
    """Return the numbers of the log's files, the oldest first."""
    try:
        found = [_NAME.match(name) for name in os.listdir(os.path.join(folder, "log"))]
    except OSError:
        return []
    return sorted(int(match.group(1)) for match in found if match)


def attempts(folder):
    """Return (attempt, its first log file, the checkpoint it goes on from), the oldest first."""
    found = {}
    try:
        with open(os.path.join(folder, "events.jsonl"), encoding="utf-8", errors="replace") as rows:
            for row in rows:
                if '"event": "attempt"' in row:
                    _add(found, row, "log", "resume")
    except OSError:
        pass
    try:
        with open(os.path.join(folder, "attempt.json"), encoding="utf-8") as file:
            _add(found, file.read(), "log_first", "checkpoint")
    except (OSError, ValueError):
        pass
    return sorted([number, log, path] for number, (log, path) in found.items())


def _add(found, row, log, path):
    try:
        attempt = json.loads(row)
        number, first = int(attempt["attempt"]), int(attempt[log])
    except (ValueError, KeyError, TypeError):
        return
    resume = str(attempt.get(path) or "")
    found.setdefault(number, (first, resume if log == "log" else resume.partition(" ")[0]))


def first_place(folder, wanted, found):
    """Return where to begin: the log file's number and the byte in it."""
    numbers = numbers_of(folder)
    begin = next((log for n, log, _ in found if n == wanted["attempt"]), min(numbers, default=0))
    if wanted["since"] is not None:
        return place_of_time(folder, time.time() - wanted["since"], begin)
    if wanted["last"] is None or not numbers:
        return begin, 0
    return place_of_last(folder, wanted["last"], begin)


def place_of_last(folder, lines, begin):
    """Return where the last lines of the log begin, all of them in its newest file with content."""
    for number in reversed([n for n in numbers_of(folder) if n >= begin]):
        size = _size(path_of(folder, number))
        if not size:
            continue
        with open(path_of(folder, number), "rb") as file:
            near = max(size - NEAR, 0)
            file.seek(near)
            rows = file.read(NEAR).split(b"\n")
        kept = rows[-(lines + (not rows[-1])) :]
        at = size - sum(map(len, kept)) - len(kept) + 1
        return number, at if at > near or not near else line_start(path_of(folder, number), at)
    return begin, 0


def place_of_time(folder, moment, begin):
    """Return where the lines since a moment begin, by what the runner noted of the log's growth."""
    numbers = [n for n in numbers_of(folder) if n >= begin]
    if not numbers:
        return begin, 0
    # A file that was last written before doesn't hold them; runs without notes have that alone.
    late = [n for n in numbers if _changed(path_of(folder, n)) >= moment]
    place = (late[0], 0) if late else (numbers[-1], _size(path_of(folder, numbers[-1])))
    try:
        with open(
            os.path.join(folder, "log/train.times"), encoding="ascii", errors="replace"
        ) as rows:
            for row in rows:
                words = row.split()
                if len(words) == 3 and all(word.replace(".", "", 1).isdigit() for word in words):
                    when, number, at = float(words[0]), int(words[1]), int(words[2])
                    if when <= moment and (number, at) > place and number in numbers:
                        place = number, at
    except OSError:
        pass
    number, at = place
    return number, line_start(path_of(folder, number), at)


def line_start(path, at):
    """Return where the line begins in which a byte lies: half a secret looks like any word."""
    near = max(at - NEAR, 0)
    try:
        with open(path, "rb") as file:
            file.seek(near)
            before = file.read(at - near)
    except OSError:
        return 0
    cut = max(before.rfind(b"\n"), before.rfind(b"\r"))
    return near + cut + 1 if cut >= 0 or near == 0 else at


def pieces(path, at):
    """Yield what a file has from a byte on."""
    try:
        with open(path, "rb") as file:
            file.seek(at)
            while True:
                piece = file.read(PIECE)
                if not piece:
                    return
                yield piece
    except OSError:
        return


def _size(path):
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def _changed(path):
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def is_alive(folder):
    """Return whether a process of the run lives, here or, by its heartbeat, on another machine."""
    here = Folder(folder)
    if any(procs.alive(here, name) for name in ("runner", "train")):
        return True
    if here.ended():
        return False
    host = here.json("state.json").get("host")
    is_elsewhere = host is not None and host != procs.host()
    return is_elsewhere and time.time() - here.changed("lock") < STALE
