"""A recording of a box, brought here: `health BOX --record DIR`. The script writes it into a folder that goes when its text has come back.

What comes back is a box's word: only names that a recording has are written, into a folder that is new or empty.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from ..boxes import box as boxes
from ..boxes.box import Box
from ..text.errors import BadRequest
from ..text.masking import shown
from .examine import PROBE, Question, script
from .reading import Health, read, without_answer

MOST = 48 << 20  # bytes of a whole recording, of which no file has more than 4 MiB
_FILE = re.compile(r"[a-z][a-z0-9-]{0,40}\.(?:csv|xml|txt|json)\Z")

# Runs there, Python 3.8: the script, with a folder of its own for the recording.
THERE = r"""
import json, os, shutil, subprocess, sys, tempfile
folder = tempfile.mkdtemp(prefix="gpu_health-")
try:
    done = subprocess.run([sys.executable, "-I", "-", "--record", folder] + sys.argv[1:], input=SCRIPT.encode(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    files = {}
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as handle:
            files[name] = handle.read(4 << 20).decode("utf-8", "replace")
    print(json.dumps({"code": done.returncode, "out": done.stdout[:4 << 20].decode("utf-8", "replace"), "errors": done.stderr[-4000:].decode("utf-8", "replace"), "files": files}))
finally:
    shutil.rmtree(folder, ignore_errors=True)
"""


def record(box: Box, question: Question, folder: Path, *, accept_new: bool = False) -> Health:
    """Examine the box and keep what was gathered in `folder`. Raises BadRequest when the folder is in use or can't be written."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadRequest(f"found {folder} in use, expected a new or empty folder for the recording")
    program = f"SCRIPT = {script()!r}\n{THERE}"
    reply = boxes.run(
        box,
        program,
        interpreter=boxes.PYTHON,
        args=question.args,
        limit=PROBE + 30,
        most=MOST,
        accept_new=accept_new,
    )
    name = "this machine" if box.local else shown(box.name, 80)
    if reply.outcome != "ok":
        return without_answer(name, reply.text, reply.why or "overtime")
    try:
        told = json.loads(reply.out)
        out, files = told["out"].encode(), told["files"].items()
        kept = {file: text for file, text in files if _FILE.match(file) and isinstance(text, str)}
        code, errors = told["code"], str(told["errors"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return read(name, b"", reply.code, reply.cut, reply.errors)
    health = read(name, out, code if isinstance(code, int) else None, False, errors)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in kept.items():
            (folder / file).write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise BadRequest(
            f"found {folder} not writable ({error.strerror}), expected a place for the recording"
        ) from None
    return health
