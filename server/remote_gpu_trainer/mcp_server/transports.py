"""How clients reach the server: standard input, and HTTP on loopback.

On standard input, a text that a client cut inside an emoji is repaired, a request that can't be
read gets an error, and after the end of input the process ends with its last reply. `serve --http`
listens on this machine only, and compares the whole Host and Origin, so that a web page can't reach
it. There is no login: whoever may open a socket on this machine acts as the user who started the
server. SECURITY.md says what that means.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import re
import socket
import sys
import threading
import traceback
from dataclasses import replace
from typing import Any

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError, UnexpectedToolError
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from ..text import BadRequest
from ..text.masking import shown, shown_lines
from . import prompts
from .answers import QUOTED

PORT = 8931
MOST_BODY = 32 << 20  # bytes: a pasted report of 20 million characters has room
AFTER = 5.0  # seconds that calls may take after the end of input
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)
# The id, if it comes before everything that may contain another one.
_ID = re.compile(
    r'\s*\{\s*(?:"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"\s*,\s*)*"id"\s*:\s*(?:(\d{1,15})|"([^"\\]{1,100})")\s*,'
)


class Messages:
    """The stream of messages that stdio_server reads; broken ones are repaired or answered.

    It has the methods of the stream that it replaces. `pending`: the ids of requests without a
    reply.
    """

    def __init__(self, read, write):
        self.read, self.write, self.pending = read, Replies(write, self), set()
        self.end = threading.Timer(AFTER + 1, os._exit, (0,))
        self.end.daemon = True

    @property
    def last_context(self):
        """The context of the last message, which the stream keeps."""
        return self.read.last_context

    async def receive(self):
        """The next message. After the last one, calls have AFTER seconds to end, and so has the
        process."""
        while True:
            try:
                item = await self.read.receive()
            except anyio.EndOfStream:
                # A tool may be waiting for a hanging disk.
                if not self.end.is_alive():
                    self.end.start()
                with anyio.move_on_after(AFTER):
                    while self.pending:
                        await anyio.sleep(0.02)
                raise
            if not isinstance(item, ValidationError):
                return self.noted(item)
            found = mended(item)
            if not isinstance(found, JSONRPCError):
                return self.noted(SessionMessage(found)) if found else item
            await self.write.send(SessionMessage(found))

    def noted(self, item):
        """The same message. A request is pending from now on, a cancelled one no longer."""
        message = getattr(item, "message", None)
        method, number = getattr(message, "method", None), getattr(message, "id", None)
        if method and number is not None:
            self.pending.add(number)
        elif method == "notifications/cancelled":
            self.pending.discard((message.params or {}).get("requestId"))
        return item

    async def aclose(self) -> None:
        """Close the stream."""
        await self.read.aclose()

    def __aiter__(self):
        return self

    async def __anext__(self):
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_) -> None:
        await self.aclose()


class Replies:
    """The stream of messages to the client; it tells `messages` which requests have their reply."""

    def __init__(self, write, messages: Messages):
        self.write, self.messages = write, messages

    async def send(self, item) -> None:
        """Send a message."""
        await self.write.send(item)
        if not hasattr(item.message, "method"):
            self.messages.pending.discard(item.message.id)

    async def aclose(self) -> None:
        """Close the stream."""
        await self.write.aclose()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_) -> None:
        await self.aclose()


def mended(fault: ValidationError):
    """The message that a line was meant to be, or the error that answers it.

    None if no reply is possible, because the line has no id.
    """
    faults = fault.errors(include_url=False, include_context=False)
    line = faults[0]["input"]
    if faults[0]["type"] != "json_invalid":
        tops = [one["input"] for one in faults if one["type"] == "missing" and len(one["loc"]) == 2]
        number = tops[0].get("id") if tops and "method" in tops[0] else None
        if type(number) not in (int, str):
            return None
        return _error(number, INVALID_REQUEST, "the message isn't a JSON-RPC 2.0 request")
    whole = _ESCAPE.sub(lambda found: r"\ufffd" if found[1] else found[0], line)
    if whole != line:
        try:
            return jsonrpc_message_adapter.validate_json(whole, by_name=False)
        except ValidationError as error:
            return mended(error)
    named = _ID.match(line)
    if not named:
        return None
    number = int(named[1]) if named[1] else named[2]
    return _error(number, PARSE_ERROR, "the message can't be read as JSON")


def _error(number: int | str, code: int, wrong: str) -> JSONRPCError:
    message = f"{wrong}; send one message per line"
    return JSONRPCError(jsonrpc="2.0", id=number, error=ErrorData(code=code, message=message))


def serve(server: MCPServer, host: str = "127.0.0.1", port: int = PORT) -> None:
    """Serve at http://HOST:PORT/mcp until interrupted; the address goes to stderr.

    Raises BadRequest when the server can't listen there.
    """
    import uvicorn
    from mcp.server.transport_security import TransportSecuritySettings

    with bound(host, port) as listening:
        address, port = listening.getsockname()[:2]
        name = f"[{address}]" if ":" in address else address
        names = [f"{one}:{port}" for one in dict.fromkeys((name, "localhost"))]
        guard = TransportSecuritySettings(
            allowed_hosts=names, allowed_origins=[f"http://{one}" for one in names]
        )
        app = server.streamable_http_app(
            host=address, transport_security=guard, max_request_body_size=MOST_BODY
        )
        print(
            f"remote-gpu-trainer serve: http://{name}:{port}/mcp (this machine only, no login)",
            file=sys.stderr,
            flush=True,
        )
        uvicorn.Server(
            uvicorn.Config(app, log_level="warning", proxy_headers=False, server_header=False)
        ).run([listening])


def bound(host: str, port: int) -> socket.socket:
    """A listening socket on a loopback address; port 0 takes any free one.

    Raises BadRequest for any other address, and for a port in use.
    """
    address = "127.0.0.1" if host == "localhost" else host
    try:
        here = ipaddress.ip_address(address)
    except ValueError:
        here = None
    if here is None or not here.is_loopback:
        raise BadRequest(
            f"--host: the server has no login, so it doesn't listen on {host[:80]!r}; "
            "use 127.0.0.1, ::1 or localhost, "
            f"and reach it from elsewhere with ssh -L {port}:127.0.0.1:{port}"
        )
    if not 0 <= port <= 65535:
        raise BadRequest(f"--port: {port} is out of range; pass 1 to 65535, or 0 for any free port")
    listening = socket.socket(
        socket.AF_INET6 if here.version == 6 else socket.AF_INET, socket.SOCK_STREAM
    )
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address, port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise BadRequest(
            f"--port: {port} is not free on {address} ({error.strerror}); "
            "pass another, or 0 for any free port"
        ) from None
    return listening


_log = logging.getLogger(__name__)
LONGEST_NAME = 2000  # characters of a URI, or of the name of a tool or prompt


class Server(MCPServer):
    """An MCPServer with a short list of tools, the skill's files, and one-line errors."""

    async def run_stdio_async(self):
        """Serve on standard input and output until the input ends."""
        async with stdio_server() as (read, write):
            messages = Messages(read, write)
            try:
                await self._lowlevel_server.run(
                    messages, messages.write, self._lowlevel_server.create_initialization_options()
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
        """Call a tool. Raises ToolError or MCPError with one line that quotes no value."""
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
                raise ToolError(prompts.wrong_arguments(error.__cause__)) from None
            said = str(error).removeprefix(f"Error executing tool {name}: ")
            raise ToolError(
                "\n".join(shown(line, prompts.LONGEST_TEXT) for line in said.split("\n")[:20])
            ) from None

    async def list_resources(self):
        """The resources, with SKILL.md among them."""
        return [*await super().list_resources(), *prompts.listed()]

    async def read_resource(self, uri, context=None):
        """Read a resource. Raises ResourceNotFoundError with one line for an unknown one."""
        refuse_long(str(uri), "a URI")
        try:
            found = await super().read_resource(uri, context)
        except ResourceNotFoundError as error:
            raise ResourceNotFoundError(shown(error, 400)) from None
        if str(uri).startswith(prompts.HOME):
            return [replace(one, mime_type=prompts.kind(str(uri))) for one in found]
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
    """Raise MCPError for a text that is too long to be a name; the error doesn't quote it."""
    if len(text) > LONGEST_NAME:
        raise MCPError(
            INVALID_PARAMS,
            f"{what} has {len(text)} characters; use at most {LONGEST_NAME}",
        )


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
    """The schema of a tool's answer: fields with types, and below them only names and choices, and
    what is quoted. The documentation explains the fields."""
    if schema is None:
        return None
    models, needed = schema.get("$defs", {}), schema.get("required", [])
    fields = {
        name: _plain(field, models, null=name in needed)
        for name, field in schema["properties"].items()
    }
    return {"type": "object", "properties": fields, "required": needed}


def _plain(field: dict, models: dict, null: bool = False) -> dict:
    """The type of one field, references resolved. `null`: whether to keep null among its types."""
    if "$ref" in field:
        field = models[field["$ref"].rsplit("/", 1)[1]]
    if "anyOf" in field:
        kinds = [_plain(kind, models) for kind in field["anyOf"] if kind.get("type") != "null"]
        types = [kind["type"] for kind in kinds] + ["null"] * (
            null and len(kinds) < len(field["anyOf"])
        )
        return {**kinds[0], "type": types if len(types) > 1 else types[0]}
    if "properties" in field:
        fields = {name: _plain(one, models) for name, one in field["properties"].items()}
        for name, one in fields.items():
            if "enum" not in one and "properties" not in one.get("items", {}):
                fields[name] = {key: one[key] for key in ("description",) if key in one}
        return {"type": "object", "properties": fields}
    kept = {name: field[name] for name in ("type", "enum", "items") if name in field}
    if "items" in kept:
        kept["items"] = _plain(kept["items"], models)
    return {**kept, "description": QUOTED} if field.get("description") == QUOTED else kept
