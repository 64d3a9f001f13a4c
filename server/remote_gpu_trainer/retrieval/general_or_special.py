"""Whether a general entry goes first, or a special one that its page tells apart from it.

Few words ("training hangs") fit a dozen entries: then the one whose page tells most of the others
apart leads, because its check splits the cause.

A provider's entry is special. It may be the nearest to "Connection refused" and still be about
a provider that the reader never used. So without a sign of the platform, and without a literal
signature, its confidence is never high, and the answer asks where the run is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from ..catalogue.bundle import bundle_root
from ..catalogue.entry import Entry, split
from .candidates import Candidate, Candidates, Ranking, put_first

SHORT = 4  # known words of a report up to which it is too short to tell entries apart
# Of so many first candidates, how many the splitting page must name, and with how many the first
# one stays.
NEAR, SPLITS, KEPT = 10, 5, 4
LEADERS = 4  # first candidates among which an entry for any box goes before a provider's
ANYWHERE = frozenset({"generic-ssh", "local"})  # whose entries fit any box
_TOKENS = re.compile(r"^tokens:(.*(?:\n- .*)*)", re.M)
_TOKEN = re.compile(
    r"""["']([^"'\n]{3,})["']"""
    r"""|(?<=- )([^"'\s][^\n]{2,})"""
    r"""|(?<=[\[,] )([^"',\]\n]{3,})"""
    r"""|(?<=\[)([^"',\]\n]{3,})"""
)
# What people write for a platform, other than the name of its page.
_ALSO = {
    "vastai": ("vast",),
    "china": ("恒源", "矩池", "揽睿", "gpushare", "matpool"),
    "notebooks": ("kaggle", "jupyter", "notebook"),
    "kubernetes": ("k8s", "pod", "kubectl"),
    "slurm": ("sbatch", "srun", "salloc"),
    "aws": ("ec2", "amazon", "sagemaker"),
    "gcp": ("google cloud", "gce", "gcloud"),
    "colab": ("notebook",),
    "modal": ("modal.",),
    "runpod": ("pod",),
    "autodl": ("hf-mirror", "镜像站"),
}


def splitting_first(found: Ranking, entries: Mapping[str, Entry]) -> Ranking:
    """For a report of few known words: with the entry first that tells most others apart."""
    if (
        found.known_words > SHORT
        or not found.worth_a_look
        or any(c.hit for c in found.candidates[:1])
    ):
        return found
    near = found.candidates[:NEAR]
    names = {candidate.id for candidate in near}

    def splits(candidate: Candidate) -> int:
        return len(names.intersection(dict(entries[candidate.id].tell_apart)))

    best = near[0] if splits(near[0]) >= KEPT else max(near, key=splits)
    if splits(best) < (KEPT if best is near[0] else SPLITS):
        return found
    return replace(
        found,
        candidates=put_first(best, found.candidates),
        confidence=found.confidence or "low",
    )


def platform_shown(entry: Entry, text: str) -> bool:
    """Whether an entry is about a provider, and the report names it."""
    named = _provider(entry)
    return bool(named) and _shown(named, text)


def named_provider_first(
    candidates: Candidates, entries: Mapping[str, Entry], text: str
) -> Candidates:
    """Put a provider's entry first that the report names and whose literal text is there.

    An entry for any box may know the same text and be likelier: of the reports that this moves, all
    eight were about the provider.
    """
    for candidate in candidates[:LEADERS]:
        if (
            candidate.hit
            and candidate.hit.signature.role != "advice"
            and platform_shown(entries[candidate.id], text)
        ):
            return put_first(candidate, candidates)
    return candidates


def _provider(entry: Entry) -> list[str]:
    """The platforms of a provider's entry; none for an entry about any box or about a country."""
    named = [item.partition(":")[2] for item in entry.applies_to if item.startswith("platform:")]
    return (
        []
        if not entry.path.startswith("profiles/")
        or not ANYWHERE.isdisjoint(named)
        or entry.family == "CN"
        else named
    )


def _shown(named: list[str], text: str) -> bool:
    low = text.lower()
    return any(sign in low for name in named for sign in signs(name))


@lru_cache(maxsize=32)
def signs(name: str) -> tuple[str, ...]:
    """The texts that show a platform, in lower case: its names, and the tokens of its page."""
    try:
        head, _ = split((bundle_root() / "profiles" / f"{name}.md").read_text(encoding="utf-8"))
    except OSError:
        head = ""
    listed = _TOKENS.search(head)
    found = (
        [next(filter(None, groups)).strip().lower() for groups in _TOKEN.findall(listed[1])]
        if listed
        else []
    )
    return (name, *_ALSO.get(name, ()), *found)
