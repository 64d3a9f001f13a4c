"""`health`, `probe` and `rehearse`: is a box fit, and does a program train well."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ..text import BadRequest
from . import terminal
from .main import program

BOX = (
    "a name of the ssh configuration, user@host, 'local', or the provider's line: "
    "'ssh -p 40122 root@203.0.113.7 -i KEY'"
)
ALONE = {
    "--hosts": "hosts",
    "--record": "record",
    "--replay": "replay",
    "--report": "report",
    "--watch": "watch",
}
COLOURS = {  # of verdicts, and of the levels of findings
    r"(?m)^fit\b": "bold green",
    r"(?m)^(care|warn|unknown)\b": "bold yellow",
    r"(?m)^(unfit|fatal|degraded)\b": "bold red",
    r" (fatal|degraded):": "bold red",
    r"\[[A-Z][A-Z0-9]*\d\]": "cyan",
}


def add_to(commands) -> None:
    """Add the command to the parser's commands."""
    told = commands.add_parser(
        "health",
        help="check whether a box is fit to train on, or watch its GPUs during a run",
        description="Check a box's GPUs, driver, kernel log, links and disks, and say whether it "
        "is fit to train on. Nothing is installed or changed there. "
        "Exit 0: fit. Exit 1: care or unfit. Exit 2: could not tell.",
    )
    told.add_argument("box", nargs="?", default="local", help=BOX + " (default: this machine)")
    told.add_argument(
        "--expect",
        default="",
        metavar="LIST",
        help="what you pay for, such as gpus=8,name=H100,vram=80,nvlink=all,driver>=550,"
        "torch=cu130; 'help' lists the names",
    )
    told.add_argument(
        "--python",
        default="",
        metavar="PATH",
        help="the job's Python on the box: checks its torch and CUDA, and runs a small kernel",
    )
    told.add_argument(
        "--stress",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="load all GPUs for this long (needs torch on the box; not while a job runs)",
    )
    told.add_argument(
        "--record",
        type=Path,
        metavar="DIR",
        help="save what was read on the box in a new folder on this machine",
    )
    told.add_argument(
        "--replay",
        type=Path,
        metavar="DIR",
        help="judge a folder that --record wrote instead of a box",
    )
    told.add_argument(
        "--hosts",
        metavar="FILE",
        help="check many boxes, one per line, 16 at a time; prints a table, worst first",
    )
    told.add_argument(
        "--watch",
        type=float,
        metavar="SECONDS",
        help="write a JSON line every SECONDS: on this machine until a signal, on a box in the "
        "background, into a file there",
    )
    told.add_argument(
        "--pid", type=int, metavar="PID", help="with --watch: stop when this process ends"
    )
    told.add_argument(
        "--report",
        type=Path,
        metavar="WATCH.jsonl",
        help="make an HTML page from a file that --watch wrote",
    )
    told.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE.html",
        help="with --report: where to write the page (default: beside it)",
    )
    told.add_argument(
        "--accept-new-host-key",
        action="store_true",
        help="store the host key of an unknown box; a changed key is never accepted",
    )
    told.add_argument(
        "--json",
        action="store_true",
        help="print the object that the MCP tool returns; with --hosts one object for all",
    )
    told.set_defaults(run=health)
    _add_probe(commands)


def _add_probe(commands) -> None:
    """Add the command `probe`."""
    probed = commands.add_parser(
        "probe",
        help="look at the first steps of a training program for failures that no log shows",
        usage="%(prog)s [-h] [--steps N] [--json FILE] [--page FILE] -- PROGRAM ...",
        description="Run a training program on this machine, look at its first optimizer steps, "
        "and name what goes wrong in silence: frozen or forgotten weights, batches that repeat, "
        "rates, clipping, checkpoints. Its code isn't changed. The findings go to stderr once the "
        "program has ended. The exit code is the program's own; the verdict is in --json.",
    )
    probed.add_argument(
        "--steps", type=int, default=30, metavar="N", help="optimizer steps to look at (default 30)"
    )
    probed.add_argument("--json", metavar="FILE", help="write the findings into this file")
    probed.add_argument(
        "--page", metavar="FILE", help="write an HTML page with the findings and plots"
    )
    probed.add_argument(
        "--script",
        action="store_true",
        help="print the probe itself, one file to send to a box, and run nothing",
    )
    probed.add_argument(
        "program",
        nargs=argparse.REMAINDER,
        help="the program as you start it, after --, such as: -- python train.py --epochs 1",
    )
    probed.set_defaults(run=probe)

    tried = commands.add_parser(
        "rehearse",
        help="try a job for minutes on this machine: train, save, kill, resume, with the probe",
        description="Rehearse a job on this machine, as 'bash run.sh rehearse' does on a box: "
        "train a few steps, save, kill and resume, apart from the run. The probe looks at the "
        "first optimizer steps for failures that no log shows, unless the job has 'probe: off'. "
        "Exit 0: it went well, whatever the probe says.",
    )
    tried.add_argument("job", help="a YAML or JSON file with the job")
    tried.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="set a field of the job, such as rehearsal.minutes=5; repeatable",
    )
    tried.set_defaults(run=rehearse)


def probe(args: argparse.Namespace) -> int:
    """`probe`: the program's own exit code; the signal that ended it ends this process too."""
    from ..catalogue.bundle import bundle_root

    script = bundle_root() / "scripts" / "probe.py"
    if args.script:
        sys.stdout.write(script.read_text(encoding="utf-8"))
        return 0
    wanted = args.program[1:] if args.program[:1] == ["--"] else args.program
    if not wanted:
        raise BadRequest("no program given; write it after --, as in -- python train.py")
    if wanted[0].endswith(".py"):  # with the Python of the user's environment, not of this program
        wanted = [shutil.which("python3") or sys.executable, *wanted]
    options = ["--steps", str(args.steps)]
    for name in ("json", "page"):
        options += [f"--{name}", getattr(args, name)] if getattr(args, name) else []
    command = [sys.executable, str(script), *options, "--", *wanted]
    if os.name == "nt":  # exec there returns to the shell before the program has ended
        return subprocess.call(command)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, command)


def rehearse(args: argparse.Namespace) -> int:
    """`rehearse`: 0 it went well, 1 not. Files go into the job's run folder on this machine."""
    from ..runs.job_reading import from_file, with_options
    from ..runs.rendering import rendered

    given = with_options(from_file(Path(args.job)), args.set)
    with tempfile.TemporaryDirectory(prefix="rgt-rehearse-") as folder:
        made = rendered(given, "local", "local", f"{folder}/", outside=True)
        *send, _ = made["start"].splitlines()
        lines = ["set -e", *send, f"exec {made['stop'].removesuffix(' stop')} rehearse"]
        return subprocess.call(["bash", "-c", "\n".join(lines)])


def health(args: argparse.Namespace) -> int:
    """`health`: 0 fit, 1 care or unfit, 2 could not tell."""
    _check_options(args)
    if args.expect.strip() == "help":
        from ..health.examine import script_path

        return subprocess.run(
            [sys.executable, "-I", str(script_path()), "--expect", "help"], check=False
        ).returncode
    if args.report is not None:
        return _report(args)
    if args.watch is not None:
        return _watch(args)
    return _hosts(args) if args.hosts is not None else _examine(args)


def _check_options(args: argparse.Namespace) -> None:
    """Raises BadRequest for options that can't be combined."""
    given = [option for option, name in ALONE.items() if getattr(args, name) is not None]
    if len(given) > 1:
        raise BadRequest(f"{' and '.join(given)} can't be combined; pass one of them")
    if args.box != "local" and given and given[0] in ("--hosts", "--replay", "--report"):
        raise BadRequest(
            f"the box {args.box[:40]!r} and {given[0]} can't be combined; pass one of them"
        )
    if args.pid is not None and args.watch is None:
        raise BadRequest("--pid needs --watch; pass both or none")
    if args.output is not None and args.report is None:
        raise BadRequest("-o needs --report; pass both or none")
    if args.stress and given and given[0] != "--hosts":
        raise BadRequest(f"--stress and {given[0]} can't be combined; pass one of them")


def _examine(args: argparse.Namespace) -> int:
    from ..health.examine import Question, examine
    from ..health.reading import as_text

    box = box_of(args.box)
    if args.replay is not None and not os.path.lexists(args.replay):
        raise BadRequest(f"no folder at {args.replay}; pass one that --record wrote")
    question = Question(
        args.expect, args.python, args.stress, str(args.replay.absolute()) if args.replay else ""
    )
    if args.stress:
        print(f"putting a load on every GPU for {args.stress:g} s …", file=sys.stderr, flush=True)
    with terminal.waiting(f"checking {args.box[:60]} …"):
        if args.record is not None:
            from ..health.examine import record

            found = record(box, question, args.record, accept_new=args.accept_new_host_key)
        else:
            found = examine(box, question, accept_new=args.accept_new_host_key)
    if not found.why and not args.replay:
        remember(box)
    if args.replay:
        found.box = str(args.replay)
    if args.json:
        print(json.dumps(found.as_dict(), ensure_ascii=False, indent=1))
    else:
        terminal.write(as_text(found), COLOURS)
    return found.code


def _hosts(args: argparse.Namespace) -> int:
    from ..health import hosts as health_hosts
    from ..health.examine import Question

    named = health_hosts.hosts(args.hosts)
    with terminal.Progress("checking boxes", len(named), unit="boxes") as progress:
        found = health_hosts.examine_all(
            named,
            Question(args.expect, args.python, args.stress),
            accept_new=args.accept_new_host_key,
            progress=lambda done, of: progress(done),
        )
    if args.json:
        print(json.dumps(health_hosts.as_dict(found), ensure_ascii=False, indent=1))
    else:
        terminal.write(health_hosts.as_text(found), COLOURS)
    return health_hosts.code(found)


def _watch(args: argparse.Namespace) -> int:
    from ..health import watching as health_watching

    box = box_of(args.box)
    if box.local:
        return health_watching.here(args.watch, args.pid)
    found = health_watching.there(box, args.watch, args.pid, accept_new=args.accept_new_host_key)
    if args.json:
        print(json.dumps(found, ensure_ascii=False))
    else:
        print(f"watching {found['box']} as process {found['pid']} there, into {found['file']}")
        print(f"copy that file here, then: {program()} health --report FILE -o page.html")
    return 0


def _report(args: argparse.Namespace) -> int:
    from ..health.report import write

    print(write(args.report, args.output or args.report.with_suffix(".html")))
    return 0


def box_of(text: str):
    """The box that a user names. Raises BadRequest."""
    from ..boxes.box import BadBox, parse

    try:
        return parse(text)
    except BadBox as error:
        raise BadRequest(str(error)) from None


def remember(box, profile: str = "") -> None:
    """Note in the ledger that the box may be billed. This machine is never noted."""
    if not box.local:
        from ..boxes.box import address
        from ..runs import ledger

        ledger.opened(address(box), box.name, profile=profile)
