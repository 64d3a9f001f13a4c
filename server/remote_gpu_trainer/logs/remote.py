"""Read logs by path, here or as HOST:PATH.

A remote log stays on its box. The reader runs there, as one program put together from this
installation's files, for `python3 -` (3.8 or later, standard library). It prints one JSON object:
the evidence, or `unreadable` with the reason. Lines are cleaned and masked before they leave that
machine. Where there are too many, the plain ones are left out first.
"""

from __future__ import annotations

import ast
import base64
import io
import json
import os
import re
import tokenize
import zlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from ..boxes import box as boxes
from ..boxes.box import BadBox, Box
from ..text.masking import mask, shown, shown_lines
from .detectors import Watch
from .evidence import Evidence, Probed
from .files import Unreadable
from .kinds import KINDS
from .lines import MAX_LINE, Line

HERE = Path(__file__).resolve().parent.parent
PACKAGE = __name__.partition(".")[0]
MOST = 3_000_000  # bytes of lines that come back
SECONDS = 40  # an MCP client waits for a minute
MOST_LINES, MOST_RANKS, MOST_PROBED = 200_000, 100_000, 64
# A host of at least two characters (C:\ is a drive), and a path that begins neither with a blank
# (that is a message) nor with // (that is an address).
_REMOTE = re.compile(r"([^\s/\\:\[\]]{2,}):((?!//)\S.*)\Z", re.S)
_BRACKETS = re.compile(r"([^\s/\\:\[\]]+@)?\[([0-9A-Fa-f:.]+)\]:((?!//)\S.*)\Z", re.S)
_PASTED = re.compile(r"(ssh\s.+?):([/~].*)\Z", re.S)

_PROGRAM = r"""
import sys
if sys.version_info < (3, 8):
    print('{"unreadable": "Python %d.%d is too old; install 3.8 or later"}' % sys.version_info[:2])
    sys.exit()
import base64, importlib.abc, importlib.util, json, os, zlib
READER, PACKAGES, PACKED, LOG, NEEDLES, MOST = @VALUES@
SOURCES = json.loads(zlib.decompress(base64.b85decode(PACKED)))
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
QUIET = __import__(logs + "kinds", fromlist=["QUIET"]).QUIET
def row(line):
    return [line.source, line.number, line.rank, line.text, line.kind, line.time]
try:
    found = reader.from_path(os.path.expanduser(LOG), [needle.encode() for needle in NEEDLES])
except Unreadable as error:
    print(json.dumps({"unreadable": str(error)}))
    sys.exit()
must = {*found.decisive, found.first}
sizes = [len(json.dumps(row(line))) + 2 for line in found.lines]
chosen, size = set(), 0
order = range(len(sizes))
if sum(sizes) > MOST:
    lines = found.lines
    order = sorted(order, key=lambda i: (lines[i] not in must, lines[i].kind in QUIET, -i))
for i in order:
    if size + sizes[i] > MOST:
        break
    size += sizes[i]
    chosen.add(i)
lines = [line for i, line in enumerate(found.lines) if i in chosen]
place = {line: i for i, line in enumerate(lines)}
def pointed(line):
    return None if line is None else place.get(line, row(line))
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
    "probed": [
        {"id": one.id, "level": "wrong" if one.wrong else "hint", "step": one.step,
         "rank": one.rank, "evidence": one.said, "source": one.source}
        for one in found.probed
    ],
}))
"""


def split(log: str) -> tuple[Box, str] | None:
    """Return (box, path on it) of HOST:PATH, None for a path here. A file here always wins.

    Raises Unreadable where HOST can't be a box.
    """
    if "\0" in log or os.path.lexists(log):
        return None
    pasted = _PASTED.match(log)
    brackets = _BRACKETS.match(log)
    plain = _REMOTE.match(log)
    if pasted:
        host, path = pasted.groups()
    elif brackets:
        host, path = f"{brackets[1] or ''}{brackets[2]}", brackets[3]
    elif plain:
        host, path = plain.groups()
    else:
        return None
    try:
        return boxes.parse(host), path
    except BadBox as error:
        raise Unreadable(f"no log of that name here, and as HOST:PATH {error}") from None


def from_path(
    log: str,
    reader: ModuleType,
    needles: tuple[bytes, ...] = (),
    progress: Callable[[int], None] | None = None,
    seconds: float = SECONDS,
) -> Evidence:
    """Return the evidence in a file or folder, here or on a box.

    `reader` is the module whose `from_path` reads it, in either place. `needles` and `progress`
    are passed on to it. Raises Unreadable, also when the box doesn't answer within `seconds`.
    """
    remote = split(log)
    if remote is None:
        return reader.from_path(log, needles, progress, seconds)
    box, path = remote
    name = shown(box.name, 80)
    reply = boxes.run(
        box,
        program(reader, path, needles),
        interpreter=boxes.PYTHON,
        limit=seconds,
        most=MOST + (1 << 20),
    )
    if reply.outcome == "overtime":
        raise Unreadable(
            f"{shown(path, 120)} on {name} was not read within {seconds:g} s; pass one rank's file "
            "instead of the folder, or use the command line, which waits longer"
        )
    if reply.outcome != "ok":
        raise Unreadable(reply.text)
    if reply.code == 127:
        raise Unreadable(f"no python3 on {name}; install 3.8 or later, or copy the log here")
    if reply.code != 0 or reply.cut:
        last = next(
            iter(shown_lines(reply.errors, 1, 160)),
            "its answer is too long" if reply.cut else "no message",
        )
        raise Unreadable(
            f"the reader on {name} ended with {reply.code} ({last}); copy the log here"
        )
    return findings(reply.out, name)


def findings(reply: bytes, name: str) -> Evidence:
    """Return a box's reply as evidence. Raises Unreadable.

    Whatever the box says, types are checked, and texts cleaned, masked and cut. `failures` stays
    empty, because no caller needs them.
    """
    try:
        told = json.loads(reply)
        if "unreadable" in told:
            raise Unreadable(f"on {name}: {shown(told['unreadable'], 400)}")
        watch = Watch([str(row[3])[:MAX_LINE] for row in told["lines"][:MOST_LINES]])
        lines = [_line(row, watch) for row in told["lines"][:MOST_LINES]]

        def pointed(value) -> Line:
            return (
                lines[value]
                if isinstance(value, int) and 0 <= value < len(lines)
                else _line(value, watch)
            )

        ranks = tuple(
            rank
            for rank in told["ranks"][:MOST_RANKS]
            if isinstance(rank, int) and 0 <= rank < 10**6
        )
        first = None if told["first"] is None else pointed(told["first"])
        decisive = [pointed(value) for value in told["decisive"][:12]]
        said = [shown(told.get(name, ""), 300) for name in ("left_out", "numbers")]
        return Evidence(
            lines,
            [],
            decisive,
            first,
            ranks,
            told["is_log"] is True,
            *said,
            shown(told.get("seen", ""), 20),
            shown(told.get("victims", ""), 300),
            _probed(told.get("probed", [])),
        )
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError):
        raise Unreadable(f"the answer from {name} can't be read; copy the log here") from None


def _probed(told: list) -> tuple[Probed, ...]:
    found = [Probed.of(one, shown(one["source"], 200)) for one in told[:MOST_PROBED]]
    return tuple(one for one in found if one is not None)


def _line(row: list, watch: Watch) -> Line:
    source, number, rank, text, kind, time = row
    text = mask(str(text)[:MAX_LINE])
    if not text.isprintable():
        text = "".join(c if c.isprintable() or c == "\t" else " " for c in text)
    ranked = rank if isinstance(rank, int) and 0 <= rank < 10**6 else None
    return Line(
        shown(source, 200),
        int(number) if abs(int(number)) < 10**12 else 0,
        ranked,
        text,
        kind if kind in KINDS else "plain",
        shown(time, 40),
        watch.signs_of(text, ranked is not None),
    )


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
    if _file_of(base).name != "__init__.py":
        return [base]
    inside = [f"{base}.{alias.name}" for alias in node.names]
    return [name if _file_of(name).is_file() else base for name in inside]


def _file_of(module: str) -> Path:
    """The file of a module, or of a package what it holds itself."""
    place = HERE.joinpath(*module.split(".")[1:])
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


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
                base64.b85encode(zlib.compress(json.dumps(shipped).encode(), 9)).decode(),
                log,
                [needle.decode("utf-8", "replace") for needle in needles],
                MOST,
            )
        ),
        1,
    )
