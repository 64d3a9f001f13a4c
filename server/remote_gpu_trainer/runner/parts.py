"""run.d in the run's folder: the parts of the run.sh, for every later process of the run.

Each part is a folder whose name holds the digest of its content, so a new version comes beside the
old one, which processes that live may still import from.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress

from .context import Run

PACKED = b"\n# run.d/"  # what follows the text of a run.sh that carries its run.d
_ENTRY = os.path.join("remote_gpu_trainer", "runner", "entry.py")
# The file of a part without which it isn't complete.
_LAST = {"job": "job.json", "runner": _ENTRY}


def folder(*names: str) -> str:
    """Return the folder in run.d that this process imports from, or a path in it."""
    own = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return os.path.join(own, *names)


def keep(run: Run) -> None:
    """Keep run.sh and run.d in the run's folder, so that the originals may be edited or go.

    Raises OSError.
    """
    own, runner = run.folder.at("run.sh"), folder()
    if not run.script or not run.job_folder:
        return
    top, here = os.path.join(run.base, "run.d"), os.path.dirname(runner)
    # A cell has the parts of its queue.
    if not f"{run.base}/".startswith(os.path.dirname(here) + "/"):
        for part in (runner, run.job_folder):
            _copy(part, os.path.join(top, os.path.basename(part)))
    if not os.path.exists(own) or not os.path.samefile(run.script, own):
        with open(run.script, "rb") as file:
            text = file.read().partition(PACKED)[0]
        temporary = f"{own}.tmp.{os.getpid()}"
        with open(temporary, "wb") as file:
            file.write(text)
        os.chmod(temporary, 0o700)
        os.replace(temporary, own)
    _remove_old(top, (os.path.basename(runner), os.path.basename(run.job_folder)))


def _copy(source: str, target: str) -> None:
    """Copy a part, what makes it complete last."""
    last = _LAST[os.path.basename(target).partition("-")[0]]
    if os.path.exists(os.path.join(target, last)):
        return
    names = [
        os.path.relpath(os.path.join(base, name), source)
        for base, _, files in os.walk(source)
        for name in files
    ]
    for name in sorted(names, key=lambda name: name == last):
        path = os.path.join(target, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        shutil.copy2(os.path.join(source, name), f"{path}.{os.getpid()}")
        os.replace(f"{path}.{os.getpid()}", path)


def _remove_old(top: str, own: tuple[str, str]) -> None:
    """Remove the parts of earlier versions that no living process uses."""
    with suppress(OSError):
        for name in os.listdir(top):
            kind = name.partition("-")[0]
            if name not in own and kind in _LAST:
                _remove(os.path.join(top, name), os.path.join(top, name, _LAST[kind]))


def _remove(part: str, last: str) -> None:
    """Remove a part, unless a process has it open or somebody still writes it."""
    import fcntl  # not where `rgt start` runs on Windows

    with suppress(OSError), open(last, "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # First what makes it complete: nobody begins with the rest.
        os.unlink(last)
        shutil.rmtree(part, ignore_errors=True)
