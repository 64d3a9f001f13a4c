"""Unpack the run.d that a run.sh carries behind its text. Its words: that file, the run's folder,
and the verb.

Prints where it is: in the run's folder, or, where that can't be written or isn't there and the verb
starts nothing, in a folder of its own. It imports nothing of this package, which it unpacks.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import sys
import tempfile
import zlib

# Verbs that make no run folder.
READING = ("", "-h", "--help", "help", "status", "stop", "save", "snapshot", "sync")


def unpack(script: str, folder: str, verb: str) -> str:
    """Return the run.d that was unpacked. Raises SystemExit for a script cut short, and OSError."""
    files = packed_in(script)
    if verb not in READING or os.path.isdir(folder):
        try:
            return put(files, os.path.join(folder, "run.d"))
        except OSError:
            pass
    return put(files, tempfile.mkdtemp(prefix="rgt-"))


def packed_in(script: str) -> dict[str, str]:
    """Return {path below run.d: text}. Raises SystemExit for a script cut short."""
    with open(script, encoding="utf-8", newline="") as file:
        parts = file.read().split("\n# run.d/")[1:]
    if not parts or parts.pop() != "end\n":
        sys.exit("this run.sh is cut short; send it again")
    files: dict[str, str] = {}
    for name, text in (part.split("\n", 1) for part in parts):
        if name.endswith(" packed"):
            files.update(json.loads(zlib.decompress(base64.b64decode(text))))
        elif "/" in name:
            files[name] = text + "\n"
    return files


def put(files: dict[str, str], top: str) -> str:
    """Write the files and return their folder. Raises OSError.

    A folder below it appears with all of its files or not at all: a full disk leaves no part.
    """
    for folder in sorted({name.split("/")[0] for name in files}):
        place = os.path.join(top, folder)
        making = place if os.path.isdir(place) else f"{place}.{os.getpid()}"
        try:
            for name, text in files.items():
                if name.startswith(f"{folder}/"):
                    _write(os.path.join(making, name[len(folder) + 1 :]), text)
            if making != place:
                os.rename(making, place)
        except OSError:
            if making != place:
                shutil.rmtree(making, ignore_errors=True)
            if making == place or not os.path.isdir(place):  # else another process was quicker
                raise
    return top


def _write(path: str, text: str) -> None:
    """Write a file whole or not at all."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    new = f"{path}.{os.getpid()}"
    with open(new, "w", encoding="utf-8", newline="") as file:
        file.write(text)
    os.replace(new, path)


if __name__ == "__main__":
    os.umask(0o027)
    print(unpack(*sys.argv[1:]))
