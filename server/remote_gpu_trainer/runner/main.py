"""The entrance: what the words of the command line mean."""

from __future__ import annotations

import importlib
import os
import sys
from types import SimpleNamespace
from typing import Callable, NamedTuple

from . import launchers
from .cells import CELL, PART, shape
from .context import Run, plain_environment, say
from .core.phases import CODES, EXITS
from .spec import SpecError, read

USAGE = """\
usage: bash run.sh VERB
  start [--sent-at EPOCH] [--node-rank N]   detach and run
  run            run in the foreground
  preflight      check only
  status [--json]
  stop           save now, then end
  resume         like start, even after the same failure at the same step
  snapshot       who stands where: stacks, waits, cards, kernel, memory; it reads only
  sync           copy to the durable place once, and verify
  rehearse       train, save, kill, resume in minutes, apart from the run"""
# Modules that are imported where they are needed, so that status goes without. A runner may live
# for days and outlive an update of its Python, so it has them from the start.
HEAVY = ("ast", "pickle", "pickletools", "shutil", "socket", "subprocess", "tempfile", "threading",
         "traceback", "uuid", "zipfile")  # fmt: skip
FOR_SAVES = "  save           save now, then continue"
FOR_QUEUES = """\
  queue          run the cells in the foreground
  reconcile      list the cells that are done, failed or left"""


class Words(NamedTuple):
    """The words behind a verb: three options with values, flags, and what is left."""

    sent_at: str
    node_rank: str
    part: str
    left: list[str]


def usage(spec: SimpleNamespace) -> str:
    """Return the verbs that this job knows, and the exit codes."""
    lines = [USAGE]
    if spec.save_signal != "TERM" and spec.launcher == "none":
        lines.append(FOR_SAVES)
    if spec.queue.cells:
        lines.append(FOR_QUEUES)
    lines.append("exit codes; of run any other is the code of the program")
    lines += [f"  {code:>2}  {name:<10} {meaning}" for code, name, meaning in EXITS]
    return "\n".join(lines)


def main(path: str, job_text: str, words: list[str], job_folder: str = "") -> int:
    """Do what the words of a run.sh say.

    `path`: the script; `job_text`: its job as JSON; `job_folder`: where that lies in run.d.
    """
    try:
        spec = read(job_text)
        verb, rest = (words[0], words[1:]) if words else ("", [])
        if verb in ("--help", "-h", "help"):
            print(usage(spec))
            return 0
        if not verb:
            say(usage(spec))
            return CODES["usage"]
        return _do(path, spec, verb, rest, job_folder)
    except SpecError as error:
        say(str(error))
        return CODES["usage"]


def _do(path: str, spec: SimpleNamespace, verb: str, rest: list[str], job_folder: str) -> int:
    given = _options(rest)
    if given.part:
        os.environ[PART] = given.part
    # The program and the copies keep the user's own mask; what is ours isn't for everybody.
    mask = os.umask(0o027)
    os.environ.setdefault("RGT_UMASK", f"{mask:03o}")
    # The supervisor and a detached run begin elsewhere.
    here = os.environ.setdefault("RGT_HERE", os.getcwd())
    rank, host = launchers.find_node(given.node_rank or None, spec, os.environ)
    spec.rendezvous = f"{host}:{launchers.rendezvous(spec)[1]}"
    shaped = shape(spec, verb, os.environ)
    if not spec.rendered.run_dir or "\n" in spec.rendered.run_dir:
        raise SpecError(f"run_dir is {spec.rendered.run_dir!r}; set a folder")
    script = os.path.abspath(path)
    job_folder = os.path.abspath(job_folder) if job_folder else ""
    run = Run(shaped, script, rank, here=here, job_folder=job_folder)
    if spec.queue.cells and CELL not in os.environ:
        from . import queue

        code = queue.run(run, verb, rest)
        if code is not None:
            return code
    if verb == "status":
        from . import status

        return status.status(run, "--json" in given.left)
    if verb == "snapshot":
        from . import snapshots

        sys.stdout.flush()
        words = [*snapshots.program_words(), *rest, run.folder.path]
        os.execve(words[0], words, plain_environment())
    return _work(run, verb, given, rest)


def _work(run: Run, verb: str, given: Words, rest: list[str]) -> int:
    """Do what another verb than status says. Status goes without all that these have to read in."""
    for name in HEAVY:
        importlib.import_module(name)
    from . import backstop, preflight, sync, verbs
    from .runner import Runner
    from .supervisor import Supervisor

    def start_runner(is_raised: bool, is_again: bool = False) -> int:
        return Runner(run, is_again and not is_raised, is_raised, given.sent_at).go()

    if verb in ("start", "resume"):
        return verbs.start(run, verb == "resume", rest)
    if verb in ("run", "resume-run"):
        is_again = verb == "resume-run"
        return Supervisor(run, lambda raised: start_runner(raised, is_again)).begin()
    if verb == "supervisor":
        supervisor = Supervisor(run, start_runner)
        return _logged(run, lambda: supervisor.go(backstop.TAKES_OUTPUT in given.left))
    if verb == "stop":
        return verbs.stop(run)
    if verb == "save":
        return verbs.save(run)
    if verb in ("sync", "sync-worker") and not run.folder.has("state.json"):
        say(f"no run was started in {run.folder.path}, so there is nothing to copy")
        return 1
    if verb == "sync":
        return sync.by_hand(run)
    if verb == "sync-worker":
        return sync.worker(run, given.left[0] if given.left else "quick")
    if verb == "preflight":
        run.folder.make()
        refusals = preflight.check(run, given.sent_at)
        preflight.tell_refusals(run, refusals)
        return 1 if refusals else 0
    if verb == "rehearse":
        from . import rehearsal

        return rehearsal.rehearse(run, for_memory="--memory" in given.left)
    say(f"unknown verb {verb!r}; bash run.sh --help lists them")
    return CODES["usage"]


def _logged(run: Run, go: Callable[[], int]) -> int:
    """Write down where a fault of this program ended it; its supervisor decides what follows."""
    try:
        return go()
    except Exception:
        import traceback

        run.folder.append("log/runner.log", traceback.format_exc())
        raise


def _options(words: list[str]) -> Words:
    """Return the options among the words behind a verb."""
    values = {"--sent-at": "", "--node-rank": "", "--part": ""}
    left = []
    rest = iter(words)
    for word in rest:
        if word in values:
            values[word] = next(rest, "")
        else:
            left.append(word)
    return Words(values["--sent-at"], values["--node-rank"], values["--part"], left)


if __name__ == "__main__":
    sys.exit("call bash run.sh VERB")
