"""Generated parts of the documents, between `<!-- generated: NAME -->` and `<!-- end -->`.

Names: `families` (a table of the families), `contents` (the entries of the page it stands in), `help` (every
command's --help), `count` (how many entries there are), `schema` (the facts of a profile), `shares` (how many of
them are confirmed), `limits` (after how many days a thing is stale). Nothing outside the marks is touched.
"""

from __future__ import annotations

import argparse
import io
import os
import re
from contextlib import redirect_stdout
from pathlib import Path
from unittest import mock

from ..catalogue import bundle
from ..catalogue.bundle import Catalogue
from ..catalogue.front_matter import split
from ..lookup.answer import plain

_PART = re.compile(r"(<!-- generated: (\w+) -->\n?)(.*?)(<!-- end -->)", re.S)
DOCUMENTS = ("README.md", "SKILL.md")


def outdated(root: Path, parser: argparse.ArgumentParser, write: bool) -> list[str]:
    """Names of the documents under `root` whose generated parts differ from today's; written when asked."""
    read = bundle.read(root)
    found = []
    for path in [*(root / name for name in DOCUMENTS), *bundle.pages(root)]:
        if not path.is_file():
            continue
        before = path.read_text(encoding="utf-8")
        name = path.relative_to(root).as_posix()
        after = _PART.sub(lambda m: m[1] + make(m[2], name, read, parser) + m[4], before)
        if after != before:
            found.append(name)
            if write:
                path.write_text(after, encoding="utf-8")
    return found


def make(part: str, page: str, read: Catalogue, parser: argparse.ArgumentParser) -> str:
    """The text of one generated part. Raises KeyError for an unknown name."""
    parts = {
        "families": _families,
        "contents": _contents,
        "help": _help,
        "count": _count,
        "schema": _schema,
        "shares": _shares,
        "limits": _limits,
    }
    return parts[part](page, read, parser)


def _families(page: str, read: Catalogue, parser) -> str:
    """A row for each page; a page may hold several families."""
    pages: dict[str, list[str]] = {}
    for family, group in read.families.items():
        numbers = sorted(int(re.sub(r"\D", "", entry.id.removeprefix(family))) for entry in group)
        pages.setdefault(group[0].path, []).append(f"{family}{numbers[0]}–{numbers[-1]}")
    rows = ["| ids | what goes wrong | file |", "|---|---|---|"]
    rows += [
        f"| {', '.join(families)} | {_title_of(read.root / path)} | `{path}` |"
        for path, families in pages.items()
    ]
    return "\n".join(rows) + "\n"


def _title_of(path: Path) -> str:
    first = split(path.read_text(encoding="utf-8"))[1].lstrip().split("\n", 1)[0]
    return first.removeprefix("# ").strip()


def _contents(page: str, read: Catalogue, parser) -> str:
    rows, section = [], None
    for entry in read.entries:
        if entry.path != page:
            continue
        if entry.section != section:
            section = entry.section
            rows.append(f"- **{section}**")
        rows.append(f"  - {entry.id} · {plain(entry.title)}")
    return "\n".join(rows) + "\n"


def _count(page: str, read: Catalogue, parser) -> str:
    ran = sum(bool(entry.ran) for entry in read.entries)
    return f"{len(read.entries)} entries in {len(read.families)} families; {ran} of them are proven by a program under evals/proofs.\n"


def _help(page: str, read: Catalogue, parser: argparse.ArgumentParser) -> str:
    texts = []
    with mock.patch.dict(os.environ, {"COLUMNS": "100", "NO_COLOR": "1"}):
        commands = next(
            a for a in parser._actions if isinstance(a, argparse._SubParsersAction)
        ).choices
        for command in commands.values():
            out = io.StringIO()
            with redirect_stdout(out):
                command.print_help()
            texts.append(out.getvalue().strip())
    return "```text\n" + "\n\n".join(texts) + "\n```\n"


def _schema(page: str, read: Catalogue, parser) -> str:
    from ..platforms.profile import NOT_THERE, Facts

    rows = ["| fact | its value | may be null for kind |", "|---|---|---|"]
    for name, field in Facts.model_fields.items():
        model = next(
            m
            for m in (field.annotation, *getattr(field.annotation, "__args__", ()))
            if hasattr(m, "model_fields")
        )
        value = model.model_fields["value"].annotation
        about = [
            f"`{key}`" + (f": {f.description}" if f.description else "")
            for key, f in value.model_fields.items()
        ]
        null = ", ".join(kind for kind, names in NOT_THERE.items() if name in names)
        rows.append(
            f"| `{name}` {'(' + field.description + ')' if field.description else ''} | {'; '.join(about)} | {null or '–'} |"
        )
    return "\n".join(rows) + "\n"


def _shares(page: str, read: Catalogue, parser) -> str:
    from ..platforms.profile import Facts, read_all

    rows, total, sure = ["| platform | confirmed | of | unconfirmed |", "|---|---|---|---|"], 0, 0
    for platform, profile in read_all(read.root).items():
        there = {
            name: fact
            for name in Facts.model_fields
            if (fact := getattr(profile.facts, name)) is not None
        }
        open_ = [name for name, fact in there.items() if fact.status != "confirmed"]
        rows.append(
            f"| {platform} | {len(there) - len(open_)} | {len(there)} | {', '.join(open_) or '–'} |"
        )
        total, sure = total + len(there), sure + len(there) - len(open_)
    rows.append(
        f"| **all** | **{sure}** | **{total}** | **{sure / max(total, 1):.0%} confirmed** |"
    )
    return "\n".join(rows) + "\n"


def _limits(page: str, read: Catalogue, parser) -> str:
    from ..platforms.ages import LIMITS

    return (
        "\n".join(
            [
                "| kind | days |",
                "|---|---|",
                *(f"| {kind} | {days} |" for kind, days in LIMITS.items()),
            ]
        )
        + "\n"
    )
