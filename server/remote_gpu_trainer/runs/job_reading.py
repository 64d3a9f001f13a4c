"""A job from YAML, JSON, a plain object or options: all go through one model.

All of them fail with the same lines.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ..text import UserError
from .cells import CellError, expand, read_queue
from .job import MOST_TOGETHER, Job

MOST_FILE = 2_000_000  # bytes
MOST_DEPTH = 30  # lists and objects within each other
_TOO_DEEP = "brackets lie too deep in each other, or a part holds itself; write it without anchors"
# A value of each field that every job needs, for who left it out.
EXAMPLES = {"name": "sft", "command": "[python, train.py]", "deadline": "20h"}
# The line to write for a field of another kind than it was given.
LINES = {
    "command": "command: [python, train.py]",
    "checkpoint": "checkpoint: {folder: out}",
    "durable": "durable: {to: /mnt/keep/sft, what: [out]}",
    "at_end": "at_end: {do: stop}",
    "stall": "stall: {log_minutes: 30}",
    "floors": "floors: {free_gb: 5}",
    "rehearsal": "rehearsal: {arguments: [--max-steps, '20']}",
    "queue": "queue: {cells: [{name: a, arguments: [--lr, 1e-4]}]}",
    "container": "container: {engine: apptainer, image: torch.sif}",
    "slurm": "slurm: {partition: gpu}",
    "kubernetes": "kubernetes: {image: pytorch/pytorch}",
    "skypilot": "skypilot: {accelerator: H100}",
    "variables": "variables: {NAME: value}",
    "secrets": "secrets: {HF_TOKEN: {file: ~/.hf_token}}",
    "retries": "retries: {network: 5}",
    "data": "data: [{from: ~/data, to: data}]",
    "notify": "notify: [python3, tell.py]",
    "results": "results: [out/final.pt]",
    "setup": "setup: [module load cuda]",
    "gpus": "gpus: 1",
    "resume": "resume: {flag: --resume}",
}
# What other tools call a field of the job itself.
CALLED_ELSEWHERE = {
    **dict.fromkeys(
        ("env", "envs", "env_vars", "environ", "environment_variables", "vars"), "variables"
    ),
    **dict.fromkeys(("cmd", "run", "entrypoint"), "command"),
    **dict.fromkeys(("timeout", "time_limit", "walltime"), "deadline"),
    "workdir": "code",
    "requirements": "environment",
}
_NEEDS = "write an object with name, command and deadline"


class JobError(UserError):
    """A job that can't run as it is written. Each line: the field, what is wrong, what to do."""


class _Loader(yaml.SafeLoader):
    """Safe YAML in which 18:00 and 1:30:00 are texts; YAML 1.1 has them as the number 1080."""


def _number(loader: _Loader, node: yaml.ScalarNode) -> object:
    if ":" in node.value:
        return node.value
    is_whole = node.tag.endswith(":int")
    return loader.construct_yaml_int(node) if is_whole else loader.construct_yaml_float(node)


def _mapping(loader: _Loader, node: yaml.MappingNode) -> Iterator[dict]:
    seen = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and key.value != "<<":
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key.value[:60]!r} stands there twice", key.start_mark
                )
            seen.add(key.value)
    return loader.construct_yaml_map(node)


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
_Loader.add_constructor("tag:yaml.org,2002:int", _number)
_Loader.add_constructor("tag:yaml.org,2002:float", _number)


def from_object(given: Any) -> Job:
    """Return the job of a plain object. Raises JobError, whose text repeats no value of it."""
    if not isinstance(given, dict):
        raise JobError(f"this is {_kind(given)}, not a job; {_NEEDS}")
    if why := _unfit(given):
        raise JobError(why)
    try:
        return Job.model_validate(given)
    except ValidationError as error:
        faults = error.errors(include_input=False, include_url=False)
        lines = dict.fromkeys(_line(fault) for fault in faults)
        raise JobError("\n".join(lines)) from None


def from_file(path: Path) -> dict:
    """Return the object in a YAML or JSON file. Raises JobError."""
    try:
        if (size := path.stat().st_size) > MOST_FILE:
            raise JobError(
                f"{path}: {size:,} bytes, over the limit of {MOST_FILE:,}; pass a file with a job"
            )
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise JobError(f"{path}: {_unread(error)}; pass a YAML or JSON file with a job") from None
    return from_text(text, str(path), path.suffix == ".json")


def from_text(text: str, name: str, is_json: bool | None = None) -> dict:
    """Return the object in a text. Raises JobError.

    `name`: of where it comes from. `is_json`: None for a text that may be either; it is read as
    JSON where it begins like it.
    """
    is_json = text.lstrip()[:1] == "{" if is_json is None else is_json
    if (size := len(text.encode("utf-8", "replace"))) > MOST_TOGETHER:
        raise JobError(f"{name}: {_too_large(size)}")
    try:
        if is_json:
            given = json.loads(text, object_pairs_hook=_object)
        else:
            given = yaml.load(text, _Loader)
    except RecursionError:
        raise JobError(f"{name}: {_TOO_DEEP}") from None
    except (ValueError, yaml.YAMLError) as error:
        raise JobError(
            f"{name}: {_where(error)}; make it valid {'JSON' if is_json else 'YAML'}"
        ) from None
    if not isinstance(given, dict):
        raise JobError(f"{name}: this is {_kind(given)}, not a job; {_NEEDS}")
    if why := _unfit(given):
        raise JobError(f"{name}: {why}")
    return given


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    given = dict(pairs)
    if len(given) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice[:60]!r} stands there twice")
    return given


def _unfit(given: dict) -> str:
    """Return why an object is too large, too deep or holds itself, '' for none of it.

    What a model would take seconds to read is refused at once.
    """
    size = 0
    todo: list[tuple[Any, int]] = [(given, 0)]
    while todo:
        value, depth = todo.pop()
        if depth > MOST_DEPTH:
            return _TOO_DEEP
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


def with_options(given: dict, options: list[str]) -> dict:
    """Return the object with `field=value` options on top. Raises JobError.

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
            place[last] = yaml.load(text, _Loader)
        except (ValueError, yaml.YAMLError):
            place[last] = text
    return given


def with_queue(given: dict, queue: Path | None, sweep: Path | None) -> dict:
    """Return the object with the cells of a queue or sweep file. Raises JobError."""
    if queue is not None and sweep is not None:
        raise JobError("--queue and --sweep can't be combined; pass one of them")
    try:
        if queue is not None:
            cells = read_queue(queue.read_text(encoding="utf-8"), str(queue))
        elif sweep is not None:
            cells = expand(from_file(sweep), str(sweep))
        else:
            return given
    except (OSError, UnicodeDecodeError) as error:
        raise JobError(f"{queue or sweep}: {_unread(error)}; pass a text file") from None
    except CellError as error:
        raise JobError(str(error)) from None
    return {**given, "queue": {**(given.get("queue") or {}), "cells": cells}}


# pydantic's kinds of faults, as what is wanted.
_WANTED = {
    **dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), "an object with fields"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    "list_type": "a list",
    "literal_error": "{}",
    "greater_than": "over {}",
    "greater_than_equal": "{} or more",
    "less_than": "under {}",
    "less_than_equal": "{} or less",
}


def _line(fault: ErrorDetails) -> str:
    """Return the path of a field and what is wrong with it.

    Names of the model's variants, such as `function-after[…]`, are left out of the path.
    """
    where = ".".join(
        str(part)
        for part in fault["loc"]
        if not isinstance(part, str) or part.isidentifier() or "-" not in part
    )
    kind, message = fault["type"], fault["msg"].removeprefix("Value error, ")
    if where == "command" and kind in ("string_type", "list_type"):
        return f"command: must be a list of arguments or one line; write {LINES['command']}"
    if kind == "missing":
        example = EXAMPLES.get(where)
        return f"{where}: missing; give it a value" + (f", such as {example}" if example else "")
    if kind == "string_type" and where == "environment":
        message = "must be the name of a file with packages; variables sets those of the program"
    elif kind == "string_type":
        message = "must be a text; put it into quotes"
    wanted = _WANTED.get(kind)
    if wanted:
        limit = next(iter((fault.get("ctx") or {}).values()), "")
        message = f"must be {wanted.format(limit)}"
        line = LINES.get(where) or LINES.get(where.partition(".")[0])
        message += f"; write for example {line}" if line else "; change it, or leave it out"
    if kind == "string_pattern_mismatch" and where == "name":
        message = "must be 1 to 50 of a-z, 0-9 and '-', with '-' neither first nor last"
    if kind == "extra_forbidden":
        near = difflib.get_close_matches(where.rpartition(".")[2], _fields(), 1)
        if meant := CALLED_ELSEWHERE.get(where.lower(), next(iter(near), "")):
            return f"{where}: unknown field; did you mean {meant}?"
        return f"{where}: unknown field; rgt render --schema lists the fields (schema://job in MCP)"
    if not where and "UnicodeEncodeError" in message:
        message = "a text has half a character (a lone surrogate); write it again"
    return f"{where or 'job'}: {message}"


@lru_cache(maxsize=1)
def _fields() -> list[str]:
    """Return the names of all fields of a job and its parts."""
    schema = Job.model_json_schema()
    parts = [schema, *schema["$defs"].values()]
    return sorted({name for part in parts for name in part.get("properties", {})})


def _kind(given: object) -> str:
    return {dict: "an object", list: "a list", str: "a text", type(None): "empty"}.get(
        type(given), f"of type {type(given).__name__}"
    )


def _unread(error: OSError | UnicodeDecodeError) -> str:
    return getattr(error, "strerror", None) or "not UTF-8 text"


def _where(error: Exception) -> str:
    """Return what a parser says, in one line, with the place in the file."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return str(error).splitlines()[0]
    problem = getattr(error, "problem", None) or getattr(error, "context", None) or "invalid"
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}"
