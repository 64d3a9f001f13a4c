"""Record the state of a code folder: its commit, what differs from it, and what git ignores."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

from . import code_files
from .snapshot import Snapshot

MOST_DIFFERENCE = 60_000  # bytes in the script
MOST_NAMES = 400  # of ignored files
CHECKPOINTS = "RGT_CHECKPOINT_DIR"  # by this variable a program finds its folder

# Folders of a whole machine. Sending one would send the machine's keys too.
_NOBODYS_CODE = frozenset(
    f"/{name}"
    for name in (
        "bin", "boot", "dev", "etc", "home", "lib", "lib64", "media", "mnt", "opt", "proc",
        "root", "run", "sbin", "srv", "sys", "tmp", "usr", "var", "Users", "Volumes",
    )
)  # fmt: skip


class CodeError(Exception):
    """A folder that can't be recorded. One line: what is wrong; what to do."""


def take(folder: Path) -> Snapshot:
    """Return the state of a code folder. Raises CodeError."""
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
            "no git repository: the files were sent as they were\n",
            "",
            "",
            tracked=False,
            finds_checkpoints=any(
                _mentions(folder / name)
                for name in code_files.choose(folder).sizes
                if name.endswith((".py", ".sh"))
            ),
        )
    commit = _git(folder, "log", "-1", "--format=%H %cI %s") or "no commit yet\n"
    difference = _git(folder, "diff", "HEAD", "--", ".") if not commit.startswith("no ") else ""
    size = len(difference.encode())
    if size > MOST_DIFFERENCE:  # only the record in the script is cut, the files are sent whole
        whole = hashlib.sha256(difference.encode()).hexdigest()
        difference = (
            difference.encode()[:MOST_DIFFERENCE].decode(errors="ignore")
            + f"\n… cut here: {size:,} bytes in all, sha256 {whole}\n"
        )
    ignored = _git(
        folder, "ls-files", "--others", "--ignored", "--exclude-standard", "--directory"
    ).splitlines()
    names = ignored[:MOST_NAMES] + (
        [f"… and {len(ignored) - MOST_NAMES} more"] if len(ignored) > MOST_NAMES else []
    )
    return Snapshot(
        commit,
        difference,
        "".join(f"{name}\n" for name in names),
        tracked=True,
        finds_checkpoints=bool(_git(folder, "grep", "-l", "--untracked", CHECKPOINTS, "--", ".")),
    )


def _mentions(path: Path) -> bool:
    try:
        return CHECKPOINTS.encode() in path.read_bytes()
    except OSError:
        return False


def _git(folder: Path, *arguments: str) -> str:
    """Return the output of a git command that only reads; '' if it fails or git is missing."""
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
