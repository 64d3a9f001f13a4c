"""The probe in a rehearsal: a file beside the script, which enters Python by way of PYTHONPATH.

It looks for failures that no log shows. Whatever becomes of it, the rehearsal goes on.
"""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
from contextlib import suppress

from .context import Run

LIMIT = 60.0  # seconds to prepare it, and to report
SHARE = 0.2  # of the rehearsal's time, for a program that has saved and isn't looked through yet


class Probe:
    """`run` is the rehearsal's; `real` is the run beside which it lies."""

    def __init__(self, run: Run, real: Run):
        self.run, self.folder = run, run.folder.at("probe")
        self.file = self._find(real) if run.spec.probe else ""
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.file and self._ask("--prepare", self.folder) is None:
            self.file = ""
        if self.file:
            variables = run.spec.variables
            held = variables.get("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
            path = f"{self.folder}:{held}" if held else self.folder
            run.spec.variables = {**variables, "PYTHONPATH": path}

    def _find(self, real: Run) -> str:
        """Return the probe's file, '' where it wasn't sent; that is told."""
        place = os.path.join(real.base, "probe.py")
        for path in (os.path.splitext(real.script)[0] + ".probe.py", place):
            if os.path.isfile(path):
                return path
        how = f"rgt probe --script >{place}"
        if real.spec.target != "local":
            how = f"rgt probe --script | ssh BOX 'cat >{place}'"
        print(f"probe: not looked at: no {place}; send it with: {how}", flush=True)
        return ""

    def waits(self, saved_up: float) -> bool:
        """Return whether a program that saved at `saved_up` goes on for the probe."""
        limit = self.run.spec.rehearse_minutes * 60 * SHARE
        if not self.file or self.run.up >= saved_up + limit:
            return False
        files = glob.glob(os.path.join(glob.escape(self.folder), "rank-*.json"))
        return bool(files) and not any('"whole": true' in _text(path) for path in files)

    def tell(self) -> None:
        """Print what it saw, and leave it as JSON and as a page beside the log."""
        if not self.file:
            return
        found = (self.run.folder.at("log", f"probe.{kind}") for kind in ("json", "html"))
        words = [word for pair in zip(("--json", "--page"), found) for word in pair]
        said = self._ask("--report", self.folder, *words)
        if said:
            print(shown(said), flush=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _ask(self, *words: str) -> str | None:
        """Return what the probe says; None where it fails, which is told."""
        log = self.run.folder.at("log", "runner.log")
        code = 127
        with suppress(OSError), open(log, "ab") as errors:
            try:
                done = subprocess.run(
                    [sys.executable, self.file, *words],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    timeout=LIMIT,
                    cwd=self.run.work,
                )
                if done.returncode == 0:
                    return done.stdout.decode("utf-8", "replace").rstrip("\n")
                code = done.returncode
            except subprocess.TimeoutExpired:
                code = 124
        print(f"probe: not looked at: {self.file} ended with {code}; see {log}", flush=True)
        return None


def shown(text: str) -> str:
    """Return a text of a program without what steers a terminal."""
    return "".join(char for char in text if char.isprintable() or char in "\n\t")


def _text(path: str) -> str:
    with suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
    return ""
