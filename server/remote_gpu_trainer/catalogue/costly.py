"""Which entries advise something that costs money or can't be undone, and in which sentence.

A wrong match with such an entry does harm: whoever changes its Fix reads it for each situation that
leads there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .bundle import Catalogue

_RATE = r"(?:learning[ -])?rates?\b|\blr\b"
COSTS = {
    "raises a rate": rf"(?:\b(?:raise|increase|higher|larger|multiply)\b|\d×)[^.;]{{0,60}}"
    rf"(?:{_RATE})|(?:{_RATE})[^.;]{{0,30}}(?:\b(?:higher|larger|times)\b|\d×)",
    "deletes": r"\b(?:rm|rmdir|unlink|delete[sd]?|remove the (?:file|folder)\w*|destroy|terminate"
    r"|prune|purge|wipe|mkfs|overwrite|truncate|release (?:it|the)|git clean|rmtree)\b",
    "restarts": r"\b(?:restart|reboot|reset|kill|pkill|killall|power[- ]cycle|power off|scancel"
    r"|stop the (?:pod|box|instance)|start (?:it |the run )?(?:again|anew|over))\b",
    "pays": r"\b(?:rent|buy|pay|top up|upgrade the plan|more V?RAM|on-demand"
    r"|(?:another|bigger|larger|new) (?:box|host|machine|GPU|card|disk|volume|instance)"
    r"|reserve (?:a|an|the|capacity))\b",
}
_COSTS = {what: re.compile(pattern, re.IGNORECASE) for what, pattern in COSTS.items()}
# An end of a sentence or of an item of a list; a dot within a command or a number is none.
_SENTENCE_END = re.compile(r"(?<=[.:;])\s+|\n\s*(?=[-|`])")


def kinds_of_cost(sentence: str) -> list[str]:
    """What a sentence of a Fix costs, as keys of COSTS; none for one that can be tried freely."""
    return [what for what, pattern in _COSTS.items() if pattern.search(sentence)]


def costly_sentences(catalogue: Catalogue) -> Iterator[str]:
    """A line for each sentence of a Fix that costs something: id, what it does, the sentence."""
    for entry in catalogue.entries:
        for sentence in _SENTENCE_END.split(entry.fix):
            kinds = kinds_of_cost(sentence)
            if kinds:
                yield f"{entry.id}: {', '.join(kinds)}: {' '.join(sentence.split())}"
