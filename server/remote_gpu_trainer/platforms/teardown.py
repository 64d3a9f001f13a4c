"""Ending a rented box: what each way keeps and still costs, and whether the box is gone.

A box counts as gone only if its id is missing from a text that is a whole list: JSON with a list,
a table with its header, or a sentence that says there is nothing. Any other text proves nothing,
because an expired key, a missing program and a cut page all print something. A missing address
proves nothing either, because many lists don't show addresses. A row whose state can only mean that
the box is gone is as good as none; in one whose state means a stop the disk may be billed.
"""

from __future__ import annotations

import codecs
import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any

from ..text import BadRequest
from ..text.masking import ANSI, shown, shown_lines
from .profile import Profile
from .showing import mark

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{2,120}\Z")
_PLAIN = re.compile(r"[A-Za-z0-9_./:=,@%+-]+\Z")  # a word that no shell would change
LISTING = 120  # seconds
BILLING = ("rental", "serverless", "unnamed")  # kinds of platform that bill storage
NO_PRICE = (
    "no price is on this page; count on one until all of it is deleted, and look in the console"
)
_NONE = re.compile(
    r"(?:no (?:active |running )?"
    r"(?:sessions|instances|machines|pods|containers|jobs|resources|kernels)\b.{0,60}"
    r"|listed 0 items\.?)\Z",
    re.I,
)
_HEADER = re.compile(
    r"#|id|name|.{0,20}[ _]?id|instance.{0,12}|job.{0,12}|status|state|machine.{0,12}|zone|gpus?"
    r"|pod|node.{0,12}|ref",
    re.I,
)
_CELLS = re.compile(r"\s{2,}|\t+|\s*[|│┃]\s*")
_MORE = ("nextToken", "NextToken", "next_token", "nextPageToken", "next_page_token")
_CUT = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.:/-]{2,120})(?:…|\.{3})")
_STATE_COLUMN = re.compile(r"(?:\w+[ _])?(?:status|state)", re.I)
GONE = ("terminated", "deleted", "destroyed")  # where the platform's page says nothing else
STOPPED = ("stopped", "exited")
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True)
class Way:
    """One way to stop a box: what it keeps or deletes, what is still billed, and its source.

    `mark` says why not to rely on it (a guess, unconfirmed or stale); empty if there is no doubt.
    """

    name: str
    keeps: str
    billed: str
    command: str
    mark: str
    source: str


def ways(profile: Profile, on: date) -> list[Way]:
    """The ways to stop on this platform, gentlest first. Empty if nothing is billed."""
    possible = (_stop(profile, on), _stop_from_inside(profile, on), _end(profile, on))
    return [way for way in possible if way]


def _stop(profile: Profile, on: date) -> Way | None:
    """The way to stop the box, if a stop may end charges."""
    survives = profile.facts.survives
    if not profile.facts.stop_billing:
        return None
    disk = {
        True: "the disk is kept",
        False: "the disk is lost",
        None: "unknown whether the disk is kept",
    }[survives.value.stop_keeps_disk]
    return Way(
        "stop",
        f"{disk}. {survives.value.stop}",
        profile.facts.stop_billing.value.while_stopped
        or "assume that storage is billed until you delete it",
        "",
        mark("survives", survives, on),
        survives.source,
    )


def _stop_from_inside(profile: Profile, on: date) -> Way | None:
    """The way in which the box stops itself, if it can."""
    stop = profile.facts.self_stop
    if not stop or not stop.value.possible:
        return None
    return Way(
        "stop from inside",
        stop.value.survives,
        "the same as after a stop",
        stop.value.command,
        mark("self_stop", stop, on),
        stop.source,
    )


def _end(profile: Profile, on: date) -> Way | None:
    """The way to end the box for good."""
    end = profile.facts.stop_billing
    if not end:
        return None
    return Way(
        "end it",
        f"deletes: {end.value.deletes}",
        end.value.still_billed,
        end.value.command,
        mark("stop_billing", end, on),
        end.source,
    )


@dataclass(frozen=True)
class Storage:
    """What storage costs that outlives a stop or the box; `mark` and `source` as for a way."""

    costs: str
    mark: str
    source: str


def storage(profile: Profile, on: date) -> Storage | None:
    """The price of storage on this platform's page, or that it has none.

    None if nobody bills it.
    """
    if profile.kind not in BILLING or not profile.facts.stop_billing:
        return None
    quota = profile.facts.quota
    if quota and quota.value.costs:
        return Storage(quota.value.costs, mark("quota", quota, on), quota.source)
    end = profile.facts.stop_billing
    return Storage(NO_PRICE, mark("stop_billing", end, on), end.source)


def ways_as_text(ways: list[Way], stored: Storage | None) -> str:
    """The ways and what storage costs as lines for a terminal."""
    out = []
    for way in ways:
        out.append(f"{way.name}{' [' + way.mark + ']' if way.mark else ''} ({way.source})")
        out += [
            f"    keeps: {way.keeps}" if way.name != "end it" else f"    {way.keeps}",
            f"    still billed: {way.billed}",
        ]
        if way.command:
            out.append(f"    run it yourself: {way.command}")
    if ways and stored:
        out.append(f"storage{' [' + stored.mark + ']' if stored.mark else ''} ({stored.source})")
        out.append(f"    costs: {stored.costs}")
    return "\n".join(out)


@dataclass(frozen=True)
class Listed:
    """`gone` is True, False, or None if the list doesn't show it; `text` says why.

    `by`: the id or address that the list shows.
    """

    gone: bool | None
    text: str
    by: str = ""


def decoded(data: bytes) -> str:
    """The text of a provider's list, by its byte order mark or as UTF-8.

    Bytes that aren't text become a NUL, which `listed` refuses.
    """
    try:
        return data.decode(next((name for mark, name in _MARKS if data.startswith(mark)), "utf-8"))
    except UnicodeDecodeError:
        return "\0"


def run_listing(command: str, profile: Profile) -> str:
    """What the platform's own listing command prints.

    It must be on the platform's page, in plain words, because no shell runs it. Raises BadRequest.
    """
    listing = profile.facts.listing
    words = command.split()
    if not listing or " ".join(words) not in " ".join(listing.value.text.split()):
        raise BadRequest(
            f"the page of {profile.name} has no such listing command; copy it from what "
            f"rgt profile {profile.name} prints"
        )
    if not words or not all(_PLAIN.match(word) for word in words):
        raise BadRequest("this command needs a shell; run it yourself and pipe it to --listing -")
    try:
        done = subprocess.run(
            words, check=False, capture_output=True, timeout=LISTING, stdin=subprocess.DEVNULL
        )
    except FileNotFoundError:
        raise BadRequest(
            f"{words[0]} isn't installed here; install it, or give the list with --listing FILE"
        ) from None
    except subprocess.TimeoutExpired:
        raise BadRequest(
            f"the listing command took more than {LISTING} s; run it yourself and pipe it "
            "to --listing -"
        ) from None
    if done.returncode:
        last = next(iter(shown_lines(done.stderr.decode("utf-8", "replace"), 1, 160)), "no message")
        raise BadRequest(
            f"the listing command ended with {done.returncode} ({last}); run it yourself and pipe "
            "it to --listing -"
        )
    return decoded(done.stdout)


def listed(text: str, ids: list[str], address: str = "", profile: Profile | None = None) -> Listed:
    """Whether a box is in a provider's list, and not as one that is gone.

    `ids` are the instance's ids or names at the provider. `address` is its HOST:PORT, which can
    show that the box is still there but never that it is gone. `profile`: the platform, whose page
    may say what its words for a state mean.
    """
    text = ANSI.sub("", text)
    for id in ids:
        if not _ID.match(id):
            wrong = f"{shown(id, 60)!r} isn't an instance's id; use letters, digits and -_.:/"
            return Listed(None, wrong)
    host = address.rpartition(":")[0]
    names = [*ids, host] if host not in ("", "127.0.0.1", "localhost") else ids
    words = _state_words(profile)
    present = [found for name in names if (found := _shown(text, name, words, name in ids))]
    if present:
        return next((found for found in present if not found.gone), present[0])
    why = _why_unproven(text, ids)
    if why:
        return Listed(None, why)
    return Listed(True, f"{', '.join(ids)} isn't in the list of {len(text.splitlines())} lines")


def _state_words(profile: Profile | None) -> dict[str, str]:
    """What a platform's words for a state mean: {word in lower case: gone or stopped}."""
    words: dict[str, str] = {word: "gone" for word in GONE}
    words |= {word: "stopped" for word in STOPPED}
    listing = profile.facts.listing if profile else None
    note = listing.note if listing else ""
    for word in GONE:
        if re.search(rf"\b{word} means stopped\b", note or "", re.I):
            words[word] = "stopped"
    commands = profile.facts.commands.value if profile and profile.facts.commands else None
    if commands:
        words |= {word.lower(): "gone" for word in commands.ended}
        words |= {word.lower(): "stopped" for word in commands.stopped}
        words |= {word.lower(): "running" for word in commands.running}
    return words


def _shown(text: str, name: str, words: dict[str, str], is_id: bool) -> Listed | None:
    """How a list shows an id or address, with its line; None where it doesn't, or shows an address
    only of a box that is gone."""
    place = re.search(rf"(?<![A-Za-z0-9_.-]){re.escape(name)}(?![A-Za-z0-9_-])", text, re.I)
    if not place:
        return None
    line = shown(text[text.rfind("\n", 0, place.start()) + 1 :].split("\n", 1)[0], 160)
    states = list(_states_of(text, name))
    meant = {words.get(state.lower(), "") for state in states}
    state = shown(", ".join(dict.fromkeys(states)), 60)
    if meant == {"gone"}:
        sentence = (
            f"{name} is in the list as {state}, so it is gone; a disk that outlives it is billed"
        )
        return Listed(True, sentence, name) if is_id else None
    if meant == {"stopped"}:
        sentence = f"in the list as {state}: it is stopped, not gone, and its disk may be billed"
        return Listed(False, f"{name} is {sentence}", name)
    sentence = f"in the list ({line}); stopped boxes are listed too and may be billed"
    return Listed(False, f"{name} is {sentence}", name)


def _states_of(text: str, name: str) -> Iterator[str]:
    """The states in the rows of a list that have an id; '' for a row that has none that is read."""
    try:
        parsed = json.loads(text.lstrip("\ufeff"))
    except (ValueError, RecursionError):
        yield from _states_in_table(text, name)
        return
    for row in _objects_with(parsed, name):
        found = [value for key, value in row.items() if key.lower().endswith(("state", "status"))]
        found = [
            one.get("Name", one.get("name")) if isinstance(one, dict) else one for one in found
        ]
        yield from (one if isinstance(one, str) else "" for one in found or [""])


def _objects_with(parsed: Any, name: str) -> Iterator[dict[str, Any]]:
    """The objects of a list that have an id among their own values."""
    left = [parsed]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            if any(str(value).lower() == name.lower() for value in one.values()):
                yield one
            left += one.values()
        elif isinstance(one, list):
            left += one


def _states_in_table(text: str, name: str) -> Iterator[str]:
    """The states in the rows of a table that have an id, by the column that its header names."""
    rows = [
        [cell.strip() for cell in _CELLS.split(line.strip("|│┃ \r"))] for line in text.split("\n")
    ]
    head = next((row for row in rows if any(map(_STATE_COLUMN.fullmatch, row))), [])
    at = next((n for n, cell in enumerate(head) if _STATE_COLUMN.fullmatch(cell)), 0)
    for row in rows:
        if any(name.lower() in cell.lower() for cell in row):
            yield row[at] if head and len(row) == len(head) else ""


def _why_unproven(text: str, ids: list[str]) -> str:
    """Why a text without the box doesn't prove that it is gone; '' if it proves it."""
    if not text.strip():
        return "the list is empty; run the listing command again and look at its errors"
    if not ids:
        return (
            "no id to look for; pass the instance's id with --id, "
            "because a list without the box's address proves nothing"
        )
    return _no_list(text) or _cut(text, ids)


def shows_nothing(text: str) -> bool:
    """Return whether a provider's list has no row of any box."""
    try:
        left = [json.loads(text.lstrip("\ufeff"))]
    except (ValueError, RecursionError):
        rows = [row for row in text.splitlines() if any(map(str.isalnum, row))]
        return len(rows) < 2 or any(_NONE.match(row.strip()) for row in rows)
    while left:
        one = left.pop()
        if isinstance(one, list) and one:
            return False
        left += one.values() if isinstance(one, dict) else ()
    return True


def _no_list(text: str) -> str:
    """What is wrong with a text that isn't a whole list; '' for a whole one."""
    start = shown(text.strip(), 120)
    if "\0" in text:
        return "the list isn't text; save it as UTF-8"
    try:
        parsed = json.loads(text.lstrip("\ufeff"))
    except (ValueError, RecursionError):
        rows = [line.strip() for line in text.splitlines() if line.strip()]
        if any(_NONE.match(row) for row in rows) or _header(rows):
            return ""
        return (
            f"no list in this text ({start}); pass the provider's list as JSON "
            "or as a table with its header"
        )
    if isinstance(parsed, dict) and any(parsed.get(name) for name in _MORE):
        return "only the first page of a longer list; ask for every page"
    if isinstance(parsed, list) or (isinstance(parsed, dict) and _holds_list(parsed)):
        return ""
    return f"JSON without a list ({start}); pass the provider's list"


def _holds_list(parsed: dict) -> bool:
    """Whether an object, or an object in it, has a list and no error: {"data": {"pods": []}}."""
    inner = [value for value in parsed.values() if isinstance(value, dict)]
    values = [*parsed.values(), *(value for group in inner for value in group.values())]
    return any(isinstance(value, list) for value in values) and not parsed.get("error")


def _header(rows: list[str]) -> bool:
    """Whether one of the first rows names two or more columns, as a table's header does."""
    for row in rows[:6]:
        cells = [cell for cell in _CELLS.split(row.strip("|│┃ ")) if cell]
        if len(cells) > 1 and sum(bool(_HEADER.fullmatch(cell)) for cell in cells) > 1:
            return True
    return False


def _cut(text: str, ids: list[str]) -> str:
    """What is wrong with a list that cuts ids short, if a cut one may be this box; otherwise ''."""
    for cut in _CUT.finditer(text):
        for id in ids:
            if id.lower().startswith(cut[1].lower()):
                return (
                    f"{cut[0]} in the list may be {id}; "
                    "get the list as JSON or as a wider table, with whole ids"
                )
    return ""
