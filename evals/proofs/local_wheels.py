"""A folder of tiny wheels that stands for an index, and pip that installs from it into an environment of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path


def add_wheel(index: Path, name: str, version: str, *needs: str) -> None:
    """A wheel without code; `needs` are its requirements, such as 'dep>=1'."""
    index.mkdir(exist_ok=True)
    folder = f"{name}-{version}.dist-info"
    required = "".join(f"Requires-Dist: {need}\n" for need in needs)
    with zipfile.ZipFile(index / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        head = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        wheel.writestr(f"{folder}/METADATA", head + required)
        wheel.writestr(
            f"{folder}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{folder}/RECORD", "")


class Environment:
    """An empty environment; pip and uv from outside install into it."""

    def __init__(self, folder: Path, index: Path):
        venv.create(folder, with_pip=False)
        self.python, self.index = folder / "bin/python", index

    def pip(self, *arguments: str) -> tuple[int, str]:
        """(exit status, what pip printed)."""
        return self._run(sys.executable, "-m", "pip", "--python", self.python, *arguments)

    def uv(self, *arguments: str) -> tuple[int, str]:
        """(exit status, what `uv pip` printed): for what pip takes seconds for."""
        return self._run("uv", "pip", *arguments, "--offline", "--python", self.python)

    def _run(self, *command: object) -> tuple[int, str]:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "UV_"))}
        env |= {"PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        if "install" in command:
            command += ("--no-index", "--find-links", self.index)
        done = subprocess.run(
            [str(word) for word in command], capture_output=True, text=True, timeout=60, env=env
        )
        return done.returncode, done.stdout + done.stderr

    def versions(self) -> dict[str, str]:
        """{name: version} of what is installed."""
        found = self.python.parent.parent.glob("lib/python*/site-packages/*.dist-info")
        return dict(folder.name.removesuffix(".dist-info").split("-") for folder in found)
