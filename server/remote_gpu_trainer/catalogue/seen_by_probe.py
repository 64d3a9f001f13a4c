"""Which entries the probe can name, read from its source."""

from __future__ import annotations

import ast

from .bundle import Catalogue

PROBE = "server/remote_gpu_trainer/probe"


def probed(catalogue: Catalogue) -> set[str] | None:
    """Return the ids of the entries that the probe can name, or None without the probe's source.

    The source holds each kind of finding as a tuple of an id, a level such as WRONG, and texts. It
    is parsed, never run.
    """
    parts = sorted((catalogue.root / PROBE).glob("*.py"))
    if not parts:
        return None
    return {
        catalogue.current(id)
        for part in parts
        for node in ast.walk(ast.parse(part.read_text(encoding="utf-8")))
        if isinstance(node, ast.Tuple) and (id := _id_of_kind(node))
    }


def _id_of_kind(node: ast.Tuple) -> str:
    """Return the id in a kind of finding such as `("O3", WRONG, …)`, or '' for another tuple."""
    if len(node.elts) < 2:
        return ""
    first, second = node.elts[:2]
    is_kind = isinstance(second, ast.Name) and second.id in ("WRONG", "HINT", "NOTE")
    if is_kind and isinstance(first, ast.Constant) and isinstance(first.value, str):
        return first.value
    return ""
