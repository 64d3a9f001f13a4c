"""The schemas of tools/list, short.

Pydantic's schemas carry a title for every field and a union for every optional one. An agent pays
for that list in each session, so what goes out is the same schema without them. The SDK still
checks arguments and answers against the whole one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from .answers import QUOTED

Schema = dict[str, Any]
TEXT = {"type": "string"}


def short_input(
    schema: Schema, values: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> Schema:
    """The schema of a tool's arguments without titles.

    An optional argument has its plain type: a caller without a value leaves it out. `values` has
    the values that an argument of that name may take.
    """
    fields = {
        name: _short(field, {})
        | ({"enum": list(values[name])} if values.get(name) else {})
        | {key: field[key] for key in ("description", "default", "maximum") if field.get(key)}
        for name, field in schema["properties"].items()
    }
    return {
        "type": "object",
        "properties": fields,
        **({"required": schema["required"]} if schema.get("required") else {}),
        "additionalProperties": False,
    }


def short_output(schema: Schema | None) -> Schema | None:
    """The schema of a tool's answer: its fields, those of the objects in it, and their types.

    In an object below the top, a field without a type is a text: a type for each would take a
    hundred tokens, the list of the fields that are always there seventy. Of the descriptions only
    the mark of what is quoted goes out; the documentation explains the fields.
    """
    if schema is None:
        return None
    return {"type": "object", "properties": _fields(schema, schema.get("$defs", {}))}


def _short(field: Schema, models: dict[str, Schema], keep_null: bool = False) -> Schema:
    """The type of one field. `models` are the definitions that a `$ref` may name.

    Null stays among the types with `keep_null`: a required field may hold it.
    """
    if "$ref" in field:
        field = models[field["$ref"].rsplit("/", 1)[1]]
    if "anyOf" in field:
        return _short_union(field["anyOf"], models, keep_null)
    if "properties" in field:
        fields = {
            name: {} if inner == TEXT else inner for name, inner in _fields(field, models).items()
        }
        return {"type": "object", "properties": fields}
    if "enum" in field:  # its type is that of its values
        return {"enum": field["enum"]}
    kept = {"type": field["type"]} if "type" in field else {}
    items = _short(field["items"], models) if "items" in field else {}
    if "properties" in items:  # of a list of plain values it is enough that it is one
        kept["items"] = items
    return {**kept, "description": QUOTED} if field.get("description") == QUOTED else kept


def _fields(schema: Schema, models: dict[str, Schema]) -> dict[str, Schema]:
    """The short schema of each field of an object."""
    always = schema.get("required", [])
    return {
        name: _short(field, models, keep_null=name in always)
        for name, field in schema["properties"].items()
    }


def _short_union(choices: list[Schema], models: dict[str, Schema], keep_null: bool) -> Schema:
    """One schema with the types of all choices, and the other keys of the first."""
    short = [_short(choice, models) for choice in choices if choice.get("type") != "null"]
    types = [choice["type"] for choice in short]
    if keep_null and len(short) < len(choices):
        types.append("null")
    return {**short[0], "type": types if len(types) > 1 else types[0]}
