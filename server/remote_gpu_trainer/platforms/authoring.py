"""A new page of a platform: its form, with each fact that its kind needs and none known yet."""

from __future__ import annotations

import re
import typing
from datetime import date
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from ..catalogue import bundle
from .profile import NAME, NOT_THERE, OPTIONAL, Facts, Profile, ProfileError

HINT = "Not looked up yet"  # begins the note of a fact of the form; no page may keep it
UNKNOWN = "unknown"
# What a program must assume of a thing that nobody has looked up, where the field can't be null.
_CAUTIOUS: dict[tuple[str, str], Any] = {
    ("self_stop", "possible"): False,
    ("self_stop", "command"): "",
    ("preemption", "possible"): True,
    ("ssh", "full"): False,
}
_KINDS = {"stop_billing": "price", "spot": "price", "egress": "price", "price": "price",
          "quota": "quota", "limits": "quota"}  # fmt: skip
GUIDE = {
    "Launch": "how a box is made, and what can't be changed afterwards",
    "Storage": "which disk outlives a stop and which the end of the box; what each costs",
    "Network": "how to reach a port, and what changes with a new start",
    "Interruption": "who may take the box away, and how it learns of it",
    "Teardown": "the command that ends the bill, and what to delete apart",
    "Running in the background": "how a run outlives the connection, and how it ends the box",
}


def form(name: str, title: str, kind: str, today: date) -> str:
    """The page of a new platform: valid, and every fact a guess that says so with its date.

    `kind`: as `Profile.kind` has it. Raises ProfileError.
    """
    if not re.fullmatch(NAME, name):
        raise ProfileError(
            f"{name[:40]!r} can't be a page's name; use small letters, digits and hyphens"
        )
    lacks = NOT_THERE.get(kind, frozenset())
    facts: dict[str, Any] = {
        fact: None
        if fact in lacks
        else {
            "value": _unknown(fact, _value_of(about.annotation)),
            "source": f"https://{name}.example/",
            "date": None,
            "status": "unconfirmed",
            "kind": _KINDS.get(fact, "platform"),
            "note": f"{HINT} ({today}).",
        }
        for fact, about in Facts.model_fields.items()
        if fact not in OPTIONAL
    }
    head = {"name": name, "title": title, "kind": kind, "tokens": [], "facts": facts}
    Profile.model_validate(head)  # the form itself keeps to the schema
    lines = [f"## {part}\n\n- {HINT}: {about}." for part, about in GUIDE.items()]
    text = yaml.safe_dump(head, sort_keys=False, allow_unicode=True, width=1000)
    return f"---\n{text}---\n\n# {title}\n\n" + "\n\n".join(lines) + "\n"


def put(name: str, markdown: str) -> Path:
    """Write the form as profiles/`name`.md and return the file.

    Raises ProfileError where it can't, or the page is there.
    """
    root = bundle.bundle_root()
    if not (root / "pyproject.toml").is_file():
        raise ProfileError(
            f"{root} isn't a checkout; clone the repository and run pip install -e . in it"
        )
    place = root / "profiles" / f"{name}.md"
    if place.exists():
        raise ProfileError(f"{place} is there; edit it, or give another name")
    place.write_text(markdown, encoding="utf-8")
    return place


def _unknown(fact: str, model: type[BaseModel]) -> dict[str, Any]:
    """The fields of a value, each as unknown as its type allows."""
    return {
        field: _CAUTIOUS.get((fact, field), _empty(about.annotation))
        for field, about in model.model_fields.items()
    }


def _empty(kind: Any) -> Any:
    if kind is str:
        return UNKNOWN
    return [] if typing.get_origin(kind) is list else None


def _value_of(annotation: Any) -> type[BaseModel]:
    """The model of a fact's value: Fact[Ssh] | None is Ssh."""
    options = [one for one in typing.get_args(annotation) if one is not type(None)]
    fact: Any = options[0] if options else annotation
    return fact.model_fields["value"].annotation
