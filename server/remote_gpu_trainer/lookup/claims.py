"""What an answer claims: an entry, why, and how sure it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ..catalogue.entry import Entry
from ..logs.evidence import Probed
from ..retrieval.candidates import Candidate
from ..text.masking import shown
from .budget import cut, plain
from .quotes import NAME

SEEN = 40  # tokens of what a probe saw, as the reason of a match
MOST_WORDS = 3  # of those that speak for a match


@dataclass(frozen=True)
class Claim:
    """An entry that may explain the report, the reason, and high, medium or low confidence."""

    entry: Entry
    why: str
    confidence: str


def why_of(candidate: Candidate) -> str:
    """The literal text of a match, or the words that speak for it, as the report writes them."""
    if candidate.hit:
        line = candidate.hit.line
        rank = f", rank {line.rank}" if line.rank is not None else ""
        text = plain(shown(candidate.hit.text, 80))
        return f"`{text}` in {shown(line.source, NAME)} line {line.number}{rank}"
    telling: list[str] = []
    for word in candidate.words:
        # Of "dataloader" and "data" one is enough.
        if not any(word in other or other in word for other in telling):
            telling.append(word)
    return f"words: {', '.join(telling[:MOST_WORDS])}" if telling else "similar wording"


def confidence_of_further(candidate: Candidate, first: str) -> str:
    """The confidence of a match behind the first, whose confidence is `first`.

    Low, unless a literal text of it decides too.
    """
    decides = candidate.hit and candidate.hit.decisive and first != "low"
    return "medium" if decides else "low"


def of_probe(findings: Iterable[Probed], entries: Mapping[str, Entry]) -> list[Claim]:
    """What a probe's report claims, each entry once, proven ones first.

    On the programs of evals/PROBE.md no healthy one had a finding of level wrong, and where a
    failing one had one alone, it named the failure. Of several, all but one may be consequences.
    Hints are right less often.
    """
    ordered = sorted(findings, key=lambda finding: not finding.wrong)
    first_of = {finding.id: finding for finding in reversed(ordered) if finding.id in entries}
    proven = sum(finding.wrong for finding in first_of.values())
    claims = []
    for finding in sorted(first_of.values(), key=ordered.index):
        step = f" at step {finding.step}" if finding.step > 0 else ""
        rank = f" on rank {finding.rank}" if finding.rank > 0 else ""
        text = f": `{cut(finding.said, SEEN)}`" if finding.said.strip() else " this failure"
        confidence = "low" if not finding.wrong else "high" if proven == 1 else "medium"
        claims.append(Claim(entries[finding.id], f"the probe saw{step}{rank}{text}", confidence))
    return claims


def together(first: list[Claim], second: list[Claim]) -> list[Claim]:
    """Both lists of claims, each entry once, in its first place and with both reasons."""
    reasons = {claim.entry.id: claim.why for claim in second}
    merged = []
    for claim in first:
        both = filter(None, (claim.why, reasons.pop(claim.entry.id, "")))
        merged.append(replace(claim, why="; ".join(both)))
    return [*merged, *(claim for claim in second if claim.entry.id in reasons)]
