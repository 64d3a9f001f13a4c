"""The edge of the staleness check: reads the pages and the clock. Both front ends call it."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from ..catalogue import bundle, front_matter
from . import ages, staleness, statements

MOST_BYTES = 60_000  # of a page; GitHub takes 65,536 characters in an issue


def check(
    on: date | None = None,
    *,
    packages: str | None = None,
    released: str | None = None,
    scope: str | None = None,
    limits: list[str] | None = None,
    root: Path | None = None,
) -> staleness.Report:
    """Check this installation's catalogue, or the one under `root`. `limits`: overrides such as `price=60`.

    Raises BadQuestion, InstalledError, FactError and CatalogueError, each with one line that says what to do.
    """
    read = bundle.read(root) if root else bundle.load()
    return staleness.check(
        read.entries, front_matter.read_all(read.root), statements.read(read.root),
        on=on or date.today(), packages=packages, released=released, scope=scope, limits=ages.read_limits(limits or []),
    )  # fmt: skip


def as_text(report: staleness.Report) -> str:
    """The report for a terminal, one line a finding."""
    out = [
        f"{s['id']}: stale, checked {s['checked']}, limit {s['limit_days']} days: {s['source']}"
        for s in report.stale
    ]
    out += [
        f"{c['id']}: contradiction: "
        + "; ".join(f"{v['value']} in {v['place']}" for v in c["values"])
        for c in report.contradictions
    ]
    out += [
        f"{o['id']}: doesn't concern this environment: about {o['requirement']}, installed is {o['installed']}"
        for o in report.out_of_range
    ]
    out += [
        f"{c['id']}: concerns this environment: {c['requirement']}, installed is {c['installed']}"
        for c in report.concerns
    ]
    out += [f"{d['id']}: in doubt: {d['why']}: {d['source']}" for d in report.doubt]
    return "\n".join(out) or "nothing stale"


def as_markdown(report: staleness.Report, on: date) -> str:
    """The report as a page for an issue: one table a kind of finding, cut at what an issue holds."""
    tables = (
        (
            "Past their limit, soonest first",
            ("id", "checked", "limit_days", "source"),
            report.stale,
        ),
        (
            "Contradictions",
            ("id", "values"),
            [
                {
                    "id": c["id"],
                    "values": "; ".join(f"{v['value']} ({v['place']})" for v in c["values"]),
                }
                for c in report.contradictions
            ],
        ),
        ("Not about this environment", ("id", "requirement", "installed"), report.out_of_range),
        ("About this environment", ("id", "requirement", "installed"), report.concerns),
        ("In doubt", ("id", "why", "source"), report.doubt),
    )
    out = [f"# Staleness on {on}", ""]
    for title, columns, rows in tables:
        if rows:
            out += [
                f"## {title} ({len(rows)})",
                "",
                "| " + " | ".join(columns) + " |",
                "|" + "---|" * len(columns),
            ]
            out += [
                "| " + " | ".join(str(row[c]).replace("|", "\\|") for c in columns) + " |"
                for row in rows
            ] + [""]
    text = "\n".join(out if len(out) > 2 else [*out, "Nothing is stale.", ""])
    if len(text.encode()) <= MOST_BYTES:
        return text
    kept = text.encode()[:MOST_BYTES].decode("utf-8", "ignore").rpartition("\n")[0]
    return f"{kept}\n\nCut here: {len(text.splitlines()) - len(kept.splitlines())} more lines; `remote-gpu-trainer staleness --on {on} --json` has all.\n"
