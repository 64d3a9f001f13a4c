"""The list of the MCP server's tools in README, from what the server tells a client."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any


def tools_list() -> list[dict[str, Any]]:
    """Return the tools in the server's order: name, title, marks and arguments."""
    # Not at the top, for a fast start of the commands: the server takes a while to import.
    from remote_gpu_trainer.mcp_server.server import make_server

    return [
        {
            "name": tool.name,
            "title": tool.title,
            "reads": tool.annotations.read_only_hint,
            "reaches": tool.annotations.open_world_hint,
            "fields": _fields(tool.input_schema),
        }
        for tool in asyncio.run(make_server().list_tools())
        if tool.annotations  # each has its marks
    ]


def _fields(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "kind": _kind(field),
            "required": name in schema.get("required", ()),
            "description": field.get("description", ""),
        }
        for name, field in schema["properties"].items()
    ]


def _kind(field: Mapping[str, Any]) -> str:
    """{"anyOf": [{"type": "string"}, {"type": "null"}]} -> string"""
    kinds = [one["type"] for one in field.get("anyOf", [field])]
    return " or ".join(kind for kind in kinds if kind != "null")
