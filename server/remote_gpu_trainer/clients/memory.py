"""What this package remembers of its installations, in one file of the user.

The file holds, for each client and project, offsets and sums of what was written, not the content:
configurations hold keys.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .config_file import Remembered, text_of
from .table import NAME

NOTHING = {"files": [], "skill": {}, "hooks": False}  # remembered of a client without installation


@dataclass
class Folder:
    """A folder that we wrote: its files' sums by relative path, and the parents made for it."""

    path: str
    sums: dict[str, str]
    folders: list[str] = field(default_factory=list)


def memory_file(env: Mapping[str, str], home: Path) -> Path:
    """The file in which this package remembers what it installed."""
    state = env.get("XDG_STATE_HOME", "")
    base = Path(state) if os.path.isabs(state) else home / ".local" / "state"
    return base / NAME / "installed.json"


def read_memory(file: Path) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """What was installed before, by client, and the folders made for this file.

    A file that isn't well formed counts as missing. Raises InstallError when it can't be read.
    """
    try:
        memory = json.loads(text_of(file) or "")
        clients = {
            key: value
            for key, value in memory["clients"].items()
            if isinstance(value["files"], list) and isinstance(value["skill"], dict)
        }
        return clients, [str(name) for name in memory["folders"]]
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
        return {}, missing_folders(file.parent)


def remembered_files(client: dict[str, Any]) -> dict[Path, Remembered]:
    """How each configuration was changed, without what isn't well formed."""
    return {
        Path(item["file"]): Remembered(**item)
        for item in client["files"]
        if _is_well_formed(item, Remembered)
    }


def remembered_folder(client: dict[str, Any]) -> Folder | None:
    """The skill's folder as it was written; None if nothing well formed is remembered."""
    return Folder(**client["skill"]) if _is_well_formed(client["skill"], Folder) else None


def _is_well_formed(item: object, kind: type) -> bool:
    return isinstance(item, dict) and set(item) == set(kind.__dataclass_fields__)


def missing_folders(folder: Path) -> list[str]:
    """The missing ones of a folder and its parents, deepest first."""
    missing = []
    while not folder.exists() and folder != folder.parent:
        missing.append(str(folder))
        folder = folder.parent
    return missing
