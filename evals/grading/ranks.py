"""Reports as one rank of a job says them, with what the others say when it is gone.

That is the log of nearly every run on several GPUs. evals/sets/ranks/ holds what the others say:
gloo's and torchrun's words as PyTorch 2.13.0 prints them, NCCL's watchdog as PyTorch 2.5 writes it
(its lines without a prefix are C++'s own), its lost peer as NCCL 2.21 does. It takes reports in
scope that come down to an exception of their own and name no rank.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from remote_gpu_trainer.logs import reading

from . import systems
from .cases import Case
from .grade import grade
from .report import apart

FOLDER = Path(__file__).resolve().parent.parent / "sets" / "ranks"
FAILED, OTHERS = 2, (0, 1)  # ranks
WORDS = (
    "nccl_watchdog",
    "gloo_closed",
    "nccl_remote",
    "gloo_timeout",
)  # by turns; torchrun's summary follows every second report


def others(name: str) -> str:
    """What the others say, one of WORDS."""
    text = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    return "".join(text.replace("%R", str(rank)) for rank in OTHERS)


def torchrun() -> str:
    """What torchrun says when rank 2 has ended with code 1."""
    return (FOLDER / "torchrun.txt").read_text(encoding="utf-8")


def told(cases: list[Case]) -> list[Case]:
    """Those of the cases that can be told so, as they are."""
    return [case for case in cases if case.expect and _fails_by_itself(case.text)]


def among(cases: list[Case], bare: bool = False) -> list[Case]:
    """Each as rank 2 of a job of three, then the words of the others.

    `bare`: its own lines don't name the rank, as where Hydra, Rich or an old PyTorch writes the
    traceback.
    """
    words, summary, found = {name: others(name) for name in WORDS}, torchrun(), []
    for at, case in enumerate(sorted(cases, key=lambda case: case.id)):
        own = "\n".join(
            line if bare else f"[rank{FAILED}]: {line}" for line in case.text.splitlines()
        )
        found.append(
            replace(
                case,
                text=f"{own}\n{words[WORDS[at % len(WORDS)]]}"
                + (summary if at // len(WORDS) % 2 else ""),
            )
        )
    return found


def run(cases: list[Case]) -> str:
    """Three tables: these reports as they are, and within their jobs."""
    chosen = told(cases)
    tables = [
        apart(
            f"{len(chosen)} reports of the reporting half that come down to an exception",
            grade(chosen, systems.lookup(chosen)),
        )
    ]
    for what, bare in (("", False), (", its own lines without their rank", True)):
        asked = among(chosen, bare)
        tables.append(
            apart(
                "the same as one rank of three, with what the others and the launcher say "
                f"when it is gone{what}",
                grade(asked, systems.lookup(asked)),
            )
        )
    return "\n\n".join(tables)


def _fails_by_itself(text: str) -> bool:
    read = reading.from_text(text)
    return bool(
        read.first
        and read.first.kind == "exception"
        and not read.ranks
        and not read.first.says("secondary")
    )
