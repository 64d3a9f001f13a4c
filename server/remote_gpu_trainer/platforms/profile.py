"""The facts of a platform: the YAML front matter of profiles/NAME.md, each with source and date.

A fact is `confirmed` if a dated page of the platform's own documentation states it. Any other fact
is `unconfirmed`, and programs then choose the cautious branch; `by` says who states it.
"""

from __future__ import annotations

import datetime
import difflib
from functools import lru_cache
from pathlib import Path
from typing import Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ..catalogue import bundle, front_matter
from ..catalogue.facts import FactError, pages, split
from . import questions
from .cards import GPUS

NAME = r"^[a-z0-9-]+$"  # of a page
Value = TypeVar("Value")
Kind = Literal["price", "quota", "platform"]
# Facts that may be null, by kind of platform, because the thing doesn't exist there or depends on a
# provider that the page doesn't know.
NOT_THERE: dict[str, frozenset[str]] = {
    "own": frozenset(
        {"stop_billing", "self_stop", "egress", "spot", "price", "quota", "listing", "preemption"}
    ),
    "scheduler": frozenset({"egress", "spot", "price"}),
    "unnamed": frozenset({"egress", "spot", "price", "listing"}),
}


# Facts that no page needs: where nobody wrote down what they say, there is none.
OPTIONAL = frozenset({"card_prices", "commands"})


class ProfileError(FactError):
    """A profile is unknown or doesn't follow the schema. One line per fault: file, field, fault."""


class Strict(BaseModel):
    """A model that refuses unknown fields and can't be changed."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Fact(Strict, Generic[Value]):
    """One value and the page that states it.

    `date` is the page's date: of its last change, or of the stored copy that was read.
    """

    value: Value
    source: str = Field(pattern=r"^https?://\S+$", description="the page that states it")
    date: datetime.date | None = Field(
        description="date of that page, or of the stored copy that was read; null when it has none"
    )
    status: Literal["confirmed", "unconfirmed"]
    by: Literal["undated page", "sister site", "several users", "one user"] | None = Field(
        None, description="who states an unconfirmed fact; null: nobody known, so it is a guess"
    )
    kind: Kind = "platform"
    drilled: datetime.date | None = Field(
        None, description="when `rgt drill` last showed it on a real account; null: never"
    )
    note: str = Field("", description="what disagrees, or what wasn't found")

    @model_validator(mode="after")
    def _confirmed_needs_a_date(self):
        if self.status == "confirmed" and self.date is None:
            raise ValueError(
                "a confirmed fact needs a date; give the page's, or set status: unconfirmed"
            )
        return self


class StopBilling(Strict):
    """How to end the charges for a box."""

    command: str = Field(
        description="what a user runs to stop the charges, or the steps in the console"
    )
    deletes: str = Field(description="what it deletes for good")
    still_billed: str = Field(description="what is still billed after it")
    while_stopped: str = Field(
        "", description="what is billed while a box is stopped; empty: the page doesn't say"
    )


class SelfStop(Strict):
    """Whether and how a box stops itself."""

    possible: bool
    command: str = Field(description="what the box runs to stop itself; empty when it can't")
    credential: str = Field(
        description="the key that it needs on the box, and how far its rights can be limited"
    )
    survives: str = Field(description="what is left afterwards")
    keeps_disk: bool | None = Field(
        None,
        description="whether the disk is kept; null: unknown, so a program doesn't rely on it",
    )


class Survives(Strict):
    """What outlives a stop of a box, and what outlives its end."""

    stop: str = Field(description="what outlives a stop, and for how long")
    destroy: str = Field(description="what outlives the end of the box")
    outlives: bool | None = Field(
        None,
        description="whether any storage outlives the end of the box and can be used by the "
        "next one; null: unknown",
    )
    stop_keeps_disk: bool | None = Field(
        None,
        description="whether a stopped box keeps its disk; null: unknown, or there is no stop",
    )


class Paths(Strict):
    """Where to put files on a box."""

    scratch: list[str] = Field(description="fast, lost with the box")
    durable: list[str] = Field(description="outlives the box")
    note: str = ""


class Quota(Strict):
    """The limits and prices of storage."""

    storage: str = Field(description="sizes of disks and shared storage")
    costs: str = Field("", description="what storage costs; empty if the page has no price")
    inodes: int | None = Field(
        description="the most files in the durable place; null if no limit is stated"
    )
    disk_gb: float | None = Field(
        None,
        description="the largest disk of one box, in GB; null if no limit is stated",
    )


class Ssh(Strict):
    """How to log in."""

    form: str = Field(description="the line a user pastes, with HOST, PORT and KEY")
    user: str
    full: bool = Field(description="scp, rsync and port forwarding work over it")
    limits: str = Field("", description="what ssh through a proxy can't do")


class Limits(Strict):
    """How long a box may run or stand idle."""

    most_hours: float | None
    idle_minutes: float | None
    text: str


class Preemption(Strict):
    """Whether the provider takes a box away, and how the box learns of it."""

    possible: bool
    on_demand: bool | None = Field(
        None,
        description="whether a box that isn't of the interruptible kind can be taken for another "
        "customer as well; null: unknown",
    )
    notice_seconds: float | None = Field(description="null: none is promised")
    form: str = Field(description="how the box learns of it: a signal, a metadata URL, nothing")


class Spot(Strict):
    """The interruptible kind of box."""

    offered: bool | None = Field(
        None, description="whether there is an interruptible kind; null: unknown"
    )
    text: str


class Egress(Strict):
    """The price of traffic out."""

    free: bool | None = Field(None, description="whether traffic out costs nothing; null: unknown")
    text: str


class Text(Strict):
    """A fact that has words only."""

    text: str


class CardPrices(Strict):
    """What a box with one card cost an hour on the day of the fact's date: examples, no list."""

    currency: Literal["USD", "CNY"]
    an_hour: dict[str, float] = Field(
        description="{card as `rgt fit` names it: price of a box with one of it, on demand}"
    )

    @model_validator(mode="after")
    def _cards_are_known(self):
        for card, price in self.an_hour.items():
            if card not in GPUS:
                raise ValueError(f"{card!r} is no card; use one of {', '.join(GPUS)}")
            if price <= 0:
                raise ValueError(f"{card} costs {price:g}; write what an hour costs")
        return self


class Fields(Strict):
    """Where the JSON of a list has each field. A path such as a.b leads through objects and through
    each item of a list; a list of {Key, Value} counts as an object."""

    id: str
    name: str = ""
    state: str = ""
    created: str = Field("", description="seconds since 1970, or a time as ISO 8601 has it")
    hourly: str = Field("", description="what it costs an hour")
    gb: str = Field("", description="the size of its disk")
    gb_month: str = Field("", description="what a GB costs a month")
    of: str = Field("", description="of a disk: the id of its box")
    hosts: list[str] = Field([], description="path of the host, a blank, path of the port")
    mounts: list[str] = Field([], description="paths of the folders where its own disks are")
    kind: list[str] = Field([], description="what tells kinds of box apart that end differently")
    locked: str = Field("", description="true where the provider refuses to end it")


class Rows(Strict):
    """A command that lists something as JSON."""

    command: str
    rows: str = Field("", description="the list in the answer; empty: the answer itself")
    fields: Fields
    hourly_unit: float = Field(1.0, description="USD of 1 in the field hourly")
    gb_unit: float = Field(1.0, description="GB of 1 in the field gb")
    gb_month: float | None = Field(None, description="USD that a GB costs a month")


class Act(Strict):
    """A command that changes a box."""

    command: str
    keeps: list[str] = Field(
        [],
        description="mount points whose files it keeps, * for any name; MOUNTS: the box's own "
        "disks as the list shows them; all other files are lost",
    )


class Commands(Strict):
    """The commands by which programs ask the platform and end a box.

    No shell runs them. ID and REGION stand for the box's.
    """

    key: str = Field("", description="variable whose value goes to curl as a Bearer token")
    account: Rows | None = Field(None, description="names the account; null: the key does")
    regions: Rows | None = Field(None, description="the regions that are asked; null: there is one")
    clock: str = Field(description="a page of the platform, whose answer's date is its clock")
    boxes: Rows
    running: list[str] = Field(description="states of a box that runs and is billed")
    stopped: list[str] = Field(description="states of a stopped box, whose disk may be billed")
    ended: list[str] = Field(description="states of a box that isn't billed any more")
    disks: Rows | None = Field(None, description="storage that outlives a box")
    stop: Act | None = Field(description="the gentlest end that stops the GPU's price")
    start: Act | None
    end: Act


class Facts(Strict):
    """All facts of a platform. Null: the platform has no such thing (see `NOT_THERE`)."""

    stop_billing: Fact[StopBilling] | None
    self_stop: Fact[SelfStop] | None
    survives: Fact[Survives]
    paths: Fact[Paths]
    quota: Fact[Quota] | None
    ssh: Fact[Ssh]
    limits: Fact[Limits]
    preemption: Fact[Preemption] | None
    spot: Fact[Spot] | None = Field(
        description="whether there is an interruptible kind, how to ask for it, "
        "what it costs compared with others"
    )
    egress: Fact[Egress] | None = Field(description="price of traffic out")
    network: Fact[Text] = Field(description="mirrors and proxy that are needed or offered")
    scheduler: Fact[Text]
    ports: Fact[Text]
    container: Fact[Text] = Field(description="root, nested containers, /dev/shm, memory limit")
    driver: Fact[Text] = Field(
        description="the highest driver or CUDA version, and how to choose or see it"
    )
    listing: Fact[Text] | None = Field(
        description="the command that lists what is running and billed"
    )
    price: Fact[Text] | None = Field(
        description="an example that shows the order of magnitude, and where to find today's price"
    )
    card_prices: Fact[CardPrices] | None = Field(
        None, description="what one card cost an hour on that date; no page needs it"
    )
    commands: Fact[Commands] | None = Field(
        None, description="commands that programs run: list, stop, start, end; no page needs it"
    )


class Repeat(Strict):
    """A fact whose value the page's guide says again."""

    fact: str = Field(description="the fact and its field, such as preemption.notice_seconds")
    value: int | float | str = Field(description="the value as the guide has it")
    text: str = Field(description="the words of the guide that say it")


class Profile(Strict):
    """A platform: its name, its kind, the texts that identify it in logs, and its facts."""

    name: str = Field(pattern=NAME)
    title: str
    kind: Literal["rental", "scheduler", "notebook", "serverless", "own", "unnamed"]
    tokens: list[str] = Field(description="texts in logs and paths that show this platform")
    repeats: list[Repeat] = Field(default=[], description="facts that the guide says again")
    facts: Facts

    @model_validator(mode="after")
    def _only_what_cannot_be_there_is_null(self):
        for name in Facts.model_fields:
            may_lack = OPTIONAL | NOT_THERE.get(self.kind, frozenset())
            if getattr(self.facts, name) is None and name not in may_lack:
                raise ValueError(
                    f"{name} is null; write the fact, every platform of kind {self.kind} has it"
                )
        return self


def read_profile(path: Path) -> Profile:
    """The facts of a profile page. Raises ProfileError."""
    return read_page(path)[0]


def read_page(path: Path) -> tuple[Profile, str]:
    """(facts, body) of a profile page. Raises ProfileError."""
    head, body = split(path.read_text(encoding="utf-8"))
    if not head:
        raise ProfileError(
            f"{path}: no YAML front matter; put it at the top, between two lines of ---"
        )
    try:
        fields = front_matter.parse(head, str(path))
    except FactError as error:
        raise ProfileError(str(error)) from None
    try:
        return Profile.model_validate(fields), body
    except ValidationError as error:
        faults = [
            (".".join(map(str, e["loc"])), e["msg"].removeprefix("Value error, "))
            for e in error.errors()
        ]
        lines = [": ".join(filter(None, (str(path), *fault))) for fault in faults]
        raise ProfileError("\n".join(lines)) from None


def read_all(root: Path) -> dict[str, Profile]:
    """The profiles under `root`/profiles by name. Raises ProfileError, with the faults of all."""
    found, faults = {}, []
    for path in pages(root):
        try:
            found[path.stem] = read_profile(path)
        except ProfileError as error:
            faults.append(str(error))
    if faults:
        raise ProfileError("\n".join(faults))
    return found


@lru_cache(maxsize=1)
def load() -> dict[str, Profile]:
    """The profiles of this installation by name. Raises ProfileError and CatalogueError."""
    return read_all(bundle.bundle_root())


def get(name: str) -> Profile:
    """The profile of this name, or the only one whose name begins so; reads its page alone.

    Raises ProfileError.
    """
    places = {path.stem: path for path in pages(bundle.bundle_root())}
    spelt = name.strip().lower()
    if spelt not in places:
        begun = [place for place in places if len(spelt) > 2 and place.startswith(spelt)]
        spelt = questions.page_called(name) or (begun[0] if len(begun) == 1 else spelt)
    if spelt not in places:
        if provider := questions.provider_without_page(name):
            raise ProfileError(
                f"there is no page on {provider}; generic-ssh holds for any Linux box, "
                "and 'rgt profile' lists the others"
            )
        near = difflib.get_close_matches(spelt, places, n=1, cutoff=0.7)
        hint = (
            f"did you mean {near[0]}? (rgt profile lists them)"
            if near
            else f"use one of {', '.join(places)}"
        )
        raise ProfileError(f"unknown profile {name[:40]!r}; {hint}")
    return read_profile(places[spelt])
