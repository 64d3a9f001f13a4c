"""The templates of the generated documents, in templates/."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    autoescape=False,  # it is Markdown
)
_TEMPLATES.filters["cell"] = lambda text: text.replace("|", "\\|")  # within a table


def filled(template: str, **values: Any) -> str:
    """Return the text of `templates/TEMPLATE.md.j2` with these values."""
    return _TEMPLATES.get_template(f"{template}.md.j2").render(values)
