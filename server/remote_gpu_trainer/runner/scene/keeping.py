"""Scenes that the runner takes by itself and keeps in the run's folder, few and of bounded size."""

from __future__ import annotations

import json
import os
import shutil
import time
from contextlib import suppress
from typing import Any

from ..context import Run
from . import collect
from .page import page

FOLDER = os.path.join("log", "scenes")  # with the log, so they go where it goes
MOST = 4  # scenes: the first one stays, since what came later may follow from it
LARGEST = 24 << 20  # bytes of one; without its dumps it stays far below


def take(run: Run, why: str, budget: float = collect.BUDGET) -> str:
    """Take a scene into the run's folder; return its folder, '' where it couldn't be written."""
    try:
        scene = collect.take(run.folder.path, why, budget)
        text = json.dumps(scene)
        if len(text) > LARGEST:  # the dumps lie in the run's log folder too
            scene["files"] = {}
            text = json.dumps(scene)
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(run.now))
        name = os.path.join(FOLDER, f"{stamp}-{why}")
        os.makedirs(run.folder.at(name), exist_ok=True)
        if not run.folder.write(os.path.join(name, "scene.json"), text):
            shutil.rmtree(run.folder.at(name), ignore_errors=True)
            return ""
        told = page([scene])
        run.folder.write(os.path.join(name, "page.md"), told)
    except (OSError, ValueError, KeyError, TypeError) as error:  # the run's end mustn't wait for it
        run.log(f"no scene could be taken: {error!r}")
        return ""
    _keep_few(run.folder.at(FOLDER))
    first = told.partition("\n\n")[2].splitlines()[:2]
    run.event("scene", why=why, folder=name, says=" ".join(line.strip() for line in first)[:300])
    return run.folder.at(name)


def _keep_few(folder: str) -> None:
    names = _names(folder)
    for name in names[1 : len(names) - MOST + 1]:
        shutil.rmtree(os.path.join(folder, name), ignore_errors=True)


def _names(folder: str) -> list[str]:
    with suppress(OSError):
        return sorted(name for name in os.listdir(folder) if name[:1].isdigit())
    return []


def newest(folder: str) -> dict[str, Any]:
    """Return the newest scene that the runner kept in a run's folder, {} without one."""
    for name in reversed(_names(os.path.join(folder, FOLDER))):
        with suppress(OSError, ValueError):
            path = os.path.join(folder, FOLDER, name, "scene.json")
            if os.path.getsize(path) <= LARGEST:
                with open(path, encoding="utf-8") as file:
                    found = json.load(file)
                return found if isinstance(found, dict) else {}
    return {}
