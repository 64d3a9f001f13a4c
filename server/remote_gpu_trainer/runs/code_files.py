"""What of a code folder goes to a box: the files that git tracks, never a key; and what git says of
their state: commit, difference, and what it ignores."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from ..logs.files import KEY_NAME
from .rendered import CodeState, Unfit

MOST_DIFFERENCE = 60_000  # bytes in the script
MOST_NAMES = 400  # of ignored files
CHECKPOINTS = "RGT_CHECKPOINT_DIR"  # by this variable a program finds its folder

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
BY_PRODUCTS = frozenset(("__pycache__", "node_modules", "venv", "env", "site-packages"))
# Folders of a whole machine. Sending one would send the machine's keys too.
_OF_A_MACHINE = frozenset(
    f"/{name}"
    for name in (
        "bin", "boot", "dev", "etc", "home", "lib", "lib64", "media", "mnt", "opt", "proc",
        "root", "run", "sbin", "srv", "sys", "tmp", "usr", "var", "Users", "Volumes",
    )
)  # fmt: skip


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


def check_folder(folder: Path) -> None:
    """Raise Unfit for a folder that isn't there, or that holds more than somebody's code."""
    if not folder.is_dir():
        raise Unfit(f"code: no folder at {str(folder)[:100]}; name the folder with the program")
    real, home = folder.resolve(), Path(os.path.expanduser("~")).resolve()
    if real == Path(real.anchor) or real in (home, *home.parents) or str(real) in _OF_A_MACHINE:
        raise Unfit(
            f"code: {str(folder)[:100]} is a root, the system's or your home folder, and all of it "
            "would be sent; name the folder with the program"
        )


def read_state(files: CodeFiles) -> CodeState:
    """Return what git says of the folder of these files."""
    folder = files.folder
    if _git_text(folder, "rev-parse", "--is-inside-work-tree").strip() != "true":
        programs = (folder / name for name in files.sizes if name.endswith((".py", ".sh")))
        return CodeState(
            "no git repository: the files were sent as they were\n",
            "",
            "",
            finds_checkpoints=any(map(_names_checkpoints, programs)),
        )
    commit = _git_text(folder, "log", "-1", "--format=%H %cI %s") or "no commit yet\n"
    has_commit = not commit.startswith("no ")
    difference = _git_text(folder, "diff", "HEAD", "--", ".") if has_commit else ""
    size = len(difference.encode())
    if size > MOST_DIFFERENCE:  # only the record in the script is cut, the files are sent whole
        digest = hashlib.sha256(difference.encode()).hexdigest()
        difference = (
            difference.encode()[:MOST_DIFFERENCE].decode(errors="ignore")
            + f"\n… cut here: {size:,} bytes in all, sha256 {digest}\n"
        )
    ignored = _git_text(
        folder, "ls-files", "--others", "--ignored", "--exclude-standard", "--directory"
    ).splitlines()
    names = ignored[:MOST_NAMES] + (
        [f"… and {len(ignored) - MOST_NAMES} more"] if len(ignored) > MOST_NAMES else []
    )
    named = _git_text(folder, "grep", "-l", "--untracked", CHECKPOINTS, "--", ".")
    return CodeState(commit, difference, "".join(f"{name}\n" for name in names), bool(named))


def _names_checkpoints(path: Path) -> bool:
    try:
        return CHECKPOINTS.encode() in path.read_bytes()
    except OSError:
        return False


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
            info = path.lstat()
        except OSError:
            continue  # deleted here, and git wasn't told
        if not (stat.S_ISREG(info.st_mode) or stat.S_ISLNK(info.st_mode)):
            continue
        if _is_key(path, name, info):
            keys.append(name)
        else:
            sizes[name] = info.st_size if stat.S_ISREG(info.st_mode) else 0
    return CodeFiles(folder, sizes, keys, untracked, left, listed is not None)


def ignored(folder: Path, names: list[str]) -> list[str]:
    """Return those of some paths below a folder that git ignores, in their order."""
    told = "".join(f"{name}\0" for name in names)
    output = _git(folder, "check-ignore", "-z", "--stdin", told=told.encode()) if names else None
    found = {os.fsdecode(name) for name in (output or b"").split(b"\0")}
    return [name for name in names if name in found]


def _git_names(folder: Path, *which: str) -> list[str] | None:
    """Return the names that `git ls-files` lists below the folder; None where git has no say."""
    listed = _git(folder, "ls-files", "-z", *which)
    if listed is None:
        return None
    return sorted({os.fsdecode(name) for name in listed.split(b"\0") if name})


def _git_text(folder: Path, *words: str) -> str:
    """Return the output of a git command that only reads; '' where it fails or git is missing."""
    output = _git(folder, "-c", "core.quotepath=off", *words) or b""
    return output.decode(errors="replace").replace("\0", "")


def _git(folder: Path, *words: str, told: bytes = b"") -> bytes | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words],
            capture_output=True,
            timeout=60,
            input=told,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if done.returncode else done.stdout


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
            and name not in BY_PRODUCTS
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


def _is_key(path: Path, name: str, info: os.stat_result) -> bool:
    """Whether a file looks like a key or a password, by its name or by how it begins."""
    *folders, last = name.split("/")
    if KEY_NAME.search(last) or _SECRET_NAME.search(last) or _SECRET_FOLDER.intersection(folders):
        return True
    if not stat.S_ISREG(info.st_mode):
        return False
    try:
        with path.open("rb") as file:
            return bool(_PRIVATE_KEY.search(file.read(_HEAD)))
    except OSError:
        return False  # sending it will say why it can't be read
