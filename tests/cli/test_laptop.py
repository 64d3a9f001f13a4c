"""What runs beside the user needs no POSIX: no module of it, no name of it, and no path is taken for a box."""

import ast
import subprocess
import sys
from pathlib import PureWindowsPath

import pytest
from remote_gpu_trainer.logs import remote
from remote_gpu_trainer.runs.transfer.wire import leads_out

from tests.conftest import ROOT

PACKAGE = ROOT / "server" / "remote_gpu_trainer"
ROOMS = (
    "cli", "mcp_server", "runs", "gpu_health", "lookup", "clients", "retrieval", "fit", "platforms",
    "catalogue", "logs", "numbers", "boxes", "readings", "text", "drawing",
)  # fmt: skip
# Programs for the box, though they lie in a room of the laptop's.
ON_THE_BOX = (
    "runs/card_users.py",
    "runs/files_at_stake.py",
    "runs/log_reader.py",
    "runs/run_lister.py",
    "runs/transfer/box_end.py",
    "runs/transfer/run_files.py",
    "gpu_health/box_check/",
)
MODULES = {
    "fcntl",
    "pwd",
    "grp",
    "resource",
    "termios",
    "tty",
    "pty",
    "curses",
    "syslog",
    "crypt",
    "readline",
}
NAMES = {
    "os": {"fork", "forkpty", "getuid", "geteuid", "getgid", "getegid", "killpg", "setsid", "getpgid", "uname", "mkfifo", "chown", "statvfs", "getloadavg", "sched_getaffinity", "WNOHANG"},
    "signal": {"SIGKILL", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGQUIT", "SIGCHLD", "SIGPIPE", "alarm", "setitimer"},
}  # fmt: skip
GUARDS = {"text/locking.py": MODULES, "boxes/calls.py": NAMES["os"] | NAMES["signal"]}

# This process becomes one of Windows, as far as a program can tell: for our modules alone.
AS_ON_WINDOWS = f"""
import builtins, os, signal, subprocess, sys
load, modules = builtins.__import__, {MODULES!r}
def without(name, given=None, *rest, **named):
    if name in modules and str((given or {{}}).get("__name__")).startswith("remote_gpu_trainer"):
        raise ModuleNotFoundError(name, name=name)
    return load(name, given, *rest, **named)
builtins.__import__ = without
if os.name == "posix":
    import fcntl, types
    there = types.ModuleType("msvcrt")
    there.LK_LOCK, there.LK_NBLCK = fcntl.LOCK_EX, fcntl.LOCK_EX | fcntl.LOCK_NB
    there.locking = lambda file, how, size: fcntl.lockf(file, how, size, 0, os.SEEK_CUR)
    sys.modules["msvcrt"] = there
subprocess.Popen.kill = subprocess.Popen.terminate
for name in {sorted(NAMES["os"] - {"statvfs", "WNOHANG", "uname"})!r}:
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGKILL", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGQUIT"):
    if hasattr(signal, name):
        delattr(signal, name)
"""
IMPORTS = """
import importlib, pkgutil
rooms, _, others = " ".join(sys.argv[1:]).partition(" + ")
for name in others.split():
    importlib.import_module("remote_gpu_trainer." + name)
for room in rooms.split():
    package = importlib.import_module("remote_gpu_trainer." + room)
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not any(one in found.name for one in (".log_reader", ".run_lister", ".box_check")):
            importlib.import_module(found.name)
print("all")
"""


def test_every_module_beside_the_user_loads_without_posix():
    words = [sys.executable, "-c", AS_ON_WINDOWS + IMPORTS, *ROOMS, "+", *of_the_runner()]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=300)
    assert done.stdout.strip().endswith("all"), done.stderr


def of_the_runner():
    """The modules of the runner that any function beside the user imports."""
    found = set()
    for name, path in files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level:
                module = [*name.split("/")[: -node.level], *(node.module or "").split(".")]
                names = [".".join(filter(None, (*module, one.name))) for one in node.names]
                found.update([".".join(module), *names] if "runner" in module[:1] else ())
    modules = {one for one in found if (PACKAGE / (one.replace(".", "/") + ".py")).is_file()}
    assert "runner.core.phases" in modules
    return sorted(modules)


def files():
    for room in ROOMS:
        for path in sorted((PACKAGE / room).rglob("*.py")):
            name = path.relative_to(PACKAGE).as_posix()
            if not name.startswith(ON_THE_BOX):
                yield name, path


def test_no_name_of_posix_alone_is_used_beside_the_user_but_by_its_one_helper():
    found = []
    for name, path in files():
        allowed = GUARDS.get(name, set())
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                used = {one.name for one in node.names} & MODULES
            elif isinstance(node, ast.ImportFrom) and not node.level:
                used = {node.module} & MODULES
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                used = {node.attr} & NAMES.get(node.value.id, set())
            else:
                continue
            found += [f"{name}:{node.lineno}: {one}" for one in used - allowed]
    assert not found


@pytest.mark.parametrize(
    "path",
    [
        r"C:\Users\me\proj\train.log",
        "C:/Users/me/proj/train.log",
        r"d:logs\train.log",
        r"\\server\share\train.log",
        r"\\?\C:\very\long",
        r"C:\a:b",
        r"logs\train.log",
    ],
)
def test_a_path_of_windows_is_no_log_on_a_box(path):
    assert remote.split(path) is None
    drive = PureWindowsPath(path).drive
    assert leads_out(path, windows=True) == bool(drive or "\\" in path)


def test_a_log_on_a_box_is_named_from_windows_as_from_elsewhere():
    host, path = remote.split("gpu:~/runs/toy/log")
    assert (host.name, path) == ("gpu", "~/runs/toy/log")


def test_this_file_covers_each_room_that_is_no_program_of_the_box():
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert rooms - {"probe", "runner", "snapshot"} == set(ROOMS)
    assert all((PACKAGE / name.rstrip("/")).exists() for name in ON_THE_BOX)
