"""`fit` for a model of the user's own: FILE.py:NAME runs in a process of its own, to be counted."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from ..boxes.calls import kill_group
from ..fit import trace_module
from ..fit.traced_model import TracedModel, traced_model
from ..fit.training_run import Run
from ..text import BadRequest
from ..text.masking import shown

SECONDS = 300.0  # that a model may take to be built and run
MOST_SIDE, MOST_SIDES, MOST_INPUTS = 10**8, 8, 16
_NAMED = re.compile(r"(.+\.py):([A-Za-z_]\w*)")
_SHAPE = re.compile(r"(?:(int|float):)?(\d{1,9}(?:x\d{1,9})*)")


def named(text: str) -> tuple[str, str] | None:
    """The file and the name of FILE.py:NAME, None for anything else."""
    match = _NAMED.fullmatch(text)
    return (match[1], match[2]) if match else None


def counted(
    file: str, name: str, args: str | None, inputs: tuple[str, ...], run: Run, python: str
) -> TracedModel:
    """Build the model with the user's Python, and run it where `inputs` say on what.

    Raises BadRequest.
    """
    place = Path(file).expanduser()
    if not place.is_file():
        raise BadRequest(f"can't read {file[:200]!r}: no such file; give FILE.py:NAME")
    request = {
        "file": str(place),
        "name": name,
        "args": _arguments(args),
        "inputs": [_sample(text) for text in inputs[:MOST_INPUTS]],
        "batch": run.batch,
        "precision": run.precision,
        "attention": run.attention,
        "lora": run.lora,
        "checkpointing": run.checkpointing,
    }
    return traced_model(_asked(python or shutil.which("python3") or sys.executable, request))


def _arguments(text: str | None) -> dict[str, Any]:
    """The arguments of the class or function. Raises BadRequest."""
    try:
        found = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise BadRequest("--model-args is no object of JSON; write it as '{\"width\": 512}'")
    return found


def _sample(text: str) -> dict[str, Any]:
    """The kind and sides of one input without the batch, such as 3x224x224 or int:512."""
    match = _SHAPE.fullmatch(text)
    sides = [int(side) for side in match[2].split("x")] if match else []
    if not match or len(sides) > MOST_SIDES or not all(0 < side <= MOST_SIDE for side in sides):
        raise BadRequest(
            f"can't read --input {text[:40]!r}; give the sides of one sample, such as 3x224x224, "
            "or int:512 for 512 words"
        )
    return {"kind": match[1] or "float", "sides": sides}


def _asked(python: str, request: dict[str, Any]) -> dict[str, Any]:
    """The answer of trace_module.py. Raises BadRequest."""
    words = [python, trace_module.__file__, json.dumps(request)]
    # The user's code shall find no GPU: what it would take of one isn't its to take here.
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        child = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "no file has such a name"
        raise BadRequest(f"can't start {shown(python, 200)!r}: {why}; pass --python") from None
    try:
        out, err = child.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise BadRequest(
            f"{request['name']} took more than {SECONDS:.0f} s to be counted; give it fewer layers "
            "with --model-args"
        ) from None
    finally:
        _end(child)
    return _answer(out, err)


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the process, and what it started."""
    kill_group(child)
    child.wait()


def _answer(out: bytes, err: bytes) -> dict[str, Any]:
    """The object that the program printed. Raises BadRequest where it failed."""
    try:
        answer = json.loads(out)
    except ValueError:
        lines = err.decode("utf-8", "replace").strip().splitlines()
        last = shown(lines[-1], 200) if lines else "it said nothing"
        raise BadRequest(
            f"the model's process ended without an answer: {last}; try it with --python PATH"
        ) from None
    if why := answer.get("error"):
        do = "correct the file or --model-args"
        if "No module named" in why:
            do = "pass the Python of your environment with --python PATH"
        raise BadRequest(f"{shown(why, 400).rstrip('.')}; {do}")
    if "not_run" in answer:
        answer["not_run"] = shown(answer["not_run"], 200)
    return answer
