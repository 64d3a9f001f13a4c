"""The facts of a platform, as YAML front matter of profiles/NAME.md: what programs use, each with its source and date.

Raises ProfileError with file, field, what was found and what was expected. A fact is `confirmed` when a page of the platform's own documentation,
with a date, says it; else `unconfirmed`, and programs take the cautious branch.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Generic, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

Value = TypeVar("Value")
Kind = Literal["price", "quota", "platform"]


class ProfileError(Exception):
    """A profile that doesn't keep to the schema. One line a fault."""


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Fact(Strict, Generic[Value]):
    """One value with the page that says so. `date`: the page's own date (of its last change, or of the stored copy that was read)."""

    value: Value
    source: str = Field(pattern=r"^https?://\S+$", description="the page that says so")
    date: datetime.date | None = Field(description="date of that page, or of the stored copy that was read; null when it has none")
    status: Literal["confirmed", "unconfirmed"]
    kind: Kind = "platform"
    note: str = Field("", description="what disagrees, or what wasn't found")

    @model_validator(mode="after")
    def _confirmed_needs_a_date(self):
        if self.status == "confirmed" and self.date is None:
            raise ValueError("found a confirmed fact without a date, expected the date of the page, or status: unconfirmed")
        return self


class StopBilling(Strict):
    command: str = Field(description="what a user runs to stop the charges, or the steps in the console")
    deletes: str = Field(description="what it deletes for ever")
    still_billed: str = Field(description="what goes on being billed after it")


class SelfStop(Strict):
    possible: bool
    command: str = Field(description="what the box runs to stop itself; empty when it can't")
    credential: str = Field(description="the key that it needs on the box, and how narrow that can be made")
    survives: str = Field(description="what is left afterwards")


class Survives(Strict):
    stop: str = Field(description="what outlives a stop, and for how long")
    destroy: str = Field(description="what outlives the end of the box")


class Paths(Strict):
    scratch: list[str] = Field(description="fast, lost with the box")
    durable: list[str] = Field(description="outlives the box")
    note: str = ""


class Quota(Strict):
    storage: str = Field(description="sizes and prices of disks and shared storage")
    inodes: int | None = Field(description="most files of the durable place; null where no limit is written")


class Ssh(Strict):
    form: str = Field(description="the line a user pastes, with HOST, PORT and KEY")
    user: str
    full: bool = Field(description="scp, rsync and port forwarding work over it")
    limits: str = Field("", description="where a proxied ssh isn't a full one")


class Limits(Strict):
    most_hours: float | None
    idle_minutes: float | None
    text: str


class Preemption(Strict):
    possible: bool
    notice_seconds: float | None = Field(description="null: none is promised")
    form: str = Field(description="how the box learns of it: a signal, a metadata URL, nothing")


class Text(Strict):
    text: str


class Facts(Strict):
    stop_billing: Fact[StopBilling]
    self_stop: Fact[SelfStop]
    survives: Fact[Survives]
    paths: Fact[Paths]
    quota: Fact[Quota]
    ssh: Fact[Ssh]
    limits: Fact[Limits]
    preemption: Fact[Preemption]
    spot: Fact[Text] = Field(description="whether there is an interruptible kind, how it is asked for, what it costs beside the other")
    egress: Fact[Text] = Field(description="price of traffic out")
    network: Fact[Text] = Field(description="mirrors and proxy that are needed or offered")
    scheduler: Fact[Text]
    ports: Fact[Text]
    container: Fact[Text] = Field(description="root, nested containers, /dev/shm, memory limit")
    driver: Fact[Text] = Field(description="which driver or CUDA ceiling, and how it is chosen or seen")
    listing: Fact[Text] = Field(description="the command that lists what is running and billed")
    price: Fact[Text] = Field(description="an example, to show the order of magnitude, and where today's stands")


class Profile(Strict):
    name: str = Field(pattern=r"^[a-z0-9-]+$")
    title: str
    kind: Literal["rental", "scheduler", "notebook", "serverless", "own"]
    tokens: list[str] = Field(description="texts in logs and paths that show this platform")
    facts: Facts


def read(path: Path) -> tuple[Profile, str]:
    """(facts, body) of a profile page. Raises ProfileError."""
    text = path.read_text(encoding="utf-8")
    if not text.startswith("---\n") or "\n---\n" not in text:
        raise ProfileError(f"{path}: found no YAML front matter, expected it between two lines of ---")
    head, body = text[4:].split("\n---\n", 1)
    try:
        return Profile.model_validate(yaml.safe_load(head)), body
    except yaml.YAMLError as error:
        raise ProfileError(f"{path}: found YAML that can't be read ({str(error).splitlines()[0]})") from None
    except ValidationError as error:
        lines = [f"{path}: {'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
        raise ProfileError("\n".join(lines)) from None


if __name__ == "__main__":
    import sys

    for name in sys.argv[1:]:
        try:
            found, body = read(Path(name))
            facts = [getattr(found.facts, f) for f in Facts.model_fields]
            print(name, "ok", sum(f.status == "confirmed" for f in facts), "of", len(facts), "confirmed")
        except ProfileError as error:
            print(error)
