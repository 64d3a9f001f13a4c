"""The newest whole checkpoint beside a log, from which a run would go on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

from ..runner import completeness, content, state
from ..runner.folder import Folder
from ..text.masking import shown

FOLDERS = ("", "checkpoints", "checkpoint", "ckpt", "ckpts", "output", "outputs")
LARGEST = 1 << 30  # bytes of a checkpoint that is read to see whether it is whole
LONGEST = 300  # characters of a path


def newest(log: str | Sequence[str] | None) -> str:
    """Return the path of the newest whole checkpoint in a folder of logs on this machine.

    "" where none is seen, for anything but a folder here, and where one is too large to be checked
    within a look-up. A folder that a run script made remembers the last one that was whole.
    """
    if not isinstance(log, str) or not os.path.isdir(log):
        return ""
    with suppress(OSError, ValueError):
        if path := str(state.core_of(Folder(log)).get("last_whole") or ""):
            return shown(path, LONGEST) if os.path.exists(path) else ""
    found = [item for name in FOLDERS if (item := _newest_in(os.path.join(log, name)))]
    return shown(max(found, key=lambda item: item.weights).path, LONGEST) if found else ""


def _newest_in(folder: str) -> content.Item | None:
    """The newest whole checkpoint of one folder, None without one."""
    with suppress(OSError):
        items = [item for item in content.newest_first(folder, "*") if _is_saved(item)]
        if items and all(item.size <= LARGEST for item in items[:2]):
            found = content.look(folder, "*").whole
            return found if found and _is_saved(found) else None
    return None


def _is_saved(item: content.Item) -> bool:
    """Whether an item holds weights, and has the number of a step or an epoch."""
    if not content.COUNTED.search(os.path.basename(item.path)):
        return False
    names = completeness.files_of(item.path)
    return any(name.endswith(completeness.WEIGHTS) for name in names)
