"""Put a program for the box, one file in scripts/, together from the modules of a room.

`rgt dev docs` compares each file with `generated`, and `rgt dev docs --write` writes it. The one
file holds the modules in the order in which they need each other, without their relative imports,
and the texts of data/ and templates/ as literals. Comments and names stay as they are.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path("server/remote_gpu_trainer")


class Source(NamedTuple):
    """The folders of a program's modules, and single modules. No two modules have one name.

    `main` is the module that starts it; its docstring is what --help shows.
    """

    parts: Path
    main: str
    shared: tuple[Path, ...] = ()


PROGRAMS = {
    # A look-up reads kernel logs too.
    "scripts/gpu_health.py": Source(
        PACKAGE / "gpu_health/box_check", main="main", shared=(PACKAGE / "logs/kernel",)
    ),
    "scripts/probe.py": Source(PACKAGE / "probe", main="program", shared=(PACKAGE / "drawing",)),
    "scripts/snapshot.py": Source(
        PACKAGE / "snapshot",
        main="program",
        shared=(PACKAGE / "text/masking.py", PACKAGE / "text/proc.py"),
    ),
}
FOLDERS = {"data": "data", "template": "templates"}  # of the texts that a part asks for
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


def in_order(trees: dict[str, ast.Module], last: str) -> list[str]:
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
    lines = [f"# ---- {name}.py", *(f"# {line}".rstrip() for line in told)]
    first = next(
        node for node in tree.body[1:] if not isinstance(node, (ast.Import, ast.ImportFrom))
    )
    return "\n".join(lines) + (
        "\n\n\n" if isinstance(first, (ast.FunctionDef, ast.ClassDef)) else "\n\n"
    )


def import_block(statements: set[str]) -> str:
    """The imports of all modules as one block, sorted: what is imported from one module, once."""
    names: dict[str, set[str]] = {}
    plain = []
    for statement in statements:
        module, _, imported = statement.removeprefix("from ").partition(" import ")
        if imported:
            names.setdefault(module, set()).update(imported.split(", "))
        else:
            plain.append(statement)
    future = [f"from {module} import {', '.join(names.pop(module))}\n"
              for module in list(names) if module == "__future__"]  # fmt: skip
    merged = (f"from {module} import {', '.join(sorted(names[module]))}" for module in names)
    return "\n".join([*future, *sorted(plain), *sorted(merged)])


def refuse_shared_names(trees: dict[str, ast.Module]) -> None:
    """Raise ValueError if two modules define one name: in one file the later one would win."""
    homes: dict[str, str] = {}
    for part, tree in trees.items():
        for name in defined(tree):
            if homes.setdefault(name, part) != part:
                raise ValueError(f"{part} and {homes[name]} define {name}; rename one of them")


def defined(tree: ast.Module) -> list[str]:
    """The names that a module defines itself."""
    names = []
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.append(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            goals = node.targets if isinstance(node, ast.Assign) else [node.target]
            names += [
                one.id for goal in goals for one in ast.walk(goal) if isinstance(one, ast.Name)
            ]
    return names


def generated(root: Path, name: str) -> str:
    """The text of the file `name` in scripts/, from the modules in `root`, a checkout.

    Raises ValueError if two modules have one name, define one name, or import each other in a
    circle.
    """
    source = PROGRAMS[name]
    paths = [
        path
        for place in (root / source.parts, *(root / shared for shared in source.shared))
        for path in ([place] if place.is_file() else sorted(place.glob("*.py")))
        if path.stem != "__init__"
    ]
    homes = {path.stem: path.parent for path in paths}
    if len(homes) < len(paths):
        raise ValueError("two parts have one name; rename one of them")
    sources = {path.stem: path.read_text(encoding="utf-8") for path in paths}
    trees = {name: ast.parse(text) for name, text in sources.items()}
    refuse_shared_names(trees)
    imports: set[str] = set()
    texts = []
    for part in in_order(trees, source.main):
        kept, text = body(sources[part], trees[part], homes[part])
        imports.update(kept)
        texts.append(heading(part, trees[part], source.main) + text)
    main = ast.get_docstring(trees[source.main])
    return (
        f'{HEAD.format(parts=source.parts.as_posix())}"""{main}\n"""\n\n'
        + import_block(imports)
        + "\n\n"
        + "\n\n\n".join(texts)
        + "\n"
    )
