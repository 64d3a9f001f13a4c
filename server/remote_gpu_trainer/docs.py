"""Generated parts of the documents, between `<!-- generated: NAME -->` and `<!-- end -->`.

Names: `families` (a table of the families), `contents` (the entries of the page it stands in), `help` (every
command's --help), `count` (how many entries there are). Nothing outside the marks is touched.
"""

from __future__ import annotations

import argparse
import io
import os
import re
from contextlib import redirect_stdout
from pathlib import Path
from unittest import mock

from . import catalogue
from .catalogue import Catalogue
from .lookup import plain

_PART = re.compile(r"(<!-- generated: (\w+) -->\n?)(.*?)(<!-- end -->)", re.S)
DOCUMENTS = ("README.md", "SKILL.md")


def outdated(root: Path, parser: argparse.ArgumentParser, write: bool) -> list[str]:
    """Names of the documents under `root` whose generated parts differ from today's; written when asked."""
    read = catalogue.read(root)
    found = []
    for path in [*(root / name for name in DOCUMENTS), *catalogue.pages(root)]:
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
    return {"families": _families, "contents": _contents, "help": _help, "count": _count}[part](page, read, parser)


def _families(page: str, read: Catalogue, parser) -> str:
    rows = ["| ids | what goes wrong | file |", "|---|---|---|"]
    for family, group in read.families.items():
        title = _title_of(read.root / group[0].path)
        rows.append(f"| {family}1–{group[-1].id} | {title} | `{group[0].path}` |")
    return "\n".join(rows) + "\n"


def _title_of(path: Path) -> str:
    first = path.read_text(encoding="utf-8").split("\n", 1)[0]
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
        commands = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction)).choices
        for command in commands.values():
            out = io.StringIO()
            with redirect_stdout(out):
                command.print_help()
            texts.append(out.getvalue().strip())
    return "```text\n" + "\n\n".join(texts) + "\n```\n"
