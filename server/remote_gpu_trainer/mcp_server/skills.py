"""The skill over MCP: its files as resources, and `skills/list` and `skills/get` (SEP-2640)."""

from __future__ import annotations

import hashlib
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver.exceptions import ResourceNotFoundError
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    PaginatedRequestParams,
    RequestParams,
    Resource,
)

from ..catalogue.bundle import CatalogueError, bundle_root
from ..catalogue.facts import split
from ..clients.skill_folder import SKILL

NAME = "remote-gpu-trainer"
HOME = f"skill://{NAME}/"
MAIN = f"{HOME}SKILL.md"
MODERN = frozenset({"2026-07-28"})
FRESH = {"ttlMs": 60_000, "cacheScope": "private"}
TYPES = {
    ".md": "text/markdown",
    ".py": "text/x-python",
    ".sh": "text/x-shellscript",
    ".json": "application/json",
}


class GetParams(RequestParams):
    """The parameters of skills/get: the URI of a SKILL.md."""

    uri: str


class Skills(Extension):
    """`skills/list` and `skills/get`, in the protocol of 2026-07-28 only."""

    identifier = "io.modelcontextprotocol/skills"

    def methods(self):
        """The methods with their parameters, and the protocol versions that have them."""
        return [
            MethodBinding("skills/list", PaginatedRequestParams, _list, MODERN),
            MethodBinding("skills/get", GetParams, _get, MODERN),
        ]


async def _list(context, params: PaginatedRequestParams) -> dict:
    if params.cursor:
        raise MCPError(INVALID_PARAMS, "the list has only one page; leave the cursor out")
    return {"skills": [skill()], **FRESH}


async def _get(context, params: GetParams) -> dict:
    if params.uri != MAIN:
        raise MCPError(INVALID_PARAMS, f"no skill has this URI; use {MAIN}")
    return {"skill": skill(), **FRESH}


def skill() -> dict:
    """The skill for skills/list: its front matter, and the URI, digest and size of each file.

    Raises MCPError when the installation lacks it.
    """
    try:
        root = bundle_root()
    except CatalogueError as error:
        raise MCPError(INTERNAL_ERROR, str(error)) from None
    resources = []
    for path in files(root):
        content = path.read_bytes()
        resources.append(
            {
                "uri": HOME + quote(path.relative_to(root).as_posix()),
                "digest": f"sha256:{hashlib.sha256(content).hexdigest()}",
                "size": len(content),
            }
        )
    return {"uri": MAIN, "frontmatter": front_matter(root), "resources": resources}


def files(root: Path) -> list[Path]:
    """Every file of the skill, SKILL.md first, without hidden files, links and __pycache__."""
    main, *folders = SKILL
    paths = [root / main]
    for folder in folders:
        paths += [
            path
            for path in sorted((root / folder).rglob("*"))
            if not path.is_symlink() and not _is_hidden(path.relative_to(root))
        ]
    return [path for path in paths if path.is_file()]


def _is_hidden(path: Path) -> bool:
    return any(part.startswith((".", "__")) for part in path.parts)


def front_matter(root: Path) -> dict:
    """The front matter of SKILL.md; empty if the file is missing."""
    try:
        head, _ = split((root / "SKILL.md").read_text(encoding="utf-8"))
    except OSError:
        return {}
    import yaml  # not at the top, for a fast start: most sessions never list the skill

    return yaml.safe_load(head) or {}


def main_resource() -> list[Resource]:
    """SKILL.md for resources/list; it and skills/list name the other files.

    Empty when the installation lacks it.
    """
    try:
        about = front_matter(bundle_root())
    except CatalogueError:
        about = {}
    if not about:
        return []
    return [
        Resource(
            uri=MAIN,
            name=about["name"],
            title="The skill itself",
            description=about["description"],
            mime_type="text/markdown",
        )
    ]


def mime_type(uri: str) -> str:
    """The MIME type of one of the skill's files."""
    return TYPES.get(PurePosixPath(uri).suffix, "text/plain")


def read(path: str) -> str:
    """The text of one file, by its path in the skill.

    Raises ResourceNotFoundError for a path that the skill doesn't have.
    """
    try:
        root = bundle_root()
    except CatalogueError as error:
        raise ResourceNotFoundError(str(error)) from None
    for file in files(root):
        if file.relative_to(root).as_posix() == path:
            return file.read_bytes().decode()
    raise ResourceNotFoundError(
        f"no file {path[:80]!r} in the skill; use one from skills/list, such as {MAIN}"
    )
