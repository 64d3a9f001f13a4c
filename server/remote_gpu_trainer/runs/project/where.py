"""On which platform a job may run, by what this machine knows of the user's boxes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ...platforms import profile
from .. import ledger
from ..rendering import platform_of

_SSH_CONFIG = Path("~/.ssh/config")
_HOST_NAME = re.compile(r"^[ \t]*HostName[ \t=]+[\"']?([\w.-]+)", re.I | re.M)


def guess_platform() -> tuple[str, str]:
    """Return a platform and by what it was guessed; ('', '') where nothing or several speak.

    This machine, where it is a rented box itself; else the boxes that aren't known to be gone; else
    the hosts of the ssh configuration.
    """
    here = platform_of("", "local")
    if here.kind == "rental":
        return here.name, "this machine is one of its boxes"
    rented = {one.name for one in profile.load().values() if one.kind == "rental"}
    boxes = {box.profile: box.name for box in ledger.still_open() if box.profile in rented}
    if boxes:
        name, box = next(iter(boxes.items()))
        return (name, f"your box {box} is there") if len(boxes) == 1 else ("", "")
    hosts = dict(_hosts_of_platforms())
    name, host = next(iter(hosts.items()), ("", ""))
    return (name, f"your ssh configuration has {host}") if len(hosts) == 1 else ("", "")


def _hosts_of_platforms() -> Iterator[tuple[str, str]]:
    """Yield each platform that a host of the ssh configuration belongs to, by its domain."""
    try:
        text = _SSH_CONFIG.expanduser().read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    domains = [
        (token.lstrip("."), one.name)
        for one in profile.load().values()
        if one.kind == "rental"
        for token in one.tokens
        if re.fullmatch(r"[\w-]*(?:\.[\w-]+)+", token)
    ]
    for host in _HOST_NAME.findall(text):
        for domain, name in domains:
            if host.lower() == domain or host.lower().endswith(f".{domain}"):
                yield name, host
