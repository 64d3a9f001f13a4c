"""A system is a command; here it is asked, and what it printed is kept.

An entry of systems/ is a JSON file: `name`, `source` (where it can be had), `needs` (what to install),
`commands` by what a track hands over (a `text`, a `file`, a training `program`, a `model` with its run),
`answer` (a pattern with the groups `claim`, `lead` and
`confidence`; without it each line is a claim), and perhaps `classes`, `home` and `by_us`. In a command
`{python}` is BENCH_PYTHON or this Python, `{ours}` this Python, `{here}` this folder and `{file}` the path;
a command without it gets the text on standard input. A file goes to the command for a text where there
is none for a file.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grading.cases import BadCase, Case

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PATIENCE = 180  # seconds for a case
ALONE = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}
ANSWER = r"^(?P<claim>\S+)$"
NONE = "none"


@dataclass(frozen=True)
class System:
    """A command that answers, and how its answers read."""

    name: str
    source: str
    needs: str
    commands: dict[str, list[str]]
    answer: str = ANSWER
    classes: dict[str, list[str]] = field(default_factory=dict)
    home: str = ""
    by_us: bool = False

    def command(self, gives: str) -> list[str]:
        """The command for what a track hands over, [] without."""
        return self.commands.get(gives) or self.commands.get({"file": "text"}.get(gives, ""), [])


@dataclass(frozen=True)
class Said:
    """What a system printed for a case: classes or ids, best first, and how long it took."""

    claims: list[str]
    leads: list[str]
    confidence: str
    seconds: float
    failed: str = ""


def systems() -> dict[str, System]:
    """The systems by the names of their files. Raises BadCase."""
    return {path.stem: _read(path) for path in sorted((HERE / "systems").glob("*.json"))}


def _read(path: Path) -> System:
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        classes = raw.pop("classes", "")
        known = json.loads((HERE / "classes" / classes).read_text("utf-8")) if classes else {}
        return System(**raw, classes=known)
    except (ValueError, TypeError, OSError) as error:
        raise BadCase(f"{path}: can't read the system ({error}); see asking.py") from None


def ask(system: System, gives: str, case: Case) -> Said:
    """Run the command of a system on a case."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(case.source) if gives == "program" else Path(folder) / "run.log"
        if gives != "program":
            file.write_text(case.text, encoding="utf-8", errors="surrogateescape")
        names = {
            "python": os.environ.get("BENCH_PYTHON", sys.executable),
            "ours": sys.executable,
            "here": str(HERE),
            "file": str(file),
        }
        command = [part.format(**names) for part in system.command(gives)]
        began, failed, printed = time.monotonic(), "", ""
        try:
            with file.open("rb") as text:
                done = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL if str(file) in command else text,
                    capture_output=True,
                    cwd=folder,
                    env={**os.environ, **ALONE, "PYTHONPATH": str(ROOT / "server")},
                    timeout=PATIENCE,
                )
            printed = done.stdout.decode("utf-8", "replace")
            if not printed.strip() and done.returncode:
                failed = f"exit code {done.returncode}"
        except subprocess.TimeoutExpired:
            failed = f"no answer in {PATIENCE} s"
        return _said(system, printed, round(time.monotonic() - began, 2), failed)


def _said(system: System, printed: str, seconds: float, failed: str) -> Said:
    claims: list[str] = []
    leads: list[str] = []
    confidence = ""
    for found in re.finditer(system.answer, printed, re.M):
        groups = found.groupdict()
        if groups.get("claim") and groups["claim"] != NONE:
            claims.append(groups["claim"].strip())
            confidence = confidence or groups.get("confidence") or ""
        elif groups.get("lead"):
            leads.append(groups["lead"].strip())
    return Said(list(dict.fromkeys(claims)), list(dict.fromkeys(leads)), confidence, seconds, failed)


def record_of(stem: str) -> dict[str, Any]:
    """What is recorded of a system: `date`, and its answers by track and case; {} without."""
    path = HERE / "records" / f"{stem}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def write_record(stem: str, record: dict[str, Any]) -> None:
    """Write a record, a line for each answer."""
    lines = [f'{{"date": {json.dumps(record["date"])}, "tracks": {{']
    for track, answers in record["tracks"].items():
        lines.append(f"{json.dumps(track)}: {{")
        rows = [f"  {json.dumps(name)}: {json.dumps(said)}" for name, said in answers.items()]
        lines += [",\n".join(rows), "},"]
    lines[-1] = "}"
    path = HERE / "records" / f"{stem}.json"
    path.write_text("\n".join([*lines, "}}", ""]), encoding="utf-8")


def said_in(row: list[Any]) -> Said:
    """A row of a record, read."""
    return Said(*row)


def row_of(said: Said) -> list[Any]:
    """An answer as a row of a record."""
    row = [said.claims, said.leads, said.confidence, said.seconds]
    return [*row, said.failed] if said.failed else row
