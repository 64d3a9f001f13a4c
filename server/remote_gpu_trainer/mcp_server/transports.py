"""How clients reach the server: standard input as clients really send it, and HTTP on loopback.

On standard input, a text that was cut inside an emoji is mended, a request that can't be read gets
an error, and the end of input ends the process. `serve --http` listens on this machine only, and
compares Host and Origin whole, so that a web page can't reach it. There is no login: whoever may
open a socket on this machine asks as the user who started the server. SECURITY.md says what that
means.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import sys
import threading

import anyio
from mcp.server import MCPServer
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter
from pydantic import ValidationError

from ..text.errors import BadRequest

PORT = 8931
MOST_BODY = 32 << 20  # bytes: a pasted report of 20 million characters has room
AFTER = 5.0  # seconds that work may go on when the client is gone
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)
# The id, where it stands before all that may hold another one.
_ID = re.compile(
    r'\s*\{\s*(?:"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"\s*,\s*)*"id"\s*:\s*(?:(\d{1,15})|"([^"\\]{1,100})")\s*,'
)


class Messages:
    """The stream of messages that stdio_server reads, with broken ones mended or answered.

    It has the methods of the stream that it stands for.
    """

    def __init__(self, read, write):
        self.read, self.write = read, write
        self.end = threading.Timer(AFTER, os._exit, (0,))
        self.end.daemon = True

    @property
    def last_context(self):
        """The context of the last message, as the stream keeps it."""
        return self.read.last_context

    async def receive(self):
        """The next message. At the end of input, the process has AFTER seconds left."""
        while True:
            try:
                item = await self.read.receive()
            except anyio.EndOfStream:
                # Nobody is left to answer, and a tool may wait for a disk that hangs.
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


def mended(fault: ValidationError):
    """The message that a line was meant to be, or the error that answers it.

    None where no reply is possible, because the line has no id.
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
    """A listening socket on a loopback address; port 0 takes any that is free.

    Raises BadRequest for any other address, and for a port that is taken.
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
