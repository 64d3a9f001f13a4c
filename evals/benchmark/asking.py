"""A system is a command; here it is asked, and what it printed is kept.

An entry of systems/ is a JSON file: `name`, `source` (where it can be had), `needs` (what to
install), `commands` by what a track hands over (a `text`, a `file`, a training `program`, a `model`
with its run), `answer` (a pattern with the groups `claim`, `lead` and `confidence`; without it each
line is a claim), and perhaps `classes`, `home` and `by_us`. In a command `{python}` is BENCH_PYTHON
or this Python, `{ours}` this Python, `{here}` this folder and `{file}` the path; a command without
it gets the text on standard input. A file goes to the command for a text where there is none for a
file.

`batch` has a command for many cases at once, where a system takes seconds to load: it gets a JSON
list of texts, or of paths, and prints what it says to each, with a line `END` behind it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
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
    batch: dict[str, list[str]] = field(default_factory=dict)

    def answers(self, gives: str) -> bool:
        """Whether it can be asked about what a track hands over."""
        return bool(self.command(gives)) or gives in self.batch

    def command(self, gives: str) -> list[str]:
        """The command for what a track hands over, [] without."""
        return self.commands.get(gives) or self.commands.get({"file": "text"}.get(gives, ""), [])


@dataclass(frozen=True)
class Said:
    """What a system printed for a case: classes or ids, best first, and how long it took
    (None where that wasn't measured)."""

    claims: list[str]
    leads: list[str]
    confidence: str
    seconds: float | None
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


def ask_all(system: System, gives: str, cases: list[Case]) -> Iterator[tuple[str, Said]]:
    """Yield what a system says to each case; it is asked about all at once where it can be."""
    if gives in system.batch:
        yield from _ask_batch(system, gives, cases).items()
    else:
        yield from ((case.id, ask(system, gives, case)) for case in cases)


def ask(system: System, gives: str, case: Case) -> Said:
    """Run the command of a system on a case."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(case.source) if gives == "program" else _written(case, Path(folder))
        command = _filled(system.command(gives), file)
        given = b"" if str(file) in command else file.read_bytes()
        printed, seconds, failed = _run(command, given, folder, PATIENCE)
    return _said(system, printed, seconds, failed)


def _ask_batch(system: System, gives: str, cases: list[Case]) -> dict[str, Said]:
    with tempfile.TemporaryDirectory() as folder:
        files = [_written(case, Path(folder)) for case in cases]
        texts = [case.text.encode("utf-8", "replace").decode() for case in cases]
        given = json.dumps([str(file) for file in files] if gives == "file" else texts).encode()
        command = _filled(system.batch[gives], Path(folder))
        printed, seconds, failed = _run(command, given, folder, PATIENCE * len(cases))
    parts = printed.split("\nEND\n")[:-1]
    if len(parts) != len(cases):
        raise BadCase(f"{system.name}: {len(parts)} answers to {len(cases)} cases ({failed})")
    each = round(seconds / max(1, len(cases)), 2)
    return {case.id: _said(system, part, each, "") for case, part in zip(cases, parts, strict=True)}


def _written(case: Case, folder: Path) -> Path:
    file = folder / f"{case.id}.log"
    file.write_text(case.text, encoding="utf-8", errors="surrogateescape")
    return file


def _filled(command: list[str], file: Path) -> list[str]:
    names = {
        "python": os.environ.get("BENCH_PYTHON", sys.executable),
        "ours": sys.executable,
        "here": str(HERE),
        "file": str(file),
    }
    return [part.format(**names) for part in command]


def _run(command: list[str], given: bytes, folder: str, patience: float) -> tuple[str, float, str]:
    """(what was printed, seconds, why it failed or ""): the process sees no GPU."""
    began = time.monotonic()
    try:
        done = subprocess.run(
            command,
            input=given,
            capture_output=True,
            cwd=folder,
            env={**os.environ, **ALONE, "PYTHONPATH": str(ROOT / "server")},
            timeout=patience,
        )
    except subprocess.TimeoutExpired:
        return "", patience, f"no answer in {patience} s"
    printed = done.stdout.decode("utf-8", "replace")
    failed = f"exit code {done.returncode}" if done.returncode and not printed.strip() else ""
    return printed, round(time.monotonic() - began, 2), failed


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
    return Said(
        list(dict.fromkeys(claims)), list(dict.fromkeys(leads)), confidence, seconds, failed
    )


def record_of(stem: str) -> dict[str, Any]:
    """What is recorded of a system: `dates` by track, answers by track and case; {} without."""
    path = HERE / "records" / f"{stem}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def write_record(stem: str, record: dict[str, Any]) -> None:
    """Write a record, a line for each answer."""
    lines = [f'{{"dates": {json.dumps(record["dates"])}, "tracks": {{']
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
