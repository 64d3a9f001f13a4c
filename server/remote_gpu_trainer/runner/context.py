"""A run in one hand: its job, folder, clock, paths and rank, and how it tells what happens."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from .clock import Clock
from .folder import Folder

if TYPE_CHECKING:  # `status` goes without a socket
    from .link import Link

PLACE = "own/place.json"  # in the run's folder: the durable place that it began with
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})(?=/|\Z)", re.ASCII)


def home(path: str) -> str:
    """Return a path with a leading ~ as the home folder; a login without HOME has one too."""
    return os.path.expanduser(path) if path == "~" or path.startswith("~/") else path


def plain_environment() -> dict[str, str]:
    """Return this process's environment without this tool's settings, the run's mark among them,
    but with the mark of the processes that work for it."""
    names = [name for name in os.environ if not name.startswith("RGT_") or name == "RGT_OWN"]
    return {name: os.environ[name] for name in names}


def user_mask() -> int:
    """Return the user's own umask, which the program and the copies keep."""
    text = os.environ.get("RGT_UMASK", "")
    return int(text, 8) if text.isdigit() else 0o022


class Run:
    """What every module is handed. Made once for each process of a run.

    `spec`: the job, as spec.py reads it. `base`: the run folder; `folder`: the same,
    but node-N in it for a further node. `work`, `checkpoints`, `durable`: resolved paths, '' for
    none. `rank`: this node's number. `script`: the path of the run.sh that runs;
    `job_folder`: of its job in run.d, '' for none.
    """

    def __init__(
        self,
        spec: SimpleNamespace,
        script: str = "",
        rank: int = 0,
        clock: Clock | None = None,
        here: str = "",
        job_folder: str = "",
    ):
        self.spec, self.script, self.rank, self.clock = spec, script, rank, clock or Clock()
        self.job_folder = job_folder
        self.base = os.path.abspath(home(spec.rendered.run_dir)).rstrip("/") or "/"
        self.folder = Folder(self.base if rank == 0 else os.path.join(self.base, f"node-{rank}"))
        work = home(spec.rendered.work_dir) or self.base
        self.work = os.path.normpath(os.path.join(here or os.getcwd(), work))
        self.given_checkpoints = spec.checkpoint.folder
        folder = home(spec.checkpoint.folder)
        self.checkpoints = os.path.normpath(os.path.join(self.work, folder)) if folder else ""
        self.durable = self._place(home(spec.durable.to))
        self.asked = ""  # why the run is to save and end
        self.has_begun = False  # of a runner: the run is its own, and isn't refused any more
        self.link: Link | None = None  # to the supervisor, in a runner that it forked

    def _place(self, address: str) -> str:
        """Return the durable place with its leading $NAME filled in.

        A later login may not have the variable: then it is what the run began with.
        """
        found = _VARIABLE.match(address)
        if not found:
            return address
        value = os.environ.get(found[1] or found[2])
        if value:
            return value + address[found.end() :]
        return str(self.folder.json(PLACE).get("to", address))

    @property
    def now(self) -> float:
        """Seconds since 1970."""
        return self.clock.now()

    @property
    def up(self) -> float:
        """Seconds of the clock that nobody sets."""
        return self.clock.up()

    def event(self, name: str, **fields: Any) -> None:
        """Add a line to events.jsonl, each field as text. It never fails: the run goes on."""
        texts = {key: "" if value is None else str(value) for key, value in fields.items()}
        line = {"t": int(self.now), "event": name, **texts}
        self.folder.append("events.jsonl", json.dumps(line) + "\n")

    def log(self, text: str) -> None:
        """Add a line to log/runner.log and to standard output."""
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.now))
        line = text.replace("\n", " ")
        self.folder.append("log/runner.log", f"{stamp} {line}\n")
        with suppress(OSError):  # a closed terminal must not end the run
            print(line, flush=True)

    def inside(self, path: str) -> str:
        """Return a path of the job, absolute: a relative one starts in the work folder."""
        return os.path.normpath(os.path.join(self.work, home(path)))

    def self_command(self, *words: str) -> list[str]:
        """Return the words that start another process of this run, by its own copy of run.sh."""
        rank = ["--node-rank", str(self.rank)] if self.rank else []
        return ["bash", self.own_script, *words, *rank]

    @property
    def own_script(self) -> str:
        """The run.sh of this run: its copy in the run folder, else the one that was called."""
        copies = (self.folder.at("run.sh"), os.path.join(self.base, "run.sh"))
        return next(filter(os.path.exists, copies), self.script)


def say(text: str) -> None:
    """Print a line for whoever called a verb."""
    print(text, file=sys.stderr, flush=True)
