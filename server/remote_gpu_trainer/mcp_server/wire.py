"""The server as clients see it: a short tools/list, and errors of one line that repeat no value.

Pydantic's schemas carry a title for every field and a union for every optional one. An agent pays for that list in each session, so what
goes out is the same schema without them; arguments and answers are still checked against the whole one.
"""

from __future__ import annotations

import logging
import re
import traceback
from dataclasses import replace
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError, UnexpectedToolError
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from pydantic import ValidationError

from ..text.masking import shown, shown_lines
from . import skill_files
from . import stdio as mcp_stdio

_log = logging.getLogger(__name__)
LONGEST_NAME = 2000  # characters of a URI, or of the name of a tool or prompt
LONGEST_TEXT = 2000  # characters of one text from a page of facts
_VARIABLE = re.compile(
    r"\bHF_[A-Z_]{8,}"
)  # the name of a variable, which looks like a token to `shown`


class Server(MCPServer):
    """An MCPServer that lists its tools briefly, serves the skill's files, and says what is wrong in a line."""

    async def run_stdio_async(self):
        async with stdio_server() as (read, write):
            messages = mcp_stdio.Messages(read, write)
            try:
                await self._lowlevel_server.run(
                    messages, write, self._lowlevel_server.create_initialization_options()
                )
            finally:
                messages.end.cancel()

    async def list_tools(self):
        return [
            tool.model_copy(
                update={
                    "input_schema": short_input(tool.input_schema),
                    "output_schema": short_output(tool.output_schema),
                }
            )
            for tool in await super().list_tools()
        ]

    async def call_tool(self, name, arguments, context=None):
        refuse_long(name, "the name of a tool")
        known = {
            tool.name: list(tool.input_schema["properties"]) for tool in await super().list_tools()
        }
        if name not in known:
            raise ToolError(f"found tool {shown(name, 80)!r}, expected one of {', '.join(known)}")
        if others := [shown(one, 80) for one in arguments if one not in known[name]][:5]:
            raise ToolError(
                f"found argument {', '.join(map(repr, others))}, expected {', '.join(known[name])}"
            )
        try:
            return await super().call_tool(name, arguments, context)
        except UnexpectedToolError as error:
            _log.error(
                "%s failed:\n%s",
                name,
                "\n".join(shown_lines("".join(traceback.format_exception(error.__cause__)), 60)),
            )
            raise ToolError(
                f"{name} failed: found an error in the server itself, expected an answer; the log of the server names it"
            ) from error.__cause__
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                raise ToolError(wrong_arguments(error.__cause__)) from None
            said = str(error).removeprefix(f"Error executing tool {name}: ")
            raise ToolError(
                "\n".join(shown(line, LONGEST_TEXT) for line in said.split("\n")[:20])
            ) from None

    async def list_resources(self):
        return [*await super().list_resources(), *skill_files.listed()]

    async def read_resource(self, uri, context=None):
        refuse_long(str(uri), "a URI")
        try:
            found = await super().read_resource(uri, context)
        except ResourceNotFoundError as error:
            raise ResourceNotFoundError(shown(error, 400)) from None
        if str(uri).startswith(skill_files.HOME):
            return [replace(one, mime_type=skill_files.kind(str(uri))) for one in found]
        return found

    async def get_prompt(self, name, arguments=None, context=None):
        refuse_long(name, "the name of a prompt")
        try:
            return await super().get_prompt(name, arguments, context)
        except ValueError as error:
            known = ", ".join(prompt.name for prompt in await self.list_prompts())
            raise MCPError(
                INVALID_PARAMS,
                f"found prompt {shown(name, 80)!r} ({shown(error, 200)}), expected one of {known} with its arguments",
            ) from None


def refuse_long(text: str, what: str) -> None:
    """Raises MCPError for what can't be a name; nothing of it is repeated."""
    if len(text) > LONGEST_NAME:
        raise MCPError(
            INVALID_PARAMS,
            f"found {what} of {len(text)} characters, expected at most {LONGEST_NAME}",
        )


def wrong_arguments(error: ValidationError) -> str:
    """What is wrong with the arguments of a tool. Values are left out: one may be a secret in the wrong place."""
    faults = []
    for fault in error.errors(include_url=False, include_input=False)[:5]:
        place = shown(".".join(str(part) for part in fault["loc"]), 80)
        faults.append(
            f"found {place} missing, expected it"
            if fault["type"] == "missing"
            else f"found a wrong {place}, expected: {shown(fault['msg'], 120)}"
        )
    return "; ".join(faults)


def as_data(value: Any) -> Any:
    """The same object with every text cut, masked and without controls: pages of facts quote what providers and users wrote."""
    if isinstance(value, dict):
        return {as_data(name): as_data(one) for name, one in value.items()}
    if isinstance(value, list):
        return [as_data(one) for one in value]
    if not isinstance(value, str):
        return value
    names = iter(_VARIABLE.findall(value))
    return re.sub(r"HF_\*\*\*", lambda found: next(names, found[0]), shown(value, LONGEST_TEXT))


def short_input(schema: dict[str, Any]) -> dict[str, Any]:
    """Without titles; an argument that may be left out has its plain type, because who has no value leaves it out."""
    fields = {
        name: _plain(field, {})
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


def short_output(schema: dict[str, Any] | None) -> dict[str, Any] | None:
    """Every field with its type; below the first level names, choices and structure. What a field means stands in the documentation."""
    if schema is None:
        return None
    models, needed = schema.get("$defs", {}), schema.get("required", [])
    fields = {
        name: _plain(field, models, null=name in needed)
        for name, field in schema["properties"].items()
    }
    return {"type": "object", "properties": fields, "required": needed}


def _plain(field: dict, models: dict, null: bool = False) -> dict:
    """The type of one field, references put in place. `null`: whether null stays among its types."""
    if "$ref" in field:
        field = models[field["$ref"].rsplit("/", 1)[1]]
    if "anyOf" in field:
        kinds = [_plain(kind, models) for kind in field["anyOf"] if kind.get("type") != "null"]
        types = [kind["type"] for kind in kinds] + ["null"] * (
            null and len(kinds) < len(field["anyOf"])
        )
        return {**kinds[0], "type": types if len(types) > 1 else types[0]}
    if "properties" in field:
        inner = {name: _plain(one, models) for name, one in field["properties"].items()}
        return {
            "type": "object",
            "properties": {
                name: one if "enum" in one or "properties" in one.get("items", {}) else {}
                for name, one in inner.items()
            },
        }
    return {
        name: _plain(field[name], models) if name == "items" else field[name]
        for name in ("type", "enum", "items")
        if name in field
    }
