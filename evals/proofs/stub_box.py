"""A folder of programs that comes first on PATH, so that the whole command line of a Check runs without its box.

A program prints what the real one printed on a real box; the proof says where that text is from.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path


class Box:
    """Its programs are found first, and so are its Python packages. Files of the box lie in `folder`."""

    def __init__(self, folder: Path):
        self.folder, self.bin, self.site = folder, folder / "bin", folder / "site"
        self.bin.mkdir()
        self.site.mkdir()
        for name in ("python", "python3"):
            self.program(name, f'exec {shlex.quote(sys.executable)} "$@"')

    def program(self, name: str, script: str) -> None:
        """A program of this name, in sh."""
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)

    def prints(self, name: str, text: str = "", code: int = 0) -> None:
        """A program that prints this whatever it is asked."""
        (self.folder / f"{name}.txt").write_text(text, encoding="utf-8")
        self.program(name, f"cat {shlex.quote(str(self.folder / f'{name}.txt'))}; exit {code}")

    def package(self, name: str, version: str, init: str = "") -> None:
        """A Python package, with the metadata that an installation leaves."""
        info = self.site / f"{name}-{version}.dist-info"
        for folder in (self.site / name, info):
            folder.mkdir(exist_ok=True)
        (self.site / name / "__init__.py").write_text(init, encoding="utf-8")
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")

    def run(self, code: str, **variables: str) -> subprocess.CompletedProcess:
        """Run it in bash, in the box's folder."""
        path = f"{self.bin}{os.pathsep}{os.environ['PATH']}"
        env = {**os.environ, "PATH": path, "PYTHONPATH": str(self.site), "LC_ALL": "C.UTF-8"}
        return subprocess.run(
            ["bash", "-c", code],
            cwd=self.folder,
            env=env | variables,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def said(self, code: str, **variables: str) -> str:
        """What it printed there, without the errors."""
        return self.run(code, **variables).stdout.strip()
