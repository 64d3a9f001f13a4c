"""What an agent does with rgt and without: the second part of evals/BENCHMARK.md, from recorded answers.

`agents/tasks.jsonl` has the tasks with their truth, `agents/answers.jsonl` what each reader said, `agents/judged.jsonl` what a judge
who saw no arm made of it. Nothing is asked here.
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
HEAD = ("kind", "arm", "n", "right", "misleading", "commands", "kB read", "minutes")
KINDS = {
    "money": "what a provider bills and deletes",
    "box": "is this rented machine fit",
    "ranks": "a folder of logs of several ranks",
    "report": "an error text whose cause the thread confirmed",
    "nothing": "nothing is wrong, or the files don't show it",
}


@dataclass(frozen=True)
class Answer:
    """One task in one arm. `right`: every `must` holds, and no `mustnot`. `misleading`: one of those does."""

    task: str
    kind: str
    arm: str
    right: bool
    misleading: bool
    commands: int
    kilobytes: float
    minutes: float


def lines(name: str) -> list[dict]:
    """The records of a file."""
    return [json.loads(line) for line in (HERE / name).read_text(encoding="utf-8").splitlines()]


def answers() -> list[Answer]:
    """Every answer with its judgement."""
    tasks = {task["id"]: task for task in lines("tasks.jsonl")}
    judged = {(one["task"], one["arm"]): one for one in lines("judged.jsonl")}
    found = []
    for said in lines("answers.jsonl"):
        verdict = judged[said["task"], said["arm"]]
        misleading = any(verdict["mustnot"])
        found.append(
            Answer(
                said["task"],
                tasks[said["task"]]["kind"],
                said["arm"],
                all(verdict["must"]) and not misleading,
                misleading,
                said["commands"],
                said["bytes"] / 1000,
                said["minutes"],
            )
        )
    return found


def section() -> str:
    """The whole part, with its heading."""
    found, tasks = answers(), {task["id"]: task for task in lines("tasks.jsonl")}
    how = json.loads((HERE / "how.json").read_text(encoding="utf-8"))
    return "\n\n".join(
        [
            "# An agent with rgt and without",
            INTRO.format(tasks=len(tasks), **how),
            _by_kind(found),
            _beside(found, tasks),
        ]
    )


INTRO = """\
{tasks} tasks, written with their truth, and with what a right answer must and must not say, by people who had seen neither the skill
nor the command. Three arms: `bare` has a shell and a search of the web, `skill` has the folder that `rgt install` writes as well, `tools`
that folder and the command. {readers} readers ({model}, {date}, rgt at {commit}), each in one arm, with tasks of several kinds in random
order in an empty folder; commands ran in a namespace that hides this checkout and, from those without, the skill and the command. Each
task was asked once in each arm. A judge saw task, truth and answers in random order without their arms.

- **right**: everything that the answer must say is there, and nothing that it must not
- **misleading**: something that it must not say is there
- **commands**, **kB read**, **minutes**: means of a task, by the log of the shell; searches of the web aren't in it
- in brackets: 95 % intervals (Wilson)"""  # noqa: E501


def _by_kind(found: list[Answer]) -> str:
    rows = [_row(kind, arm, [one for one in found if one.kind == kind and one.arm == arm])
            for kind in KINDS for arm in ARMS]  # fmt: skip
    rows += [_row("all", arm, [one for one in found if one.arm == arm]) for arm in ARMS]
    meaning = "; ".join(f"{kind}: {what}" for kind, what in KINDS.items())
    return table(f"By kind ({meaning})", HEAD, rows)


def _row(kind: str, arm: str, mine: list[Answer]) -> str:
    def mean(values: Iterable[float]) -> str:
        return f"{statistics.mean(values):.1f}"

    return row(
        kind,
        arm,
        str(len(mine)),
        shown(share([one.right for one in mine])),
        shown(share([one.misleading for one in mine])),
        mean(one.commands for one in mine),
        mean(one.kilobytes for one in mine),
        mean(one.minutes for one in mine),
    )


def _beside(found: list[Answer], tasks: dict[str, dict]) -> str:
    """Where an arm with rgt did better or worse than the bare one, task by task."""
    by_place = {(one.task, one.arm): one for one in found}
    parts = []
    for arm in ARMS[1:]:
        better, worse = [], []
        for name in tasks:
            bare, ours = by_place[name, "bare"], by_place[name, arm]
            if ours.right != bare.right:
                (better if ours.right else worse).append(name)
        same = len(tasks) - len(better) - len(worse)
        parts.append(
            f"- `{arm}` beside `bare`: better in {len(better)} ({', '.join(better) or 'none'}), worse in {len(worse)} "
            f"({', '.join(worse) or 'none'}), the same in {same}."
        )
    return "## Better, worse, the same\n\n" + "\n".join(parts)
