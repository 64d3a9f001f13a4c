"""Which proofs and pairs a change may have broken: those whose entry, file or pins it touched, and a seventh of the others by hash."""

from __future__ import annotations

import hashlib
import re
import subprocess
from pathlib import Path

LAST = 20  # commits that count as the change where a clone has no other branch to compare with
SHARE = 7


class Changed:
    """What differs between a base and the files of a clone, committed or not.

    The base is where HEAD left origin/main. On main itself, or without it, it is the commit 20
    before HEAD, or the oldest that the clone holds; without git nothing is known to have changed.
    """

    def __init__(self, root: Path):
        self.root = root
        self.head = self._git("rev-parse", "HEAD").strip()
        self.base = self._git("merge-base", "HEAD", "origin/main").strip()
        if self.base in ("", self.head):
            last = self._git("rev-list", "--first-parent", f"--max-count={LAST + 1}", "HEAD")
            self.base = (last.split() or [""])[-1]
        new = self._git("ls-files", "--others", "--exclude-standard")
        names = self._git("diff", "--name-only", self.base) + new if self.base else ""
        self.files = set(names.splitlines())
        self.entries = {name for path in self.files for name in self._entries_of(path)}
        pins = self._pins(self._before("pyproject.toml")) != self._pins(self._now("pyproject.toml"))
        self.all_pairs = bool(self.base and pins)
        shared = [
            name for name in self.files if re.fullmatch(r"evals/proofs/(?!test_).*\.py", name)
        ]
        self.all_proofs = bool(self.all_pairs or shared)

    def keeps(self, proof: str) -> bool:
        """Whether the proof in this file, such as evals/proofs/test_o3.py, is to run."""
        entry = Path(proof).stem.removeprefix("test_").upper()
        return (
            self.all_proofs or proof in self.files or entry in self.entries or self.is_drawn(proof)
        )

    def keeps_pair(self, name: str) -> bool:
        """Whether the probe's pair of this entry, or its healthy program of this name, is to run."""
        places = (f"evals/probe/{name}/", f"evals/probe/healthy/{name}.py")
        touched = any(path.startswith(places) for path in self.files)
        return self.all_pairs or touched or name in self.entries or self.is_drawn(name)

    def is_drawn(self, name: str) -> bool:
        """Whether a name is of the seventh that runs anyway; each commit draws another."""
        return hashlib.sha256(f"{self.head} {name}".encode()).digest()[0] % SHARE == 0

    def _entries_of(self, path: str) -> set[str]:
        """The entries of a page that are new or have another text."""
        if not re.fullmatch(r"(references|profiles)/.*\.md", path):
            return set()
        before, now = (dict(_sections(text)) for text in (self._before(path), self._now(path)))
        return {name for name, text in now.items() if before.get(name) != text}

    def _pins(self, text: str) -> list[str]:
        return re.findall(r"^proofs = \[.*?^\]", text, re.S | re.M)

    def _before(self, path: str) -> str:
        return self._git("show", f"{self.base}:{path}")

    def _now(self, path: str) -> str:
        file = self.root / path
        return file.read_text(encoding="utf-8") if file.is_file() else ""

    def _git(self, *words: str) -> str:
        """What git prints; nothing where it fails or is missing."""
        command = ["git", "-C", str(self.root), *words]
        try:
            done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
        except OSError:
            return ""
        return done.stdout if done.returncode == 0 else ""


def _sections(page: str) -> list[tuple[str, str]]:
    return re.findall(r"^### ([A-Z]+\d+) (.*?)(?=^#{1,3} |\Z)", page, re.S | re.M)
