"""A job from YAML, JSON, a plain object or command-line options. All of them go through one model, and fail with the same lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from ..text.errors import UserError
from .cells import CellError, expand, read_queue
from .job import Job

MOST_FILE = 2_000_000


class JobError(UserError):
    """A job that can't be run as it is written. One line a fault: the field, what was found, what was expected."""


def from_object(given: Any) -> Job:
    """The job of a plain object. Raises JobError; no value of it is repeated in the message."""
    if not isinstance(given, dict):
        raise JobError(
            f"found {type(given).__name__}, expected an object with name, command and deadline"
        )
    try:
        return Job.model_validate(given)
    except ValidationError as error:
        raise JobError(
            "\n".join(
                _line(fault) for fault in error.errors(include_input=False, include_url=False)
            )
        ) from None


def from_file(path: Path) -> dict:
    """The object in a YAML or JSON file. Raises JobError."""
    try:
        if path.stat().st_size > MOST_FILE:
            raise JobError(
                f"{path}: found {path.stat().st_size:,} bytes, expected at most {MOST_FILE:,}"
            )
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise JobError(
            f"{path}: {getattr(error, 'strerror', None) or 'found bytes that are not UTF-8'}, expected a YAML or JSON file with a job"
        ) from None
    try:
        given = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError) as error:
        raise JobError(f"{path}: {str(error).splitlines()[0]}, expected YAML or JSON") from None
    if not isinstance(given, dict):
        raise JobError(
            f"{path}: found {type(given).__name__}, expected an object with name, command and deadline"
        )
    return given


def with_options(given: dict, options: list[str]) -> dict:
    """The object with `field=value` options on top; `checkpoint.folder=out` reaches inside, a value is read as YAML. Raises JobError."""
    given = json.loads(json.dumps(given, default=str))
    for option in options:
        path, mark, text = option.partition("=")
        if not mark or not path:
            raise JobError(
                f"found --set {option[:60]!r}, expected FIELD=VALUE, such as deadline=20h or checkpoint.folder=out"
            )
        place = given
        *above, last = path.split(".")
        for name in above:
            place = place.setdefault(name, {})
            if not isinstance(place, dict):
                raise JobError(
                    f"--set {path}: found a value at {name}, expected an object to reach into"
                )
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
        raise JobError("found --queue and --sweep, expected one of them")
    try:
        if queue is not None:
            cells = read_queue(queue.read_text(encoding="utf-8"), str(queue))
        else:
            cells = expand(from_file(sweep), str(sweep))
    except (OSError, UnicodeDecodeError) as error:
        raise JobError(
            f"{queue or sweep}: {getattr(error, 'strerror', None) or 'found bytes that are not UTF-8'}, expected a text file"
        ) from None
    except CellError as error:
        raise JobError(str(error)) from None
    return {**given, "queue": {**(given.get("queue") or {}), "cells": cells}}


def _line(fault: dict) -> str:
    where = (
        ".".join(
            str(part)
            for part in fault["loc"]
            if not isinstance(part, str) or part.isidentifier() or "-" not in part
        )
        or "job"
    )
    kind = fault["type"]
    if kind == "missing":
        return f"{where}: found nothing, expected a value; it is needed"
    if kind == "extra_forbidden":
        return f"{where}: found a field that isn't known, expected one of the job's fields (schema://job, or remote-gpu-trainer render --schema)"
    return f"{where}: {fault['msg'].removeprefix('Value error, ')}"
