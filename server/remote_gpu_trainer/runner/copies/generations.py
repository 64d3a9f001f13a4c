"""The generations at the durable place: checkpoints, each in a folder of its own.

    FOLDER.generations/NEWEST                     which one to go on from, for a person
    FOLDER.generations/gen-LINE-STEP-DIGEST/files/...      as they lay in FOLDER
    FOLDER.generations/gen-LINE-STEP-DIGEST/manifest.json  sizes and digests; written last

Without its manifest a generation counts for nothing: its copy was cut, which `copying.json` shows.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from typing import Any

from ..completeness import COMPLETE, CORRUPT, UNKNOWN
from .place import Place, join
from .plan import PARTIAL, There, newest

ENDING = ".generations"  # of the name of their folder
MANIFEST, BEGUN = "manifest.json", "copying.json"
NAME = re.compile(r"gen-\d+-(\d+|x)-[0-9a-f]{8}$")
NEWEST = "NEWEST"
WHOLE = (COMPLETE, UNKNOWN)  # states of what is all there, whatever it proves


def home(folder: str) -> str:
    """Return where the generations of a checkpoint folder lie, by its own address there."""
    return folder.rstrip("/") + ENDING


def name_of(line: int, step: int | None, digest: str) -> str:
    """Return the name of a generation."""
    return f"gen-{line}-{'x' if step is None else step}-{digest[:8]}"


def digest_of(files: dict[str, str]) -> str:
    """Return the digest of a checkpoint by the digests of its files."""
    rows = "".join(f"{digest}  {name}\n" for name, digest in sorted(files.items()))
    return hashlib.sha256(rows.encode("utf-8", "surrogateescape")).hexdigest()


class Generations:
    """Those of the run of this name, '' for whatever run's. `known`: manifests by name, as read
    before; kept up to date."""

    def __init__(self, name: str, place: Place, folder: str, known: dict[str, dict[str, Any]]):
        self.name, self.place, self.home, self.known = name, place, home(folder), known
        self.foreign = ""  # another run whose checkpoints lie there
        self._note: bytes | None = None  # what NEWEST says

    def read(self) -> list[There]:
        """Return what lies there. Raises Failed."""
        names = [name for name in self.place.names(self.home) if NAME.match(name)]
        for name in set(self.known) - set(names):
            del self.known[name]
        for name in names:
            if self.known.get(name, {}).get("state") not in (COMPLETE, UNKNOWN, CORRUPT):
                manifest = _parse(self.place.read(join(self.home, f"{name}/{MANIFEST}")))
                if not manifest:
                    manifest = _parse(self.place.read(join(self.home, f"{name}/{BEGUN}")))
                    manifest = {**manifest, "state": PARTIAL} if manifest else {}
                self.known[name] = manifest
            if self.name and self.known[name].get("run", self.name) != self.name:
                self.foreign = str(self.known.pop(name)["run"])
        return self.listed()

    def listed(self) -> list[There]:
        """Return what lay there when it was read last."""
        found = (_there(name, manifest) for name, manifest in self.known.items())
        return [one for one in found if one is not None]

    def find(self, digest: str) -> str:
        """Return the name of a generation that lies there as a whole and has this digest, '' for
        none."""
        for name, manifest in self.known.items():
            if digest and manifest.get("digest") == digest and manifest.get("state") in WHOLE:
                return name
        return ""

    def refusal(self) -> str:
        """Return why nothing of this run may go there, '' where nothing speaks against it."""
        if not self.foreign:
            return ""
        return (
            f"the checkpoints at {self.home} are of the run {self.foreign!r}; give this run another"
            " durable.to"
        )

    def begin(self, name: str, manifest: dict[str, Any]) -> None:
        """Say that a copy begins."""
        self.known.pop(name, None)
        text = json.dumps(manifest) + "\n"
        self.place.write(join(self.home, f"{name}/{BEGUN}"), text.encode())

    def commit(self, name: str, manifest: dict[str, Any]) -> None:
        """Make a generation count: all of it is there and was compared."""
        text = json.dumps(manifest, indent=1) + "\n"
        self.place.write(join(self.home, f"{name}/{MANIFEST}"), text.encode())
        self.known[name] = manifest

    def mend_manifest(self, name: str) -> None:
        """Write the manifest of a generation again where it was lost there: without it nobody else
        finds the bytes. Raises Failed."""
        if not _parse(self.place.read(join(self.home, f"{name}/{MANIFEST}"))):
            manifest = {key: value for key, value in self.known[name].items() if key != "ours"}
            self.commit(name, manifest)
            self.known[name] = {**manifest, "ours": True}

    def call_corrupt(self, name: str) -> None:
        """Note that the bytes there aren't as the manifest says: nobody is to go on from it. It
        stays for a person to look at, until it is superseded."""
        self.known[name] = {**self.known[name], "state": CORRUPT}

    def drop(self, name: str) -> None:
        """Remove a generation."""
        if NAME.match(name):
            self.place.drop(join(self.home, name))
            self.known.pop(name, None)

    def tell_newest(self) -> None:
        """Leave a note for a person, who has this place and nothing else."""
        best = sorted(newest(self.listed()).values(), key=_worth)
        if not best or best[-1].role:
            return  # nothing that a program could go on from
        lines = [best[-1].name, ""]
        for one in reversed(best):
            saved = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(one.at / 1e9))
            about = "" if self.known[one.name].get("named") else "about "
            step = "" if one.step is None else f", {about}step {one.step}"
            state = one.state if one.state == COMPLETE else "copied, not judged"
            state += ", not a checkpoint by the job's pattern or by its name" if one.role else ""
            lines.append(f"{one.name}: {one.source}{step}, saved {saved}, {state}")
        lines += ["", "To go on from one: rsync -a GENERATION/files/ CHECKPOINT_FOLDER/", ""]
        text = "\n".join(lines).encode("utf-8", "surrogateescape")
        path = join(self.home, NEWEST)
        if self._note is None:
            self._note = self.place.read(path)
        if self._note != text:
            self.place.write(path, text)
            self._note = text


def _worth(one: There) -> tuple[bool, bool, bool, int]:
    return not one.role, one.state == COMPLETE, one.step is not None, one.at


def _there(name: str, manifest: dict[str, Any]) -> There | None:
    """Return a generation by its manifest, None where that says nothing."""
    try:
        if any(name.startswith("/") or ".." in name.split("/") for name in manifest["files"]):
            return None  # nobody's own manifest
        step = manifest["step"]
        return There(
            name,
            str(manifest["source"]),
            str(manifest["kind"]),
            int(manifest["line"]),
            None if step is None else int(step),
            str(manifest["state"]),
            str(manifest["digest"]),
            str(manifest["stamp"]),
            int(manifest["saved"]),
            int(manifest["size"]),
            bool(manifest.get("ours")),
            bool(manifest["anew"]),
            int(manifest.get("copied") or 0),
            None if manifest.get("apart") is None else float(manifest["apart"]),
            str(manifest.get("role") or ""),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _parse(text: bytes | None) -> dict[str, Any]:
    try:
        manifest = json.loads(text or b"null")
    except ValueError:
        return {}
    return manifest if isinstance(manifest, dict) else {}
