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
    """One thing a run needs: the fact and the field that decide, the test on its value, and how it is said. The test gives None where nothing is written."""

    fact: str
    field: str
    test: Callable[[object, float], bool | None]
    says: str
    number: bool = False
    endless: bool = (
        False  # where no number is written, there is no limit but what the fact's words say
    )


def _at_least(written: float | None, asked: float) -> bool | None:
    return None if written is None else written >= asked


NEEDS = {
    "spot": Need("spot", "offered", lambda v, _: v.offered, "an interruptible kind"),
    "steady": Need(
        "preemption",
        "on_demand",
        lambda v, _: True if not v.possible else None if v.on_demand is None else not v.on_demand,
        "a kind that isn't taken for another customer",
    ),
    "notice": Need(
        "preemption",
        "notice_seconds",
        lambda v, n: not v.possible or (v.notice_seconds or 0) >= n,
        "so many seconds of notice before a preemption",
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
        "quota", "disk_gb", lambda v, n: _at_least(v.disk_gb, n), "a disk of so many GB", True
    ),
    "inodes": Need(
        "quota",
        "inodes",
        lambda v, n: _at_least(v.inodes, n),
        "room for so many files in the durable place",
        True,
    ),
    "hours": Need(
        "limits",
        "most_hours",
        lambda v, n: _at_least(v.most_hours, n),
        "so many hours in one go",
        True,
        True,
    ),
    "ssh": Need("ssh", "full", lambda v, _: v.full, "a full ssh: scp, rsync, forwarding"),
    "free-egress": Need("egress", "free", lambda v, _: v.free, "traffic out that costs nothing"),
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
            raise BadNeed(
                f"found need {item[:40]!r}, expected one of "
                + ", ".join(f"{n}=N" if need.number else n for n, need in NEEDS.items())
            )
        found.append((name, number))
    return found


@dataclass(frozen=True)
class Choice:
    """A platform, what rules it out, what isn't written and would decide, and what speaks against the facts that let it pass."""

    profile: Profile
    against: tuple[str, ...]
    unknown: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    @property
    def qualifies(self) -> bool | None:
        """None when nothing rules it out and something that decides isn't written."""
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
    """Every platform, those that qualify first, then those of which too little is written."""
    found = [_judged(profile, asked, on) for profile in profiles]
    return sorted(
        found, key=lambda choice: (bool(choice.against), bool(choice.unknown), choice.profile.name)
    )


def as_lines(choices: list[Choice], asked: bool) -> list[str]:
    """A line each for a terminal: yes, no or ?, and why."""
    out = []
    for choice in choices:
        sign = {True: "yes", None: "?  ", False: "no "}[choice.qualifies] if asked else "   "
        why = choice.against or choice.unknown
        out.append(
            f"{sign} {choice.profile.name}: {'; '.join(why) or choice.profile.title}{''.join(f' [{doubt}]' for doubt in choice.doubts if not why)}"
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
            # Nothing takes one's own machine away, and no provider bounds its disk; what it doesn't have, it doesn't have.
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
                f"{said}: {shown}: {field} is {getattr(fact.value, field)} ({fact.status}, {fact.source})"
            )
        elif fact.status != "confirmed":
            against.append(
                f"{said}: {shown} is unconfirmed ({fact.note.split('. ')[0] or fact.source})"
            )
        elif verdict is None and not (need.endless and profile.kind != "scheduler"):
            unknown.append(f"{said}: {shown}: {field} is not written ({_words(fact)}{fact.source})")
        else:
            doubts += [
                f"{said}: {told}"
                for told in (_words(fact).rstrip("; ") if verdict is None else "", mark(fact, on))
                if told
            ]
    return Choice(profile, tuple(against), tuple(unknown), tuple(doubts))


def _words(fact: Fact) -> str:
    """What the fact says where it has no number."""
    told = (
        getattr(fact.value, "text", "")
        or getattr(fact.value, "storage", "")
        or getattr(fact.value, "form", "")
    )
    return f"{told.split('. ')[0].rstrip('.')}; " if told else ""


def mark(fact: Fact, on: date) -> str:
    """'' for a confirmed fact within its limit, else what speaks against relying on it."""
    if fact.status != "confirmed":
        return "unconfirmed"
    days = (on - fact.date).days
    return (
        f"stale: of {fact.date}, {days} days old, the limit is {LIMITS[fact.kind]}"
        if days > LIMITS[fact.kind]
        else ""
    )


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
                out.append(
                    f"    {'' if field == 'text' else field + ': '}{', '.join(map(str, value)) if isinstance(value, list) else value}"
                )
        if fact.note:
            out.append(f"    note: {fact.note}")
    return "\n".join(out)
