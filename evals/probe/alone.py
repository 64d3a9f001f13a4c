"""What the probe alone says on whole projects: the tables of projects/README.md, from projects/probe_alone.json.

    python evals/probe/alone.py [--write]

Without --write it prints the tables. A person judged `names_fault` and `false_alarm` by the README's rule.
"""

import json
import re
import sys
from pathlib import Path

FOLDER = Path(__file__).with_name("projects")
MARK = "<!-- generated: ../alone.py, from probe_alone.json -->\n"
PART = re.compile(re.escape(MARK) + ".*?(?=<!-- end -->)", re.S)
NAMED = ("finding", "marked fact", "plain fact", "no")
ALARMS = ("wrong", "suspicious", "marked fact", "none")
KINDS = {"D": "data", "L": "library", "D/L": "data and library", "other": "other"}


def record() -> list[dict]:
    """The cases: one a variant of a project."""
    return json.loads((FOLDER / "probe_alone.json").read_text(encoding="utf-8"))["cases"]


def row(name: str, cases: list[dict], field: str, values: tuple[str, ...]) -> str:
    """One row: how many cases there are, and how many of each value."""
    counts = [sum(case[field] == value for case in cases) for value in values]
    return "| " + " | ".join([name, *map(str, [len(cases), *counts])]) + " |"


def tables(cases: list[dict]) -> str:
    """Both tables: faults by kind, healthy variants by set."""
    faults = [case for case in cases if case["fault"]]
    sound = [case for case in cases if not case["fault"]]
    lines = [
        "| faults | in all | " + " | ".join(NAMED[:3]) + " | not named |",
        "|---|---|---|---|---|---|",
    ]
    for part in ("first", "second"):
        for kind, name in KINDS.items():
            those = [case for case in faults if (case["set"], case["kind"]) == (part, kind)]
            if those:
                lines.append(row(f"{part}: {name}", those, "names_fault", NAMED))
        those = [case for case in faults if case["set"] == part]
        lines.append(row(f"{part}: all", those, "names_fault", NAMED))
    lines += [row("all", faults, "names_fault", NAMED), ""]
    lines += [
        "| healthy variants | in all | " + " | ".join(ALARMS) + " |",
        "|---|---|---|---|---|---|",
    ]
    for part in ("first", "second"):
        those = [case for case in sound if case["set"] == part]
        lines.append(row(part, those, "false_alarm", ALARMS))
    return "\n".join([*lines, row("all", sound, "false_alarm", ALARMS), ""])


def filled(text: str) -> str:
    """The README with today's tables between its marks."""
    return PART.sub(lambda _: f"{MARK}{tables(record())}", text)


if __name__ == "__main__":
    page = FOLDER / "README.md"
    if sys.argv[1:] == ["--write"]:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
    print(tables(record()))
