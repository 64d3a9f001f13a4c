"""`Applies to` against what is installed. Names and versions by the rules of PyPI, through packaging."""

from __future__ import annotations

import re

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

_PINNED = re.compile(r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*==\s*([^\s;#]+)")


def installed_versions(freeze: str) -> dict[str, Version]:
    """{name: version} of `pip freeze` text. Lines that pin nothing are passed over."""
    found = {}
    for line in freeze.splitlines():
        pinned = _PINNED.match(line)
        if pinned:
            try:
                found[canonicalize_name(pinned[1])] = Version(pinned[2])
            except InvalidVersion:
                continue
    return found


def out_of_range(applies_to: tuple[str, ...], freeze: str) -> str:
    """Why an entry is about other versions than these, or ''. A package that isn't installed says nothing."""
    have = installed_versions(freeze)
    for item in applies_to:
        if ":" in item or item.startswith("cuda"):
            continue
        first, *ranges = item.replace(",", " ").split()
        try:
            wanted = Requirement(",".join([first, *ranges]))
        except InvalidRequirement:
            continue
        version = have.get(canonicalize_name(wanted.name))
        if version and not wanted.specifier.contains(version, prereleases=True):
            return f"about {wanted}, installed is {version}"
    return ""
