"""Standard input as clients really send it: a text cut inside an emoji is mended, a request that can't be read gets an error, the end of input ends the process."""

from __future__ import annotations

import os
import re
import threading

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter
from pydantic import ValidationError

AFTER = 5.0  # seconds that work may go on when the client is gone
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)
# The id, where it stands before all that may hold another one.
_ID = re.compile(
    r'\s*\{\s*(?:"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"\s*,\s*)*"id"\s*:\s*(?:(\d{1,15})|"([^"\\]{1,100})")\s*,'
)


class Messages:
    """The stream of what the transport read: messages, mended where they can be."""

    def __init__(self, read, write):
        self.read, self.write = read, write
        self.end = threading.Timer(AFTER, os._exit, (0,))
        self.end.daemon = True

    @property
    def last_context(self):
        return self.read.last_context

    async def receive(self):
        while True:
            try:
                item = await self.read.receive()
            except (
                anyio.EndOfStream
            ):  # nobody is left to answer, and a tool may wait for a disk that hangs
                if not self.end.is_alive():
                    self.end.start()
                raise
            if not isinstance(item, ValidationError):
                return item
            found = mended(item)
            if not isinstance(found, JSONRPCError):
                return SessionMessage(found) if found else item
            await self.write.send(SessionMessage(found))

    async def aclose(self) -> None:
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


def mended(fault: ValidationError):
    """The message that a line was meant to be, else the error that answers it; None where nobody can be answered."""
    faults = fault.errors(include_url=False, include_context=False)
    line = faults[0]["input"]
    if faults[0]["type"] != "json_invalid":
        tops = [one["input"] for one in faults if one["type"] == "missing" and len(one["loc"]) == 2]
        number = tops[0].get("id") if tops and "method" in tops[0] else None
        return (
            _error(number, INVALID_REQUEST, "no request of JSON-RPC 2.0")
            if type(number) in (int, str)
            else None
        )
    whole = _ESCAPE.sub(lambda found: r"\ufffd" if found[1] else found[0], line)
    if whole != line:
        try:
            return jsonrpc_message_adapter.validate_json(whole, by_name=False)
        except ValidationError as error:
            return mended(error)
    named = _ID.match(line)
    return (
        _error(
            int(named[1]) if named[1] else named[2],
            PARSE_ERROR,
            "a message that can't be read as JSON",
        )
        if named
        else None
    )


def _error(number: int | str, code: int, found: str) -> JSONRPCError:
    return JSONRPCError(
        jsonrpc="2.0",
        id=number,
        error=ErrorData(code=code, message=f"found {found}, expected one message a line"),
    )
