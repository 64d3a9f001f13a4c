"""Ask a provider what an account has, and change a box, by the commands of the platform's page.

No shell runs them. A key goes to curl on its standard input, never on a command line, and is never
part of a text that comes back. An answer is trusted no further than its form: ids and addresses are
checked character by character, and what can't be read is an error, never an empty list.
"""

from __future__ import annotations

import email.utils
import glob
import hashlib
import json
import os
import re
import shlex
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any, Literal

from ..numbers import finite
from ..text import UserError
from ..text.masking import shown, shown_lines
from .profile import Act, Commands, Profile, ProfileError, Rows, get, load

LIMIT = 90.0  # seconds for one command
ALL = 180.0  # seconds for one list of all regions
MOST = 32 << 20  # bytes of an answer
MOUNTS = "MOUNTS"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,120}\Z")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:-]{0,252}\Z")
_PLACE = re.compile(r"\b(?:ID|REGION)\b")
Standing = Literal["running", "stopped", "ended", "unknown"]


class NoAnswer(UserError):
    """A provider couldn't be asked, or its answer can't be read. What is wrong; what to do."""


class NotSetUp(NoAnswer):
    """This machine has no key or no program for a provider."""


@dataclass(frozen=True)
class Item:
    """A box or a disk of an account.

    `state`: in the provider's word; `standing`: what it means. `created`: seconds since 1970, None
    where the list doesn't say. `hourly`, `gb_month`: USD. `of`: of a disk, the ids of its boxes.
    `hosts`: (host, port) by which it is reached, the port '' where any is its own. `mounts`: where
    its own disks are. `kind`: boxes of one kind end alike. `locked`: the provider won't end it.
    """

    id: str
    name: str = ""
    state: str = ""
    standing: Standing = "unknown"
    created: float | None = None
    hourly: float | None = None
    gb: float | None = None
    gb_month: float | None = None
    of: tuple[str, ...] = ()
    hosts: tuple[tuple[str, str], ...] = ()
    mounts: tuple[str, ...] = ()
    kind: str = ""
    locked: bool = False
    region: str = ""

    @property
    def month(self) -> float | None:
        """Return what its disk costs a month in USD, None where that isn't known."""
        known = self.gb is not None and self.gb_month is not None
        return self.gb * self.gb_month if known and self.gb and self.gb_month else None

    def is_at(self, address: str) -> bool:
        """Return whether a box is reached at host:port, or at a host whose port isn't known."""
        host, _, port = address.rpartition(":") if ":" in address else (address, "", "")
        return any(host == own and at in ("", port) for own, at in self.hosts)


@dataclass(frozen=True)
class Provider:
    """A platform whose page has commands for programs."""

    name: str
    commands: Commands
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)

    def boxes(self) -> list[Item]:
        """Return all boxes of the account, in all regions. Raises NoAnswer."""
        return self._items(self.commands.boxes)

    def disks(self) -> list[Item]:
        """Return the storage that outlives a box. Raises NoAnswer."""
        return self._items(self.commands.disks) if self.commands.disks else []

    def account(self) -> str:
        """Return a mark of the account: it differs between accounts and names none. Raises
        NoAnswer."""
        mark = self._key()
        if self.commands.account:
            rows = list(self._rows(self.commands.account, ""))
            mark = rows[0].id if len(rows) == 1 else ""
            if not mark:
                raise NoAnswer(f"{self.name}: its account can't be read; log in anew")
        return hashlib.sha256(f"{self.name}\n{mark}".encode()).hexdigest()[:16]

    def words(self, act: Act, box: Item) -> list[str]:
        """Return the words of a command for a box."""
        given = {"ID": box.id, "REGION": box.region}
        words = shlex.split(act.command)
        return [_PLACE.sub(lambda found: given[found[0]], word) for word in words]

    def change(self, act: Act, box: Item) -> None:
        """Run a command that changes a box. Raises NoAnswer."""
        self._run(self.words(act, box))

    def clock(self) -> float:
        """Return the provider's time, in seconds since 1970. Raises NoAnswer."""
        words = ["curl", "-sSI", "-m", "20", self.commands.clock]
        head = self._run(words, with_key=False).decode("latin-1")
        found = re.search(r"^date:[ \t]*(.+?)\s*$", head, re.I | re.M)
        try:
            return email.utils.parsedate_to_datetime(found[1]).timestamp() if found else 0.0 / 0
        except (ValueError, TypeError, ZeroDivisionError, OverflowError):
            raise NoAnswer(f"{self.name}: its answer names no time; try again later") from None

    def _items(self, rows: Rows) -> list[Item]:
        regions = [""]
        if "REGION" in rows.command and self.commands.regions:
            regions = [row.id for row in self._rows(self.commands.regions, "")]
            if not regions:
                raise NoAnswer(f"{self.name}: it names no regions; check the account's rights")
        items, began = [], time.monotonic()
        for region in regions:
            if time.monotonic() - began > ALL:
                raise NoAnswer(f"{self.name}: its {len(regions)} regions took more than {ALL:g} s; "
                               "try again later")  # fmt: skip
            items += self._rows(rows, region)
        return items

    def _rows(self, rows: Rows, region: str) -> Iterator[Item]:
        """Yield what a command lists. Raises NoAnswer where the answer isn't a whole list."""
        words = [word.replace("REGION", region) for word in shlex.split(rows.command)]
        said = self._run(words)
        try:
            answer = json.loads(said)
        except (ValueError, RecursionError):
            why = next(iter(shown_lines(said.decode("utf-8", "replace"), 1, 120)), "nothing")
            raise NoAnswer(
                f"{self.name}: {words[0]} answered no JSON ({self._safe(why)}); log in anew, or "
                "try again later"
            ) from None
        found, path = [answer], rows.rows.split(".") if rows.rows else []
        for part in path:
            lists = [one.get(part) if isinstance(one, dict) else None for one in found]
            if not all(isinstance(one, list) for one in lists):
                raise NoAnswer(f"{self.name}: its answer has no list {part}; see rgt profile")
            found = [row for one in lists if one for row in one]
        if path and any(answer.get(more) for more in ("NextToken", "next_token", "nextToken")):
            raise NoAnswer(f"{self.name}: its answer is one page of several; update {words[0]}")
        for row in found if path or not isinstance(answer, list) else answer:
            yield replace(self._item(rows, row), region=region)

    def _item(self, rows: Rows, row: Any) -> Item:
        where = rows.fields
        values = {
            name: _first(_at(row, getattr(where, name))) if getattr(where, name) else None
            for name in ("id", "name", "state", "created", "hourly", "gb", "gb_month", "locked")
        }
        if not _ID.match(str(values["id"] if values["id"] is not None else "")):
            raise NoAnswer(f"{self.name}: a row of its list has no id; see rgt profile {self.name}")
        hourly, gb = finite(values["hourly"]), finite(values["gb"])
        kinds = [str(_first(_at(row, path)) or "") for path in where.kind]
        return Item(
            id=str(values["id"]),
            name=shown(values["name"] or "", 60),
            state=shown(values["state"] or "", 30),
            standing=self._standing(str(values["state"])),
            created=_moment(values["created"]),
            hourly=None if hourly is None else hourly * rows.hourly_unit,
            gb=None if gb is None else gb * rows.gb_unit,
            gb_month=rows.gb_month if values["gb_month"] is None else finite(values["gb_month"]),
            of=tuple(str(one) for one in _all(_at(row, where.of) if where.of else None)),
            hosts=tuple(host for path in where.hosts if (host := _host(row, path))),
            mounts=tuple(str(one) for path in where.mounts for one in _all(_at(row, path)) if one),
            kind=shown(" ".join(filter(None, kinds)), 60),
            locked=values["locked"] is True,
        )

    def _standing(self, state: str) -> Standing:
        known = self.commands
        if state in known.running:
            return "running"
        return (
            "stopped" if state in known.stopped else "ended" if state in known.ended else "unknown"
        )

    def _key(self) -> str:
        name = self.commands.key
        value = self.environment.get(name, "") if name else ""
        if name and (not value or not value.isprintable()):
            raise NotSetUp(
                f"{self.name}: {name} isn't set; export it, or give a file of NAME=value by --keys"
            )
        return value

    def _safe(self, text: str) -> str:
        key = self.environment.get(self.commands.key, "") if self.commands.key else ""
        return text.replace(key, "***") if key else text

    def _run(self, words: list[str], *, with_key: bool = True) -> bytes:
        """Return what a command prints. Raises NoAnswer."""
        key = self._key() if with_key else ""
        given = f"Authorization: Bearer {key}\n".encode() if key else b""
        environment = {**self.environment, "AWS_PAGER": "", "LC_ALL": "C.UTF-8"}
        named = words[0]
        try:
            done = subprocess.run(
                words, check=False, input=given, capture_output=True, timeout=LIMIT, env=environment
            )  # fmt: skip
        except FileNotFoundError:
            raise NotSetUp(f"{self.name}: {named} isn't installed here; install it") from None
        except (subprocess.TimeoutExpired, OSError):
            raise NoAnswer(
                f"{self.name}: {named} gave no answer within {LIMIT:g} s; try again later"
            ) from None
        if done.returncode or len(done.stdout) > MOST:
            errors = done.stderr.decode("utf-8", "replace")
            last = next(reversed(shown_lines(errors, 1, 160)), "no message")
            raise NoAnswer(
                f"{self.name}: {named} ended with {done.returncode} ({self._safe(last)}); check "
                "the key and the network"
            )
        return done.stdout


def of(name: str, environment: dict[str, str] | None = None) -> Provider:
    """Return the provider of this name. Raises ProfileError."""
    page: Profile = get(name)
    if page.facts.commands is None:
        known = ", ".join(names())
        raise ProfileError(f"the page of {page.name} has no commands for programs; use {known}")
    given = dict(os.environ) if environment is None else environment
    return Provider(page.name, page.facts.commands.value, given)


def names() -> list[str]:
    """Return the platforms whose pages have commands for programs."""
    return [name for name, page in load().items() if page.facts.commands]


def kept(act: Act, box: Item) -> list[str]:
    """Return the mount points whose files an end of this box keeps, as patterns of fnmatch."""
    own = [glob.escape(place) for place in box.mounts if place.startswith("/") and place != "/"]
    return [place for rule in act.keeps for place in (own if rule == MOUNTS else [rule])]


def _at(value: Any, path: str) -> Any:
    """Return what a path leads to, through objects and through each item of lists; None for
    nothing."""
    for part in path.split(".") if path else ():
        if isinstance(value, list) and value and all(_is_tag(one) for one in value):
            value = {one["Key"]: one["Value"] for one in value}
        if isinstance(value, list):
            value = [found for one in value for found in _all(_at(one, part))]
        else:
            value = value.get(part) if isinstance(value, dict) else None
    return value


def _is_tag(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"Key", "Value"}


def _all(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _first(value: Any) -> Any:
    return next(iter(_all(value)), None)


def _host(row: Any, path: str) -> tuple[str, str] | None:
    host, _, port = path.partition(" ")
    found = _first(_at(row, host))
    number = _first(_at(row, port)) if port else ""
    if not isinstance(found, str) or not _HOST.match(found) or number is None:
        return None
    return found, str(number)


def _moment(value: Any) -> float | None:
    """Return a time in seconds since 1970, None for what is none."""
    if isinstance(value, str):
        try:
            at = datetime.fromisoformat(re.sub(r"Z\Z", "+00:00", value))
        except ValueError:
            return None
        return (at if at.tzinfo else at.replace(tzinfo=timezone.utc)).timestamp()
    return finite(value)
