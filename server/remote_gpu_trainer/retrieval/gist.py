"""The part of a report that is compared with the entries."""

from __future__ import annotations

from ..logs.evidence import Evidence
from ..logs.kinds import APART
from ..logs.salient import salient

MOST_CHARS = 1000  # of the most telling lines


def gist(evidence: Evidence, sentence: str = "") -> str:
    """Return `sentence`, then the most telling lines of the evidence, in about MOST_CHARS.

    `sentence` is what somebody who read the report says about it; it is never cut. A long log is
    compared by the lines of its failure and by what somebody says of it. The words that a log holds
    besides, even beside the failure, say nothing for or against an entry.
    """
    lines = salient(evidence)
    kinds = {line.kind for line, _, _ in lines}
    # Where somebody's words stand in a long log, plain lines are the program's.
    unheard = {*APART[1:], "plain"} if "told" in kinds else set(APART[1:])
    if kinds - unheard:
        lines = [row for row in lines if row[0].kind not in unheard or row[2]]
    parts, room = [sentence] if sentence else [], MOST_CHARS - len(sentence)
    for _, text, _ in lines:
        text = text.strip()
        parts.append(text[: max(room, 0)])
        room -= len(text) + 1
        if room <= 0:
            break
    return "\n".join(parts)
