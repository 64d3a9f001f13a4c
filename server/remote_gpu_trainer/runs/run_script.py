"""Put a run.sh together with its folder run.d: the job, and the runner's source. Pure.

`run.sh` is short, for whoever reads it before it runs. `run.d` holds `job-DIGEST`, the job as JSON
and what the shell must know of it, and `runner-DIGEST`, the runner's modules as files. A digest is
of all that a folder holds, so that a new version never changes the files of one that runs. `files`
returns them apart, and `packed` as one file: the same run.sh, and behind it run.d, packed.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import io
import json
import posixpath
import shlex
import textwrap
import tokenize
import zlib
from collections.abc import Callable
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from ..runner import end_words
from ..runner.setting_up import around
from ..runner.spec import SAVE_SECONDS, TIMINGS, of

SHEBANG = "#!/usr/bin/env bash\n"
OURS = "# Rendered by remote-gpu-trainer"
END = "# run.d/end\n"  # the last line of a run.sh that carries its run.d
# What comes between is a text that bash passes over, so that `bash -n` finds nothing wrong with it.
BEGIN = f": <<'{END.strip()}'\n"
_PACKAGE = Path(__file__).resolve().parent.parent
_SHELL = ("runner/procs.sh", "runner/deadman.sh", "runner/slurm.sh")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
# Many boxes are asked at once, and parsing in several threads fails in Python 3.11.
_MAKING = Lock()
_ENTRY = "runner/entry.py"  # what a run.sh hands over to
_READER = """\
{ours} for one job. To change anything, change the job and
# render again.
#
{facts}
#
# The lines below only find run.d and a Python of 3.8 or newer, and hand over. run.d lies beside
# this file or in the run folder, or is packed behind this text. In it, job-DIGEST/job.json is the
# whole job, and runner-DIGEST the program that does what is said above.
"""

_PROGRAM = """\
import importlib.util, sys
if sys.version_info < (3, 8):
    sys.exit("this needs Python 3.8 or newer there; this is " + sys.version.split()[0])
SOURCES = {sources!r}
class Importer:
    def find_spec(self, name, path=None, target=None):
        if name in SOURCES:
            package = any(other.startswith(name + ".") for other in SOURCES)
            return importlib.util.spec_from_loader(name, self, is_package=package)
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        code = compile(SOURCES[module.__name__], module.__name__, "exec", dont_inherit=True)
        exec(code, module.__dict__)
sys.meta_path.insert(0, Importer())
from {main} import main
sys.exit(main(sys.argv[1:]))
"""


def packed(parts: dict[str, str]) -> str:
    """Return what `files` returned as one file."""
    own = [(name, content) for name, content in parts.items() if name.startswith("run.d/job-")]
    own.insert(0, ("run.d/unpack.py", _source("runner/unpack.py")))
    plain = "".join(f"# {name}\n{content}" for name, content in own)
    runner = tuple((name, text) for name, text in parts.items() if "/runner-" in name)
    runner_part = f"# run.d/runner packed\n{_deflated(runner)}"
    return f"{parts['run.sh']}\n{BEGIN}{plain}{runner_part}{END}"


def files(job: dict[str, Any], rendered: dict[str, Any], sbatch: str = "") -> dict[str, str]:
    """Return {path below the run's folder: text} of run.sh and its run.d, of a job and of
    what rendered.py made of it.

    `sbatch`: the `#SBATCH` lines of a job for Slurm, with a line end. The last file of each folder
    in run.d is the one by which all of it is there; run.sh, which hands over to them, comes last.
    """
    both = json.dumps({"job": job, "rendered": rendered}, indent=1, sort_keys=True)
    is_requeued = "\n#SBATCH --requeue\n" in sbatch
    own = {
        "values.sh": _values(job, rendered, is_requeued),
        "job.json": both + "\n",
    }
    job_name = f"job-{_digest(own)}"
    head = "".join(
        (
            SHEBANG,
            _for_a_reader(job, rendered, is_requeued),
            sbatch,
            "\n",
            _assignments(job, rendered, job_name),
            "\n",
            _source("runner/head.sh"),
        )
    )
    has_probe = bool(rendered["probe"])
    name = runner_name(has_probe)
    return {
        **{f"run.d/{name}/{path}": content for path, content in runner(has_probe).items()},
        **{f"run.d/{job_name}/{path}": content for path, content in own.items()},
        "run.sh": head,
    }


@cache
def runner(has_probe: bool) -> dict[str, str]:
    """Return {path: text} of what run.d holds of the runner: modules, shell and snapshot, and for
    a job that wants it the probe, a third of the rest."""
    from ..catalogue.bundle import bundle_root

    package = __name__.partition(".")[0]
    own = {f"{package}/{path}": _source(path) for path in _SHELL}
    for name in ("snapshot.py", "probe.py")[: 1 + has_probe]:
        own[name] = lean((bundle_root() / "scripts" / name).read_text(encoding="utf-8"))
    for name, source in {name: lean(text) for name, text in sources().items()}.items():
        folder = name == "" or any(other.startswith(f"{name}.") for other in sources())
        parts = [package, *filter(None, name.split("."))]
        path = "/".join(parts) + ("/__init__.py" if folder else ".py")
        own[path] = source
    entry = f"{package}/{_ENTRY}"
    return {**own, entry: own.pop(entry)}


def lean(source: str) -> str:
    """Return a module without its comments and docstrings, every line of code where it was, so that
    a traceback says the same."""
    lines = source.split("\n")
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("#!"):
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            text = node.body[0]
            first, last = text.lineno - 1, text.end_lineno or text.lineno
            stands_alone = not lines[first][: text.col_offset].strip()
            if not stands_alone or (isinstance(node, ast.Module) and "__doc__" in source):
                continue
            lines[first:last] = [""] * (last - first)
            if len(node.body) == 1:
                lines[first] = " " * text.col_offset + "pass"
    return "\n".join(lines)


@cache
def runner_name(has_probe: bool) -> str:
    """Return the name of the runner's folder in run.d."""
    return f"runner-{_digest(runner(has_probe))}"


@cache
def _deflated(parts: tuple[tuple[str, str], ...]) -> str:
    """Return {path below run.d: text} as lines of base64."""
    named = {name.removeprefix("run.d/"): text for name, text in parts}
    return base64.encodebytes(zlib.compress(json.dumps(named).encode(), 9)).decode()


def _digest(content: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]


def word(value: object) -> str:
    """Return a value as one word of bash, on one line and in ASCII."""
    plain = str(value)
    if plain.isascii() and plain.isprintable():
        return shlex.quote(plain)
    inner = "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in "\\'" else f"\\x{byte:02x}"
        for byte in plain.encode("utf-8", "surrogateescape")
    )
    return f"$'{inner}'"


def _assignments(job: dict[str, Any], rendered: dict[str, Any], job_name: str) -> str:
    """What run.sh must know before it has a Python."""
    # The words of a shell behind the job's setup: what follows them runs there.
    shell = around(job["setup"], []) if job["setup"] else []
    lines = [
        f"RGT_NAME={word(job['name'])}",
        f"RGT_DIR={quoted_path(posixpath.normpath(rendered['run_dir']), word)}",
        f"RGT_PYTHON={word(job['python'])}",
        f"RGT_SETUP=({' '.join(map(word, shell))})",
        f"RGT_JOB={job_name}",
        f"RGT_RUNNER={runner_name(bool(rendered['probe']))}",
        "export -n RGT_NAME RGT_DIR RGT_PYTHON RGT_SETUP RGT_JOB RGT_RUNNER",
    ]
    return "\n".join([*lines, ""])


def _values(job: dict[str, Any], rendered: dict[str, Any], requeue: bool) -> str:
    """What the shell must know of the job beside a Python, or without one."""
    timings = {**TIMINGS, **job["timings"]}
    at_end, end, stop = job["at_end"], rendered["end"], rendered["stop"]
    save_seconds = job["checkpoint"]["save_seconds"] if job["checkpoint"] else SAVE_SECONDS
    values = {
        "VERSION": rendered["version"],
        "JOB_SHA": rendered["job_sha"],
        "TARGET": rendered["target"],
        "PROFILE": rendered["profile"],
        "NODES": job["nodes"],
        "CELLS": len(job["queue"]["cells"]) if job["queue"] else 0,
        "REQUEUE": "yes" if requeue else "no",
        "SAVE_SIGNAL": job["save_signal"],
        "SAVE_SECONDS": -int(-save_seconds // 1),
        "DEADMAN": timings["deadman"],
        "END_NEEDS": end["needs"],
        "STOP_NEEDS": stop["needs"],
        "END_RETRY": max(int(timings["end_retry"]), 1),
        "END_WAIT": timings["end_wait"],
        "BOX_ID": at_end["box_id"] or "",
        "NOTIFY_EVERY": max(int(timings["notify_every"]), 1),
    }
    lines = [f"RGT_{name}={word(value)}" for name, value in values.items()]
    commands = {"END": end["command"], "STOP": stop["command"], "NOTIFY": job["notify"]}
    for name, command in commands.items():
        lines.append(f"RGT_{name}=({' '.join(map(word, _words(command)))})")
    names = " ".join(f"RGT_{name}" for name in (*values, *commands))
    return "\n".join([*lines, f"export -n {names}", ""])


def _words(command: str | list[str]) -> list[str]:
    if isinstance(command, list):
        return command
    return ["bash", "-c", command] if command else []


def _for_a_reader(job: dict[str, Any], rendered: dict[str, Any], is_requeued: bool) -> str:
    """Return what a person wants to know before this runs, as lines of comment."""
    whole = of(job, rendered)
    script = f"{json.dumps(whole.rendered.run_dir)[1:-1]}/run.sh"
    slurm, cells = whole.rendered.target == "slurm", whole.queue.cells
    here = "Slurm takes the machine back" if slurm else "nothing is done to the machine"
    if is_requeued:
        here += ", at the limit `--time` too: the job saves before it, is queued again and goes on"
    begins = {
        "slurm": f"sbatch --chdir {script[: -len('/run.sh')]} {script}",
        "kubernetes": "the pod of its Job: bash run.sh run",
        "skypilot": "the task of SkyPilot: bash run.sh run",
    }
    stop = f"scancel --batch --signal=TERM --name={_shown(whole.name)}" if slurm else ""
    end = end_words.of_box(whole, _shown(whole.rendered.end.command)) or here
    asked = f"SIG{whole.save_signal} asks it to save, then it ends"
    off = ", and its end command is off" if whole.rendered.end.command else ""
    facts = {
        "starts by": begins.get(whole.rendered.target, f"bash {script} start"),
        "runs": _shown(whole.command),
        "launched": _launched(whole),
        "cells": f"{len(cells)}, {whole.queue.slots} at a time; each adds its own arguments"
        if cells
        else "",
        "again": "what dies is started again, where the failure may pass (killed, network, a "
        f"hang), {_resumed(whole)}; nobody needs to be logged in, and a start beside it is refused",
        "until": f"{_until(whole.deadline, whole.budget)}. SIG{whole.save_signal} asks it to save "
        f"{whole.checkpoint.save_seconds:g} s before, or less where its saves take less, and what "
        "lives then is killed. A resume keeps this deadline",
        "the box": end,
        "saves to": f"{_shown(whole.checkpoint.folder)} of {_shown(whole.rendered.work_dir)}; "
        "RGT_CHECKPOINT_DIR holds its path"
        if whole.checkpoint.folder
        else "the job names no folder, so no checkpoint is known here",
        "copies to": _shown(whole.durable.to)
        or "nowhere: what is only on this machine is lost with it",
        "tells you": f"by {_shown(whole.notify)}" if whole.notify else "nobody is told",
        "folder": f"{json.dumps(whole.rendered.run_dir)[1:-1]}, which holds all that follows",
        "logs": "log/train.log.0000 and so on: the program; log/runner.log: what was decided",
        "state": "state.json; at the end .done, .unsaved, .failed or .preempted",
        "look at it": f"bash {script} status",
        "stop it": f"{stop}       {asked}"
        if slurm
        else f"bash {script} stop       {asked}; the box stays on{off}",
        "continue": begins["slurm"] if slurm else f"bash {script} resume",
        "all verbs": f"bash {script} --help",
    }
    lines = []
    for name, fact in facts.items():
        if fact:
            lines += textwrap.wrap(
                fact,
                98,
                initial_indent=f"#   {name:<11}",
                subsequent_indent=" " * 15,
                break_long_words=False,
                break_on_hyphens=False,
            )
    commented = "\n".join(line if line.startswith("#") else f"#{line[1:]}" for line in lines)
    return _READER.format(ours=OURS, facts=commented)


def _resumed(spec: Any) -> str:
    """Return from where what died goes on."""
    if spec.checkpoint.folder and spec.resume != "none":
        return "from its newest complete checkpoint"
    return "from its beginning" if spec.resume == "none" else "as the program itself begins"


def _launched(spec: Any) -> str:
    """Return how the program is started, '' where its command says it."""
    ways = []
    if spec.launcher != "none":
        each = f"{spec.processes} process" + "es" * (spec.processes > 1)
        where = f" on each of {spec.nodes} machines" if spec.nodes > 1 else ""
        ways.append(f"by {spec.launcher}, {each}{where}")
    if spec.container:
        ways.append(f"in a container of {spec.container['engine']}")
    if spec.setup:
        ways.append(f"behind {len(spec.setup)} lines of the job's setup")
    return ", ".join(ways)


def quoted_path(path: str, quote: Callable[[str], str] = shlex.quote) -> str:
    """A path as one word of bash, which still puts the home folder in for a leading ~/."""
    home, inside = ("~/", path[2:]) if path.startswith("~/") else ("", path)
    return home + quote(inside)


def _shown(command: str | list[str]) -> str:
    """Return a command as one line of a comment: its quotes as they are, whole up to 600 signs."""
    line = command if isinstance(command, str) else " ".join(map(shlex.quote, command))
    shown = json.dumps(line)[1:-1].replace('\\"', '"')
    return shown if len(shown) <= 600 else f"{shown[:198]} …"


def _hours(value: str) -> str:
    """Return so many hours in hours and minutes; below an hour in minutes and seconds."""
    total = round(float(value) * 3600)
    if total >= 3600:
        total = round(total / 60) * 60
    minutes, seconds = divmod(total, 60)
    hours, minutes = divmod(minutes, 60)
    told = ((hours, "h"), (minutes, "min"), (seconds, "s"))
    return " ".join(f"{count} {unit}" for count, unit in told if count) or "0 s"


def _until(deadline: str, budget: str | None) -> str:
    """Return when a run ends, with its budget's end behind an " or "."""
    own, _, spent = deadline.partition(" or ")
    if spent:
        then = _until(spent, None)
        text = f"the earlier of {_until(own, None)}, and {then}"
        return f"{text}, when the box has cost its budget of {budget}"
    kind, _, value = deadline.partition(":")
    if kind == "hours" and value.replace(".", "", 1).isdigit():
        text = f"{_hours(value)} after its first start"
    elif kind == "at" and value.isdigit() and len(value) < 12:
        text = f"{datetime.fromtimestamp(int(value), timezone.utc):%Y-%m-%d %H:%M} UTC"
    else:
        text = f"the next {value}" if kind == "clock" else deadline
    return json.dumps(text)[1:-1]


@cache
def _source(path: str) -> str:
    """Return a file of the package."""
    return (_PACKAGE / path).read_text(encoding="utf-8")


@cache
def sources() -> dict[str, str]:
    """Return {name within the package: source} of runner and readings, and of what they need."""
    folders = (_PACKAGE / "readings", _PACKAGE / "runner")
    files = [file for folder in folders for file in sorted(folder.rglob("*.py"))]
    own = {".".join(_name(file)): _source(str(file.relative_to(_PACKAGE))) for file in files}
    shared = {f"text.{name}": _source(f"text/{name}.py") for name in ("masking", "proc")}
    return {"": "", "text": "", **shared, **own}  # of those two rooms they need a name alone


def program(main: str) -> str:
    """Return a program for a box's Python: a module of the package, such as `runs.log_reader`, with
    those that it imports, and a call of its `main`. Its words are what follows it."""
    with _MAKING:
        return _make_program(main)


@cache
def _make_program(main: str) -> str:
    known: dict[str, str] = {}
    _add_module(main, known)
    package = __name__.partition(".")[0]
    named = {".".join(filter(None, (package, name))): text for name, text in known.items()}
    return _PROGRAM.format(sources=named, main=f"{package}.{main}")


def _add_module(name: str, known: dict[str, str]) -> None:
    """Add the source of a module and of all that it imports; packages are empty."""
    above = name.split(".")[:-1]
    known.update({".".join(above[:end]): "" for end in range(len(above) + 1)})
    own = sources()
    known[name] = own[name] if name in own else _source(name.replace(".", "/") + ".py")
    for node in ast.walk(ast.parse(known[name])):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        base = name.split(".")[: -node.level] + (node.module.split(".") if node.module else [])
        for module in (base, *([*base, alias.name] for alias in node.names)):
            path = _PACKAGE.joinpath(*module).with_suffix(".py")
            if ".".join(module) not in known and path.is_file():
                _add_module(".".join(module), known)


def _name(file: Path) -> tuple[str, ...]:
    parts = file.relative_to(_PACKAGE).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts
