"""The command `sweep`: what providers bill that no run from here explains."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click

from ..text import BadRequest
from . import terminal
from .boxes import print_json
from .completion import files
from .parsing import JSON, command

KEYS = click.option(
    "--keys",
    type=Path,
    metavar="FILE",
    shell_complete=files,
    help="a file of NAME=value with the providers' keys, which only you can read",
)


def with_keys(file: Path | None) -> dict[str, str]:
    """Return this process's variables and those of a file of keys. Raises BadRequest."""
    found = dict(os.environ)
    if file is None:
        return found
    try:
        if os.name == "posix" and file.stat().st_mode & 0o077:
            raise BadRequest(f"{file}: others can read it; run chmod 600 on it")
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        raise BadRequest(f"{file}: can't be read; give a file of NAME=value with --keys") from None
    for number, line in enumerate(lines, 1):
        name, has_value, value = line.strip().removeprefix("export ").partition("=")
        if name and not name.startswith("#"):
            if not has_value or not name.isidentifier():
                raise BadRequest(f"{file}: line {number} isn't NAME=value; correct it")
            found[name] = value.strip("'\"")
    return found


def agrees(question: str, yes: bool) -> bool:
    """Return whether the user says yes; without a terminal only --yes does."""
    if yes:
        return True
    if not terminal.is_terminal(sys.stdin):
        terminal.error("nobody can be asked here; read the lines above, and repeat with --yes")
        return False
    return click.confirm(question, default=False, err=True)


@command("sweep")
@click.argument(
    "providers",
    nargs=-1,
    metavar="[PROVIDER]...",
    help="runpod, vastai, lambda, aws (default: all of them)",
)
@KEYS
@JSON
def sweep(providers: tuple[str, ...], keys: Path | None, as_json: bool) -> int:
    """List what providers bill: boxes that no run started from here explains, stopped boxes and
    disks, with their cost a month where it is known. Nothing is changed.

    It asks by curl with RUNPOD_API_KEY and LAMBDA_API_KEY, and by vastai and aws, which have keys
    of their own; without a name those that are set up here. `rgt profile NAME commands` shows what
    is run, and whether it was ever tried on a real account.

    Exit 0: nothing found. Exit 1: found something. Exit 2: a provider couldn't be asked, or a file
    here that explains boxes is damaged.
    """
    from ..platforms import provider
    from ..runs import known_jobs
    from ..runs import sweep as sweeping

    environment = with_keys(keys)
    asked = [provider.of(name, environment) for name in providers or provider.names()]
    with terminal.waiting("asking the providers …"), ThreadPoolExecutor(4) as pool:
        found = list(pool.map(sweeping.sweep, asked))
    if not providers and any(one.is_set_up for one in found):
        found = [one for one in found if one.is_set_up]
    if as_json:
        print_json({"providers": [one.as_dict() for one in found]})
    else:
        print("\n".join(sweeping.as_text(one) for one in found))
    damage = known_jobs.damage()
    for line in damage:
        terminal.error(line)
    codes = [one.code for one in found]
    return 2 if damage or any(one.why for one in found) else max(codes, default=0)
