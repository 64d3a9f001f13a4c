"""A job from YAML, JSON, a plain object or options: all go through one model.

All of them fail with the same lines.
"""

from __future__ import annotations

import difflib
import re
import sys
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import ValidationError

from .cells import A_GRID, expand, read_queue
from .job import Job
from .job_errors import JobError, job_error
from .job_json import read_json
from .job_yaml import read_yaml
from .written import (
    MOST_DEPTH,
    MOST_TOGETHER,
    TOO_DEEP,
    Broken,
    FieldPath,
    Lines,
    Written,
    copied,
)

_LEAST = "name: sft, command: [python, train.py] and deadline: 20h"
_NEEDS = f"write fields such as {_LEAST}"


def from_object(given: Any) -> Job:
    """Return the job of a plain object. Raises JobError, whose text repeats no value of it."""
    if not isinstance(given, dict):
        raise JobError(_no_object(given, _NEEDS))
    if why := _unfit(given):
        raise JobError(why)
    try:
        return Job.model_validate(given)
    except ValidationError as error:
        raise job_error(error, given) from None


def from_file(path: Path, needs: str = _NEEDS) -> Written:
    """Return the object in a YAML or JSON file. Raises JobError. `needs`: what to write in one."""
    return from_text(text_of(path), str(path), path.suffix == ".json", needs)


def text_of(path: Path, what: str = "a YAML or JSON file with a job") -> str:
    """Return the text of a file. Raises JobError.

    `what`: the file that is wanted.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MOST_TOGETHER + 1)
            size = max(path.stat().st_size, len(data))
    except FileNotFoundError:
        near = _file_near(path)
        raise JobError(f"{path}: there is no such file; name {near or what}") from None
    except IsADirectoryError:
        raise JobError(f"{path}: this is a folder; name {what} in it") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "its name holds a NUL"
        raise JobError(f"{path}: it can't be read ({why}); name {what}") from None
    return _decoded(data, size, str(path), what)


def _decoded(data: bytes, size: int, name: str, what: str) -> str:
    """Return bytes as text. Raises JobError."""
    is_utf_16 = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    if b"\0" in data and not is_utf_16:
        raise JobError(f"{name}: this is a binary file; name {what}")
    if len(data) > MOST_TOGETHER:
        raise JobError(f"{name}: {_too_large(size)}")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        kind = "UTF-16" if is_utf_16 else "not UTF-8"
        line = data.count(b"\n", 0, error.start) + 1
        place = name if is_utf_16 else f"{name} line {line}"
        raise JobError(f"{place}: the text is {kind}; save the file as UTF-8") from None


def _file_near(path: Path) -> str:
    """Return the file beside a missing one whose name is most like it, '' for none."""
    try:
        names = [found.name for found in path.parent.iterdir() if found.is_file()][:1000]
    except OSError:
        return ""
    near = difflib.get_close_matches(path.name, names, 1, 0.7)
    return str(path.parent / near[0]) if near else ""


def from_stream(stream: BinaryIO, name: str) -> Written:
    """Return the object in what a stream holds, which may be YAML or JSON. Raises JobError."""
    data = stream.read(MOST_TOGETHER + 1)
    return from_text(_decoded(data, len(data), name, "a YAML or JSON text of a job"), name)


def from_text(text: str, name: str, is_json: bool | None = None, needs: str = _NEEDS) -> Written:
    """Return the object in a text. Raises JobError.

    `name`: of where it comes from. `is_json`: None for a text that may be either; it is read as
    JSON where it begins like it.
    """
    is_json = text.lstrip()[:1] == "{" if is_json is None else is_json
    if (size := len(text.encode("utf-8", "replace"))) > MOST_TOGETHER:
        raise JobError(f"{name}: {_too_large(size)}")
    if not text.strip():
        raise JobError(f"{name}: {_no_object(None, needs)}")
    try:
        given, lines = read_json(text) if is_json else read_yaml(text)
    except Broken as error:
        column = f", column {error.column}" if error.column else ""
        raise JobError(f"{name} line {error.line}{column}: {error}") from None
    if not isinstance(given, dict):
        if isinstance(given, str) and re.match(r"\s*[a-z_]+:\S", text):
            raise JobError(f"{name}: a blank is missing behind ':'; {needs}")
        raise JobError(f"{name}: {_no_object(given, needs)}")
    return Written(given, [((), Lines(name, lines, "json" if is_json else "yaml"))])


def _no_object(given: object, needs: str) -> str:
    if given is None:
        return f"this is empty; {needs}"
    kinds = {
        list: "a list",
        tuple: "a list",
        str: "a text",
        bool: "true or false",
    }
    kind = next((words for kind, words in kinds.items() if isinstance(given, kind)), "a number")
    return f"this is {kind}, and must be an object with fields; {needs}"


def _unfit(given: dict) -> str:
    """Return why an object is too large, too deep or holds itself, '' for none of it.

    What a model would take seconds to read is refused at once.
    """
    size = 0
    todo: list[tuple[Any, int]] = [(given, 0)]
    while todo:
        value, depth = todo.pop()
        if depth > MOST_DEPTH:
            return TOO_DEEP
        if isinstance(value, dict):
            todo += [(part, depth + 1) for pair in value.items() for part in pair]
        elif isinstance(value, (list, tuple)):
            todo += [(part, depth + 1) for part in value]
        size += len(value) + 2 if isinstance(value, str) else 1
        if size + len(todo) > MOST_TOGETHER:
            return _too_large(size + len(todo))
    return ""


def _too_large(size: int) -> str:
    return (
        f"a job of {size:,} bytes or more is over {MOST_TOGETHER:,}; put long values into files of "
        "the code"
    )


def with_options(given: dict, options: list[str]) -> Written:
    """Return the object with `field=value` options on top. Raises JobError.

    `checkpoint.folder=out` reaches inside; a value is read as YAML.
    """
    by_option = Lines("--set", {}, "option")
    sources = given.sources if isinstance(given, Written) else [((), by_option)]
    changed = Written(copied(given), sources)
    for option in options:
        path, mark, text = option.partition("=")
        if not mark or not all(path.split(".")):
            raise JobError(
                f"--set {option[:60]!r} isn't FIELD=VALUE; write one such as --set deadline=20h or "
                "--set checkpoint.folder=out"
            )
        place: dict = changed
        *above, last = path.split(".")
        for at, name in enumerate(above, 1):
            inner = place.setdefault(name, {})
            if inner is None:
                inner = place[name] = {}
            if not isinstance(inner, dict):
                raise JobError(
                    f"--set {path}: {name} has no fields; write --set {'.'.join(above[:at])}=VALUE"
                )
            place = inner
        try:
            place[last], _ = read_yaml(text)
        except Broken:
            place[last] = text
        changed.sources.append((tuple(path.split(".")), by_option))
    return changed


def with_queue(given: dict, queue: Path | None, sweep: Path | None) -> Written:
    """Return the object with the cells of a queue or sweep file. Raises JobError."""
    changed = given if isinstance(given, Written) else Written(given)
    if queue is not None and sweep is not None:
        raise JobError("--queue and --sweep can't be combined; pass one of them")
    if queue is None and sweep is None:
        return changed
    before = changed.get("queue") or {}
    if not isinstance(before, dict):
        raise JobError("queue: is no object with fields; write queue: {slots: 2}, or leave it out")
    if queue is not None:
        name = str(queue)
        cells, firsts = read_queue(text_of(queue, "a text file with a cell a line"), name)
        lines: dict[FieldPath, int] = {(at,): line for at, line in enumerate(firsts)}
    else:
        assert sweep is not None
        name, lines = str(sweep), {}
        cells = expand(from_file(sweep, f"write {A_GRID}"))
    if "queue" not in changed:
        changed.sources.append((("queue",), Lines(name, {})))
    changed["queue"] = {**before, "cells": cells}
    changed.sources.append((("queue", "cells"), Lines(name, lines)))
    return changed


def read_job(
    job: str | None, fields: tuple[str, ...], queue: Path | None, sweep: Path | None
) -> dict[str, Any]:
    """The fields of a job in a file, or on standard input for '-', with the options on top.

    A relative `code` is a folder beside the file. Raises JobError.
    """
    if job == "-":
        given = from_stream(sys.stdin.buffer, "standard input")
    else:
        given = from_file(Path(job)) if job else {}
        code = given.get("code")
        if job and isinstance(code, str) and not code.startswith("~"):
            given["code"] = str(Path(job).parent / code)
    return with_queue(with_options(given, list(fields)), queue, sweep)


def read_job_with_code(
    job: str,
    fields: tuple[str, ...] = (),
    queue: Path | None = None,
    sweep: Path | None = None,
) -> dict[str, Any]:
    """As `read_job`, for a job whose code is sent: by default the folder of its file."""
    given = read_job(job, fields, queue, sweep)
    if not given.get("code") and job != "-":
        given["code"] = str(Path(job).parent)
    return given
