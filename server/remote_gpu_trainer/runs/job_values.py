"""The values that a job may hold: checks of a single value, and the types of the fields.

A value that a shell, an argument list or a file name can't carry unharmed is refused. No message
repeats a value.
"""

from __future__ import annotations

import posixpath
import re
from datetime import datetime, timezone
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from ..runner.step_pattern import compile_step_pattern
from ..text.secrets import holds_secret, is_secret
from ..text.spans import seconds_in

MOST_BYTES = 100_000  # Linux takes 131,072 bytes in one argument, its name included
# Variables that bash computes or doesn't pass on: the program wouldn't see the given value.
_BASH = re.compile(
    r"_|COMP_WORDBREAKS|DIRSTACK|EPOCHREALTIME|EPOCHSECONDS|EUID|FUNCNAME|GROUPS|HISTCMD|IFS|LINENO"
    r"|OLDPWD|OPTARG|OPTIND|PIPESTATUS|PPID|PWD|RANDOM|REPLY|SECONDS|SHELLOPTS|SHLVL|SRANDOM|UID"
    r"|BASH.*"
)


# The next such time after the first start: 18:00Z, 18:00+02:00, 18:00+02.
_TIME_OF_DAY = re.compile(
    r"(?:clock:)?([01]?\d|2[0-3]):([0-5]\d)(?:Z|([+-](?:0\d|1[0-4]))(?::?([0-5]\d))?)"
)
_A_KEY = (
    "this looks like a key itself; put it into a file or variable of the box, and name that under "
    "`secrets`"
)


def _carried(text: str) -> str:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise ValueError("has characters that UTF-8 can't encode; leave them out") from None
    if "\0" in text:
        raise ValueError("has a NUL character, which no shell can hold; leave it out")
    if size > MOST_BYTES:
        raise ValueError(
            f"{size:,} bytes are more than {MOST_BYTES:,}; put the text into a file of the code"
        )
    return text


def _plain_text(value: object) -> object:
    """Turn numbers into text, because YAML reads 1e-4 and 8 as numbers. Refuse booleans."""
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def _on_one_line(text: str) -> str:
    if any(not c.isprintable() for c in text):
        raise ValueError("has a line break or a control character; write it on one line")
    return text


def _a_path(text: str) -> str:
    if not text.strip() or posixpath.normpath(text) in ("/", "//", "~"):
        raise ValueError("names no file or folder; write one such as out/final.pt")
    return text


def _a_result(text: str) -> str:
    if posixpath.normpath(text) in (".", "..") or posixpath.normpath(text).startswith("../"):
        raise ValueError(
            "leads out of the code; write a path inside it, such as out/final.pt, or an absolute "
            "one"
        )
    return text


def _below(text: str) -> str:
    if text.startswith(("/", "~")) or ".." in text.split("/"):
        raise ValueError("leads out of the folder; write a glob below it, such as optim_*.pt")
    return text


def _a_pattern(text: str) -> str:
    if not text:
        return text
    if compile_step_pattern(text) is None:
        raise ValueError("isn't a regular expression; write one such as 'step [0-9]+'")
    if _repeats_within(text):
        raise ValueError(
            "has a repeat within a repeat, which may take for ever on one line; write one such as "
            "'step [0-9]+'"
        )
    return text


def _repeats_within(text: str) -> bool:
    """Whether a part that may repeat without end holds another such part."""
    escaped = re.sub(r"\\.|\[\^?\]?[^\]]*\]", "x", text)
    inner = r"\((?:[^()]*[+*][^()]*|[^()]*\{\d+,\}[^()]*)\)(?:[+*]|\{\d+,\})"
    while True:
        if re.search(inner, escaped):
            return True
        # A group without a repeat behind it is as good as its content.
        flat = re.sub(r"\(([^()]*)\)(?![+*?{])", r"\1", escaped)
        flat = re.sub(r"\([^()]*\)(?=[+*?{])", "x", flat)
        if flat == escaped:
            return False
        escaped = flat


def _a_command(value: object) -> object:
    if isinstance(value, (bool, int, float)):
        raise ValueError(
            "is a number; write a list of arguments such as [python, train.py], or one line"
        )
    return value


def _no_token(text: str) -> str:
    if holds_secret(text):
        raise ValueError(_A_KEY)
    return text


def _not_ours(name: str) -> str:
    if name.startswith("RGT_"):
        raise ValueError("names that begin with RGT_ belong to the runner; use another name")
    if _BASH.fullmatch(name):
        raise ValueError(f"bash sets {name} itself, so yours would be lost; use another name")
    return name


def no_secret_by_value(values: dict[str, str]) -> dict[str, str]:
    """Return the variables. Raises ValueError where one is a secret."""
    for name, value in values.items():
        if is_secret(name, value):
            raise ValueError(
                f"{name} looks like a secret, and its value would stand in the script; name a file "
                "or variable of the box under `secrets`"
            )
    return values


def no_secret_in_words(words: list[str]) -> list[str]:
    """Return the words of a command. Raises ValueError for an option with a secret behind it."""
    if holds_secret(" ".join(words)):
        raise ValueError(_A_KEY)
    return words


def _deadline(value: object) -> str:
    """Turn '20h' into 'hours:20', '18:00Z' into 'clock:18:00+00:00', and a date with its zone into
    'at:EPOCH'."""
    if isinstance(value, datetime):
        value = value.isoformat()
    text = str(value).strip()
    if re.fullmatch(r"at:\d{1,12}", text):
        return text
    if found := _TIME_OF_DAY.fullmatch(text):
        hour, minute, zone, zone_minute = found.groups()
        return f"clock:{int(hour):02}:{minute}{zone or '+00'}:{zone_minute or '00'}"
    seconds = seconds_in(re.sub(r"\Ahours:([\d.]+)\Z", r"\1h", text))
    if seconds is not None:
        hours = seconds / 3600
        if not 1e-6 <= hours <= 24 * 366:
            raise ValueError(f"{text[:40]!r} isn't between 0 and a year; write for example 20h")
        return f"hours:{f'{hours:.6f}'.rstrip('0').rstrip('.')}"
    try:
        at = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise ValueError(
            f"{text[:40]!r} isn't a duration or a time with its zone; write 20h, 90m, 2d, "
            "18:00+02:00 or 2026-11-22T09:00Z"
        )
    return f"at:{int(at.astimezone(timezone.utc).timestamp())}"


Text = Annotated[
    str, BeforeValidator(_plain_text), AfterValidator(_carried), AfterValidator(_no_token)
]
Line = Annotated[
    str, AfterValidator(_carried), AfterValidator(_on_one_line), AfterValidator(_no_token)
]
_ON_THE_BOX = "on the box: relative to the code, absolute, or beginning with ~/"
BoxPath = Annotated[Line, Field(min_length=1, description=_ON_THE_BOX), AfterValidator(_a_path)]
Result = Annotated[BoxPath, AfterValidator(_a_result)]
Below = Annotated[Line, Field(min_length=1), AfterValidator(_below)]
Pattern = Annotated[Line, AfterValidator(_a_pattern)]
IsCommand = BeforeValidator(_a_command)
# pydantic uses Rust's patterns, where $ is the very end of the text.
RunDir = Annotated[str, Field(pattern=r"^(~/|/)[A-Za-z0-9._][A-Za-z0-9._/-]*$", max_length=200)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,48}[a-z0-9])?$")]
_IDENTIFIER = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")
Variable = Annotated[str, _IDENTIFIER, AfterValidator(_not_ours), AfterValidator(_no_token)]
Minutes = Annotated[float, Field(ge=0, le=60 * 24 * 30)]
Deadline = Annotated[str, BeforeValidator(_deadline)]
