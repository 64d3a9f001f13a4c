"""Bring the results of a run home, and check that its box is gone.

`release`: the run is over, its files are pulled, hashed on both sides, compared and loaded.
`confirm`: the box isn't in the provider's list any more. Nothing is deleted, here or there, and
nothing is stopped; commands of the provider are shown, never run, except a listing that the user
typed.

Not covered: what the run wrote outside its folder (named in `outside`; nothing counts as verified
until it is pulled with `also`), symbolic links (named in `links`, never followed), and whether the
results are any good.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath

from ..boxes import box as boxes
from ..boxes.box import Box, Reply
from ..catalogue import bundle
from ..platforms.profile import Profile
from ..platforms.teardown import Listed, listed
from ..text.masking import shown, shown_lines
from . import ledger, status

HASHING = 3 * 3600  # seconds; a terabyte from a network disk
MOST_LIST = 256 << 20  # bytes of the list of files
# The runner's own, at the top of its folder: two change while they are read, one is a rehearsal's.
LEFT_THERE = ("lock", "heartbeat", "rehearsal")
MANIFEST = "PULL_MANIFEST.json"
# In a name: what verify_local.py takes into no manifest, for it isn't the same on every system.
_ODD = re.compile(r"[\x00-\x1f\x7f\\\ud800-\udfff]|\A[^/]*:")

# Runs on the box: each plain file below a folder with its size and SHA-256, each link's target.
LIST = r"""
import hashlib, json, os, sys
top, left = os.path.expanduser(sys.argv[1]), set(sys.argv[2:])
if not os.path.isdir(top):
    sys.exit("no folder " + ascii(top))
files, links = [], []
def fail(error):
    raise error
for base, folders, names in os.walk(top, onerror=fail):
    at = os.path.relpath(base, top)
    folders[:] = [name for name in folders if os.path.normpath(os.path.join(at, name)) not in left]
    for name in sorted(folders + names):
        full = os.path.join(base, name)
        path = os.path.relpath(full, top)
        if os.path.islink(full):
            links.append([path, os.readlink(full)])
        elif os.path.isfile(full) and path not in left and ".rsync-partial" not in path.split("/"):
            digest, size = hashlib.sha256(), 0
            with open(full, "rb") as file:
                for piece in iter(lambda: file.read(1 << 20), b""):
                    digest.update(piece)
                    size += len(piece)
            files.append([path, size, digest.hexdigest()])
print(json.dumps({"files": files, "links": links}))
"""


class Unreleased(Exception):
    """The results can't be brought home. One line: what is wrong; what to do."""


@dataclass
class Released:
    """What was copied from `source` to `to`.

    `differing`: files whose bytes aren't the box's. `links`: links that stayed there. `outside`:
    places that the run names and that weren't pulled. `checked`: what loading them told.
    `verdict`: verified, bad or unknown.
    """

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
        """All fields, as `release --json` prints them."""
        return asdict(self)


def release(
    box: Box,
    run: str,
    to: Path | None,
    *,
    also: tuple[str, ...],
    expect: int | None,
    load: bool,
    accept_new: bool,
) -> Released:
    """Bring the results of a run home that has ended. Raises Unreleased.

    `run`: as `status.ask` takes it. `to`: the folder here; None for results/BOX-RUN.
    """
    found = status.ask(box, run, accept_new=accept_new)
    if found.state in ("unreachable", "unknown", "nothing"):
        raise Unreleased(found.text)
    if found.state in ("alive", "stalled"):
        script = shlex.quote(found.dir + "/run.sh")
        raise Unreleased(
            f"the run in {found.dir} is {found.state} (step {found.step}); wait for its end with "
            f"rgt status --wait, or stop it there with bash {script} stop"
        )
    to = to or Path("results") / default_name(box, found.dir)
    return bring_home(box, found.dir, to, also=also, expect=expect, load=load)


def bring_home(
    box: Box,
    source: str,
    to: Path,
    *,
    also: tuple[str, ...] = (),
    expect: int | None = None,
    load: bool = True,
) -> Released:
    """Pull `source` and the folders of `also` into `to`, and verify them. Raises Unreleased.

    `expect`: how many result folders there must be. `load`: whether checkpoints are loaded.
    """
    script = bundle.bundle_root() / "scripts" / "verify_local.py"
    if not script.is_file():
        raise Unreleased(f"{script} is missing; install the package again")
    places = [("", source), *((_safe_name(folder), folder) for folder in also)]
    if len({name for name, _ in places}) < len(places):
        raise Unreleased(
            "--also names two folders that end in the same name; pull one of them alone"
        )
    found = Released(shown(source), str(to))
    sizes: dict[str, tuple[int, str]] = {}
    for name, folder in places:
        here = to / name
        try:
            here.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Unreleased(
                f"can't write to {here} ({error.strerror}); give another folder with --to"
            ) from None
        files, links, differing = _pull(box, folder, here, () if name else LEFT_THERE)
        found.links += [shown(f"{name}/{link}" if name else link) for link in links]
        found.differing += [shown(f"{name}/{path}" if name else path) for path in differing]
        sizes.update({(f"{name}/{path}" if name else path): what for path, what in files.items()})
    found.files, found.bytes = len(sizes), sum(size for size, _ in sizes.values())
    found.outside, apart = outside(to / "run.sh", source, also)
    odd = [path for path in sizes if _ODD.search(path)]
    rows = [
        {"path": path, "bytes": size, "sha256": digest}
        for path, (size, digest) in sorted(sizes.items())
        if path not in odd
    ]
    manifest = {"schema": 1, "run_id": PurePosixPath(source).name or "run", "files": rows}
    (to / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    if found.differing:
        found.verdict = "bad"
        return found
    _verify(found, script, to, expect, load, odd)
    found.checked += [
        f"note: {shown(path)}: compared, but no manifest can hold such a name; rename it"
        for path in odd
    ]
    if apart and found.verdict == "verified":
        found.verdict = "unknown"  # what the run was for isn't all here
    return found


def _pull(
    box: Box, folder: str, here: Path, left: tuple[str, ...]
) -> tuple[dict[str, tuple[int, str]], list[str], list[str]]:
    """(files there, links there, files that differ here). `left`: names at the top that stay there.

    A file that changed during the copy gets a second chance, and so does one whose copy here
    differs although its size and time don't.
    """
    exclude = tuple(f"/{name}" for name in left)
    for by_content in (False, True):
        copied = boxes.pull(box, folder, str(here), exclude=exclude, by_content=by_content)
        if copied.outcome != "ok" or copied.code not in (0, 24):
            raise Unreleased(_why(copied, f"copying {shown(folder)}"))
        reply = boxes.run(
            box, LIST, interpreter=boxes.PYTHON, args=(folder, *left), limit=HASHING, most=MOST_LIST
        )
        if reply.outcome != "ok" or reply.code != 0 or reply.cut:
            raise Unreleased(_why(reply, f"hashing {shown(folder)}"))
        files, links = read_list(reply.out)
        differing = [
            path for path, (size, digest) in files.items() if not _same(here / path, size, digest)
        ]
        if not differing:
            break
    return files, links, differing


def read_list(data: bytes) -> tuple[dict[str, tuple[int, str]], list[str]]:
    """The files, path to (bytes, SHA-256), and the links that the box listed.

    Raises Unreleased for a list that can't be read, or a path that leads out of the folder.
    """
    try:
        told = json.loads(data)
        files = {str(path): (int(size), str(digest)) for path, size, digest in told["files"]}
        links = [f"{path} -> {target}" for path, target in told["links"]]
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        raise Unreleased("the box's list of files can't be read; try again") from None
    for path in files:
        pure = PurePosixPath(path)
        odd = not pure.parts or "\0" in path or ("\\" in path and os.sep == "\\")
        if odd or pure.is_absolute() or ".." in pure.parts:
            raise Unreleased(f"the box lists an unsafe path, {ascii(path)[:100]}; rename it there")
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


def _said(script: Path) -> dict[str, list[str]]:
    """The words that a rendered script gives to the variables that say where results lie."""
    named = {name: [] for name in ("WORK_DIR", "CHECKPOINT_DIR", "CHECKPOINT_GLOB", "EXPECT")}
    try:
        text = script.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return named
    for name, value in re.findall(rf"^RGT_({'|'.join(named)})=\(?(.*?)\)?$", text, re.M):
        try:
            named[name] += shlex.split(value)
        except ValueError:
            continue
    return named


def _checkpoints(script: Path) -> str:
    """The job's own checkpoints as a glob of the end of a path; '' when it names none."""
    named = _said(script)
    if not any(named["CHECKPOINT_GLOB"]):
        return ""
    glob, folder = named["CHECKPOINT_GLOB"][-1], "".join(named["CHECKPOINT_DIR"][-1:])
    name = PurePosixPath(folder).name.strip("~.")
    return glob.replace("**/", "") if "**" in glob or not name else f"{name}/{glob}"


def outside(script: Path, source: str, also: tuple[str, ...]) -> tuple[list[str], bool]:
    """(places that the run's script names and that weren't pulled, whether results lie there).

    Results are the checkpoints and the expected files; a relative one lies in the work folder.
    """
    named = _said(script)
    inside = (source.rstrip("/") + "/", *(folder.rstrip("/") + "/" for folder in also))
    inside += ("~/" + "/".join(PurePosixPath(source).parts[-2:]) + "/",)

    def left(words: list[str]) -> list[str]:
        rooted = (word for word in words if word.startswith(("/", "~/")))
        return [word for word in rooted if not f"{word}/".startswith(inside)]

    work, results = left(named["WORK_DIR"]), named["CHECKPOINT_DIR"] + named["EXPECT"]
    apart = left(results)
    within = any(word and not word.startswith(("/", "~/")) for word in results)
    return [shown(word) for word in (*apart, *work)], bool(apart) or bool(work and within)


def _verify(
    found: Released, script: Path, to: Path, expect: int | None, load: bool, odd: list[str]
) -> None:
    command = [sys.executable, str(script), str(to), "--manifest", str(to / MANIFEST), "--json"]
    command += [f"--checkpoints={_checkpoints(to / 'run.sh')}"]
    command += [f"--unlisted={path}" for path in odd]
    command += [] if expect is None else ["--expect", str(expect)]
    command += [] if load else ["--no-load"]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, errors="replace", timeout=HASHING
    )
    found.verdict = {0: "verified", 1: "bad"}.get(done.returncode, "unknown")
    try:
        rows = json.loads(done.stdout)["findings"]
        found.checked = [
            shown(f"{row['level']}: {row['path']}: {row['found']}; {row['do']}") for row in rows
        ][:20]
    except (ValueError, TypeError, KeyError):
        found.checked = shown_lines(done.stderr or done.stdout, 5)


def _safe_name(folder: str) -> str:
    name = PurePosixPath(folder).name
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", name):
        raise Unreleased(
            f"the folder {shown(folder, 80)} doesn't end in a plain name; rename it there: "
            "letters, digits, '.', '_' and '-'"
        )
    return name


def _why(reply: Reply, what: str) -> str:
    if reply.outcome != "ok":
        return reply.text
    otherwise = "the list is too long" if reply.cut else "no message"
    last = next(iter(shown_lines(reply.errors, 1, 200)), otherwise)
    return (
        f"{what} ended with {reply.code} ({last}); look at the folder there and try again: "
        "what has been copied stays"
    )


def default_name(box: Box, folder: str) -> str:
    """A plain folder name for a box's run."""
    name = f"{'local' if box.local else box.host}-{folder.rstrip('/').rpartition('/')[2]}"
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:120] or "run"


def next_step(box: Box, profile: Profile) -> str:
    """What to type before and after the user ends the box."""
    if profile.facts.stop_billing is None:
        return "nothing is billed here"
    listing = profile.facts.listing
    source = (
        f"the list comes from: {listing.value.text}"
        if listing
        else "this platform's page names no listing command: copy the list from its console"
    )
    return (
        f"before you end it, and once more afterwards: rgt release {box.argument} --profile "
        f"{profile.name} --confirm-gone --id ID --listing FILE; {source}"
    )


def confirm(box: Box, profile: Profile, *, ids: list[str], listing: str | None) -> Listed:
    """Whether the box is gone; if it is, the ledger forgets it.

    `ids`: the box's id or name in `listing`, the text of the provider's list. Only an id that an
    earlier list has shown proves anything by being absent.
    """
    address = boxes.address(box)
    if profile.kind == "own":
        if not box.local:
            return Listed(
                None,
                f"{profile.name} is the page of this machine, not of {shown(box.name, 80)}; name "
                "the platform that bills it, or if it is your own, use --mine",
            )
        found = Listed(True, f"nobody bills {profile.name}: nothing to end")
    elif listing is None:
        return Listed(
            None,
            "no list to look the box up in; give --listing FILE or --run-listing COMMAND; "
            + next_step(box, profile),
        )
    else:
        found = listed(listing, ids, address)
        if found.by in ids:
            ledger.shown_as(address, found.by)
        elif found.gone and not set(ids) & ledger.ids_of(address):
            found = Listed(
                None,
                f"{found.text}, but no list has shown it before, so the id may be wrong or the "
                "list another account's. Look it up before you end the box, and once more "
                "afterwards; or --forget takes your word",
            )
    if found.gone:
        ledger.gone(address, box.name, found.text)
    return found


def as_text(found: Released) -> str:
    """What came home, for a terminal."""
    size = f"{found.files} files, {found.bytes / 1e6:.1f} MB"
    out = [f"{found.verdict}: {size} from {found.source} in {shown(found.to)}"]
    out += [f"    differs from the box: {path}" for path in found.differing[:20]]
    out += [f"    {line}" for line in found.checked]
    out += [f"    not pulled, a link: {link}" for link in found.links[:20]]
    out += [
        f"    not pulled, outside the run's folder: {path}; add --also {shlex.quote(path)}"
        for path in found.outside
    ]
    if found.verdict != "verified":
        out.append("    don't end the box yet: the results here aren't verified")
    return "\n".join(out)
