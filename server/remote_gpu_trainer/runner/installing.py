"""Installs the job's environment file, once for a job, behind the job's setup."""

from __future__ import annotations

import json
import os
import select
import signal
from contextlib import suppress

from . import child, collectors, killing, memory, program, secrets, setting_up, why
from .child import Beat
from .context import Run, user_mask
from .core.model import Verdict

GRACE = 5.0  # seconds that an installation which is asked to end may take
TAIL = 200_000  # bytes of its output that are judged


def install(run: Run, beat: Beat) -> Verdict | None:
    """Install what the job names where that hasn't been done; return why it failed, None for
    success.

    The exit code of one that failed is in `install.rc`.
    """
    words = program.words_of(run.spec.rendered.install)
    done = json.dumps([run.spec.rendered.job_sha, run.spec.setup, words])
    run.folder.remove("own/install.rc")
    if not run.spec.rendered.install or run.folder.read("own/install.done") == done:
        return None
    run.event("install")
    run.log("installing the environment")
    killing.kill_program(run.folder)  # an installation that a killed runner left
    before, xids = memory.note_kills(run), collectors.xids()
    behind = setting_up.before(run.folder, run.spec.setup, words)
    code, said = _Installation(run, behind).run_it(beat)
    if run.asked:
        return Verdict("preempted", "", run.asked)
    if code == 0:
        run.folder.write("own/install.done", done)
        return None
    run.folder.write("own/install.rc", f"{code}\n")
    if fault := setting_up.failure(run.folder, run.spec.setup):
        return Verdict("setup", "", f"{fault} (log/install.log)")
    attempt = why.Attempt(0, code, 0, None, before, xids)
    verdict = why.classify(run, attempt, said)
    return verdict._replace(reason=f"environment: {verdict.reason} (log/install.log)")


class _Installation:
    """One process that installs, and its output in log/install.log."""

    def __init__(self, run: Run, words: list[str]):
        self.run, self.words = run, words
        self._env = program.environment(run, 0, "")
        values = [self._env[name] for name in secrets.names(run.spec) if self._env.get(name)]
        self._mask = secrets.Mask(values)
        self._size, self._tail = 0, b""
        run.folder.remove("log/install.log")

    def run_it(self, beat: Beat) -> tuple[int, bytes]:
        """Return its exit code and the end of its output; one that is asked to end is ended."""
        reader, writer = os.pipe()
        try:
            installer = self._start(writer)
        except OSError as error:
            code = 127 if isinstance(error, FileNotFoundError) else 126
            self._take(f"{error.filename}: {error.strerror}\n".encode("utf-8", "surrogateescape"))
            os.close(reader)
            return code, self._tail
        finally:
            os.close(writer)
        with open(reader, "rb", buffering=0) as output:
            os.set_blocking(reader, False)
            kill_at = None
            while installer.is_open:
                self._pump(output.fileno(), self.run.spec.timings.tick)
                if beat() and kill_at is None:
                    installer.send(signal.SIGTERM)
                    kill_at = self.run.up + GRACE
                if kill_at is not None and self.run.up >= kill_at:
                    installer.kill()
            self._pump(output.fileno(), 0)
        self._write(self._mask.flush())
        return installer.code or 0, self._tail

    def _start(self, output: int) -> child.Command:
        before = os.umask(user_mask())
        try:
            return child.Command(self.words, output=output, folder=self.run.work, env=self._env)
        finally:
            os.umask(before)

    def _pump(self, output: int, seconds: float) -> None:
        """Move what is there to the log; wait for it so long at most."""
        if not select.select([output], [], [], seconds)[0]:
            return
        with suppress(BlockingIOError):
            while piece := os.read(output, 65536):
                self._take(piece)
            # It closed its output and goes on.
            self.run.clock.nap(seconds)

    def _take(self, piece: bytes) -> None:
        self._write(self._mask.feed(piece))

    def _write(self, text: bytes) -> None:
        """Add to the log, which keeps to a log file's size; a full disk costs lines."""
        self._tail = (self._tail + text)[-TAIL:]
        self._size += len(text)
        if self._size <= self.run.spec.timings.log_bytes:
            self.run.folder.append("log/install.log", text.decode("utf-8", "surrogateescape"))
