"""Find platforms that have what a run needs, and show the facts of one platform.

An unconfirmed fact never qualifies a platform.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

from ..catalogue.freshness import LIMITS
from .profile import Fact, Facts, Profile


class BadNeed(Exception):
    """A need can't be read. The text is one line: what is wrong; what to do."""


@dataclass(frozen=True)
class Need:
    """One thing a run may need.

    `fact` and `field` name the value that decides. `test` takes the fact's value and the number
    asked for, and returns None if the profile has no value. `number`: the need is written NAME=N.
    `endless`: a profile without a number has no limit, except one stated in the fact's words.
    """

    fact: str
    field: str
    test: Callable[[object, float], bool | None]
    says: str
    number: bool = False
    endless: bool = False


def _at_least(written: float | None, asked: float) -> bool | None:
    return None if written is None else written >= asked


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
        lambda v, n: not v.possible or (v.notice_seconds or 0) >= n,
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


def read_needs(asked: list[str]) -> list[tuple[str, float]]:
    """`spot` or `disk=200` as (name, number), 0 if it has no number. Raises BadNeed."""
    found = []
    for item in asked:
        name, mark, text = item.strip().partition("=")
        need = NEEDS.get(name)
        try:
            number = float(text) if mark else 0.0
        except ValueError:
            need = None
        if need is None or need.number != bool(mark) or not 0 <= number < float("inf"):
            raise BadNeed(
                f"{item[:40]!r} isn't a need; use one of "
                + ", ".join(f"{n}=N" if need.number else n for n, need in NEEDS.items())
            )
        found.append((name, number))
    return found


@dataclass(frozen=True)
class Choice:
    """A platform and how it meets the needs.

    `against` rules it out, `unknown` is what the profile doesn't say, and `doubts` are reasons not
    to rely on the facts by which it qualifies.
    """

    profile: Profile
    against: tuple[str, ...]
    unknown: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    @property
    def qualifies(self) -> bool | None:
        """None if nothing rules it out but the profile lacks a fact that decides."""
        return False if self.against else None if self.unknown else True

    def as_dict(self) -> dict:
        """The choice as JSON."""
        told = {
            "against": list(self.against),
            "unknown": list(self.unknown),
            "doubts": list(self.doubts),
        }
        return {
            "name": self.profile.name,
            "title": self.profile.title,
            "qualifies": self.qualifies,
            **told,
        }


def choose(profiles: list[Profile], asked: list[tuple[str, float]], on: date) -> list[Choice]:
    """Every platform: first those that qualify, then the unknown ones, then those ruled out."""
    found = [_judged(profile, asked, on) for profile in profiles]
    return sorted(
        found, key=lambda choice: (bool(choice.against), bool(choice.unknown), choice.profile.name)
    )


def as_lines(choices: list[Choice], asked: bool) -> list[str]:
    """One line per platform for a terminal: yes, no or ?, and why."""
    out = []
    for choice in choices:
        sign = {True: "yes", None: "?  ", False: "no "}[choice.qualifies] if asked else "   "
        why = choice.against or choice.unknown
        doubts = "".join(f" [{doubt}]" for doubt in choice.doubts if not why)
        out.append(
            f"{sign} {choice.profile.name}: {'; '.join(why) or choice.profile.title}{doubts}"
        )
    return out


def _judged(profile: Profile, asked: list[tuple[str, float]], on: date) -> Choice:
    against, unknown, doubts = [], [], []
    spot = any(name == "spot" for name, _ in asked)
    for name, number in asked:
        need = NEEDS[name]
        fact = getattr(profile.facts, need.fact)
        said = f"{name}={number:g}" if need.number else name
        if fact is None:
            # Nobody takes the user's own machine away or limits its disk.
            if (
                name not in ("steady", "notice", "disk", "inodes", "free-egress")
                or profile.kind != "own"
            ):
                against.append(f"{said}: there is no {need.fact.replace('_', ' ')} here")
            continue
        shown, field, verdict = (
            need.fact.replace("_", " "),
            need.field,
            need.test(fact.value, number),
        )
        if need.fact == "preemption" and fact.value.possible:
            if not spot and fact.value.on_demand is False:
                verdict = True
            elif spot and name == "steady":
                verdict, field = False, "possible"
        if verdict is False:
            against.append(
                f"{said}: {shown}: {field} is {getattr(fact.value, field)} "
                f"({fact.status}, {fact.source})"
            )
        elif fact.status != "confirmed":
            against.append(
                f"{said}: {shown} is unconfirmed ({fact.note.split('. ')[0] or fact.source})"
            )
        elif verdict is None and not (need.endless and profile.kind != "scheduler"):
            unknown.append(f"{said}: {shown}: {field} is not stated ({_words(fact)}{fact.source})")
        else:
            doubts += [
                f"{said}: {told}"
                for told in (_words(fact).rstrip("; ") if verdict is None else "", mark(fact, on))
                if told
            ]
    return Choice(profile, tuple(against), tuple(unknown), tuple(doubts))


def _words(fact: Fact) -> str:
    """The first sentence of the fact's words, for a fact without a number."""
    told = (
        getattr(fact.value, "text", "")
        or getattr(fact.value, "storage", "")
        or getattr(fact.value, "form", "")
    )
    return f"{told.split('. ')[0].rstrip('.')}; " if told else ""


def mark(fact: Fact, on: date) -> str:
    """Why not to rely on a fact on this day; '' if it is confirmed and within its limit."""
    if fact.status != "confirmed":
        return "unconfirmed"
    days = (on - fact.date).days
    return (
        f"stale: of {fact.date}, {days} days old, the limit is {LIMITS[fact.kind]}"
        if days > LIMITS[fact.kind]
        else ""
    )


def as_dict(profile: Profile, on: date) -> dict:
    """The profile as JSON, with the `mark` of each fact."""
    shown = profile.model_dump(mode="json")
    for name, fact in shown["facts"].items():
        if fact is not None:
            fact["mark"] = mark(getattr(profile.facts, name), on)
    return shown


def as_text(profile: Profile, on: date) -> str:
    """The facts for a terminal."""
    out = [f"{profile.name}: {profile.title} ({profile.kind})"]
    for name in Facts.model_fields:
        fact = getattr(profile.facts, name)
        if fact is None:
            out.append(f"{name}: none here")
            continue
        against = mark(fact, on)
        out.append(f"{name}: [{against or f'confirmed {fact.date}'}] {fact.source}")
        for field, value in fact.value.model_dump().items():
            if value not in ("", None, []):
                told = ", ".join(map(str, value)) if isinstance(value, list) else value
                out.append(f"    {told}" if field == "text" else f"    {field}: {told}")
        if fact.note:
            out.append(f"    note: {fact.note}")
    return "\n".join(out)


@dataclass(frozen=True)
class Interval:
    """Seconds of work between two saves, by Young and by Daly, and the arithmetic as lines of text.

    `overhead` is the expected share of time lost to saves and repeated work, to first order.
    """

    young: float
    daly: float
    overhead: float
    arithmetic: str


def between_saves(save_seconds: float, hours_between_kills: float, boxes: int = 1) -> Interval:
    """The best interval for a save that takes `save_seconds`.

    `hours_between_kills` is the mean for one box. `boxes` that fail together divide it by their
    number. Raises ValueError unless all three are positive and finite.
    """
    if not (
        math.isfinite(save_seconds)
        and math.isfinite(hours_between_kills)
        and save_seconds > 0
        and hours_between_kills > 0
        and boxes >= 1
    ):
        raise ValueError(
            f"can't work with a save of {save_seconds} s, {hours_between_kills} h between kills "
            f"and {boxes} boxes; give positive numbers"
        )
    kills = hours_between_kills * 3600 / boxes
    young = math.sqrt(2 * save_seconds * kills)
    if save_seconds < 2 * kills:
        part = save_seconds / (2 * kills)
        daly = young * (1 + math.sqrt(part) / 3 + part / 9) - save_seconds
        by_daly = f"Daly:  sqrt(2 δ M) × (1 + sqrt(δ/2M)/3 + (δ/2M)/9) − δ = {daly:,.0f} s"
    else:
        daly = kills
        by_daly = f"Daly:  a save takes longer than twice the time between kills: M = {daly:,.0f} s"
    overhead = save_seconds / daly + (daly + save_seconds) / (2 * kills)
    lines = [
        f"time between kills M = {hours_between_kills:g} h × 3600 / {boxes} boxes = {kills:,.0f} s;"
        f" one save δ = {save_seconds:g} s",
        f"Young: sqrt(2 δ M) = sqrt(2 × {save_seconds:g} × {kills:,.0f}) = {young:,.0f} s",
        by_daly,
        f"lost to saves and repeated work: δ/τ + (τ+δ)/2M ≈ {overhead:.1%}"
        if overhead < 1
        else "the run loses more time than it gains: save faster, or rent where kills are rarer",
    ]
    return Interval(young, daly, overhead, "\n".join(lines))


# What CUDA says that a card has, in GiB: the total in PyTorch's out-of-memory messages, the least
# where drivers differ. A card keeps some of what its name promises, with ECC more.
GPUS = {
    "B200": 178.35,
    "H200": 139.72,
    "H100-80GB": 79.10,
    "H100-NVL": 93.0,
    "H800": 79.10,
    "H20": 95.0,
    "A100-80GB": 79.11,
    "A100-40GB": 39.39,
    "A800-80GB": 79.11,
    "L40S": 44.39,
    "L40": 44.39,
    "A40": 44.35,
    "A6000": 47.38,
    "RTX-6000-ADA": 47.38,
    "RTX-5090": 31.36,
    "RTX-4090": 23.52,
    "RTX-3090": 23.52,
    "A5000": 23.52,
    "A10G": 21.98,
    "A10": 21.98,
    "L4": 21.96,
    "V100-32GB": 31.74,
    "V100-16GB": 15.77,
    "T4": 14.56,
    "P100-16GB": 15.89,
    "RTX-3080": 9.77,
    "RTX-2080-TI": 10.75,
    "GTX-1080-TI": 10.91,
}


def gpu_named(name: str) -> tuple[str, float] | None:
    """The card that a user means and its memory in GiB; None if the table lacks it.

    A number is the memory itself. Raises BadNeed if several cards have that name.
    """
    size = re.fullmatch(r"(\d{1,4}(?:\.\d{1,3})?) ?(?:Gi?B)?", name.strip(), re.I)
    if size and float(size[1]) > 0 and not _fitting(name):
        return f"a GPU with {size[1]} GiB", float(size[1])
    found = _fitting(name)
    if len(found) > 1:
        raise BadNeed(f"several GPUs are called {name[:40]!r}; give one of {', '.join(found)}")
    return (found[0], GPUS[found[0]]) if found else None


def _fitting(name: str) -> list[str]:
    """The card with most words, all in a name; else the cards that have all words of the name."""
    words = set(re.findall(r"[A-Z0-9]+", name[:80].upper()))
    within = [card for card in GPUS if set(card.split("-")) <= words]
    if within:
        return [max(within, key=lambda card: card.count("-"))]
    return [card for card in GPUS if words and words <= set(card.split("-"))]
