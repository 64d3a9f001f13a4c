"""Tell an error of the user's own program, whose message says all, from a failure to look up.

Python 3.8.
"""

from __future__ import annotations

import re

from .ends import end_in
from .evidence import Evidence
from .kinds import EXCEPTION, FRAME
from .lines import Line
from .runs_in_file import class_of

# Files that the user didn't write: packages, the standard library, code without a file.
_FOREIGN = re.compile(
    r"(?:^|[/\\])(?:site|dist)-packages[/\\]|[/\\][Ll]ib[/\\](?:python\d|\w+\.py$)|^<|torch[/\\]csrc"
    r"|[/\\]bin[/\\]\w+$"
)
_MEANINGS = {
    "FileNotFoundError": "it opened a path that isn't there",
    "NotADirectoryError": "it took a file for a folder",
    "IsADirectoryError": "it took a folder for a file",
    "FileExistsError": "it made a file or folder that is there already",
    "PermissionError": "it may not open that path",
    "ModuleNotFoundError": "it imports a module that isn't installed or isn't on Python's path",
    "ImportError": "it imports a name that isn't there",
    "NameError": "it uses a name that was never set",
    "UnboundLocalError": "it uses a name before it is set",
    "SyntaxError": "Python can't read the program",
    "IndentationError": "Python can't read the program",
    "TabError": "Python can't read the program",
    "ZeroDivisionError": "it divides by zero",
    "KeyError": "it asks a mapping for a key that isn't in it",
    "IndexError": "it asks for a place beyond the end",
    "AttributeError": "it asks an object for what that doesn't have",
    "AssertionError": "a check of its own failed",
    "NotImplementedError": "it calls what nobody wrote",
}


# Of these the text says all, whatever the program is about.
_SAY_ALL = frozenset((
    "FileNotFoundError", "NotADirectoryError", "IsADirectoryError", "FileExistsError", "NameError",
    "UnboundLocalError", "SyntaxError", "IndentationError", "TabError", "ZeroDivisionError",
))  # fmt: skip


# Of these the message says what is wrong wherever they were raised.
_SAY_MUCH = frozenset((
    *_SAY_ALL, "TypeError", "ValueError", "KeyError", "IndexError", "AttributeError",
    "AssertionError", "NotImplementedError", "UnicodeDecodeError", "JSONDecodeError",
    "RecursionError", "PermissionError",
))  # fmt: skip
_FILE = re.compile(r"[\w.-]{1,60}$")


def own_error(evidence: Evidence) -> tuple[str, bool]:
    """Return a sentence on an error of the user's own program, "" for any other.

    Beside it stands whether the error's own text says all that an entry could. The exception is the
    one that failed first, and its innermost frame decides: a library's frame below the user's means
    that the cause may be anywhere, unless the exception is of a kind that says what is wrong.
    """
    first = evidence.first
    if first is None:
        return "", False
    end = end_in(first)
    if end and end[0].own:
        return f"{end[0].said(end[1])} (line {first.number}).", True
    if first.kind != EXCEPTION:
        return "", False
    kind = class_of(first)
    frames = [frame.sign("frame") for frame in _frames_of(first, evidence)]
    own = [frame for frame in frames if frame and not _FOREIGN.search(frame[0])]
    is_innermost = bool(own) and own[-1] is frames[-1]
    if not own or not (is_innermost or kind in _SAY_MUCH):
        return "", False
    meaning = _MEANINGS.get(kind, "its message says what is wrong") if is_innermost else ""
    file = re.split(r"[/\\]", own[-1][0])[-1]
    file = file if _FILE.match(file) else "a file"  # a name may hold no sentence
    what = f"`{kind}`" if kind else "an exception of its own"
    where = "in" if is_innermost else "at a call from"
    sentence = (
        f"The program stopped {where} its own file, {file} line {own[-1][1]}, with {what}"
        f" (line {first.number}){': ' if meaning else ''}{meaning}."
    )
    return sentence, is_innermost and kind in _SAY_ALL


def _frames_of(first: Line, evidence: Evidence) -> list[Line]:
    """The frames of the traceback that ends in a line, outermost first."""
    for failure in evidence.failures:
        if (failure.line.source, failure.line.number) == (first.source, first.number):
            return [
                frame for frame in failure.frames if frame.kind == FRAME and frame.says("frame")
            ]
    return []
