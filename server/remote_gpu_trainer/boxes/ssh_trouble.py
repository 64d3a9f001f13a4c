"""Why ssh didn't get there, from what it printed. Pure. The text says found, expected and do.

Limits: the texts are OpenSSH's (8 to 10, English); what none of them fits is `other`, with ssh's last line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from ..text.masking import shown, shown_lines
from .name import Box

_FINGERPRINT = re.compile(r"Server host key: (\S{1,60}) (SHA256:[A-Za-z0-9+/=]{20,60})")
_CHANGED = re.compile(r"REMOTE HOST IDENTIFICATION HAS CHANGED|Host key for \S{1,200} has changed")
_PLACE = re.compile(r"Host key for (\S{1,200}) has changed")
_KNOWN = (  # in the order in which they are asked
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
            r"Permission denied|Too many authentication failures|no mutual signature|System is booting up|pam_nologin"
        ),
    ),
    (
        "lost",
        re.compile(
            r"[Cc]onnection (?:to \S+ )?(?:closed|reset)|not responding|kex_exchange_identification|Broken pipe|banner exchange|client_loop"
        ),
    ),
)
# ssh.runpod.io: "Error: Your SSH client doesn't support PTY"; a shell that only copies files; nologin
_RESTRICTED = re.compile(
    r"doesn't support PTY|sftp connections only|restricted to|account is (?:currently )?not available|interactive shell|no shell access|rbash|shell request failed",
    re.I,
)


@dataclass(frozen=True)
class Trouble:
    why: Literal[
        "name",
        "refused",
        "timeout",
        "auth",
        "host-key-unknown",
        "host-key-changed",
        "restricted",
        "lost",
        "other",
    ]
    text: str


def trouble(box: Box, code: int | None, errors: str, said: str, keys: str = "") -> Trouble:
    """What stood in the way. `errors`: ssh's stderr; `said`: what came on stdout before our program ran; `keys`: stderr of `ssh -v`."""
    name = shown(box.name, 80)
    last = next(reversed(shown_lines(errors, 1, 160)), "") or next(
        reversed(shown_lines(said, 1, 160)), "no message"
    )
    if _RESTRICTED.search(errors[-4000:] + said[-4000:]) or (
        code is not None and code >= 0 and code != 255
    ):
        return Trouble(
            "restricted",
            f"found a login at {name} that runs no commands ({last}), expected a full ssh; do: use the box's own address and port, not the provider's proxy",
        )
    if _CHANGED.search(errors):
        found = _PLACE.search(errors)
        place = shown(found[1] if found else "HOST", 80)
        return Trouble("host-key-changed", f"found another host key at {name} than the one that is known{_now(keys)}, expected the same; it is never accepted here; do: ask the provider whether the box was replaced, and only then run ssh-keygen -R '{place}' yourself")  # fmt: skip
    why = next((why for why, pattern in _KNOWN if pattern.search(errors)), "other")
    return Trouble(why, _TEXTS[why].format(name=name, last=last, now=_now(keys)))


def _now(keys: str) -> str:
    found = _FINGERPRINT.findall(keys)
    return f" (now {found[-1][0]} {found[-1][1]})" if found else ""


_TEXTS = {
    "host-key-unknown": "found a host key at {name} that isn't known here yet{now}, expected a known one; do: compare it with the provider's console, then repeat with --accept-new-host-key",
    "name": "found no address for {name} ({last}), expected a name of the ssh configuration or of the DNS; do: check the name, or paste the provider's ssh line",
    "refused": "found nobody listening at {name} ({last}), expected sshd; do: see in the provider's console whether the box runs and which port it has now",
    "timeout": "found no answer from {name} ({last}), expected one within the time; do: see in the provider's console whether the box runs, and whether this network reaches it",
    "auth": "found no key that {name} takes ({last}), expected a login without a password; do: name the key (-i KEY) or load it into the agent, and check the user",
    "lost": "found the connection to {name} broken ({last}), expected it to last; do: try again",
    "other": "found no connection to {name} ({last}), expected one; do: try ssh to it by hand",
}
