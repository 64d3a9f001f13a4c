"""Stacks as texts: what the fault handler and py-spy print, and where the user's own code stands.

Pure. A frame is [function, file, line], and a stack lists the innermost first.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

# Current thread 0x00007f1a54dc9b80 (most recent call first):
# Thread 0x00007f1a540646c0 [pin_memory] (most recent call first):
_FAULT_THREAD = re.compile(
    r"(Current thread|Thread) 0x[0-9a-f]+(?: \[(.{0,60})\])? \(most recent call first\):"
)
#   File "/tmp/t.py", line 7 in a
_FAULT_FRAME = re.compile(r'  File "(.*)", line (\d{1,7}|\?\?\?) in (.*)')
# Thread 8114 (active+gil): "MainThread"
_SPY_THREAD = re.compile(r'Thread (?:0x)?[0-9A-Fa-f]+ \(([\w+]{1,40})\)(?:: "(.{0,80})")?')
#     waits_here (t.py:7)
_SPY_FRAME = re.compile(r"    (\S.{0,200}?) \(([^()]{1,400}?)(?::(\d{1,7}))?\)\s*$")

LIBRARY = re.compile(
    r"(?:^|/)(?:site-packages|dist-packages|lib/python3\.\d+)/|^<frozen"
    r"|^(?:torch|torchvision|accelerate|transformers|trl|deepspeed|lightning|pytorch_lightning"
    r"|multiprocessing|concurrent|asyncio|importlib|contextlib\.py|runpy\.py|threading\.py"
    r"|queue\.py|selectors\.py|socket\.py|ssl\.py|subprocess\.py)(?:/|$)"
)
# What a library's frame says about the call that the user's code made, the first that fits.
_CALL_KINDS = (
    ("collective", re.compile(r"distributed_c10d\.py|_functional_collectives\.py|deepspeed/comm/")),
    ("rendezvous", re.compile(r"torch/distributed/(?:rendezvous|elastic/rendezvous)")),
    ("data", re.compile(r"torch/utils/data/")),
    ("backward", re.compile(r"torch/autograd/(?:graph|__init__)\.py")),
    ("cuda", re.compile(r"torch/cuda/")),
    ("save", re.compile(r"torch/serialization\.py|torch/distributed/checkpoint/|safetensors/")),
)
_WRAPPERS = frozenset(("wrapper", "inner", "decorate_context", "__call__", "<lambda>"))
_JOINING = frozenset(("init_process_group", "new_group", "rendezvous", "_store_based_barrier"))
_LEAVES = frozenset(("_shutdown", "_exit_function", "_run_exitfuncs", "_python_exit"))


class Place(NamedTuple):
    """Where a stack stands.

    `kind`: of the library's call that the user's code made: one of _CALL_KINDS, "joining" for the
    wait for all ranks at the start, "worker" for a data loader's, "leaving" for what runs after the
    program's end, "" for the user's own code. `call`: its name, '' for own code. `frame`: the
    user's own innermost one, or the innermost where none is the user's. `loads`: a data loader
    called it.
    """

    kind: str
    call: str
    frame: Sequence[Any]
    loads: bool = False

    def text(self) -> str:
        """Return as in "all_reduce, from step (train.py:52)"."""
        function, file, line = self.frame
        own = f"{function} ({os.path.basename(str(file))}:{line})"
        return f"{self.call}, from {own}" if self.call else own


def parse_fault_handler(text: str) -> list[dict[str, Any]]:
    """Return the threads in one dump of faulthandler: name, main, and frames."""
    threads: list[dict[str, Any]] = []
    for line in text.splitlines():
        head, frame = _FAULT_THREAD.match(line), _FAULT_FRAME.match(line)
        if head:
            is_current = head[1] == "Current thread"
            threads.append({"name": head[2] or "", "main": is_current, "frames": []})
        elif frame and threads:
            threads[-1]["frames"].append([frame[3], frame[1], frame[2]])
    # The kernel may hand the signal to another thread; the oldest is the last of the dump.
    for thread in threads:
        if thread["frames"] and thread["frames"][-1][0] == "_bootstrap":
            thread["main"] = False
    if threads and not any(thread["main"] for thread in threads):
        threads[-1]["main"] = True
    return [thread for thread in threads if thread["frames"]]


def parse_py_spy(text: str) -> list[dict[str, Any]]:
    """Return the threads in one `py-spy dump`, as parse_fault_handler does."""
    threads: list[dict[str, Any]] = []
    for line in text.splitlines():
        head, frame = _SPY_THREAD.match(line), _SPY_FRAME.match(line)
        if head:
            name = head[2] or ""
            is_main = name == "MainThread"
            threads.append({"name": name, "main": is_main, "gil": "gil" in head[1], "frames": []})
        elif frame and threads:
            threads[-1]["frames"].append([frame[1], frame[2], frame[3] or "?"])
    if threads and not any(thread["main"] for thread in threads):
        threads[-1]["main"] = True
    return [thread for thread in threads if thread["frames"]]


def format_as_py_spy(pid: int, command: str, threads: list[dict[str, Any]]) -> str:
    """Return threads as py-spy prints them, the main one first: the form that the look-up reads."""
    lines = [f"Process {pid}: {command}"]
    for at, thread in enumerate(sorted(threads, key=lambda thread: not thread["main"])):
        name = "MainThread" if thread["main"] else thread["name"] or f"Thread-{at}"
        lines.append(f'Thread {at} (idle): "{name}"')
        lines += [f"    {function} ({file}:{line})" for function, file, line in thread["frames"]]
    return "\n".join(lines) + "\n"


def main_frames(threads: list[dict[str, Any]]) -> list[list[Any]]:
    """Return the frames of the main thread, [] for none."""
    return next((thread["frames"] for thread in threads if thread["main"]), [])


def find_place(frames: list[list[Any]]) -> Place | None:
    """Return where a main thread stands, None without a frame."""
    if not frames:
        return None
    at = next((n for n, frame in enumerate(frames) if not LIBRARY.search(frame[1])), len(frames))
    inside, own = frames[:at], frames[min(at, len(frames) - 1)]
    functions = {frame[0] for frame in frames}
    loads = any("torch/utils/data/" in frame[1] for frame in frames)
    if "_worker_loop" in functions:
        return Place("worker", "", own)
    kind, call = _name_call(inside)
    if functions & _LEAVES or not _begins_as_program(frames[-1]):
        return Place("leaving", call, own)
    return Place(kind, call, own, loads)


def _name_call(inside: list[list[Any]]) -> tuple[str, str]:
    """Return kind and name of the library's call that these frames belong to."""
    named = [frame for frame in inside if frame[0] not in _WRAPPERS]
    if not named:
        return "", ""
    joining = next((frame[0] for frame in reversed(named) if frame[0] in _JOINING), "")
    if joining:
        return "joining", joining
    for kind, pattern in _CALL_KINDS:
        fits = [frame for frame in named if pattern.search(frame[1])]
        public = [frame for frame in fits if not frame[0].startswith("_")]
        if fits:
            name = "the data loader" if kind == "data" else (public or fits)[-1][0]
            return kind, "backward" if kind == "backward" else name
    return "library", named[-1][0]


def _begins_as_program(outermost: list[Any]) -> bool:
    """Return whether a stack begins as a program does: one that doesn't runs after its end."""
    return outermost[0] in ("<module>", "_run_module_as_main", "_bootstrap", "main")
