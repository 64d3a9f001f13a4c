"""Which of all this is out of date: by age, by what is installed, by a release, by two places that disagree. Pure but for reading pages.

Every list says what to open again. Nothing here judges whether a statement is true.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import date

from ..catalogue.entry import Entry
from ..catalogue.front_matter import FactHead
from ..text.records import record
from . import ages
from .ages import BadQuestion

_RELEASED = re.compile(
    r"\s*([A-Za-z0-9][\w.-]*)[ =@v]+(\d[^\s@]*)(?:[\s@]+(\d{4}-\d{2}-\d{2}))?\s*"
)
_RAN = re.compile(r"([A-Za-z0-9][\w.-]*) (\d[^\s,]*)")


@record
class Release:
    """A library's release that just came out. `day` is None when it wasn't told: it is out by the day of the check."""

    name: str
    version: str
    day: date | None


class Report:
    """stale: past its limit. out_of_range: doesn't concern this environment; concerns: bound to versions that are installed.
    doubt: undated facts, and what a release may have changed. contradictions: places that state different values."""

    def __init__(self, stale: list[dict]):
        self.stale = stale
        self.out_of_range: list[dict] = []
        self.concerns: list[dict] = []
        self.doubt: list[dict] = []
        self.contradictions: list[dict] = []

    @property
    def fresh(self) -> bool:
        """Nothing past its limit, nothing contradicted, nothing in doubt because of a release, nothing out of range."""
        return not (
            self.stale
            or self.contradictions
            or self.out_of_range
            or any(item["why"] != UNDATED for item in self.doubt)
        )

    def as_dict(self) -> dict:
        return dict(vars(self))


SAME = {"pytorch": "torch"}  # what people write for a package
UNDATED = "no page with a date says it"


def check(
    entries: Iterable[Entry],
    facts: Iterable[FactHead],
    statements: Iterable[Statement] = (),
    *,
    on: date,
    packages: str | None = None,
    released: str | None = None,
    scope: str | None = None,
    limits: Mapping[str, int] = ages.LIMITS,
) -> Report:
    """`packages`: text for `installed.versions`. `scope`: an id, a family, a page, a folder or a platform.

    Raises BadQuestion for a release or scope that can't be read, InstalledError for a broken lock file.
    """
    entries, facts = list(entries), list(facts)
    release = read_release(released) if released is not None else None
    if release and not any(_names(entry, release.name) for entry in entries):
        raise BadQuestion(
            f"found released {released[:40]!r}, which no entry names; expected one of {', '.join(_libraries(entries))}"
        )
    if scope:
        entries, facts = _within(scope, entries, facts)
    report = Report([item.as_dict() for item in ages.past(entries, facts, on, limits)])
    for fact in facts:
        if fact.date is None:
            report.doubt.append(
                {
                    "id": fact.id,
                    "what": f"{fact.kind} fact of {fact.profile}",
                    "checked": None,
                    "why": UNDATED,
                    "source": fact.source,
                }
            )
    if packages is not None:
        from . import installed, versions  # packaging takes longer to import than all else here

        have = installed.versions(packages)
        for entry in entries:
            fits, fails = versions.judged(entry.applies_to, have)
            told, found = (report.out_of_range, fails) if fails else (report.concerns, fits)
            told += [
                {"id": entry.id, "requirement": str(wanted), "installed": str(version)}
                for wanted, version in found[:1]
            ]
    if release:
        report.doubt += by_release(entries, release, on)
    report.contradictions = [
        found for found in contradictions(statements) if not scope or _concerns(scope, found)
    ]
    return report


def _within(
    scope: str, entries: list[Entry], facts: list[FactHead]
) -> tuple[list[Entry], list[FactHead]]:
    """What a scope names: `references`, `profiles/runpod.md`, `runpod`, `RP`, `RP3`, `runpod.price`."""
    asked = _asked(scope)
    chosen = [
        e
        for e in entries
        if asked.upper() in (e.id.upper(), e.family)
        or e.path == asked
        or e.path.startswith(asked + "/")
        or e.path == f"profiles/{asked}.md"
    ]
    heads = [f for f in facts if asked in (f.id, f.profile, f"profiles/{f.profile}.md", "profiles")]
    if not chosen and not heads:
        raise BadQuestion(
            f"found scope {scope[:40]!r}, expected an id (O7), a family (O), a page (profiles/runpod.md), a folder (references) or a platform (runpod)"
        )
    return chosen, heads


def _asked(scope: str) -> str:
    return scope.strip().strip("/").lower()


def _concerns(scope: str, found: dict) -> bool:
    """Whether a contradiction is about what a scope names, or stands on one of its pages."""
    asked = _asked(scope)
    named = (
        found["id"] == asked
        or found["id"].startswith(asked + ".")
        or asked.startswith(found["id"] + ".")
    )
    pages = (asked, f"profiles/{asked}.md")
    return named or any(
        value["place"].split(":")[0] in pages or value["place"].startswith(asked + "/")
        for value in found["values"]
    )


def read_release(text: str) -> Release:
    """`torch 2.14` or `torch 2.14 2026-12-01`. Raises BadQuestion."""
    from packaging.version import InvalidVersion, Version

    found = _RELEASED.fullmatch(text)
    try:
        if found:
            return Release(
                SAME.get(found[1].lower(), found[1].lower()),
                str(Version(found[2].lstrip("="))),
                date.fromisoformat(found[3]) if found[3] else None,
            )
    except (InvalidVersion, ValueError):
        pass
    raise BadQuestion(
        f"found released {text[:40]!r}, expected a name and a version, such as 'torch 2.14', and the day if you know it: 'torch 2.14 2026-12-01'"
    )


def by_release(entries: Iterable[Entry], release: Release, on: date) -> list[dict]:
    """Entries that speak about the library, hold for the new version too, and were last checked before it."""
    from packaging.utils import canonicalize_name
    from packaging.version import Version

    from . import versions

    name, version = canonicalize_name(release.name), Version(release.version)
    out = []
    for entry in entries:
        if entry.verified > on or not _names(entry, release.name):
            continue
        wanted = [
            r for r in versions.requirements(entry.applies_to) if canonicalize_name(r.name) == name
        ]
        ran = {canonicalize_name(n): v for n, v in _RAN.findall(entry.ran)}
        if any(
            r.specifier and not r.specifier.contains(versions.plain(version), prereleases=True)
            for r in wanted
        ):
            continue  # it ends before this version
        if name in ran:
            if versions.plain(Version(ran[name])) >= versions.plain(version):
                continue
            why = f"ran with {release.name} {ran[name]}, not yet with {version}"
        elif release.day and entry.verified >= release.day:
            continue
        else:
            why = f"last read {entry.verified}, " + (
                f"before {release.name} {version} of {release.day}"
                if release.day
                else f"and the day of {release.name} {version} isn't told"
            )
        out.append(
            {
                "id": entry.id,
                "what": entry.title.replace("`", ""),
                "checked": entry.verified.isoformat(),
                "why": why,
                "source": entry.sources[0] if entry.sources else "",
            }
        )
    return out


def _names(entry: Entry, name: str) -> bool:
    """Whether an entry is about a library: by its range, by what it ran with, or by code in it, such as `torch.save` and `import trl`."""
    from packaging.utils import canonicalize_name

    from . import versions

    if any(
        canonicalize_name(r.name) == canonicalize_name(name)
        for r in versions.requirements(entry.applies_to)
    ):
        return True
    if any(canonicalize_name(n) == canonicalize_name(name) for n, _ in _RAN.findall(entry.ran)):
        return True
    spelled = re.escape(re.sub(r"[-.]", "_", name))
    return bool(
        re.search(
            rf"(?<![\w.]){spelled}\.[a-zA-Z_]|\b(?:import|from|install) {spelled}\b",
            entry.fix + entry.check + entry.root_cause,
        )
    )


def _libraries(entries: Iterable[Entry]) -> list[str]:
    """The libraries that entries name in `Applies to` or ran with, by name."""
    from packaging.utils import canonicalize_name

    from . import versions

    named = {
        canonicalize_name(r.name)
        for entry in entries
        for r in versions.requirements(entry.applies_to)
    }
    return sorted(
        named | {canonicalize_name(n) for entry in entries for n, _ in _RAN.findall(entry.ran)}
    )


@record
class Statement:
    """One place that states the value of one machine-readable thing, such as `runpod.preemption.notice_seconds`."""

    thing: str
    value: str
    place: str


def contradictions(statements: Iterable[Statement]) -> list[dict]:
    """Things that are stated with more than one value, with every place."""
    by_thing: dict[str, list[Statement]] = {}
    for statement in statements:
        by_thing.setdefault(statement.thing, []).append(statement)
    return [
        {"id": thing, "values": [{"value": s.value, "place": s.place} for s in said]}
        for thing, said in sorted(by_thing.items())
        if len({_plain_value(s.value) for s in said}) > 1
    ]


def _plain_value(value: str) -> str:
    """Numbers compare as numbers, words without case and outer blanks."""
    try:
        return repr(float(value))
    except ValueError:
        return " ".join(value.lower().split())
