"""Examine one box: run scripts/gpu_health.py here or over ssh, and read its reply.

The script goes over stdin, so it leaves nothing on the box. A box that can't be reached, or that
doesn't answer in time, is `unknown`, with what to do about it.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ..boxes import box as boxes
from ..boxes.box import Box, Reply
from ..catalogue.bundle import bundle_root
from ..text import BadRequest
from ..text.masking import shown, shown_lines
from .box_check.expectations import expectations_of
from .reading import Health, read_reply, without_answer

PROBE = 75.0  # seconds for a probe from the command line; the script reports a hung tool after 42
LOADED = 120.0  # seconds around a load: torch starts, and the script allows twice the load and 90 s
NETWORK = 180.0  # seconds for --network: three places, each to be found, asked and read
IN_A_CALL = 45.5  # seconds of the 48 that an MCP call has: ssh and ending its processes take some
START = 15.0  # seconds that torch takes to start on all GPUs
SHORTEST = 3.0  # seconds; a shorter load says nothing
MOST_STRESS = 3600.0  # seconds
MOST_RECORDED = 48 << 20  # bytes of a whole recording, of which no file has more than 4 MiB
HANGS = "check whether nvidia-smi or a disk hangs there (state D in ps), then reboot the box"
_RECORDED = re.compile(r"[a-z][a-z0-9-]{0,40}\.(?:csv|xml|txt|json)\Z")  # names in a recording

# Runs on the box under Python 3.8: the script, with a temporary folder for its recording.
RECORDING = r"""
import json, os, shutil, subprocess, sys, tempfile
folder = tempfile.mkdtemp(prefix="gpu_health-")
command = [sys.executable, "-I", "-", "--record", folder] + sys.argv[1:]
try:
    pipe = subprocess.PIPE
    done = subprocess.run(command, input=SCRIPT.encode(), stdout=pipe, stderr=pipe)
    files = {}
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as handle:
            files[name] = handle.read(4 << 20).decode("utf-8", "replace")
    out = done.stdout[:4 << 20].decode("utf-8", "replace")
    errors = done.stderr[-4000:].decode("utf-8", "replace")
    print(json.dumps({"code": done.returncode, "out": out, "errors": errors, "files": files}))
finally:
    shutil.rmtree(folder, ignore_errors=True)
"""


@dataclass(frozen=True)
class Question:
    """The arguments for the script. Raises BadRequest for a value that it can't take.

    `expect` is the text of its --expect, `python` the path of the job's interpreter on the box,
    `stress` the seconds of load (0: none), `replay` a folder on this machine with a recording.
    `network`: measure the way to the Hub, PyPI and, where it is named, the `durable` place.
    """

    expect: str = ""
    python: str = ""
    stress: float = 0.0
    replay: str = ""
    network: bool = False
    durable: str = ""

    def __post_init__(self):
        given = (
            ("--expect", self.expect),
            ("--python", self.python),
            ("--durable", self.durable),
        )
        for name, text in given:
            if len(text) > 400 or not text.isprintable():
                raise BadRequest(
                    f"{name}: {shown(text, 60)!r} is too long or has control characters; "
                    "pass one line of at most 400 characters"
                )
        if not (math.isfinite(self.stress) and 0 <= self.stress <= MOST_STRESS):
            raise BadRequest(
                f"--stress: {self.stress:g} is out of range; pass 0 to {MOST_STRESS:g} seconds"
            )

    @property
    def args(self) -> tuple[str, ...]:
        """Return the arguments of the script, one word each."""
        given = (
            ("--expect", self.expect),
            ("--python", self.python),
            ("--stress", f"{self.stress:g}" if self.stress else ""),
            ("--replay", self.replay),
            ("--durable", self.durable),
        )
        flags = ["--network"] if self.network else []
        return ("--json", *flags, *(f"{name}={value}" for name, value in given if value))


NOTHING_MORE = Question()  # no expectations, no load


def script_path() -> Path:
    """Return the path of scripts/gpu_health.py. Raises CatalogueError where it is missing."""
    return bundle_root() / "scripts" / "gpu_health.py"


@lru_cache(maxsize=1)
def script() -> str:
    """Return the text of the program that runs on the box."""
    return script_path().read_text(encoding="utf-8")


def check(question: Question) -> None:
    """Raise BadRequest for expectations that the script would refuse on every box."""
    try:
        expectations_of(question.expect)
    except ValueError as error:
        raise BadRequest(str(error)) from None


def examine(
    box: Box,
    question: Question = NOTHING_MORE,
    *,
    accept_new: bool = False,
    limit: float | None = None,
) -> Health:
    """Examine a box for at most `limit` seconds; by default as long as the question may take.

    `accept_new` stores a host key that isn't known yet. Raises BadRequest when the script refuses
    an argument.
    """
    if limit is None:
        load = 2 * question.stress + LOADED if question.stress else 0
        reached = NETWORK if question.network else 0
        limit = PROBE + load + reached + (30 if question.python else 0)
    reply = boxes.run(
        box,
        script(),
        interpreter=boxes.PYTHON,
        args=question.args,
        limit=limit,
        accept_new=accept_new,
    )
    if reply.outcome != "ok":
        return _no_reply(box, reply)
    refused = [
        line for line in shown_lines(reply.errors, 3, 600) if line.startswith("gpu_health.py: ")
    ]
    if reply.code == 2 and refused and not reply.out.strip():
        raise BadRequest(refused[-1].removeprefix("gpu_health.py: "))
    return read_reply(_name(box), reply.out, reply.code, reply.cut, reply.errors)


def record(box: Box, question: Question, folder: Path, *, accept_new: bool = False) -> Health:
    """Examine a box and keep what was gathered in `folder`, which is new or empty.

    The box's reply is not trusted: only files with a recording's names are written. Raises
    BadRequest when the folder is in use or can't be written.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadRequest(f"{folder}: already in use; pass a new or empty folder")
    reply = boxes.run(
        box,
        f"SCRIPT = {script()!r}\n{RECORDING}",
        interpreter=boxes.PYTHON,
        args=question.args,
        limit=PROBE + 30,
        most=MOST_RECORDED,
        accept_new=accept_new,
    )
    if reply.outcome != "ok":
        return _no_reply(box, reply)
    try:
        answer = json.loads(reply.out)
        out, files = answer["out"].encode(), answer["files"].items()
        kept = {
            name: text for name, text in files if _RECORDED.match(name) and isinstance(text, str)
        }
        code, errors = answer["code"], str(answer["errors"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return read_reply(_name(box), b"", reply.code, reply.cut, reply.errors)
    health = read_reply(_name(box), out, code if isinstance(code, int) else None, False, errors)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in kept.items():
            (folder / name).write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise BadRequest(
            f"{folder}: can't be written ({error.strerror}); pass another folder"
        ) from None
    return health


def late(box: Box) -> Health:
    """Return the answer for an MCP call that ends before the box has replied."""
    name = shown(box.name, 80)
    return without_answer(name, f"no answer from {name} within the call", HANGS, "overtime")


def examine_in_a_call(
    box: Box,
    question: Question = NOTHING_MORE,
    *,
    seconds: float = IN_A_CALL,
    clock: Callable[[], float] = time.monotonic,
) -> Health:
    """Examine a box within one MCP call: first without a load, then with as much load as fits.

    `partial` of the answer names what was left out, and the command that does all of it. Raises
    BadRequest as `examine` does.
    """
    end = clock() + seconds
    began = clock()
    first = examine(box, Question(question.expect, question.python), limit=seconds)
    if (
        not question.stress
        or first.why
        or any(finding["level"] == "fatal" for finding in first.findings)
    ):
        if question.stress and not first.why:
            first.partial = "no load was run: the box is unfit without one"
        return first
    whole = f"run remote-gpu-trainer health {box.argument} --stress {question.stress:g}"
    left = end - clock() - (clock() - began) - START
    load = min(question.stress, left)
    if load < SHORTEST:
        first.add(
            "unknown",
            f"no time for a load of {question.stress:g} s within this call",
            "a completed load",
            whole,
        )
        first.partial = f"no load was run: an MCP call ends after 50 s; {whole}"
        return first
    second = examine(
        box,
        Question(question.expect, question.python, round(load, 1)),
        limit=max(1.0, end - clock()),
    )
    if second.why:
        first.add(
            "unknown",
            f"the load of {load:.0f} s gave no answer within this call",
            "a completed load",
            whole,
        )
        first.partial = f"without the load: {second.findings[0]['evidence']}; {whole}"
        return first
    if load < question.stress:
        second.partial = (
            f"{load:.0f} of {question.stress:g} s of load: an MCP call ends after 50 s; {whole}"
        )
    return second


def _name(box: Box) -> str:
    return "this machine" if box.local else shown(box.name, 80)


def _no_reply(box: Box, reply: Reply) -> Health:
    """Return the answer for a program that didn't run to its end.

    The text of a reply is `what happened; what to do`.
    """
    if reply.outcome == "overtime":
        return without_answer(_name(box), reply.text, HANGS, "overtime")
    evidence, _, action = reply.text.rpartition("; ")
    if not evidence:
        return without_answer(_name(box), reply.text, why=reply.why)
    return without_answer(_name(box), evidence, action.removeprefix("do: "), reply.why)
