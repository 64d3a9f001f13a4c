"""The probe beside a rehearsal and beside a run's first attempt: it looks for failures that no log
shows.

It is a file of run.d, which enters Python by way of PYTHONPATH, looks at the first steps
and takes its hooks off. Whatever becomes of it, the program goes on.
"""

from __future__ import annotations

import glob
import os
import shutil
import sys
from contextlib import suppress

from ..text.masking import strip_controls
from . import child, notices, parts
from .context import Run
from .state import StateFile

LIMIT = 60.0  # seconds to prepare it, and to report
SHORT = 3.0  # seconds to report where the run is asked to end
SHARE = 0.2  # of the rehearsal's time, for a program that has saved and isn't looked through yet
LOOKING = "looking at the first steps"
MOST = 300  # characters of a finding in the state


class Probe:
    """The probe of one folder's program. `file`: its own file, '' where none was sent or it failed.

    `why`: why nothing is looked at.
    """

    def __init__(self, run: Run):
        self.run, self.why = run, ""
        self.file = parts.folder("probe.py") if run.spec.rendered.probe else ""

    @property
    def place(self) -> str:
        """The folder that the probe's processes write into."""
        return self.run.folder.at("own/probe")

    @property
    def folder(self) -> str:
        """What stands first on PYTHONPATH, '' without a probe."""
        return self.place if self.file else ""

    def prepare(self) -> None:
        """Put it where the program imports it from."""
        shutil.rmtree(self.place, ignore_errors=True)
        if self.file and self.ask("--prepare", self.place) is None:
            self.file = ""

    def is_seen(self) -> bool:
        """Return whether every process that began to report has seen all of its steps."""
        files = self._reports()
        return bool(files) and all('"whole": true' in _text(path) for path in files)

    def has_begun(self) -> bool:
        """Return whether any process has reported."""
        return bool(self._reports())

    def report_words(self) -> list[str]:
        """Return the words that make its report: JSON and page beside the log, text to stdout."""
        found = (self.run.folder.at("log", f"probe.{kind}") for kind in ("json", "html"))
        words = [word for pair in zip(("--json", "--page"), found) for word in pair]
        return ["--report", self.place, *words]

    def started(self, words: list[str]) -> child.Command:
        """Return the probe's program, begun with these words. Raises OSError."""
        with open(self.run.folder.at("log/runner.log"), "ab") as log:
            return child.Command(
                [sys.executable, self.file, *words],
                env={**os.environ, "LC_ALL": "C"},
                errors=log,
            )

    def ask(self, *words: str) -> str | None:
        """Return what the probe says; None where it fails, and then `why` says so."""
        try:
            tool = self.started(list(words))
        except OSError as error:
            self.why = f"{self.file} can't be started: {error.strerror}"
            return None
        code = tool.code if tool.finish(LIMIT) else child.TOO_LONG
        if code == 0:
            return tool.text().rstrip("\n")
        self.why = f"{self.file} ended with {code}; see {self.run.folder.at('log/runner.log')}"
        return None

    def _reports(self) -> list[str]:
        return glob.glob(os.path.join(glob.escape(self.place), "rank-*.json"))


class RehearsalProbe(Probe):
    """The probe of a rehearsal, which prints what it saw."""

    def __init__(self, run: Run):
        super().__init__(run)
        self._say_why()
        self.prepare()
        self._say_why()

    def waits(self, saved_up: float) -> bool:
        """Return whether a program that saved at `saved_up` goes on for the probe."""
        limit = self.run.spec.rehearsal.minutes * 60 * SHARE
        if not self.file or self.run.up >= saved_up + limit:
            return False
        return self.has_begun() and not self.is_seen()

    def tell(self) -> None:
        """Print what it saw, and leave it as JSON and as a page beside the log."""
        if not self.file:
            return
        said = self.ask(*self.report_words())
        self._say_why()
        if said:
            print(strip_controls(said), flush=True)
        shutil.rmtree(self.place, ignore_errors=True)

    def _say_why(self) -> None:
        if self.why:
            print(f"probe: not looked at: {self.why}", flush=True)
            self.why = ""


class FirstSteps(Probe):
    """The probe of a run's first attempt: its verdict goes into the state, and `wrong` to whoever
    is notified. Nothing waits for it, and a later attempt is without it.
    """

    def __init__(self, run: Run, state: StateFile):
        super().__init__(run)
        self.state = state
        self._tool: child.Command | None = None
        self._asked_at = 0.0
        self._is_over = not self.file or run.folder.has("log/probe.json")

    def begin(self) -> str:
        """Return the folder for PYTHONPATH, '' for an attempt without the probe."""
        if self._is_over or self.state.attempt != 1:
            self._is_over = True
            return ""
        self.why = ""
        self.prepare()
        if self.why:
            self._end(f"not looked at: {self.why}")
        else:
            self.state.probe = LOOKING
        return self.folder

    def look(self, at_the_end: bool = False) -> None:
        """Ask for the report once all steps are seen, and take it when it is there.

        At the end of the attempt what was seen by then counts, and the report is waited for.
        """
        if self._is_over and self.state.probe == LOOKING:
            self._end("not looked at: the runner that looked was gone")
        if self._is_over:
            return
        if self._tool is None and (self.is_seen() or (at_the_end and self.has_begun())):
            try:
                self._tool = self.started(self.report_words())
            except OSError as error:
                self._end(f"not looked at: {error.strerror}")
                return
            self._asked_at = self.run.up
        if self._tool is None and at_the_end:
            self._end("not looked at: no step of a torch optimizer was seen")
        elif self._tool is None:
            return
        elif at_the_end or not self._tool.is_open or self.run.up >= self._asked_at + LIMIT:
            # Who is asked to end may have half a minute, and has something to save.
            seconds = (SHORT if self.run.asked else LIMIT) if at_the_end else 0.0
            self._read_report(self._tool, seconds)

    def _read_report(self, tool: child.Command, seconds: float) -> None:
        """Take the report in, once it is there within so many seconds."""
        is_there = tool.finish(seconds) and tool.code == 0
        report = self.run.folder.json("log/probe.json")
        if not is_there or not report:
            self._end(f"not looked at: its report failed; see {self.run.folder.at('log')}")
            return
        self.run.folder.write("log/probe.txt", strip_controls(tool.text()))
        self._end(in_a_line(report))
        if report.get("verdict") == "wrong":
            notices.notify(self.run, f"probe: {self.state.probe}")

    def _end(self, line: str) -> None:
        self._is_over = True
        self.state.probe = line
        self.run.event("probe", said=line)
        self.run.log(f"probe: {line}")
        shutil.rmtree(self.place, ignore_errors=True)


def in_a_line(report: dict[str, object]) -> str:
    """Return a verdict with the findings that it rests on."""
    verdict = strip_controls(str(report.get("verdict") or ""))
    found = report.get("findings")
    sentences = [
        "step {}: {} [{}]".format(*(one.get(key) for key in ("step", "what", "id")))
        for one in (found if isinstance(found, list) else [])
        if isinstance(one, dict) and one.get("level") == verdict
    ]
    line = strip_controls(
        "; ".join([f"{verdict}: {sentences[0]}", *sentences[1:]]) if sentences else verdict
    )
    return " ".join(line.split())[:MOST]


def _text(path: str) -> str:
    with suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
    return ""
