"""The command `serve`: the MCP server."""

from __future__ import annotations

import argparse


def add_to(commands) -> None:
    """Add the command to the parser's commands."""
    serve = commands.add_parser(
        "serve",
        help="run the MCP server for coding agents",
        description="Run the MCP server: on standard input and output, or with --http on a port "
        "of this machine.",
    )
    serve.add_argument(
        "--http",
        action="store_true",
        help="serve http://127.0.0.1:PORT/mcp instead; no other machine can reach it, and there "
        "is no login",
    )
    serve.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="with --http: a loopback address; any other is refused (default 127.0.0.1)",
    )
    serve.add_argument(
        "--port",
        type=int,
        default=8931,
        metavar="N",
        help="with --http: the port; 0 takes any free one (default 8931)",
    )
    serve.set_defaults(run=run_serve)


def run_serve(args: argparse.Namespace) -> int:
    """`serve`: 0 when the client has gone."""
    from ..mcp_server.server import make_server

    if args.http:
        from ..mcp_server import transports

        transports.serve(make_server(), args.host, args.port)
    else:
        from ..mcp_server.progress import leave

        make_server().run("stdio")
        leave()
    return 0
