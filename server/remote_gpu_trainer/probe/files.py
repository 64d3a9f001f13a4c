"""Where files are saved and found: numbers in their names, and who wrote them."""

import os
import re
import signal
import sys
import zlib

# Files with these words stand side by side on purpose.
SIDE_BY_SIDE = re.compile(r"(?i)rank|shard|part|worker|fold|seed|rng|layer|world|mp_|-of-|best")
COUNTED = re.compile(r"(?i)checkpoint|ckpt|step|epoch|iter|update|round")
UNFINISHED = (".tmp", ".part", ".temp", ".partial")


def path_of(target):
    """The absolute path that torch.save or torch.load was given, or an empty text."""
    if isinstance(target, (str, os.PathLike)):
        path = os.fspath(target)
        return os.path.abspath(path) if isinstance(path, str) else ""
    return ""


def numbered(path):
    """(folder, name without its numbers, its numbers) of a checkpoint, or None.

    The name is that of the file, or of its folder where the file's own has no number. It says what
    it counts: model_2.pt and run_2/ may be a second model and a second run.
    """
    for one in (path, os.path.dirname(path)):
        folder, name = os.path.split(one)
        numbers = [int(number) for number in re.findall(r"\d+", name)]
        if SIDE_BY_SIDE.search(name) or name.endswith(UNFINISHED):
            return None
        if numbers and COUNTED.search(name) and max(numbers) < 10**12:
            return folder, re.sub(r"\d+", "#", name), numbers
    return None


def beside(path):
    """The numbers of the checkpoints beside one, with the time when each was written."""
    own = numbered(path)
    if own is None:
        return []
    folder, pattern, _ = own
    found = []
    try:
        for name in os.listdir(folder)[:2000]:
            numbers = [int(number) for number in re.findall(r"\d+", name)]
            if numbers and re.sub(r"\d+", "#", name) == pattern:
                found.append((numbers, os.path.getmtime(os.path.join(folder, name))))
    except OSError:
        return []
    return found


def handler_above():
    """The name of the signal whose Python handler is running now, or an empty text."""
    handlers = {}
    for number in signal.Signals:
        handler = signal.getsignal(number)
        code = getattr(getattr(handler, "__func__", handler), "__code__", None)
        if code is not None:
            handlers[code] = number.name
    frame = sys._getframe(1)
    while frame is not None and handlers:
        name = handlers.get(frame.f_code)
        # A handler that Python called got the frame that it interrupted.
        if name and any(value is frame.f_back for value in frame.f_locals.values()):
            return name
        frame = frame.f_back
    return ""


def crc(text):
    """A number for a path, from which it can't be had back."""
    return zlib.crc32(text.encode("utf-8", "replace"))
