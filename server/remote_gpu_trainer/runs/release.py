"""The results of a run brought home: pulled, hashed on both sides, compared, loaded. Nothing is deleted, here or there, and nothing is stopped.

Not covered: what the run wrote outside its folder (named in `outside`, and then nothing counts as verified; pull it with `also`), symbolic links (named in `links`, never followed),
and whether the results are any good.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath

from ..boxes import box as boxes
from ..boxes.box import Box, Reply
from ..catalogue import bundle
from ..text.masking import shown, shown_lines

HASHING = 3 * 3600  # seconds; a terabyte from a network disk
MOST_LIST = 256 << 20  # bytes of the list of files
LEFT_THERE = (
    "lock",
    "heartbeat",
    "rehearsal",
)  # of the runner, at the top of its folder: two change while being read, one holds trial checkpoints
MANIFEST = "PULL_MANIFEST.json"

# Runs there: every plain file below a folder with its size and SHA-256, every link with its target.
LIST = r"""
import hashlib, json, os, sys
top, left = os.path.expanduser(sys.argv[1]), set(sys.argv[2:])
if not os.path.isdir(top):
    sys.exit("found no folder " + ascii(top))
files, links = [], []
def fail(error):
    raise error
for base, folders, names in os.walk(top, onerror=fail):
    folders[:] = [name for name in folders if os.path.relpath(os.path.join(base, name), top) not in left]
    for name in sorted(folders + names):
        full = os.path.join(base, name)
        path = os.path.relpath(full, top)
        if os.path.islink(full):
            links.append([path, os.readlink(full)])
        elif os.path.isfile(full) and path not in left and ".rsync-partial" not in path.split(os.sep):
            digest, size = hashlib.sha256(), 0
            with open(full, "rb") as file:
                for piece in iter(lambda: file.read(1 << 20), b""):
                    digest.update(piece)
                    size += len(piece)
            files.append([path, size, digest.hexdigest()])
print(json.dumps({"files": files, "links": links}))
"""


class Unreleased(Exception):
    """The results can't be brought home. One line: found, expected, do."""


@dataclass
class Released:
    """What came home to `to`. `differing`: files whose bytes aren't the box's. `verdict`: verified, bad or unknown."""

    source: str
    to: str
    files: int = 0
    bytes: int = 0
    differing: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    verdict: str = "unknown"
    checked: list[str] = field(default_factory=list)

    def as_dict(self) -> dict:
        return asdict(self)


def bring_home(
    box: Box,
    source: str,
    to: Path,
    *,
    also: tuple[str, ...] = (),
    expect: int | None = None,
    load: bool = True,
) -> Released:
    """Pull `source` and the folders of `also` into `to`, and verify. Raises Unreleased."""
    script = bundle.bundle_root() / "scripts" / "verify_local.py"
    if not script.is_file():
        raise Unreleased(
            f"found no {script}, expected the script that loads results; do: install the package again"
        )
    places = [("", source), *((_safe_name(folder), folder) for folder in also)]
    if len({name for name, _ in places}) < len(places):
        raise Unreleased(
            "found two folders of one name under --also, expected different ones; do: pull one of them by itself"
        )
    found = Released(shown(source), str(to))
    listed: dict[str, tuple[int, str]] = {}
    for name, folder in places:
        here = to / name
        try:
            here.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Unreleased(
                f"found {here} unusable ({error.strerror}), expected a folder that can be written; do: give another with --to"
            ) from None
        files, links, differing = _pull(box, folder, here, () if name else LEFT_THERE)
        found.links += [shown(f"{name}/{link}" if name else link) for link in links]
        found.differing += [shown(f"{name}/{path}" if name else path) for path in differing]
        listed.update({(f"{name}/{path}" if name else path): what for path, what in files.items()})
    found.files, found.bytes = len(listed), sum(size for size, _ in listed.values())
    found.outside, apart = outside(to / "run.sh", source, also)
    rows = [
        {"path": path, "bytes": size, "sha256": digest}
        for path, (size, digest) in sorted(listed.items())
    ]
    (to / MANIFEST).write_text(
        json.dumps(
            {"schema": 1, "run_id": PurePosixPath(source).name or "run", "files": rows}, indent=1
        )
        + "\n",
        encoding="utf-8",
    )
    if found.differing:
        found.verdict = "bad"
        return found
    _verify(found, script, to, expect, load)
    if apart and found.verdict == "verified":
        found.verdict = "unknown"  # what the run was for isn't all here
    return found


def _pull(
    box: Box, folder: str, here: Path, left: tuple[str, ...]
) -> tuple[dict[str, tuple[int, str]], list[str], list[str]]:
    """(files there, links there, files that differ here). `left`: names at the top that stay there. A file that changed meanwhile gets a second chance."""
    for attempt in (1, 2):
        copied = boxes.pull(box, folder, str(here), exclude=tuple(f"/{name}" for name in left))
        if copied.outcome != "ok" or copied.code not in (0, 24):
            raise Unreleased(_why(copied, f"the copy of {shown(folder)}"))
        reply = boxes.run(
            box, LIST, interpreter=boxes.PYTHON, args=(folder, *left), limit=HASHING, most=MOST_LIST
        )
        if reply.outcome != "ok" or reply.code != 0 or reply.cut:
            raise Unreleased(_why(reply, f"the hashes of {shown(folder)}"))
        files, links = read_list(reply.out)
        differing = [
            path for path, (size, digest) in files.items() if not _same(here / path, size, digest)
        ]
        if not differing:
            break
    return files, links, differing


def read_list(data: bytes) -> tuple[dict[str, tuple[int, str]], list[str]]:
    """The box's list of files and links. Raises Unreleased for one that can't be read, or a path that leads out of the folder."""
    try:
        told = json.loads(data)
        files = {str(path): (int(size), str(digest)) for path, size, digest in told["files"]}
        links = [f"{path} -> {target}" for path, target in told["links"]]
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        raise Unreleased(
            "found a list of files that can't be read, expected JSON; do: try again"
        ) from None
    for path in files:
        pure = PurePosixPath(path)
        if (
            pure.is_absolute()
            or ".." in pure.parts
            or not pure.parts
            or "\0" in path
            or "\\" in path
        ):
            raise Unreleased(
                f"found the path {ascii(path)[:100]} in the box's list, expected one below the folder; do: rename it there"
            )
    return files, links


def _same(path: Path, size: int, digest: str) -> bool:
    try:
        if path.is_symlink() or path.stat().st_size != size:
            return False
        found = hashlib.sha256()
        with path.open("rb") as file:
            while piece := file.read(1 << 20):
                found.update(piece)
    except (OSError, ValueError):
        return False
    return found.hexdigest() == digest


def outside(script: Path, source: str, also: tuple[str, ...]) -> tuple[list[str], bool]:
    """(places that the run's script names and that weren't pulled, whether checkpoints or results lie there). A relative one lies in the work folder."""
    try:
        text = script.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return [], False
    named: dict[str, list[str]] = {"WORK_DIR": [], "CHECKPOINT_DIR": [], "EXPECT": []}
    for name, value in re.findall(
        r"^RGT_(CHECKPOINT_DIR|EXPECT|WORK_DIR)=\(?(.*?)\)?$", text, re.M
    ):
        try:
            named[name] += shlex.split(value)
        except ValueError:
            continue
    inside = (source.rstrip("/") + "/", *(folder.rstrip("/") + "/" for folder in also))
    inside += ("~/" + "/".join(PurePosixPath(source).parts[-2:]) + "/",)

    def left(words: list[str]) -> list[str]:
        return [
            word
            for word in words
            if word.startswith(("/", "~/")) and not f"{word}/".startswith(inside)
        ]

    work, results = left(named["WORK_DIR"]), named["CHECKPOINT_DIR"] + named["EXPECT"]
    apart = left(results)
    within = any(word and not word.startswith(("/", "~/")) for word in results)
    return [shown(word) for word in (*apart, *work)], bool(apart) or bool(work and within)


def _verify(found: Released, script: Path, to: Path, expect: int | None, load: bool) -> None:
    command = [sys.executable, str(script), str(to), "--manifest", str(to / MANIFEST), "--json"]
    command += [] if expect is None else ["--expect", str(expect)]
    command += [] if load else ["--no-load"]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, errors="replace", timeout=HASHING
    )
    found.verdict = {0: "verified", 1: "bad"}.get(done.returncode, "unknown")
    try:
        told = json.loads(done.stdout)["findings"]
        found.checked = [
            shown(": ".join(str(row[key]) for key in ("level", "path", "found")) + f"; {row['do']}")
            for row in told
        ][:20]
    except (ValueError, TypeError, KeyError):
        found.checked = shown_lines(done.stderr or done.stdout, 5)


def _safe_name(folder: str) -> str:
    name = PurePosixPath(folder).name
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", name):
        raise Unreleased(
            f"found the folder {shown(folder, 80)}, expected one whose last part is a plain name"
        )
    return name


def _why(reply: Reply, what: str) -> str:
    if reply.outcome != "ok":
        return reply.text
    last = next(
        iter(shown_lines(reply.errors, 1, 200)),
        "the list is too long" if reply.cut else "no message",
    )
    return f"found {what} ended with {reply.code} ({last}), expected 0; do: look at the folder there, and try again: what is here already stays"
