"""Find what is out of date: by age, by installed versions, by a release, or by contradiction.

Every finding names the page to open again. It doesn't judge whether a statement is true.

A page repeats a fact of a profile in a comment beside its prose:
`<!-- fact: runpod.preemption.notice_seconds = 5 -->`. `read_statements` reads these comments and
the profile's own value. It also reads the texts that identify a platform, which no two profiles may
share, and the version of the bundle.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from .. import __version__
from ..catalogue import bundle, front_matter
from ..catalogue.entry import Entry
from ..catalogue.facts import FactError, FactHead
from ..catalogue.freshness import LIMITS, BadQuestion, past
from ..catalogue.front_matter import FrontMatter

_RELEASED = re.compile(
    r"\s*([A-Za-z0-9][\w.-]*)[ =@v]+(\d[^\s@]*)(?:[\s@]+(\d{4}-\d{2}-\d{2}))?\s*"
)
_RAN = re.compile(r"([A-Za-z0-9][\w.-]*) (\d[^\s,]*)")
MARK = re.compile(r"<!-- fact: ([a-z0-9-]+\.[a-z_]+(?:\.[a-z_]+)?) = ([^\n]{1,80}?) -->")
SAME = {"pytorch": "torch"}  # what people write for a package
UNDATED = "no page with a date says it"


@dataclass(frozen=True)
class Release:
    """A release of a library. `day` is the day it came out, None when the user didn't give it."""

    name: str
    version: str
    day: date | None


@dataclass
class Report:
    """The findings, each an item of the JSON answer.

    `stale` is past its limit. `out_of_range` is about other versions than those installed,
    `concerns` about these. `doubt` holds undated facts and what a release may have changed.
    `contradictions` holds things with more than one value.
    """

    stale: list[dict] = field(default_factory=list)
    out_of_range: list[dict] = field(default_factory=list)
    concerns: list[dict] = field(default_factory=list)
    doubt: list[dict] = field(default_factory=list)
    contradictions: list[dict] = field(default_factory=list)

    @property
    def fresh(self) -> bool:
        """Whether nothing needs attention: `concerns` and undated facts alone don't count."""
        return not (
            self.stale
            or self.contradictions
            or self.out_of_range
            or any(item["why"] != UNDATED for item in self.doubt)
        )

    def as_dict(self) -> dict:
        """The JSON answer."""
        return dict(vars(self))


def check(
    entries: Iterable[Entry],
    facts: Iterable[FactHead],
    statements: Iterable[Statement] = (),
    *,
    on: date,
    packages: str | None = None,
    released: str | None = None,
    scope: str | None = None,
    limits: Mapping[str, int] = LIMITS,
) -> Report:
    """Check entries, facts and statements as of the day `on`.

    `packages` is text for `installed.versions`. `scope` is an id, a family, a page, a folder or a
    platform. Raises BadQuestion for a release or scope that can't be used, InstalledError for a
    list of packages that can't be read.
    """
    entries, facts = list(entries), list(facts)
    release = read_release(released) if released is not None else None
    if release and not any(_names(entry, release.name) for entry in entries):
        raise BadQuestion(
            f"no entry is about {released[:40]!r}; name one of {', '.join(_libraries(entries))}"
        )
    if scope:
        entries, facts = _within(scope, entries, facts)
    report = Report([item.as_dict() for item in past(entries, facts, on, limits)])
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
        from . import installed  # importing packaging takes longer than everything else here

        have = installed.versions(packages)
        for entry in entries:
            fits, fails = installed.judged(entry.applies_to, have)
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
    """The entries and facts in a scope, such as `profiles/runpod.md`, `runpod`, `RP` or `RP3`."""
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
            f"unknown scope {scope[:40]!r}; give an id (O7), a family (O), a page "
            "(profiles/runpod.md), a folder (references) or a platform (runpod)"
        )
    return chosen, heads


def _asked(scope: str) -> str:
    return scope.strip().strip("/").lower()


def _concerns(scope: str, found: dict) -> bool:
    """Whether a contradiction is about what a scope names, or is on one of its pages."""
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
        f"{text[:40]!r} isn't a release; write a name and a version, such as 'torch 2.14', "
        "with the day if you know it: 'torch 2.14 2026-12-01'"
    )


def by_release(entries: Iterable[Entry], release: Release, on: date) -> list[dict]:
    """Entries about the library that cover the new version and were checked before it."""
    from packaging.utils import canonicalize_name
    from packaging.version import Version

    from . import installed

    name, version = canonicalize_name(release.name), Version(release.version)
    out = []
    for entry in entries:
        if entry.verified > on or not _names(entry, release.name):
            continue
        wanted = [
            r for r in installed.requirements(entry.applies_to) if canonicalize_name(r.name) == name
        ]
        ran = {canonicalize_name(n): v for n, v in _RAN.findall(entry.ran)}
        if any(
            r.specifier and not r.specifier.contains(installed.plain(version), prereleases=True)
            for r in wanted
        ):
            continue  # it ends before this version
        if name in ran:
            if installed.plain(Version(ran[name])) >= installed.plain(version):
                continue
            why = f"ran with {release.name} {ran[name]}, not yet with {version}"
        elif release.day and entry.verified >= release.day:
            continue
        else:
            why = f"last read {entry.verified}, " + (
                f"before {release.name} {version} of {release.day}"
                if release.day
                else f"and the date of {release.name} {version} isn't given"
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
    """Whether an entry is about a library.

    It is, if the library is in `Applies to`, in the versions of its proof, or in code such as
    `torch.save` and `import trl`.
    """
    from packaging.utils import canonicalize_name

    from . import installed

    if any(
        canonicalize_name(r.name) == canonicalize_name(name)
        for r in installed.requirements(entry.applies_to)
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
    """The names of the libraries in `Applies to` and in the versions of proofs, sorted."""
    from packaging.utils import canonicalize_name

    from . import installed

    named = {
        canonicalize_name(r.name)
        for entry in entries
        for r in installed.requirements(entry.applies_to)
    }
    return sorted(
        named | {canonicalize_name(n) for entry in entries for n, _ in _RAN.findall(entry.ran)}
    )


@dataclass(frozen=True)
class Statement:
    """One place that gives a value for a thing such as `runpod.preemption.notice_seconds`."""

    thing: str
    value: str
    place: str


def contradictions(statements: Iterable[Statement]) -> list[dict]:
    """Things for which places give different values, with every value and place."""
    by_thing: dict[str, list[Statement]] = {}
    for statement in statements:
        by_thing.setdefault(statement.thing, []).append(statement)
    return [
        {"id": thing, "values": [{"value": s.value, "place": s.place} for s in said]}
        for thing, said in sorted(by_thing.items())
        if len({_plain_value(s.value) for s in said}) > 1
    ]


def _plain_value(value: str) -> str:
    """A value for comparing: numbers as numbers, words without case and extra blanks."""
    try:
        return repr(float(value))
    except ValueError:
        return " ".join(value.lower().split())


def read_statements(root: Path) -> list[Statement]:
    """Every statement of a bundle.

    Raises FactError for a comment that names a field which no profile has, and for front matter
    that isn't YAML.
    """
    texts = {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8", errors="replace")
        for path in [*bundle.pages(root), root / "SKILL.md"]
        if path.is_file()
    }
    comments = [comment for place, text in texts.items() for comment in _comments(place, text)]
    profiles = {
        place: front_matter.read(text, place)
        for place, text in texts.items()
        if place.startswith("profiles/")
    }
    return [
        *comments,
        *_tokens(profiles),
        *_values(profiles, dict.fromkeys(comment.thing for comment in comments)),
        *_versions(texts.get("SKILL.md", "")),
    ]


def _comments(place: str, text: str) -> Iterator[Statement]:
    """What the comments of a page say of facts."""
    for mark in MARK.finditer(text):
        line = text.count("\n", 0, mark.start()) + 1
        yield Statement(mark[1], mark[2], f"{place}:{line}")


def _tokens(profiles: Mapping[str, FrontMatter]) -> Iterator[Statement]:
    """Which platform each token shows."""
    for place, profile in profiles.items():
        for token in dict.fromkeys(profile.tokens):
            yield Statement(f"token {token}", profile.name, place)


def _values(profiles: Mapping[str, FrontMatter], things: Iterable[str]) -> Iterator[Statement]:
    """The front matter's own value for each thing that a comment names."""
    for thing in things:
        name, fact, *field = thing.split(".")
        place = f"profiles/{name}.md"
        value = profiles[place].value(fact, *field) if place in profiles else None
        if value is None:
            raise FactError(
                f"a page's comment names the fact {thing}, which no profile has; "
                "name a field of profiles/NAME.md, such as runpod.preemption.notice_seconds"
            )
        yield Statement(thing, value, place)


def _versions(skill: str) -> list[Statement]:
    """The version that SKILL.md gives, and the package's; none where SKILL.md gives none."""
    metadata = front_matter.read(skill, "SKILL.md").fields.get("metadata")
    version = metadata.get("version") if isinstance(metadata, dict) else None
    if version is None:
        return []
    return [
        Statement("version", str(version), "SKILL.md"),
        Statement("version", __version__, "package"),
    ]
