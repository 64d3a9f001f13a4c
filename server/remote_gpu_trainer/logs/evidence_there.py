"""The log reader as one program for another machine, put together from this installation's files.

The program is for `python3 -` (3.8 or later, standard library). It prints one JSON object: the
evidence, or `unreadable` with the reason. Lines are cleaned and masked before they leave that
machine. Where there are too many, the plain ones are left out first.
"""

from __future__ import annotations

import ast
import base64
import io
import json
import tokenize
import zlib
from functools import lru_cache
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent.parent
PACKAGE = __name__.partition(".")[0]
MOST = 3_000_000  # bytes of lines that come back

_PROGRAM = r"""
import sys
if sys.version_info < (3, 8):
    print('{"unreadable": "Python %d.%d is too old; install 3.8 or later"}' % sys.version_info[:2])
    sys.exit()
import base64, importlib.abc, importlib.util, json, os, zlib
READER, PACKAGES, PACKED, LOG, NEEDLES, MOST = @VALUES@
SOURCES = json.loads(zlib.decompress(base64.b64decode(PACKED)))
class Bundle(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        if name in PACKAGES or name in SOURCES:
            return importlib.util.spec_from_loader(name, self, is_package=name in PACKAGES)
    def exec_module(self, module):
        exec(compile(SOURCES.get(module.__name__, ""), module.__name__, "exec"), module.__dict__)
sys.meta_path.insert(0, Bundle())
reader = __import__(READER, fromlist=["from_path"])
logs = READER.partition(".")[0] + ".logs."
Unreadable = __import__(logs + "files", fromlist=["Unreadable"]).Unreadable
QUIET = __import__(logs + "lines", fromlist=["QUIET"]).QUIET
def row(line):
    return [line.source, line.number, line.rank, line.text, line.kind, line.time]
try:
    found = reader.from_path(os.path.expanduser(LOG), [needle.encode() for needle in NEEDLES])
except Unreadable as error:
    print(json.dumps({"unreadable": str(error)}))
    sys.exit()
must = {id(line) for line in found.decisive} | {id(found.first)}
sizes = [len(json.dumps(row(line))) + 2 for line in found.lines]
chosen, size = set(), 0
order = range(len(sizes))
if sum(sizes) > MOST:
    lines = found.lines
    order = sorted(order, key=lambda i: (id(lines[i]) not in must, lines[i].kind in QUIET, -i))
for i in order:
    if size + sizes[i] > MOST:
        break
    size += sizes[i]
    chosen.add(i)
lines = [line for i, line in enumerate(found.lines) if i in chosen]
place = {id(line): i for i, line in enumerate(lines)}
def pointed(line):
    return None if line is None else place.get(id(line), row(line))
print(json.dumps({
    "lines": [row(line) for line in lines],
    "decisive": [pointed(line) for line in found.decisive],
    "first": pointed(found.first),
    "ranks": found.ranks,
    "is_log": found.is_log,
    "left_out": found.left_out,
    "numbers": found.numbers,
    "seen": found.seen,
    "victims": found.victims,
}))
"""


@lru_cache(maxsize=1)
def sources(reader: str) -> dict[str, str]:
    """Return {module: source} of the module `reader` and all of this package that it imports.

    Imports are followed at any depth. Sources come without docstrings, comments and most of their
    indentation; every line keeps its number.
    """
    found: dict[str, str] = {}
    wanted = [reader]
    while wanted:
        name = wanted.pop()
        if name in found:
            continue
        text = _file_of(name).read_text(encoding="utf-8")
        tree = ast.parse(text)
        found[name] = _shorter(_without_docstrings(text, tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.level:
                wanted += _imported(name, node)
    return dict(sorted(found.items()))


def _imported(importer: str, node: ast.ImportFrom) -> list[str]:
    """The modules of this package that a relative import in `importer` names."""
    base = ".".join([*importer.split(".")[: -node.level], *([node.module] if node.module else [])])
    return [base] if _file_of(base).is_file() else [f"{base}.{alias.name}" for alias in node.names]


def _file_of(module: str) -> Path:
    return HERE.joinpath(*module.split(".")[1:]).with_suffix(".py")


def _without_docstrings(text: str, tree: ast.Module) -> str:
    """A source with an empty string in place of each docstring."""
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


def _shorter(text: str) -> str:
    """A source without comments, and with one blank for each four that indent a line."""
    lines = text.split("\n")
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    for token in tokens:
        if token.type == tokenize.COMMENT:
            lines[token.start[0] - 1] = lines[token.start[0] - 1][: token.start[1]].rstrip()
    # A line within a string keeps its blanks.
    quoted = {line for token in tokens for line in range(token.start[0] + 1, token.end[0] + 1)}
    for number, line in enumerate(lines, start=1):
        if number not in quoted:
            bare = line.lstrip(" ")
            lines[number - 1] = " " * ((len(line) - len(bare)) // 4) + bare
    return "\n".join(lines)


def program(reader: ModuleType, log: str, needles: tuple[bytes, ...] = ()) -> str:
    """Return the text of a program that reads the path `log` by `reader.from_path`.

    `needles` are passed on to it. The text is ASCII: on its way in, Python 3.8 may cut a longer
    character in two.
    """
    shipped = sources(reader.__name__)
    packages = sorted({name.rpartition(".")[0] for name in shipped} | {PACKAGE})
    return _PROGRAM.replace(
        "@VALUES@",
        ascii(
            (
                reader.__name__,
                packages,
                base64.b64encode(zlib.compress(json.dumps(shipped).encode(), 9)).decode(),
                log,
                [needle.decode("utf-8", "replace") for needle in needles],
                MOST,
            )
        ),
        1,
    )
