"""What each way of stopping keeps and goes on costing, from a platform's facts. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from .choosing import mark
from .profile import Profile


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
        disk = {
            True: "the disk is kept",
            False: "the disk isn't kept",
            None: "whether the disk is kept isn't known",
        }[keeps]
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
        found.append(
            Way(
                "stop from inside",
                stop.value.survives,
                "as after a stop",
                stop.value.command,
                mark(stop, on),
                stop.source,
            )
        )
    if facts.stop_billing:
        end = facts.stop_billing
        found.append(
            Way(
                "end it",
                f"deletes: {end.value.deletes}",
                end.value.still_billed,
                end.value.command,
                mark(end, on),
                end.source,
            )
        )
    return found


def ways_as_text(found: list[Way]) -> str:
    out = []
    for way in found:
        out.append(f"{way.name}{' [' + way.mark + ']' if way.mark else ''} ({way.source})")
        out += [
            f"    keeps: {way.keeps}" if way.name != "end it" else f"    {way.keeps}",
            f"    still billed: {way.billed}",
        ]
        if way.command:
            out.append(f"    yours to approve and run: {way.command}")
    return "\n".join(out)
