"""The state of the code when the script is rendered: commit, changes, and what git ignores."""

from __future__ import annotations

import hashlib
import subprocess
from dataclasses import dataclass
from pathlib import Path

MOST_DIFFERENCE = 60_000  # bytes that travel in the script
MOST_NAMES = 400  # of ignored files


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
        raise CodeError(f"code: no folder at {str(folder)[:100]}; name the one with the program")
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
