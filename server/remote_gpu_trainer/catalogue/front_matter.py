"""The front matter of a page: the YAML between its first line and the next line of ---.

This is the package's reader of front matter. `platforms/profile.py` checks the result against the
schema. The staleness check uses it unchecked, even from a page that breaks the schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from .facts import HEAD_FIELDS, FactError, FactHead, fact_head, pages, split

_TIMESTAMP = "tag:yaml.org,2002:timestamp"


def _without_dates(loader: type) -> type:
    """A loader of YAML for which dates are texts.

    PyYAML raises a bare ValueError for a date such as 2026-02-30. A caller that checks the text can
    name the fact.
    """
    resolvers = {
        first: [(tag, pattern) for tag, pattern in forms if tag != _TIMESTAMP]
        for first, forms in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    return type("Loader", (loader,), {"yaml_implicit_resolvers": resolvers})


# libyaml is ten times faster, and not everywhere.
_LOADER = _without_dates(getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def parse(head: str, place: str) -> Any:
    """The value of front matter without its lines of ---: a dict, unless the page is wrong.

    `place` names the page in the FactError that is raised for a text which isn't YAML.
    """
    try:
        return yaml.load(head, _LOADER)
    except yaml.YAMLError as error:
        raise FactError(
            f"{place}: the front matter isn't YAML ({_problem(error)}); correct it"
        ) from None


def _problem(error: yaml.YAMLError) -> str:
    """What is wrong, with its line in the page, which starts one line before the front matter."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    return f"line {mark.line + 2}: {problem}" if mark else problem


@dataclass(frozen=True)
class FrontMatter:
    """The front matter of the page `name`.md, whatever it holds: see `profile.Profile` for more."""

    name: str
    fields: Mapping[str, Any]

    @property
    def tokens(self) -> tuple[str, ...]:
        """The texts in logs and paths that show this platform."""
        listed = self.fields.get("tokens")
        return tuple(str(token) for token in listed) if isinstance(listed, list) else ()

    @property
    def repeats(self) -> list[dict[str, Any]]:
        """The facts whose value the page's guide repeats: `fact`, `value`, `text` of the guide."""
        listed = self.fields.get("repeats")
        return (
            [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
        )

    def fact_heads(self) -> list[FactHead]:
        """The heads of all facts that aren't null. Raises FactError for a bad date or kind."""
        heads = []
        for name, fact in self._facts.items():
            fields = {
                field: "" if fact[field] is None else str(fact[field])
                for field in HEAD_FIELDS
                if isinstance(fact, dict) and field in fact
            }
            if fields:
                heads.append(fact_head(self.name, name, fields))
        return heads

    def value(self, fact: str, field: str = "") -> str | None:
        """The value of a fact, or one field of it, as text. None if it isn't there or has fields.

        The text is as the page writes it: `true`, not `True`.
        """
        head = self._facts.get(fact)
        value = head.get("value") if isinstance(head, dict) else None
        if field:
            value = value.get(field) if isinstance(value, dict) else None
        if value is None or isinstance(value, dict):
            return None
        return str(value).lower() if isinstance(value, bool) else str(value)

    @property
    def _facts(self) -> dict[str, Any]:
        facts = self.fields.get("facts")
        return facts if isinstance(facts, dict) else {}


@lru_cache(maxsize=64)  # the staleness check asks twice for the page of each platform
def read(text: str, place: str) -> FrontMatter:
    """The front matter in the text of a page; without fields if it has none.

    `place` is the page below the catalogue's root. Raises FactError for a text that isn't YAML.
    """
    fields = parse(split(text)[0], place)
    return FrontMatter(Path(place).stem, fields if isinstance(fields, dict) else {})


def read_profiles(root: Path) -> dict[str, FrontMatter]:
    """The front matter of each page under `root`/profiles, by the page's name. Raises FactError."""
    return {
        path.stem: read(path.read_text(encoding="utf-8"), path.relative_to(root).as_posix())
        for path in pages(root)
    }


def read_fact_heads(root: Path) -> list[FactHead]:
    """The heads of all facts under `root`/profiles, in the order of the pages. Raises FactError."""
    return [head for page in read_profiles(root).values() for head in page.fact_heads()]


def platform_tokens(root: Path, name: str) -> tuple[str, ...]:
    """The texts that show a platform, from its page alone; () without a page that can be read."""
    path = root / "profiles" / f"{name}.md"
    try:
        return read(path.read_text(encoding="utf-8"), path.relative_to(root).as_posix()).tokens
    except (OSError, FactError):
        return ()
