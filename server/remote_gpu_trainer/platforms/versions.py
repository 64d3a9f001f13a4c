"""`Applies to` against versions. Names and ranges by the rules of PyPI, through packaging.

A pre-release counts as the release that it leads to: the nightly 2.14.0.dev20261101 behaves like 2.14, whatever the order of versions says.
A local part (`+cu130`) names a build, not a behaviour, and is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version


def plain(version: Version) -> Version:
    """The release behind a version, its epoch kept: `1!2.14.0rc1+cu130` is `1!2.14.0`. A post-release stays one."""
    kept = f"{version.epoch}!{'.'.join(map(str, version.release))}"
    return Version(f"{kept}.post{version.post}" if version.post is not None else kept)


def requirements(applies_to: Iterable[str]) -> Iterator[Requirement]:
    """The items of `Applies to` that name a package; platforms, GPUs and CUDA are passed over."""
    for item in applies_to:
        if ":" in item or item.startswith("cuda"):
            continue
        first, *ranges = item.replace(",", " ").split()
        try:
            yield Requirement(
                ",".join([first, *ranges]) if ranges or any(c in first for c in "<>=!~") else first
            )
        except InvalidRequirement:
            continue


Match = tuple[Requirement, Version]


def judged(
    applies_to: Iterable[str], have: Mapping[str, Sequence[Version]]
) -> tuple[list[Match], list[Match]]:
    """(what fits, what doesn't) of the requirements that have a range and whose package is installed. Of several versions one that fits is enough."""
    fits: list[Match] = []
    fails: list[Match] = []
    for wanted in requirements(applies_to):
        there = have.get(canonicalize_name(wanted.name), ())
        if there and wanted.specifier:
            fitting = [
                version
                for version in there
                if wanted.specifier.contains(plain(version), prereleases=True)
            ]
            (fits if fitting else fails).append((wanted, (fitting or there)[0]))
    return fits, fails


def out_of_range(applies_to: Iterable[str], have: Mapping[str, Sequence[Version]]) -> str:
    """Why an entry is about other versions than these, or ''. A library that isn't installed says nothing."""
    _, fails = judged(applies_to, have)
    return f"about {fails[0][0]}, installed is {fails[0][1]}" if fails else ""
