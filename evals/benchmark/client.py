"""The benchmark's tasks for agents, asked of a client of yours, and a sheet for whoever judges.

The answers of a client are no part of `agents/`: nobody judged them. `run_agent_evals.py
--benchmark` asks, counts what a pattern can decide, and writes the sheet.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from . import agents

SETTLED = 90.0  # seconds until a live program shows what is wrong with it
JUDGE = """\
# How to judge

Each task has its truth, statements M1, M2, … that a right answer makes in substance, and statements
N1, N2, … that it must not make. Decide each on its own, by what the answer says. An answer that
names the truth as one of several equal suspects doesn't make the statement. A warning against N
isn't N. Style and length don't count."""


def asked() -> tuple[list[dict], list[str]]:
    """(the tasks whose files lie here, the ids of those whose texts are other people's)."""
    held = _files()
    tasks = [{**task, "files": held[task["id"]]}
             for task in agents.lines("tasks.jsonl") if task["id"] in held]  # fmt: skip
    here = {task["id"] for task in tasks}
    return tasks, [one["id"] for one in agents.lines("tasks.jsonl") if one["id"] not in here]


def _files() -> dict[str, list[str]]:
    """The files of each task, by its id; a task whose prompt says it all has none."""
    held = {task["id"]: [] for task in agents.lines("tasks.jsonl") if not task["files"]}
    with tarfile.open(agents.HERE / "files.tar.xz") as packed:
        for member in packed:
            parts = Path(member.name).parts
            if member.isfile():
                held.setdefault(parts[0], []).append("/".join(parts[1:]))
    return held


@contextlib.contextmanager
def prepared(task: dict, work: Path) -> Iterator[str]:
    """Lay out a task's files in an empty folder, start its program if it has one, give the prompt.

    The program ends with the block.
    """
    aside = work.parent / "task"
    with tarfile.open(agents.HERE / "files.tar.xz") as packed:
        wanted = [one for one in packed if Path(one.name).parts[:1] == (task["id"],)]
        packed.extractall(aside, wanted, filter="data")
    source, folder = aside / task["id"], work / "run"
    if task["kind"] == "live":
        _script(source / "up.sh", folder)
        time.sleep(SETTLED)
    elif source.is_dir():
        shutil.copytree(source, work, dirs_exist_ok=True)
    try:
        prompt = task["prompt"].replace("{FOLDER}", str(folder)).strip()
        yield f"{prompt}\n\nEnd your answer with one line: {task['ask'].strip()}"
    finally:
        if task["kind"] == "live":
            _script(source / "down.sh", folder)


def _script(script: Path, folder: Path) -> None:
    env = {"PY": sys.executable, **os.environ}
    subprocess.run(["bash", script, folder], stdin=subprocess.DEVNULL, capture_output=True, env=env)


def marker(task: dict) -> Callable[[str, bool | None], dict[str, bool]]:
    """What a pattern can decide: whether the answer's last line names the truth; {} without one."""
    pattern = task.get("check", "")

    def marks(answer: str, _called: bool | None) -> dict[str, bool]:
        lines = [line for line in answer.splitlines() if "ANSWER" in line] or [""]
        return {"line": bool(re.search(pattern, lines[-1]))} if pattern else {}

    return marks


def sheet(tasks: list[dict], runs: list[dict]) -> tuple[str, dict[str, str]]:
    """(a page for the judge, which arm gave which answer): answers in random order, unnamed."""
    lots, key, parts = random.Random(), {}, [JUDGE]
    for task in tasks:
        mine = [run for run in runs if run["task"] == task["id"]]
        lots.shuffle(mine)
        parts += [f"# {task['id']}", task["prompt"], f"Truth: {task['truth']}"]
        for letter, statements in (("M", task["must"]), ("N", task["mustnot"])):
            parts.append(
                "\n".join(f"{letter}{at}. {said}" for at, said in enumerate(statements, 1))
            )
        for number, run in enumerate(mine, 1):
            key[f"{task['id']} {number}"] = run["arm"]
            parts += [f"## Answer {number} to {task['id']}", run["answer"] or run["error"]]
    return "\n\n".join(parts) + "\n", key


def write_sheet(place: Path, tasks: list[dict], runs: list[dict]) -> None:
    """Write the judge's page, and beside it the key that tells the arms."""
    text, key = sheet(tasks, runs)
    place.write_text(text, encoding="utf-8")
    place.with_suffix(".key.json").write_text(json.dumps(key, indent=1) + "\n", encoding="utf-8")
