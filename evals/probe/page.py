"""The page evals/PROBE.md, from the record of the campaign."""

from __future__ import annotations

HEAD = """\
# What the probe names

<!-- generated: page.py, from tests/records/probe.json -->

Each entry has two programs in `evals/probe/`: one with the failure, and the same program without it. `scripts/probe.py` ran with
both, as a user starts it. `named` means that the probe named the entry at this level on the failing program. The last column holds
what it said about the healthy program. [evals/probe/README.md](probe/README.md) says which entries were kept aside.
"""


def told(findings: list[list[str]]) -> str:
    """Findings as text: `O12 (wrong), O7 (hint)`."""
    return ", ".join(f"{entry} ({level})" for entry, level in findings) or "nothing"


def named(entry: str, findings: list[list[str]]) -> str:
    """The level at which the entry was named, or `no`."""
    return next((level for one, level in findings if one == entry), "no")


def page(results: list[dict], titles: dict[str, str]) -> str:
    """The whole page. `results` are the rows of the record, `titles` those of the entries."""
    pairs = [row for row in results if "failing" in row]
    rest = [row for row in results if "failing" not in row]
    right = [row for row in pairs if named(row["id"], row["failing"]) != "no"]
    quiet = [row for row in pairs if named(row["id"], row["healthy"]) == "no"]
    alarms = [row for row in results if "wrong" in {level for _, level in row["healthy"]}]
    lines = [
        HEAD,
        f"{len(right)} of {len(pairs)} entries are named on the failing program, and "
        f"{len(quiet)} of {len(pairs)} aren't on the healthy one. Of {len(results)} healthy programs, "
        f"{len(alarms)} got a finding of level wrong.",
        "",
        "| Entry | Title | Named | Also on the failing program | On the healthy program |",
        "|---|---|---|---|---|",
    ]
    for row in pairs:
        also = [one for one in row["failing"] if one[0] != row["id"]]
        lines.append(
            f"| {row['id']} | {titles[row['id']].replace('|', chr(92) + '|')} "
            f"| {named(row['id'], row['failing'])} | {told(also)} | {told(row['healthy'])} |"
        )
    lines += ["", "Healthy programs that have no failing twin, in `evals/probe/healthy/`:", ""]
    lines += ["| Program | Said |", "|---|---|"]
    lines += [f"| `{row['id']}` | {told(row['healthy'])} |" for row in rest]
    return "\n".join([*lines, "", "<!-- end -->", ""])
