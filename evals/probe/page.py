"""The page evals/PROBE.md, from the record of the campaign."""

import hashlib
import json
from pathlib import Path

HEAD = """\
# What the probe names

<!-- generated: page.py, from tests/records/probe.json and probe/first_run.json -->

Each entry has two programs in `evals/probe/`: one with the failure, and the same program without it. `scripts/probe.py` ran with
both, as a user starts it. `named` means that the probe named the entry at this level on the failing program. The last column holds
what it said about the healthy program. [evals/probe/README.md](probe/README.md) says which entries were kept aside.
"""

# Kept-aside entries that a rule could name already; evals/probe/README.md tells why.
HAD_RULES = ("O2", "O4", "O5", "O26", "D22", "M20")

# The one run of the kept-aside pairs. Nothing writes this file anew.
FIRST_RUN = Path(__file__).with_name("first_run.json")


def told(findings: list[list[str]]) -> str:
    """Findings as text: `O12 (wrong), O7 (hint)`."""
    return ", ".join(f"{entry} ({level})" for entry, level in findings) or "nothing"


def named(entry: str, findings: list[list[str]]) -> str:
    """The level at which the entry was named, or `no`."""
    return next((level for one, level in findings if one == entry), "no")


def kept_aside(entry: str) -> bool:
    """Whether the pair of this entry was kept from those who wrote the rules."""
    return int(hashlib.sha256(entry.encode()).hexdigest(), 16) % 3 == 0


def table(pairs: list[dict], titles: dict[str, str]) -> list[str]:
    """One row per pair of programs."""
    lines = [
        "| Entry | Title | Named | Also on the failing program | On the healthy program |",
        "|---|---|---|---|---|",
    ]
    for row in pairs:
        also = [one for one in row["failing"] if one[0] != row["id"]]
        lines.append(
            f"| {row['id']} | {titles[row['id']].replace('|', chr(92) + '|')} "
            f"| {named(row['id'], row['failing'])} | {told(also)} | {told(row['healthy'])} |"
        )
    return lines


def summed(pairs: list[dict]) -> str:
    """How many pairs are named on the failing program and silent on the healthy one."""
    right = [row for row in pairs if named(row["id"], row["failing"]) != "no"]
    quiet = [row for row in pairs if named(row["id"], row["healthy"]) == "no"]
    return (
        f"{len(right)} of {len(pairs)} entries are named on the failing program, and "
        f"{len(quiet)} of {len(pairs)} aren't on the healthy one."
    )


def first_run() -> list[dict]:
    """The rows of the kept-aside pairs as the one run gave them."""
    return json.loads(FIRST_RUN.read_text(encoding="utf-8"))["results"]


def page(results: list[dict], titles: dict[str, str]) -> str:
    """The whole page. `results` are the rows of the record, `titles` those of the entries."""
    pairs = [row for row in results if "failing" in row]
    rest = [row for row in results if "failing" not in row]
    built = [row for row in pairs if not kept_aside(row["id"])]
    aside = [row for row in pairs if kept_aside(row["id"])]
    first = first_run()
    ruled = [row for row in first if row["id"] in HAD_RULES]
    unseen = [row for row in first if row["id"] not in HAD_RULES]
    alarms = [row for row in results if "wrong" in {level for _, level in row["healthy"]}]
    right = [row for row in pairs if named(row["id"], row["failing"]) != "no"]
    lines = [
        HEAD,
        f"Of {len(results)} healthy programs, {len(alarms)} got a finding of level wrong. "
        f"Of {len(pairs)} entries with a pair, {len(right)} are named today. That number doesn't "
        "say how the probe does on failures it wasn't built for; the first run of the kept-aside "
        "pairs does.",
        "",
        "## Pairs that the rules were written on",
        "",
        summed(built),
        "",
        *table(built, titles),
        "",
        "## Pairs kept aside: their first run",
        "",
        "Nobody who wrote rules had seen these programs. They ran once, and this is how it came out.",
        "It stays here as it was, whatever the probe learns later.",
        "",
        f"Entries without a rule before that run: {summed(unseen)}",
        "",
        *table(unseen, titles),
        "",
        "Entries that had a rule, because a list of what to look at came before the division: "
        + summed(ruled),
        "",
        *table(ruled, titles),
        "",
        "## The same pairs, with rules written after that run",
        "",
        "The programs were read once their run was over, and rules were written on them. So this",
        "table is no measure of what the probe does with failures that it doesn't know.",
        "",
        summed(aside),
        "",
        *table(aside, titles),
        "",
        "## Healthy programs without a failing twin",
        "",
        "| Program | Said |",
        "|---|---|",
        *(f"| `{row['id']}` | {told(row['healthy'])} |" for row in rest),
    ]
    return "\n".join([*lines, "", "<!-- end -->", ""])
