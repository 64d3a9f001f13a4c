"""Serve on standard input and output, and cope with what clients really send.

The SDK reads and writes the messages. This module stands between the SDK and the server, and does
four things that the SDK doesn't:

- It repairs a text that a client cut inside an emoji. JSON has no character for half an emoji, so
  the SDK would drop the whole message.
- It answers a request that can't be read with an error. The SDK would drop the request, and the
  client would wait for the reply.
- It gives calls some seconds to finish after the end of input, and then ends the process. The SDK
  would cancel them at once, and `printf REQUESTS | rgt serve` would lose the last replies.
- It ends at once at Ctrl-C. The SDK waits for its next line, which a thread reads.
"""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Awaitable, Callable

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.stdio import stdio_server
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from ..boxes import calls

AFTER = 5.0  # seconds that calls may take after the end of input
# A backslash and what it escapes: a pair of surrogates (an emoji), a lone surrogate (half an emoji,
# group 1), or any other character. The last alternative also consumes `\\`, so that
# the second backslash of the text `\\ud83d` isn't taken for the start of half an emoji.
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)
# The id of a message that isn't valid JSON. It must come before the parameters, which may contain
# another "id":
# {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {
_ID = re.compile(
    r'\s*\{\s*(?:"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"\s*,\s*)*"id"\s*:\s*(?:(\d{1,15})|"([^"\\]{1,100})")\s*,'
)

Messages = MemoryObjectReceiveStream[SessionMessage | Exception]
Replies = MemoryObjectSendStream[SessionMessage]


async def serve(run: Callable[[Messages, Replies], Awaitable[None]]) -> None:
    """Serve one client on standard input and output until its input ends.

    `run(messages, replies)` is the server: it reads the client's messages from the first stream
    until that ends, and writes its replies to the second.
    """
    to_server, messages = anyio.create_memory_object_stream[SessionMessage | Exception]()
    replies, from_server = anyio.create_memory_object_stream[SessionMessage]()
    unanswered: set[int | str] = set()
    # A tool may wait for a disk that hangs. Nothing can stop its thread but the end of the process.
    deadline = threading.Timer(AFTER + 1, _end, (0,))
    deadline.daemon = True

    async with stdio_server() as (from_client, to_client), anyio.create_task_group() as group:

        async def pass_on_messages() -> None:
            async with to_server:
                async for item in from_client:
                    message = readable(item)
                    if isinstance(message, JSONRPCError):
                        await to_client.send(SessionMessage(message))
                        continue
                    if isinstance(message, SessionMessage):
                        _note_request(message.message, unanswered)
                    await to_server.send(message)
                deadline.start()
                with anyio.move_on_after(AFTER):
                    while unanswered:
                        await anyio.sleep(0.02)

        async def pass_on_replies() -> None:
            async with to_client:
                async for item in from_server:
                    await to_client.send(item)
                    reply = item.message
                    if isinstance(reply, JSONRPCResponse | JSONRPCError) and reply.id is not None:
                        unanswered.discard(coerce_request_id(reply.id))

        group.start_soon(pass_on_messages)
        group.start_soon(pass_on_replies)
        try:
            await run(messages, replies)
        finally:
            deadline.cancel()


def _note_request(message: JSONRPCMessage, unanswered: set[int | str]) -> None:
    """Add the id of a request to `unanswered`. Remove the id of a cancelled request.

    The server never answers a cancelled request.
    """
    if isinstance(message, JSONRPCRequest):
        unanswered.add(coerce_request_id(message.id))
    elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
        cancelled = cancelled_request_id_from_params(message.params)
        if cancelled is not None:
            unanswered.discard(coerce_request_id(cancelled))


def readable(item: SessionMessage | Exception) -> SessionMessage | JSONRPCError | Exception:
    """Return what to do with an item that the SDK read.

    A message comes back unchanged. Of a line that the SDK can't read, return the repaired message
    if there is one, else the error to answer the client with. If no client waits for an answer,
    return the fault, which the SDK logs.
    """
    if not isinstance(item, ValidationError):
        return item
    message = read_again(item)
    return message if isinstance(message, SessionMessage) else refusal(message) or item


def read_again(fault: ValidationError) -> SessionMessage | ValidationError:
    """Read a line again, with U+FFFD in place of each half emoji.

    Return the message, or what is wrong with the line if that doesn't help.
    """
    first = fault.errors(include_url=False, include_context=False)[0]
    if first["type"] != "json_invalid":
        return fault
    repaired = _ESCAPE.sub(lambda match: r"\ufffd" if match[1] else match[0], first["input"])
    if repaired == first["input"]:
        return fault
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(repaired, by_name=False))
    except ValidationError as error:
        return error


def refusal(fault: ValidationError) -> JSONRPCError | None:
    """Return the error that answers a line that can't be read, or None if it is no request."""
    faults = fault.errors(include_url=False, include_context=False)
    if faults[0]["type"] == "json_invalid":
        match = _ID.match(faults[0]["input"])
        if not match:
            return None
        request_id = int(match[1]) if match[1] else match[2]
        return _error(request_id, PARSE_ERROR, "the message can't be read as JSON")
    # The line is JSON, but fits no kind of message. pydantic reports the fields that it lacks for
    # each kind, and gives the whole object as the input of such a fault.
    objects = [one["input"] for one in faults if one["type"] == "missing" and len(one["loc"]) == 2]
    request_id = objects[0].get("id") if objects and "method" in objects[0] else None
    if isinstance(request_id, bool) or not isinstance(request_id, int | str):
        return None
    return _error(request_id, INVALID_REQUEST, "the message isn't a JSON-RPC 2.0 request")


def _error(request_id: int | str, code: int, wrong: str) -> JSONRPCError:
    message = f"{wrong}; send one message per line"
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=message))


def end_at_signals() -> None:
    """End the process at once at SIGINT (Ctrl-C) and SIGTERM, with the code that shells use."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: _end(128 + number))


def leave() -> None:
    """End the process if the thread of a call still runs.

    No client is left to answer. Python would wait for the thread, which may itself wait for a box
    that never replies.
    """
    if any(
        not thread.daemon and thread is not threading.current_thread()
        for thread in threading.enumerate()
    ):
        _end(0)


def _end(code: int) -> None:
    """End the process, and every ssh of its calls."""
    calls.end_all()
    os._exit(code)
