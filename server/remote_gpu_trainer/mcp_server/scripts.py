"""The scripts that were rendered in this session, as resources.

A script has half a megabyte: as part of an answer it would fill an agent's context. The answer has
its head and its URI. Sessions of one HTTP server share the scripts; the URI has the script's
digest, so nobody can guess it.
"""

from __future__ import annotations

import hashlib
from pathlib import PurePosixPath

from mcp.server.mcpserver.exceptions import ResourceNotFoundError
from mcp_types import Resource, ResourceLink

from ..text.masking import shown

MOST_KEPT = 16  # scripts, the newest
HEAD_LINES, HEAD_LINE = 40, 200  # lines of a head, and characters of each
_kept: dict[str, str] = {}  # {URI: script}, oldest first


def keep(name: str, script: str) -> str:
    """Keep a script, and return its URI."""
    uri = f"script://{hashlib.sha256(script.encode()).hexdigest()[:24]}/{name}"
    _kept.pop(uri, None)
    _kept[uri] = script
    while len(_kept) > MOST_KEPT:
        del _kept[next(iter(_kept))]
    return uri


def head_of(script: str) -> str:
    """The comment at the start: what runs, where, where the logs are; under Slurm the options."""
    lines = script.splitlines()[:HEAD_LINES]
    end = next((at for at, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return "\n".join(shown(line, HEAD_LINE) for line in lines[:end] if not line.startswith("#!"))


def read(digest: str, name: str) -> str:
    """The whole text. Raises ResourceNotFoundError for a script that isn't kept any more."""
    uri = f"script://{digest}/{name}"
    if uri not in _kept:
        raise ResourceNotFoundError(
            f"no script {uri[:120]!r} in this session; call render_run_script again"
        )
    return _kept[uri]


def listed() -> list[Resource]:
    """The kept scripts, for resources/list."""
    return [Resource(**_about(uri)) for uri in _kept]


def link(uri: str) -> ResourceLink:
    """A kept script, as a part of a tool's answer."""
    return ResourceLink(**_about(uri))


def _about(uri: str) -> dict:
    name = PurePosixPath(uri).name
    kind = "application/yaml" if name.endswith(".yaml") else "text/x-shellscript"
    return {
        "uri": uri,
        "name": name,
        "title": "A rendered run script",
        "mime_type": kind,
        "size": len(_kept[uri].encode()),
    }
