"""The style that the pages of the tools share with the site, in their templates.

A page is one file that loads nothing, so its template holds the style between two marks.
"""

from __future__ import annotations

import re
from pathlib import Path

SOURCE = "docs/assets/page.css"
TEMPLATES = (
    "server/remote_gpu_trainer/probe/templates/page.html.j2",
    "server/remote_gpu_trainer/gpu_health/templates/watch.html.j2",
)
_PART = re.compile(r"(\{# generated: page\.css #\}\n).*?(\{# end #\})", re.S)
_COMMENT = re.compile(r"/\*.*?\*/\n?", re.S)


def styled(root: Path, template: str) -> str:
    """The text of a template with the style as it is in SOURCE; unchanged where there is none."""
    text, source = (root / template).read_text(encoding="utf-8"), root / SOURCE
    if not source.is_file():
        return text
    style = _COMMENT.sub("", source.read_text(encoding="utf-8"))
    return _PART.sub(lambda part: part[1] + style + part[2], text)
