"""Puts scripts/gpu_health.py together from server/remote_gpu_trainer/health/box_check/.

`rgt dev docs` compares the file with `generated`, and `rgt dev docs --write` writes it. The one
file holds the modules in the order in which they need each other, without their relative imports,
and the texts of data/ and templates/ as literals. Comments and names stay as they are. The reader
of kernel logs, which a look-up has too, comes from server/remote_gpu_trainer/logs/kernel/.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

PARTS = Path("server/remote_gpu_trainer/health/box_check")
SHARED = Path("server/remote_gpu_trainer/logs/kernel")
FOLDERS = {"data": "data", "template": "templates"}  # of the texts that a part asks for
LAST = "main"  # its docstring is what --help shows
HEAD = """\
#!/usr/bin/env python3
# Generated from the modules in {parts}/.
# Edit them there, then run: rgt dev docs --write
"""


def needs(tree: ast.Module) -> list[str]:
    """The modules, beside it or shared, that a module imports from."""
    return [
        node.module.rpartition(".")[2]
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.level and node.module
    ]


def in_order(trees: dict[str, ast.Module], last: str = LAST) -> list[str]:
    """The names of the modules, each after those that it needs."""
    order: list[str] = []

    def visit(name: str, above: tuple[str, ...]) -> None:
        if name in above:
            circle = " imports ".join((*above[above.index(name) :], name))
            raise ValueError(f"{circle}: parts can't import each other in a circle")
        if name not in order:
            for needed in needs(trees[name]):
                visit(needed, (*above, name))
            order.append(name)

    for name in (last, *sorted(trees)):
        visit(name, ())
    return order


def as_literal(text: str) -> str:
    """A raw string literal of many lines, so that a table looks as it does in its file."""
    quotes = next(quotes for quotes in ('"""', "'''") if quotes not in text)
    return f"r{quotes}\n{text}{quotes}"


def body(source: str, tree: ast.Module, folder: Path) -> tuple[list[str], str]:
    """-> (the import statements of a module, the rest of it without docstring and imports)."""
    lines = source.splitlines()
    imports = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    start = max([node.end_lineno for node in imports] or [tree.body[0].end_lineno])
    kept = [ast.unparse(node) for node in imports if getattr(node, "level", 0) == 0]
    text = "\n".join(lines[start:]).strip("\n")
    return kept, re.sub(
        r'(?<!def )\b(data|template)_text\("([\w.]+)"\)',
        lambda found: as_literal((folder / FOLDERS[found[1]] / found[2]).read_text("utf-8")),
        text,
    )


def heading(name: str, tree: ast.Module, last: str) -> str:
    """The name and the docstring of a module, as a comment above its part."""
    told = (ast.get_docstring(tree) or "").splitlines() if name != last else []
    lines = ["# " + "-" * 98, f"# {name}.py", *(f"# {line}".rstrip() for line in told)]
    first = next(
        node for node in tree.body[1:] if not isinstance(node, (ast.Import, ast.ImportFrom))
    )
    return "\n".join(lines) + (
        "\n\n\n" if isinstance(first, (ast.FunctionDef, ast.ClassDef)) else "\n\n"
    )


def generated(root: Path) -> str:
    """The text of scripts/gpu_health.py that the parts in `root`, a checkout, make."""
    return one_file(root, PARTS, LAST, SHARED)


def one_file(root: Path, parts: Path, last: str, *shared: Path) -> str:
    """The modules in the folder `parts` of a checkout as one program; `last` has its main.

    `shared` are further folders; no two modules have one name.
    """
    paths = [path for folder in (parts, *shared) for path in sorted((root / folder).glob("*.py"))]
    paths = [path for path in paths if path.stem != "__init__"]
    homes = {path.stem: path.parent for path in paths}
    if len(homes) < len(paths):
        raise ValueError("two parts have one name; rename one of them")
    sources = {path.stem: path.read_text(encoding="utf-8") for path in paths}
    trees = {name: ast.parse(source) for name, source in sources.items()}
    imports: set[str] = set()
    texts = []
    for name in in_order(trees, last):
        kept, text = body(sources[name], trees[name], homes[name])
        imports.update(kept)
        texts.append(heading(name, trees[name], last) + text)
    main = ast.get_docstring(trees[last])
    return (
        f'{HEAD.format(parts=parts.as_posix())}"""{main}\n"""\n\n'
        + "\n".join(sorted(imports, key=lambda line: (line.startswith("from"), line)))
        + "\n\n"
        + "\n\n\n".join(texts)
        + "\n"
    )
