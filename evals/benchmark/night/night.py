#!/usr/bin/env python3
"""Measure whether a project's go.sh keeps an overnight run, its results and the money safe."""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from task import NightError, Task, guess

ENDBOX = (
    '#!/bin/sh\n[ -e "{0}" ] || {{ date +%s.%N > "{0}.$$" && mv "{0}.$$" "{0}"; }}\nexec sleep 60\n'
)
HEAD = (
    f"{'project':20} {'task':9} {'fault':14} lost {'missing':14} billed {'box':5} {'lag':>5} again "
    " two past users late ok"
)
UNSHARE = ["unshare", "-m", "-p", "-f", "--mount-proc", "--kill-child", "--propagation", "private"]


def check_machine() -> None:
    """Raise an error unless this machine can run boxes."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        raise NightError(
            "boxes need root and the command unshare; run this as root, with util-linux installed"
        )
    if subprocess.run([*UNSHARE, "true"], capture_output=True).returncode:
        raise NightError("unshare may not make namespaces here; run this where it may")


def environment(box: Path, passed: list[str]) -> dict[str, str]:
    """Return the environment that a login to the box has."""
    python, path = os.path.dirname(os.path.realpath(sys.executable)), []
    # pyenv's shims would cost processor time
    for entry in os.environ.get("PATH", "/usr/bin:/bin").split(":"):
        path += [python, entry] if entry.endswith("/shims") else [entry]
    env = {
        "HOME": f"{box}/home",
        "BOX": str(box),
        "PATH": ":".join([f"{box}/bin", *path]),
        "USER": "root",
    }
    env |= {"SHELL": "/bin/bash", "TERM": "xterm-256color", "LOGNAME": "root", "LANG": "C.UTF-8"}
    return env | {name: os.environ[name] for name in passed if name in os.environ}


def run_box(task: Task, project: Path, top: Path, args: argparse.Namespace) -> dict:
    """Run one project under one fault, with `top` as the work folder, and return the outcome."""
    box, control = top / "box", top / "control"
    for folder in (box / "home", box / "mnt/volume", box / "bin", control):
        folder.mkdir(parents=True)
    changed = task.prepare(project, control / "project", control)
    (box / "bin/endbox").write_text(ENDBOX.format(f"{box}/ended"))
    (box / "bin/endbox").chmod(0o755)
    config = {"top": str(top), "task": str(task.folder), "fault": args.fault, "show": args.expose}
    (control / "config.json").write_text(json.dumps(config | {"env": environment(box, args.pass_)}))
    command = [
        *UNSHARE,
        sys.executable,
        str(Path(__file__).resolve().parent / "box.py"),
        str(control / "config.json"),
    ]
    with open(control / "errors", "w") as errors:
        code = subprocess.call(command, stdin=subprocess.DEVNULL, stderr=errors)
    try:
        outcome = json.loads((control / "result.json").read_text())
    except (OSError, ValueError):
        said = (control / "errors").read_text()[-2000:]
        outcome = {"error": f"the box failed with status {code}: {said}"}
    return outcome | {"project_files_changed": changed}


def command_run(args: argparse.Namespace) -> int:
    """Run one project under one fault."""
    check_machine()
    project, out = Path(args.project).resolve(), Path(args.out).resolve()
    if not (project / "go.sh").is_file():
        raise NightError(f"{project} has no go.sh; name a project's folder with one")
    task = Task(args.task or guess(project))
    task.fault(args.fault)
    for folder in [out.parent] + ([Path(args.work)] if args.work else []):
        folder.mkdir(parents=True, exist_ok=True)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(143))
    top = Path(tempfile.mkdtemp(prefix="night-", dir=args.work)).resolve()
    try:
        head = {"project": str(project), "task": task.about["id"], "fault": args.fault}
        outcome = head | run_box(task, project, top, args)
        out.write_text(json.dumps(outcome, indent=1))
        if (top / "control/keep.tgz").exists():
            shutil.copy(top / "control/keep.tgz", f"{out}.tgz")
    finally:
        shutil.rmtree(top, ignore_errors=True)
    print(line(outcome), flush=True)
    return 1 if "error" in outcome else 0


def command_matrix(args: argparse.Namespace) -> int:
    """Run every project under every fault of its task."""
    check_machine()
    common = [f"--expose={e}" for e in args.expose] + [f"--pass={e}" for e in args.pass_]
    common += [f"--work={args.work}"] if args.work else []
    paths, jobs = [Path(p).resolve() for p in args.projects], []
    if len({p.name for p in paths}) < len(paths):
        raise NightError(
            "two projects have the same name; rename one, the name goes into the output's"
        )
    for path in paths:
        task = Task(args.task or guess(path))
        for fault in task.about["faults"]:
            out = f"{args.outdir}/{path.name}-{fault}.json"
            jobs.append(
                ["run", str(path), "--task", str(task.folder), "--fault", fault, "--out", out]
            )
    with ThreadPoolExecutor(args.parallel) as pool:
        return max(
            pool.map(lambda job: subprocess.call([sys.executable, __file__, *job, *common]), jobs),
            default=0,
        )


def line(o: dict) -> str:
    """Return one outcome as a line of the table."""
    start = f"{Path(o['project']).name[:20]:20} {o['task']:9} {o['fault']:14}"
    if "error" in o:
        return f"{start} error: {o['error'][:300]}"
    lag = "-" if o["end_to_endbox_s"] is None else o["end_to_endbox_s"]
    changed = (
        " changed: " + ",".join(o["project_files_changed"]) if o["project_files_changed"] else ""
    )
    files = "LOST" if o["user_files_changed"] else "kept"
    missing, again = ",".join(o["results_missing"]), "+".join(map(str, o["again"].values()))
    return (
        f"{start} {o['lost_steps']:4} {missing or '-':14} {o['billed_s']:6} "
        f"{'ended' if o['endbox'] else 'on':5} {lag:>5} {again:>5} "
        f"{o['two_at_once_s']:4} {o['past_stop']:4} {files:5} "
        f"{'late' if o['over_deadline'] else '-':4} {'yes' if o['ok'] else 'NO'}{changed}"
    )


def outcomes(outs: list[str]) -> str:
    """Return a line for each outcome and sums for each project."""
    rows = []
    for file in [
        f for p in map(Path, outs) for f in (sorted(p.glob("*.json")) if p.is_dir() else [p])
    ]:
        try:
            rows.append(json.loads(file.read_text()))
            rows[-1]["name"] = Path(rows[-1]["project"]).name
        except (ValueError, KeyError, TypeError):
            raise NightError(f"{file} is no outcome; name files that run wrote") from None
    rows.sort(key=lambda o: (o["task"], o["project"], o["fault"]))
    lines = [HEAD, *map(line, rows), ""]
    for name in dict.fromkeys(o["name"] for o in rows):
        group = [o for o in rows if o["name"] == name and "error" not in o]
        lost, billed = (
            sum(o[k] for o in group) / max(1, len(group)) for k in ("lost_steps", "billed_s")
        )
        counts = {
            k: sum(bool(o[k]) for o in group)
            for k in ("ok", "endbox", "over_deadline", "user_files_changed")
        }
        sums = "  ".join(f"{key} {count}" for key, count in counts.items())
        lines.append(
            f"{name:20} runs {len(group)}  mean lost {lost:.1f}  mean billed {billed:.0f}  {sums}"
        )
    return "\n".join(lines)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    boxes = argparse.ArgumentParser(add_help=False)
    boxes.add_argument(
        "--task", help="name or folder of the task (default: guessed from the project's files)"
    )
    boxes.add_argument(
        "--work", metavar="DIR", help="work folder (default: the system's temporary folder)"
    )
    boxes.add_argument(
        "--expose",
        metavar="DIR",
        action="append",
        default=[],
        help="show DIR to the box, read-only",
    )
    boxes.add_argument(
        "--pass",
        metavar="NAME",
        dest="pass_",
        action="append",
        default=[],
        help="pass on a variable",
    )
    run = commands.add_parser("run", parents=[boxes], help="run one project under one fault")
    run.add_argument("project", metavar="PROJECT", help="the project's folder, with go.sh")
    run.add_argument("--fault", required=True, help="a fault, best one of the task's")
    run.add_argument("--out", metavar="FILE", required=True, help="where the outcome goes, as JSON")
    run.set_defaults(call=command_run)
    matrix = commands.add_parser(
        "matrix", parents=[boxes], help="run projects under all faults of their tasks"
    )
    matrix.add_argument("outdir", metavar="OUTDIR", help="folder for the outcomes")
    matrix.add_argument(
        "projects", metavar="PROJECT", nargs="+", help="projects' folders, with go.sh"
    )
    matrix.add_argument(
        "--parallel", type=int, default=20, metavar="N", help="how many at a time (default: 20)"
    )
    matrix.set_defaults(call=command_matrix)
    table = commands.add_parser("table", help="print outcomes as a table")
    table.add_argument(
        "outs", metavar="OUT", nargs="+", help="files that run wrote, or matrix's folders"
    )
    table.set_defaults(call=lambda args: print(outcomes(args.outs)) or 0)
    args = parser.parse_args()
    try:
        return args.call(args)
    except (NightError, OSError) as error:
        told = isinstance(error, NightError) or not error.filename
        print(
            f"error: {error if told else f'{error.filename}: {error.strerror}; check the path'}",
            file=sys.stderr,
        )
        return 2


if __name__ == "__main__":
    sys.exit(main())
