"""The command `health`: is a box fit to train on, and does it stay so during a run."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..text import BadRequest
from ..text.masking import shown
from . import terminal
from .boxes import BOX, box_of, print_json, remember
from .completion import files, folders
from .parsing import command, program

if TYPE_CHECKING:
    from ..gpu_health.reading import Health

MOST_READ = 64 << 20  # bytes of standard input; the check itself says what it cut

COLOURS = {  # of verdicts, and of the levels of findings
    r"(?m)^fit\b": "bold green",
    r"(?m)^(care|warn|unknown)\b": "bold yellow",
    r"(?m)^(unfit|fatal|degraded)\b": "bold red",
    r"(?m)  fit$": "bold green",
    r" (warn|unknown):": "bold yellow",
    r" (fatal|degraded):": "bold red",
    r"\[[A-Z][A-Z0-9]*\d\]": "cyan",
}


@dataclass(frozen=True)
class Options:
    """What the user asked for: the options of `rgt health` by their names."""

    box: str
    expect: str
    python: str
    stress: float
    network: bool
    durable: str
    record: Path | None
    hosts: str | None
    watch: float | None
    pid: int | None
    report: Path | None
    output: Path | None
    accept_new: bool
    as_json: bool


@command("health", about_boxes=True)
@click.argument(
    "box",
    default="local",
    help=BOX + "; or what was read on a box: ./FOLDER of --record, a FILE.txt with the output of a "
    "command such as dmesg, nvidia-smi -q or dcgmi diag, or - for standard input (default: this "
    "machine)",
)
@click.option(
    "--expect",
    default="",
    metavar="LIST",
    help="what you pay for, such as gpus=8,name=H100,vram=80,nvlink=all,driver>=550,"
    "torch=cu130; 'help' lists the names",
)
@click.option(
    "--python",
    default="",
    metavar="PATH",
    help="the job's Python on the box: checks its torch and CUDA, and runs a small kernel",
)
@click.option(
    "--stress",
    type=float,
    default=0.0,
    metavar="SECONDS",
    help="load all GPUs for this long (needs torch on the box; refused where a card has a process)",
)
@click.option(
    "--network",
    is_flag=True,
    help="measure how fast the box reaches the Hub and PyPI: 420 MB at most, 2 minutes at most "
    "(refused where a card has a process)",
)
@click.option(
    "--durable",
    default="",
    metavar="HOST:PATH",
    help="with --network: send 64 MB to the durable place too, where they are thrown away",
)
@click.option(
    "--record",
    type=Path,
    metavar="DIR",
    shell_complete=folders,
    help="save what was read on the box in a new folder on this machine",
)
@click.option(
    "--hosts",
    metavar="FILE",
    shell_complete=files,
    help="check many boxes, one per line, 16 at a time; prints a table, worst first",
)
@click.option(
    "--watch",
    type=float,
    metavar="SECONDS",
    help="write a JSON line every SECONDS: on this machine until a signal, on a box in the "
    "background, into a file there",
)
@click.option("--pid", type=int, metavar="PID", help="with --watch: stop when this process ends")
@click.option(
    "--report",
    type=Path,
    metavar="WATCH.jsonl",
    shell_complete=files,
    help="make an HTML page from a file that --watch wrote",
)
@click.option(
    "-o",
    "--output",
    type=Path,
    metavar="FILE.html",
    shell_complete=files,
    help="with --report: where to write the page (default: beside it)",
)
@click.option(
    "--accept-new-host-key",
    "accept_new",
    is_flag=True,
    help="store the host key of an unknown box; a changed key is never accepted",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="print the object that the MCP tool returns; with --hosts one object for all",
)
def health(**given: Any) -> int:
    """Check a box's GPUs, driver, kernel log, links and disks, and say whether it is fit to train
    on. Nothing is installed or changed there.

    Exit 0: fit. Exit 1: care or unfit. Exit 2: could not tell.
    """
    options = Options(**given)
    refuse_combinations(options)
    if options.expect.strip() == "help":
        return _print_expectations()
    if options.report is not None:
        return _report(options.report, options.output)
    if _is_capture(options.box):
        return _judge_capture(options)
    if options.watch is not None:
        return _watch(options, options.watch)
    if options.hosts is not None:
        return _check_hosts(options, options.hosts)
    return _check_box(options)


def refuse_combinations(options: Options) -> None:
    """Raises BadRequest for options that can't be combined."""
    alone = {
        "--hosts": options.hosts,
        "--record": options.record,
        "--report": options.report,
        "--watch": options.watch,
    }
    given = [name for name, value in alone.items() if value is not None]
    if len(given) > 1:
        raise BadRequest(f"{' and '.join(given)} can't be combined; pass one of them")
    if options.box != "local" and given and given[0] in ("--hosts", "--report"):
        raise BadRequest(
            f"the box {options.box[:40]!r} and {given[0]} can't be combined; pass one of them"
        )
    if options.pid is not None and options.watch is None:
        raise BadRequest("--pid needs --watch; pass both or none")
    if options.output is not None and options.report is None:
        raise BadRequest("-o needs --report; pass both or none")
    for name in ("stress", "network"):
        if getattr(options, name) and given and given[0] != "--hosts":
            raise BadRequest(f"--{name} and {given[0]} can't be combined; pass one of them")
    if options.durable and not options.network:
        raise BadRequest("--durable needs --network; pass both or none")


def _print_expectations() -> int:
    """Print what --expect may name, as the box check itself says it."""
    from ..gpu_health.examine import script_path

    return subprocess.run(
        [sys.executable, "-I", str(script_path()), "--expect", "help"], check=False
    ).returncode


def _is_capture(box: str) -> bool:
    """Whether the argument is what was read on a box: a path that is there, or standard input.

    A name without a slash and a dot stays a box, whatever lies here.
    """
    return (
        box == "-" or ("/" in box and os.path.exists(box)) or ("." in box and os.path.isfile(box))
    )


def _judge_capture(options: Options) -> int:
    """Judge what was read on a box: 0 fit, 1 care or unfit, 2 could not tell."""
    from ..boxes.box import parse
    from ..gpu_health.examine import Question, examine

    asked = {
        "--python": options.python,
        "--stress": options.stress,
        "--network": options.network,
        "--record": options.record,
        "--watch": options.watch,
        "--accept-new-host-key": options.accept_new,
    }
    for name, value in asked.items():
        if value:
            raise BadRequest(f"{name} is for a box, and {shown(options.box, 80)} was read on one")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(options.box).absolute()
        if options.box == "-":
            path = Path(folder) / "input"
            path.write_bytes(sys.stdin.buffer.read(MOST_READ))
        verdict = examine(parse("local"), Question(options.expect, replay=str(path)))
    verdict.box = "standard input" if options.box == "-" else options.box
    return _print_answer(options, verdict)


def _check_box(options: Options) -> int:
    """Check one box: 0 fit, 1 care or unfit, 2 could not tell."""
    from ..gpu_health.examine import Question, examine, record

    box = box_of(options.box)
    question = Question(
        options.expect,
        options.python,
        options.stress,
        network=options.network,
        durable=options.durable,
    )
    _say_what_it_takes(options)
    with terminal.waiting(f"checking {options.box[:60]} …"):
        if options.record is not None:
            verdict = record(box, question, options.record, accept_new=options.accept_new)
        else:
            verdict = examine(box, question, accept_new=options.accept_new)
    if not verdict.why:
        remember(box)
    return _print_answer(options, verdict)


def _print_answer(options: Options, verdict: Health) -> int:
    """Print the answer, and return the exit code."""
    from ..gpu_health.reading import as_text

    if options.as_json:
        print_json(verdict.as_dict())
    else:
        terminal.write(as_text(verdict, terminal.is_terminal(sys.stdout)), COLOURS)
    return verdict.code


def _say_what_it_takes(options: Options) -> None:
    """Say how long loads last, and what they send, before they begin."""
    from ..gpu_health.box_check import network

    loads = []
    if options.stress:
        minutes = math.ceil((2 * options.stress + 90) / 60)
        loads.append(f"a load on every GPU for {options.stress:g} s, {minutes} minutes at most")
    if options.network:
        count, sent = 2 * network.PLACE_BYTES // 10**6, network.SENT_BYTES // 10**6
        to = f", and sending {sent} MB to {shown(options.durable, 60)}" if options.durable else ""
        loads.append(f"fetching {count} MB at most{to}, 2 minutes at most")
    if loads:
        print(f"measuring: {'; '.join(loads)} …", file=sys.stderr, flush=True)


def _check_hosts(options: Options, file: str) -> int:
    """Check the boxes that a file names: the code of the worst."""
    from ..gpu_health import hosts
    from ..gpu_health.examine import Question

    names = hosts.hosts(file)
    with terminal.Progress("checking boxes", len(names), unit="boxes") as progress:
        verdicts = hosts.examine_all(
            names,
            Question(
                options.expect,
                options.python,
                options.stress,
                network=options.network,
                durable=options.durable,
            ),
            accept_new=options.accept_new,
            progress=lambda done, of: progress(done),
        )
    if options.as_json:
        print_json(hosts.as_dict(verdicts))
    else:
        terminal.write(hosts.as_text(verdicts), COLOURS)
    return hosts.code(verdicts)


def _watch(options: Options, interval: float) -> int:
    """Watch this machine's GPUs until a signal, or start a watch on a box."""
    from ..gpu_health import watching

    box = box_of(options.box)
    if box.local:
        return watching.here(interval, options.pid)
    started = watching.there(box, interval, options.pid, accept_new=options.accept_new)
    if options.as_json:
        print_json(started)
    else:
        process, file = started["pid"], started["file"]
        print(f"watching {started['box']} as process {process} there, into {file}")
        print(f"copy that file here, then: {program()} health --report FILE -o page.html")
    return 0


def _report(watched: Path, page: Path | None) -> int:
    """Make the page of a watch, and print where it is."""
    from ..gpu_health.report import write

    print(write(watched, page or watched.with_suffix(".html")))
    return 0
