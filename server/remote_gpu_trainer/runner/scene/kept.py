"""What lies in files: the last lines of each rank, dumps of the Flight Recorder, checkpoints."""

from __future__ import annotations

import base64
import glob
import os
import re
import stat
import time
import zlib
from contextlib import suppress
from typing import Any, Mapping

from ...text.masking import ANSI, hide_below, mask

TAIL = 200_000  # bytes of the program's log
OWN_TAIL = 40_000  # of the log of one rank
DUMP, DUMPS = 16 << 20, 48 << 20  # bytes of a dump, and of all of them
_LOG = re.compile(r"train\.log\.\d{4,9}\Z")
_PREFIXES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")


def log_tail(folder: str) -> dict[str, Any]:
    """Return the end of the program's log: text, bytes and age in seconds; {} without one."""
    place = os.path.join(folder, "log")
    names = sorted((name for name in os.listdir(place) if _LOG.match(name)), key=_number)
    texts: list[str] = []
    left, age = TAIL, None
    for name in reversed(names):
        told = tail(os.path.join(place, name), left)
        age = told["age"] if age is None else age
        texts.append(told["text"])
        left -= len(told["text"])
        if left <= 0:
            break
    return {"text": "".join(reversed(texts)), "age": age} if names else {}


def is_run_log(path: str) -> bool:
    """Return whether a file is the log that the runner keeps."""
    return bool(_LOG.search(path))


def _number(name: str) -> int:
    return int(name.rpartition(".")[2])


def tail(path: str, size: int = OWN_TAIL) -> dict[str, Any]:
    """Return the last whole lines of a file, masked, and its age in seconds. Raises OSError."""
    with open(path, "rb") as file:
        found = os.fstat(file.fileno())
        begin = max(found.st_size - size, 0)
        file.seek(begin)
        data = file.read(size)
    if begin:
        data = data.partition(b"\n")[2]
    text = ANSI.sub("", data.decode("utf-8", "replace")).replace("\0", " ")
    masked = "".join(hide_below([mask(line) for line in text.splitlines(keepends=True)]))
    return {"text": masked, "age": round(max(time.time() - found.st_mtime, 0))}


def output_of(pid: int) -> str:
    """Return the plain file that a process writes its errors or output to, '' for a pipe."""
    for number in (2, 1):
        with suppress(OSError):
            path = os.readlink(f"/proc/{pid}/fd/{number}")
            is_file = path.startswith("/") and not path.startswith("/dev/")
            if is_file and stat.S_ISREG(os.stat(path).st_mode):
                return path
    return ""


def dumps(envs: Mapping[str, Mapping[str, str]], folder: str, since: float) -> dict[str, Any]:
    """Return the dumps that ranks {rank: variables} have left since a time, by their names.

    Those in the log folder of a run whose ranks are gone count too. They are copied as they are,
    packed, and never read here; `left_out` are those without room.
    """
    place = os.path.join(glob.escape(folder), "log", "nccl_trace_*")
    paths = set(glob.glob(place) if folder else ())
    for rank, env in envs.items():
        for prefix in filter(None, [*(env.get(name) for name in _PREFIXES), *_usual(env)]):
            paths.update(glob.glob(glob.escape(f"{prefix}{rank}") + "*"))
    found = {}
    for path in paths:
        told = os.stat(path)
        if stat.S_ISREG(told.st_mode) and told.st_size and told.st_mtime >= since:
            found[path] = told.st_mtime, told.st_size
    files, left_out, room = {}, [], DUMPS
    for path in sorted(found, key=lambda one: found[one][0], reverse=True):
        if found[path][1] > min(DUMP, room):
            left_out.append(path)
            continue
        with open(path, "rb") as file:
            data = file.read(DUMP)
        room -= len(data)
        files[os.path.basename(path)] = packed(data)
    return {"files": files, "left_out": left_out}


def _usual(env: Mapping[str, str]) -> list[str]:
    """Return where PyTorch puts dumps that nobody placed: the older place and the newer one."""
    home = env.get("HOME", "")
    cache = env.get("XDG_CACHE_HOME") or (os.path.join(home, ".cache") if home else "")
    newer = [os.path.join(cache, "torch", "comm_lib_trace_rank_")] if cache else []
    return ["/tmp/nccl_trace_rank_", *newer]


def packed(data: bytes) -> str:
    """Return bytes as a text that JSON can hold; `unpacked` is its inverse."""
    return base64.b64encode(zlib.compress(data, 6)).decode("ascii")


def checkpoint(path: str) -> dict[str, Any]:
    """Return age in seconds and megabytes of a checkpoint. Raises OSError."""
    told = os.stat(path)
    size = told.st_size
    if stat.S_ISDIR(told.st_mode):
        size = sum(os.path.getsize(os.path.join(base, name))
                   for base, _, names in os.walk(path) for name in names)  # fmt: skip
    return {"path": path, "age": round(time.time() - told.st_mtime), "mb": size >> 20}
