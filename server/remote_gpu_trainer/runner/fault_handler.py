"""The fault handler in each Python process of the program, which a snapshot asks for its stacks.

It writes into stacks/attempt-N.txt in the run's folder when a signal comes that programs leave
alone: USR1 and USR2 may be theirs, and they would act on it.
"""

from __future__ import annotations

import os
from contextlib import suppress

from .context import Run

# Runs in each Python process of the program, before it. The open file is the mark by which a
# snapshot knows who may be signalled; children made by fork inherit file and handler. Any Python 3,
# and no error must leave it.
SITE = '''\
def _register():
    import faulthandler
    import os
    import signal

    folder = os.path.join(os.environ["RGT_RUN_DIR"], "own/stacks")
    if not os.path.isdir(folder):
        os.makedirs(folder)
    path = os.path.join(folder, "attempt-%s.txt" % os.environ["RGT_ATTEMPT"])
    # The program's own mask would let everybody read it.
    file = os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640), "a")
    faulthandler.register(signal.SIGRTMIN + 9, file=file, all_threads=True)


def _import_next():
    """Import the sitecustomize that this one stands in front of."""
    import os
    import sys
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    here = os.path.dirname(os.path.abspath(__file__))
    paths = [path for path in sys.path if os.path.abspath(path) != here]
    spec = PathFinder.find_spec("sitecustomize", paths)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


try:
    _register()
except Exception:
    pass
_import_next()
'''


def environment(run: Run, probe: str = "") -> dict[str, str]:
    """Return what puts the fault handler into each Python process of the program, and the probe.

    `probe`: its folder, '' without it. No fault handler where the disk is full.
    """
    folder = run.folder.at("own/python")
    with suppress(OSError):
        os.makedirs(folder, exist_ok=True)
    own = folder if run.folder.write("own/python/sitecustomize.py", SITE) else ""
    users = run.spec.variables.get("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    return {"PYTHONPATH": ":".join(filter(None, (own, probe, users)))} if own or probe else {}
