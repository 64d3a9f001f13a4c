"""Translate a box's name into ssh's arguments, and ssh's errors into a reason.

A user names a box as `local`, by a name from the ssh configuration, or by the ssh line that a
provider shows. Nothing here starts a program or reaches a shell: names and options are checked
character by character and go to ssh as separate arguments.

Limits: errors are recognized by the English texts of OpenSSH 8 to 10. Any other error is `other`,
with ssh's last line.
"""

from __future__ import annotations

import ipaddress
import os
import re
import shlex
from dataclasses import dataclass
from typing import Literal

from ..text.masking import shown, shown_lines

LONGEST = 1000  # characters of a pasted line
_USER = r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,99}"
_HOST = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,252}[A-Za-z0-9_])?"
_NAME = re.compile(rf"(?:({_USER})@)?({_HOST})\Z")
_WITH_PORT = re.compile(rf"({_USER}@)?({_HOST}|\[[0-9A-Fa-f:.]+\]):(\d{{1,5}})\Z")
_HOP = re.compile(rf"(?:{_USER}@)?{_HOST}(?::\d{{1,5}})?\Z")
_WITH_VALUE = "bcDEeFIiJLlmOopQRSWw"  # ssh's own options that take a value
_FORWARDS = "LRD"
# The options that a pasted line may have. Others could run programs, forward ports or weaken the
# check of the host key.
OPTIONS = {
    name.lower(): name
    for name in (
        "ConnectTimeout",
        "ServerAliveInterval",
        "ServerAliveCountMax",
        "IdentitiesOnly",
        "Compression",
        "PreferredAuthentications",
        "PubkeyAcceptedAlgorithms",
        "HostKeyAlgorithms",
        "AddressFamily",
    )
}
_OPTION_VALUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9@.,+-]{0,199}\Z")
_HOST_KEYS = ("stricthostkeychecking", "userknownhostsfile", "globalknownhostsfile")

_FINGERPRINT = re.compile(r"Server host key: (\S{1,60}) (SHA256:[A-Za-z0-9+/=]{20,60})")
_CHANGED = re.compile(r"REMOTE HOST IDENTIFICATION HAS CHANGED|Host key for \S{1,200} has changed")
_PLACE = re.compile(r"Host key for (\S{1,200}) has changed")
# Why ssh didn't connect.
Why = Literal[
    "name",
    "refused",
    "timeout",
    "auth",
    "host-key-unknown",
    "host-key-changed",
    "restricted",
    "lost",
    "no-ssh",
    "program",  # it connected, and the program there ended early
    "other",
]
# The first that matches decides.
_KNOWN: tuple[tuple[Why, re.Pattern[str]], ...] = (
    ("host-key-unknown", re.compile(r"Host key verification failed|No \S+ host key is known for")),
    (
        "name",
        re.compile(r"Could not resolve hostname|Name or service not known|nodename nor servname"),
    ),
    ("refused", re.compile(r"Connection refused")),
    (
        "timeout",
        re.compile(r"timed out|No route to host|Network is unreachable|Host is down", re.I),
    ),
    (
        "auth",
        re.compile(
            r"Permission denied|Too many authentication failures|no mutual signature"
            r"|System is booting up|pam_nologin"
        ),
    ),
    (
        "lost",
        re.compile(
            r"[Cc]onnection (?:to \S+ )?(?:closed|reset)|not responding"
            r"|kex_exchange_identification|Broken pipe|banner exchange|client_loop"
        ),
    ),
)
# What a login prints that runs no program: ssh.runpod.io ("Error: Your SSH client doesn't support
# PTY"), shells that only copy files, and nologin.
_RESTRICTED = re.compile(
    r"doesn't support PTY|sftp connections only|restricted to"
    r"|account is (?:currently )?not available|interactive shell|no shell access|rbash"
    r"|shell request failed",
    re.I,
)
_CONSOLE = "check in the provider's console that the box runs"
_TEXTS = {
    "host-key-unknown": "the host key of {name} isn't known here yet{now}; compare it with the "
    "provider's console, then repeat with --accept-new-host-key",
    "name": "no address for {name} ({last}); check the name, or paste the provider's ssh line",
    "refused": "nothing listens at {name} ({last}); " + _CONSOLE + ", and which port it has now",
    "timeout": "no answer from {name} in time ({last}); " + _CONSOLE + ", and that this network "
    "can reach it",
    "auth": "{name} accepts none of your keys ({last}); name the key (-i KEY) or load it into the "
    "agent, and check the user",
    "lost": "the connection to {name} broke ({last}); try again",
    "other": "no connection to {name} ({last}); try to log in with ssh yourself",
    "restricted": "the login at {name} runs no commands ({last}); use the box's own address and "
    "port, not the provider's proxy",
    "host-key-changed": "the host key of {name} has changed{now}, and a changed key is never "
    "accepted here; ask the provider whether the box was replaced, and only then run "
    "ssh-keygen -R '{place}' yourself",
}


class BadBox(ValueError):
    """Not a box's name, or a line that does more than log in. The text says what to write."""


@dataclass(frozen=True)
class Box:
    """A machine.

    `name` is what the user wrote. `host` is what ssh gets, "" for this machine. `options` are
    further arguments for ssh, from a pasted line. `line` is the pasted line that a short name
    stands for, "" for none.
    """

    name: str
    host: str = ""
    options: tuple[str, ...] = ()
    line: str = ""

    @property
    def local(self) -> bool:
        """Return whether it is this machine."""
        return not self.host

    @property
    def short(self) -> str:
        """Return the name for a table: of a pasted line user@host:port, which `parse` takes too."""
        port = self.options[self.options.index("-p") + 1] if "-p" in self.options else ""
        host = self.host or self.name
        if not port:
            return host
        user, _, bare = host.rpartition("@")
        bare = f"[{bare}]" if ":" in bare else bare
        return f"{user}@{bare}:{port}" if user else f"{bare}:{port}"

    @property
    def argument(self) -> str:
        """Return the name, quoted as one word of a command line."""
        return shlex.quote(self.name)


def parse(text: str) -> Box:
    """Return the machine that a user means. Raises BadBox."""
    given = text.strip()
    if not given or len(given) > LONGEST or not given.isprintable():
        raise BadBox(
            f"{_quoted(given)} isn't the name of a box; pass gpu, user@host, local or a line such "
            "as 'ssh -p 40122 root@203.0.113.7 -i KEY'"
        )
    if given == "local":
        return Box("local")
    if given.startswith(("ssh ", "ssh\t")):
        return _pasted(given)
    if found := _WITH_PORT.match(given):
        user, host, port = found[1] or "", found[2].strip("[]"), found[3]
        return Box(given, _host(user + host), tuple(_option("p", port)))
    return Box(given, _host(given))


def _pasted(line: str) -> Box:
    try:
        words = shlex.split(line)[1:]
    except ValueError as error:
        raise BadBox(
            f"the ssh line can't be read ({str(error).lower()}); paste it as the provider shows "
            "it, and check its quotes"
        ) from None
    options: list[str] = []
    host = user = ""
    words.reverse()
    while words:
        word = words.pop()
        if not word.startswith("-"):
            if host:
                raise BadBox(
                    f"{_quoted(word)} comes after the host; paste only the host and its options, "
                    "without a command"
                )
            host = word
            continue
        letter, value = word[1:2], word[2:]
        if letter in _FORWARDS and letter:  # some providers' lines have one; nothing is forwarded
            if not value and words:
                words.pop()
            continue
        if letter not in "piJlo" or not letter:
            with_value = letter and letter in _WITH_VALUE
            raise BadBox(
                f"the option {_quoted(word)} isn't allowed, only -p, -i, -l, -J and -o are; "
                f"leave it out{' with its value' if with_value else ''}"
            )
        if not value:
            if not words:
                raise BadBox(f"-{letter} has no value; write one after it")
            value = words.pop()
        if letter == "l":
            user = _matching(value, re.compile(rf"{_USER}\Z"), "-l", "a user's name")
        else:
            options += _option(letter, value)
    if not host:
        raise BadBox(
            f"no host in {_quoted(line)}; write for example "
            "ssh -p 40122 root@203.0.113.7 -i ~/.ssh/key"
        )
    return Box(
        line, f"{user}@{_host(host)}" if user and "@" not in host else _host(host), tuple(options)
    )


def _option(letter: str, value: str) -> list[str]:
    """Return ssh's arguments for one allowed option. Raises BadBox."""
    if letter == "p":
        if not value.isascii() or not value.isdigit() or not 0 < int(value[:9]) < 65536:
            raise BadBox(f"-p {_quoted(value)} isn't a port; write a number from 1 to 65535")
        return ["-p", value]
    if letter == "i":
        if value.startswith("-") or "%" in value:
            raise BadBox(f"-i {_quoted(value)} isn't the path of a key; write a plain path")
        return ["-i", os.path.expanduser(value)]
    if letter == "J":
        for hop in value.split(","):
            _matching(hop, _HOP, "-J", "user@host:port, several separated by commas")
        return ["-J", value]
    name, _, setting = value.replace(" ", "=", 1).partition("=")
    if name.lower() in _HOST_KEYS:
        raise BadBox(
            f"-o {_quoted(name)} would change how the host key is checked; leave it out, and "
            "accept a new key with --accept-new-host-key"
        )
    if name.lower() not in OPTIONS:
        raise BadBox(
            f"-o {_quoted(name)} isn't allowed, only {', '.join(OPTIONS.values())} are; leave it "
            "out, or write the box into the ssh configuration"
        )
    setting = _matching(setting, _OPTION_VALUE, f"-o {name}", "a plain value")
    return ["-o", f"{OPTIONS[name.lower()]}={setting}"]


def _host(text: str) -> str:
    user, _, host = text.rpartition("@")
    if ":" in host:
        try:
            ipaddress.IPv6Address(host if "%" not in host else "")
        except ValueError:
            raise BadBox(
                f"the host {_quoted(text)} has a colon; give a port as 'ssh -p PORT HOST'"
            ) from None
        if user:
            _matching(user, re.compile(_USER + r"$"), "user", "a plain name")
        return text if user else host
    if not _NAME.match(text):
        raise BadBox(
            f"the host {_quoted(text)} isn't a name; use one from the ssh configuration, or "
            "user@host: letters, digits, '.', '-' and '_', beginning with a letter or digit"
        )
    return text


def _matching(value: str, pattern: re.Pattern[str], where: str, what: str) -> str:
    if not pattern.match(value):
        raise BadBox(f"{where} {_quoted(value)} can't be used; write {what}")
    return value


def _quoted(text: str) -> str:
    """Return a user's input for a message: short, and without control characters."""
    return ascii(text if len(text) <= 60 else text[:57] + "...")


@dataclass(frozen=True)
class Trouble:
    """Why ssh didn't connect: a reason that programs compare, and a sentence for people."""

    why: Why
    text: str


def trouble(box: Box, code: int | None, errors: str, login_output: str, keys: str = "") -> Trouble:
    """Return why ssh didn't connect.

    `code` and `errors` are ssh's exit code and stderr. `login_output` came on stdout before the
    program ran. `keys` is the stderr of `ssh -v`, which shows the host key.
    """
    last = next(reversed(shown_lines(errors, 1, 160)), "") or next(
        reversed(shown_lines(login_output, 1, 160)), "no message"
    )
    place = _PLACE.search(errors)
    why = _reason(code, errors, login_output)
    text = _TEXTS[why].format(
        name=shown(box.name, 80),
        last=last,
        now=_key_now(keys),
        place=shown(place[1], 80) if place else "HOST",
    )
    return Trouble(why, text)


def _reason(code: int | None, errors: str, login_output: str) -> Why:
    """Return the reason. An exit code other than ssh's own means a login that runs no commands."""
    not_of_ssh = code is not None and code >= 0 and code != 255
    if not_of_ssh or _RESTRICTED.search(errors[-4000:] + login_output[-4000:]):
        return "restricted"
    if _CHANGED.search(errors):
        return "host-key-changed"
    for why, pattern in _KNOWN:
        if pattern.search(errors):
            return why
    return "other"


def _key_now(keys: str) -> str:
    """Return the host key that a box shows now, for a message; "" where none is known."""
    fingerprints = _FINGERPRINT.findall(keys)
    return f" (now {fingerprints[-1][0]} {fingerprints[-1][1]})" if fingerprints else ""
