"""Whether the page that a fact names as its source still says what the fact says.

A fact's numbers are looked for on its page; where it has none, its command words. Of a page that
has changed it can't tell how: it names the facts to read again. What it misses, and how often it is
wrong, was measured on the 49 facts with a number whose source was at hand as it had been read: of
them 16 have a number that their page doesn't say, and of 310 numbers that were made wrong 59 stood
on the page by chance.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..catalogue.facts import AMOUNT, DECIDES, HARDLY, matters
from ..catalogue.freshness import BadQuestion
from .opening import Opened
from .profile import Fact, Profile

# What came of a fact, most urgent first. The last two are no reason to read it again.
GONE, CHANGED, UNSEEN, SAID, OPENS = "gone", "changed", "unseen", "said", "opens"
AGAIN = (GONE, CHANGED, UNSEEN)
_URGENCY = {name: at for at, name in enumerate((DECIDES, AMOUNT, HARDLY))}

_DAY = re.compile(r"\b(?:19|20)\d\d(?:-\d\d(?:-\d\d)?)?\b")
_CARD = re.compile(r"\b(?:RTX|GTX)[ -]?\d+\w*", re.I)
# `--min-cuda-version`, RUNPOD_POD_ID, minCudaVersion, /v2/pods
_WORD = re.compile(
    r"(?<![\w$/.-])(?:--[a-z][\w-]+|[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+"
    r"|[a-z]+(?:[A-Z][a-z0-9]+)+|/[a-z][\w-]*(?:/[\w-]+)+)"
)
# How a page may write the unit of a number of one digit, which says nothing without it.
_UNITS = {
    "second": "s|秒",
    "minute": "m|分",
    "hour": "h|小?时",
    "day": "d|天|日",
    "week": "w|周",
    "month": "mo|个?月",
    "GB": "g",
    "TB": "t",
}
_NUMBER = re.compile(
    r"(?<![\w.,/:%=-])([$¥€]?)(\d+(?:[,.]\d+)*)"
    rf"(?:[ -]?({'|'.join(_UNITS)})s?\b)?(?!\w|[.,]\d|-\d)"
)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")


@dataclass(frozen=True)
class Looked:
    """What came of one fact: `state` is one of the names above, `why` says it in words."""

    id: str
    state: str
    why: str
    matters: str
    checked: str | None
    source: str

    def as_dict(self) -> dict[str, str | None]:
        """The finding as an item of the JSON answer."""
        return dict(vars(self))


def chosen(profiles: Mapping[str, Profile], names: Iterable[str]) -> dict[str, Fact]:
    """{PLATFORM.fact: fact} of the platforms and facts of these names; of none: all.

    Raises BadQuestion for a name that isn't known.
    """
    facts = {
        f"{platform}.{name}": fact
        for platform, profile in profiles.items()
        for name, fact in profile.facts
        if fact is not None
    }
    wanted = [name.strip().lower() for name in names]
    for name in wanted:
        if name not in profiles and name not in facts:
            raise BadQuestion(
                f"unknown source {name[:40]!r}; give a platform (runpod) or a fact of one "
                "(runpod.price)"
            )
    return {
        id: fact
        for id, fact in facts.items()
        if not wanted or id in wanted or id.partition(".")[0] in wanted
    }


def look(facts: Mapping[str, Fact], opened: Mapping[str, Opened]) -> list[Looked]:
    """What came of each fact, most urgent first; `opened`: by the facts' addresses."""
    found = [
        Looked(
            id,
            *_compare_fact(fact, opened[fact.source]),
            matters(id.partition(".")[2]),
            fact.date.isoformat() if fact.date else None,
            fact.source,
        )
        for id, fact in facts.items()
    ]
    return sorted(found, key=_rank)


def _rank(looked: Looked) -> tuple[int, int, str, str]:
    state = (*AGAIN, SAID, OPENS).index(looked.state)
    return state, _URGENCY[looked.matters], looked.checked or "", looked.id


def _compare_fact(fact: Fact, page: Opened) -> tuple[str, str]:
    """(state, why) of a fact whose page was opened."""
    if page.text is None:
        return (GONE, page.gone) if page.gone else (UNSEEN, page.unseen)
    text, numbers = _plain(page.text), numbers_of(fact)
    missing = [
        written for written, pattern in numbers.items() if not re.search(pattern, text, re.I)
    ]
    if missing:
        return CHANGED, f"not on the page: {', '.join(missing)}"
    if numbers:
        return SAID, "every number of it is on the page"
    if any(word in text for word in words_of(fact)):
        return SAID, "its command words are on the page"
    return OPENS, "the page opens; nothing of the fact to look for is on it"


def _plain(text: str) -> str:
    """A page's text for comparing: without the backslashes of manual pages and of Markdown."""
    return _THOUSANDS.sub("", " ".join(text.replace("\\", "").split()))


def numbers_of(fact: Fact) -> dict[str, str]:
    """{number as the fact writes it: pattern that finds it on a page}.

    Years, days and names of cards aren't numbers, nor is a bare digit without a unit.
    """
    text = _WORD.sub(" ", _CARD.sub(" ", _DAY.sub(" ", _written(fact))))
    found = {}
    for match in _NUMBER.finditer(text):
        sign, number, unit = match.groups()
        plain = number.replace(",", "")
        if len(plain) > 1 or sign:
            found[sign + number] = _pattern(plain)
        elif unit:
            found[match[0]] = rf"{_pattern(plain)}[ -]?(?:{_UNITS[unit]})"
    return found


def _pattern(number: str) -> str:
    """A pattern for a number by itself; 0.20 is also found as 0.2 or 0.200."""
    whole, point, rest = number.partition(".")
    if point and "." not in rest:
        rest = rest.rstrip("0")
        number = f"{whole}.{rest}0*" if rest else rf"{whole}(?:.0+)?"
    return rf"(?<![\d.]){number.replace('.', '[.]')}(?!\d|\.\d)"


def words_of(fact: Fact) -> list[str]:
    """The command words of a fact: options, variables, fields and paths."""
    return list(dict.fromkeys(_WORD.findall(_written(fact))))


def _written(fact: Fact) -> str:
    """What a fact's value says, as one text; yes, no and not known aren't said by a page."""
    return "\n".join(_texts_in(list(fact.value.model_dump().values())))


def _texts_in(value: Any) -> list[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [text for each in value for text in _texts_in(each)]
    if value is None or isinstance(value, bool):
        return []
    return [f"{value:g}" if isinstance(value, float) else str(value)]
