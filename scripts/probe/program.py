"""Look at the first steps of a training program for failures that no log shows.

usage:
  probe.py [--steps 30] [--json FILE] [--page FILE] -- train.py ARGS ...
  probe.py [--steps 30] [--json FILE] -- torchrun --nproc-per-node 2 train.py ARGS ...
  probe.py --prepare FOLDER             then start the program with FOLDER first on PYTHONPATH,
  probe.py --report FOLDER [--json FILE] [--page FILE]        and ask for what was seen so far

Everything after -- is the program, as you start it: a Python file, or a command such as python,
torchrun, accelerate or deepspeed. Its code isn't changed. The probe enters each of its Python
processes at the import of torch, looks at --steps optimizer steps, and takes its hooks off; the
program goes on. The findings are printed to the standard error once the program has ended, and
--json writes them into a file, and --page as an HTML page with plots (by jinja2, which torch needs
too).

Where the catalogue lies beside this file's folder, a finding shows the entry's check and fix.

The exit code is the program's own. Verdict: wrong (what was seen proves a fault), suspicious (a
hint), sound, or not looked at. Of your data, only shapes, ranges and hashes are kept.
Python 3.8 or newer and torch 2.1 or newer; the probe itself needs the standard library alone.
"""

import argparse
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

from .entering import SITE
from .entries import advice, catalogue
from .kinds_model import HINT, WRONG
from .page import page
from .table import KINDS, NOT_LOOKED, OBSERVATIONS, SOUND, SUSPICIOUS, finding

FORM = 1


def parse(argv):
    """The options and the program's command. Ends with 2 on wrong usage."""
    own, program = argv, []
    if "--" in argv:
        place = argv.index("--")
        own, program = argv[:place], argv[place + 1 :]
    parser = argparse.ArgumentParser(
        prog="probe.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="probe.py [--steps N] [--json FILE] [--page FILE] -- PROGRAM ARGS ...",
    )
    parser.add_argument("--steps", type=int, default=30, help="optimizer steps to look at (30)")
    parser.add_argument("--json", metavar="FILE", help="write the findings into this file")
    parser.add_argument("--page", metavar="FILE", help="write an HTML page into this file")
    parser.add_argument("--prepare", metavar="FOLDER", help="put the probe into this folder")
    parser.add_argument("--report", metavar="FOLDER", help="say what was seen from this folder")
    parser.add_argument("--quiet", action="store_true", help="print no findings")
    options = parser.parse_args(own)
    if options.steps < 1:
        parser.error("--steps must be 1 or more")
    if options.prepare or options.report:
        return options, None
    if not program:
        parser.error("no program; give it after --, as in: probe.py -- train.py --epochs 1")
    return options, command(program, parser)


def command(program, parser):
    """The command that starts the program."""
    first = program[0]
    if first.endswith(".py") and os.path.isfile(first):
        return [sys.executable, *program]
    if shutil.which(first):
        return program
    parser.error(f"{first}: no such file or command; give a Python file or a command")
    return None


def environment(folder, steps):
    """The environment of the program: this one, with the folder first on PYTHONPATH."""
    own = dict(os.environ)
    held = own.get("PYTHONPATH")
    own["PYTHONPATH"] = folder + (os.pathsep + held if held else "")
    own["RGT_PROBE_STEPS"] = str(steps)
    return own


def prepare(folder):
    """Put into a folder what the program's processes import from it."""
    os.makedirs(folder, exist_ok=True)
    shutil.copyfile(os.path.abspath(__file__), os.path.join(folder, "_rgt_probe.py"))
    with open(os.path.join(folder, "sitecustomize.py"), "w", encoding="utf-8") as handle:
        handle.write(SITE)


def run(program, folder, steps):
    """Run the program to its end. Returns its exit code, or the negative number of a signal."""
    prepare(folder)
    child = subprocess.Popen(program, env=environment(folder, steps))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to the child too
    for name in ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda number, _: child.send_signal(number))
    return child.wait()


def read(folder, pattern):
    """The JSON files of one kind that the program's processes wrote."""
    found = []
    for path in sorted(glob.glob(os.path.join(glob.escape(folder), pattern))):
        try:
            with open(path, encoding="utf-8") as handle:
                found.append(json.load(handle))
        except (OSError, ValueError):
            continue
    return found


def same_random_numbers(workers):
    """Findings where workers of one trainer began in the same state of a generator they used."""
    by_trainer = {}
    for one in workers:
        by_trainer.setdefault(one["trainer"], []).append(one)
    for _, group in sorted(by_trainer.items()):
        for path in sorted({path for one in group for path in one["rows"][0]}):
            starts = {}
            for one in sorted(group, key=lambda one: one["time"]):
                before, after = one["rows"][0].get(path, (None, None))
                if before and after and before != after:
                    # Equal at the end too: a generator that is seeded for each sample isn't.
                    starts.setdefault((before, after), []).append(one["worker"])
            shared = [ids for ids in starts.values() if len(set(ids)) > 1]
            if shared:
                ids = sorted(set(shared[0]))
                return [
                    dict(
                        finding(
                            "workers share random numbers",
                            0,
                            "{} began in the same state in workers {} and was used there".format(
                                path, ", ".join(map(str, ids[:8]))
                            ),
                            generator=path,
                            workers=ids[:64],
                        ),
                        rank=None,
                    )
                ]
    return []


def same_batches(reports):
    """A finding where ranks that exchange gradients trained on the same batches."""
    orders = [(r["rank"], r["batches"]) for r in reports if r.get("spread") and r.get("batches")]
    ranks = {}
    for rank, order in orders:
        if len(order) >= 3 and len(set(order)) >= 3:
            ranks.setdefault(tuple(order[:3]), set()).add(rank)
    for group in ranks.values():
        if len(group) > 1:
            told = ", ".join(map(str, sorted(group)[:8]))
            return [
                dict(
                    finding(
                        "ranks share data",
                        1,
                        f"ranks {told} trained on the same batches in the same order, under "
                        "DistributedDataParallel",
                        level=WRONG,
                        ranks=sorted(group),
                    ),
                    rank=min(group),
                )
            ]
    return []


def same_files(reports):
    """A finding where several ranks of one machine wrote a file of one name."""
    writers = {}
    for report in reports:
        for path in report.get("saved", []):
            writers.setdefault((report.get("host"), path), set()).add(report["rank"])
    shared = [sorted(ranks) for ranks in writers.values() if len(ranks) > 1]
    if not shared:
        return []
    told = ", ".join(map(str, shared[0][:8]))
    return [
        dict(
            finding(
                "ranks write one file",
                0,
                f"torch.save wrote {len(shared)} file{'s' if len(shared) > 1 else ''} from each "
                f"of the ranks {told}, under one name on one machine",
                ranks=shared[0],
                files=len(shared),
            ),
            rank=shared[0][0],
        )
    ]


def merged(reports, workers, code):
    """One report of all processes."""
    found = {}
    for one in [f for report in reports for f in report["findings"]]:
        held = found.setdefault((one["kind"], one["id"]), dict(one, ranks=[]))
        held["ranks"] = sorted({*held["ranks"], one["rank"]})
        if one["level"] == WRONG:
            held["level"] = WRONG
    every = list(found.values()) + same_random_numbers(workers)
    every += same_batches(reports) + same_files(reports)
    every.sort(key=lambda one: (one["level"] != WRONG, list(KINDS).index(one["kind"])))
    looked = {}
    for name in OBSERVATIONS:
        states = [report["observations"].get(name, {"state": NOT_LOOKED}) for report in reports]
        missing = [state for state in states if state["state"] == NOT_LOOKED]
        if missing or not states:
            why = missing[0].get("why") if missing else "no process took an optimizer step"
            looked[name] = {"state": NOT_LOOKED, "why": why}
        else:
            there = any(one["kind"] in OBSERVATIONS[name] for one in every)
            looked[name] = {"state": "found" if there else SOUND}
    levels = {one["level"] for one in every}
    verdict = SOUND if reports else NOT_LOOKED
    verdict = WRONG if WRONG in levels else SUSPICIOUS if HINT in levels else verdict
    # Of rank 0, or of the process that went furthest on it.
    first = min(reports, key=lambda one: (one["rank"], -one["steps"]), default={})
    return {
        "form": FORM,
        "verdict": verdict,
        "exit": code,
        "steps": max([report["steps"] for report in reports] or [0]),
        "processes": [
            {key: report[key] for key in ("rank", "pid", "steps", "torch", "python")}
            for report in reports
        ],
        "findings": every,
        "observations": looked,
        "series": first.get("series") or {},
    }


def shown(report):
    """The report as text."""
    count = len(report["processes"])
    lines = [
        "probe: {} ({} step{} of {} process{} looked at)".format(
            report["verdict"],
            report["steps"],
            "" if report["steps"] == 1 else "s",
            count,
            "" if count == 1 else "es",
        )
    ]
    for one in report["findings"]:
        ranks = one.get("ranks") or []
        where = "step {}".format(one["step"]) if one["step"] else "before step 1"
        if len(report["processes"]) > 1 and ranks:
            where += ", rank " + ", ".join(map(str, ranks))
        lines.append("{} {}: {} [{}]".format(one["level"], where, one["what"], one["id"]))
        lines.append("    seen: " + one["evidence"])
        lines.append("    if all were well: " + one["well"])
        told = [name for name in ("check", "fix") if one.get(name)]
        lines += [f"    {name}: {one[name]}" for name in told or ("do",)]
    if not count:
        lines[0] += ": no Python process of the program took a step of a torch optimizer"
    for name, state in report["observations"].items():
        if count and state["state"] == NOT_LOOKED:
            lines.append("not looked at: {} ({})".format(name, state.get("why") or "no report"))
    return "\n".join(lines) + "\n"


def end_like(code):
    """End with the program's exit code, or by its signal."""
    if code < 0:
        if hasattr(signal, "SIGKILL") and -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        try:
            import resource

            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        except (ImportError, ValueError, OSError):
            pass
        os.kill(os.getpid(), -code)
    return code if code >= 0 else 128 - code


def report_of(folder, code=None):
    """The report of what the program's processes wrote into a folder."""
    report = merged(read(folder, "rank-*.json"), read(folder, "worker-*.json"), code)
    known = advice({one["id"] for one in report["findings"]}, catalogue())
    for one in report["findings"]:
        one.update(known.get(one["id"], {}))
    return report


def write(path, make, report):
    """Write a text about a report into a file. What prevents that is told, and ends nothing."""
    try:
        text = make(report)
        with open(path, "w", encoding="utf-8", errors="replace") as handle:
            handle.write(text)
    except OSError as error:
        sys.stderr.write(f"error: {path} can't be written ({error.strerror}); give another file\n")
    except ImportError:
        sys.stderr.write(f"error: {path}: a page needs jinja2; install it for {sys.executable}\n")


def main(argv=None):
    """Run the program under the probe, print and write what was found."""
    options, program = parse(list(sys.argv[1:] if argv is None else argv))
    if options.prepare:
        prepare(options.prepare)
        return 0
    folder, code = options.report, 0
    if folder:
        report = report_of(folder)
    else:
        folder = tempfile.mkdtemp(prefix="rgt-probe-")
        try:
            code = run(program, folder, options.steps)
            report = report_of(folder, code)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        write(options.json, lambda told: json.dumps(told, indent=1) + "\n", report)
    if options.page:
        write(options.page, page, report)
    if not options.quiet:
        sys.stdout.flush()
        (sys.stdout if options.report else sys.stderr).write(shown(report))
        sys.stderr.flush()
    return end_like(code)


if __name__ == "__main__":
    sys.exit(main())
