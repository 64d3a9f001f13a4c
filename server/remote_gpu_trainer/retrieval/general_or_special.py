"""Whether a general entry goes first, or a special one.

Few words ("training hangs") fit a dozen entries. Then the one whose page tells most of the others
apart leads, because its check splits the cause.

A provider's entry leads a line only if the line names the provider.

A text like "driver on your system is too old" stands in an entry for any box and in one about a
provider. Where the report names the provider, the provider's entry leads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from ..catalogue.bundle import bundle_root
from ..catalogue.entry import Entry
from .candidates import Candidate, Candidates, Ranking, put_first

SHORT = 4  # known words of a report up to which it is too short to tell entries apart
NEAR = 10  # first candidates among which an entry may split the cause
SPLITS = 5  # of these that its page must tell apart, at least
KEPT = 4  # the same for the first candidate, which stays first then
LEADERS = 4  # first candidates among which a named provider's entry may lead
# Share of the probability of a provider's entry from which another one leads in its place. In lines
# that named no provider and reached it, ten of seventeen changes were right.
RIVAL = 0.2
ANYWHERE = frozenset({"generic-ssh", "local"})  # whose entries fit any box
# What people write for a platform, other than the name of its page.
_ALSO = {
    "vastai": ("vast",),
    "china": (
        *("恒源", "矩池", "揽睿", "gpushare", "matpool", "featurize", "lanrui"),
        *("hy-tmp", "hy-nas"),
    ),
    "paperspace": ("gradient notebook", "gradient deployment"),
    "lambda": ("gh200", "grace hopper"),
    "notebooks": ("kaggle", "jupyter", "notebook"),
    "kubernetes": ("k8s", "pod", "kubectl"),
    "slurm": ("sbatch", "srun", "salloc"),
    "aws": ("ec2", "amazon", "sagemaker", "亚马逊"),
    "gcp": ("google cloud", "gce", "gcloud", "谷歌云"),
    "colab": ("notebook",),
    "modal": ("modal.",),
    "runpod": ("pod",),
    "autodl": ("hf-mirror", "镜像站"),
}


def splitting_first(ranking: Ranking, entries: Mapping[str, Entry]) -> Ranking:
    """For a report of few known words, put the entry first that tells most others apart.

    It is claimed, low at least, unless the report has a word that no entry has: with the name of
    another program it is of another field. A literal text at the first entry says more, so that
    one stays.
    """
    candidates = ranking.candidates
    if (
        not candidates
        or ranking.known_words > SHORT
        or not ranking.worth_a_look
        or any(c.hit for c in candidates[:1])
    ):
        return ranking
    near = candidates[:NEAR]
    names = {candidate.id for candidate in near}

    def splits(candidate: Candidate) -> int:
        return len(names.intersection(dict(entries[candidate.id].tell_apart)))

    if splits(near[0]) >= KEPT:
        best = near[0]
    else:
        best = max(near, key=splits)
        if splits(best) < SPLITS:
            return ranking
    return replace(
        ranking,
        candidates=put_first(best, candidates),
        confidence=ranking.confidence or ("low" if ranking.known_share == 1 else ""),
    )


def named_provider_first(
    candidates: Candidates, entries: Mapping[str, Entry], text: str
) -> Candidates:
    """Put a provider's entry first that the report names and whose literal text is there.

    `text` is the whole report. An entry for any box may know the same text and be likelier: of the
    reports that this moves, all eight were about the provider (evals/EXPERIMENTS.md).
    """
    for candidate in candidates[:LEADERS]:
        if (
            candidate.hit
            and candidate.hit.signature.role != "advice"
            and is_provider_named(entries[candidate.id], text)
        ):
            return put_first(candidate, candidates)
    return candidates


def unnamed_provider_back(
    candidates: Candidates, entries: Mapping[str, Entry], text: str
) -> Candidates:
    """Put an entry for any box first where a provider's leads that `text` doesn't name.

    Only one that is nearly as likely: a line may describe what happens at one provider alone. A
    literal text that the provider's entry alone has is a word of that provider.
    """

    def may_lead(candidate: Candidate) -> bool:
        entry = entries[candidate.id]
        return not _providers(entry) or is_provider_named(entry, text)

    if not candidates or may_lead(candidates[0]):
        return candidates
    first = candidates[0]
    near = [c for c in candidates[:LEADERS] if c.probability >= RIVAL * first.probability]
    leader = next((c for c in near if may_lead(c) and (c.hit or not first.hit)), first)
    return put_first(leader, candidates)


def is_provider_named(entry: Entry, text: str) -> bool:
    """Whether an entry is about a provider, and the report names it."""
    lower = text.lower()
    return any(sign in lower for name in _providers(entry) for sign in signs(name))


def _providers(entry: Entry) -> list[str]:
    """The platforms of a provider's entry; none for an entry about any box or about a country."""
    names = [item.partition(":")[2] for item in entry.applies_to if item.startswith("platform:")]
    is_provider = entry.path.startswith("profiles/") and entry.family != "CN"
    return names if is_provider and ANYWHERE.isdisjoint(names) else []


@lru_cache(maxsize=32)
def signs(name: str) -> tuple[str, ...]:
    """The texts that show a platform, in lower case: its names, and the tokens of its page."""
    from ..catalogue.front_matter import platform_tokens  # for start-up: it imports yaml

    tokens = platform_tokens(bundle_root(), name)
    return (name, *_ALSO.get(name, ()), *(token.lower() for token in tokens))
