"""Three prompts that a user picks, from templates/*.md.j2.

What the user fills in appears there as quoted data.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from mcp.server import MCPServer
from pydantic import Field

from .untrusted import brief, report

if TYPE_CHECKING:
    from jinja2 import Environment

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


def add_to(server: MCPServer) -> None:
    """Register the prompts."""
    server.prompt(title="Diagnose a failed run")(diagnose_run)
    server.prompt(title="Before renting a box")(before_renting)
    server.prompt(title="Before releasing a box")(before_releasing)


def diagnose_run(symptom: Symptom = "", log_path: LogPath = "") -> str:
    """Find the cause of a failed, hanging or wrong training run, with the check that proves it."""
    return _filled_in("diagnose_run", symptom=report(symptom), log_path=brief(log_path))


def before_renting(profile: Platform = "", needs: Needs = "", target: Target = "") -> str:
    """What to settle before you spend money: the bill, what survives, the limits, a rehearsal."""
    return _filled_in(
        "before_renting", profile=brief(profile), needs=brief(needs), target=brief(target)
    )


def before_releasing(box: Box = "", profile: Platform = "") -> str:
    """What to check before you stop or delete a box: results, logs, what is still billed."""
    return _filled_in("before_releasing", box=brief(box), profile=brief(profile))


def _filled_in(prompt: str, **values: str) -> str:
    return _templates().get_template(f"{prompt}.md.j2").render(values)


@lru_cache(maxsize=1)
def _templates() -> Environment:
    """The templates. Each value in them becomes a JSON string: one line, quoted."""
    # Not at the top, for a fast start: most sessions use no prompt.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=StrictUndefined,
        finalize=lambda value: json.dumps(str(value), ensure_ascii=False),
        autoescape=False,  # Markdown: `finalize` quotes
    )
