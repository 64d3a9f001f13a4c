"""Kill what is left of a program: its processes, and its container."""

from __future__ import annotations

import json
import signal
import time

from . import child, procs
from .folder import Folder

CONTAINER = "own/container.json"  # in the run folder: the words that remove the program's container
CONTAINER_LIMIT = 60.0  # seconds for that


def kill_program(folder: Folder, tries: int = 20) -> bool:
    """Kill what is left of the program, until nothing is found; True if there was anything.

    A container whose processes can't be seen from here is removed by its engine.
    """
    had = False
    for _ in range(tries):
        left = procs.of_program(folder, procs.alive(folder, "train"))
        if not left:
            break
        had = True
        procs.send(left, signal.SIGKILL)
        time.sleep(0.05)
    end_container(folder)
    return had


def end_container(folder: Folder) -> None:
    """Remove the program's container, where an engine with a daemon runs one."""
    try:
        words = json.loads(folder.read(CONTAINER) or "[]")
    except ValueError:
        return
    if words and child.answer(words, CONTAINER_LIMIT) is not None:
        folder.remove(CONTAINER)
