"""Runs on a box: tell which processes may use its cards and belong to no known run that lives.

Who holds a card's device file open uses it. Where that can't be seen, in a process of another user
or in a container without these files, any Python that isn't the system's counts. nvidia-smi names
more of them outside of containers, and that it names none proves nothing.
"""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
import sys

from ..runner import child, procs
from ..runner.folder import Folder
from ..text.proc import read_executable, read_open_files, read_words
from .run_lister import lives, run_of

LIMIT = 20.0  # seconds for nvidia-smi
MOST = 80  # characters of a command line
DEVICES = ("/dev/nvidia[0-9]*", "/dev/kfd", "/dev/dri/renderD*", "/dev/dxg", "/dev/accel[0-9]*")
_DEVICE = re.compile(r"/dev/(nvidia\d+|kfd|dri/renderD\d+|dxg|accel\d+)")
_PYTHON = re.compile(rb"[^\0]*\b(python|pypy|ipython)[\d.]*\0")
_IS_PYTHON = re.compile(r"(python|pypy)[\d.]*")
# What the system itself runs in Python, such as its updates; pip's own commands lie elsewhere.
_OF_SYSTEM = re.compile(rb"[^\0]*\0(?:-[^\0]*\0)*(/usr/(?:bin|sbin|lib|libexec|share)/[^\0]*)")
LISTS = "/var/lib/dpkg/info/*.list"
DAEMONS = {"nvidia-persiste", "nv-hostengine", "dcgm-exporter", "Xorg"}  # that hold a card open


def main(words):
    """Print their command lines as JSON. Words: the folder in which processes work that are looked
    at, and the folders of the known runs. Exit code 1: nothing here can tell."""
    below = os.path.realpath(os.path.expanduser(words[0]))
    devices = [path for pattern in DEVICES for path in glob.glob(pattern)]
    named = _named()
    if named is None and not devices:
        return 1
    found = []
    for pid, told in procs.table().items():
        is_asked = pid != os.getpid() and _is_below(pid, below) and told.name not in DAEMONS
        uses = is_asked and (pid in (named or ()) or _may_use(pid, devices))
        if uses and not _is_ours(pid, words[1:]):
            found.append(_command_of(pid))
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


def _named():
    """Return the pids that nvidia-smi names, [] where there is none; None where it fails."""
    words = ["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"]
    if not shutil.which(words[0]):
        return []
    try:
        command = child.Command(words, errors=child.NULL)
    except OSError:
        return None
    if not command.finish(LIMIT) or command.code != 0:
        return None
    return [int(word) for word in command.output.split() if word.isdigit()]


def _may_use(pid, devices):
    """Return whether a process uses a card, or may where that can't be seen."""
    held = read_open_files(pid)
    if any(_DEVICE.fullmatch(path) for path in held.values()):
        return True
    command = read_words(pid)
    is_seen = held and devices
    return not is_seen and _is_python(pid, command) and not _is_of_system(command)


def _is_python(pid, command):
    """Return whether a process runs Python, also under a name that it gave itself."""
    program = os.path.basename(read_executable(pid))
    return bool(_IS_PYTHON.fullmatch(program) or _PYTHON.match(command))


def _is_of_system(command):
    """Return whether a program came with the system, by the lists of dpkg; where there are none, by
    where it lies."""
    found = _OF_SYSTEM.match(command)
    if not found:
        return False
    lists = glob.glob(LISTS)
    return not lists or any(found[1] in _read_lines(path) for path in lists)


def _read_lines(path):
    try:
        with open(path, "rb") as file:
            return file.read().split(b"\n")
    except OSError:
        return []


def _is_ours(pid, known):
    """Return whether a process belongs to a known run that lives, or to the runner of one."""
    if "RGT_OWN" in procs.environ(pid):
        return any(os.fsencode(folder) in read_words(pid) for folder in known)
    run = run_of(pid)
    return run in known and lives(Folder(run))


def _is_below(pid, folder):
    if folder == "/":
        return True
    try:
        return (os.readlink(f"/proc/{pid}/cwd") + "/").startswith(folder + "/")
    except OSError:
        return False


def _command_of(pid):
    words = read_words(pid)[:MOST]
    return words.replace(b"\0", b" ").decode("utf-8", "replace").strip() or f"process {pid}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
