"""Which files of a code folder go to a box: what git tracks, and never a key."""

from __future__ import annotations

import os
import re
import stat
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from ..logs.files import KEY_NAME

# Beside the names that are never read as a log: settings of tools that hold a token.
_SECRET_NAME = re.compile(
    r"^\.(?:pypirc|npmrc|boto|s3cfg|htpasswd)$|^(?:kaggle\.json|rclone\.conf|kubeconfig)$"
    r"|^client_secret.*\.json$",
    re.I,
)
_SECRET_FOLDER = frozenset((".ssh", ".gnupg", ".aws", ".kube", ".docker"))
_PRIVATE_KEY = re.compile(rb"\A\s*-----BEGIN [A-Z ]*PRIVATE KEY-----|\"private_key\"\s*:\s*\"--")
_HEAD = 4096  # bytes in which a private key shows itself
# What a folder without git holds that is nobody's code. Hidden folders are left out as well.
_BY_PRODUCTS = frozenset(("__pycache__", "node_modules", "venv", "env", "site-packages"))


@dataclass(frozen=True)
class CodeFiles:
    """The files that are sent, by their paths below `folder`.

    `sizes`: of the files, in bytes; links count 0. `keys`: left out because they look like keys.
    `untracked`: new files that git doesn't track and doesn't ignore, which aren't sent. `left`:
    folders that nobody's code is in, where git has no say. `tracked`: whether git said what belongs
    to the code.
    """

    folder: Path
    sizes: dict[str, int]
    keys: list[str] = field(default_factory=list)
    untracked: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    tracked: bool = True

    @property
    def bytes(self) -> int:
        """Return the size of all files together."""
        return sum(self.sizes.values())


def choose(folder: Path) -> CodeFiles:
    """Return what is sent of a code folder. Raises OSError."""
    listed = _git_names(folder, "--cached", "--recurse-submodules")
    untracked: list[str] = []
    left: list[str] = []
    if listed is None:
        names, left = _all_names(folder)
    else:
        names = listed
        untracked = _git_names(folder, "--others", "--exclude-standard") or []
    sizes, keys = {}, []
    for name in names:
        path = folder / name
        try:
            told = path.lstat()
        except OSError:
            continue  # deleted here, and git wasn't told
        if not (stat.S_ISREG(told.st_mode) or stat.S_ISLNK(told.st_mode)):
            continue
        if _is_key(path, name, told):
            keys.append(name)
        else:
            sizes[name] = told.st_size if stat.S_ISREG(told.st_mode) else 0
    return CodeFiles(folder, sizes, keys, untracked, left, listed is not None)


def _git_names(folder: Path, *which: str) -> list[str] | None:
    """Return the names that `git ls-files` lists below the folder; None where git has no say."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), "ls-files", "-z", *which],
            capture_output=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        return None
    return sorted({os.fsdecode(name) for name in done.stdout.split(b"\0") if name})


def _all_names(folder: Path) -> tuple[list[str], list[str]]:
    """Return the files below a folder, and the folders there that nobody's code is in."""
    names, left = [], []
    for base, folders, files in os.walk(folder):
        at = os.path.relpath(base, folder)
        linked = [name for name in folders if os.path.islink(os.path.join(base, name))]
        names += [_with_slashes(os.path.join(at, name)) for name in (*files, *linked)]
        kept = [
            name
            for name in folders
            if not name.startswith(".")
            and name not in _BY_PRODUCTS
            and not _ignores_itself(os.path.join(base, name))
        ]
        gone = set(folders).difference(kept)
        whole = [os.path.join(base, name) for name in gone]
        left += [
            f"{_with_slashes(os.path.relpath(one, folder))}/"
            for one in whole
            if not os.path.islink(one)
        ]
        folders[:] = kept
    return sorted(names), sorted(left)


def _with_slashes(path: str) -> str:
    """Return a path as a box has it."""
    return os.path.normpath(path).replace(os.sep, "/")


def _ignores_itself(folder: str) -> bool:
    """Whether a folder tells git to ignore all of it, as `pull` and many caches make theirs."""
    try:
        with open(os.path.join(folder, ".gitignore"), "rb") as file:
            lines = file.read(_HEAD).split(b"\n")
    except OSError:
        return False
    return [line for line in lines if line.strip() and not line.startswith(b"#")] == [b"*"]


def _is_key(path: Path, name: str, told: os.stat_result) -> bool:
    """Whether a file looks like a key or a password, by its name or by how it begins."""
    *folders, last = name.split("/")
    if KEY_NAME.search(last) or _SECRET_NAME.search(last) or _SECRET_FOLDER.intersection(folders):
        return True
    if not stat.S_ISREG(told.st_mode):
        return False
    try:
        with path.open("rb") as file:
            return bool(_PRIVATE_KEY.search(file.read(_HEAD)))
    except OSError:
        return False  # sending it will say why it can't be read
