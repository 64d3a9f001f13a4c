"""The entrance: what the words of the command line mean."""

from __future__ import annotations

import os
import sys
import traceback
from types import SimpleNamespace
from typing import Callable, NamedTuple

from . import launchers
from .cells import CELL, PART, shape
from .context import Run, say
from .phases import CODES, EXITS
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
    if spec.cells:
        lines.append(FOR_QUEUES)
    lines.append("exit codes; of run any other is the code of the program")
    lines += [f"  {code:>2}  {name:<10} {meaning}" for code, name, meaning in EXITS]
    return "\n".join(lines)


def main(path: str, job_text: str, words: list[str]) -> int:
    """Do what the words of a run.sh say. `path`: the script; `job_text`: its job as JSON."""
    try:
        spec = read(job_text)
        verb, rest = (words[0], words[1:]) if words else ("", [])
        if verb in ("--help", "-h", "help"):
            print(usage(spec))
            return 0
        if not verb:
            say(usage(spec))
            return CODES["usage"]
        return _do(path, spec, verb, rest)
    except SpecError as error:
        say(str(error))
        return CODES["usage"]


def _do(path: str, spec: SimpleNamespace, verb: str, rest: list[str]) -> int:
    given = _options(rest)
    if given.part:
        os.environ[PART] = given.part
    # The program and the copies keep the user's own mask; what is ours isn't for everybody.
    mask = os.umask(0o027)
    os.environ.setdefault("RGT_UMASK", f"{mask:03o}")
    # The keeper and a detached run begin elsewhere.
    here = os.environ.setdefault("RGT_HERE", os.getcwd())
    rank, spec.rendezvous_host = launchers.find_node(given.node_rank or None, spec, os.environ)
    shaped = shape(spec, verb, os.environ)
    if not spec.run_dir or "\n" in spec.run_dir:
        raise SpecError(f"run_dir is {spec.run_dir!r}; set a folder")
    run = Run(shaped, os.path.abspath(path), rank, here=here)
    if spec.cells and CELL not in os.environ:
        from . import queue

        code = queue.run(run, verb, rest)
        if code is not None:
            return code
    if verb == "status":
        from . import status

        return status.status(run, "--json" in given.left)
    if verb == "snapshot":
        from .scene import collect, page

        print(page.page([collect.take(run.folder.path)]), end="")
        return 0
    return _work(run, verb, given, rest)


def _work(run: Run, verb: str, given: Words, rest: list[str]) -> int:
    """Do what another verb than status says. Status goes without all that these have to read in."""
    from . import preflight, sync, verbs
    from .keeper import Keeper
    from .runner import Runner, tell_refusals

    if verb in ("start", "resume"):
        return verbs.start(run, verb == "resume", rest)
    if verb in ("run", "resume-run"):
        raised = "--raised" in given.left
        return _logged(run, Runner(run, verb == "resume-run", raised, given.sent_at).go)
    if verb == "keeper":
        return _logged(run, Keeper(run).go)
    if verb == "stop":
        return verbs.stop(run)
    if verb == "save":
        return verbs.save(run)
    if verb in ("sync", "sync-worker") and not run.folder.has("job.sha"):
        say(f"no run was started in {run.folder.path}, so there is nothing to copy")
        return 1
    if verb == "sync":
        return sync.by_hand(run)
    if verb == "sync-worker":
        return sync.worker(run, given.left[0] if given.left else "quick")
    if verb == "preflight":
        run.folder.make()
        refusals = preflight.check(run, given.sent_at)
        tell_refusals(run, refusals)
        return 1 if refusals else 0
    if verb in ("rehearse", "--rehearse"):
        from . import rehearsal

        return rehearsal.rehearse(run)
    say(f"unknown verb {verb!r}; bash run.sh --help lists them")
    return CODES["usage"]


def _logged(run: Run, go: Callable[[], int]) -> int:
    """Write down where a fault of this program ended it; its keeper decides what follows."""
    try:
        return go()
    except Exception:
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
        elif word != "--queue":
            left.append(word)
    return Words(values["--sent-at"], values["--node-rank"], values["--part"], left)


if __name__ == "__main__":
    sys.exit("call bash run.sh VERB")
