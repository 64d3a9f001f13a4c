"""The server as clients see it: a short tools/list, and one-line errors that repeat no value.

Pydantic's schemas carry a title for every field and a union for every optional one. An agent pays
for that list in each session, so the server lists the same schemas without them. Arguments and
answers are still checked against the whole ones.
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
from . import skill_files, transports

_log = logging.getLogger(__name__)
LONGEST_NAME = 2000  # characters of a URI, or of the name of a tool or prompt
LONGEST_TEXT = 2000  # characters of one text from a page of facts
_VARIABLE = re.compile(r"\bHF_[A-Z_]{8,}")  # a variable's name, which `shown` takes for a token


class Server(MCPServer):
    """An MCPServer with a short list of tools, the skill's files, and one-line errors."""

    async def run_stdio_async(self):
        """Serve on standard input and output until the input ends."""
        async with stdio_server() as (read, write):
            messages = transports.Messages(read, write)
            try:
                await self._lowlevel_server.run(
                    messages, write, self._lowlevel_server.create_initialization_options()
                )
            finally:
                messages.end.cancel()

    async def list_tools(self):
        """The tools with short schemas, and each description in one line."""
        return [
            tool.model_copy(
                update={
                    "description": " ".join(tool.description.split()),
                    "input_schema": short_input(tool.input_schema),
                    "output_schema": short_output(tool.output_schema),
                }
            )
            for tool in await super().list_tools()
        ]

    async def call_tool(self, name, arguments, context=None):
        """Call a tool. Raises ToolError or MCPError with a line that repeats no value."""
        refuse_long(name, "the name of a tool")
        known = {
            tool.name: list(tool.input_schema["properties"]) for tool in await super().list_tools()
        }
        if name not in known:
            raise ToolError(f"unknown tool {shown(name, 80)!r}; use one of {', '.join(known)}")
        if others := [shown(one, 80) for one in arguments if one not in known[name]][:5]:
            raise ToolError(
                f"unknown argument {', '.join(map(repr, others))}; "
                f"{name} takes {', '.join(known[name])}"
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
                f"{name} failed with an error in the server itself; see the server's log"
            ) from error.__cause__
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                raise ToolError(wrong_arguments(error.__cause__)) from None
            said = str(error).removeprefix(f"Error executing tool {name}: ")
            raise ToolError(
                "\n".join(shown(line, LONGEST_TEXT) for line in said.split("\n")[:20])
            ) from None

    async def list_resources(self):
        """The resources, with SKILL.md among them."""
        return [*await super().list_resources(), *skill_files.listed()]

    async def read_resource(self, uri, context=None):
        """Read a resource. Raises ResourceNotFoundError for an unknown one, in a line."""
        refuse_long(str(uri), "a URI")
        try:
            found = await super().read_resource(uri, context)
        except ResourceNotFoundError as error:
            raise ResourceNotFoundError(shown(error, 400)) from None
        if str(uri).startswith(skill_files.HOME):
            return [replace(one, mime_type=skill_files.kind(str(uri))) for one in found]
        return found

    async def get_prompt(self, name, arguments=None, context=None):
        """Fill in a prompt. Raises MCPError for an unknown one and for wrong arguments."""
        refuse_long(name, "the name of a prompt")
        try:
            return await super().get_prompt(name, arguments, context)
        except ValueError as error:
            known = ", ".join(prompt.name for prompt in await self.list_prompts())
            raise MCPError(
                INVALID_PARAMS,
                f"can't fill in the prompt {shown(name, 80)!r} ({shown(error, 200)}); "
                f"use one of {known} with its arguments",
            ) from None


def refuse_long(text: str, what: str) -> None:
    """Raise MCPError for what is too long to be a name; nothing of it is repeated."""
    if len(text) > LONGEST_NAME:
        raise MCPError(
            INVALID_PARAMS,
            f"{what} has {len(text)} characters; use at most {LONGEST_NAME}",
        )


def wrong_arguments(error: ValidationError) -> str:
    """What is wrong with a tool's arguments.

    Values are left out: one may be a secret in the wrong place.
    """
    faults = []
    for fault in error.errors(include_url=False, include_input=False)[:5]:
        place = shown(".".join(str(part) for part in fault["loc"]), 80)
        faults.append(
            f"{place}: missing; pass it"
            if fault["type"] == "missing"
            else f"{place}: wrong value; {shown(fault['msg'], 120)}"
        )
    return "; ".join(faults)


def as_data(value: Any) -> Any:
    """The same object with every text cut, masked and without controls.

    Pages of facts quote what providers and users wrote.
    """
    if isinstance(value, dict):
        return {as_data(name): as_data(one) for name, one in value.items()}
    if isinstance(value, list):
        return [as_data(one) for one in value]
    if not isinstance(value, str):
        return value
    names = iter(_VARIABLE.findall(value))
    return re.sub(r"HF_\*\*\*", lambda found: next(names, found[0]), shown(value, LONGEST_TEXT))


def short_input(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a tool's arguments without titles.

    An optional argument has its plain type: a caller without a value leaves it out.
    """
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
    """The schema of a tool's answer: each field with its type, below that names and choices.

    The documentation says what the fields mean.
    """
    if schema is None:
        return None
    models, needed = schema.get("$defs", {}), schema.get("required", [])
    fields = {
        name: _plain(field, models, null=name in needed)
        for name, field in schema["properties"].items()
    }
    return {"type": "object", "properties": fields, "required": needed}


def _plain(field: dict, models: dict, null: bool = False) -> dict:
    """The type of one field, references resolved. `null`: whether null stays among its types."""
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
