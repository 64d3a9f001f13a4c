"""The server on standard input and output, with what clients really send there.

The SDK reads and writes the messages. This module stands between it and the server, and adds three
things:

- A text that a client cut inside an emoji is repaired. JSON has no character for half of one, so
  the SDK drops the whole message.
- A request that can't be read gets an error under its id. The SDK drops it too, and the client
  would wait for its reply.
- After the end of input, calls get some seconds to finish, and then the process ends. The SDK
  cancels them at once: `printf REQUESTS | rgt serve` would lose the last replies.
"""

from __future__ import annotations

import os
import re
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

AFTER = 5.0  # seconds that calls may take after the end of input
# A backslash and what it escapes: a whole pair of surrogates, or in group 1 a half without its
# other half, or any other character. The last alternative steps over `\\`, so that the text
# `\\ud83d`, a backslash and five letters, isn't taken for half an emoji.
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)
# The id, if it comes before everything that may contain another one:
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
    # A tool may be waiting for a hanging disk, in a thread that nothing can end.
    deadline = threading.Timer(AFTER + 1, os._exit, (0,))
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
    """Add a request's id to the unanswered ones, or take out that of a cancelled request.

    The server never answers a cancelled request.
    """
    if isinstance(message, JSONRPCRequest):
        unanswered.add(coerce_request_id(message.id))
    elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
        cancelled = cancelled_request_id_from_params(message.params)
        if cancelled is not None:
            unanswered.discard(coerce_request_id(cancelled))


def readable(item: SessionMessage | Exception) -> SessionMessage | JSONRPCError | Exception:
    """What the SDK read, or in place of a fault the repaired message or the error that answers it.

    A fault that nobody waits for stays a fault: the SDK logs it.
    """
    if not isinstance(item, ValidationError):
        return item
    message = read_again(item)
    return message if isinstance(message, SessionMessage) else refusal(message) or item


def read_again(fault: ValidationError) -> SessionMessage | ValidationError:
    """The message of a line that the SDK can't read, with U+FFFD in place of each half emoji.

    Where that doesn't help, what is wrong with the line.
    """
    first = fault.errors(include_url=False, include_context=False)[0]
    if first["type"] != "json_invalid":
        return fault
    whole = _ESCAPE.sub(lambda match: r"\ufffd" if match[1] else match[0], first["input"])
    if whole == first["input"]:
        return fault
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(whole, by_name=False))
    except ValidationError as error:
        return error


def refusal(fault: ValidationError) -> JSONRPCError | None:
    """The error that answers a line which can't be read; None if the line is no request."""
    faults = fault.errors(include_url=False, include_context=False)
    if faults[0]["type"] == "json_invalid":
        match = _ID.match(faults[0]["input"])
        if not match:
            return None
        number = int(match[1]) if match[1] else match[2]
        return _error(number, PARSE_ERROR, "the message can't be read as JSON")
    # It is JSON. Each kind of message reports what it misses, with the whole object as its input.
    objects = [one["input"] for one in faults if one["type"] == "missing" and len(one["loc"]) == 2]
    number = objects[0].get("id") if objects and "method" in objects[0] else None
    if isinstance(number, bool) or not isinstance(number, int | str):
        return None
    return _error(number, INVALID_REQUEST, "the message isn't a JSON-RPC 2.0 request")


def _error(number: int | str, code: int, wrong: str) -> JSONRPCError:
    message = f"{wrong}; send one message per line"
    return JSONRPCError(jsonrpc="2.0", id=number, error=ErrorData(code=code, message=message))


def leave() -> None:
    """End the process if the thread of a call still runs: nobody is left to answer.

    Python would wait for it, and it may wait for a box that never replies.
    """
    if any(
        not thread.daemon and thread is not threading.current_thread()
        for thread in threading.enumerate()
    ):
        os._exit(0)
