"""The types of a JSON schema in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def type_of(field: Mapping[str, Any]) -> str:
    """A JSON schema's type in words: 'text', 'list of text', 'one of ssh, slurm'."""
    names = {
        "string": "text",
        "integer": "whole number",
        "number": "number",
        "boolean": "yes or no",
        "null": "nothing",
        "object": "object",
    }
    if "enum" in field:
        return "one of " + ", ".join(map(str, field["enum"]))
    if "const" in field:
        return str(field["const"])
    if "$ref" in field:
        return field["$ref"].rsplit("/", 1)[-1]
    for several in ("anyOf", "oneOf", "allOf"):
        if several in field:
            return (
                " or ".join(
                    dict.fromkeys(
                        type_of(one) for one in field[several] if one.get("type") != "null"
                    )
                )
                or "nothing"
            )
    if field.get("type") == "array":
        return "list of " + type_of(field.get("items", {}))
    kind = field.get("type", "anything")
    return (
        " or ".join(names.get(one, one) for one in kind)
        if isinstance(kind, list)
        else names.get(kind, kind)
    )
