"""What the teacher is asked: reports whole, cut, joined and reworded, and single sentences."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping, Sequence

_SENTENCE = re.compile(r"(?<=[.!?。！？；;])\s+|(?<=[。！？])|\n+")
_WORD = re.compile(r"[A-Za-z][a-z]{3,}")
KEPT = 0.65  # share of a report's sentences that stay
PAIRS, SENTENCES, REWORDED = 40_000, 45_000, 45_000
REPLACED = 0.3  # share of the words that another takes the place of
LEAST_WORDS, MOST_WORDS, LEAST_CHINESE = 5, 40, 8  # of a sentence


def texts(
    reports: Iterable[str], others: Iterable[str], alike: Mapping[str, Sequence[str]], seed: int = 0
) -> list[str]:
    """Each text once.

    `reports` are also cut, joined and reworded; `others` are asked for as they are. `alike`: for a
    word, those that may stand in its place.
    """
    chance = random.Random(seed)
    reports = list(dict.fromkeys(reports))
    parts = [
        [part for part in _SENTENCE.split(report) if part and part.strip()] for report in reports
    ]
    found = [*reports, *others]
    for said in parts:
        if len(said) >= 3:
            found.append(" ".join([part for part in said if chance.random() < KEPT] or said[:1]))
    long = [said for said in parts if said]
    for _ in range(min(PAIRS, len(long) ** 2)):
        found.append(
            " ".join(
                part
                for said in (chance.choice(long), chance.choice(long))
                for part in chance.sample(said, max(1, len(said) // 2))
            )
        )
    sentences = list(
        dict.fromkeys(part.strip() for said in parts for part in said if _speaks(part))
    )
    found += chance.sample(sentences, min(SENTENCES, len(sentences)))
    for report in chance.sample(reports, min(REWORDED, len(reports))):
        found.append(_WORD.sub(lambda word: _other(word[0], alike, chance), report))
    return list(dict.fromkeys(found))


def _speaks(part: str) -> bool:
    return (
        LEAST_WORDS <= len(part.split()) <= MOST_WORDS
        or len(re.findall("[\u4e00-\u9fff]", part)) >= LEAST_CHINESE
    )


def _other(word: str, alike: Mapping[str, Sequence[str]], chance: random.Random) -> str:
    near = alike.get(word.lower())
    return chance.choice(near) if near and chance.random() < REPLACED else word
