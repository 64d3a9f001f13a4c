"""What lies in files: the last lines of each rank, dumps of the Flight Recorder, checkpoints."""

from __future__ import annotations

import base64
import glob
import os
import re
import time
import zlib
from collections.abc import Mapping
from contextlib import suppress
from stat import S_ISDIR, S_ISREG
from typing import Any

from ..text.masking import ANSI, hide_below, mask

LOG_TAIL = 200_000  # bytes of the program's log
RANK_TAIL = 40_000  # of the log of one rank
LARGEST_TRACE, ALL_TRACES = 16 << 20, 48 << 20  # bytes of a dump, and of all of them
_LOG_FILE = re.compile(r"train\.log\.\d{4,9}\Z")
_DUMP_PREFIXES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")


def read_log(folder: str) -> dict[str, Any]:
    """Return the end of the program's log: text, bytes and age in seconds; {} without one."""
    place = os.path.join(folder, "log")
    names = sorted((name for name in os.listdir(place) if _LOG_FILE.match(name)), key=_log_number)
    texts: list[str] = []
    left, age = LOG_TAIL, None
    for name in reversed(names):
        tail = read_tail(os.path.join(place, name), left)
        age = tail["age"] if age is None else age
        texts.append(tail["text"])
        left -= len(tail["text"])
        if left <= 0:
            break
    return {"text": "".join(reversed(texts)), "age": age} if names else {}


def is_run_log(path: str) -> bool:
    """Return whether a file is the log that the runner keeps."""
    return bool(_LOG_FILE.search(path))


def _log_number(name: str) -> int:
    return int(name.rpartition(".")[2])


def read_tail(path: str, size: int = RANK_TAIL) -> dict[str, Any]:
    """Return the last whole lines of a file, masked, and its age in seconds. Raises OSError."""
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        begin = max(status.st_size - size, 0)
        file.seek(begin)
        data = file.read(size)
    if begin:
        data = data.partition(b"\n")[2]
    text = ANSI.sub("", data.decode("utf-8", "replace")).replace("\0", " ")
    masked = "".join(hide_below([mask(line) for line in text.splitlines(keepends=True)]))
    return {"text": masked, "age": round(max(time.time() - status.st_mtime, 0))}


def find_output(pid: int) -> str:
    """Return the plain file that a process writes its errors or output to, '' for a pipe."""
    for number in (2, 1):
        with suppress(OSError):
            path = os.readlink(f"/proc/{pid}/fd/{number}")
            is_file = path.startswith("/") and not path.startswith("/dev/")
            if is_file and S_ISREG(os.stat(path).st_mode):
                return path
    return ""


def read_dumps(envs: Mapping[str, Mapping[str, str]], folder: str, since: float) -> dict[str, Any]:
    """Return the dumps that ranks {rank: variables} have left since a time, by their names.

    Those in the log folder of a run whose ranks are gone count too. They are copied as they are,
    packed, and never read here; `left_out` are those without room.
    """
    pattern = os.path.join(glob.escape(folder), "log", "nccl_trace_*")
    paths = set(glob.glob(pattern) if folder else ())
    for rank, env in envs.items():
        given = (env.get(name) for name in _DUMP_PREFIXES)
        for prefix in filter(None, [*given, *_usual_dump_prefixes(env)]):
            paths.update(glob.glob(glob.escape(f"{prefix}{rank}") + "*"))
    dumps = {}
    for path in paths:
        status = os.stat(path)
        if S_ISREG(status.st_mode) and status.st_size and status.st_mtime >= since:
            dumps[path] = status.st_mtime, status.st_size
    files, left_out, room = {}, [], ALL_TRACES
    for path in sorted(dumps, key=lambda one: dumps[one][0], reverse=True):
        if dumps[path][1] > min(LARGEST_TRACE, room):
            left_out.append(path)
            continue
        with open(path, "rb") as file:
            data = file.read(LARGEST_TRACE)
        room -= len(data)
        files[os.path.basename(path)] = pack(data)
    return {"files": files, "left_out": left_out}


def _usual_dump_prefixes(env: Mapping[str, str]) -> list[str]:
    """Return where PyTorch puts dumps that nobody placed: the older place and the newer one."""
    home = env.get("HOME", "")
    cache = env.get("XDG_CACHE_HOME") or (os.path.join(home, ".cache") if home else "")
    newer = [os.path.join(cache, "torch", "comm_lib_trace_rank_")] if cache else []
    return ["/tmp/nccl_trace_rank_", *newer]


def pack(data: bytes) -> str:
    """Return bytes as a text that JSON can hold."""
    return base64.b64encode(zlib.compress(data, 6)).decode("ascii")


def measure_checkpoint(path: str) -> dict[str, Any]:
    """Return age in seconds and megabytes of a checkpoint. Raises OSError."""
    status = os.stat(path)
    size = status.st_size
    if S_ISDIR(status.st_mode):
        size = sum(os.path.getsize(os.path.join(base, name))
                   for base, _, names in os.walk(path) for name in names)  # fmt: skip
    return {"path": path, "age": round(time.time() - status.st_mtime), "mb": size >> 20}
