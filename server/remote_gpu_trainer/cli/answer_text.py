"""An answer as lines for a terminal."""

from __future__ import annotations

import re

from ..logs.first_failure import is_step
from ..lookup.answer import Answer


def as_text(answer: Answer, whole: str = "") -> str:
    """The answer for a terminal. `whole` tells how to read a whole entry."""
    out = []
    for place, match in enumerate(answer.matches):
        out.append(
            f"{match['id']}  {match['title']}\n    {match['confidence']} confidence, {match['severity']}; {match['why']}"
        )
        if match["stale"]:
            out.append(f"    in doubt: {match['stale']}")
        for name, label in (
            ("root_cause", "cause"),
            ("fix", "fix"),
            ("check", "check"),
            ("distinguish", "not the next one"),
        ):
            if match.get(name):
                out.append(_wrap(f"{label}: {match[name]}"))
        if place == 0 and whole:
            out.append(f"    whole entry: {whole.format(id=match['id'])}")
    if answer.also:
        out.append(
            "also possible:\n" + "\n".join(f"    {a['id']}  {a['title']}" for a in answer.also)
        )
    if answer.evidence:
        out.append(
            "judged by:\n"
            + "\n".join(
                f"    {e['source']}:{e['line']}{'' if e['rank'] is None else ' rank %d' % e['rank']}: {e['text']}"
                for e in answer.evidence
            )
        )
    if answer.first_failure and answer.first_failure["rank"] is not None:
        first = answer.first_failure
        said = [
            e["text"]
            for e in answer.evidence
            if (e["source"], e["line"]) == (first["source"], first["line"])
        ]
        told = (
            f"is behind: rank {first['rank']}"
            if said and is_step(said[0])
            else f"failed first: rank {first['rank']}"
        )
        out.append(f"{told} ({first['source']} line {first['line']})")
    if answer.ask:
        out.append(answer.ask)
    return "\n".join(out)


def _wrap(text: str, width: int = 108) -> str:
    lines, line = [], "   "
    for word in re.split(r"\s+", text):
        if len(line) + len(word) > width:
            lines.append(line)
            line = "       "
        line += " " + word
    return "\n".join([*lines, line])
