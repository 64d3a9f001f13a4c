#!/usr/bin/env python3
"""Tell which facts and entries of this bundle were checked too long ago.

Python 3.8 and the standard library; it needs no network and only reads.

usage: check_staleness.py [--on DATE] [--root FOLDER] [--limit KIND=DAYS] [--json | --markdown]

It judges by age alone, not whether a statement is true. For versions, releases and contradictions
see `rgt staleness`.

Exit 0: nothing is past its limit. Exit 1: something is. Exit 2: could not tell.
"""

import argparse
import json
import os
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# A checkout, or an installed bundle.
for _place in (HERE.parent / "server", HERE.parent.parent.parent):
    if (_place / "remote_gpu_trainer" / "catalogue" / "entry.py").is_file():
        sys.path.insert(0, str(_place))
        break

from remote_gpu_trainer.catalogue import bundle, freshness
from remote_gpu_trainer.catalogue.facts import FactError, FactHead, fact_head, pages, split

_FACT = re.compile(r"  ([a-z_]+):\s*(null|~)?\s*$")
_FIELD = re.compile(r"    (source|date|status|kind):\s*(.*?)\s*$")


def main() -> int:
    """Print what is past its limit. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--on", metavar="DATE", help="judge by this day, YYYY-MM-DD (default today)"
    )
    parser.add_argument(
        "--root",
        type=Path,
        default=HERE.parent,
        metavar="FOLDER",
        help="the bundle (default: the one this script is in)",
    )
    parser.add_argument(
        "--limit",
        action="append",
        default=[],
        metavar="KIND=DAYS",
        help="another limit; KIND is one of " + ", ".join(freshness.LIMITS),
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print an object")
    form.add_argument("--markdown", action="store_true", help="print a table")
    args = parser.parse_args()
    try:
        day, limits = freshness.read_day(args.on), freshness.read_limits(args.limit)
    except freshness.BadQuestion as error:
        return refuse(str(error))
    if not (args.root / "references").is_dir():
        return refuse(f"no references/ in {args.root}; pass the bundle's folder with --root")
    read = bundle.read(args.root)
    try:
        heads = [
            head
            for page in pages(args.root)
            for head in fact_heads(page.read_text(encoding="utf-8"), page.stem)
        ]
    except (FactError, OSError) as error:
        return refuse(str(error))
    rows = [item.as_dict() for item in freshness.past(read.entries, heads, day, limits)]
    if args.json:
        print(json.dumps({"stale": rows}, ensure_ascii=False, indent=1))
    elif args.markdown:
        print(
            f"# Past their limit on {day} ({len(rows)})\n\n"
            "| id | checked | limit_days | source |\n|---|---|---|---|"
        )
        for row in rows:
            print("| {id} | {checked} | {limit_days} | {source} |".format(**row))
    else:
        for row in rows:
            print("{id}: checked {checked}, limit {limit_days} days: {source}".format(**row))
        total = len(read.entries) + len(heads)
        print(f"{len(rows)} of {total} entries and facts are past their limit", file=sys.stderr)
    return 1 if rows else 0


def fact_heads(text: str, profile: str) -> "list[FactHead]":
    """The heads of all facts of a page, read line by line: PyYAML may be missing here.

    It takes the form that the pages of this bundle have: a fact is indented by two blanks, each
    field of its head by four and on one line. Raises FactError for a bad date or kind.
    """
    facts = {}  # type: dict[str, dict[str, str]]
    inside, name = False, ""
    for line in split(text)[0].split("\n"):
        if line[:1].strip():
            inside, name = line.startswith("facts:"), ""
            continue
        fact, field = _FACT.match(line), _FIELD.match(line)
        if inside and fact:
            name = fact[1]
        elif inside and field and name:
            facts.setdefault(name, {})[field[1]] = _bare(field[2])
    return [fact_head(profile, name, fields) for name, fields in facts.items()]


def _bare(text: str) -> str:
    """A YAML value of one line without its quotes or the comment after it."""
    if text.startswith(("'", '"')) and text.find(text[0], 1) > 0:
        return text[1 : text.find(text[0], 1)]
    return text.split(" #")[0].strip()


def refuse(text: str) -> int:
    """Say why there is no answer. Returns the exit code."""
    print("check_staleness: " + text, file=sys.stderr)
    return 2


if __name__ == "__main__":
    try:
        try:
            code = main()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output has gone, for example `head`
        os._exit(141)
    sys.exit(code)
