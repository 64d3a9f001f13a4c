"""The parts of a run script, and which of them a job needs.

A part is a plain bash file that only defines functions and tables. A caller never asks whether a
part is there: where a job leaves one out, a small one from `without/` answers in its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path

TEMPLATES = Path(__file__).resolve().parent / "templates"
CLOUDS = ("rclone:", "s3://", "gs://")

Value = str | int | float | Sequence[str]
Values = Mapping[str, Value]
Condition = Callable[[Values], bool]


class Static(str):
    """The text of a part. It stands in a script as it is."""


def always(values: Values) -> bool:
    """The condition of a part that every script holds."""
    return True


def without(condition: Condition) -> Condition:
    """The opposite of a condition: for the part that answers where another is left out."""
    return lambda values: not condition(values)


def _given(*names: str) -> Condition:
    return lambda values: any(bool(values.get(name)) for name in names)


def _number(values: Values, name: str) -> float:
    value = values.get(name) or 0
    try:
        return float(value) if isinstance(value, (str, int, float)) else 0
    except ValueError:
        return 0


checkpoints = _given("RGT_CHECKPOINT_DIR", "RGT_CHECKPOINT_GLOB")
durable = _given("RGT_DURABLE")
staged = _given("RGT_STAGE")
setup = _given("RGT_SETUP")
secrets = _given("RGT_SECRET_FILES", "RGT_SECRET_VARS")
results = _given("RGT_EXPECT")
notified = _given("RGT_NOTIFY")
noticed = _given("RGT_NOTICE")
queued = _given("RGT_CELLS")
code = _given("RGT_CODE_COMMIT", "RGT_CODE_DIFF", "RGT_CODE_IGNORED")


def probed(values: Values) -> bool:
    """Does a rehearsal look for failures that no log shows?"""
    return values.get("RGT_PROBE") == "on"


def remote(values: Values) -> bool:
    """Can the job run on any machine but the user's own?"""
    own = ("", "local")
    return values.get("RGT_TARGET", "") not in own or values.get("RGT_PROFILE", "") not in own


def _words(values: Values, name: str) -> list[str]:
    value = values.get(name) or []
    return [] if isinstance(value, (int, float)) else list(value)


def shell_line(values: Values) -> bool:
    """Is the command a line of bash, or can the arguments of a cell make it one?"""
    command = _words(values, "RGT_COMMAND") or [""]
    return command[0].rpartition("/")[2] == "bash"


def relative(values: Values) -> bool:
    """Is the work folder named from where the script begins?"""
    folder = str(values.get("RGT_WORK_DIR") or values.get("RGT_RUN_DIR") or "")
    return folder not in ("", "~") and not folder.startswith(("/", "~/"))


def gpus(values: Values) -> bool:
    """Does a node of the job have a GPU?"""
    return _number(values, "RGT_GPUS") > 0


def nodes(values: Values) -> bool:
    """Does the job run on several nodes at once?"""
    return _number(values, "RGT_NODES") > 1


def launched(values: Values) -> bool:
    """Does a launcher such as torchrun start the program?"""
    return values.get("RGT_LAUNCHER", "none") not in ("", "none")


def several(values: Values) -> bool:
    """Does a launcher start more than one process, so that one can wait for another?"""
    return launched(values) and max(_number(values, n) for n in ("RGT_PROCS", "RGT_NODES")) > 1


def launched_by(name: str) -> Condition:
    """The condition that the job's launcher has this name, one of those of `Job.launcher`."""
    return lambda values: values.get("RGT_LAUNCHER") == name


def stall(values: Values) -> bool:
    """Is a program that says nothing, makes no step or draws no power to be called stalled?"""
    names = ("RGT_STALL_LOG_SECONDS", "RGT_STALL_STEP_SECONDS", "RGT_STALL_POWER_SECONDS")
    return any(_number(values, name) > 0 for name in names)


def stall_step(values: Values) -> bool:
    """Is a program whose log goes on without a higher step to be called stalled?"""
    return _number(values, "RGT_STALL_STEP_SECONDS") > 0


def requeued(values: Values) -> bool:
    """Does Slurm put the job into its queue again after a save? Only that target sets the value."""
    return values.get("RGT_REQUEUE") == "yes"


def saves(values: Values) -> bool:
    """Can the program be asked for a save that doesn't end it?"""
    return values.get("RGT_SAVE_SIGNAL", "TERM") != "TERM" and not launched(values)


def stopped(values: Values) -> bool:
    """Is the box to be stopped when the run is over?"""
    return values.get("RGT_AT_END") == "stop"


def self_stopped(values: Values) -> bool:
    """Is it to be stopped, and does the platform have a line by which it stops itself?"""
    return stopped(values) and bool(values.get("RGT_SELF_STOP"))


def alarmed(values: Values) -> bool:
    """Does the box go on being billed after the deadline, unless somebody stops it?"""
    return stopped(values) or values.get("RGT_TARGET", "local") == "ssh"


def _copies(values: Values) -> list[tuple[str, ...]]:
    """The two ends of each copy; of the durable place's copies the one that isn't on the box."""
    stage = _words(values, "RGT_STAGE")
    pairs: list[tuple[str, ...]] = [tuple(stage[at : at + 2]) for at in range(0, len(stage), 2)]
    return [*pairs, (str(values["RGT_DURABLE"]),)] if durable(values) else pairs


def _in_cloud(ends: tuple[str, ...]) -> bool:
    return any(end.startswith(CLOUDS) for end in ends)


def clouds(values: Values) -> bool:
    """Does any copy have an end in a bucket or behind rclone?"""
    return any(_in_cloud(ends) for ends in _copies(values))


def rsync(values: Values) -> bool:
    """Is there a copy between two folders, which rsync makes? False without any copy."""
    return not all(_in_cloud(ends) for ends in _copies(values))


def copies(values: Values) -> bool:
    """Is anything copied, data to the box or results from it?"""
    return durable(values) or staged(values)


def restored(values: Values) -> bool:
    """Can a checkpoint come back from the durable place before the program starts?"""
    return durable(values) and checkpoints(values)


def _either(*conditions: Condition) -> Condition:
    return lambda values: any(condition(values) for condition in conditions)


def _both(*conditions: Condition) -> Condition:
    return lambda values: all(condition(values) for condition in conditions)


_shared = _either(remote, queued)  # can several machines see the run folder?
_kept = _either(results, checkpoints, durable, notified, _given("RGT_ON_NAN"))
_ending = _either(results, checkpoints, _given("RGT_FINAL_STEP"))
_before = _either(setup, staged, restored)

# Part, when it is in. Later parts may use the settings and tables of earlier ones at once, and
# everybody's functions once the script runs.
PARTS: tuple[tuple[str, Condition], ...] = (
    ("core/settings.sh", always),
    ("core/tools.sh", always),
    ("core/quote.sh", _either(shell_line, _both(copies, rsync))),
    ("core/processes.sh", always),
    ("core/folders.sh", always),
    ("core/failure_names.sh", always),
    ("core/state.sh", always),
    ("core/last_state.sh", always),
    ("boxes/failure_names.sh", remote),
    ("boxes/elsewhere.sh", _shared),
    ("without/elsewhere.sh", without(_shared)),
    ("boxes/from_pipe.sh", remote),
    ("without/from_pipe.sh", without(remote)),
    ("boxes/start_folder.sh", relative),
    ("without/start_folder.sh", without(relative)),
    ("core/deadline.sh", always),
    ("core/signals.sh", always),
    ("core/evidence.sh", always),
    ("preflight/checks.sh", always),
    ("boxes/clock.sh", remote),
    ("without/clock.sh", without(remote)),
    ("program/command.sh", always),
    ("program/shell_line.sh", shell_line),
    ("without/shell_line.sh", without(shell_line)),
    ("program/launch.sh", always),
    ("program/variables.sh", _either(secrets, self_stopped)),
    ("program/secrets.sh", secrets),
    ("program/mask_secrets.py", secrets),
    ("without/secrets.sh", without(secrets)),
    ("program/results.sh", results),
    ("without/results.sh", without(results)),
    ("program/code_notes.sh", code),
    ("without/code_notes.sh", without(code)),
    ("program/setup.sh", setup),
    ("without/setup.sh", _both(_before, without(setup))),
    ("launchers/nodes.sh", nodes),
    ("without/nodes.sh", without(nodes)),
    ("launchers/launcher.sh", launched),
    ("launchers/torchrun.sh", launched_by("torchrun")),
    ("launchers/accelerate.sh", launched_by("accelerate")),
    ("launchers/deepspeed.sh", launched_by("deepspeed")),
    ("without/launcher.sh", without(launched)),
    ("launchers/flight_recorder.sh", several),
    ("without/flight_recorder.sh", without(several)),
    ("gpus/checks.sh", gpus),
    ("gpus/watch.sh", gpus),
    ("gpus/failures.sh", gpus),
    ("without/gpus.sh", without(gpus)),
    ("checkpoints/choose.sh", checkpoints),
    ("checkpoints/check_checkpoint.py", checkpoints),
    ("without/checkpoints.sh", without(checkpoints)),
    ("copies/copy.sh", copies),
    ("copies/rsync.sh", _both(copies, rsync)),
    ("without/rsync.sh", _both(copies, without(rsync))),
    ("copies/cloud.sh", clouds),
    ("without/cloud.sh", _both(copies, without(clouds))),
    ("copies/fetch.sh", _either(staged, restored)),
    ("copies/durable.sh", durable),
    ("without/durable.sh", without(durable)),
    ("checkpoints/restore.sh", restored),
    ("without/restore.sh", _both(_before, without(restored))),
    ("run/heart.sh", always),
    ("run/stall.sh", stall),
    ("run/stall_step.sh", stall_step),
    ("without/stall_step.sh", _both(stall, without(stall_step))),
    ("without/stall.sh", without(stall)),
    ("run/attempts.sh", always),
    ("run/nan.sh", _kept),
    ("without/nan.sh", without(_kept)),
    ("run/early_end.sh", _ending),
    ("without/early_end.sh", without(_ending)),
    ("run/before.sh", _before),
    ("without/before.sh", without(_before)),
    ("run/stage.sh", staged),
    ("without/stage.sh", _both(_before, without(staged))),
    ("run/requeue.sh", requeued),
    ("without/requeue.sh", without(requeued)),
    ("run/run.sh", always),
    ("notices/notify.sh", notified),
    ("without/notify.sh", without(notified)),
    ("notices/preemption.sh", noticed),
    ("without/preemption.sh", without(noticed)),
    ("keeper/keeper.sh", always),
    ("keeper/alarm.sh", alarmed),
    ("without/alarm.sh", without(alarmed)),
    ("keeper/self_stop.sh", self_stopped),
    ("without/self_stop.sh", _both(alarmed, without(self_stopped))),
    ("keeper/after_end.sh", stopped),
    ("without/after_end.sh", without(stopped)),
    ("rehearsal/rehearsal.sh", checkpoints),
    ("rehearsal/folders.sh", checkpoints),
    ("rehearsal/probe.sh", _both(checkpoints, probed)),
    ("without/probe.sh", _both(checkpoints, without(probed))),
    ("without/rehearsal.sh", without(checkpoints)),
    ("queue/cells.sh", queued),
    ("queue/claims.sh", queued),
    ("queue/roster.sh", queued),
    ("queue/slots.sh", queued),
    ("queue/run.sh", queued),
    ("without/queue.sh", without(queued)),
    ("verbs/start.sh", always),
    ("verbs/status.sh", always),
    ("verbs/stop.sh", always),
    ("verbs/save.sh", saves),
    ("without/save.sh", without(saves)),
    ("verbs/main.sh", always),
)

_PROGRAM = "RGT_PROGRAM"  # ends a program's here-document


@cache
def part(name: str) -> Static:
    """The text of one part. A Python file becomes a function, rgt_NAME_program, that prints it."""
    text = (TEMPLATES / name).read_text(encoding="utf-8")
    return Static(text if not name.endswith(".py") else _program(Path(name).stem, text))


def _program(name: str, text: str) -> str:
    if _PROGRAM in text.split("\n") or not text.endswith("\n"):
        raise ValueError(f"{name}.py: found {_PROGRAM} on a line or no line end, expected neither")
    return f"rgt_{name}_program() {{\n  cat <<'{_PROGRAM}'\n{text}{_PROGRAM}\n}}\n"


@cache
def exit_codes() -> list[tuple[int, str, str]]:
    """[(code, name of the end, what it means)] of a script, from the table that it has itself."""
    rows = re.findall(r"^ +(\d+)  (\w+) +([^'\n]+)", part("core/settings.sh"), re.M)
    return [(int(code), name, meaning) for code, name, meaning in rows]


def names(values: Values) -> list[str]:
    """The parts that a job with these values needs, in their order."""
    return [name for name, needed in PARTS if needed(values)]


def parts(values: Values) -> list[Static]:
    """The texts of these parts."""
    return [part(name) for name in names(values)]


@lru_cache(maxsize=1)
def engines() -> list[Static]:
    """What an engine puts between the parts and the last line: it reads a few variables more."""
    return [part(f"engines/{name}.sh") for name in ("rendezvous", "slurm")]
