"""The reference: every script's help, the MCP server's tools with schemas."""

from __future__ import annotations

import html
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from generated_docs.schema_types import type_of

from . import markup
from .page import Page, Place


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table whose first column is code and whose others are text."""
    cells = "\n".join(
        f"<tr><td><code>{html.escape(first)}</code></td>"
        + "".join(f"<td>{html.escape(text)}</td>" for text in rest)
        + "</tr>"
        for first, *rest in rows
    )
    names = "".join(f"<th>{name}</th>" for name in head)
    return (
        f'<div class="wide fields" tabindex="0"><table class="data">\n'
        f"<thead><tr>{names}</tr></thead>\n<tbody>\n{cells}\n</tbody></table></div>"
    )


def _help(text: str) -> str:
    """A help text as a block whose lines wrap with an indent on a narrow screen."""
    lines = "".join(f'<span class="line">{html.escape(line)}</span>' for line in text.split("\n"))
    return markup.raw(f'<pre class="help"><code>{lines}</code></pre>')


def script_help(path: Path) -> str:
    """A script's --help, or the comment at the head of a template; '' when it has neither.

    Raises OSError.
    """
    if path.suffix in (".py", ".sh"):
        program = [sys.executable] if path.suffix == ".py" else ["bash"]
        done = subprocess.run(
            [*program, str(path), "--help"],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
            env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1"},
        )
        return done.stdout.strip()
    lines = path.read_text(encoding="utf-8").split("\n")
    head = (
        [line[1:].removeprefix(" ") for line in lines[1:] if line.startswith("#")]
        if lines[0].startswith("#!")
        else []
    )
    end = next((number for number, line in enumerate(lines[1:]) if not line.startswith("#")), 0)
    return "\n".join(line for line in head[:end] if not line.startswith("shellcheck ")).strip()


def scripts_page(helps: Mapping[str, str], place: Place) -> Page:
    """The scripts, from {file name: help}: what runs on a box without an installation."""
    about = "What runs on a box that has bash or Python 3.8, without an installation."
    parts = ["# Scripts for the box", markup.convert(f"{about} They are in `scripts/`.", place)]
    for name, text in helps.items():
        parts += [markup.heading(f"`{name}`", place, 2), _help(text)]
    return Page(
        place.address, "Scripts for the box", "\n\n".join(parts), about, f"{len(helps)} scripts"
    )


def tools_page(tools: list[Any], resources: list[Any], prompts: list[Any], place: Place) -> Page:
    """The MCP server as a client sees it: tools, arguments, answers, resources, prompts."""
    about = "What `remote-gpu-trainer serve` offers a client, in the server's own words."
    parts = ["# Tools of the MCP server", markup.convert(about, place)]
    for tool in tools:
        kind = (
            "reads only"
            if tool.annotations and tool.annotations.read_only_hint
            else "may write a file"
        )
        parts += [
            markup.heading(f"`{tool.name}`", place, 2),
            markup.convert(f"{tool.description}\n\n*{kind}*", place),
        ]
        parts += [
            "### Arguments",
            markup.raw(fields_table(tool.input_schema)),
            "### Answer",
            markup.raw(fields_table(tool.output_schema or {})),
        ]
    for name, rows in (
        (
            "Resources",
            [
                (r.uri_template if hasattr(r, "uri_template") else str(r.uri), r.description)
                for r in resources
            ],
        ),
        ("Prompts", [(p.name, p.description) for p in prompts]),
    ):
        listed = "\n".join(
            f"<li><code>{html.escape(key)}</code>: "
            f"{html.escape(' '.join((text or '').split()))}</li>"
            for key, text in rows
        )
        parts += [f"## {name}", markup.raw(f"<ul>\n{listed}\n</ul>")]
    return Page(
        place.address,
        "Tools of the MCP server",
        "\n\n".join(parts),
        markup.opening(about, place),
        f"{len(tools)} tools",
    )


def fields_table(schema: Mapping[str, Any]) -> str:
    """The properties of a JSON schema as a table: name, type, meaning."""
    rows = []
    for name, field in schema.get("properties", {}).items():
        about = [field["description"]] if field.get("description") else []
        default = field.get("default")
        if name in schema.get("required", ()):
            about.append("required")
        elif default not in (None, "", [], {}) and not isinstance(default, (dict, list)):
            about.append(f"default {default}")
        rows.append((name, type_of(field), "; ".join(about)))
    return _table(("name", "type", "about"), rows) if rows else "<p>None.</p>"
