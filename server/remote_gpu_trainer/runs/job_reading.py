"""A job from YAML, JSON, a plain object or options: all go through one model.

All of them fail with the same lines.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from ..text import UserError
from .job import Job

MOST_FILE = 2_000_000  # bytes
_NEEDS = "write an object with name, command and deadline"


class JobError(UserError):
    """A job that can't run as it is written. Each line: the field, what is wrong, what to do."""


def from_object(given: Any) -> Job:
    """The job of a plain object. Raises JobError, whose text repeats no value of it."""
    if not isinstance(given, dict):
        raise JobError(f"this is {_kind(given)}, not a job; {_NEEDS}")
    try:
        return Job.model_validate(given)
    except ValidationError as error:
        faults = error.errors(include_input=False, include_url=False)
        raise JobError("\n".join(_line(fault) for fault in faults)) from None


def from_file(path: Path) -> dict:
    """The object in a YAML or JSON file. Raises JobError."""
    try:
        if (size := path.stat().st_size) > MOST_FILE:
            raise JobError(
                f"{path}: {size:,} bytes, over the limit of {MOST_FILE:,}; pass a file with a job"
            )
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise JobError(f"{path}: {_unread(error)}; pass a YAML or JSON file with a job") from None
    try:
        given = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError) as error:
        raise JobError(
            f"{path}: {_where(error)}; make it valid {'JSON' if path.suffix == '.json' else 'YAML'}"
        ) from None
    if not isinstance(given, dict):
        raise JobError(f"{path}: this is {_kind(given)}, not a job; {_NEEDS}")
    return given


def with_options(given: dict, options: list[str]) -> dict:
    """The object with `field=value` options on top. Raises JobError.

    `checkpoint.folder=out` reaches inside; a value is read as YAML.
    """
    given = json.loads(json.dumps(given, default=str))
    for option in options:
        path, mark, text = option.partition("=")
        if not mark or not path:
            raise JobError(
                f"--set {option[:60]!r} has no value; write FIELD=VALUE, such as deadline=20h or "
                "checkpoint.folder=out"
            )
        place = given
        *above, last = path.split(".")
        for name in above:
            place = place.setdefault(name, {})
            if not isinstance(place, dict):
                raise JobError(f"--set {path}: {name} has no fields; set {name} itself")
        try:
            place[last] = yaml.safe_load(text)
        except yaml.YAMLError:
            place[last] = text
    return given


def with_queue(given: dict, queue: Path | None, sweep: Path | None) -> dict:
    """The object with the cells of a queue file or of a sweep file. Raises JobError."""
    if queue is None and sweep is None:
        return given
    if queue is not None and sweep is not None:
        raise JobError("--queue and --sweep can't be combined; pass one of them")
    try:
        if queue is not None:
            cells = read_queue(queue.read_text(encoding="utf-8"), str(queue))
        else:
            cells = expand(from_file(sweep), str(sweep))
    except (OSError, UnicodeDecodeError) as error:
        raise JobError(f"{queue or sweep}: {_unread(error)}; pass a text file") from None
    except CellError as error:
        raise JobError(str(error)) from None
    return {**given, "queue": {**(given.get("queue") or {}), "cells": cells}}


def _line(fault: dict) -> str:
    """The field's path and what is wrong with it; names of the model's variants are left out."""
    where = ".".join(
        str(part)
        for part in fault["loc"]
        if not isinstance(part, str) or part.isidentifier() or "-" not in part
    )
    kind, said = fault["type"], fault["msg"].removeprefix("Value error, ")
    if kind == "missing":
        return f"{where}: missing; give it a value"
    if kind == "extra_forbidden":
        return f"{where}: unknown field; rgt render --schema lists the fields (schema://job in MCP)"
    if not where and "UnicodeEncodeError" in said:
        said = "a text has half a character (a lone surrogate); write it again"
    return f"{where or 'job'}: {said}"


def _kind(given: object) -> str:
    return {dict: "an object", list: "a list", str: "a text", type(None): "empty"}.get(
        type(given), f"of type {type(given).__name__}"
    )


def _unread(error: OSError | UnicodeDecodeError) -> str:
    return getattr(error, "strerror", None) or "not UTF-8 text"


def _where(error: Exception) -> str:
    """What a parser says, in one line, with the place in the file."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return str(error).splitlines()[0]
    problem = getattr(error, "problem", None) or getattr(error, "context", None) or "invalid"
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}"


MOST = 10_000
_ODD = re.compile(r"[^A-Za-z0-9._=+-]+")


class CellError(Exception):
    """A queue or sweep that can't be read. One line with file and line."""


def read_queue(text: str, where: str = "queue") -> list[dict]:
    """Cells of a queue file: `NAME ARGUMENT …` a line, quoted as in a shell but never run by one.

    A quoted argument may hold line breaks. Empty lines and # lines don't count. Raises CellError.
    """
    cells, begun, first = [], "", 0
    for number, line in enumerate(text.split("\n"), 1):
        if not begun and (not line.strip() or line.lstrip().startswith("#")):
            continue
        begun, first = (f"{begun}\n{line}", first) if begun else (line, number)
        try:
            name, *arguments = shlex.split(begun)
        except ValueError as error:
            if "closing quotation" in str(error):  # a quoted value may hold line breaks
                continue
            raise CellError(
                f"{where}:{first}: {error}; write NAME and arguments, quoted as in a shell"
            ) from None
        cells.append({"name": name, "arguments": arguments})
        begun = ""
    if begun:
        raise CellError(
            f"{where}:{first}: no closing quotation mark; "
            "write NAME and arguments, quoted as in a shell"
        )
    if not cells:
        raise CellError(f"{where}: no cells; write one per line: NAME ARGUMENT …")
    return cells


def expand(sweep: dict, where: str = "sweep") -> list[dict]:
    """Every combination of a sweep, in the order in which it is written.

    A sweep is {"grid": {"--lr": [1e-4, 3e-4], "--seed": [1, 2]}, "arguments": [...]}. A cell is
    named by its values: lr=0.0001_seed=1. Raises CellError.
    """
    grid = sweep.get("grid")
    if (
        not isinstance(grid, dict)
        or not grid
        or not all(isinstance(values, list) and values for values in grid.values())
    ):
        raise CellError(
            f"{where}: no valid `grid`; write an object with a list of values for each option"
        )
    if unknown := sorted(set(sweep) - {"grid", "arguments"}):
        raise CellError(f"{where}: unknown field {unknown[0]!r}; use only grid and arguments")
    always = [_text(value, where) for value in sweep.get("arguments", [])]
    cells, seen = [], {}
    for values in itertools.islice(itertools.product(*grid.values()), MOST + 1):
        texts = [_text(value, where) for value in values]
        pairs = list(zip(grid, texts, strict=True))
        name = "_".join(f"{_short(option)}={_short(text)}" for option, text in pairs)
        name = name[:90].strip("._-=+") or "cell"
        seen[name] = seen.get(name, 0) + 1
        if seen[name] > 1:
            name = f"{name}-{seen[name]}"
        given = [word for option, text in pairs for word in (str(option), text)]
        cells.append({"name": name, "arguments": [*always, *given]})
    if len(cells) > MOST:
        raise CellError(f"{where}: more than {MOST:,} combinations; give fewer values")
    return cells


def _text(value: object, where: str) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise CellError(
            f"{where}: {value!r:.40} is neither text nor a number; write true and false in quotes"
        )
    return str(value)


def _short(text: str) -> str:
    return _ODD.sub("-", str(text)).strip("-.=+") or "x"


MOST_DIFFERENCE = 60_000  # bytes that travel in the script
MOST_NAMES = 400  # of ignored files


# Folders of a whole machine: sent in full they would carry its keys along.
_NOBODYS_CODE = frozenset(
    f"/{name}"
    for name in (
        "bin", "boot", "dev", "etc", "home", "lib", "lib64", "media", "mnt", "opt", "proc",
        "root", "run", "sbin", "srv", "sys", "tmp", "usr", "var", "Users", "Volumes",
    )
)  # fmt: skip


class CodeError(Exception):
    """A folder that can't be recorded. One line: what is wrong; what to do."""


@dataclass(frozen=True)
class Snapshot:
    """What git says about a code folder.

    `commit`: id, date and subject, or why there is none. `difference`: `git diff HEAD`, cut at
    MOST_DIFFERENCE. `ignored`: names, one a line; these aren't sent. `tracked`: git knows it.
    """

    commit: str
    difference: str
    ignored: str
    tracked: bool


def take(folder: Path) -> Snapshot:
    """The state of a code folder. Raises CodeError."""
    if not folder.is_dir():
        raise CodeError(f"code: no folder at {str(folder)[:100]}; name the folder with the program")
    whole, home = folder.resolve(), Path(os.path.expanduser("~")).resolve()
    if whole == Path(whole.anchor) or whole in (home, *home.parents) or str(whole) in _NOBODYS_CODE:
        raise CodeError(
            f"code: {str(folder)[:100]} is a root, the system's or your home folder, and all of it "
            "would be sent; name the folder with the program"
        )
    if _git(folder, "rev-parse", "--is-inside-work-tree").strip() != "true":
        return Snapshot(
            "no git repository: the files were sent as they were\n", "", "", tracked=False
        )
    commit = _git(folder, "log", "-1", "--format=%H %cI %s") or "no commit yet\n"
    difference = _git(folder, "diff", "HEAD", "--", ".") if not commit.startswith("no ") else ""
    size = len(difference.encode())
    if size > MOST_DIFFERENCE:  # only its record is cut: the files are sent whole
        whole = hashlib.sha256(difference.encode()).hexdigest()
        difference = (
            difference.encode()[:MOST_DIFFERENCE].decode(errors="ignore")
            + f"\n… cut here: {size:,} bytes in all, sha256 {whole}\n"
        )
    ignored = _git(
        folder, "ls-files", "--others", "--ignored", "--exclude-standard", "--directory"
    ).splitlines()
    told = ignored[:MOST_NAMES] + (
        [f"… and {len(ignored) - MOST_NAMES} more"] if len(ignored) > MOST_NAMES else []
    )
    return Snapshot(commit, difference, "".join(f"{name}\n" for name in told), tracked=True)


def _git(folder: Path, *arguments: str) -> str:
    """The output of a git command that only reads; '' when it fails or git is missing."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), "-c", "core.quotepath=off", *arguments],
            capture_output=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace").replace("\0", "") if done.returncode == 0 else ""
