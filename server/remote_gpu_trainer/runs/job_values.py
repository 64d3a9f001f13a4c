"""The values that a job is made of: text that a shell and an argument list carry unharmed, names, paths, a deadline. What isn't one is refused, and not repeated."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

MOST_BYTES = 100_000  # Linux takes 131,072 bytes in one argument, its name included
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(m|min|h|d)\Z")
_HOURS = {"m": 1 / 60, "min": 1 / 60, "h": 1.0, "d": 24.0}
_TOKEN = re.compile(
    r"\bhf_[A-Za-z0-9]{20,}|\b(?:rpa_|gsk_|r8_|npm_|dckr_pat_|github_pat_|nvapi-)[A-Za-z0-9_-]{16,}|\bAIza[\w-]{30,}|\bya29\.[\w-]{20,}|\beyJ[\w-]{8,}\.eyJ[\w-]{8,}"
    r"|\bwandb login (?:--\S+ )*[0-9a-f]{40}\b|\bsk-(?:[a-z]{2,8}[0-9]{0,3}-)*[A-Za-z0-9_]{20,}|\bgh[opsu]_[A-Za-z0-9]{20,}|\bAKIA[0-9A-Z]{16}\b|\bxox[abp]-[0-9]|\bglpat-\w{10,}|-----BEGIN [A-Z ]*PRIVATE KEY"
)

_SECRET_NAME = re.compile(
    r"(?:API_?KEY|ACCESS_?KEY|SECRET(?:_ACCESS)?(?:_?KEY)?|PRIVATE_?KEY|PASSWORD|PASSWD|(?:HF|HUB|HUGGINGFACE|GITHUB|GH|GITLAB|API|AUTH|ACCESS|BEARER|BOT|SESSION)_TOKEN)\Z",
    re.I,
)
# What bash computes or keeps to itself: given a value, they don't reach the program as they are.
_BASH = frozenset(
    [
        "_",
        "COMP_WORDBREAKS",
        "DIRSTACK",
        "EPOCHREALTIME",
        "EPOCHSECONDS",
        "EUID",
        "FUNCNAME",
        "GROUPS",
        "HISTCMD",
        "IFS",
        "LINENO",
        "OLDPWD",
        "OPTARG",
        "OPTIND",
        "PIPESTATUS",
        "PPID",
        "PWD",
        "RANDOM",
        "REPLY",
        "SECONDS",
        "SHELLOPTS",
        "SHLVL",
        "SRANDOM",
        "UID",
    ]
)


def _carried(text: str) -> str:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise ValueError("found characters that UTF-8 can't hold, expected text") from None
    if "\0" in text:
        raise ValueError("found a NUL character, expected text that a shell can hold")
    if size > MOST_BYTES:
        raise ValueError(
            f"found {size:,} bytes, expected at most {MOST_BYTES:,}; put it into a file and send that with the code"
        )
    return text


def _plain_text(value: object) -> object:
    """YAML reads 1e-4 and 8 as numbers; an argument is text all the same. Booleans are ambiguous and stay refused."""
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def _on_one_line(text: str) -> str:
    if any(not c.isprintable() for c in text):
        raise ValueError("found a line break or a control character, expected one line of text")
    return text


def _no_token(text: str) -> str:
    if _TOKEN.search(text):
        raise ValueError(
            "found what looks like a key itself, expected it in a file or variable of the box that `secrets` names"
        )
    return text


def _not_ours(name: str) -> str:
    if name.startswith("RGT_"):
        raise ValueError(
            "found a name beginning with RGT_, expected another; the runner uses these"
        )
    if name in _BASH or name.startswith("BASH"):
        raise ValueError(
            f"found {name}, expected another name; bash sets this one itself, so the program would see another value"
        )
    return name


def no_secret(values: dict[str, str]) -> dict[str, str]:
    """Variables whose name or value doesn't speak of a key. Raises ValueError, without the value."""
    for name, value in values.items():
        if len(value) >= 6 and _SECRET_NAME.search(name):
            raise ValueError(
                f"found a value for {name}, expected it under `secrets`: a file or variable of the box that holds it; what stands here is written into the script"
            )
    return values


def _deadline(value: object) -> str:
    """'hours:20' from '20h', or 'at:EPOCH' from a date with its zone."""
    if isinstance(value, datetime):
        value = value.isoformat()
    text = str(value).strip()
    if re.fullmatch(r"at:\d{1,12}", text):
        return text
    if found := _SPAN.match(re.sub(r"\Ahours:([\d.]+)\Z", r"\1h", text)):
        hours = float(found[1]) * _HOURS[found[2]]
        if not 1e-6 <= hours <= 24 * 366:
            raise ValueError(f"found {text[:40]!r}, expected more than nothing and at most a year")
        return f"hours:{f'{hours:.6f}'.rstrip('0').rstrip('.')}"
    try:
        at = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise ValueError(
            f"found {text[:40]!r}, expected a span such as 20h, 90m or 2d, or a time with its zone such as 2026-11-22T09:00+00:00"
        )
    return f"at:{int(at.astimezone(timezone.utc).timestamp())}"


Text = Annotated[
    str, BeforeValidator(_plain_text), AfterValidator(_carried), AfterValidator(_no_token)
]
Line = Annotated[
    str, AfterValidator(_carried), AfterValidator(_on_one_line), AfterValidator(_no_token)
]
BoxPath = Annotated[
    Line,
    Field(
        min_length=1, description="on the box; relative to the code, absolute, or beginning with ~/"
    ),
]
RunDir = Annotated[str, Field(pattern=r"^(~/|/)[A-Za-z0-9._][A-Za-z0-9._/-]*$", max_length=200)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,48}[a-z0-9])?$")]
Variable = Annotated[
    str,
    Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$"),
    AfterValidator(_not_ours),
    AfterValidator(_no_token),
]
Minutes = Annotated[float, Field(ge=0, le=60 * 24 * 30)]
Deadline = Annotated[str, BeforeValidator(_deadline)]
