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
from functools import lru_cache
from pathlib import Path

from ..boxes import box as boxes
from ..boxes.box import BadBox, Box
from ..text.masking import shown, shown_lines
from . import reading, reply
from .evidence import Evidence
from .files import DEFAULTS, ReadOptions, Unreadable

HERE = Path(__file__).resolve().parent.parent
PACKAGE = __name__.partition(".")[0]
MOST = 3_000_000  # bytes of lines that come back
SECONDS = 40  # an MCP client waits for a minute
# A host of at least two characters (C:\ is a drive), and a path that begins neither with a blank
# (that is a message) nor with // (that is an address).
_REMOTE = re.compile(r"([^\s/\\:\[\]]{2,}(?::\d{1,5})?):((?!//)\S.*)\Z", re.S)
_BRACKETS = re.compile(r"([^\s/\\:\[\]]+@)?\[([0-9A-Fa-f:.]+)\]:((?!//)\S.*)\Z", re.S)
_DATA = re.compile(r'(?<!def )\bdata_text\("([\w.]+)"\)')
_PASTED = re.compile(r"(ssh\s.+?):([/~].*)\Z", re.S)

_PROGRAM = r"""
import sys
if sys.version_info < (3, 8):
    print('{"unreadable": "Python %d.%d is too old; install 3.8 or later"}' % sys.version_info[:2])
    sys.exit()
import base64, importlib.abc, importlib.util, json, os, zlib
ROOM, PACKAGES, PACKED, LOG, NEEDLES, MOST, RUN = @VALUES@
SOURCES = json.loads(zlib.decompress(base64.b85decode(PACKED)))
class Bundle(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        if name in PACKAGES or name in SOURCES:
            return importlib.util.spec_from_loader(name, self, is_package=name in PACKAGES)
    def exec_module(self, module):
        exec(compile(SOURCES.get(module.__name__, ""), module.__name__, "exec"), module.__dict__)
sys.meta_path.insert(0, Bundle())
reading, reply = (__import__(ROOM + "." + name, fromlist=["*"]) for name in ("reading", "reply"))
try:
    needles = tuple(needle.encode() for needle in NEEDLES)
    options = reading.ReadOptions(needles=needles, run=RUN)
    packed = reply.pack(reading.from_path(os.path.expanduser(LOG), options), MOST)
except reading.Unreadable as error:
    packed = {"unreadable": str(error)}
print(json.dumps(packed))
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


def from_path(log: str, options: ReadOptions = DEFAULTS) -> Evidence:
    """Return the evidence in a file or folder, here or on a box, as `reading.from_path` does.

    Only the needles and the run of the options go to a box. Raises Unreadable, also when it doesn't
    answer within `options.seconds`, by default SECONDS.
    """
    remote = split(log)
    if remote is None:
        return reading.from_path(log, options)
    box, path = remote
    seconds = SECONDS if options.seconds is None else options.seconds
    answer = boxes.run(
        box,
        program(path, options.needles, options.run),
        interpreter=boxes.PYTHON,
        limit=seconds,
        most=MOST + (1 << 20),
    )
    name = shown(box.name, 80)
    _check(answer, name, path, seconds)
    return reply.unpack(answer.out, name)


def _check(answer: boxes.Reply, name: str, path: str, seconds: float) -> None:
    """Raise Unreadable unless the box ran the reader to its end."""
    if answer.outcome == "overtime":
        raise Unreadable(
            f"{shown(path, 120)} on {name} was not read within {seconds:g} s; pass one rank's file "
            "instead of the folder, or use the command line, which waits longer"
        )
    if answer.outcome != "ok":
        raise Unreadable(answer.text)
    if answer.code == 127:
        raise Unreadable(f"no python3 on {name}; install 3.8 or later, or copy the log here")
    if answer.code != 0 or answer.cut:
        last = next(
            iter(shown_lines(answer.errors, 1, 160)),
            "its answer is too long" if answer.cut else "no message",
        )
        raise Unreadable(
            f"the reader on {name} ended with {answer.code} ({last}); copy the log here"
        )


@lru_cache(maxsize=1)
def sources() -> dict[str, str]:
    """Return {module: source} of all that reads a log on a box.

    These are `reading` and `reply`, and what they import of this package, at any depth. Sources
    come without docstrings, comments and most of their indentation; every line keeps its number.
    """
    shipped: dict[str, str] = {}
    waiting = [reading.__name__, reply.__name__]
    while waiting:
        name = waiting.pop()
        if name in shipped:
            continue
        text = _with_data(_file_of(name))
        tree = ast.parse(text)
        shipped[name] = _shorter(_without_docstrings(text, tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.level:
                waiting += _imported(name, node)
    return dict(sorted(shipped.items()))


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


def _with_data(path: Path) -> str:
    """The source of a module, with the texts of data/ in place of the calls that read them."""
    return _DATA.sub(
        lambda call: repr((path.parent / "data" / call[1]).read_text(encoding="utf-8")),
        path.read_text(encoding="utf-8"),
    )


def _without_docstrings(text: str, tree: ast.Module) -> str:
    """A source with an empty string in place of each docstring."""
    lines = text.split("\n")
    for node in ast.walk(tree):
        if (
            isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
            and ast.get_docstring(node) is not None
        ):
            said = node.body[0]
            end = said.end_lineno or said.lineno
            lines[said.lineno - 1 : end] = [
                " " * said.col_offset + '""',
                *[""] * (end - said.lineno),
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


def program(log: str, needles: tuple[bytes, ...] = (), run: int | None = None) -> str:
    """Return the text of a program that reads the path `log` and prints the evidence in it.

    Rows around each of the `needles` are kept. `run` is as in `ReadOptions`. The text is ASCII: on
    its way in, Python 3.8 may cut a longer character in two.
    """
    shipped = sources()
    packages = sorted({name.rpartition(".")[0] for name in shipped} | {PACKAGE})
    return _PROGRAM.replace(
        "@VALUES@",
        ascii(
            (
                __package__,
                packages,
                base64.b85encode(zlib.compress(json.dumps(shipped).encode(), 9)).decode(),
                log,
                [needle.decode("utf-8", "replace") for needle in needles],
                MOST,
                run,
            )
        ),
        1,
    )
