"""Ask an agent the tasks of evals/evals.json, or of the benchmark, with the skill and without.

usage: python evals/run_agent_evals.py --check
       python evals/run_agent_evals.py --client "claude -p --output-format stream-json --verbose"
              [--tasks 1-5,41] [--arms with,without] [--benchmark --sheet FILE]

--check needs no model. It checks files and ids, and what the look-up itself answers.

With --client each task runs in an empty folder. The prompt is the last argument, or stands where
the command says {prompt}. The model, the login and the permissions are those of the command that
you give. Answers are graded by words that the task names; `assertions` are for a reader or a judge.
With --benchmark the tasks are those of evals/BENCHMARK.md; a pattern grades the last line where it
can, and --sheet writes a page for whoever judges the rest. Tasks of the kind live start programs
here, with this Python or the one that PY names, which has torch and py-spy.

It reads what Claude Code, Codex, opencode and Gemini CLI print. Tell yours to print JSON lines, or
calls and tokens stay unknown. It spends your tokens: one call for each task, arm and repeat.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(ROOT / "server")]

import agent_runs
from agent_runs import NAME, Run
from benchmark import client
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.clients import skill_folder
from remote_gpu_trainer.lookup.answer import answer_for

TYPES = {
    "id": int,
    "prompt": str,
    "expected_output": str,
    "files": list,
    "assertions": list,
    "grade": dict,
}
ARMS = ("with", "without")


class BadTasks(Exception):
    """The file of tasks or the choice among them is wrong. The text says what was found."""


def read_tasks(path: Path) -> list[dict]:
    """The tasks of a file in the agentskills.io form. Raises BadTasks."""
    try:
        whole = json.loads(path.read_text(encoding="utf-8"))
        tasks = whole["evals"]
        name = whole["skill_name"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadTasks(
            f"{path}: can't read it ({type(error).__name__}: {error}); "
            "give an object with skill_name and evals"
        ) from None
    if name != NAME:
        raise BadTasks(f"{path}: skill_name is {name!r}; write {NAME}")
    for task in tasks:
        wrong = [
            key
            for key, kind in TYPES.items()
            if not isinstance(task.get(key), kind) or (not task[key] and key != "files")
        ]
        if wrong:
            raise BadTasks(
                f"{path}: task {task.get('id')}: nothing usable under {', '.join(wrong)}; "
                f"give all of {', '.join(TYPES)}"
            )
        if not task["grade"].get("silent") and not (
            task["grade"].get("command") and task["grade"].get("caution")
        ):
            raise BadTasks(
                f"{path}: task {task['id']}: command or caution is missing; give both, or silent"
            )
    numbers = [task["id"] for task in tasks]
    if len(set(numbers)) < len(numbers):
        raise BadTasks(f"{path}: an id is there twice; give each task its own")
    return tasks


def choose(tasks: list[dict], text: str | None) -> list[dict]:
    """The tasks of '3', '1-5,41' or 'box-01,live'; all without a text. Raises BadTasks."""
    if not text:
        return tasks
    if isinstance(tasks[0]["id"], str):
        named = [part.strip() for part in text.split(",")]
        chosen = [task for task in tasks if task["id"] in named or task["kind"] in named]
        if not chosen:
            raise BadTasks(f"--tasks: no task {text}; choose from {_ids(tasks)}, or a kind")
        return chosen
    wanted = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            raise BadTasks(f"--tasks: can't read {part!r}; write numbers and ranges as in 1-5,41")
        wanted.update(range(int(first), int(last or first) + 1))
    chosen = [task for task in tasks if task["id"] in wanted]
    if not chosen:
        raise BadTasks(f"--tasks: no task {text}; choose from {tasks[0]['id']}-{tasks[-1]['id']}")
    return chosen


def _ids(tasks: list[dict]) -> str:
    return ", ".join(str(task["id"]) for task in tasks)


def check(tasks: list[dict], root: Path) -> tuple[list[str], list[str]]:
    """(what is wrong, what is known to be).

    Known is a gap of the look-up that the task itself names under `known`.
    """
    ids, wrong, known = set(bundle.load().by_id), [], []
    for task in tasks:
        grade, files, where = task["grade"], task["files"], f"task {task['id']}"
        missing = [
            file for file in files if not (root / file).is_file() or ".." in Path(file).parts
        ]
        wrong += [f"{where}: no file {file}; name one of the repository" for file in missing]
        wrong += [
            f"{where}: unknown id {one}; name one of the catalogue"
            for one in grade.get("entry", ())
            if one not in ids
        ]
        if missing or not (grade.get("silent") or "entry" in grade):
            continue
        matches, shown = looked_up(task, root)
        if grade.get("silent"):
            fault = (
                f"{where}: the look-up answers {', '.join(matches)}, expected nothing"
                if matches
                else ""
            )
        else:
            fault = (
                ""
                if set(shown) & set(grade["entry"])
                else f"{where}: the look-up shows {', '.join(shown) or 'nothing'}, "
                f"expected {' or '.join(grade['entry'])}"
            )
        if fault:
            (known if grade.get("known") else wrong).append(fault)
        elif grade.get("known"):
            wrong.append(f"{where}: the gap under `known` is closed, take that line out")
    return wrong, known


def looked_up(task: dict, root: Path) -> tuple[list[str], list[str]]:
    """(ids that are claimed, the first three ids that are shown, titles included).

    From the task's question, beside its log or folder if it has one.
    """
    files = task["files"]
    if not files:
        answer = answer_for(text=task["prompt"])
    else:
        place = root / (files[0] if len(files) == 1 else os.path.commonpath(files))
        answer = answer_for(text=task["prompt"], log=str(place))
    matches, titles = ([one["id"] for one in part] for part in (answer.matches, answer.also))
    return matches, [*matches, *titles][:3]


def installed_in(home: Path) -> list[str]:
    """Where this user has the skill already: there, the arm `without` would have it too."""
    places = [
        home / place / NAME for place in (*agent_runs.SKILL_FOLDERS, ".config/opencode/skills")
    ]
    found = [str(place) for place in places if place.exists()]
    plugins = home / ".claude/plugins/installed_plugins.json"
    if plugins.is_file() and NAME in plugins.read_text("utf-8", "replace"):
        found.append(str(plugins))
    return found


def table(runs: list[Run], arms: list[str], tasks: list[dict]) -> str:
    """One line an arm. `answer` leaves the id out: without the skill nobody can know it."""
    grades = {task["id"]: task["grade"] for task in tasks}
    lines = ["arm      passed     entry      answer     silent     errors  seconds  tokens"]
    for arm in arms:
        mine = [run for run in runs if run.arm == arm]
        entry = [run.marks.get("entry", False) for run in mine if "entry" in grades[run.task]]
        silent = [run.marks.get("silent", False) for run in mine if "silent" in grades[run.task]]
        answer = [
            bool(run.marks) and run.marks["command"] and run.marks["caution"]
            for run in mine
            if "command" in grades[run.task]
        ]
        tokens = [run.tokens for run in mine if run.tokens is not None]
        cells = [_share(part) for part in ([run.passed for run in mine], entry, answer, silent)]
        told = (
            f"{statistics.median(tokens):.0f}"
            + ("" if len(tokens) == len(mine) else f" ({len(tokens)} told)")
            if tokens
            else "not told"
        )
        seconds = statistics.median(run.seconds for run in mine)
        lines.append(
            f"{arm:<8} "
            + " ".join(f"{cell:<10}" for cell in cells)
            + f" {sum(bool(run.error) for run in mine):<7} {seconds:<8.1f} {told}"
        )
    return "\n".join(lines) + "\nseconds and tokens: median of a task"


def benchmark_table(runs: list[Run], arms: list[str]) -> str:
    """One line an arm. `line`: of the answers whose last line a pattern can decide, the right."""
    lines = ["arm      answers    line       errors  seconds  tokens"]
    for arm in arms:
        mine = [run for run in runs if run.arm == arm]
        told = [run.tokens for run in mine if run.tokens is not None]
        lines.append(
            f"{arm:<8} {_share([not run.error for run in mine]):<10} "
            f"{_share([run.marks['line'] for run in mine if run.marks]):<10} "
            f"{sum(bool(run.error) for run in mine):<7} "
            f"{statistics.median(run.seconds for run in mine):<8.1f} "
            f"{f'{statistics.median(told):.0f}' if told else 'not told'}"
        )
    return "\n".join(lines) + "\nseconds and tokens: median of a task"


def _share(right: list[bool]) -> str:
    return f"{sum(right)}/{len(right)}" if right else "-"


def main(argv: list[str] | None = None) -> int:
    """Check the tasks, or ask a client and grade its answers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true", help="check the tasks without a model")
    what.add_argument(
        "--client",
        metavar="COMMAND",
        help='the client and its options, for example "claude -p --output-format json"',
    )
    parser.add_argument(
        "--with-args",
        default="",
        metavar="OPTIONS",
        help="further options in the arm `with`, for example a server's configuration",
    )
    parser.add_argument("--tasks", metavar="IDS", help="for example 1-5,41 (default: all)")
    parser.add_argument(
        "--arms", default="with,without", help="with, without or both (default both)"
    )
    parser.add_argument(
        "--repeat", type=int, default=1, metavar="N", help="ask each task N times (default 1)"
    )
    parser.add_argument(
        "--timeout", type=float, default=300, metavar="S", help="seconds for one task (default 300)"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write every run as a line of JSON"
    )
    parser.add_argument(
        "--benchmark", action="store_true", help="ask the tasks of evals/BENCHMARK.md"
    )
    parser.add_argument(
        "--sheet", type=Path, metavar="FILE", help="with --benchmark: write a page for a judge"
    )
    parser.add_argument(
        "--evals", type=Path, default=HERE / "evals.json", metavar="FILE", help=argparse.SUPPRESS
    )
    args = parser.parse_args(argv)
    try:
        if args.benchmark:
            if args.check:
                raise BadTasks("--check is for evals.json; leave --benchmark out")
            return _ask_benchmark(args)
        if args.sheet:
            raise BadTasks("--sheet is a page on the benchmark's tasks; add --benchmark")
        tasks = choose(read_tasks(args.evals), args.tasks)
        return _check(tasks) if args.check else _ask(args, tasks)
    except (BadTasks, OSError) as error:
        print(error, file=sys.stderr)
        return 2


def _check(tasks: list[dict]) -> int:
    wrong, known = check(tasks, ROOT)
    for line in wrong:
        print(line, file=sys.stderr)
    for line in known:
        print(f"known: {line}")
    silent = sum(bool(task["grade"].get("silent")) for task in tasks)
    print(f"{len(tasks)} tasks, {silent} of them silent: {len(wrong)} wrong, {len(known)} known")
    return int(bool(wrong))


@contextlib.contextmanager
def _attached(task: dict, work: Path) -> Iterator[str]:
    yield task["prompt"] + agent_runs.told(agent_runs.lay_out(task["files"], ROOT, work))


def _ask(args: argparse.Namespace, tasks: list[dict]) -> int:
    ids = list(bundle.load().by_id)

    def marker(task: dict) -> agent_runs.Marker:
        return lambda answer, called: agent_runs.marks(task["grade"], answer, called, ids)

    runs = _runs(args, tasks, _attached, marker)
    print(table(runs, args.arms.split(","), tasks))
    return 2 if all(run.error for run in runs) else 0


def _ask_benchmark(args: argparse.Namespace) -> int:
    tasks, absent = client.asked()
    tasks = choose(tasks, args.tasks)
    if absent and not args.tasks:
        print(f"left out, as their files aren't kept here: {', '.join(absent)}",
              file=sys.stderr)  # fmt: skip
    runs = _runs(args, tasks, client.prepared, client.marker)
    if args.sheet:
        client.write_sheet(args.sheet, tasks, [asdict(run) for run in runs])
    print(benchmark_table(runs, args.arms.split(",")))
    return 2 if all(run.error for run in runs) else 0


def _runs(
    args: argparse.Namespace,
    tasks: list[dict],
    prepared: agent_runs.Prepared,
    marker: Callable[[dict], agent_runs.Marker],
) -> list[Run]:
    """Every task in every arm, as often as asked for; each is told and written as it comes."""
    arms = args.arms.split(",")
    if (
        not set(arms) <= set(ARMS)
        or len(set(arms)) < len(arms)
        or args.repeat < 1
        or args.timeout <= 0
    ):
        raise BadTasks(
            "can't use these values; give --arms with,without, --repeat from 1 and "
            "--timeout above 0"
        )
    if "without" in arms and (there := installed_in(Path.home())):
        raise BadTasks(
            f"the skill is installed in {', '.join(there)}, and the arm without needs it gone; "
            "uninstall it first, or ask for --arms with"
        )
    command, more = (
        shlex.split(text, posix=os.name == "posix") for text in (args.client, args.with_args)
    )
    if not command:
        raise BadTasks("--client is empty; give a command")
    skill, runs = skill_folder.contents(), []
    with contextlib.ExitStack() as stack:
        out = stack.enter_context(args.out.open("w", encoding="utf-8")) if args.out else None
        for task in (task for _ in range(args.repeat) for task in tasks):
            for arm in arms:
                words = command + (more if arm == "with" else [])
                done = agent_runs.run(task, arm, words, skill, args.timeout, prepared, marker(task))
                runs.append(done)
                said = done.error or ", ".join(
                    f"{name} {'right' if right else 'wrong'}" for name, right in done.marks.items()
                )
                print(f"task {task['id']} {arm}: {said or 'answered'}", file=sys.stderr)
                if out:
                    line = {**asdict(done), "passed": done.passed}
                    print(json.dumps(line, ensure_ascii=False), file=out, flush=True)
    return runs


if __name__ == "__main__":
    sys.exit(main())
