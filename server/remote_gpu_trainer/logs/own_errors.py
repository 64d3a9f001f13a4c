"""Tell an error of the user's own program, whose message says all, from a failure to look up.

Python 3.8.
"""

from __future__ import annotations

import re

from .ends import end_in
from .evidence import Evidence
from .kinds import EXCEPTION, FAILURE, FRAME
from .lines import Line
from .runs_in_file import class_of, is_progress

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


# Python's own words, whatever the class: AttributeError, TypeError, PicklingError.
_PICKLE = re.compile(r"(?:[Cc]an't|[Cc]annot) pickle |Can't get local object")
_SAVERS = re.compile(
    r"[/\\\\]torch[/\\\\]serialization\.py$|[/\\\\]copy\.py$"
)  # for whom the user pickles
PICKLED = "it pickles an object that holds what can't be pickled"


# Of these the message says what is wrong wherever they were raised.
_SAY_MUCH = frozenset((
    *_SAY_ALL, "TypeError", "ValueError", "KeyError", "IndexError", "AttributeError",
    "AssertionError", "NotImplementedError", "UnicodeDecodeError", "JSONDecodeError",
    "RecursionError", "PermissionError",
))  # fmt: skip
# Of what can't read a file of the user's: yaml.scanner.ScannerError, tomllib.TOMLDecodeError.
_READERS = ("ScannerError", "ParserError", "ParseError", "ParsingError", "DecodeError")
ELSEWHERE = (
    "The program ended with an error that isn't in this file; look into its standard error too"
)
# Exited with exit code 137.     exitcode: -9     Signal 11 (SIGSEGV) received by PID 4711
_SIGNALLED = re.compile(r"(?:code|status)\W{1,6}(?:-\d|1[2-9]\d)|[Ss]ignal|SIG")
LAST = 25  # lines of a file in which the place of a program that can't be read is looked for
_FILE = re.compile(r"[\w.-]{1,60}$")


def own_error(evidence: Evidence) -> tuple[str, bool]:
    """Return a sentence on an error of the user's own program, "" for any other.

    Beside it stands whether the error's own text says all that an entry could. The exception is the
    one that failed first, and its innermost frame decides: a library's frame below the user's means
    that the cause may be anywhere, unless the exception is of a kind that says what is wrong.
    """
    first = evidence.first
    if first is None:
        return _refused_program(evidence.lines)
    if evidence.failures and all(
        _tells_an_exit_alone(failure.line) for failure in evidence.failures
    ):
        return f"{ELSEWHERE} (line {first.number}).", False
    end = end_in(first)
    if end and end[0].own:
        says_all = end[0].name != "no program"  # of some programs an entry says how to get them
        return f"{end[0].said(end[1])} (line {first.number}).", says_all
    if first.kind != EXCEPTION:
        return "", False
    kind = class_of(first)
    signs = (line.sign("frame") for line in _frames_of(first, evidence))
    frames = [frame for frame in signs if frame]
    own = [frame for frame in frames if not _FOREIGN.search(frame[0])]
    is_innermost = bool(own) and own[-1] is frames[-1]
    if not own or not (is_innermost or kind in _SAY_MUCH or kind.endswith(_READERS)):
        return "", False
    pickled = _PICKLE.search(first.text) is not None and (
        is_innermost or _SAVERS.search(frames[-1][0]) is not None
    )
    meaning = _MEANINGS.get(kind, "its message says what is wrong") if is_innermost else ""
    meaning = PICKLED if pickled else meaning
    file = _name(own[-1][0])
    what = f"`{kind}`" if kind else "an exception of its own"
    where = "in" if is_innermost else "at a call from"
    sentence = (
        f"The program stopped {where} its own file, {file} line {own[-1][1]}, with {what}"
        f" (line {first.number}){': ' if meaning else ''}{meaning}."
    )
    return sentence, pickled or (is_innermost and kind in _SAY_ALL)


def _tells_an_exit_alone(line: Line) -> bool:
    """Whether a line says that a program ended with an error code, which is no signal's."""
    return (
        line.kind == FAILURE
        and line.says("exit", "exit code")
        and not line.says("killed", "crash", "memory kill", "cuda error", "watchdog")
        and not _SIGNALLED.search(line.text)
    )


def _refused_program(lines: list[Line]) -> tuple[str, bool]:
    """Tell that Python can't read a program whose error several processes wrote into one another.

    What is left to recognize is the place in the program: a frame without a function.
    """
    for line in reversed(lines[-LAST:]):
        if is_progress(line):
            break
        frame = line.sign("frame") if line.kind == FRAME else None
        if frame and frame[2] is None:
            return (
                f"Python can't read the program: {_name(frame[0])} line {frame[1]}"
                f" (line {line.number}).",
                True,
            )
    return "", False


def _name(path: str) -> str:
    """The name of a file, without its folders; it goes into a sentence, so it may hold no other."""
    file = re.split(r"[/\\]", path)[-1]
    return file if _FILE.match(file) else "a file"


def _frames_of(first: Line, evidence: Evidence) -> list[Line]:
    """The frames of the traceback that ends in a line, outermost first."""
    for failure in evidence.failures:
        if (failure.line.source, failure.line.number) == (first.source, first.number):
            return [
                frame for frame in failure.frames if frame.kind == FRAME and frame.says("frame")
            ]
    return []
