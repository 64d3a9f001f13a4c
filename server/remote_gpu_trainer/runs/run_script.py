"""Put a run.sh together: a head in shell, the job as JSON, and the runner's source. Pure.

Bash reads no further than the head. A value of a job stands in it only where the third hand needs
it without a Python, quoted as one word.
"""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import Any

from ..runner.setting_up import around
from ..runner.spec import DEFAULTS, TIMINGS

SHEBANG = "#!/usr/bin/env bash\n"
OURS = "# Rendered by remote-gpu-trainer"
END = "#=== end ===\n"
_PACKAGE = Path(__file__).resolve().parent.parent
_MARK = re.compile(r"^#=== ", re.M)

_READER = """\
{ours} for one job. Don't edit: render again, and start it under another
# name while this one runs.
#
#   it runs        {command}
#   until          {deadline}
#   then           {end}
#   in             {folder}, which holds all that follows
#   logs           log/train.log.0000 and so on, log/runner.log, log/keeper.log
#   state          state.json; at the end .done, .unsaved, .failed or .preempted
#   status         bash {folder}/run.sh status
#   stop it        bash {folder}/run.sh stop       saves, then ends; the box stays on
#   continue       bash {folder}/run.sh resume
#   other verbs    bash {folder}/run.sh --help
"""

# From a pipe bash reads a script by single bytes, so what it has not read yet is still there.
_PIPE = """
if [[ ! -f ${BASH_SOURCE[0]-} ]]; then
  rgt_script=$(mktemp) || rgt_script=$(mktemp ~/.run.sh.XXXXXX) || exit 1
  { printf '#!/usr/bin/env bash\\n%s\\n' '@OURS@.' && cat; } >"$rgt_script" || exit 1
  exec {rgt_file}<"$rgt_script"
  rm -f -- "$rgt_script"
  exec bash "/dev/fd/$rgt_file" "$@"
fi
"""

# What finds job and modules in the file. Each module is compiled at its place, so that a
# traceback names the line of the run.sh.
LOADER = """\
import importlib.util
path, words = sys.argv[1], sys.argv[2:]
sys.argv = sys.argv[1:]
with open(path, encoding="utf-8") as file:
    lines = file.read().split("\\n")
marks = [(at, line[5:-4]) for at, line in enumerate(lines, 1) if line.startswith("#=== ")]
ends = [at - 1 for at, _ in marks[1:]] + [len(lines)]
parts = {name: (at, lines[at:end]) for (at, name), end in zip(marks, ends)}
if "end" not in parts:
    sys.exit("this run.sh is cut short; send it again")
class Importer:
    def find_spec(self, name, path=None, target=None):
        if "module " + name in parts:
            package = any(other.startswith("module " + name + ".") for other in parts)
            return importlib.util.spec_from_loader(name, self, is_package=package)
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        begin, text = parts["module " + module.__name__]
        text = "\\n" * begin + "\\n".join(text)
        exec(compile(text, path, "exec", dont_inherit=True), module.__dict__)
sys.meta_path.insert(0, Importer())
from remote_gpu_trainer.runner.main import main
sys.exit(main(path, "\\n".join(parts["job"][1]), words))
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


def text(spec: dict[str, Any], sbatch: str = "") -> str:
    """Return the run.sh for a job in the fields of runner/spec.py.

    `sbatch`: the `#SBATCH` lines of a job for Slurm, with a line end. Equal jobs give equal bytes.
    """
    job = json.dumps({name: spec[name] for name in sorted(spec)}, indent=1)
    return "".join(
        (
            SHEBANG,
            _for_a_reader(spec),
            sbatch,
            _PIPE.replace("@OURS@", OURS),
            "\n",
            _assignments(spec, "\n#SBATCH --requeue\n" in sbatch),
            _source("runner/head.sh"),
            "\n" + _source("runner/slurm.sh") + '\nrgt_under_slurm "$@"\n' if sbatch else "",
            '\nrgt_head "$@"; exit\n\n',
            f"#=== loader ===\n{LOADER}#=== job ===\n{job}\n",
            _modules(),
            END,
        )
    )


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


def _assignments(spec: dict[str, Any], requeue: bool) -> str:
    """What the shell itself must know."""
    whole = {**DEFAULTS, **spec}
    timings = {**TIMINGS, **whole["timings"]}
    words = _words(whole["end_command"]) if whole["end_do"] == "run" else []
    keeps = whole["end_keeps_disk"]
    stop = words if keeps else _words(whole["end_stop"])
    values = {
        "NAME": whole["name"],
        "PYTHON": whole["python"],
        "VERSION": whole["version"],
        "JOB_SHA": whole["job_sha"],
        "TARGET": whole["target"],
        "PROFILE": whole["profile"],
        "NODES": whole["nodes"],
        "CELLS": len(whole["cells"]),
        "REQUEUE": "yes" if requeue else "no",
        "SAVE_SIGNAL": whole["save_signal"],
        "SAVE_SECONDS": -int(-whole["save_seconds"] // 1),
        "DEADMAN": timings["deadman"],
        "END_AT_DEADLINE": "yes" if words and "deadline" in whole["end_when"] else "no",
        "END_UNSAVED": "yes" if "unsaved" in whole["end_when"] else "no",
        "END_NEEDS": whole["end_needs"],
        "END_LIMIT": int(whole["end_limit_seconds"]),
        "STOP_NEEDS": whole["end_needs"] if keeps else whole["end_stop_needs"],
        "END_RETRY": max(int(timings["end_retry"]), 1),
        "END_WAIT": timings["end_wait"],
        "BOX_ID": whole["box_id"],
        "DURABLE": "yes" if whole["durable"] else "no",
        "NOTIFY_EVERY": max(int(timings["notify_every"]), 1),
    }
    lines = [f"RGT_{name}={word(value)}" for name, value in values.items()]
    lines.append(f"RGT_DIR={quoted_path(posixpath.normpath(whole['run_dir']), word)}")
    for name, words_of in (("END", words), ("STOP", stop), ("NOTIFY", whole["notify"])):
        lines.append(f"RGT_{name}=({' '.join(map(word, words_of))})")
    # The words of a shell behind the job's setup: what follows them runs there.
    shell = around(whole["setup"], []) if whole["setup"] else []
    lines.append(f"RGT_SETUP=({' '.join(map(word, shell))})")
    names = " ".join(f"RGT_{name}" for name in (*values, "DIR", "END", "STOP", "NOTIFY", "SETUP"))
    lines.append(f"export -n {names}")
    return "\n".join([*lines, "rgt_script=${BASH_SOURCE[0]}", ""])


def _words(command: str | list[str]) -> list[str]:
    if isinstance(command, list):
        return command
    return ["bash", "-c", command] if command else []


def _for_a_reader(spec: dict[str, Any]) -> str:
    whole = {**DEFAULTS, **spec}
    end = "the box stays on"
    if whole["end_do"] == "run":
        cases = ", ".join(whole["end_when"])
        end = f"{_shown(whole['end_command'])}   ends the box; when: {cases}"
    return _READER.format(
        ours=OURS,
        command=_shown(whole["command"]),
        deadline=_until(whole["deadline"]),
        end=end,
        folder=json.dumps(whole["run_dir"])[1:-1],
    )


def quoted_path(path: str, quote: Callable[[str], str] = shlex.quote) -> str:
    """A path as one word of bash, which still puts the home folder in for a leading ~/."""
    home, inside = ("~/", path[2:]) if path.startswith("~/") else ("", path)
    return home + quote(inside)


def _shown(command: str | list[str]) -> str:
    """Return a command as one line of a comment."""
    line = command if isinstance(command, str) else " ".join(map(shlex.quote, command))
    escaped = json.dumps(line)[1:-1]
    return escaped if len(escaped) <= 200 else f"{escaped[:198]} …"


def _until(deadline: str) -> str:
    kind, _, value = deadline.partition(":")
    if kind == "hours":
        told = f"{value} h after its first start"
    elif kind == "at" and value.isdigit() and len(value) < 12:
        told = f"{datetime.fromtimestamp(int(value), timezone.utc):%Y-%m-%d %H:%M} UTC"
    else:
        told = f"the next {value}" if kind == "clock" else deadline
    return json.dumps(told)[1:-1]


@cache
def _source(path: str) -> str:
    """Return a file of the package. Raises ValueError for a line that would end a part early."""
    found = (_PACKAGE / path).read_text(encoding="utf-8")
    if _MARK.search(found) or not found.endswith("\n"):
        raise ValueError(f"{path}: a line begins with '#=== ', or the last one has no end")
    return found


@cache
def sources() -> dict[str, str]:
    """Return {name within the package: source} of runner and readings, and of what they need."""
    folders = (_PACKAGE / "readings", _PACKAGE / "runner")
    files = [file for folder in folders for file in sorted(folder.rglob("*.py"))]
    own = {".".join(_name(file)): _source(str(file.relative_to(_PACKAGE))) for file in files}
    # Of these rooms they need a name alone.
    return {"": "", "text": "", "text.masking": _source("text/masking.py"), **own}


def program(main: str, parts: Iterable[str]) -> str:
    """Return a program for a box's Python: these modules of the package, and a call of `main`'s.

    `main` and `parts`: names within the package. Its words are what follows it.
    """
    known, own = {}, sources()
    for name in (*parts, main):
        above = name.split(".")[:-1]
        known.update({".".join(above[:end]): "" for end in range(len(above) + 1)})
        known[name] = own[name] if name in own else _source(name.replace(".", "/") + ".py")
    package = __name__.partition(".")[0]
    named = {".".join(filter(None, (package, name))): text for name, text in known.items()}
    return _PROGRAM.format(sources=named, main=f"{package}.{main}")


@cache
def _modules() -> str:
    """Return the same as parts of a run.sh."""
    return "".join(
        f"#=== module {'.'.join(filter(None, ('remote_gpu_trainer', name)))} ===\n{source}"
        for name, source in sources().items()
    )


def _name(file: Path) -> tuple[str, ...]:
    parts = file.relative_to(_PACKAGE).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts
