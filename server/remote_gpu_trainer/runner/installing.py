"""Installs the job's environment file, once for a job."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from contextlib import suppress

from . import collectors, memory, procs, program, secrets, why
from .asking import Beat
from .context import Run, user_mask
from .why import Verdict

GRACE = 5.0  # seconds that a setup which is asked to end may take
TAIL = 200_000  # bytes of its output that are judged


def install(run: Run, beat: Beat) -> Verdict | None:
    """Run the job's setup where it hasn't run yet; return why it failed, None for success.

    The exit code of one that failed is in `setup.rc`.
    """
    words = program.words_of(run.spec.setup)
    done = json.dumps([run.spec.job_sha, words])
    run.folder.remove("setup.rc")
    if not run.spec.setup or run.folder.read("setup.done") == done:
        return None
    run.event("setup")
    run.log("setup")
    procs.kill_program(run.folder)  # a setup that a killed runner left
    before, xids = memory.note(run), collectors.xids()
    code, said = _Setup(run, words).run_it(beat)
    if run.asked:
        return Verdict("preempted", "", run.asked)
    if code == 0:
        run.folder.write("setup.done", done)
        return None
    run.folder.write("setup.rc", f"{code}\n")
    attempt = why.Attempt(0, code, "", "", 0, None, before, xids)
    verdict = why.classify(run, attempt, said)
    return verdict._replace(reason=f"setup: {verdict.reason} (log/setup.log)")


class _Setup:
    """One process of the setup, and its output in log/setup.log."""

    def __init__(self, run: Run, words: list[str]):
        self.run, self.words = run, words
        self._env = program.environment(run, 0, "")
        values = [self._env[name] for name in secrets.names(run.spec) if self._env.get(name)]
        self._mask = secrets.Mask(values)
        self._size, self._tail = 0, b""
        run.folder.remove("log/setup.log")

    def run_it(self, beat: Beat) -> tuple[int, bytes]:
        """Return its exit code and the end of its output; one that is asked to end is ended."""
        child = self._start()
        if isinstance(child, OSError):
            code = 127 if isinstance(child, FileNotFoundError) else 126
            self._take(f"{child.filename}: {child.strerror}\n".encode("utf-8", "surrogateescape"))
            return code, self._tail
        assert child.stdout
        with child.stdout as output:
            os.set_blocking(output.fileno(), False)
            kill_at = None
            while child.poll() is None:
                self._pump(output.fileno(), self.run.spec.timings.tick)
                if beat() and kill_at is None:
                    _signal(child, signal.SIGTERM)
                    kill_at = self.run.up + GRACE
                if kill_at is not None and self.run.up >= kill_at:
                    _signal(child, signal.SIGKILL)
            self._pump(output.fileno(), 0)
        self._write(self._mask.flush())
        code = child.returncode
        return code if code >= 0 else 128 - code, self._tail

    def _start(self) -> subprocess.Popen[bytes] | OSError:
        before = os.umask(user_mask())
        try:
            return subprocess.Popen(
                self.words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=self.run.work,
                env=self._env,
            )
        except OSError as error:
            return error
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
            self.run.folder.append("log/setup.log", text.decode("utf-8", "surrogateescape"))


def _signal(child: subprocess.Popen[bytes], sign: int) -> None:
    with suppress(OSError):
        os.killpg(child.pid, sign)
