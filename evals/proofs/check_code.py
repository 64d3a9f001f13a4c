"""The code under an entry's Check or Fix, so that a proof runs the lines that a user copies."""

import contextlib
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path
from unittest import mock

from remote_gpu_trainer.catalogue import bundle


def block(entry_id: str, field: str = "check") -> str:
    """The first Python block of the field, `check` or `fix`."""
    return re.search(r"```python\n(.*?)```", getattr(bundle.load().get(entry_id), field), re.S)[1]


def typed(command: str, *arguments: object) -> str:
    """What `python -c "CODE"` prints, given these arguments. The code runs in this process."""
    with mock.patch.object(sys, "argv", ["-c", *map(str, arguments)]):
        return shown(shlex.split(command)[2])


def in_shell(command: str, folder: Path) -> str:
    """What bash prints for the command in this folder, whatever its exit status."""
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, capture_output=True, text=True, timeout=60
    )
    return done.stdout.strip()


def span(entry_id: str, part: str) -> str:
    """The code between backticks that holds `part`."""
    text = re.sub(r"```.*?```", "", bundle.load().get(entry_id).check, flags=re.S)
    return next(code for code in re.findall(r"`([^`]+)`", text) if part in code)


def shown(code: str, **names: object) -> str:
    """What the code prints, given these names."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, names)
    return out.getvalue().strip()
