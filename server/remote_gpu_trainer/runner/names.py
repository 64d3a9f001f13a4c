"""The names at the top of a run's folder, as one table. The reference shows it."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple


class Name(NamedTuple):
    """One name, or a pattern of names.

    `stays`: it means nothing elsewhere, so `rgt release` and `rgt pull` leave it on the box.
    `is_theirs`: what the program saves may lie in it.
    """

    name: str
    holds: str
    written: str
    read: str
    stays: bool = False
    is_theirs: bool = False


_ALL = "every verb"
_RUNNER, _SUPERVISOR, _COPY = "runner", "supervisor", "copy"
_BOTH = "runner, supervisor"
TABLE = (
    Name(
        "run.sh",
        "the script; supervisor, runner and copies are started by it",
        "start",
        _ALL,
    ),
    Name("run.d", "the job, and what runs it", "start", _ALL),
    Name("sent.json", "the job as it was sent", "rgt start", "rgt"),
    Name("code", "the program's files, as sent", "rgt start", "program", False, True),
    Name("must-restore", "nothing begins without a durable checkpoint", "rgt resume", _RUNNER),
    Name("state.json", "where the run is, and what the next decision goes by", _RUNNER, _ALL),
    Name("events.jsonl", "what happened, a line for each event", _BOTH, "status, rgt"),
    Name("series.jsonl", "the course: a row a minute", _RUNNER, "rgt"),
    Name("log", "the program's output; `runner.log`, `supervisor.log`, snapshots", _BOTH, _ALL),
    Name("log/train.times", "when it had come to which byte", _SUPERVISOR, "copy, rgt logs"),
    Name("log/synced.tsv", "a row for each item of each round of copies", _COPY, "people"),
    Name("log/code.*", "commit, difference and ignored files of the code", _RUNNER, "people"),
    Name("log/probe.txt", "what the probe saw of the first steps", _RUNNER, "people"),
    Name(".done", "the end: all that is expected is there and copied", _BOTH, _ALL),
    Name(".unsaved", "the end: trained to its end, the last copy isn't verified", _BOTH, _ALL),
    Name(".failed", "the end, with class, entry and reason", _BOTH, _ALL),
    Name(".preempted", "the end of a run that somebody asked to save and end", _BOTH, _ALL),
    Name(".refused", "the last start was refused by its checks", _RUNNER, "start, supervisor"),
    Name("attempt.json", "the attempt: number, checkpoint, program", _SUPERVISOR, _ALL),
    Name("lock", "locked by the runner: its pid, start and last look", _RUNNER, _ALL, True),
    Name("asked", "who asked the run to save and end", "stop, supervisor", _BOTH, True),
    Name("save-now", "the program is asked to save", _BOTH, "program, runner", True),
    Name("quiet", "`stop` after the end: no alarm, no end command", "stop", "supervisor, status"),
    Name("deadline", "the deadline and the first start, in seconds since 1970", _RUNNER, _ALL),
    Name("safe.json", "what is verified at the durable place", _COPY, _ALL),
    Name(".staged", "a copy that is made before it is sent", _COPY, _COPY, True),
    Name(".held.*", "what another attempt could write over", _RUNNER, "runner, copy"),
    Name("home", "HOME in a container", "program", "program", False, True),
    Name("elastic", "errors of ranks, as torchrun keeps them", "program", _RUNNER),
    Name("rehearsal", "the folder of a rehearsal", "rehearse", "rehearse", True, True),
    Name("queue.json", "what the cells of a queue came to", _RUNNER, "status, rgt"),
    Name("queue.rest", "the cells that aren't done, as a queue", "reconcile", "people"),
    Name("cells", "the folders of a queue's cells", _RUNNER, _ALL, False, True),
    Name("cell", "what a cell was started with", _RUNNER, _RUNNER),
    Name("parts", "the folders of a divided queue's parts", _RUNNER, _ALL, False, True),
    Name("node-*", "the folders of further nodes", _RUNNER, _ALL, False, True),
    Name(".spare", "room for the end of a run on a full disk", _RUNNER, _BOTH, True),
    Name("own", "what follows: what the run keeps for itself", _BOTH, _BOTH, True),
    Name("own/supervisor.lock", "locked by the supervisor: pid and start", _SUPERVISOR, _ALL),
    Name("own/sync.lock", "locked by a copy: the same, and how it gets on", _COPY, _BOTH),
    Name("own/end.lock", "locked by the end command", _SUPERVISOR, _SUPERVISOR),
    Name("own/start.lock", "locked by a start", "start", "start"),
    Name("own/waits-for-save", "the save that an end waits for", _BOTH, "stop, status"),
    Name("own/waits-for-room", "what the next attempt waits for", _RUNNER, "status"),
    Name("own/end.json", "why the box is still on although it was to end", _SUPERVISOR, "status"),
    Name("own/place.json", "the durable place that the run began with", "runner, copy", _ALL),
    Name("own/results.before", "results from before the first attempt", _RUNNER, _RUNNER),
    Name("own/rehearsed.json", "the bytes of a checkpoint, as rehearsed", "rehearse", "preflight"),
    Name("own/copies.json", "what was read, copied and proven", _COPY, _COPY),
    Name("own/last-sync", "how the last round of copies went", _COPY, _ALL),
    Name("own/final-sync", "all was compared after the program's last change", _COPY, _ALL),
    Name("own/whole.cache", "which checkpoints were found complete", "runner, copy", _ALL),
    Name("own/fetch.progress", "changes while a durable copy comes back", _RUNNER, _RUNNER),
    Name("own/install.done", "which environment was installed", _RUNNER, _RUNNER),
    Name("own/install.rc", "the exit code of the installation", _RUNNER, _RUNNER),
    Name("own/setup.failed", "the line of the setup that failed", "program", _RUNNER),
    Name("own/container.json", "what removes the program's container", _RUNNER, _BOTH),
    Name("own/hostfile", "the nodes, for DeepSpeed", _RUNNER, "program"),
    Name("own/ranks.json", "who was which rank", _RUNNER, "snapshot"),
    Name("own/rc", "the exit code of the attempt, and whether its log is whole", _SUPERVISOR, _ALL),
    Name("own/stacks", "what a fatal error of Python said", "program", _RUNNER),
    Name("own/python", "what enters the program's Python", _RUNNER, "program"),
    Name("own/probe", "what the probe notes of the first steps", "program", _RUNNER),
)  # fmt: skip
PLACE_FILE = ".rgt-place"  # in a durable place: its id
LEFT_THERE = tuple(one.name for one in TABLE if one.stays)


def find_name(name: str) -> Name | None:
    """Return the row of a name, None for one that isn't the runner's. A file that is just being
    written belongs to its name."""
    name = name.partition(".tmp.")[0]
    return next((one for one in TABLE if fnmatchcase(name, one.name)), None)
