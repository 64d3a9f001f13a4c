"""What the systems are asked: the sets of evals, drawn once with a fixed seed.

A track whose texts aren't kept here is asked where they lie on this machine, and is graded from the
records everywhere: a record names its cases.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fit import grading as fit_grading
from grading import others_sets, packed, ranks, unseen
from grading.cases import Case, id_of, read_cases

HERE = Path(__file__).resolve().parent
EVALS = HERE.parent
SETS = EVALS / "sets"
TEXT, FILE, PROGRAM, MODEL = "text", "file", "program", "model"
HEALTHY = "healthy"


@dataclass(frozen=True)
class Track:
    """A set of cases. `seen`: ours was made or tuned with it in view."""

    name: str
    gives: str
    cases: Callable[[], list[Case]]
    what: str
    seen: bool = False


def drawn(cases: list[Case], most: int) -> list[Case]:
    """So many of them, the same each time."""
    ordered = sorted(cases, key=lambda case: case.id)
    return random.Random(0).sample(ordered, min(most, len(ordered)))


def _half(path: Path, half: str) -> list[Case]:
    return [case for case in read_cases(path) if case.half == half]


@cache
def _reports() -> list[Case]:
    inside = [case for case in unseen.together(unseen.sets()) if case.expect]
    return [*drawn(inside, 70), *drawn(unseen.strange(), 30)]


@cache
def _seen_reports() -> list[Case]:
    return drawn(_half(EVALS / "cases.jsonl", "tuning"), 40)


@cache
def _own() -> list[Case]:
    cases = [
        Case(
            str(row["id"]),
            "error" if row["at"] else HEALTHY,
            row["log"],
            tuple(row["expect"]),
            "",
        )
        for row in packed.read_packed(SETS / "own_errors.jsonl.gz")
    ]
    own = [case for case in cases if not case.expect and case.kind != HEALTHY]
    return [case for case in cases if case not in own] + drawn(own, 40)


@cache
def _disk() -> dict[str, list[Case]]:
    """The drawn files by their set; how files are read was worked on with (b) in view."""
    rows = map(json.loads, (SETS / "disk_files.jsonl").read_text(encoding="utf-8").splitlines())
    folder, sets, cases = os.environ.get("DISK_FILES", ""), {}, []
    for row in rows:
        if row["set"] == "a":
            continue
        source = f"https://github.com/{row['repo']}/blob/{row['commit']}/{row['path']}"
        path = Path(folder) / row["repo"] / row["path"]
        text = path.read_text("utf-8", "surrogateescape") if folder and path.is_file() else ""
        kind = "error" if row["class"] in ("failure", "own") else HEALTHY
        case = Case(id_of(source), kind, text, tuple(row["expect"]), source)
        sets[case.id] = row["set"]
        cases.append(case)
    found: dict[str, list[Case]] = {}
    for case in drawn(cases, 70):
        found.setdefault("b" if sets[case.id] == "b" else "c to e", []).append(case)
    return found


def _files() -> list[Case]:
    return _disk()["c to e"]


def _seen_files() -> list[Case]:
    return _disk()["b"]


@cache
def _ranks() -> list[Case]:
    return drawn(ranks.among(ranks.told(_half(EVALS / "cases.jsonl", "reporting"))), 40)


@cache
def _lines() -> list[Case]:
    return drawn(_half(SETS / "short.jsonl", "reporting"), 60)


@cache
def _gpualert() -> list[Case]:
    names = (HERE / "gpualert_logs.txt").read_text(encoding="utf-8").split()
    place, cases = others_sets.folder(), []
    for name in names:
        mode, kind, _ = name.split("-")
        path = (place or HERE) / "gpualert/corpus" / kind / f"{name}.log"
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        cases.append(Case(name, "error", text, tuple(sorted(others_sets.WANTED[mode])), ""))
    return cases


@cache
def _programs() -> list[Case]:
    """12 failing programs of one process, every second one's healthy twin, 6 other healthy ones."""
    single = [
        path for path in sorted((EVALS / "probe").glob("*/failing.py")) if not _launched(path)
    ]
    pairs = random.Random(0).sample(single, 12)
    sound = [p for p in sorted((EVALS / "probe/healthy").glob("*.py")) if not _launched(p)]
    healthy = [p.with_name("healthy.py") for p in pairs[::2]] + random.Random(0).sample(sound, 6)
    return [_program(path, (path.parent.name,)) for path in pairs] + [
        _program(path, ()) for path in healthy
    ]


def _launched(path: Path) -> bool:
    return path.read_text(encoding="utf-8").startswith("# run:")


def _program(path: Path, expect: tuple[str, ...]) -> Case:
    name = f"{path.parent.name}/{path.stem}"
    return Case(name, "error" if expect else HEALTHY, path.read_text("utf-8"), expect, str(path))


@cache
def _models() -> list[Case]:
    """Runs on an H100, of the half on which the margin of `rgt fit` wasn't set."""
    record = json.loads((EVALS.parent / "tests/records/fit_limits.json").read_text("utf-8"))
    rows = {row.name: row for row, _ in fit_grading.limited(record)}
    graded = {row.name for row in fit_grading.halves(list(rows.values()))[1]}
    return [
        Case(
            told["run"],
            f"{rows[told['run']].took:.3f}",
            json.dumps({"config": told["config"], "asked": told["asked"]}),
            (),
            "",
        )
        for told in record["runs"]
        if told["run"] in graded
    ]


TRACKS = (
    Track("reports", TEXT, _reports,
          "70 reports of (a) to (c) and 30 strange ones of `sets/fresh.jsonl`"),
    Track("files", FILE, _files,
          "files of the sets c to e of `sets/disk_files.jsonl`, whole, as they lay on a disk"),
    Track("own errors", FILE, _own,
          "`sets/own_errors.jsonl.gz`: 23 logs with an entry, 40 of the 127 own mistakes without, "
          "20 healthy"),
    Track("ranks", FILE, _ranks,
          "40 reports of the reporting half as one rank of three (`sets/ranks/`)"),
    Track("seen reports", TEXT, _seen_reports,
          "40 of the tuning half of `cases.jsonl`, of which our encoder learned", seen=True),
    Track("seen files", FILE, _seen_files,
          "files of the set b of `sets/disk_files.jsonl`", seen=True),
    Track("short lines", TEXT, _lines,
          "60 of the reporting half of `sets/short.jsonl`; limits of ours were chosen on the set",
          seen=True),
    Track("gpualert's logs", FILE, _gpualert,
          "60 of the 474 logs of Parv-01/gpualert-eval (f402b79)", seen=True),
    Track("silent programs", PROGRAM, _programs,
          "12 failing programs of `probe/`, 6 of their healthy twins and 6 other healthy ones; the "
          "probe's rules were written on them", seen=True),
    Track("memory", MODEL, _models,
          "runs on an H100, and the least memory in which each survived"),
)  # fmt: skip


def by_name() -> dict[str, Track]:
    """The tracks by name."""
    return {track.name: track for track in TRACKS}
