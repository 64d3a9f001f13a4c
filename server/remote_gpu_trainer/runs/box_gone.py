"""Check that a box is gone from its provider's list, so that nothing of it is billed any more.

Nothing is ended here: commands of the provider are shown, never run, except a listing that the user
typed.
"""

from __future__ import annotations

import time

from ..boxes import box as boxes
from ..boxes.box import Box
from ..platforms.profile import Profile
from ..platforms.teardown import Listed, listed, shows_nothing
from ..text.masking import shown
from ..text.spans import shown_seconds
from . import ledger

LOOK = 20.0  # seconds for the box to answer
AGAIN = 600.0  # seconds between two empty lists that prove something


def next_step(box: Box, profile: Profile) -> str:
    """Return what to type before and after the user ends the box."""
    if profile.facts.stop_billing is None:
        return "nothing is billed here"
    listing = profile.facts.listing
    source = (
        f"the list comes from: {listing.value.text}"
        if listing
        else "this platform's page names no listing command: copy the list from its console"
    )
    return (
        f"before you end it, and once more afterwards: rgt release {box.argument} --profile "
        f"{profile.name} --confirm-gone --id ID --listing FILE; {source}"
    )


def confirm(box: Box, profile: Profile, *, ids: list[str], listing: str | None) -> Listed:
    """Return whether the box is gone; if it is, the ledger forgets it.

    `ids`: the box's id or name in `listing`, the text of the provider's list. Only an id that an
    earlier list has shown proves anything by being absent. A box that answers is never gone, and a
    list without any box counts once another is as empty ten minutes later.
    """
    address = boxes.address(box)
    if profile.kind == "own":
        if not box.local:
            return Listed(
                None,
                f"{profile.name} is the page of this machine, not of {shown(box.name, 80)}; name "
                "the platform that bills it, or if it is your own, use --mine",
            )
        answer = Listed(True, f"nobody bills {profile.name}: nothing to end")
    elif listing is None:
        return Listed(
            None,
            "no list to look the box up in; give --listing FILE or --run-listing COMMAND; "
            + next_step(box, profile),
        )
    else:
        answer = listed(listing, ids, address, profile)
        if answer.by in ids:
            ledger.shown_as(address, answer.by)
        elif answer.gone and not set(ids) & ledger.ids_of(address):
            answer = Listed(
                None,
                f"{answer.text}, but no list has shown it before, so the id may be wrong or the "
                "list another account's. Look it up before you end the box, and once more "
                "afterwards; or --forget takes your word",
            )
        if answer.gone and (why := _why_doubtful(box, address, answer, listing)):
            answer = Listed(None, f"{answer.text}, but {why}")
    if answer.gone:
        ledger.gone(address, box.name, answer.text)
    return answer


def answers(box: Box) -> bool:
    """Return whether a box that isn't this machine answers by ssh."""
    return not box.local and boxes.run(box, ":", limit=LOOK).outcome == "ok"


def _why_doubtful(box: Box, address: str, answer: Listed, listing: str) -> str:
    """Return why a box may be there although a list says that it is gone, '' for no reason."""
    if answers(box):
        return (
            "it answers by ssh, so the list may be another account's or too old. If another box "
            "has its address now, --forget takes your word"
        )
    if answer.by or not shows_nothing(listing):
        return ""
    first, now = ledger.shown_empty(address), time.time()
    if first is None:
        ledger.shown_as(address, "", now)
    if first is not None and now - first >= AGAIN:
        return ""
    left = shown_seconds(AGAIN - max(0.0, now - (first or now)))
    return (
        "a list without any box is also what another account or an outage shows. Look once more in "
        f"{left}; until then the box counts as there; or --forget takes your word"
    )
