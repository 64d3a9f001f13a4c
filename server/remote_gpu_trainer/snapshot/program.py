"""Show where each rank of a training run stands, and what vanishes with its processes or its box.

usage: snapshot.py [--limit 20] [--json] [--to FOLDER] [RUN]

RUN is a name under ~/runs, or a folder; by default the run that is alive, else the newest one;
without any, whatever trains here.

Asked are the stacks of all ranks (by the fault handler that the runner puts into them, else by
py-spy), the calls in which they wait, the cards, the kernel's log, memory, disks, connections,
dumps of the Flight Recorder, versions, and the last lines of the logs. It only reads, and a disk
that hangs doesn't hold it up: after --limit seconds it shows what has answered, and names what is
missing.

--json prints all of it. --to writes a new folder with page.md, snapshot.json and stacks.log.
--why stall or --why failure says on the page what it is taken for. With --abort, processes whose
stacks can't be had otherwise are ended so that they write them first; only who is about to kill
them anyway wants that.

Exit codes: 0 with a snapshot, 1 where there is neither a run nor anything that trains, 2 where the
run's folder is closed to this user, or can't be written. Linux, Python 3.8 or newer.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

from ..text.proc import read_environment
from .collect import collect_snapshot, read_object
from .members import find_runs, find_without_a_run
from .page import format_page, format_stacks
from .questions import NoAnswer, Question

LIMIT = 20.0  # seconds
FOLDER_LIMIT = 3.0  # seconds for one look at a folder
KEPT = os.path.join("log", "snapshots")  # in the run's folder: those that the runner took
LARGEST_KEPT = 24 << 20  # bytes of one; without its dumps it stays far below


def main(words: list[str] | None = None) -> int:
    """Print the snapshot of a run, and write it."""
    options = _parse(sys.argv[1:] if words is None else words)
    if not os.path.isdir("/proc/self"):
        print("a snapshot needs Linux: this machine has no /proc", file=sys.stderr)
        return 1
    folder = run_folder(options.run) if options.run else _ask(newest_run)[0]
    is_there, hangs = _ask(os.path.isdir, folder)
    if folder and not is_there and not hangs:
        print(f"no run in {folder}; name one with --run", file=sys.stderr)
        return 1
    if is_there and _ask(_is_closed, folder)[0]:
        print(f"can't read {folder}; take it as its owner, or as root", file=sys.stderr)
        return 2
    snapshot = collect_snapshot(folder or "", options.limit, options.why, options.abort)
    if options.to:
        error = _write(snapshot, options.to)
        if error:
            print(f"{options.to} can't be written ({error})", file=sys.stderr)
            return 2
    if options.json:
        kept = _ask(newest_kept, snapshot["folder"])[0] if is_there else {}
        print(json.dumps({**snapshot, "earlier": kept or {}}))
    else:
        print(format_page([snapshot]), end="")
    return 0 if folder or snapshot["ranks"] else 1


def _parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="snapshot.py", description=__doc__, usage=argparse.SUPPRESS, add_help=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    hidden = argparse.SUPPRESS
    parser.add_argument("-h", "--help", action="help", help=hidden)
    parser.add_argument("--limit", type=float, default=LIMIT, help=hidden)
    parser.add_argument("--json", action="store_true", help=hidden)
    parser.add_argument("--to", default="", help=hidden)
    parser.add_argument(
        "--why", choices=("asked", "stall", "failure"), default="asked", help=hidden
    )
    parser.add_argument("--abort", action="store_true", help=hidden)
    parser.add_argument("run", nargs="?", default="", help=hidden)
    return parser.parse_args(words)


def _ask(function: Any, *arguments: Any) -> tuple[Any, bool]:
    """Return what a function answers, and whether it hangs: a folder may be on a dead mount."""
    question = Question(function, *arguments)
    hangs = not question.poll(FOLDER_LIMIT)
    question.give_up()
    try:
        return question.value(), False
    except NoAnswer:
        return None, hangs


def _write(snapshot: dict[str, Any], folder: str) -> str:
    """Write page.md, snapshot.json and stacks.log; return why that failed, '' for nothing."""
    text = json.dumps(snapshot)
    if len(text) > LARGEST_KEPT:
        text = json.dumps({**snapshot, "files": {}})
    texts = {
        "snapshot.json": text,
        "stacks.log": format_stacks(snapshot),
        "page.md": format_page([snapshot]),
    }
    try:
        os.makedirs(folder)
        for name, content in texts.items():
            path = os.path.join(folder, name)
            with open(path, "w", encoding="utf-8", errors="replace") as file:
                file.write(content)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def newest_kept(folder: str) -> dict[str, Any]:
    """Return the newest snapshot that the runner kept in a run's folder, {} without one."""
    place = os.path.join(folder, KEPT)
    names = sorted(os.listdir(place)) if os.path.isdir(place) else []
    kept = (read_object(os.path.join(place, name, "snapshot.json"), LARGEST_KEPT)
            for name in reversed(names) if name[:1].isdigit())  # fmt: skip
    return next(filter(None, kept), {})


def _is_closed(folder: str) -> bool:
    """Return whether there is a run here that this user may not read."""
    if not os.access(folder, os.R_OK | os.X_OK):
        return True
    paths = [os.path.join(folder, name) for name in ("state.json", "lock", "events.jsonl")]
    return any(os.path.lexists(path) and not os.access(path, os.R_OK) for path in paths)


def run_folder(name: str) -> str:
    """Return the folder of a run by a name under ~/runs, or by a path."""
    if not name.startswith(("/", "~/")):
        name = f"~/{name}" if "/" in name else f"~/runs/{name}"
    return os.path.normpath(os.path.expanduser(name))


def newest_run() -> str:
    """Return the folder of the user's run that lives, else of the newest under ~/runs, '' for none.

    Of several that live it is the one that wrote its state last. Where several share an account,
    such as root, each has a home.
    """
    top = os.path.expanduser("~/runs")
    living = [
        folder
        for folder, pids in find_runs().items()
        if os.path.isdir(folder)
        and (folder.startswith(f"{top}/") or any(_is_at_home(pid) for pid in pids))
    ]
    if living:
        return max(living, key=_last_written)
    names = os.listdir(top) if os.path.isdir(top) else []
    places = [os.path.join(top, name) for name in names]
    scripts = [place for place in places if os.path.exists(os.path.join(place, "run.sh"))]
    # What this user trains without a run of ours counts for more than a run that has ended.
    if any(_is_at_home(pid) for pid in find_without_a_run()):
        return ""
    return max(scripts, key=_last_written, default="")


def _is_at_home(pid: int) -> bool:
    """Return whether a process has this user's home."""
    home = read_environment(pid).get("HOME", "/")
    return os.path.normpath(home) == os.path.normpath(os.path.expanduser("~"))


def _last_written(folder: str) -> float:
    """Return when a run last wrote its state, else its script; 0 for neither."""
    for name in ("state.json", "run.sh"):
        try:
            return os.stat(os.path.join(folder, name)).st_mtime
        except OSError:
            continue
    return 0.0


if __name__ == "__main__":
    sys.exit(main())
