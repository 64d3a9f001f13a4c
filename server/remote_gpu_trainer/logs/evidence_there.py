"""The reading of logs as one program for another machine: the reader and what it imports, bundled from this installation's own files.

The program is for `python3 -` (3.8 or later, standard library). It prints one JSON object: the findings, or `unreadable` with the reason. Lines are
cleaned and masked there, before they leave; of very many, the plain ones are left out first.
"""

from __future__ import annotations

import ast
import io
import tokenize
from functools import lru_cache
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent.parent
PACKAGE = __name__.partition(".")[0]
MOST = 3_000_000  # bytes of lines that come back

_PROGRAM = r"""
import sys
if sys.version_info < (3, 8):
    print('{"unreadable": "found Python %d.%d there, expected 3.8 or later"}' % sys.version_info[:2])
    sys.exit()
import importlib.abc, importlib.util, json, os
READER, PACKAGES, SOURCES, LOG, NEEDLES, MOST = @VALUES@
class Bundle(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        if name in PACKAGES or name in SOURCES:
            return importlib.util.spec_from_loader(name, self, is_package=name in PACKAGES)
    def exec_module(self, module):
        exec(compile(SOURCES.get(module.__name__, ""), module.__name__, "exec"), module.__dict__)
sys.meta_path.insert(0, Bundle())
evidence = __import__(READER, fromlist=["from_path"])
def row(line):
    return [line.source, line.number, line.rank, line.text, line.kind, line.time]
try:
    found = evidence.from_path(os.path.expanduser(LOG), [needle.encode() for needle in NEEDLES])
except evidence.Unreadable as error:
    print(json.dumps({"unreadable": str(error)}))
    sys.exit()
must = {id(line) for line in found.decisive} | {id(found.first)}
sizes = [len(json.dumps(row(line))) + 2 for line in found.lines]
chosen, size = set(), 0
order = range(len(sizes)) if sum(sizes) <= MOST else sorted(range(len(sizes)), key=lambda i: (id(found.lines[i]) not in must, found.lines[i].kind in evidence.QUIET, -i))
for i in order:
    if size + sizes[i] > MOST:
        break
    size += sizes[i]
    chosen.add(i)
lines = [line for i, line in enumerate(found.lines) if i in chosen]
place = {id(line): i for i, line in enumerate(lines)}
def pointed(line):
    return None if line is None else place.get(id(line), row(line))
print(json.dumps({"lines": [row(line) for line in lines], "decisive": [pointed(line) for line in found.decisive], "first": pointed(found.first), "ranks": found.ranks, "is_log": found.is_log, "left_out": found.left_out, "numbers": found.numbers, "seen": found.seen}))
"""


@lru_cache(maxsize=1)
def sources(reader: str) -> dict[str, str]:
    """{module: source} of the module `reader` and everything of this package that it imports, at any depth. Without docstrings and comments."""
    found: dict[str, str] = {}
    wanted = [reader]
    while wanted:
        name = wanted.pop()
        if name in found:
            continue
        text = _file_of(name).read_text(encoding="utf-8")
        tree = ast.parse(text)
        found[name] = _without_comments(_without_docstrings(text, tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.level:
                wanted += _imported(name, node)
    return dict(sorted(found.items()))


def _imported(importer: str, node: ast.ImportFrom) -> list[str]:
    """The modules of this package that a relative import in the module `importer` names."""
    base = ".".join([*importer.split(".")[: -node.level], *([node.module] if node.module else [])])
    return [base] if _file_of(base).is_file() else [f"{base}.{alias.name}" for alias in node.names]


def _file_of(module: str) -> Path:
    return HERE.joinpath(*module.split(".")[1:]).with_suffix(".py")


def _without_docstrings(text: str, tree: ast.Module) -> str:
    """A source with an empty text in place of each docstring: an eighth less to send. Every line keeps its number."""
    lines = text.split("\n")
    for node in ast.walk(tree):
        if (
            isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
            and ast.get_docstring(node) is not None
        ):
            said = node.body[0]
            lines[said.lineno - 1 : said.end_lineno] = [
                " " * said.col_offset + '""',
                *[""] * (said.end_lineno - said.lineno),
            ]
    return "\n".join(lines)


def _without_comments(text: str) -> str:
    """A source whose comments are cut off, a twentieth less to send. Every line keeps its number."""
    lines = text.split("\n")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            lines[token.start[0] - 1] = lines[token.start[0] - 1][: token.start[1]].rstrip()
    return "\n".join(lines)


def program(reader: ModuleType, log: str, needles: tuple[bytes, ...] = ()) -> str:
    """The program that reads `log` there by `reader.from_path`. `needles` as there. All ASCII: Python 3.8 may cut a letter of more bytes in two on its way in."""
    shipped = sources(reader.__name__)
    packages = sorted({name.rpartition(".")[0] for name in shipped} | {PACKAGE})
    return _PROGRAM.replace(
        "@VALUES@",
        ascii(
            (
                reader.__name__,
                packages,
                shipped,
                log,
                [needle.decode("utf-8", "replace") for needle in needles],
                MOST,
            )
        ),
        1,
    )
