"""The program that `rgt snapshot` runs on a box: find the run, take its scene, print it as JSON."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Callable

from .. import procs
from ..asking import Failed, Job
from ..context import home
from ..folder import Folder
from . import collect, keeping, members

LIMIT = 3.0  # seconds for one look at a folder


def main(words: list[str]) -> int:
    """Print the scene of the run that the first word names; '' for the one that is there.

    Exit 0 with a scene, 1 where there is neither a run nor anything that trains, 2 where the run's
    folder is closed to this user.
    """
    if not os.path.isdir("/proc/self"):
        print("a snapshot needs Linux: this machine has no /proc", file=sys.stderr)
        return 1
    name = words[0] if words else ""
    folder = path_of(name) if name else _asked(newest)[0]
    there, hangs = _asked(os.path.isdir, folder)
    if folder and not there and not hangs:
        print(f"no run in {folder}; name one with --run", file=sys.stderr)
        return 1
    if there and _asked(Folder(folder).is_closed)[0]:
        print(f"can't read {folder}; take it as its owner, or as root", file=sys.stderr)
        return 2
    scene = collect.take(folder or "")
    scene["earlier"] = _asked(keeping.newest, scene["folder"])[0] or {} if there else {}
    print(json.dumps(scene))
    return 0 if folder or scene["ranks"] else 1


def _asked(function: Callable[..., Any], *arguments: Any) -> tuple[Any, bool]:
    """Return what a function answers, and whether it hangs: a folder may be on a dead mount."""
    job = Job(function, *arguments)
    hangs = not job.poll(LIMIT)
    job.give_up()
    try:
        return job.value(), False
    except Failed:
        return None, hangs


def path_of(name: str) -> str:
    """Return the folder of a run by a name under ~/runs, or by a path."""
    if name.startswith(("/", "~/")):
        return os.path.normpath(home(name))
    return os.path.normpath(home(f"~/{name}" if "/" in name else f"~/runs/{name}"))


def newest() -> str:
    """Return the folder of the user's run that lives, else of the newest under ~/runs, '' for none.

    Of several that live it is the one that told of itself last. Where several share an
    account, such as root, each has a home.
    """
    top = home("~/runs")
    living = [
        folder
        for folder, pids in members.living_runs().items()
        if os.path.isdir(folder)
        and (folder.startswith(f"{top}/") or any(_is_at_home(pid) for pid in pids))
    ]
    if living:
        return max(living, key=_age)
    names = os.listdir(top) if os.path.isdir(top) else []
    places = [os.path.join(top, name) for name in names]
    scripts = [place for place in places if os.path.exists(os.path.join(place, "run.sh"))]
    # What this user trains without a run of ours counts for more than a run that has ended.
    if any(_is_at_home(pid) for pid in members.without_a_run()):
        return ""
    return max(scripts, key=_age, default="")


def _is_at_home(pid: int) -> bool:
    """Return whether a process has this user's home."""
    return os.path.normpath(procs.environ(pid).get("HOME", "/")) == home("~")


def _age(folder: str) -> float:
    """Return when a run last told of itself."""
    for name in ("state.json", "run.sh"):
        try:
            return os.stat(os.path.join(folder, name)).st_mtime
        except OSError:
            continue
    return 0.0
