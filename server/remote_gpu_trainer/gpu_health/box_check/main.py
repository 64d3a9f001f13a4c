"""Is this GPU box fit to train on? Python 3.8, standard library only.

It also runs as `ssh HOST python3 - < gpu_health.py`.

usage:
  gpu_health.py [--expect LIST] [--python PATH] [--path DIR ...] [--stress SECONDS]
                [--network] [--durable HOST:PATH] [--record DIR] [--json]
  gpu_health.py --replay DIR_OR_FILE [--expect LIST] [--json]
  gpu_health.py --watch SECONDS [--pid PID]

--expect gpus=8,name=H100,vram=80,nvlink=all,driver>=550,torch=cu130 compares the box with what
you pay for. `--expect help` lists the names. --record writes what was read, one file per command.
--replay judges such a folder, a part of one, or one raw file.
Exit 0: fit. Exit 1: care or unfit. Exit 2: unknown, or wrong usage.
A watch: exit 0 at its signal or the end of --pid, exit 1 if something was degraded or fatal, exit 2
if nvidia-smi ended before that.

The levels of the findings give the verdict (function `verdict`): unfit if one is fatal, otherwise
care if one is degraded, otherwise unknown if one is unknown. Warnings leave the box fit. Anything
that could not be read is a finding of level unknown, so the box is then never fit. A replayed
capture without `exit.json` (a raw output from elsewhere) is judged by what it has; what it lacks is
under `not_in_capture`.

Not covered: faults that show only under load (use --stress), the network between boxes, drivers of
makers other than NVIDIA and AMD.
"""

import argparse
import io
import json
import os
import sys

from .expectations import EXPECT, expectations_of
from .findings import Findings
from .gather import gather
from .network import network
from .recording import load, save
from .report import as_terminal, as_text, report
from .stress import in_use, stress
from .watch import watch

EXIT = {"fit": 0, "care": 1, "unfit": 1, "unknown": 2}


class Usage(argparse.ArgumentParser):
    """A parser with errors of one line."""

    def error(self, message):
        """Say what is wrong, and exit with 2."""
        sys.stderr.write(f"gpu_health.py: {message}; see --help\n")
        raise SystemExit(2)


def parser_of_arguments():
    """The command line."""
    parser = Usage(
        prog="gpu_health.py",
        description=(__doc__ or "").split("\n\n")[0],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=(__doc__ or "").split("\n\n", 1)[-1],
    )
    parser.add_argument(
        "--expect",
        default="",
        metavar="LIST",
        help="what you pay for: gpus=8,name=H100,vram=80,nvlink=all,driver>=550,torch=cu130; "
        "'help' lists the names",
    )
    parser.add_argument(
        "--python",
        metavar="PATH",
        help="the job's interpreter: checks its torch and CUDA, and runs a small kernel",
    )
    parser.add_argument(
        "--path",
        action="append",
        default=[],
        metavar="DIR",
        help="a path that the job writes to; repeatable (default: /, /tmp, home, here)",
    )
    parser.add_argument(
        "--stress",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="load the GPUs for this long; needs torch in --python",
    )
    parser.add_argument(
        "--network",
        action="store_true",
        help="measure the way to the Hub and PyPI: 420 MB at most, two minutes",
    )
    parser.add_argument(
        "--durable",
        default="",
        metavar="HOST:PATH",
        help="with --network: send 64 MB to this place too, where they are thrown away",
    )
    parser.add_argument(
        "--watch",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="print a JSON line every SECONDS, until a signal or until --pid ends",
    )
    parser.add_argument(
        "--pid", type=int, metavar="PID", help="with --watch: stop when this process ends"
    )
    parser.add_argument("--record", metavar="DIR", help="write what was read, one file per command")
    parser.add_argument("--replay", metavar="DIR", help="judge a recording instead of this box")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def main(arguments=None):
    """Runs the command line -> the exit code."""
    options = parser_of_arguments().parse_args(arguments)
    if options.expect.strip() == "help":
        print("\n".join(f"{name:8} {text}" for name, (_, text) in sorted(EXPECT.items())))
        return 0
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")
    try:
        expectations = expectations_of(options.expect)
    except ValueError as error:
        sys.stderr.write(f"gpu_health.py: {error}\n")
        return 2
    if options.watch:
        return watch(options.watch, options.pid)
    try:
        record, measured, reached, extra = record_of(options)
    except CantExamine as error:
        sys.stderr.write(f"gpu_health.py: {error}\n")
        return 2
    answer = report(record, expectations, extra)
    if measured is not None:
        answer["stress"] = measured
    if reached is not None:
        answer["network"] = reached
    if options.json:
        print(json.dumps(answer, ensure_ascii=False))
    elif sys.stdout.isatty():
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        print(as_terminal(answer, not plain))
    else:
        print(as_text(answer))
    return EXIT[answer["verdict"]]


class CantExamine(Exception):
    """There is nothing to judge, or it can't be recorded."""


def record_of(options):
    """-> (the record, what a load measured, what the network did, their findings); None for what
    wasn't asked for. Raises CantExamine."""
    if options.replay:
        try:
            return load(options.replay), None, None, []
        except (OSError, ValueError) as error:
            raise CantExamine(f"can't replay: {error}") from None
    record, add = gather(python=options.python, paths=options.path), Findings()
    measured = reached = None
    if (options.stress or options.network) and (held := in_use(record)):
        add(None, "cards_in_use", *held)
        options.stress = options.network = 0
    if options.stress:
        measured, found = stress(options.stress, options.python or sys.executable, record)
        add.list += found
    if options.network:
        reached, found = network(options.durable)
        add.list += found
    if options.record:
        try:
            save(record, options.record)
        except OSError as error:
            raise CantExamine(f"can't record: {error}") from None
    return record, measured, reached, add.list


if __name__ == "__main__":
    try:
        try:
            exit_code = main()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output has gone, for example `head`
        os._exit(141)
    sys.stderr.flush()
    os._exit(exit_code)  # a thread that waits for a dead mount must not delay the answer
