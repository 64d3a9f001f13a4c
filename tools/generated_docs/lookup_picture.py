"""The picture of an answer in README, drawn by the terminal's own code."""

from __future__ import annotations

import io
import re
from pathlib import Path

from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.cli.terminal import draw
from remote_gpu_trainer.lookup.advice import advise
from remote_gpu_trainer.lookup.answer import answer_for
from rich.console import Console
from rich.text import Text

LOG = "examples/logs/ddp-unused-parameters.log"
WIDTH = 100  # columns


def lookup_picture(root: Path) -> str:
    """The picture as SVG. Equal catalogues give equal bytes: it doesn't depend on the day."""
    entries = bundle.load_cache()
    today = max(entry.verified for entry in entries.values())
    answer = answer_for(log=str(root / LOG), today=today)
    console = Console(
        file=io.StringIO(),
        record=True,
        width=WIDTH,
        height=50,  # unused, but without it rich asks the terminal for both
        force_terminal=True,
        color_system="truecolor",
        no_color=False,
        highlight=False,
    )
    console.print(Text.assemble(("$ ", "green"), (f"rgt lookup --log {LOG}", "bold"), "\n"))
    draw(advise(answer, entries, whole=True), console, "rgt lookup --id {id}")
    svg = console.export_svg(title="rgt lookup", unique_id="lookup")
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.S)  # fonts from another host
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"
