"""Bring the results of a run home.

`release` checks that the run is over. It pulls the files, hashes them on both sides, compares and
loads them. It deletes and stops nothing, neither here nor on the box.

What the job names as its results must have come: what lies outside the run's folder is named in
`outside`, what lies behind a symbolic link in `unreached`, what the run's log says was saved
somewhere else in `elsewhere`, and nothing counts as verified until it is pulled with `also`. Not
covered: whether the results are any good. Links are named, never followed.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from ..boxes import box as boxes
from ..boxes.box import Box
from ..catalogue import bundle
from ..runner.names import LEFT_THERE
from ..text import write_whole
from ..text.masking import shown, shown_lines
from ..text.sizes import shown_bytes
from . import Loads, known_jobs, named_results, status
from .home_copy import MANIFEST
from .transfer import pulling
from .transfer.pulling import HASHING, Pulled, Unreleased, refuse_foreign
from .transfer.wire import leads_out

Begins = Callable[[int, Callable[[], int]], None]

MOST_TOLD = 20  # files that were saved elsewhere
STILL_THERE = (
    "what its log says was saved elsewhere is on the box only; bring it with --also, or say "
    "with --leave that it may be lost"
)
# Characters of a name that verify_local.py allows in no manifest: systems treat them differently.
_ODD = re.compile(r"[\x00-\x1f\x7f\\\ud800-\udfff]|\A[^/]*:")


@dataclass
class Released:
    """What was copied from `source` to `to`.
    `differing`: files that aren't the same as on the box. `links`: links, which aren't copied.
    `outside`: places that the run names and that weren't pulled. `unreached`: results that the job
    names and that didn't come, each with what to do. `elsewhere`: what the run's log says was saved
    and that didn't come, [{"path", "bytes"}] on the box. `results`: where those lie that came.
    `checked`: the result of loading checkpoints. `left`: whether the box still has results that
    didn't come, those aside that its user leaves there.
    `verdict`: verified, incomplete (all that came is verified, and a result is not among it), bad
    or unknown.
    """

    source: str
    to: str
    files: int = 0
    bytes: int = 0
    differing: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    unreached: list[str] = field(default_factory=list)
    elsewhere: list[dict[str, Any]] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    left: bool = False
    verdict: str = "unknown"
    checked: list[str] = field(default_factory=list)

    @property
    def is_all(self) -> bool:
        """Return whether all that the box has of this run is here, and verified."""
        return self.verdict == "verified" or (self.verdict == "incomplete" and not self.left)

    def as_dict(self) -> dict:
        """Return all fields, as `release --json` prints them."""
        return asdict(self)


def release(
    box: Box,
    run: str,
    to: Path | None,
    *,
    also: tuple[str, ...],
    expect: int | None,
    load: Loads,
    accept_new: bool,
    leave: bool = False,
    begins: Begins = lambda total, count: None,
) -> Released:
    """Bring the results of a run home that has ended. Raises Unreleased.

    `run`: as `status.ask` takes it. `to`: the folder here; None for results/BOX-RUN. `leave`: what
    was saved elsewhere may be lost. `begins` gets the bytes that will come, and how to ask for
    those that are here.
    """
    answer = status.ask(box, run, accept_new=accept_new)
    if answer.state in ("unreachable", "unknown", "nothing"):
        raise Unreleased(answer.text + _elsewhere(box, run))
    if answer.state in ("alive", "stalled"):
        at = "" if answer.step is None else f" at step {answer.step}"
        raise Unreleased(
            f"the run in {answer.dir} is {answer.state}{at}; wait for its end "
            "with rgt status --wait, or end it with rgt stop"
        )
    to = to or Path("results") / default_name(box, answer.dir)
    released = bring_home(
        box, answer.dir, to, also=also, expect=expect, load=load, leave=leave, begins=begins
    )
    if released.verdict == "bad" and (elsewhere := _elsewhere(box, run)):
        released.checked.append(f"note: the box's own aren't whole{elsewhere}")
    return released


def _elsewhere(box: Box, run: str) -> str:
    """Say how to bring the copies of a run that was started from here, '' where it has none."""
    to = known_jobs.told_place(box, run)
    return f"; its newest copies: add --durable {shlex.quote(to)} --to FOLDER" if to else ""


def bring_home(
    box: Box,
    source: str,
    to: Path,
    *,
    also: tuple[str, ...] = (),
    expect: int | None = None,
    load: Loads = "tensors",
    leave: bool = False,
    begins: Begins = lambda total, count: None,
) -> Released:
    """Pull `source` and the files and folders of `also` into `to`, and verify them. Raises
    Unreleased.

    `expect`: how many result folders there must be. `load`: which checkpoints are loaded.
    `leave`, `begins`: as for `release`.
    """
    verifier = bundle.bundle_root() / "scripts" / "verify_local.py"
    if not verifier.is_file():
        raise Unreleased(f"{verifier} is missing; install the package again")
    released = Released(shown(source), str(to))
    places = _places(source, also)
    origin = {"box": boxes.address(box) or "local", "folder": source}
    to = Path(os.path.realpath(to))  # the user's own link to a folder
    pulled = _pull(box, places, to, origin, begins)
    also_there = {name: path for name, path in places.items() if name}
    files = pulled.files
    released.links = [shown(f"{path} -> {target}") for path, target in pulled.links.items()]
    released.differing = [shown(path) for path in pulled.differing]
    released.files, released.bytes = len(files), sum(size for size, _ in files.values())
    named = named_results.read(to)
    reached = named_results.reached(named, places, files, pulled.links)
    lacking = _compare(released, reached, files)
    released.elsewhere = [
        {"path": shown(path, 300), "bytes": size} for path, size in pulled.elsewhere.items()
    ]
    if pulled.elsewhere and not leave:
        lacking = released.left = True
    links_here = {} if released.differing else _link_results(to, reached.came, files)
    shorter = {target: path for path, target in links_here.items()}
    released.results = [shown(to / shorter.get(path, path), 400) for path in reached.came]
    unlisted = [path for path in files if _ODD.search(path)]
    listed = {name: files[name] for name in files if name not in unlisted}
    write_manifest(
        to,
        origin,
        [
            {"path": path, "bytes": size, "sha256": digest}
            for path, (size, digest) in sorted(listed.items())
        ],
        links=links_here,
        places=also_there,
        checks={
            "expect": expect,
            "checkpoints": named.checkpoints,
            "weights": named.expects_weights,
            "unlisted": unlisted,
        },
    )
    if released.differing:
        released.verdict = "bad"
        return released
    verify(released, verifier, to, load)
    released.checked += [
        f"note: {shown(path)}: compared, but no manifest can hold such a name; rename it"
        for path in unlisted
    ]
    if lacking and released.verdict == "verified":
        released.verdict = "incomplete"
    return released


def _places(source: str, also: tuple[str, ...]) -> dict[str, str]:
    """Return what to pull, by its names in the folder here. '' is that folder itself.

    Each of `also` has its last name; where two have the same, as much of the path as tells them
    apart. Raises Unreleased.
    """
    parts = {path: PurePosixPath(posixpath.normpath(path)).parts for path in dict.fromkeys(also)}
    places = {"": source}
    for path, own in parts.items():
        _refuse_odd_name(path, own[-1] if own else "")
        others = [other for other in parts.values() if other != own]
        count = next(
            (n for n in range(1, len(own)) if all(own[-n:] != one[-n:] for one in others)), len(own)
        )
        name = "/".join(part.strip("/~") for part in own[-count:]).strip("/")
        if name in places and own != parts[places[name]]:
            raise Unreleased(f"--also names {name} twice; pull one of them with another --to")
        places[name] = path
    return places


def _refuse_odd_name(path: str, name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._+=@,-]*", name):
        raise Unreleased(
            f"{shown(path, 80)} doesn't end in a plain name; rename it there: letters, digits and "
            "'._+=@,-'"
        )


def _pull(
    box: Box, places: dict[str, str], to: Path, origin: dict[str, str], begins: Begins
) -> Pulled:
    """Copy the folders, over nothing that no release of this run brought. Raises Unreleased."""
    here, has_begun = 0, False

    def accepts(sizes: dict[str, int]) -> set[str]:
        nonlocal has_begun
        own = own_files(to, origin)
        refuse_foreign(to, list(sizes), own)
        _unlink_results(to)
        claim(to, origin, sorted(own.union(sizes)))
        if not has_begun:
            has_begun = True
            begins(sum(sizes.values()), lambda: here)
        return own

    def moves(count: int) -> None:
        nonlocal here
        here = count

    own_files(to, origin)  # before anything is asked
    wanted = {name: (folder, () if name else LEFT_THERE) for name, folder in places.items()}
    return pulling.pull(box, wanted, to, accepts, moves)


def _compare(
    released: Released, reached: named_results.Reached, files: dict[str, tuple[int, str]]
) -> bool:
    """Note what the job names and didn't come. True if results are among it."""
    released.outside = [shown(place) for place in reached.outside]
    for name, link, target in reached.behind:
        place = shlex.quote(str(PurePosixPath(link).parent / target))
        released.unreached.append(
            shown(f"{name} lies behind the link {link} -> {target}; add --also {place}", 400)
        )
    done = ".done" in files
    for name in reached.absent:
        why = "the job names it, and it isn't on the box" if done else "the run didn't write it"
        released.unreached.append(shown(f"{name}: {why}", 400))
    released.left = reached.apart or bool(reached.behind)
    return released.left or bool(reached.absent)


def _link_results(to: Path, came: list[str], files: Iterable[str]) -> dict[str, str]:
    """Give the results of the work folder a second name: out/ckpt.pt for code/out/ckpt.pt, which
    shares its bytes. Return {second name: name}.

    None is given beside the runner's own files, in place of what is here, or where no hard link can
    be made.
    """
    links, own = {}, {path.split("/")[0] for path in files}
    for name in files:
        second = name.removeprefix("code/")
        is_result = any(name == path or name.startswith(f"{path}/") for path in came)
        if not is_result or second == name or second.split("/")[0] in own or _ODD.search(second):
            continue
        path = to / second
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            if Path(os.path.realpath(path.parent)) == path.parent:
                os.link(to / name, path)
                links[second] = name
    return links


def _unlink_results(to: Path) -> None:
    """Remove the second names that an earlier release gave: their files may be replaced now."""
    with suppress(OSError, ValueError, AttributeError, RecursionError):
        told = json.loads((to / MANIFEST).read_text(encoding="utf-8")).get("links", {})
        for second, name in told.items():
            path = to / second
            if not leads_out(second) and not leads_out(name) and path.samefile(to / name):
                path.unlink()


def claim(to: Path, origin: dict[str, str], coming: list[str]) -> None:
    """Make the folder here this run's, before anything is copied. Raises Unreleased."""
    try:
        to.mkdir(parents=True, exist_ok=True)
        write_manifest(to, origin, None, coming)
    except OSError as error:
        raise Unreleased(
            f"can't write to {to} ({error.strerror}); give another folder with --to"
        ) from None


def own_files(to: Path, origin: dict[str, str]) -> set[str]:
    """Return the files that earlier releases of this run brought into a folder.

    Raises Unreleased where the folder holds the results of another run: they would be overwritten,
    and be taken for this one's.
    """
    if (to / MANIFEST).is_symlink():
        raise Unreleased(f"{to / MANIFEST} is a link; give another folder with --to")
    told, whose = {}, ""
    try:
        told = json.loads((to / MANIFEST).read_text(encoding="utf-8"))
        source, name = told.get("source"), str(told["run_id"])
        if isinstance(source, dict):
            whose = "" if source == origin else f"{source.get('folder')} on {source.get('box')}"
        else:  # older: it says no more than the name
            whose = "" if name == _run_id(origin) else name
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError, AttributeError, KeyError, RecursionError):
        whose = f"a run that {MANIFEST} doesn't name"
    if whose:
        raise Unreleased(
            f"the results of {shown(whose, 300)} lie in {to}, and would be overwritten; give "
            "another folder with --to"
        )
    rows, coming = told.get("files"), told.get("coming")
    own = {row.get("path") for row in rows or [] if isinstance(row, dict)}
    return {path for path in own.union(coming or []) if isinstance(path, str)}


def _run_id(origin: dict[str, str]) -> str:
    return PurePosixPath(origin["folder"]).name or "run"


def write_manifest(
    to: Path,
    origin: dict[str, str],
    rows: list[dict] | None,
    coming: list[str] | None = None,
    links: dict[str, str] | None = None,
    places: dict[str, str] | None = None,
    checks: dict[str, Any] | None = None,
) -> None:
    """Write the list by which scripts/verify_local.py compares the folder, now and later.

    `rows`: None while the files are still on the way, so that nobody takes them for whole;
    `coming` are then the paths that may be there in part. `links`: second names of files here.
    `places`: where else than in the run's folder files come from, {name here: path on the box}.
    `checks`: what else is asked of them, as the script's `checks_of` has it, so that it answers the
    same whoever calls it.
    """
    manifest = {"schema": 1, "run_id": _run_id(origin), "source": origin, "files": rows}
    manifest |= {"coming": coming} if coming is not None else {}
    manifest |= {"links": links} if links else {}
    manifest |= {"places": places} if places else {}
    manifest |= {"checks": checks} if checks else {}
    write_whole(to / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode(), 0o644)


def verify(released: Released, verifier: Path, to: Path, load: Loads) -> None:
    """Run scripts/verify_local.py on the folder here, and take over its verdict and findings."""
    command = [sys.executable, str(verifier), str(to), "--manifest", str(to / MANIFEST), "--json"]
    command += ["--no-load"] if load == "nothing" else []
    command += ["--allow-pickle"] if load == "pickles" else []
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, errors="replace", timeout=HASHING
    )
    released.verdict = {0: "verified", 1: "bad"}.get(done.returncode, "unknown")
    try:
        rows = json.loads(done.stdout)["findings"]
        released.checked = [
            shown(f"{row['level']}: {row['path']}: {row['found']}; {row['do']}") for row in rows
        ][:20]
    except (ValueError, TypeError, KeyError):
        released.checked = shown_lines(done.stderr or done.stdout, 5)


def default_name(box: Box, folder: str) -> str:
    """Return a plain folder name for a box's run."""
    name = f"{'local' if box.local else box.host}-{folder.rstrip('/').rpartition('/')[2]}"
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:120] or "run"


def as_text(released: Released) -> str:
    """Return what came home, for a terminal."""
    size = f"{released.files} files, {released.bytes / 1e6:.1f} MB"
    out = [f"{released.verdict}: {size} from {released.source} in {shown(released.to)}"]
    out += [f"    result: {path}" for path in released.results[:20]]
    out += [f"    differs from the box: {path}" for path in released.differing[:20]]
    out += [f"    {line}" for line in released.checked]
    out += [f"    not pulled, a link: {link}" for link in released.links[:20]]
    out += [
        f"    not pulled, outside the run's folder: {path}; add --also {shlex.quote(path)}"
        for path in released.outside
    ]
    out += [f"    a result didn't come: {text}" for text in released.unreached]
    out += _elsewhere_in_words(released)
    if released.verdict == "incomplete" and released.is_all:
        out.append(
            "    all that the run left is here and verified, but not every result that the job "
            "names; rgt resume would go on with it"
        )
    elif released.verdict == "incomplete" and released.elsewhere:
        out.append(f"    don't end the box yet: {STILL_THERE}")
    elif released.verdict == "incomplete":
        out.append("    don't end the box yet: a result that the job names isn't here")
    elif released.verdict != "verified":
        out.append("    don't end the box yet: the results here aren't verified")
    return "\n".join(out)


def _elsewhere_in_words(released: Released) -> list[str]:
    does = "brings it" if released.left else "would have brought it; left there, as --leave says"
    lines = []
    for one in released.elsewhere[:MOST_TOLD]:
        size, flag = shown_bytes(one["bytes"]), f"--also {shlex.quote(one['path'])}"
        lines.append(
            f"    saved elsewhere, by the run's log: {one['path']} ({size}); {flag} {does}"
        )
    more = len(released.elsewhere) - MOST_TOLD
    return [*lines, f"    and {more} more; --json names them"] if more > 0 else lines
