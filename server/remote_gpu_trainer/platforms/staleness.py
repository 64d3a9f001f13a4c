"""Find what is out of date: by age, by installed versions, by a release, or by contradiction.

Every finding names the page to open again. It doesn't judge whether a statement is true.

The guide of a platform may repeat a fact of its front matter, which says so under `repeats`.
`read_statements` reads these values and the fact's own. It also reads the texts that identify a
platform, which no two profiles may share, and the version of the bundle.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from .. import __version__
from ..catalogue import front_matter
from ..catalogue.entry import Entry
from ..catalogue.facts import FactError, FactHead, pages, split
from ..catalogue.freshness import LIMITS, BadQuestion, past
from ..catalogue.front_matter import FrontMatter

_RELEASED = re.compile(
    r"\s*([A-Za-z0-9][\w.-]*)[ =@v]+(\d[^\s@]*)(?:[\s@]+(\d{4}-\d{2}-\d{2}))?\s*"
)
_RAN = re.compile(r"([A-Za-z0-9][\w.-]*) (\d[^\s,]*)")
SAME = {"pytorch": "torch"}  # other names that people write for a package
UNDATED = "a guess: no page with a date says it"


@dataclass(frozen=True)
class Release:
    """A release of a library. `day` is the day it came out, None when the user didn't give it."""

    name: str
    version: str
    day: date | None


@dataclass
class Report:
    """The findings, each an item of the JSON answer.

    `stale` is past its limit. `out_of_range` is about versions that aren't installed, `concerns`
    about those that are. `doubt` holds undated facts and what a release may have changed.
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
            f"no entry is about {str(released)[:40]!r}; "
            f"name one of {', '.join(_libraries(entries))}"
        )
    if scope:
        entries, facts = _within(scope, entries, facts)
    report = Report([finding.as_dict() for finding in past(entries, facts, on, limits)])
    report.doubt += [_undated(fact) for fact in facts if fact.date is None]
    if packages is not None:
        report.out_of_range, report.concerns = _by_packages(entries, packages)
    if release:
        report.doubt += by_release(entries, release, on)
    report.contradictions = [
        finding for finding in contradictions(statements) if not scope or _concerns(scope, finding)
    ]
    return report


def _undated(fact: FactHead) -> dict:
    """The finding about a fact that no dated page states."""
    return {
        "id": fact.id,
        "what": f"{fact.kind} fact of {fact.profile}",
        "checked": None,
        "why": UNDATED,
        "source": fact.source,
    }


def _by_packages(entries: Iterable[Entry], packages: str) -> tuple[list[dict], list[dict]]:
    """(entries about other versions than those installed, entries about these).

    An entry is named once, with its first requirement that decides.
    """
    from . import installed  # importing packaging takes longer than everything else here

    have = installed.versions(packages)
    other, these = [], []
    for entry in entries:
        fits, fails = installed.split_requirements(entry.applies_to, have)
        findings, matches = (other, fails) if fails else (these, fits)
        findings += [
            {"id": entry.id, "requirement": str(requirement), "installed": str(version)}
            for requirement, version in matches[:1]
        ]
    return other, these


def _within(
    scope: str, entries: list[Entry], facts: list[FactHead]
) -> tuple[list[Entry], list[FactHead]]:
    """The entries and facts in a scope, such as `profiles/runpod.md`, `runpod`, `RP` or `RP3`."""
    name = _plain_scope(scope)
    chosen = [
        entry
        for entry in entries
        if name.upper() in (entry.id.upper(), entry.family)
        or entry.path == name
        or entry.path.startswith(name + "/")
        or entry.path == f"profiles/{name}.md"
    ]
    heads = [
        fact
        for fact in facts
        if name in (fact.id, fact.profile, f"profiles/{fact.profile}.md", "profiles")
    ]
    if not chosen and not heads:
        raise BadQuestion(
            f"unknown scope {scope[:40]!r}; give an id (O7), a family (O), a page "
            "(profiles/runpod.md), a folder (references) or a platform (runpod)"
        )
    return chosen, heads


def _plain_scope(scope: str) -> str:
    return scope.strip().strip("/").lower()


def _concerns(scope: str, contradiction: dict) -> bool:
    """Whether a contradiction is about what a scope names, or is on one of its pages."""
    name, thing = _plain_scope(scope), contradiction["id"]
    if thing == name or thing.startswith(name + ".") or name.startswith(thing + "."):
        return True
    pages = (name, f"profiles/{name}.md")
    return any(
        value["place"].split(":")[0] in pages or value["place"].startswith(name + "/")
        for value in contradiction["values"]
    )


def read_release(text: str) -> Release:
    """`torch 2.14` or `torch 2.14 2026-12-01`. Raises BadQuestion."""
    from packaging.version import InvalidVersion, Version

    match = _RELEASED.fullmatch(text)
    try:
        if match:
            return Release(
                SAME.get(match[1].lower(), match[1].lower()),
                str(Version(match[2].lstrip("="))),
                date.fromisoformat(match[3]) if match[3] else None,
            )
    except (InvalidVersion, ValueError):
        pass
    raise BadQuestion(
        f"{text[:40]!r} isn't a release; write a name and a version, such as 'torch 2.14', "
        "with the day if you know it: 'torch 2.14 2026-12-01'"
    )


def by_release(entries: Iterable[Entry], release: Release, on: date) -> list[dict]:
    """Entries about the library that cover the new version and were checked before it."""
    return [
        {
            "id": entry.id,
            "what": entry.title.replace("`", ""),
            "checked": entry.verified.isoformat(),
            "why": why,
            "source": entry.sources[0] if entry.sources else "",
        }
        for entry in entries
        if entry.verified <= on
        and _names(entry, release.name)
        and (why := _why_check_again(entry, release))
    ]


def _why_check_again(entry: Entry, release: Release) -> str:
    """Why a release may make an entry about its library wrong; '' if it can't."""
    from packaging.utils import canonicalize_name
    from packaging.version import Version

    from . import installed

    name, version = canonicalize_name(release.name), Version(release.version)
    ends_before = any(
        requirement.specifier
        and not requirement.specifier.contains(installed.plain(version), prereleases=True)
        for requirement in installed.requirements(entry.applies_to)
        if canonicalize_name(requirement.name) == name
    )
    if ends_before:
        return ""
    ran = {canonicalize_name(library): text for library, text in _RAN.findall(entry.ran)}
    if name in ran:
        if installed.plain(Version(ran[name])) >= installed.plain(version):
            return ""
        return f"ran with {release.name} {ran[name]}, not yet with {version}"
    if not release.day:
        return f"last read {entry.verified}, and the date of {release.name} {version} isn't given"
    if entry.verified >= release.day:
        return ""
    return f"last read {entry.verified}, before {release.name} {version} of {release.day}"


def _names(entry: Entry, name: str) -> bool:
    """Whether an entry is about a library.

    It is, if the library is in `Applies to`, in the versions of its proof, or in code such as
    `torch.save` and `import trl`.
    """
    from packaging.utils import canonicalize_name

    if canonicalize_name(name) in _declared(entry):
        return True
    spelled = re.escape(re.sub(r"[-.]", "_", name))
    code = rf"(?<![\w.]){spelled}\.[a-zA-Z_]|\b(?:import|from|install) {spelled}\b"
    return bool(re.search(code, entry.fix + entry.check + entry.root_cause))


def _declared(entry: Entry) -> set[str]:
    """The libraries in `Applies to` and in the versions of an entry's proof, by canonical name."""
    from packaging.utils import canonicalize_name

    from . import installed

    required = [requirement.name for requirement in installed.requirements(entry.applies_to)]
    ran = [name for name, _ in _RAN.findall(entry.ran)]
    return set(map(canonicalize_name, [*required, *ran]))


def _libraries(entries: Iterable[Entry]) -> list[str]:
    """The names of the libraries in `Applies to` and in the versions of proofs, sorted."""
    return sorted({name for entry in entries for name in _declared(entry)})


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
        {"id": thing, "values": [{"value": s.value, "place": s.place} for s in stated]}
        for thing, stated in sorted(by_thing.items())
        if len({_plain_value(s.value) for s in stated}) > 1
    ]


def _plain_value(value: str) -> str:
    """A value for comparing: numbers as numbers, words without case and extra blanks."""
    try:
        return repr(float(value))
    except ValueError:
        return " ".join(value.lower().split())


def read_statements(root: Path) -> list[Statement]:
    """Every statement of a bundle.

    Raises FactError for `repeats` of a field that the profile lacks, or of words that its guide
    lacks, and for front matter that isn't YAML.
    """
    texts = {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8", errors="replace")
        for path in [*pages(root), root / "SKILL.md"]
        if path.is_file()
    }
    profiles = {
        place: front_matter.read(text, place)
        for place, text in texts.items()
        if place.startswith("profiles/")
    }
    repeated = [
        said for place, profile in profiles.items() for said in _repeated(place, profile, texts)
    ]
    return [*repeated, *_tokens(profiles), *_versions(texts.get("SKILL.md", ""))]


def _repeated(place: str, profile: FrontMatter, texts: Mapping[str, str]) -> Iterator[Statement]:
    """Each value that the guide of a platform repeats, and the value of the fact itself."""
    text = texts[place]
    for item in profile.repeats:
        thing, words = str(item.get("fact")), str(item.get("text"))
        fact, _, field = thing.partition(".")
        value = profile.value(fact, field)
        if value is None:
            raise FactError(
                f"{place}: repeats {thing}, which it has no fact for; name one such as "
                "preemption.notice_seconds"
            )
        guide = split(text)[1]
        at = text.rfind(words) if words in guide else -1
        if at < 0:
            raise FactError(f"{place}: its guide doesn't say {words!r}; correct `repeats`")
        line = text.count("\n", 0, at) + 1
        said = item.get("value")
        said = str(said).lower() if isinstance(said, bool) else str(said)
        yield Statement(f"{profile.name}.{thing}", said, f"{place}:{line}")
        yield Statement(f"{profile.name}.{thing}", value, place)


def _tokens(profiles: Mapping[str, FrontMatter]) -> Iterator[Statement]:
    """Which platform each token shows."""
    for place, profile in profiles.items():
        for token in dict.fromkeys(profile.tokens):
            yield Statement(f"token {token}", profile.name, place)


def _versions(skill: str) -> list[Statement]:
    """The versions in SKILL.md and of the package; none if SKILL.md has no version."""
    metadata = front_matter.read(skill, "SKILL.md").fields.get("metadata")
    version = metadata.get("version") if isinstance(metadata, dict) else None
    if version is None:
        return []
    return [
        Statement("version", str(version), "SKILL.md"),
        Statement("version", __version__, "package"),
    ]
