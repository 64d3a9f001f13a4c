"""A durable place behind ssh as this machine reads it: by a transfer, so without rsync."""

from __future__ import annotations

from pathlib import Path

from ..boxes import box as boxes
from ..runner.child import Failed
from ..runner.copies.place import Place, far_path, host_of
from ..runner.copies.tool import Tools
from .transfer import pulling

_SHELL = ("sh", "-s", "--")
_READ = 'if test -e "$1"; then cat -- "$1"; else exit 44; fi'
_LIST = 'if test -d "$1"; then ls -1A -- "$1"; fi'


class SshPlace(Place):
    """A folder behind HOST:, to read alone."""

    needs = ("ssh",)

    def __init__(self, address: str, tools: Tools):
        """`address`: any of the place; it names the host."""
        super().__init__(tools)
        self._box = boxes.parse(host_of(address))

    def read(self, path: str) -> bytes | None:
        """Return a small file there; None where there is none."""
        answer = self._run(_READ, path)
        return None if answer.code == 44 else answer.out

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder there; [] where there is none."""
        return self._run(_LIST, folder).out.decode("utf-8", "surrogateescape").splitlines()

    def get(self, there: str, here: str) -> None:
        """Bring a folder, or a file, here."""
        to = Path(here)
        to.parent.mkdir(parents=True, exist_ok=True)
        places: dict[str, tuple[str, tuple[str, ...]]] = {to.name: (_path(there), ())}
        try:
            pulled = pulling.pull(self._box, places, to.parent, set)
        except pulling.Unreleased as error:
            raise Failed(str(error)) from None
        for name, why in pulled.differing.items():
            raise Failed(f"{name} didn't come whole: {why}")

    def _run(self, program: str, address: str) -> boxes.Reply:
        """Return the reply of a line of shell about an address. Raises Failed."""
        reply = boxes.run(self._box, program, interpreter=_SHELL, args=(_path(address),))
        if reply.outcome != "ok":
            raise Failed(reply.text)
        if reply.cut or reply.code not in (0, 44):
            raise Failed(reply.errors.strip()[:300] or f"the reply ended with {reply.code}")
        return reply


def _path(address: str) -> str:
    """Return a path there that no program takes for an option."""
    path = far_path(address)
    return path if path.startswith("/") else "./" + path
