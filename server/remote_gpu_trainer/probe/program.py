"""Look at the first steps of a training program, and tell what neither code nor log shows.

usage:
  probe.py [--steps 30] [--json FILE] [--page FILE] -- train.py ARGS ...
  probe.py -- torchrun --nproc-per-node 2 train.py ARGS ...
  probe.py --compare OTHER.json -- train.py ARGS ...
  probe.py --prepare FOLDER  then start the program with FOLDER first on PYTHONPATH,
  probe.py --report FOLDER [--json FILE] [--page FILE]  and ask for what was seen so far

Everything after -- is the program, as you start it: a Python file, or a command such as python,
torchrun, accelerate or deepspeed. Its code isn't changed. The probe enters each of its Python
processes at the import of torch, looks at --steps optimizer steps, and takes its hooks off; the
program goes on. The findings are printed to the standard error once the program has ended, and
--json writes them into a file, and --page as an HTML page with plots (by jinja2, which torch needs
too).

Where the catalogue lies beside this file's folder, a finding shows the entry's check and fix.

The exit code is the program's own. Verdict: wrong (what was seen proves a fault), suspicious (a
hint), sound, or not looked at. A note, on speed or taste, leaves the verdict alone. Below it stand
facts: what is in force, the data as they came, the loss, what never moved, what was saved, the time
of a step. Those that begin with ! are unlike what is usual. Findings and facts together are a page
of 600 tokens, which says what it leaves out; --json and --page have all.

Once the steps are over, up to 2,000 samples of the data sets are read in a process of their own,
which the kernel lets write, send and start nothing (on Linux; elsewhere none is read). Streams
aren't read. Of your data, only shapes, shares, ranges and salted hashes are kept.
Python 3.8, torch 2.1 or newer; the probe itself needs the standard library alone.
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
import time

from .data_sets import MOST_SECONDS, MOST_WAITING, not_looked
from .entering import SITE
from .entries import advice, catalogue
from .facts import (
    LEAST_SHEET,
    MOST_PAGE,
    MOST_UNSEEN,
    TOPICS,
    cut,
    differences,
    sheet,
    tokens,
    whole_sentences,
)
from .kinds_model import HINT, NOTE, WRONG
from .page import page
from .sources import of_code
from .table import (
    ADVICE,
    FOUND,
    KINDS,
    LEVELS,
    NOT_LOOKED,
    OBSERVATIONS,
    SOUND,
    SUSPICIOUS,
    finding,
)

FORM = 1
LEAST_ROWS = 64  # of a rank, below which they aren't compared with those of others
MOST_SHARED = 0.5  # of a rank's rows
MOST_ADVICE = 100  # tokens of a check or a fix on the page; --json has it whole


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
    parser.add_argument("--beside", type=json.loads, default={}, help="its further fields, as JSON")
    parser.add_argument("--page", metavar="FILE", help="write an HTML page into this file")
    parser.add_argument(
        "--compare",
        metavar="FILE",
        help="tell what differs from a --json file, such as versions and commit",
    )
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
    """Run the program to its end. Returns its exit code, or the negative number of a signal.

    Without a folder, or where nothing can be put there, it runs without the probe.
    """
    own = None
    if folder:
        try:
            prepare(folder)
            own = environment(folder, steps)
            with open(os.path.join(folder, "code.json"), "w", encoding="utf-8") as handle:
                json.dump({"facts": attempt(of_code, program, otherwise=[])}, handle)
        except OSError as error:
            complain(f"probe: not looked at: {folder} can't be written ({error.strerror})")
    try:
        child = subprocess.Popen(program, env=own)
    except OSError as error:
        complain(f"error: {program[0]} can't be started ({error.strerror}); give another program")
        return 126
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
    return same_rows(reports)


def same_rows(reports):
    """A finding where ranks that exchange gradients mostly trained on each other's rows.

    Of each rank, the rows of its first pass: up to one that came again, or the end of the epoch.
    """
    seen = {r["rank"]: set(r["rows"]) for r in reports if r.get("spread") and r.get("rows")}
    if len(seen) < 2 or min(map(len, seen.values())) < LEAST_ROWS:
        return []
    shared = {
        rank: len(rows & set().union(*(seen[other] for other in seen if other != rank))) / len(rows)
        for rank, rows in seen.items()
    }
    least = min(shared, key=shared.__getitem__)
    if shared[least] < MOST_SHARED:
        return []
    return [
        dict(
            finding(
                "ranks share data",
                1,
                f"of the first {len(seen[least]):,} rows of rank {least}, "
                f"{shared[least]:.0%} were trained on by another rank too, in other batches",
                ranks=sorted(seen),
                shared=round(shared[least], 3),
            ),
            rank=least,
        )
    ]


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


def drifting(reports):
    """A finding where ranks that DDP keeps equal have other weights after the same step."""
    by_step = {}
    for report in reports:
        for steps, told in (report.get("weights") or {}).items():
            by_step.setdefault(int(steps), {})[report["rank"]] = (told, report.get("host"))
    for steps, told in sorted(by_step.items()):
        if len({weights for weights, _ in told.values()}) > 1:
            ranks = sorted(told)
            # Two kinds of machine may round in two ways.
            beside = len(set(told.values())) > len({host for _, host in told.values()})
            return [
                dict(
                    finding(
                        "ranks drift apart",
                        steps,
                        f"after step {steps} the weights of ranks "
                        f"{', '.join(map(str, ranks[:8]))} aren't all equal; samples of each "
                        "weight were compared",
                        level=None if beside else HINT,
                        ranks=ranks,
                    ),
                    rank=ranks[0],
                )
            ]
    return []


def compared(reports):
    """Why the weights of ranks weren't compared with each other, or an empty text."""
    if len(reports) < 2:
        return "one process"
    steps = [set(report.get("weights") or {}) for report in reports]
    if len({report["rank"] for report in reports}) < 2:
        return "one rank"
    return "" if set.intersection(*steps) else "the weights of the ranks weren't compared"


def is_report(one):
    """Whether something that was read is what a process writes."""
    needed = {"rank": int, "pid": int, "steps": int, "findings": list, "observations": dict}
    if not isinstance(one, dict) or not all(isinstance(one.get(k), t) for k, t in needed.items()):
        return False
    named = all(
        isinstance(f, dict) and f.get("kind") in KINDS and f.get("level") in LEVELS
        for f in one["findings"]
    )
    return named and all(isinstance(state, dict) for state in one["observations"].values())


def state_of_part(name, reports, every):
    """What is told about one part: found, sound, or why it wasn't looked at."""
    states = [report["observations"].get(name) or {"state": NOT_LOOKED} for report in reports]
    kept = {}
    partly = sorted({state["partly"] for state in states if state.get("partly")})
    if partly:
        kept["partly"] = "; ".join(partly[:3])
    if any(one["kind"] in OBSERVATIONS[name] for one in every):
        return {"state": FOUND, **kept}
    broken = [state for state in states if state.get("broken")]
    missing = [state for state in states if state["state"] == NOT_LOOKED]
    if broken or len(missing) == len(states):
        why = [state.get("why") for state in broken or missing]
        told = {"state": NOT_LOOKED, "why": (why or ["no process took an optimizer step"])[0]}
        return {**told, **({"broken": True} if broken else {})}
    if name == "ranks" and compared(reports):
        return {"state": NOT_LOOKED, "why": compared(reports)}
    return {"state": SOUND, **kept}


def merged(reports, workers, code):
    """One report of all processes."""
    reports = [report for report in reports if is_report(report)]
    found = {}
    for one in [f for report in reports for f in report["findings"]]:
        held = found.setdefault((one["kind"], one["id"]), dict(one, ranks=[]))
        held["ranks"] = sorted({*held["ranks"], one["rank"]})
        held["level"] = min(held["level"], one["level"], key=LEVELS.index)
    every = list(found.values())
    for look, told in (
        (same_random_numbers, workers),
        (same_batches, reports),
        (same_files, reports),
        (drifting, reports),
    ):
        for one in attempt(look, told) or ():
            every.append(dict(one, ranks=(one["numbers"] or {}).get("ranks") or []))
    every.sort(key=lambda one: (LEVELS.index(one["level"]), list(KINDS).index(one["kind"])))
    broken = {"state": NOT_LOOKED, "why": "the probe failed", "broken": True}
    looked = {
        name: attempt(state_of_part, name, reports, every, otherwise=broken)
        for name in OBSERVATIONS
    }
    levels = {one["level"] for one in every}
    verdict = WRONG if WRONG in levels else SUSPICIOUS if HINT in levels else SOUND
    if verdict == SOUND and all(state["state"] == NOT_LOOKED for state in looked.values()):
        verdict = NOT_LOOKED
    # Of rank 0, or of the process that went furthest on it.
    first = min(reports, key=lambda one: (one["rank"], -one["steps"]), default={})
    return {
        "form": FORM,
        "verdict": verdict,
        "exit": code,
        "program": first.get("program") or "",
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "steps": max([report["steps"] for report in reports] or [0]),
        "processes": [
            {key: report.get(key) for key in ("rank", "pid", "steps", "torch", "python")}
            for report in reports
        ],
        "findings": every,
        "observations": looked,
        "facts": facts_in(first),
        "series": first.get("series") or {},
    }


def facts_in(report):
    """The facts of one process's report, those that aren't facts left out."""
    return [
        one
        for one in report.get("facts") or []
        if isinstance(one, dict)
        and one.get("about") in TOPICS
        and all(isinstance(one.get(key), str) for key in ("name", "text", "usual"))
    ]


def shown(report, other=None):
    """The report as text. `other`: the report of another run, which this one is compared with."""
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
    if not count:
        lines[0] += ": no Python process of the program took a step of a torch optimizer"
    room = MOST_PAGE - tokens(lines[0])
    lines += of_findings(report["findings"], count > 1, room - LEAST_SHEET)
    room = MOST_PAGE - sum(map(tokens, lines))
    if other is not None:
        lines += compared_with(report, other, room)
    elif count:
        lines += sheet(report.get("facts") or [], unseen_in(report), room)
    return "\n".join(lines) + "\n"


def unseen_in(report):
    """What wasn't looked at, and why; where that is long, what alone."""
    told = {}
    for name, state in report["observations"].items():
        if state["state"] == NOT_LOOKED:
            told[name] = "{} ({})".format(name, state.get("why") or "no report")
        elif state.get("partly"):
            told[f"some of {name}"] = "{}, of it {}".format(name, state["partly"])
    whole = "; ".join(told.values())
    return whole if tokens(whole) <= MOST_UNSEEN - 5 else ", ".join(told) + " (why: see --json)"


def of_findings(findings, of_several, most):
    """The lines on findings, of about `most` tokens: first what each is, then what would be well
    and what to do, the worst first.
    """
    told, left, shortened, room = [], [], [], most
    for one in findings:
        lines = head_of(one, of_several)
        if sum(map(tokens, lines)) > room or left:
            left.append(one["id"])
            continue
        told.append((one, lines))
        room -= sum(map(tokens, lines))
    for one, lines in told:
        advised = [name for name in ("check", "fix") if one.get(name)] or ["do"]
        details = [("if all were well", one["well"]), *((name, one[name]) for name in advised)]
        for name, text in details if one["level"] != NOTE else ():
            kept = whole_sentences(text, min(MOST_ADVICE, room) - tokens(name + ":"))
            if kept:
                lines.append(f"    {name}: {kept}")
                room -= tokens(lines[-1])
            if kept != text and one["id"] not in shortened:
                shortened.append(one["id"])
    lines = [line for _, these in told for line in these]
    if shortened:
        lines.append(f"(more on {cut(', '.join(shortened), 20)}: in --json)")
    if left:
        lines.append(f"({len(left)} more found: {cut(', '.join(left), 20)}, in --json)")
    return lines


def head_of(one, of_several):
    """What was found and where; of what isn't a note, what was seen too."""
    ranks = one.get("ranks") or []
    where = "step {}".format(one["step"]) if one["step"] else "before step 1"
    if of_several and ranks:
        where += ", rank " + ", ".join(map(str, ranks[:8])) + (" …" if len(ranks) > 8 else "")
    lines = ["{} {}: {} [{}]".format(one["level"], where, one["what"], one["id"])]
    return lines + (["    seen: " + cut(one["evidence"])] if one["level"] != NOTE else [])


def compared_with(report, other, room):
    """The lines that tell how this run differs from another one, in `room` tokens."""
    kinds = [{one.get("kind") for one in run.get("findings") or []} for run in (report, other)]
    new, gone = sorted(map(str, kinds[0] - kinds[1])), sorted(map(str, kinds[1] - kinds[0]))
    lines = [f"found here and not there: {', '.join(new)}"] if new else []
    lines += [f"found there and not here: {', '.join(gone)}"] if gone else []
    lines = [cut(line) for line in lines]
    room -= sum(map(tokens, lines))
    lines += differences(report.get("facts") or [], facts_in(other), room)
    return lines or ["no fact differs from the other run's"]


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


def nowhere():
    """A stream that takes everything."""
    return os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def complain(text):
    """A line on the standard error, where there is one."""
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        sys.stderr = nowhere()  # at its end Python writes out what it holds


def attempt(make, *args, otherwise=None):
    """What a function gives. What breaks in the probe is told, and ends nothing."""
    try:
        return make(*args)
    except Exception as error:
        name = getattr(make, "__name__", "a part")
        complain(f"probe: {name} failed ({type(error).__name__}: {error}); the rest is told")
        return otherwise


def as_read(reports, code):
    """A report of no more than what the processes wrote, for when nothing else can be made."""
    every = [one for report in reports for one in report.get("findings") or []]
    levels = {one.get("level") for one in every}
    verdict = WRONG if WRONG in levels else SUSPICIOUS if HINT in levels else NOT_LOOKED
    return {
        "form": FORM,
        "verdict": verdict,
        "exit": code,
        "steps": max([report.get("steps") or 0 for report in reports] or [0]),
        "processes": [
            {key: report.get(key) for key in ("rank", "pid", "steps", "torch", "python")}
            for report in reports
        ],
        "findings": [dict(one, ranks=[one.get("rank")]) for one in every],
        "observations": {},
        "series": {},
    }  # fmt: skip


def plainly(report):
    """The findings as text, made of as little as can be."""
    lines = ["probe: {}".format(report.get("verdict"))]
    for one in report.get("findings") or []:
        words = [str(one.get(key)) for key in ("level", "id", "what", "evidence", "do")]
        lines.append("{} [{}] {}; seen: {}; do: {}".format(*words))
    return "\n".join(lines) + "\n"


def report_of(folder, code=None):
    """The report of what the program's processes wrote into a folder."""
    reports = attempt(read, folder, "rank-*.json", otherwise=[])
    workers = attempt(read, folder, "worker-*.json", otherwise=[])
    report = attempt(merged, reports, workers, code) or as_read(reports, code)
    for one in read(folder, "code.json") + attempt(looked_later, folder, otherwise=[]):
        report["facts"] = [*report.get("facts", []), *facts_in(one)]
    attempt(advise, report)
    return report


def looked_later(folder, most=MOST_SECONDS + 2 * MOST_WAITING):
    """What the looks at data sets wrote, once those that still run have ended.

    That one was ended from outside, or takes too long on a busy machine, is told.
    """
    until = time.monotonic() + most
    running = os.path.join(glob.escape(folder), "data-*.json.part")
    while any(map(lives, glob.glob(running))) and time.monotonic() < until:
        time.sleep(0.1)
    left = glob.glob(running)
    found = read(folder, "data-*.json")
    if any(not os.path.exists(path[: -len(".part")]) for path in left):
        found.append({"facts": [not_looked("the process that did it came to no end")]})
    return found


def lives(path):
    """Whether the process whose number a file holds is still there."""
    try:
        with open(path, encoding="ascii") as handle:
            os.kill(int(handle.read() or 0) or os.getpid(), 0)
        return True
    except (OSError, ValueError):
        return False


def advise(report):
    """Give each finding the check and the fix of its entry, or those of its kind."""
    known = advice({one["id"] for one in report["findings"]}, catalogue())
    for one in report["findings"]:
        one.update(known.get(one["id"], {}))
        one.update(ADVICE.get(one["kind"], {}))


def write(path, make, report):
    """Write a text about a report into a file. What prevents that is told, and ends nothing."""
    try:
        text = make(report)
        with open(path, "w", encoding="utf-8", errors="replace") as handle:
            handle.write(text)
    except OSError as error:
        complain(f"error: {path} can't be written ({error.strerror}); give another file")
    except ImportError:
        complain(f"error: {path}: a page needs jinja2; install it for {sys.executable}")
    except Exception as error:
        complain(f"error: {path} can't be made ({type(error).__name__}: {error})")


def as_json(report):
    """The report as JSON."""
    return json.dumps(report, indent=1, default=str) + "\n"


def other_run(path):
    """The report in a file that --json wrote; None if there is none, which is told."""
    try:
        with open(path, encoding="utf-8") as handle:
            report = json.load(handle)
        if isinstance(report.get("facts"), list):
            return report
        why = "it holds no facts"
    except (OSError, ValueError, AttributeError) as error:
        why = getattr(error, "strerror", None) or "it isn't a report"
    complain(f"error: {path}: {why}; give a file that --json wrote")
    return None


def tell(options, folder, code):
    """Print and write what was found."""
    report = report_of(folder, code) if folder else as_read([], code)
    if options.json:
        write(options.json, as_json, {**report, **options.beside})
    if options.page:
        write(options.page, page, report)
    if options.quiet:
        return
    other = attempt(other_run, options.compare) if options.compare else None
    text = attempt(shown, report, other) or plainly(report)
    try:
        sys.stdout.flush()
        stream = sys.stdout if options.report else sys.stderr
        stream.write(text)
        stream.flush()
    except (OSError, ValueError, AttributeError):
        sys.stdout = sys.stderr = nowhere()


def main(argv=None):
    """Run the program under the probe, print and write what was found."""
    options, program = parse(list(sys.argv[1:] if argv is None else argv))
    if options.prepare:
        prepare(options.prepare)
        return 0
    folder, code = options.report, 0
    if not folder:
        try:
            folder = tempfile.mkdtemp(prefix="rgt-probe-")
        except OSError as error:
            complain(f"probe: not looked at: no folder for its files ({error.strerror})")
    try:
        if not options.report:
            code = run(program, folder, options.steps)
        attempt(tell, options, folder, None if options.report else code)
    finally:
        if folder and not options.report:
            shutil.rmtree(folder, ignore_errors=True)
    return end_like(code)


if __name__ == "__main__":
    sys.exit(main())
