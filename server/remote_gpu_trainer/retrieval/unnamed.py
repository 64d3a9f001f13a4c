"""Whether a report shows the platform that an entry is about: its name, or one of the texts by which its page says it is known.

A platform's entry may be the nearest to "Connection refused" and still be about a provider that the reader never used. So without a sign of the platform, and
without a literal signature, it is never called sure, and the answer asks where the run is. And where the sign is there, less else is asked for before anything is claimed: of
291 strange reports of the reporting half 3 name a platform that the first entry is about, and of 136 about platforms most do. (On the reporting half 27 first matches are such; 78 in 100 are
right all the same, because their advice holds elsewhere too, beside 84 of the others called medium.)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from ..catalogue.bundle import bundle_root
from ..catalogue.entry import Entry
from ..catalogue.front_matter import split
from .search import Candidate, put_first

NEAR = 4  # first candidates among which an entry for any box goes before a provider's
ANYWHERE = frozenset({"generic-ssh", "local"})  # whose entries fit any box
_TOKENS = re.compile(r"^tokens:(.*(?:\n- .*)*)", re.M)
_TOKEN = re.compile(
    r"""["']([^"'\n]{3,})["']|(?<=- )([^"'\s][^\n]{2,})|(?<=[\[,] )([^"',\]\n]{3,})|(?<=\[)([^"',\]\n]{3,})"""
)
# What people write for it, beside the name of its page.
_ALSO = {
    "vastai": ("vast",), "china": ("恒源", "矩池", "揽睿", "gpushare", "matpool"), "notebooks": ("kaggle", "jupyter", "notebook"), "kubernetes": ("k8s", "pod", "kubectl"),
    "slurm": ("sbatch", "srun", "salloc"), "aws": ("ec2", "amazon", "sagemaker"), "gcp": ("google cloud", "gce", "gcloud"), "colab": ("notebook",),
    "modal": ("modal.",), "runpod": ("pod",), "autodl": ("hf-mirror", "镜像站"),
}  # fmt: skip


def platform_not_shown(entry: Entry, text: str) -> str:
    """What to ask when an entry is about a platform that the report shows no sign of, else ''. `text`: the report."""
    named = _provider(entry)
    if not named or _shown(named, text):
        return ""
    return f"{entry.id} is about {' or '.join(named)}, which nothing here shows: name the platform."


def platform_shown(entry: Entry, text: str) -> bool:
    """Whether an entry is about a provider, and the report shows it."""
    named = _provider(entry)
    return bool(named) and _shown(named, text)


def general_first(
    candidates: tuple[Candidate, ...], entries: Mapping[str, Entry], text: str
) -> tuple[Candidate, ...]:
    """The candidates of `search.rank`, best first: where a provider's entry leads that the report doesn't show, one that holds anywhere and whose literal text stands there too goes before it."""
    if not candidates or not platform_not_shown(entries[candidates[0].id], text):
        return candidates
    for candidate in candidates[:NEAR]:
        if (
            candidate.hit
            and candidate.hit.decisive
            and not entries[candidate.id].path.startswith("profiles/")
        ):
            return put_first(candidate, candidates, candidates[0].probability)
    return candidates


def _provider(entry: Entry) -> list[str]:
    """The platforms of an entry that is about a provider, and not about any box, or a place."""
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
    """What shows a platform, in lower case: its name, what people write for it, and the tokens of its page."""
    try:
        head, _ = split((bundle_root() / "profiles" / f"{name}.md").read_text(encoding="utf-8"))
    except OSError:
        head = ""
    tokens = _TOKENS.search(head)
    found = (
        [next(filter(None, groups)).strip().lower() for groups in _TOKEN.findall(tokens[1])]
        if tokens
        else []
    )
    return (name, *_ALSO.get(name, ()), *found)
