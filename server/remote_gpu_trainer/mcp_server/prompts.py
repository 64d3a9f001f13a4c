"""Three prompts that a user picks, and the completion of their arguments and of resource names.

The prompts are templates/*.md.j2. What the user fills in appears there as quoted data. The texts
that a reply takes from elsewhere are made safe here, too.
"""

from __future__ import annotations

import hashlib
import json
import re
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Annotated, Any
from urllib.parse import quote

from mcp.server import MCPServer
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver.exceptions import ResourceNotFoundError
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    Completion,
    PaginatedRequestParams,
    PromptReference,
    RequestParams,
    Resource,
    ResourceTemplateReference,
)
from pydantic import Field, ValidationError

from ..catalogue import bundle
from ..catalogue.bundle import CatalogueError, bundle_root
from ..text.masking import shown, shown_lines

Symptom = Annotated[str, Field(description="the error text, or what you see")]
LogPath = Annotated[
    str, Field(description="a log file or a folder of per-rank logs, here or as HOST:PATH")
]
Platform = Annotated[str, Field(description="the platform, such as runpod")]
Target = Annotated[
    str, Field(description="where it will be started: ssh, slurm, kubernetes, skypilot or local")
]
Needs = Annotated[
    str, Field(description="what the run needs, such as 8 GPUs of 80 GB for two days, spot is fine")
]
Box = Annotated[
    str, Field(description="a name of the ssh configuration, user@host, or the provider's ssh line")
]

LONGEST = 300  # characters of a value
REPORT = 1500  # characters of an error text
LONGEST_TEXT = 2000  # characters of one text from a page of facts
_VARIABLE = re.compile(r"\bHF_[A-Z_]{8,}")  # names that `shown` takes for tokens
MOST_COMPLETED = 100  # values in one reply, by the protocol
LONGEST_TYPED = 100  # characters of what is completed
IN_TITLES = 3  # characters from which titles are searched too


def add_to(server: MCPServer) -> None:
    """Register the prompts and the completion of arguments."""
    for prompt, title in (
        (diagnose_run, "Diagnose a failed run"),
        (before_renting, "Before renting a box"),
        (before_releasing, "Before releasing a box"),
    ):
        server.prompt(title=title)(prompt)

    @server.completion()
    async def complete(ref, argument, context) -> Completion:
        """An argument without completions gets an empty list, not an error."""
        try:
            values = candidates(_where(ref), argument.name, argument.value[:LONGEST_TYPED])
        except bundle.CatalogueError:
            values = []
        return Completion(
            values=values[:MOST_COMPLETED],
            total=len(values),
            has_more=len(values) > MOST_COMPLETED,
        )


def diagnose_run(symptom: Symptom = "", log_path: LogPath = "") -> str:
    """Find the cause of a failed, hanging or wrong training run, with the check that proves it."""
    return _written("diagnose_run", symptom=report(symptom), log_path=_brief(log_path))


def before_renting(profile: Platform = "", needs: Needs = "", target: Target = "") -> str:
    """What to settle before you spend money: the bill, what survives, the limits, a rehearsal."""
    values = {"profile": _brief(profile), "needs": _brief(needs), "target": _brief(target)}
    return _written("before_renting", **values)


def before_releasing(box: Box = "", profile: Platform = "") -> str:
    """What to check before you stop or delete a box: results, logs, what is still billed."""
    return _written("before_releasing", box=_brief(box), profile=_brief(profile))


def _written(prompt: str, **values: str) -> str:
    return _templates().get_template(f"{prompt}.md.j2").render(values)


@lru_cache(maxsize=1)
def _templates():
    """The templates. Each value in them becomes a JSON string: one line, quoted."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # most sessions use no prompt

    return Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=StrictUndefined,
        finalize=lambda value: json.dumps(str(value), ensure_ascii=False),
        autoescape=False,  # Markdown: `finalize` quotes
    )


def _brief(text: str) -> str:
    """A value from outside: one line, cut, without control characters and secrets."""
    return shown(text, LONGEST).strip()


def wrong_arguments(error: ValidationError) -> str:
    """What is wrong with a tool's arguments.

    Values are left out: one may be a secret in the wrong place.
    """
    faults = []
    for fault in error.errors(include_url=False, include_input=False)[:5]:
        place = shown(".".join(str(part) for part in fault["loc"]), 80)
        faults.append(
            f"{place}: missing; pass it"
            if fault["type"] == "missing"
            else f"{place}: wrong value; {shown(fault['msg'], 120)}"
        )
    return "; ".join(faults)


def as_data(value: Any) -> Any:
    """The same object with every text cut, masked and without control characters.

    Pages of facts quote what providers and users wrote.
    """
    if isinstance(value, dict):
        return {as_data(name): as_data(one) for name, one in value.items()}
    if isinstance(value, list):
        return [as_data(one) for one in value]
    if not isinstance(value, str):
        return value
    names = iter(_VARIABLE.findall(value))
    return re.sub(r"HF_\*\*\*", lambda found: next(names, found[0]), shown(value, LONGEST_TEXT))


def report(text: str) -> str:
    """An error text, cut, without control characters and secrets, and with its line breaks.

    Of a long text it keeps the first line, and the end, which has the error.
    """
    first, end = shown(text.strip().partition("\n")[0], 600), "\n".join(shown_lines(text, 100, 600))
    if len(end) > REPORT:
        end = end[-REPORT:].partition("\n")[2]
    return end if first in end else f"{first}\n…\n{end}"


def candidates(where: str, name: str, begun: str) -> list[str]:
    """All values that an argument may have, given what is typed.

    `where` is the name of a prompt or the URI of a resource template. Reads names only; the
    catalogue is read when an id is asked for. Raises CatalogueError when it is missing.
    """
    if (where, name) == ("entry://{id}", "id"):
        return _ids(begun.strip())
    if (where, name) in {
        ("profile://{name}", "name"),
        ("before_renting", "profile"),
        ("before_releasing", "profile"),
    }:
        return [stem for stem in _platforms() if stem.startswith(begun.strip().lower())]
    if (where, name) == ("before_renting", "target"):
        from ..runs.render import TARGETS  # importing it loads its templates

        return [target for target in TARGETS if target.startswith(begun.strip().lower())]
    return []


def _where(ref: PromptReference | ResourceTemplateReference) -> str:
    return ref.uri if isinstance(ref, ResourceTemplateReference) else ref.name


def _ids(begun: str) -> list[str]:
    """Ids that begin with the text, then those whose title contains it."""
    entries = bundle.load().entries
    first = [entry.id for entry in entries if entry.id.upper().startswith(begun.upper())]
    if len(begun) < IN_TITLES:
        return first
    return first + [
        entry.id
        for entry in entries
        if begun.lower() in entry.title.lower() and entry.id not in first
    ]


def _platforms() -> list[str]:
    from ..catalogue.facts import pages

    return [path.stem for path in pages(bundle.bundle_root())]


NAME = "remote-gpu-trainer"
HOME = f"skill://{NAME}/"
MAIN = f"{HOME}SKILL.md"
FOLDERS = ("references", "profiles", "scripts")
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
    return {"skills": [entry()], **FRESH}


async def _get(context, params: GetParams) -> dict:
    if params.uri != MAIN:
        raise MCPError(INVALID_PARAMS, f"no skill has this URI; use {MAIN}")
    return {"skill": entry(), **FRESH}


def entry() -> dict:
    """The skill for skills/list: its front matter, and the URI, digest and size of each file.

    Raises MCPError when the installation lacks it.
    """
    try:
        root = bundle_root()
    except CatalogueError as error:
        raise MCPError(INTERNAL_ERROR, str(error)) from None
    listed = []
    for path in files(root):
        content = path.read_bytes()
        listed.append(
            {
                "uri": HOME + quote(path.relative_to(root).as_posix()),
                "digest": f"sha256:{hashlib.sha256(content).hexdigest()}",
                "size": len(content),
            }
        )
    return {"uri": MAIN, "frontmatter": front_matter(root), "resources": listed}


def files(root: Path) -> list[Path]:
    """Every file of the skill, SKILL.md first, without hidden files and __pycache__."""
    found = [
        path
        for folder in FOLDERS
        for path in sorted((root / folder).rglob("*"))
        if path.is_file() and not path.is_symlink()
    ]
    hidden = [
        path
        for path in found
        if any(part.startswith((".", "__")) for part in path.relative_to(root).parts)
    ]
    return [path for path in [root / "SKILL.md", *found] if path.is_file() and path not in hidden]


def front_matter(root: Path) -> dict:
    """The front matter of SKILL.md; empty if the file is missing."""
    from ..catalogue.facts import split

    try:
        head, _ = split((root / "SKILL.md").read_text(encoding="utf-8"))
    except OSError:
        return {}
    import yaml  # only needed here

    return yaml.safe_load(head) or {}


def listed() -> list[Resource]:
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


def kind(uri: str) -> str:
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
