"""The modules of a room, each with the first sentence of its docstring."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import remote_gpu_trainer

PACKAGE = Path(remote_gpu_trainer.__file__).parent


def modules_of(room: str) -> list[tuple[str, str]]:
    """Return (path within the package, what it is) of each module of a room."""
    found = []
    for path in sorted((PACKAGE / room).rglob("*.py")):
        told = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        name = path.relative_to(PACKAGE).as_posix()
        if path.name != "__init__.py" or path.parent != PACKAGE / room:
            found.append((name, first_sentence(told).replace("|", "\\|")))
    return [(name, told) for name, told in found if told]


def first_sentence(text: str) -> str:
    """Return the first sentence of a docstring in one line, without its full stop."""
    line = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=[\w)`])\. (?=[A-Z])", line)[0].rstrip(".")
