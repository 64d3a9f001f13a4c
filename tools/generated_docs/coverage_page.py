"""docs/coverage.md: what explains each item of the lists of failures that others keep."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.catalogue.bundle import CatalogueError
from remote_gpu_trainer.catalogue.entry import ID, Entry
from remote_gpu_trainer.logs.kernel.xids import XID_ROWS

from .templates_of_documents import filled

DATA, PAGE = "docs/coverage.yaml", "docs/coverage.md"
Answer = list[str] | Literal["out", "gap"]


class Item(BaseModel):
    """An item of a list with one of: entries that explain it, why it is out of scope, a gap."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    item: str
    means: str = Field("", alias="is")
    entries: list[str] = []
    but: str = ""
    out: str = ""
    gap: str = ""
    first: Answer | None = None
    second: Answer | None = None

    @model_validator(mode="after")
    def _has_one_answer(self) -> Item:
        if sum(map(bool, (self.entries, self.out, self.gap))) != 1:
            raise ValueError(f"{self.item}: give it one of entries, out and gap")
        if self.but and not self.entries:
            raise ValueError(f"{self.item}: but goes with entries; put it into out or gap")
        return self

    @property
    def answer(self) -> Answer:
        """The answer that stands, in the form of a pass's."""
        return self.entries or ("out" if self.out else "gap")

    @property
    def agreed(self) -> bool:
        """Whether both passes gave the same kind of answer, and a common entry if any."""
        first, second = self.first or self.answer, self.second or self.answer
        if isinstance(first, list) and isinstance(second, list):
            return bool({*first} & {*second})
        return first == second


class Listing(BaseModel):
    """A list of somebody else's, as it was read on a day."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    name: str = Field(alias="list")
    what: str
    sources: list[str]
    read: date
    items: list[Item]

    def count(self, kind: str) -> int:
        """How many items have an answer in the field `kind`: entries, out or gap."""
        return sum(bool(getattr(item, kind)) for item in self.items)


def read(root: Path) -> list[Listing]:
    """The lists in the data below `root`. Raises CatalogueError for a fault in them."""
    text = (root / DATA).read_text(encoding="utf-8")
    try:
        return TypeAdapter(list[Listing]).validate_python(yaml.safe_load(text))
    except yaml.YAMLError as fault:
        told = " ".join(str(fault).split())
        raise CatalogueError(f"{DATA}: can't be read as YAML; mend it: {told}") from fault
    except ValidationError as fault:
        first = fault.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise CatalogueError(f"{DATA}: {where}: {first['msg']}; see its head") from fault


def coverage_page(root: Path) -> str:
    """The page, with a link to each entry. Raises CatalogueError for an id without an entry."""
    lists, entries = read(root), bundle.read(root).by_id
    items = [item for each in lists for item in each.items]
    for item in items:
        for name in _ids(item):
            if name not in entries:
                raise CatalogueError(
                    f"{DATA}: {item.item}: there is no entry {name}; name one that there is"
                )
    return filled(
        "coverage",
        lists=lists,
        items=items,
        agreed=sum(item.agreed for item in items),
        entries=entries,
        link=link,
        xids=len(set().union(*(codes for codes, _, _ in XID_ROWS))),
    )


def _ids(item: Item) -> list[str]:
    """All ids that an item names: its entries, those of the passes, and those in its remarks."""
    passes = [answer for answer in (item.first, item.second) if isinstance(answer, list)]
    words = re.findall(rf"\b{ID.pattern}\b", f"{item.but} {item.out} {item.gap}")
    return [*item.entries, *sum(passes, []), *words]


def link(entry: Entry) -> str:
    """The address of an entry from docs/: its page, and its heading's anchor on GitHub."""
    heading = f"{entry.id} — {entry.title}".lower()
    return f"../{entry.path}#" + re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")
