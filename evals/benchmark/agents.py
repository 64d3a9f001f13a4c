"""What an agent does with rgt and without: the last part of evals/BENCHMARK.md.

Nothing is asked here.
`agents/tasks.jsonl` has the tasks with their truth, `answers.jsonl` what each reader said, and
`judged.jsonl` what two judges made of it who saw no arm. `night.jsonl` has what a program counted
of the scripts that were written for a night.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from grading.grade import share
from grading.report import row, shown, table

HERE = Path(__file__).resolve().parent / "agents"
ARMS = ("bare", "skill", "tools")
HEAD = ("kind", "arm", "n", "right", "misleading", "kB read", "minutes")
KINDS = {
    "money": "what a provider bills and deletes",
    "box": "is this rented machine fit for the run",
    "report": "an error text whose cause its thread confirmed",
    "nothing": "nothing is wrong, or the files don't show it",
    "ranks": "a folder of logs of several ranks",
    "live": "a hang, or a slow run, on a box that can be looked at",
}
NIGHT = ("project", "arm", "faults", "final result safe", "steps lost", "steps trained again",
         "data lost with the box", "box ended", "seconds billed")  # fmt: skip
INTRO = """\
# An agent with rgt and without

{tasks} tasks, written with their truth, and with what a right answer says and must not say, by
people who had seen neither the skill nor the command. Each was asked once in each of three arms:
`bare` has a shell and a search of the web, `skill` has the folder as well that `rgt install`
writes, `tools` that folder and the command. {readers} readers ({model}), asked on {date} with rgt
at {commit}, each in one arm, had six or seven tasks of several kinds in random order. Their
commands ran where neither this checkout nor, without it, skill or command could be seen. Two judges
saw tasks, truths and answers in random order without their arms; tool and skill were struck out of
the answers, but a note on an entry shows in some.

- **right**: both judges find all there that an answer must say, and nothing that it must not
- **misleading**: a judge finds something there that it must not say
- **kB read**, **minutes**: of a task, in the mean of its reader's tasks. What a search of the web
  printed isn't counted; {searches}
- in brackets: 95 % intervals (Wilson)"""


@dataclass(frozen=True)
class Answer:
    """What one reader said to one task, judged."""

    task: str
    kind: str
    arm: str
    right: bool
    misleading: bool
    kilobytes: float
    minutes: float


def lines(name: str) -> list[dict]:
    """The records of a file."""
    return [json.loads(line) for line in (HERE / name).read_text(encoding="utf-8").splitlines()]


def answers() -> list[Answer]:
    """Every answer with what the judges made of it."""
    kinds = {task["id"]: task["kind"] for task in lines("tasks.jsonl")}
    verdicts: dict[tuple[str, str], list[dict]] = {}
    for one in lines("judged.jsonl"):
        verdicts.setdefault((one["task"], one["arm"]), []).append(one)
    found = []
    for said in lines("answers.jsonl"):
        told = verdicts[said["task"], said["arm"]]
        misleading = any(any(one["mustnot"]) for one in told)
        right = all(all(one["must"]) for one in told) and not misleading
        found.append(
            Answer(said["task"], kinds[said["task"]], said["arm"], right, misleading,
                   said["kilobytes"], said["minutes"])
        )  # fmt: skip
    return found


def section() -> str:
    """The whole part, with its heading."""
    found, tasks = answers(), [task["id"] for task in lines("tasks.jsonl")]
    how = json.loads((HERE / "how.json").read_text(encoding="utf-8"))
    parts = [INTRO.format(tasks=len(tasks), **how), _by_kind(found), _beside(found, tasks)]
    return "\n\n".join([*parts, _of_a_night(), how["remarks"]])


def _by_kind(found: list[Answer]) -> str:
    rows = [
        _row(kind, arm, [one for one in found if one.kind == kind and one.arm == arm])
        for kind in KINDS
        for arm in ARMS
    ]
    rows += [_row("all", arm, [one for one in found if one.arm == arm]) for arm in ARMS]
    meaning = "; ".join(f"{kind}: {what}" for kind, what in KINDS.items())
    return table("By kind", HEAD, rows) + f"\n\n{meaning}."


def _row(kind: str, arm: str, mine: list[Answer]) -> str:
    return row(
        kind,
        arm,
        str(len(mine)),
        shown(share([one.right for one in mine])),
        shown(share([one.misleading for one in mine])),
        _mean(one.kilobytes for one in mine),
        _mean(one.minutes for one in mine),
    )


def _mean(values: Iterable[float]) -> str:
    return f"{statistics.mean(values):.1f}"


def _beside(found: list[Answer], tasks: list[str]) -> str:
    """Where an arm with rgt did better or worse than the bare one, task by task."""
    right = {(one.task, one.arm): one.right for one in found}
    parts = ["## Better, worse, the same"]
    for arm in ARMS[1:]:
        better = [one for one in tasks if right[one, arm] and not right[one, "bare"]]
        worse = [one for one in tasks if right[one, "bare"] and not right[one, arm]]
        parts.append(
            f"`{arm}` beside `bare`: better in {len(better)} ({', '.join(better) or 'none'}), "
            f"worse in {len(worse)} ({', '.join(worse) or 'none'}), the same in "
            f"{len(tasks) - len(better) - len(worse)}."
        )
    return "\n\n".join(parts)


def _of_a_night() -> str:
    """What scripts that were written for a night came to under faults that they weren't told."""
    told, rows = lines("night.jsonl"), []
    for project in sorted({one["project"] for one in told}):
        for arm in ARMS:
            mine = [one for one in told if one["project"] == project and one["arm"] == arm]
            if mine:
                rows.append(
                    row(
                        project,
                        arm,
                        str(len(mine)),
                        str(sum(one["final"] for one in mine)),
                        str(sum(one["lost_steps"] for one in mine)),
                        str(sum(one["again"] for one in mine)),
                        str(sum(one["data_lost"] for one in mine)),
                        str(sum(one["ended"] for one in mine)),
                        str(round(sum(one["billed"] for one in mine))),
                    )
                )
    return "## Left alone for a night\n\n" + table("Sums over the faults", NIGHT, rows)
