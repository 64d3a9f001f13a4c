"""What a platform says for itself, and which platforms have what a run needs. An unconfirmed fact never qualifies a platform."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

from .ages import LIMITS
from .profile import Fact, Facts, Profile


class BadNeed(Exception):
    """A need that isn't known. One line: what was found, what was expected."""


@dataclass(frozen=True)
class Need:
    """One thing a run needs: the fact that decides, the test on its value, and how it is said."""

    fact: str
    test: Callable[[object, float], bool]
    says: str
    number: bool = False


NEEDS = {
    "spot": Need("spot", lambda v, _: v.offered is True, "an interruptible kind"),
    "steady": Need("preemption", lambda v, _: not v.possible, "no preemption"),
    "notice": Need("preemption", lambda v, n: not v.possible or (v.notice_seconds or 0) >= n, "so many seconds of notice before a preemption", True),
    "resume": Need("survives", lambda v, _: v.outlives is True, "storage that outlives the box, to resume from"),
    "stop": Need("survives", lambda v, _: v.stop_keeps_disk is True, "a stop that keeps the disk"),
    "self-stop": Need("self_stop", lambda v, _: v.possible and v.keeps_disk is True, "a box that can stop itself and keeps its disk"),
    "disk": Need("quota", lambda v, n: v.disk_gb is not None and v.disk_gb >= n, "a disk of so many GB", True),
    "inodes": Need("quota", lambda v, n: v.inodes is not None and v.inodes >= n, "room for so many files in the durable place", True),
    "hours": Need("limits", lambda v, n: v.most_hours is None or v.most_hours >= n, "so many hours in one go", True),
    "ssh": Need("ssh", lambda v, _: v.full, "a full ssh: scp, rsync, forwarding"),
    "free-egress": Need("egress", lambda v, _: v.free is True, "traffic out that costs nothing"),
}


def read_needs(asked: list[str]) -> list[tuple[str, float]]:
    """`spot` or `disk=200` to (name, number). Raises BadNeed."""
    found = []
    for item in asked:
        name, mark, text = item.strip().partition("=")
        need = NEEDS.get(name)
        try:
            number = float(text) if mark else 0.0
        except ValueError:
            need = None
        if need is None or need.number != bool(mark) or not 0 <= number < float("inf"):
            raise BadNeed(f"found need {item[:40]!r}, expected one of " + ", ".join(f"{n}=N" if need.number else n for n, need in NEEDS.items()))
        found.append((name, number))
    return found


@dataclass(frozen=True)
class Choice:
    """A platform and what rules it out; nothing does when `against` is empty."""

    profile: Profile
    against: tuple[str, ...]


def choose(profiles: list[Profile], asked: list[tuple[str, float]]) -> list[Choice]:
    """Every platform, those that qualify first."""
    found = [Choice(profile, tuple(filter(None, (_against(profile, name, number) for name, number in asked)))) for profile in profiles]
    return sorted(found, key=lambda choice: (bool(choice.against), choice.profile.name))


def _against(profile: Profile, name: str, number: float) -> str:
    need = NEEDS[name]
    fact = getattr(profile.facts, need.fact)
    said = f"{name}={number:g}" if need.number else name
    if fact is None:
        # Nothing takes one's own machine away, and no provider bounds its disk; what it doesn't have, it doesn't have.
        return (
            ""
            if name in ("steady", "notice", "disk", "inodes", "free-egress") and profile.kind == "own"
            else f"{said}: there is no {need.fact.replace('_', ' ')} here"
        )
    if not need.test(fact.value, number):
        return f"{said}: {need.fact} is {_short(fact)} ({fact.status}, {fact.source})"
    if fact.status != "confirmed":
        return f"{said}: {need.fact} is unconfirmed ({fact.note.split('. ')[0] or fact.source})"
    return ""


def _short(fact: Fact) -> str:
    shown = ", ".join(f"{name} {value}" for name, value in fact.value.model_dump().items() if value is None or isinstance(value, (bool, int, float, list)))
    return shown or "something else"


def mark(fact: Fact, on: date) -> str:
    """'' for a confirmed fact within its limit, else what speaks against relying on it."""
    if fact.status != "confirmed":
        return "unconfirmed"
    days = (on - fact.date).days
    return f"stale: of {fact.date}, {days} days old, the limit is {LIMITS[fact.kind]}" if days > LIMITS[fact.kind] else ""


def as_dict(profile: Profile, on: date) -> dict:
    """The profile as JSON, each fact with `mark`."""
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
                out.append(f"    {'' if field == 'text' else field + ': '}{', '.join(map(str, value)) if isinstance(value, list) else value}")
        if fact.note:
            out.append(f"    note: {fact.note}")
    return "\n".join(out)
