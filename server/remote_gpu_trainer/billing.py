"""What each way of stopping keeps and goes on costing, from a platform's facts; and whether a box is still in the provider's list. Pure.

A box counts as gone only when its own id was looked for, in something that reads as a list. Looking for an address alone proves nothing: many lists hold none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date

from .choosing import mark
from .masking import shown
from .profile import Profile

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{2,120}\Z")
SHORT = 1500  # characters; a longer text that mentions an error is a list all the same
# What an expired key or a missing program says instead of a list.
_NO_LIST = re.compile(r"unauthori[sz]ed|forbidden|access denied|permission denied|not authorized|authentication|expired|invalid (?:api[ _-]?)?(?:key|token)|command not found|could not|error\b|\b40[13]\b|timed out", re.I)  # fmt: skip


@dataclass(frozen=True)
class Way:
    """One way to stop: what it keeps or deletes, what is still billed, and what speaks against relying on it."""

    name: str
    keeps: str
    billed: str
    command: str
    mark: str
    source: str


def ways(profile: Profile, on: date) -> list[Way]:
    """The ways to stop on this platform, the gentlest first. Empty where nothing is billed."""
    facts, found = profile.facts, []
    if facts.survives and facts.stop_billing:
        keeps = facts.survives.value.stop_keeps_disk
        disk = {True: "the disk is kept", False: "the disk isn't kept", None: "whether the disk is kept isn't known"}[keeps]
        found.append(
            Way(
                "stop",
                f"{disk}. {facts.survives.value.stop}",
                "take it that storage goes on being billed until it is deleted",
                "",
                mark(facts.survives, on),
                facts.survives.source,
            )
        )
    if facts.self_stop and facts.self_stop.value.possible:
        stop = facts.self_stop
        found.append(Way("stop from inside", stop.value.survives, "as after a stop", stop.value.command, mark(stop, on), stop.source))
    if facts.stop_billing:
        end = facts.stop_billing
        found.append(Way("end it", f"deletes: {end.value.deletes}", end.value.still_billed, end.value.command, mark(end, on), end.source))
    return found


def ways_as_text(found: list[Way]) -> str:
    out = []
    for way in found:
        out.append(f"{way.name}{' [' + way.mark + ']' if way.mark else ''} ({way.source})")
        out += [f"    keeps: {way.keeps}" if way.name != "end it" else f"    {way.keeps}", f"    still billed: {way.billed}"]
        if way.command:
            out.append(f"    yours to approve and run: {way.command}")
    return "\n".join(out)


@dataclass(frozen=True)
class Listed:
    """gone: True, False, or None when it can't be told; `text` says why."""

    gone: bool | None
    text: str


def listed(text: str, ids: list[str], address: str = "") -> Listed:
    """Whether a box is in a provider's list. `ids`: the instance's id or name there; `address`: its host and port, which can only show that it is there."""
    for one in ids:
        if not _ID.match(one):
            return Listed(None, f"found the id {shown(one, 60)!r}, expected letters, digits and -_.:/")
    host = address.rpartition(":")[0]
    for one in (*ids, *([host] if host and host not in ("127.0.0.1", "localhost") else [])):
        place = re.search(rf"(?<![A-Za-z0-9_.-]){re.escape(one)}(?![A-Za-z0-9_-])", text, re.I)
        if place:
            line = shown(text[text.rfind("\n", 0, place.start()) + 1 :].split("\n", 1)[0], 160)
            return Listed(False, f"found {one} in the list ({line}), expected it gone; stopped boxes are listed too, and may be billed")
    if not text.strip():
        return Listed(None, "found an empty text, expected the provider's list; do: run the listing command again and look at its errors")
    if "<html" in text[:500].lower() or (len(text) < SHORT and _NO_LIST.search(text)):
        return Listed(None, f"found what reads like an error ({shown(text.strip(), 120)}), expected the provider's list")
    if not ids:
        return Listed(None, "found no id to look for, expected --id with the instance's id; a list without the box's address proves nothing")
    return Listed(True, f"{', '.join(ids)} isn't in the list of {len(text.splitlines())} lines")
