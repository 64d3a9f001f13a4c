"""The code under an entry's Check, so that a proof runs the lines that a user copies."""

import contextlib
import io
import re

from remote_gpu_trainer.catalogue import bundle


def block(entry_id: str) -> str:
    """The first Python block."""
    return re.search(r"```python\n(.*?)```", bundle.load().get(entry_id).check, re.S)[1]


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
