"""The Python files of a project, parsed: which functions there are, and who imports whom."""

from __future__ import annotations

import ast
import builtins
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

from .. import code_files

MOST_BYTES = 1 << 20  # of a source file; a larger one is data
MOST_FILES = 3000
_NOT_TRAINED = frozenset(("test", "tests", "docs", "doc", "third_party", "vendor", "build"))


@dataclass(frozen=True)
class Source:
    """One Python file: its path below the project's folder, and its tree.

    `fault`: why Python can't read it, and in which line; its tree is empty then.
    """

    path: str
    text: str
    tree: ast.Module
    fault: str = ""

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """Return {node: the node that holds it}."""
        return {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    @cached_property
    def calls(self) -> list[ast.Call]:
        """Return all calls, in the order of the file's lines."""
        found = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call)]
        return sorted(found, key=lambda node: (node.lineno, node.col_offset))

    @cached_property
    def texts(self) -> list[str]:
        """Return its plain texts of one line."""
        found = (node.value for node in ast.walk(self.tree) if isinstance(node, ast.Constant))
        return [one for one in found if isinstance(one, str) and len(one) < 200 and "\n" not in one]

    @cached_property
    def imported(self) -> list[str]:
        """Return the first names of what it imports in any case, not below a `try`."""
        names = []
        for node in ast.walk(self.tree):
            if any(isinstance(one, ast.Try) for one in lineage(self, node)):
                continue
            if isinstance(node, ast.Import):
                names += [one.name.partition(".")[0] for one in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names.append((node.module or "").partition(".")[0])
        return names

    def function_around(self, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """Return the innermost function that holds a node; None at the module's level."""
        while node := self.parents.get(node):  # type: ignore[assignment]
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return node
        return None

    def class_around(self, node: ast.AST) -> ast.ClassDef | None:
        """Return the innermost class that holds a node."""
        while node := self.parents.get(node):  # type: ignore[assignment]
            if isinstance(node, ast.ClassDef):
                return node
        return None

    @property
    def is_run(self) -> bool:
        """Return whether the file does something when Python runs it."""
        if self.fault:
            return "__main__" in self.text
        return any(
            isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)
            or isinstance(node, (ast.For, ast.While, ast.With))
            or isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
            or isinstance(node, ast.Assign) and _is_training(node.value)
            for node in self.tree.body
        )  # fmt: skip


def _is_training(node: ast.expr) -> bool:
    """Whether an expression calls .train(…) or .fit(…)."""
    is_method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    return is_method and node.func.attr in ("train", "fit")  # type: ignore[union-attr]


@dataclass(frozen=True)
class Project:
    """A folder, the files of it, and those of Python, {path: Source}.

    `untracked`: files that git would have to track before a start sends them.
    """

    folder: Path
    files: list[str]
    sources: dict[str, Source] = field(default_factory=dict)
    untracked: frozenset[str] = frozenset()

    def used_by(self, path: str) -> list[Source]:
        """Return a file and those of the project that it imports, directly or not."""
        todo, used = [path], {}
        while todo:
            one = todo.pop(0)
            if one in used or one not in self.sources:
                continue
            used[one] = self.sources[one]
            if one not in self._imports:
                self._imports[one] = list(self._imported_by(self.sources[one]))
            todo += self._imports[one]
        return list(used.values())

    def imports_from_above(self, path: str, installed: frozenset[str]) -> bool:
        """Return whether a program in a folder below imports what Python finds from the project's
        own folder alone. `installed`: packages, which stand before a folder without __init__.py."""
        here = PurePosixPath(path).parent
        for node in ast.walk(self.sources[path].tree):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            for name in names:
                top = name.partition(".")[0]
                beside = {
                    f"{here / top}.py",
                    *(f for f in self.files if f.startswith(f"{here / top}/")),
                }
                is_beside = any(one in self.files for one in beside)
                is_above = f"{top}.py" in self.files or any(
                    one.startswith(f"{top}/") and one.endswith(".py") for one in self.files
                )
                if top in installed and f"{top}/__init__.py" not in self.files:
                    continue
                if top and is_above and not is_beside:
                    return True
        return False

    def is_within_another(self, path: str) -> bool:
        """Return whether a file lies in a package of its own below the project, such as a copy of
        a library."""
        above = [str(one) for one in PurePosixPath(path).parents][:-1]
        return any(f"{one}/setup.py" in self.files for one in above) or any(
            f"{one}/pyproject.toml" in self.files for one in above
        )

    @cached_property
    def texts(self) -> set[str]:
        """What the program's plain texts and the files' paths are made of."""
        texts = {text for source in self.sources.values() for text in source.texts}
        return texts | {part for one in self.files for part in re.split(r"[/.]", one)}

    @cached_property
    def _tops(self) -> set[str]:
        """What stands in the folder, and in src."""
        parts = (PurePosixPath(one.removeprefix("src/")).parts for one in self.files)
        return {one[0].removesuffix(".py") for one in parts if one}

    @cached_property
    def _imports(self) -> dict[str, list[str]]:
        """The files that a file imports, of those that were asked for."""
        return {}

    def _imported_by(self, source: Source) -> Iterator[str]:
        here = PurePosixPath(source.path).parent
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield from self._files_of(here, alias.name.split("."))
            elif isinstance(node, ast.ImportFrom):
                parts = (node.module or "").split(".") if node.module else []
                above = here
                for _ in range(node.level - 1):
                    above = above.parent
                yield from self._files_of(above, parts, node.level > 0)
                for alias in node.names:
                    yield from self._files_of(above, [*parts, alias.name], node.level > 0)

    def _files_of(
        self, here: PurePosixPath, parts: list[str], is_relative: bool = False
    ) -> Iterator[str]:
        """Yield the files that a module's name may mean: beside the file, or below the project."""
        if not parts:
            return
        roots = [here] if is_relative else [here, *map(PurePosixPath, (".", "src", "lib"))]
        if not is_relative and len(parts) > 1 and parts[0] not in self._tops:
            yield from self._files_of(PurePosixPath("."), parts[1:], True)  # the folder's own name
        for root in roots:
            whole = root.joinpath(*parts)
            for path in (f"{whole}.py", f"{whole}/__init__.py"):
                if path in self.sources:
                    yield path
                    return


def names_in(sources: list[Source]) -> set[str]:
    """Return the names and attributes that files use."""
    return {
        text
        for source in sources
        for node in ast.walk(source.tree)
        if (text := getattr(node, "attr", "") or getattr(node, "id", ""))
    }


def lineage(source: Source, node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes in which a node stands, the innermost first."""
    while above := source.parents.get(node):
        yield above
        node = above


def is_reached(source: Source, call: ast.Call, named: set[str]) -> bool:
    """Whether a call of an imported file may run: not where the file is a program of its own, and
    not in a function that nobody names, or that such a file calls as its own main."""
    for node in lineage(source, call):
        if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
            return False
        if isinstance(node, ast.FunctionDef) and source.class_around(node) is None:
            is_own_main = node.name in ("main", "test") and f"\n    {node.name}()" in source.text
            return node.name in named and not is_own_main
    return True


def undefined(source: Source) -> list[str]:
    """Return the names that a file uses when it is run and defines nowhere, in its order."""
    bound = {*dir(builtins), "__file__", "__name__"}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
        elif isinstance(node, ast.alias):
            if node.name == "*":
                return []
            bound.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("exec", "globals"):
            return []
    used = []
    for statement in source.tree.body:
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            used += [node.id for node in ast.walk(statement) if isinstance(node, ast.Name)]
    return [name for name in dict.fromkeys(used) if name not in bound]


def read(folder: Path) -> Project:
    """Return a project, of all its files but those that git ignores. Raises OSError."""
    chosen = code_files.choose(folder)
    untracked = frozenset(_new_code(chosen.untracked))
    files = sorted({*chosen.sizes, *untracked})
    project = Project(folder, files, untracked=untracked)
    python = [name for name in files if name.endswith(".py")][:MOST_FILES]
    for name in python:
        if source := _parsed(folder, name):
            project.sources[name] = source
    return project


def _new_code(untracked: list[str]) -> Iterator[str]:
    """Yield the files that git doesn't track, but for those of hidden folders and of packages that
    were installed here."""
    installed = [one.removesuffix("pyvenv.cfg") for one in untracked if one.endswith("/pyvenv.cfg")]
    for name in untracked:
        above = PurePosixPath(name).parts[:-1]
        is_hidden = any(one.startswith(".") for one in above)
        is_ours = not is_hidden and not code_files.BY_PRODUCTS.intersection(above)
        if is_ours and not name.startswith(tuple(installed)):
            yield name


def is_aside(path: str) -> bool:
    """Whether a file lies where nobody trains: tests, documents, other people's code."""
    return bool(_NOT_TRAINED.intersection(PurePosixPath(path).parts[:-1]))


def _parsed(folder: Path, name: str) -> Source | None:
    path = folder / name
    try:
        if path.is_symlink() or path.stat().st_size > MOST_BYTES:
            return None
        text = path.read_text(encoding="utf-8-sig", errors="replace")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the project's own escapes
            return Source(name, text, ast.parse(text))
    except SyntaxError as error:
        fault = f"{name}:{error.lineno or 1} can't be read as Python ({error.msg})"
        return Source(name, text, ast.Module([], []), fault)
    except (OSError, ValueError, RecursionError, MemoryError):
        return None
