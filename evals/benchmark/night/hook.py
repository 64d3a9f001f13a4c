"""Goes into the project under test by appended lines: reports calls, and carries out the fault."""

import functools
import json
import os
import signal
import time

CONTROL = os.path.dirname(os.path.abspath(__file__)) + "/"


def _event(*words):
    with open(CONTROL + "events", "a") as file:
        file.write(" ".join(map(str, (time.time(), os.getpid(), *words))) + "\n")


def _write(name, text):
    part = f"{CONTROL}{name}.{os.getpid()}"
    with open(part, "w") as file:
        file.write(text)
    os.rename(part, CONTROL + name)


def _fault(hook, number, role):
    try:
        with open(CONTROL + "arm") as file:
            arm = json.load(file)
        if (
            (hook, role) != (arm["hook"], arm["role"])
            or number < arm["at"]
            or (arm["every"] and number != arm["at"])
        ):
            return
        if not arm["every"]:
            os.rename(CONTROL + "arm", CONTROL + "fired")  # in one process only
    except (OSError, ValueError):
        return
    if not os.path.exists(CONTROL + "request"):
        _write("request", json.dumps({"at": time.time(), "pid": os.getpid(), "cwd": os.getcwd()}))
    asked = time.time()
    while not os.path.exists(CONTROL + "done") and time.time() - asked < 10:
        time.sleep(0.05)
    if arm["do"] == "raise":
        raise RuntimeError(arm["message"])
    if arm["do"] == "reboot":
        time.sleep(1000)
    if arm["do"] in ("kill", "tear", "stop", "kill_parent"):
        pid = os.getppid() if arm["do"] == "kill_parent" else os.getpid()
        os.kill(pid, signal.SIGSTOP if arm["do"] == "stop" else signal.SIGKILL)


def wrap(call, hook, number=None, role=None, path=None):
    """Return `call` with reports.

    `number`, `path`: positions of arguments; `role`: an attribute of the first argument.
    """
    count = 0

    @functools.wraps(call)
    def wrapped(*args, **kwargs):
        nonlocal count
        count += 1
        now = int(args[number]) if number is not None else count
        who = getattr(args[0], role) if role else 0
        if path is not None:
            _write("saved", os.path.realpath(args[path]))
        _event("start", hook, now, who)
        _fault(hook, now, who)
        result = call(*args, **kwargs)
        _event("done", hook, now, who)
        return result

    return wrapped
