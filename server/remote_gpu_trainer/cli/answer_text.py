"""An answer as plain text, for programs, files and terminals without colours."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping

from ..catalogue.entry import Entry
from ..logs.waiting import is_step
from ..lookup.answer import Answer, plain
from ..lookup.excerpts import fitting, opening

WHOLE = {"root_cause": "cause", "fix": "fix", "check": "check"}  # an entry's field: its label
LABELS = {**WHOLE, "distinguish": "don't confuse with"}


def as_text(answer: Answer, command: str = "", entries: Mapping[str, Entry] | None = None) -> str:
    """The answer as lines of text.

    `command` prints a whole entry; `{id}` in it stands for the entry's id. With `entries` (by id),
    cause, fix and check of the first match aren't shortened.
    """
    out = []
    for place, match in enumerate(answer.matches):
        out.append(
            f"{match['id']}  {match['title']}\n"
            f"    {match['confidence']} confidence, {match['severity']}; {match['why']}"
        )
        if match["stale"]:
            out.append(f"    in doubt: {match['stale']}")
        whole = entries[match["id"]] if entries and place == 0 else None
        for name, label in LABELS.items():
            if whole and name in WHOLE:
                out.append(f"    {label}:\n{textwrap.indent(getattr(whole, name), ' ' * 8)}")
            elif match.get(name):
                out.append(_wrap(f"{label}: {match[name]}"))
        if place == 0:
            told = (f"{name}: {match[name]}" for name in ("domain", "retry") if match.get(name))
            out += [f"    {line}" for line in told]
        if place == 0 and command:
            out.append(f"    whole entry: {command.format(id=match['id'])}")
    if answer.also:
        out += ["also possible:", *(f"    {also['id']}  {also['title']}" for also in answer.also)]
    if answer.evidence:
        out += ["evidence:", *(f"    {place_of(line)}: {line['text']}" for line in answer.evidence)]
    out += [line for line in (first_failure(answer), answer.ask) if line]
    return "\n".join(out)


def in_brief(answer: Answer, entries: Mapping[str, Entry]) -> str:
    """Ids and titles, a line each; below each match the first sentence of its fix.

    `entries`: by id. Without a match or a title it is `ask`, which says what would help.
    """
    out = []
    for match in answer.matches:
        fix = fitting({"fix": plain(opening(entries[match["id"]].fix))}, 0)["fix"]
        out += [f"{match['id']}  {match['title']}", f"    fix: {fix}"]
    if answer.also:
        out += ["also possible:", *(f"{also['id']}  {also['title']}" for also in answer.also)]
    return "\n".join(out) or answer.ask


def place_of(line: dict) -> str:
    """Where a line of evidence is: 'train.log:45 rank 1'."""
    rank = "" if line["rank"] is None else f" rank {line['rank']}"
    return f"{line['source']}:{line['line']}{rank}"


def first_failure(answer: Answer) -> str:
    """Which rank failed first or is behind the others, and the line that shows it, or ''."""
    first = answer.first_failure
    if not first or first["rank"] is None:
        return ""
    said = [
        line["text"]
        for line in answer.evidence
        if (line["source"], line["line"]) == (first["source"], first["line"])
    ]
    what = "is behind" if said and is_step(said[0]) else "failed first"
    return f"{what}: rank {first['rank']} ({first['source']} line {first['line']})"


def _wrap(text: str, width: int = 108) -> str:
    lines, line = [], "   "
    for word in re.split(r"\s+", text):
        if len(line) + len(word) > width:
            lines.append(line)
            line = "       "
        line += " " + word
    return "\n".join([*lines, line])
