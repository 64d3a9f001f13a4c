"""The staleness check of a catalogue on disk, and its report for a terminal and as a Markdown page.

The command line and the MCP server call it. This module reads the pages and the clock.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sized
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from ..catalogue import bundle
from ..catalogue.freshness import read_limits
from ..catalogue.front_matter import read_fact_heads
from . import staleness

MOST_BYTES = 60_000  # of a page; GitHub takes 65,536 characters in an issue
SHOWN = 8  # findings of a section that a terminal shows without --all
# What Markdown reads as markup, and the two forms of a source that become a link.
_SPECIAL = re.compile(r"[\\`*\[\]<>&|~$]|(?<![^\W_])_|_(?![^\W_])")
_LINK = re.compile(r"\[(.*)\]\((https?://[^\s<>]+)\)|(https?://[^\s<>]+)")


def check(
    on: date | None = None,
    *,
    packages: str | None = None,
    released: str | None = None,
    scope: str | None = None,
    limits: list[str] | None = None,
    root: Path | None = None,
) -> staleness.Report:
    """Check this installation's catalogue, or the one under `root`, as of the day `on`.

    `packages`, `released` and `scope` are as in `staleness.check`; `limits` are overrides such as
    `price=60`. Raises BadQuestion, InstalledError, FactError and CatalogueError, each with one line
    that says what to do.
    """
    catalogue = bundle.read(root) if root else bundle.load()
    return staleness.check(
        catalogue.entries,
        read_fact_heads(catalogue.root),
        staleness.read_statements(catalogue.root),
        on=on or date.today(),
        packages=packages,
        released=released,
        scope=scope,
        limits=read_limits(limits or []),
    )


@dataclass(frozen=True)
class Section:
    """One kind of finding: its line in the summary, a heading, the findings, and a gist.

    If there are more than `SHOWN` findings, a terminal shows the gist instead, if there is one.
    """

    summary: str
    heading: str
    lines: list[str]
    gist: list[str] | None = None


def as_text(report: staleness.Report, everything: bool = False) -> str:
    """The report for a terminal: a summary line for each kind of finding, then the findings.

    If there are more than `SHOWN`, facts past their limit and facts without a date are summed up by
    platform.
    """
    out, cut = printed(_sections(report), everything)
    if not out:
        return "Nothing is stale."
    if cut:
        out += [
            "",
            "--all prints every finding; --scope NAME prints those of one platform, page or id.",
        ]
    return "\n".join(out)


def printed(every: Iterable[Section], everything: bool) -> tuple[list[str], bool]:
    """The lines of a report, and whether it is cut: a section shows at most `SHOWN` findings.

    With `everything` it shows all.
    """
    sections = [section for section in every if section.lines]
    out = [section.summary for section in sections]
    cut = False
    for section in sections:
        lines = section.lines
        if not everything and len(lines) > SHOWN:
            cut, lines = True, section.gist
            if lines is None:
                rest = len(section.lines) - SHOWN
                lines = [*section.lines[:SHOWN], f"… and {rest} more"]
        if lines:
            out += ["", f"{section.heading}:", *(f"  {line}" for line in lines)]
    return out, cut


def _sections(report: staleness.Report) -> list[Section]:
    """The kinds of findings; those that a user can act on come first."""
    facts = [item for item in report.stale if "." in item["id"]]
    entries = [item for item in report.stale if "." not in item["id"]]
    undated = [item for item in report.doubt if item["why"] == staleness.UNDATED]
    changed = [item for item in report.doubt if item["why"] != staleness.UNDATED]
    changed.sort(key=lambda item: not item["why"].startswith("ran with "))  # their proofs can rerun
    ran = sum(item["why"].startswith("ran with ") for item in changed)
    return [
        Section(
            f"Your packages: {count(report.out_of_range, 'entry')} about other versions",
            "About other versions than yours",
            [
                f"{item['id']}: about {item['requirement']}, installed is {item['installed']}"
                for item in report.out_of_range
            ],
        ),
        Section(
            f"Your packages: {count(report.concerns, 'entry')} about these versions",
            "About the versions you have",
            [
                f"{item['id']}: about {item['requirement']}, installed is {item['installed']}"
                for item in report.concerns
            ],
            gist=[],
        ),
        Section(
            f"Release: {count(changed, 'entry')} to check again, {ran} that ran with an older "
            f"version and {len(changed) - ran} that were only read",
            "To check again after the release",
            [f"{item['id']}: {item['why']}: {item['source']}" for item in changed],
        ),
        Section(
            f"Contradictions: {count(report.contradictions, 'fact')} with more than one value",
            "More than one value",
            [
                f"{item['id']}: "
                + "; ".join(f"{value['value']} in {value['place']}" for value in item["values"])
                for item in report.contradictions
            ],
        ),
        Section(
            f"Entries: {len(entries)} past the limit for their age",
            "Entries past their limit",
            [_aged(item) for item in entries],
        ),
        Section(
            f"Platforms: {count(facts, 'fact')} past the limit for their age",
            "Facts past their limit",
            [_aged(item) for item in facts],
            gist=_by_platform(facts),
        ),
        Section(
            f"Platforms: {count(undated, 'fact')} without a dated source",
            "Facts without a dated source",
            [f"{item['id']}: {item['source']}" for item in undated],
            gist=[", ".join(f"{name} {count}" for name, count in _platforms(undated))],
        ),
    ]


def count(findings: Sized, noun: str) -> str:
    """How many findings there are: `1 fact`, `3 entries`."""
    many = {"entry": "entries", "fact": "facts"}[noun]
    return f"{len(findings)} {noun if len(findings) == 1 else many}"


def _aged(item: dict) -> str:
    when = f"checked {item['checked']}, limit {item['limit_days']} days"
    matters = f" ({item['matters']})" if item.get("matters") else ""
    return f"{item['id']}{matters}: {when}: {item['source']}"


def _platforms(facts: list[dict]) -> list[tuple[str, int]]:
    """(platform, number of these facts), most facts first."""
    counts = Counter(item["id"].partition(".")[0] for item in facts)
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def _by_platform(facts: list[dict]) -> list[str]:
    """A line for each platform: the number of these facts, and the oldest."""
    out = []
    for name, _ in _platforms(facts):
        mine = [item for item in facts if item["id"].startswith(f"{name}.")]
        oldest = min(mine, key=lambda item: item["checked"])
        fact = oldest["id"].partition(".")[2]
        out.append(f"{name}: {count(mine, 'fact')}, oldest {fact} of {oldest['checked']}")
    return out


def as_markdown(report: staleness.Report, on: date) -> str:
    """The report as a page for an issue, a table for each kind of finding, cut at `MOST_BYTES`."""
    return page(
        f"Staleness on {on}",
        _tables(report),
        "Nothing is stale.",
        f"remote-gpu-trainer staleness --on {on} --json",
    )


def page(title: str, tables: list[dict], nothing: str, whole: str) -> str:
    """A page of tables for an issue, cut at `MOST_BYTES`; the command `whole` has all of it.

    `nothing` is said where no table has a row.
    """
    import jinja2  # only this form of the report needs it

    form = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: value if isinstance(value, _Markdown) else _escaped(str(value)),
        autoescape=False,  # the page is Markdown; `finalize` escapes it
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    ).get_template("staleness.md.j2")
    text = form.render(title=title, tables=tables, nothing=nothing)
    if len(text.encode()) <= MOST_BYTES:
        return text
    kept = text.encode()[:MOST_BYTES].decode("utf-8", "ignore").rpartition("\n")[0]
    left = len(text.splitlines()) - len(kept.splitlines())
    return f"{kept}\n\nCut here: {left} more lines; `{whole}` has all.\n"


def _tables(report: staleness.Report) -> list[dict]:
    contradicted = [
        {
            "id": item["id"],
            "values": "; ".join(f"{value['value']} ({value['place']})" for value in item["values"]),
        }
        for item in report.contradictions
    ]
    named = (
        ("Past their limit, soonest first", "id checked limit_days source", report.stale),
        ("Contradictions", "id values", contradicted),
        ("Not about this environment", "id requirement installed", report.out_of_range),
        ("About this environment", "id requirement installed", report.concerns),
        ("In doubt", "id why source", report.doubt),
    )
    return [table(title, columns, rows) for title, columns, rows in named]


def table(title: str, columns: str, rows: list[dict]) -> dict:
    """A table of a page: `columns` names keys of the rows; a `source` becomes a link."""
    return {
        "title": title,
        "columns": [_Markdown(column) for column in columns.split()],
        "rows": [
            {**row, "source": _link(row["source"])} if "source" in row else row for row in rows
        ],
    }


class _Markdown(str):
    """Text that is already Markdown; the template doesn't escape it."""


def _escaped(text: str) -> str:
    """A value as plain text in a table's cell: one line, with markup escaped."""
    line = "".join(character if character.isprintable() else " " for character in text)
    return _SPECIAL.sub(lambda match: "\\" + match[0], " ".join(line.split()))


def _link(source: str) -> str:
    """A source, `[title](URL)` or a URL, as a link; any other text is escaped."""
    match = _LINK.fullmatch(source)
    if not match or not source.isprintable():
        return _Markdown(_escaped(source))
    address = match[2] or match[3]
    for character, code in (("\\", "%5C"), ("|", "%7C"), ("`", "%60")):
        address = address.replace(character, code)
    if match[3]:
        return _Markdown(f"<{address}>")
    return _Markdown(f"[{_escaped(match[1].replace('`', ''))}](<{address.replace('&', '&amp;')}>)")
