"""Is this box fit to train on: runs scripts/gpu_health.py here or on a box, and reads its answer.

The script goes over stdin, so nothing is left there. A box that can't be reached or doesn't answer in time is `unknown`, with what to do.
"""

from __future__ import annotations

import math
import runpy
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ..boxes import box as boxes
from ..boxes.box import Box
from ..catalogue.bundle import bundle_root
from ..text.errors import BadRequest
from ..text.masking import shown, shown_lines
from .reading import Health, read, without_answer

PROBE = 75.0  # seconds for a probe from the command line: a hung nvidia-smi is a finding of the script after 42
LOADED = 120.0  # seconds around a load: torch starts, and the script allows twice the load and 90 s
IN_A_CALL = 45.5  # an MCP call ends after 48 s; ssh and the end of its processes take the rest
START = 15.0  # seconds until torch has started on all GPUs
SHORTEST = 3.0  # a load under this says nothing
MOST_STRESS = 3600.0
HANGS = "look whether nvidia-smi or a disk there hangs (ps shows state D); then reboot the box"


@dataclass(frozen=True)
class Question:
    """What is asked of the script. `expect`: as in its --expect; `python`: the job's own interpreter there; `replay`: a recording here."""

    expect: str = ""
    python: str = ""
    stress: float = 0.0
    replay: str = ""

    def __post_init__(self):
        for name, text in (("--expect", self.expect), ("--python", self.python)):
            if len(text) > 400 or not text.isprintable():
                raise BadRequest(
                    f"found {name} {shown(text, 60)!r}, expected one line of at most 400 characters"
                )
        if not (math.isfinite(self.stress) and 0 <= self.stress <= MOST_STRESS):
            raise BadRequest(
                f"found {self.stress:g} seconds of stress, expected 0 to {MOST_STRESS:g}"
            )

    @property
    def args(self) -> tuple[str, ...]:
        given = (
            ("--expect", self.expect),
            ("--python", self.python),
            ("--stress", f"{self.stress:g}" if self.stress else ""),
            ("--replay", self.replay),
        )
        return ("--json", *(f"{name}={value}" for name, value in given if value))


def script_path() -> Path:
    return bundle_root() / "scripts" / "gpu_health.py"


@lru_cache(maxsize=1)
def script() -> str:
    """The text of the program that runs there."""
    return script_path().read_text(encoding="utf-8")


def check(question: Question) -> None:
    """Raises BadRequest for expectations that the script would refuse on every box."""
    try:
        runpy.run_path(str(script_path()), run_name="gpu_health")["expectations_of"](
            question.expect
        )
    except ValueError as error:
        raise BadRequest(str(error)) from None


def examine(
    box: Box,
    question: Question = Question(),
    *,
    accept_new: bool = False,
    limit: float | None = None,
) -> Health:
    """The verdict on a box. Raises BadRequest when the script refuses an argument."""
    if limit is None:
        limit = (
            PROBE
            + (2 * question.stress + LOADED if question.stress else 0)
            + (30 if question.python else 0)
        )
    reply = boxes.run(
        box,
        script(),
        interpreter=boxes.PYTHON,
        args=question.args,
        limit=limit,
        accept_new=accept_new,
    )
    name = "this machine" if box.local else shown(box.name, 80)
    if reply.outcome == "unreachable":
        return without_answer(name, reply.text, reply.why)
    if reply.outcome == "overtime":
        return without_answer(name, f"{reply.text}; do: {HANGS}", "overtime")
    refused = [
        line for line in shown_lines(reply.errors, 3, 600) if line.startswith("gpu_health.py: ")
    ]
    if reply.code == 2 and refused and not reply.out.strip():
        raise BadRequest(refused[-1].removeprefix("gpu_health.py: "))
    return read(name, reply.out, reply.code, reply.cut, reply.errors)


def late(box: Box) -> Health:
    """The answer when the call is over before the box has given one."""
    return without_answer(
        shown(box.name, 80),
        f"found no answer from {shown(box.name, 80)} within the call, expected one; do: {HANGS}",
        "overtime",
    )


def examine_in_a_call(
    box: Box, question: Question = Question(), *, seconds: float = IN_A_CALL, clock=time.monotonic
) -> Health:
    """The same within the time of one MCP call: first without a load, then as much load as fits. What was left out stands under `partial`."""
    end = clock() + seconds
    began = clock()
    first = examine(box, Question(question.expect, question.python), limit=seconds)
    if not question.stress or first.why or any(one["level"] == "fatal" for one in first.findings):
        if question.stress and not first.why:
            first.partial = "no load was put on a box that is unfit without it"
        return first
    command = f"remote-gpu-trainer health {box.argument} --stress {question.stress:g}"
    left = end - clock() - (clock() - began) - START
    load = min(question.stress, left)
    if load < SHORTEST:
        first.add(
            "unknown",
            f"no time for a load of {question.stress:g} s within this call",
            "a load that was run",
            f"run {command}",
        )
        first.partial = f"without the load: an MCP call ends after 50 s; do: {command}"
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
            "a load that was run to its end",
            f"run {command}",
        )
        first.partial = f"without the load: {second.findings[0]['evidence']}; do: {command}"
        return first
    if load < question.stress:
        second.partial = f"{load:.0f} of {question.stress:g} s of load, because an MCP call ends after 50 s; do: {command}"
    return second
