"""The schemas of tools/list, short.

Pydantic's schemas carry a title for every field and a union for every optional one. An agent pays
for that list in each session, so what goes out is the same schema without them. The SDK still
checks arguments and answers against the whole one.
"""

from __future__ import annotations

from typing import Any

from .answers import QUOTED

Schema = dict[str, Any]


def short_input(schema: Schema) -> Schema:
    """The schema of a tool's arguments without titles.

    An optional argument has its plain type: a caller without a value leaves it out.
    """
    fields = {
        name: _short(field, {})
        | {
            key: field[key]
            for key in ("description", "default", "minimum", "maximum")
            if field.get(key)
        }
        for name, field in schema["properties"].items()
    }
    return {
        "type": "object",
        "properties": fields,
        **({"required": schema["required"]} if schema.get("required") else {}),
        "additionalProperties": False,
    }


def short_output(schema: Schema | None) -> Schema | None:
    """The schema of a tool's answer: its fields with their types.

    What lies deeper has its names, its choices, and the mark of what is quoted. The documentation
    explains the fields.
    """
    if schema is None:
        return None
    models, required = schema.get("$defs", {}), schema.get("required", [])
    fields = {
        name: _short(field, models, keep_null=name in required)
        for name, field in schema["properties"].items()
    }
    return {"type": "object", "properties": fields, "required": required}


def _short(field: Schema, models: dict[str, Schema], keep_null: bool = False) -> Schema:
    """The type of one field. `models` are the definitions that a `$ref` may name.

    Null stays among the types with `keep_null`: a required field may hold it.
    """
    if "$ref" in field:
        field = models[field["$ref"].rsplit("/", 1)[1]]
    if "anyOf" in field:
        return _short_union(field["anyOf"], models, keep_null)
    if "properties" in field:
        return _short_object(field["properties"], models)
    kept = {key: field[key] for key in ("type", "enum", "items") if key in field}
    if "items" in kept:
        kept["items"] = _short(kept["items"], models)
    return {**kept, "description": QUOTED} if field.get("description") == QUOTED else kept


def _short_union(choices: list[Schema], models: dict[str, Schema], keep_null: bool) -> Schema:
    """One schema with the types of all choices, and the other keys of the first."""
    short = [_short(choice, models) for choice in choices if choice.get("type") != "null"]
    types = [choice["type"] for choice in short]
    if keep_null and len(short) < len(choices):
        types.append("null")
    return {**short[0], "type": types if len(types) > 1 else types[0]}


def _short_object(properties: dict[str, Schema], models: dict[str, Schema]) -> Schema:
    """An object below the top: of each field only choices, further objects, and a description."""
    fields = {}
    for name, field in properties.items():
        short = _short(field, models)
        if "enum" not in short and "properties" not in short.get("items", {}):
            short = {key: short[key] for key in ("description",) if key in short}
        fields[name] = short
    return {"type": "object", "properties": fields}
