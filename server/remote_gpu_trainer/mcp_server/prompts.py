"""Three prompts that a user picks, and the completion of their arguments and of resource names.

The prompts stand in templates/*.md.j2. What the user fills in appears there as quoted data.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from mcp.server import MCPServer
from mcp_types import Completion, PromptReference, ResourceTemplateReference
from pydantic import Field

from ..catalogue import bundle
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
        """What can't be completed gets an empty list, not an error."""
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
    """The templates. Each value that one of them shows becomes a JSON string: one line, quoted."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # most sessions use no prompt

    return Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=StrictUndefined,
        finalize=lambda value: json.dumps(str(value), ensure_ascii=False),
        autoescape=False,  # Markdown: `finalize` quotes
    )


def _brief(text: str) -> str:
    """A value from outside: one line, cut, without controls and secrets."""
    return shown(text, LONGEST).strip()


def report(text: str) -> str:
    """An error text, cut and without controls and secrets. Its lines stay lines.

    Of a long text the first line stays and the end, where the error stands.
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
        from ..runs.render import TARGETS  # the templates come with it

        return [target for target in TARGETS if target.startswith(begun.strip().lower())]
    return []


def _where(ref: PromptReference | ResourceTemplateReference) -> str:
    return ref.uri if isinstance(ref, ResourceTemplateReference) else ref.name


def _ids(begun: str) -> list[str]:
    """Ids that begin so; then those whose title holds the text."""
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
    from ..catalogue.front_matter import pages

    return [path.stem for path in pages(bundle.bundle_root())]
