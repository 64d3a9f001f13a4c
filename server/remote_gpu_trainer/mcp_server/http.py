"""`serve --http`: the server on a port of this machine.

It listens on loopback only, and compares the whole Host and Origin, so that a web page can't reach
it. There is no login: whoever may open a socket on this machine acts as the user who started the
server. SECURITY.md says what that means.
"""

from __future__ import annotations

import ipaddress
import socket
import sys

import uvicorn
from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings

from ..text import BadRequest

HOST, PORT = "127.0.0.1", 8931
AT_END = 1  # seconds that connections get after a signal; uvicorn would wait for each of them
IDLE = 1800  # seconds after which a session that nobody ended is
MOST_BODY = 32 << 20  # bytes: a pasted report of 20 million characters has room


def serve(server: MCPServer, host: str = HOST, port: int = PORT) -> None:
    """Serve at http://HOST:PORT/mcp until interrupted; the address goes to stderr.

    Raises BadRequest when the server can't listen there.
    """
    with bound(host, port) as listening:
        address, port = listening.getsockname()[:2]
        name = f"[{address}]" if ":" in address else address
        app = server.streamable_http_app(
            host=address,
            transport_security=_guard(name, port),
            max_request_body_size=MOST_BODY,
            session_idle_timeout=IDLE,
        )
        print(
            f"remote-gpu-trainer serve: http://{name}:{port}/mcp (this machine only, no login)",
            file=sys.stderr,
            flush=True,
        )
        # uvicorn believes X-Forwarded-For of this machine, and no proxy belongs before this server.
        config = uvicorn.Config(
            app,
            log_level="warning",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=AT_END,
        )
        uvicorn.Server(config).run([listening])


def _guard(name: str, port: int) -> TransportSecuritySettings:
    """Only this address and localhost, each with this port, as Host and in Origin.

    The SDK's own guard takes any port: a page served from another port of this machine would pass,
    and so would the host `localhost:80.evil.example`.
    """
    hosts = [f"{host}:{port}" for host in dict.fromkeys((name, "localhost"))]
    return TransportSecuritySettings(
        allowed_hosts=hosts, allowed_origins=[f"http://{host}" for host in hosts]
    )


def bound(host: str, port: int) -> socket.socket:
    """A listening socket on a loopback address; port 0 takes any free one.

    The SDK leaves the binding to uvicorn, which takes any address, exits on a port in use, and
    tells the chosen port only when it is too late for the guard. Raises BadRequest for an address
    that isn't loopback, and for a port out of range or in use.
    """
    address = "127.0.0.1" if host == "localhost" else host
    try:
        loopback = ipaddress.ip_address(address)
    except ValueError:
        loopback = None
    if loopback is None or not loopback.is_loopback:
        raise BadRequest(
            f"--host: the server has no login, so it doesn't listen on {host[:80]!r}; "
            "use 127.0.0.1, ::1 or localhost, "
            f"and reach it from elsewhere with ssh -L {port}:127.0.0.1:{port}"
        )
    if not 0 <= port <= 65535:
        raise BadRequest(f"--port: {port} is out of range; pass 1 to 65535, or 0 for any free port")
    listening = socket.socket(
        socket.AF_INET6 if loopback.version == 6 else socket.AF_INET, socket.SOCK_STREAM
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
