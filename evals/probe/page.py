"""The page evals/PROBE.md, from the record of the campaign."""

import hashlib
import json
import statistics
from pathlib import Path

HEAD = """\
# What the probe names

<!-- generated: page.py, from tests/records/probe.json, tests/records/probe_cost.json, probe/first_run.json and probe/public_programs.json -->

Each entry has two programs in `evals/probe/`: one with the failure, and the same program without it. `scripts/probe.py` ran with
both, as a user starts it. `named` means that the probe named the entry at this level on the failing program. The last column holds
what it said about the healthy program. [evals/probe/README.md](probe/README.md) says which entries were kept aside.
"""

# Kept-aside entries that a rule could name already; evals/probe/README.md tells why.
HAD_RULES = ("O2", "O4", "O5", "O26", "D22", "M20")

# The one run of the kept-aside pairs. Nothing writes this file anew.
FIRST_RUN = Path(__file__).with_name("first_run.json")

# What a step costs with the probe; cost.py writes it.
COST = Path(__file__).resolve().parents[2] / "tests/records/probe_cost.json"

# Programs of other people's repositories, run by hand; evals/probe/README.md tells how.
PUBLIC = Path(__file__).with_name("public_programs.json")


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


def public() -> dict:
    """The runs of public programs: `date`, `torch`, and the rows of `healthy` and `reproductions`."""
    return json.loads(PUBLIC.read_text(encoding="utf-8"))


def hinted(results: list[dict]) -> list[dict]:
    """The healthy programs that the probe calls suspicious."""
    return [row for row in results if "hint" in {level for _, level in row["healthy"]}]


def cost() -> dict:
    """The record of what a step costs."""
    return json.loads(COST.read_text(encoding="utf-8"))


def ratios(pairs: list[dict], steps: str) -> list[float]:
    """Of each pair of runs, the seconds with the probe beside those without it."""
    return [pair["probed"][steps] / pair["plain"][steps] for pair in pairs]


def of_cost(record: dict) -> list[str]:
    """The section on what a step costs."""
    pairs = record["results"]
    looked, after = (ratios(pairs, steps) for steps in ("looked_at", "after"))
    alike = sum(pair["plain"]["weights"] == pair["probed"]["weights"] for pair in pairs)
    lines = [
        "## What it costs",
        "",
        "A transformer of ten million weights (`tools/gpu_campaign/programs/probe_ten_million_sound.py`) "
        f"on one core of a CPU, {len(pairs)} pairs of runs in turns, on {record['date']} with torch "
        f"{record['torch']} ({record['machine']}). The seconds are the processor's, as other work ran "
        "on the machine. `python evals/probe/cost.py` measures it again.",
        "",
        f"With the probe the first 30 steps take {statistics.median(looked):.3f} times what they take "
        f"without it ({min(looked):.3f} to {max(looked):.3f}), the next 30 "
        f"{statistics.median(after):.3f} times ({min(after):.3f} to {max(after):.3f}): medians, lowest "
        f"and highest of the pairs. The weights at the end are the same to the last bit in {alike} of "
        f"{len(pairs)} pairs.",
        "",
        "The next 30 steps run without any look, and yet differ from those of the other process. Beside "
        "its own next 30 steps each run's first 30 take "
        f"{statistics.median(one / two for one, two in zip(looked, after, strict=True)):.3f} times as "
        "much with the probe as without it, by the median of the pairs.",
        "",
        "| Pair | First 30 steps, without | With | Next 30 steps, without | With | Load of the machine |",
        "|---|---|---|---|---|---|",
    ]
    for place, pair in enumerate(pairs, 1):
        told = [pair[on][steps] for steps in ("looked_at", "after") for on in ("plain", "probed")]
        seconds = " | ".join(f"{one:.2f} s" for one in told)
        lines.append(f"| {place} | {seconds} | {pair['load']:.1f} |")
    return lines


def said(row: dict) -> str:
    """What the probe said about a public program, each entry once."""
    pairs = [[one["id"], one["level"]] for one in row["findings"]]
    return told([pair for place, pair in enumerate(pairs) if pair not in pairs[:place]])


def of_others(runs: dict) -> list[str]:
    """The section on healthy programs of other repositories."""
    rows = runs["healthy"]
    looked = [row for row in rows if row["steps"]]
    wrong = [row for row in looked if row["verdict"] == "wrong"]
    real = [row for row in wrong if row.get("real")]
    stopped = [row for row in looked if row.get("stopped")]
    files = {(row["repository"], row["path"]) for row in looked}
    blind = len(rows) - len(looked)
    hints: dict[str, int] = {}
    for row in looked:
        for entry in {one["id"] for one in row["findings"] if one["level"] == "hint"}:
            hints[entry] = hints.get(entry, 0) + 1
    ordered = sorted(hints.items(), key=lambda one: (-one[1], one[0]))
    sources: dict[tuple[str, str], int] = {}
    for row in looked:
        source = (row["repository"], row["commit"])
        sources[source] = sources.get(source, 0) + 1
    lines = [
        "## Healthy programs of others",
        "",
        f"Examples of public repositories, run once on a CPU on {runs['date']} with torch "
        f"{runs['torch']}. Their code isn't here. "
        "[public_programs.json](probe/public_programs.json) holds the path, the arguments, what was "
        "changed so that a program runs with small data, and the evidence. Rules that were added or "
        "changed after that day weren't tried on them.",
        "",
        f"{len(looked)} runs took steps that the probe saw, of {len(files)} programs; "
        f"{len(looked) - len(stopped)} ended by themselves, {len(stopped)} were stopped by a time "
        f"limit. {len(wrong)} got a finding of level wrong: {len(wrong) - len(real)} false, "
        f"{len(real)} with a failure that the program really has. "
        f"{sum(bool(row['findings']) for row in looked)} got any finding. {blind} more runs update "
        "their weights without an optimizer, so nothing was looked at.",
        "",
        "These runs brought out three faults of the probe, which are mended:",
        "",
        *(f"- {one}" for one in runs["mended"]),
        "",
        "| Repository | Commit | Runs |",
        "|---|---|---|",
        *(f"| {name} | `{commit[:10]}` | {n} |" for (name, commit), n in sorted(sources.items())),
        "",
        "How often each hint came: "
        + (", ".join(f"{entry} {n}" for entry, n in ordered) or "never")
        + ".",
        "",
        "Those that got a finding:",
        "",
        "| Repository | Program | Run | Steps | Said | Remark |",
        "|---|---|---|---|---|---|",
    ]
    lines += (
        f"| {row['repository']} | `{row['path']}` | {row['name']} | {row['steps']} | {said(row)} "
        f"| {row.get('remark', '')} |"
        for row in looked
        if row["findings"]
    )
    return lines


def reproductions(runs: dict) -> list[str]:
    """The section on TrainCheck's reproductions of silent errors."""
    rows = runs["reproductions"]
    ran = [row for row in rows if row["ran"]]
    steps = [row for row in ran if row["steps"]]
    seen = [row for row in ran if row["findings"]]
    lines = [
        "## TrainCheck's reproductions",
        "",
        "The programs that [TrainCheck](https://github.com/OrderLab/TrainCheck-Evaluation-Workloads) "
        "reproduces silent errors with. Each that runs on a CPU with this torch ran once, after the "
        "rules stood, and this is how it came out. No rule was changed on them.",
        "",
        f"{len(ran)} of {len(rows)} ran. The probe said something about {len(seen)} of them, and "
        f"named the cause of {sum(bool(row.get('named')) for row in ran)}. The others need several "
        "GPUs or older libraries, or train nothing; public_programs.json has the reason of each.",
        "",
        "| Error | Program | Steps | Said | Remark |",
        "|---|---|---|---|---|",
    ]
    lines += (
        f"| {row['name']} | `{row['path']}` | {row['steps']} | {said(row)} | {row['remark']} |"
        for row in steps
    )
    return lines


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
    doubted = hinted(results)
    each = ", ".join(f"`{row['id']}` ({told(row['healthy'])})" for row in doubted)
    lines = [
        HEAD,
        f"Of {len(results)} healthy programs, {len(alarms)} got a finding of level wrong, and "
        f"{len(doubted)} are called suspicious, {len(doubted) / len(results):.1%}: {each or 'none'}. "
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
        f"Entries without a rule before that run: {summed(unseen)} They are "
        f"{', '.join(row['id'] for row in unseen)}. Those on which the probe said anything:",
        "",
        *table([row for row in unseen if row["failing"] or row["healthy"]], titles),
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
        f"Of {len(rest)} programs in `probe/healthy/`, the probe said nothing about "
        f"{sum(not row['healthy'] for row in rest)}. Of the others:",
        "",
        *(f"- `{row['id']}`: {told(row['healthy'])}" for row in rest if row["healthy"]),
        "",
        *of_cost(cost()),
        "",
        *of_others(public()),
        "",
        *reproductions(public()),
    ]
    return "\n".join([*lines, "", "<!-- end -->", ""])
