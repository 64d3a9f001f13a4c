"""Find platforms that have what a run needs.

An unconfirmed fact, a guess, and one that decides and is more than a year old, neither qualify a
platform nor rule it out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any

from ..catalogue.facts import DECIDES, matters
from .profile import Fact, Profile
from .showing import mark, standing

OLD_DAYS = 365  # a fact that decides and is older qualifies no platform

# Facts that can't rule out the user's own machine: nobody takes it away, limits its disk or bills
# its traffic.
_NEVER_AT_HOME = ("steady", "notice", "disk", "inodes", "free-egress")


class BadNeed(Exception):
    """A need can't be read. The text is one line: what is wrong; what to do."""


@dataclass(frozen=True)
class Need:
    """One thing a run may need.

    `fact` and `field` name the value that decides. `test` takes the fact's value and the number of
    the need, and returns None if the profile has no value. `number`: the need is written NAME=N.
    `endless`: a fact without a number means no limit, unless its words state one.
    """

    fact: str
    field: str
    test: Callable[[Any, float], bool | None]
    says: str
    number: bool = False
    endless: bool = False


def _at_least(written: float | None, least: float) -> bool | None:
    return None if written is None else written >= least


NEEDS = {
    "spot": Need("spot", "offered", lambda v, _: v.offered, "an interruptible box"),
    "steady": Need(
        "preemption",
        "on_demand",
        lambda v, _: True if not v.possible else None if v.on_demand is None else not v.on_demand,
        "a box that isn't taken away for another customer",
    ),
    "notice": Need(
        "preemption",
        "notice_seconds",
        lambda v, n: True if not v.possible else _at_least(v.notice_seconds, n),
        "at least N seconds of notice before a preemption",
        True,
    ),
    "resume": Need(
        "survives",
        "outlives",
        lambda v, _: v.outlives,
        "storage that outlives the box, to resume from",
    ),
    "stop": Need(
        "survives", "stop_keeps_disk", lambda v, _: v.stop_keeps_disk, "a stop that keeps the disk"
    ),
    "self-stop": Need(
        "self_stop",
        "keeps_disk",
        lambda v, _: v.possible and v.keeps_disk,
        "a box that can stop itself and keeps its disk",
    ),
    "disk": Need(
        "quota", "disk_gb", lambda v, n: _at_least(v.disk_gb, n), "a disk of at least N GB", True
    ),
    "inodes": Need(
        "quota",
        "inodes",
        lambda v, n: _at_least(v.inodes, n),
        "room for at least N files in the durable place",
        True,
    ),
    "hours": Need(
        "limits",
        "most_hours",
        lambda v, n: _at_least(v.most_hours, n),
        "at least N hours without a forced end",
        True,
        True,
    ),
    "ssh": Need("ssh", "full", lambda v, _: v.full, "full ssh: scp, rsync, port forwarding"),
    "free-egress": Need("egress", "free", lambda v, _: v.free, "free traffic out"),
}


def read_needs(texts: list[str]) -> list[tuple[str, float]]:
    """`spot` or `disk=200` as (name, number), 0 if it has no number. Raises BadNeed."""
    return [_read_need(text) for text in texts]


def _read_need(text: str) -> tuple[str, float]:
    name, mark, number_text = text.strip().partition("=")
    need = NEEDS.get(name)
    try:
        number = float(number_text) if mark else 0.0
    except ValueError:
        number = -1.0
    if need is None or need.number != bool(mark) or not 0 <= number < float("inf"):
        forms = (f"{name}=N" if need.number else name for name, need in NEEDS.items())
        raise BadNeed(f"{text[:40]!r} isn't a need; use one of {', '.join(forms)}")
    return name, number


@dataclass(frozen=True)
class Choice:
    """A platform and how it meets the needs.

    `against` rules it out, `unknown` is what the profile doesn't say or only guesses, and `doubts`
    are reasons not to rely on the facts by which it qualifies.
    """

    profile: Profile
    against: tuple[str, ...]
    unknown: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    @property
    def qualifies(self) -> bool | None:
        """None if nothing rules it out, but the profile lacks or guesses a fact that decides."""
        return False if self.against else None if self.unknown else True

    def as_dict(self) -> dict:
        """The choice as JSON."""
        return {
            "name": self.profile.name,
            "title": self.profile.title,
            "qualifies": self.qualifies,
            "against": list(self.against),
            "unknown": list(self.unknown),
            "doubts": list(self.doubts),
        }


def choose(profiles: list[Profile], needs: list[tuple[str, float]], on: date) -> list[Choice]:
    """Every platform: first those that qualify, then the unknown ones, then those ruled out.

    `needs` are those of `read_needs`; `on` is the day by which facts are stale.
    """
    return sorted((_choice(profile, needs, on) for profile in profiles), key=_rank)


def _rank(choice: Choice) -> tuple[bool, bool, str]:
    return bool(choice.against), bool(choice.unknown), choice.profile.name


def as_lines(choices: list[Choice], with_needs: bool) -> list[str]:
    """One line per platform for a terminal: yes, no or ?, and why."""
    out = []
    for choice in choices:
        sign = {True: "yes", None: "?  ", False: "no "}[choice.qualifies] if with_needs else "   "
        why = choice.against or choice.unknown
        doubts = "".join(f" [{doubt}]" for doubt in choice.doubts if not why)
        out.append(
            f"{sign} {choice.profile.name}: {'; '.join(why) or choice.profile.title}{doubts}"
        )
    return out


def _choice(profile: Profile, needs: list[tuple[str, float]], on: date) -> Choice:
    """How a platform meets all needs."""
    wants_spot = any(name == "spot" for name, _ in needs)
    against, unknown, doubts = [], [], []
    for name, number in needs:
        need = NEEDS[name]
        fact = getattr(profile.facts, need.fact)
        spoken = f"{name}={number:g}" if need.number else name
        title = need.fact.replace("_", " ")
        if fact is None:
            if profile.kind != "own" or name not in _NEVER_AT_HOME:
                against.append(f"{spoken}: there is no {title} here")
            continue
        verdict, field = _verdict(name, fact, number, wants_spot)
        if fact.status != "confirmed":
            likely: dict[bool | None, str] = {True: "probably: ", False: "probably not: "}
            lead = likely.get(verdict, "") if fact.by else ""
            unknown.append(
                f"{spoken}: {lead}{title} is {standing(fact)}: "
                f"{_stated(fact, field)} ({_words_if_missing(fact, field)}{fact.source})"
            )
        elif verdict and matters(need.fact) == DECIDES and _is_old(fact, on):
            unknown.append(
                f"{spoken}: {title} said so on {fact.date}: {_stated(fact, field)} ({fact.source})"
            )
        elif verdict is False:
            against.append(
                f"{spoken}: {title}: {_stated(fact, field)} ({standing(fact)}, {fact.source})"
            )
        elif verdict is None and not (need.endless and profile.kind != "scheduler"):
            unknown.append(
                f"{spoken}: {title}: {_stated(fact, field)} ({_words(fact)}{fact.source})"
            )
        else:
            words = _words(fact).rstrip("; ") if verdict is None else ""
            doubts += [
                f"{spoken}: {doubt}" for doubt in (words, mark(need.fact, fact, on)) if doubt
            ]
    return Choice(profile, tuple(against), tuple(unknown), tuple(doubts))


def _is_old(fact: Fact, on: date) -> bool:
    return fact.date is not None and (on - fact.date).days > OLD_DAYS


def _verdict(name: str, fact: Fact, number: float, wants_spot: bool) -> tuple[bool | None, str]:
    """(whether a fact meets a need, the field that decides); None if the page has no value."""
    need = NEEDS[name]
    if need.fact == "preemption" and fact.value.possible:
        if not wants_spot and fact.value.on_demand is False:
            return True, need.field  # only interruptible boxes are taken away
        if wants_spot and name == "steady":
            return False, "possible"
    return need.test(fact.value, number), need.field


def _stated(fact: Fact, field: str) -> str:
    """What the page has for the field that decides: `most_hours is 12`."""
    value = getattr(fact.value, field)
    if value is None:
        return f"{field} is not stated"
    return f"{field} is {value:g}" if isinstance(value, float) else f"{field} is {value}"


def _words_if_missing(fact: Fact, field: str) -> str:
    return _words(fact) if getattr(fact.value, field) is None else ""


def _words(fact: Fact) -> str:
    """The first sentence of the fact's words, for a fact without a number."""
    text = (
        getattr(fact.value, "text", "")
        or getattr(fact.value, "storage", "")
        or getattr(fact.value, "form", "")
    )
    return f"{text.split('. ')[0].rstrip('.')}; " if text else ""
