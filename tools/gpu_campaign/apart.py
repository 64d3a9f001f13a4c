"""Programs in a process group of their own, with a time limit, and what they printed."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = re.compile(r"(?:/[\w.+-]+)+/lib/(python3[\w.]*/(?:site|dist)-packages)\b")
MOST = 20_000  # characters of an output that the record keeps: its end, where the error stands
WHOLE = 2_000_000  # of an output that a part reads


class Clock:
    """Seconds that a part, or the whole campaign, may still take."""

    def __init__(self, seconds):
        self.start = time.monotonic()
        self.until = self.start + seconds

    def left(self):
        """Return the seconds that are left, never less than 0."""
        return max(0.0, self.until - time.monotonic())

    def passed(self):
        """Return the seconds since the start."""
        return time.monotonic() - self.start

    def end(self):
        """Leave no time for anything else."""
        self.until = time.monotonic()


def environment(root, without_card=False):
    """Return the variables for all programs: the package first, no network, no card if asked."""
    env = dict(os.environ)
    server = str(root / "server")
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [server, env.get("PYTHONPATH", "")]))
    env.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", PYTHONUNBUFFERED="1")
    env.update(TOKENIZERS_PARALLELISM="false", PYTHONDONTWRITEBYTECODE="1")
    for name in ("CUDA_LAUNCH_BLOCKING", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        env.pop(name, None)  # they change what an error says
    if without_card:
        env["CUDA_VISIBLE_DEVICES"] = ""
    return env


def run(command, env, seconds, cwd=None, most=MOST):
    """Run a command and return {rc, seconds, timed_out, stdout, stderr}.

    The outputs go to files, so that a child that outlives the command can't hold up the campaign.
    Of each output the last `most` characters are kept. `rc` is negative for a signal, and None
    where the command can't be started.
    """
    start = time.monotonic()
    done = {"rc": None, "timed_out": False, "stdout": "", "stderr": ""}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            process = subprocess.Popen(
                [str(word) for word in command],
                env=env,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        except OSError as error:
            return dict(done, seconds=0.0, stderr=str(error))
        try:
            done["rc"] = process.wait(timeout=max(1.0, seconds))
        except subprocess.TimeoutExpired:
            done["timed_out"] = True
        finally:
            _end(process)
        if done["rc"] is None:
            done["rc"] = process.returncode
        for name, file in (("stdout", out), ("stderr", err)):
            file.seek(0)
            done[name] = shown(file.read().decode("utf-8", "replace"), most)
    return dict(done, seconds=round(time.monotonic() - start, 1))


def _end(process):
    """Kill what is left of the command's group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def anonymous(text):
    """Return the text without what names this machine: its host name, and where things lie."""
    places = [(str(ROOT), "/repo"), (sys.prefix, "/venv"), (os.path.expanduser("~"), "/home/me")]
    for place, instead in places:
        if len(place) > 4 and not place.startswith("/usr"):
            text = re.sub(rf"(?<![\w.-]){re.escape(place)}(?![\w-])", instead, text)
    text = LIBRARIES.sub(r"/venv/lib/\1", text)
    host = socket.gethostname()
    if len(host) > 2 and host != "localhost":
        text = re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", "HOST", text)
    return text


def shown(text, most=MOST):
    """Return the end of an output, where the error stands."""
    text = anonymous(text)
    return text if len(text) <= most else "[…]" + text[-most:]
