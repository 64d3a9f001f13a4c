"""`serve --http`: the server on a port of this machine. Loopback only; Host and Origin are compared whole, so that a web page can't reach it.

There is no login. Whoever may open a socket on this machine asks as the user who started it: SECURITY.md says what that means.
"""

from __future__ import annotations

import ipaddress
import socket
import sys

from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings

from ..text.errors import BadRequest

PORT = 8931
MOST_BODY = 32 << 20  # bytes: a pasted report of 20 million characters has room


def serve(server: MCPServer, host: str = "127.0.0.1", port: int = 8931) -> None:
    """Serve at http://HOST:PORT/mcp until interrupted; the address goes to stderr. Raises BadRequest when it can't be bound."""
    import uvicorn

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
    """A listening socket on a loopback address. Raises BadRequest for any other address, and for a port that is taken."""
    address = "127.0.0.1" if host == "localhost" else host
    try:
        here = ipaddress.ip_address(address)
    except ValueError:
        here = None
    if here is None or not here.is_loopback:
        raise BadRequest(
            f"found --host {host[:80]!r}, expected 127.0.0.1, ::1 or localhost: the server has no login; do: reach it from elsewhere with ssh -L {port}:127.0.0.1:{port}"
        )
    if not 0 <= port <= 65535:
        raise BadRequest(f"found --port {port}, expected 0 (any that is free) to 65535")
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
            f"found {address} port {port} not free ({error.strerror}), expected one to listen on; do: --port 0 takes any"
        ) from None
    return listening
