"""How a user names a machine: `local`, a name of the ssh configuration, or the line that a provider shows to paste.

Nothing here reaches a shell: names and options are checked letter by letter and go to ssh as separate arguments.
"""

from __future__ import annotations

import ipaddress
import os
import re
import shlex
from dataclasses import dataclass

LONGEST = 1000  # characters of a pasted line
_USER = r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,99}"
_HOST = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,252}[A-Za-z0-9_])?"
_NAME = re.compile(rf"(?:({_USER})@)?({_HOST})\Z")
_HOP = re.compile(rf"(?:{_USER}@)?{_HOST}(?::\d{{1,5}})?\Z")
_WITH_VALUE = "bcDEeFIiJLlmOopQRSWw"  # ssh's own options that take one
# What a pasted line may set; the rest of ssh's options could run programs, forward ports, or weaken the check of the host key.
OPTIONS = {name.lower(): name for name in ("ConnectTimeout", "ServerAliveInterval", "ServerAliveCountMax", "IdentitiesOnly", "Compression", "PreferredAuthentications", "PubkeyAcceptedAlgorithms", "HostKeyAlgorithms", "AddressFamily")}  # fmt: skip
_OPTION_VALUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9@.,+-]{0,199}\Z")
_HOST_KEYS = ("stricthostkeychecking", "userknownhostsfile", "globalknownhostsfile")


class BadBox(ValueError):
    """A machine's name that isn't one, or asks for too much. One line: found, expected, do."""


@dataclass(frozen=True)
class Box:
    """A machine. `host` as ssh gets it, '' for this one; `options`: further arguments for ssh, from a pasted line."""

    name: str
    host: str = ""
    options: tuple[str, ...] = ()

    @property
    def local(self) -> bool:
        return not self.host

    @property
    def argument(self) -> str:
        """The name as one word of a command line to type."""
        return shlex.quote(self.name)


def parse(text: str) -> Box:
    """The machine that a user means. Raises BadBox."""
    given = text.strip()
    if not given or len(given) > LONGEST or not given.isprintable():
        raise BadBox(
            f"found a box name {_shown(given)}, expected one line such as gpu, user@host, local or 'ssh -p 40122 root@203.0.113.7 -i KEY'"
        )
    if given == "local":
        return Box("local")
    if given.startswith(("ssh ", "ssh\t")):
        return _pasted(given)
    return Box(given, _host(given))


def _pasted(line: str) -> Box:
    try:
        words = shlex.split(line)[1:]
    except ValueError as error:
        raise BadBox(
            f"found a line that can't be read ({str(error).lower()}), expected it as the provider shows it; do: check its quotes"
        ) from None
    options: list[str] = []
    host = user = ""
    words.reverse()
    while words:
        word = words.pop()
        if not word.startswith("-"):
            if host:
                raise BadBox(
                    f"found {_shown(word)} behind the host, expected no command; do: paste the line up to the host and its options"
                )
            host = word
            continue
        letter, value = word[1:2], word[2:]
        if letter not in "piJlo" or not letter:
            with_value = letter and letter in _WITH_VALUE
            raise BadBox(
                f"found the option {_shown(word)}, expected only -p, -i, -l, -J and -o; do: leave it out{' with its value' if with_value else ''}"
            )
        if not value:
            if not words:
                raise BadBox(f"found -{letter} without a value, expected one behind it")
            value = words.pop()
        if letter == "l":
            user = _matching(value, re.compile(rf"{_USER}\Z"), "-l", "a user's name")
        else:
            options += _option(letter, value)
    if not host:
        raise BadBox(
            f"found no host in {_shown(line)}, expected for example ssh -p 40122 root@203.0.113.7 -i ~/.ssh/key"
        )
    return Box(
        line, f"{user}@{_host(host)}" if user and "@" not in host else _host(host), tuple(options)
    )


def _option(letter: str, value: str) -> list[str]:
    """The arguments for one allowed option. Raises BadBox."""
    if letter == "p":
        if not value.isascii() or not value.isdigit() or not 0 < int(value[:9]) < 65536:
            raise BadBox(f"found -p {_shown(value)}, expected a port from 1 to 65535")
        return ["-p", value]
    if letter == "i":
        if value.startswith("-") or "%" in value:
            raise BadBox(f"found -i {_shown(value)}, expected the path of a key")
        return ["-i", os.path.expanduser(value)]
    if letter == "J":
        for hop in value.split(","):
            _matching(hop, _HOP, "-J", "user@host:port, several separated by commas")
        return ["-J", value]
    name, _, setting = value.replace(" ", "=", 1).partition("=")
    if name.lower() in _HOST_KEYS:
        raise BadBox(
            f"found -o {_shown(name)}, expected the host key to be checked; do: leave it out, and accept a new key with --accept-new-host-key"
        )
    if name.lower() not in OPTIONS:
        raise BadBox(
            f"found -o {_shown(name)}, expected one of {', '.join(OPTIONS.values())}; do: leave it out, or write the box into the ssh configuration"
        )
    return [
        "-o",
        f"{OPTIONS[name.lower()]}={_matching(setting, _OPTION_VALUE, '-o ' + name, 'a plain value')}",
    ]


def _host(text: str) -> str:
    user, _, host = text.rpartition("@")
    if ":" in host:
        try:
            ipaddress.IPv6Address(host if "%" not in host else "")
        except ValueError:
            raise BadBox(
                f"found {_shown(text)}, expected a host without a colon; do: give a port as 'ssh -p PORT HOST'"
            ) from None
        return (
            f"{_matching(user, re.compile(_USER + r'$'), 'user', 'a plain name')}@{host}"
            if user
            else host
        )
    if not _NAME.match(text):
        raise BadBox(
            f"found the host {_shown(text)}, expected a name of the ssh configuration, or user@host: letters, digits, '.', '-' and '_', beginning with a letter or digit"
        )
    return text


def _matching(value: str, pattern: re.Pattern[str], where: str, what: str) -> str:
    if not pattern.match(value):
        raise BadBox(f"found {where} {_shown(value)}, expected {what}")
    return value


def _shown(text: str) -> str:
    """Input in a message: short, and nothing that a terminal would act on."""
    return ascii(text if len(text) <= 60 else text[:57] + "...")
