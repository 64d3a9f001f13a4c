"""The timer that calls a guard: a systemd user timer, a launchd agent, or a line of cron.

What would be written is a text first, so that the user reads it before.
"""

from __future__ import annotations

import os
import plistlib
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from ..text import BadRequest, write_whole
from .guard import EVERY
from .guard_files import Unfit, place

KINDS = ("systemd", "launchd", "cron")
NAME = "rgt-guard"
MARK = "# rgt guard"
VARIABLES = ("PATH", "XDG_STATE_HOME", "REMOTE_GPU_TRAINER_SSH_CONFIG")  # that the timer keeps


@dataclass(frozen=True)
class Timer:
    """What makes a timer: files with their texts, then commands."""

    kind: str
    files: dict[Path, str]
    commands: list[list[str]]
    line: str = ""  # of cron

    def as_text(self) -> str:
        """Return all that would be written and run."""
        out = [f"{file}:\n{text}" for file, text in self.files.items()]
        out += [f"crontab: {self.line}"] if self.line else []
        return "\n".join([*out, *(f"runs: {shlex.join(words)}" for words in self.commands)])


def kind_here() -> str:
    """Return what this machine has. Raises Unfit."""
    if sys.platform == "darwin":
        return "launchd"
    if shutil.which("systemctl") and _run(["systemctl", "--user", "show-environment"]) is not None:
        return "systemd"
    if shutil.which("crontab"):
        return "cron"
    raise Unfit("this machine has no systemd of the user, launchd or cron; run rgt guard --once "
                "from your own timer")  # fmt: skip


def timer(kind: str, options: list[str]) -> Timer:
    """Return the timer that calls a guard with these options. Raises BadRequest."""
    words = [sys.executable, "-m", "remote_gpu_trainer", "guard", "--once", *options]
    variables = {name: os.environ[name] for name in VARIABLES if name in os.environ}
    if any(not word.isprintable() for word in (*words, *variables.values())):
        raise BadRequest("a word of the guard's command has a control character; leave it out")
    home = Path.home()
    if kind == "systemd":
        folder = home / ".config/systemd/user"
        service = (
            "[Unit]\nDescription=rgt guard: warn of rented boxes past their end\n\n[Service]\n"
            "Type=oneshot\nWorkingDirectory=/\n"
            + "".join(f"Environment={_systemd(f'{n}={v}')}\n" for n, v in variables.items())
            + f"ExecStart={' '.join(map(_systemd, words))}\nSuccessExitStatus=1\n"
        )
        clock = (
            f"[Unit]\nDescription=rgt guard\n\n[Timer]\nOnActiveSec=60\nOnUnitActiveSec={EVERY:.0f}"
            "\nAccuracySec=30\n\n[Install]\nWantedBy=timers.target\n"
        )
        files = {folder / f"{NAME}.service": service, folder / f"{NAME}.timer": clock}
        start = ["systemctl", "--user", "enable", "--now", f"{NAME}.timer"]
        return Timer(kind, files, [["systemctl", "--user", "daemon-reload"], start])
    if kind == "launchd":
        file = home / f"Library/LaunchAgents/{NAME}.plist"
        told = {
            "Label": NAME,
            "ProgramArguments": words,
            "StartInterval": int(EVERY),
            "WorkingDirectory": "/",
            "EnvironmentVariables": variables,
            "StandardOutPath": str(place("log")),
            "StandardErrorPath": str(place("log")),
        }
        text = plistlib.dumps(told).decode()
        return Timer(kind, {file: text}, [["launchctl", "load", "-w", str(file)]])
    given = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
    line = (
        f"*/{EVERY / 60:.0f} * * * * cd / && {given} {shlex.join(words)} "
        f">>{shlex.quote(str(place('log')))} 2>&1 {MARK}"
    )
    return Timer(kind, {}, [], line.replace("%", r"\%"))


def install(made: Timer) -> None:
    """Write and start a timer. Raises Unfit."""
    try:
        for file, text in made.files.items():
            write_whole(file, text.encode(), 0o600)
    except OSError as error:
        raise Unfit(f"can't write {error.filename} ({error.strerror}); check permissions") from None
    if made.line:
        _write_crontab([*_crontab(), made.line])
    for words in made.commands:
        if _run(words) is None:
            for file in made.files:  # what doesn't work mustn't look as if it did
                file.unlink(missing_ok=True)
            raise Unfit(f"{shlex.join(words)} failed; run it yourself to see why")


def uninstall() -> list[str]:
    """Take away each timer that is there; return their kinds. Raises Unfit."""
    found = installed()
    if "systemd" in found:
        _run(["systemctl", "--user", "disable", "--now", f"{NAME}.timer"])
    if "launchd" in found:
        _run(["launchctl", "unload", "-w", str(next(iter(timer("launchd", []).files)))])
    if "cron" in found:
        _write_crontab(_crontab())
    for kind in ("systemd", "launchd"):
        for file in timer(kind, []).files:
            file.unlink(missing_ok=True)
    return found


def installed() -> list[str]:
    """Return the kinds of timer that are there."""
    files = {kind: timer(kind, []).files for kind in ("systemd", "launchd")}
    found = [kind for kind, names in files.items() if all(file.exists() for file in names)]
    said = _run(["crontab", "-l"]) if shutil.which("crontab") else None
    return [*found, "cron"] if said and MARK in said else found


def _systemd(word: str) -> str:
    """Return a word as systemd reads it."""
    escaped = re.sub(r'(["\\])', r"\\\1", word).replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'


def _crontab() -> list[str]:
    """Return the user's own lines. Raises Unfit."""
    told = _run(["crontab", "-l"])
    if told is None:
        raise Unfit("crontab -l failed, so your lines might be lost; run it yourself to see why")
    return [line for line in told.splitlines() if MARK not in line]


def _write_crontab(lines: list[str]) -> None:
    if _run(["crontab", "-"], "".join(f"{line}\n" for line in lines)) is None:
        raise Unfit("crontab refused the line; run crontab -l to see why")


def _run(words: list[str], given: str = "") -> str | None:
    """Return what a command prints; None where it fails."""
    try:
        done = subprocess.run(
            words, check=False, input=given, capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if "no crontab for" in done.stderr:
        return ""
    return None if done.returncode else done.stdout
