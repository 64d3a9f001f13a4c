"""What an agent does with rgt and without: the last part of evals/BENCHMARK.md.

Nothing is asked here. `agents/tasks.jsonl` has the tasks with their truth, `answers.jsonl` what
each reader said, and `judged.jsonl` what two judges made of it who saw no arm. `night.jsonl` has
what a program counted of the scripts that were written for a night.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from grading.report import row, table

HERE = Path(__file__).resolve().parent / "agents"
ARMS = ("bare", "skill", "tools")
HEAD = ("kind", "arm", "right", "misleading", "kB read", "commands", "minutes")
KINDS = {
    "money": "what a provider bills and deletes",
    "box": "is this rented machine fit for the run",
    "report": "an error text whose cause its thread confirmed",
    "nothing": "nothing is wrong, or the files don't show it",
    "ranks": "a folder of logs of several ranks",
    "live": "a hang, or a slow run, on a box that can be looked at",
    "silent": "a project of 2,000 lines or more that runs well and learns badly",
}
MEANING = "; ".join(f"{kind}: {what}" for kind, what in KINDS.items() if kind != "silent") + "."
PARTS = {
    "skill": ("nothing", 0),
    "no-examples": ("the examples of the look-up", 1024),
    "no-families": ("the table of families", 3244),
    "no-scripts": ("prerequisites, scripts, troubleshooting, limitations", 1545),
    "no-launch": ("what comes before renting, launching and releasing", 2113),
}  # what was taken away, and its length
SECOND = """\
## A second try, without the web

Twenty of the tasks, drawn by lot with so many of each kind, were asked again in each arm: nine
fresh readers, and no search. Two other judges judged them in the same way."""
SILENT = """\
## Silent faults in whole projects

The twelve faults of the second six of `probe/projects`, two in each, with the same plain request:
the command, that it runs through, and that the results are worse than they should be. A reader may
read and run everything. Without the web; two readers an arm, each of whom saw a project once."""
LEFT_OUT = """\
## What a part of the skill brings

Seven of the twenty tasks, without the web, in the arm `skill`: once with the whole `SKILL.md`, and
once with each of four parts left out. One reader each, so a difference of a few kilobytes is a
reader's habit."""
NIGHT = ("project", "of", "faults", "final result safe", "steps lost", "steps trained again",
         "data lost with the box", "box ended", "seconds billed")  # fmt: skip
NIGHT_MORE = ("project", "of", "lines written", "faults", "as asked", "steps lost",
              "results missing", "steps trained again", "ended late", "seconds billed")  # fmt: skip
NIGHTS = """\
## Left alone for a night

Two projects of 100 steps, and a plain request: write `go.sh`, which is typed once before the laptop
is closed; the results are to be on a volume in the morning, and the rented machine ended by the
user's own command, at the latest after five minutes, which stand for nine hours. One reader an arm
and project. A program, made by somebody who had seen nothing of ours, ran each script in a
namespace under eight conditions: no fault, a kill, an exception, a hang, a full disk, a reboot, a
full volume, and a torn checkpoint. Project B also fails at every other start, for a connection that
is reset. It counts what lies whole on the volume, and when the machine was ended."""
MORE_NIGHTS = """\
## Six more nights

Six more requests, made later by somebody who had seen nothing of ours, each hard in a way of its
own; `night/` has them with the program that runs them. One reader an arm and three projects, six
conditions each. What a request asks for differs, so a program decides for each whether it was met:
the result or the furthest checkpoint whole on the volume, the machine ended in time (or left on, if
the request says so), nothing paid for twice, the user's own files as they were.

Of six readers with the command none rendered a script: its waits are given in minutes, which seemed
too coarse for a trial of five. So somebody who knew the product and its pages, and not the faults,
rendered one for each request, with as little code beside it as would do (`rendered/` has jobs,
pickers and what the runner lacked). That took eleven minutes for all six; it was run once."""
RENDERED = """\
Every reader wrote a guard of their own. Of the two with the command, one started the rendered
`run.sh` in it, with `retries` for tracebacks, and one rendered nothing: `durable` took no variable
such as `$BOX` then, and a stall is seen after 30 s at the earliest. So the maintainers rendered a
job with nothing but its defaults for each project, once before and once after what these runs
taught:

- A traceback ended the run at once, and the machine with it; the reset connection was one, as its
  text is in small letters. It is retried once now, and texts count in capitals or not.
- A full disk ended the run at once. The runner waits ten minutes for room now, and goes on after
  an attempt that saved a newer checkpoint, as it does when memory ran out."""
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
- **kB read**, **commands**, **minutes**: of a task, in the mean of its reader's tasks. What a
  search of the web printed isn't counted; {searches}. Tokens weren't told."""


REPEAT = """\
## How to repeat it

```sh
python evals/run_agent_evals.py --benchmark --client "claude -p" --out runs.jsonl --sheet sheet.md
```

It asks your client each task in an empty folder, with the skill and without, counts what a pattern
on the last line can decide, and writes a page for a judge who sees no arm. `agents/files.tar.xz`
has the files of the tasks and the programs of the live ones. The texts of the kind report are other
people's: they stand at the addresses of their tasks."""


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
    commands: float


def lines(name: str) -> list[dict]:
    """The records of a file."""
    return [json.loads(line) for line in (HERE / name).read_text(encoding="utf-8").splitlines()]


def answers(trial: str = "") -> list[Answer]:
    """Every answer of a trial with what the judges made of it; without a name, of the first."""
    kinds = {task["id"]: task["kind"] for task in lines("tasks.jsonl")}
    verdicts: dict[tuple[str, str], list[dict]] = {}
    for one in lines(f"{trial}_judged.jsonl" if trial else "judged.jsonl"):
        verdicts.setdefault((one["task"], one["arm"]), []).append(one)
    found = []
    for said in lines(f"{trial}.jsonl" if trial else "answers.jsonl"):
        told = verdicts[said["task"], said["arm"]]
        misleading = any(any(one["mustnot"]) for one in told)
        right = all(all(one["must"]) for one in told) and not misleading
        found.append(
            Answer(said["task"], kinds[said["task"]], said["arm"], right, misleading,
                   said["kilobytes"], said["minutes"], said["commands"])
        )  # fmt: skip
    return found


def section() -> str:
    """The whole part, with its heading."""
    found = answers()
    how = json.loads((HERE / "how.json").read_text(encoding="utf-8"))
    parts = [INTRO.format(tasks=len({one.task for one in found}), **how)]
    parts += [_by_kind(found), MEANING, _beside(found), _again(found), _silent(), _left_out()]
    return "\n\n".join([*parts, _of_a_night(), how["remarks"], REPEAT])


def _by_kind(found: list[Answer]) -> str:
    rows = [
        _row(kind, arm, [one for one in found if one.kind == kind and one.arm == arm])
        for kind in KINDS
        for arm in ARMS
        if any(one.kind == kind for one in found)
    ]
    rows += [_row("all", arm, [one for one in found if one.arm == arm]) for arm in ARMS]
    return table("By kind", HEAD, rows)


def _again(first: list[Answer]) -> str:
    """The second try, and which answers changed."""
    found = answers("second")
    before = {(one.task, one.arm): one.right for one in first}
    lost = [f"{one.task} ({one.arm})" for one in found if before[one.task, one.arm] > one.right]
    right = sum(one.right for one in found)
    told = f"{right} of {len(found)} are right. Not right now, and right before: {', '.join(lost)}."
    return "\n\n".join([SECOND, _by_kind(found), told, _beside(found, "")])


def _silent() -> str:
    return "\n\n".join([SILENT, _by_kind(answers("silent"))])


def _left_out() -> str:
    """What a skill with a part left out brings, on the same seven tasks."""
    found = answers("parts")
    rows = []
    for arm, (part, letters) in PARTS.items():
        mine = [one for one in found if one.arm == arm]
        rows.append(
            row(part, str(letters), f"{sum(one.right for one in mine)} of {len(mine)}",
                str(sum(one.misleading for one in mine)), _mean(one.kilobytes for one in mine),
                _mean(one.commands for one in mine), _mean(one.minutes for one in mine))
        )  # fmt: skip
    head = ("left out of SKILL.md", "letters", *HEAD[2:])
    return "\n\n".join([LEFT_OUT, table("The same seven tasks, one reader each", head, rows)])


def _row(kind: str, arm: str, mine: list[Answer]) -> str:
    return row(
        kind,
        arm,
        f"{sum(one.right for one in mine)} of {len(mine)}",
        str(sum(one.misleading for one in mine)),
        _mean(one.kilobytes for one in mine),
        _mean(one.commands for one in mine),
        _mean(one.minutes for one in mine),
    )


def _mean(values: Iterable[float]) -> str:
    return f"{statistics.mean(values):.1f}"


def _beside(found: list[Answer], heading: str = "## Better, worse, the same") -> str:
    """Where an arm with rgt did better or worse than the bare one, task by task."""
    right = {(one.task, one.arm): one.right for one in found}
    tasks = list(dict.fromkeys(one.task for one in found))
    parts = [heading] if heading else []
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
    written, rendered = lines("night.jsonl"), lines("night_rendered.jsonl")
    return "\n\n".join(
        [
            NIGHTS,
            table("Scripts of the readers", NIGHT, _sums(written, "arm", ARMS)),
            RENDERED,
            table("Rendered from a plain job", NIGHT, _sums(rendered, "run", ("before", "after"))),
            f"No step was lost in {_kept(written)} runs of the readers' scripts, and of the "
            f"rendered ones in {_kept(rendered, 'before')} before and "
            f"{_kept(rendered, 'after')} after.",
            *_more_nights(),
        ]
    )


def _more_nights() -> list[str]:
    """The six later nights: what each project asks for, and what came of it."""
    runs, rows = lines("nights.jsonl"), []
    written = {(one["project"], one["arm"]): one["lines"] for one in lines("night_lines.jsonl")}
    for (project, arm), own in written.items():
        mine = [one for one in runs if one["project"] == project and one["arm"] == arm]
        counted = ("ok", "lost_steps", "missing", "again", "late", "billed")
        sums = [str(round(math.fsum(one[name] for one in mine))) for name in counted]
        rows.append(row(project, arm, str(own), str(len(mine)), *sums))
    tasks = Path(__file__).resolve().parent / "night/tasks"
    hard = [
        f"- {name}: {json.loads((tasks / f'night-{name}/task.json').read_text('utf-8'))['says']}"
        for name in sorted({one["project"] for one in runs})
    ]
    arms = dict.fromkeys(arm for _, arm in written)
    met = {arm: [one["ok"] for one in runs if one["arm"] == arm] for arm in arms}
    told = ", ".join(f"{sum(ok)} of {len(ok)} of `{arm}`" for arm, ok in met.items())
    sums = {arm: sum(n for (_, of), n in written.items() if of == arm) for arm in arms}
    code = ", ".join(f"{count:,} of `{arm}`" for arm, count in sums.items())
    return [MORE_NIGHTS, "\n".join(hard), table("Scripts for six nights", NIGHT_MORE, rows),
            f"The request was met in {told}. Lines written for all six, blank ones not counted: "
            f"{code}."]  # fmt: skip


def _kept(runs: list[dict], run: str = "") -> str:
    """In how many of how many runs no step was lost."""
    mine = [one for one in runs if not run or one["run"] == run]
    return f"{sum(not one['lost_steps'] for one in mine)} of {len(mine)}"


def _sums(runs: list[dict], part: str, values: Iterable[str]) -> list[str]:
    """A row for each project and value of `part`: sums over the faults."""
    rows = []
    for project in sorted({one["project"] for one in runs}):
        for value in values:
            mine = [one for one in runs if one["project"] == project and one[part] == value]
            rows.append(
                row(
                    project,
                    value,
                    str(len(mine)),
                    str(sum(one["final"] for one in mine)),
                    str(sum(one["lost_steps"] for one in mine)),
                    str(sum(one["again"] for one in mine)),
                    str(sum(one["data_lost"] for one in mine)),
                    str(sum(one["ended"] for one in mine)),
                    str(round(math.fsum(one["billed"] for one in mine))),
                )
            )
    return rows
