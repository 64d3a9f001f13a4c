"""Bring home the newest complete checkpoint of a run, and its results, from its durable place.

For a box that is gone, or whose own checkpoints are corrupt: nothing there is asked. Each file of a
checkpoint is compared with the digest that its manifest holds. What the job names as results is
known where the run was started from here.
"""

from __future__ import annotations

import fnmatch
import os
from contextlib import suppress
from pathlib import Path, PurePosixPath

from ..boxes.box import BadBox, Box
from ..catalogue import bundle
from ..runner import durable, fetch
from ..runner import spec as runner_spec
from ..runner.child import Failed
from ..runner.completeness import COMPLETE, files_of
from ..runner.context import Run
from ..runner.copies import place, place_at
from ..runner.copies.generations import ENDING, NEWEST, Generations
from ..runner.copies.plan import PARTIAL, There, newest
from ..runner.copies.tool import Tools
from ..text import sha256_of
from ..text.masking import shown
from . import Loads, known_jobs, release, rendered
from .job_reading import from_object
from .known_jobs import Known
from .release import Released
from .ssh_place import SshPlace
from .transfer.pulling import Unreleased, refuse_foreign, same


def bring(box: Box, run: str, address: str, to: Path | None, *, load: Loads) -> Released:
    """Bring what the durable place `address` has of a run: its `durable.to`, or the folder of its
    generations itself. Raises Unreleased.

    `box` and `run`: as the run was started. `to` and `load`: as `release.release` takes them.
    """
    known = known_jobs.find(box, run)
    own = _run_of(known, address)
    try:
        of = _place_at(address)
        found = _generations(of, address, own)
        there = sorted(newest(found.read()).values(), key=lambda one: one.name)
        results = _results(of, own)
    except Failed as error:
        raise Unreleased(f"{shown(address, 200)} doesn't answer: {error}") from None
    except ValueError as error:
        raise Unreleased(shown(str(error), 200)) from None
    lost = _newest_lost(of, found)
    name = known.name if known else found.name or "run"
    if known and found.foreign:
        raise Unreleased(
            f"the checkpoints at {found.home} are of the run {found.foreign!r}, not of {name}; "
            "name that run with --run"
        )
    if not there:
        why = f" ({lost})" if lost else ""
        raise Unreleased(f"no checkpoint lies at {shown(found.home, 200)}{why}; look there by hand")
    to = Path(os.path.realpath(to or Path("results") / release.default_name(box, name)))
    released = Released(shown(found.home), str(to), unreached=[lost] if lost else [])
    below = PurePosixPath(found.home).name[: -len(ENDING)]
    files = _files_of(found, there, below)
    origin = {"box": "durable", "folder": found.home}
    before = release.own_files(to, origin)
    refuse_foreign(to, [*files, *results], before)
    release.claim(to, origin, sorted(before.union(files, results)))
    came = []
    while there:
        one = there.pop(0)
        try:
            _bring_one(of, found, one, to / below, released)
            came.append(one)
        except fetch.Corrupt as fault:
            older = _older(found, one)
            if older is None:
                raise Unreleased(f"{one.name} can't be brought here: {fault}") from None
            released.checked.append(
                f"note: {shown(fault, 300)}, so it is damaged there; the one before it was"
                f" taken: {_named(older)} in place of {_named(one)}"
            )
            more = _files_of(found, [older], below)
            refuse_foreign(to, list(more), before.union(files))
            files |= more
            release.claim(to, origin, sorted(before.union(files, results)))
            there.insert(0, older)
    files = _files_of(found, came, below)
    files |= _bring_results(of, results, to, released)
    released.files, released.bytes = len(files), sum(size for size, _ in files.values())
    rows = [
        {"path": path, "bytes": size, "sha256": digest}
        for path, (size, digest) in sorted(files.items())
    ]
    pattern = own.spec.checkpoint.pattern if own else ""
    checks = {"checkpoints": f"{below}/{pattern or '*'}"}
    release.write_manifest(to, origin, rows, checks=checks)
    verifier = bundle.bundle_root() / "scripts" / "verify_local.py"
    notes = released.checked
    released.checked = []
    release.verify(released, verifier, to, load)
    released.checked = [*notes, *released.checked]
    if released.unreached and released.verdict == "verified":
        released.verdict = "incomplete"
    return released


def _newest_lost(of: place.Place, found: Generations) -> str:
    """Return what the note of the newest generation names that can't be brought, because its
    manifest is lost or damaged; '' where that is there. Raises Failed."""
    note = of.read(place.join(found.home, NEWEST)) or b""
    name = note.decode("utf-8", "replace").partition("\n")[0]
    whole = {one.name for one in found.listed() if one.state != PARTIAL}
    if name in whole or name not in found.known:
        return ""
    return shown(f"{name}: {NEWEST} calls it the newest, and its manifest is lost or damaged", 400)


def _place_at(address: str) -> place.Place:
    """Return the place of an address. Raises Failed, ValueError for one of no known kind."""
    tools = Tools(dict(os.environ), lambda: None)
    if runner_spec.place_kind(address) != "ssh":
        return place_at(address, tools)
    try:
        return SshPlace(address, tools)
    except BadBox as error:
        raise Failed(str(error)) from None


def _files_of(found: Generations, there: list[There], below: str) -> dict[str, tuple[int, str]]:
    """Return the files of generations, {path here: (bytes, SHA-256)}."""
    return {
        f"{below}/{name}": (size, digest)
        for one in there
        for name, (size, digest) in found.known[one.name]["files"].items()
    }


def _older(found: Generations, damaged: There) -> There | None:
    """Return what to take in place of a damaged generation, None for none of its kind."""
    found.call_corrupt(damaged.name)
    return newest(found.listed()).get(damaged.kind)


def _named(one: There) -> str:
    return shown(one.source, 200) + ("" if one.step is None else f" of step {one.step}")


def _run_of(known: Known | None, address: str) -> Run | None:
    """Return a run as its runner has it, at this place; None where no job is known."""
    if known is None:
        return None
    job = from_object(known.given)
    folder, work = rendered.folders(job, "ssh")
    places = {"run_dir": folder, "work_dir": work, "end": {}, "stop": {}}
    spec = runner_spec.of(rendered.job_of(job), places)
    spec.durable.to = address
    return Run(spec)


def _generations(of: place.Place, address: str, own: Run | None) -> Generations:
    """Return the generations at a place. Raises Failed and Unreleased."""
    name = own.spec.name if own else ""
    if address.rstrip("/").endswith(ENDING):
        return Generations(name, of, address.rstrip("/")[: -len(ENDING)], {})
    if own and own.checkpoints:
        return Generations(name, of, durable.address_of_checkpoints(own), {})
    found = [entry for entry in of.names(address) if entry.endswith(ENDING)]
    if len(found) != 1:
        which = f"{len(found)} folders" if found else "no folder"
        raise Unreleased(
            f"{which} whose name ends in {ENDING} right below {shown(address, 200)}; name the one "
            f"with the run's checkpoints: --durable PLACE/…{ENDING}"
        )
    return Generations(name, of, place.join(address, found[0][: -len(ENDING)]), {})


def _results(of: place.Place, own: Run | None) -> dict[str, str]:
    """Return the results that the job names and that lie there, {path here: address}; for one that
    doesn't lie there its address alone, as its path. Raises Failed."""
    found = {}
    for name in own.spec.results if own else ():
        address = durable.address_of(own, own.inside(name)) if own else ""
        above, _, last = address.rpartition("/")
        names = [entry for entry in of.names(above) if fnmatch.fnmatchcase(entry, last)]
        for there in [place.join(above, entry) for entry in names] or [address]:
            found[os.path.relpath(there, own.durable) if own else ""] = there if names else ""
    return found


def _bring_one(
    of: place.Place, found: Generations, one: There, to: Path, released: Released
) -> None:
    """Bring a generation, unless its files are here. Raises Unreleased, and Corrupt where its bytes
    aren't as its manifest says."""
    manifest = found.known[one.name]
    if one.state != COMPLETE:
        why = shown(manifest.get("why", ""), 200)
        released.checked.append(f"note: {one.source} was copied, not judged ({why})")
    if all(same(to / name, *about) for name, about in manifest["files"].items()):
        return
    try:
        to.mkdir(parents=True, exist_ok=True)
        fetch.install(of, place.join(found.home, one.name), manifest, str(to))
    except fetch.Corrupt:
        raise
    except (Failed, OSError) as error:
        raise Unreleased(f"{one.name} can't be brought here: {error}") from None


def _bring_results(
    of: place.Place, results: dict[str, str], to: Path, released: Released
) -> dict[str, tuple[int, str]]:
    """Bring results; return their files, {path here: (bytes, SHA-256)}."""
    files = {}
    for path, there in results.items():
        if there:
            (to / path).parent.mkdir(parents=True, exist_ok=True)
            with suppress(Failed):
                of.get(there, str(to / path))
        came = list(files_of(str(to / path))) if (to / path).exists() else []
        for file in came:
            files[os.path.relpath(file, to)] = os.path.getsize(file), sha256_of(Path(file))
        if came:
            released.results.append(shown(to / path, 400))
        else:
            why = "it couldn't be brought" if there else "it isn't at the durable place"
            released.unreached.append(shown(f"{path}: {why}", 400))
    return files
