"""The values that a job may hold: checks of a single value, the types of the fields, and what all
parts of a job have in common.

A value that a shell, an argument list or a file name can't carry unharmed is refused. No message
repeats a value.
"""

from __future__ import annotations

import posixpath
import re
import warnings
from datetime import datetime, timezone
from typing import Annotated, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticKnownError

from ..runner.step_pattern import compile_step_pattern
from ..text.money import read_money
from ..text.secrets import holds_secret, is_secret
from ..text.spans import seconds_in

MOST_OF_A_PATTERN = 1_000  # characters
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
# 1h30m, 2 hours, 1 day 12 h: not the form of a deadline, but plain.
_UNIT = r"(seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d|weeks?|w)"
_SPAN = re.compile(rf"(\d{{1,6}}(?:\.\d{{1,6}})?)\s*{_UNIT}")
_SPANS = re.compile(rf"(?:\d{{1,6}}(?:\.\d{{1,6}})?\s{{0,3}}{_UNIT}[\s,]{{0,3}}(?:and\s)?){{1,5}}")
_MINUTES = {"s": 1 / 60, "m": 1, "h": 60, "d": 1440, "w": 10080}
_A_PATTERN = "step [0-9]+"
# What Python says of a broken pattern, and what a person reads.
_IN_A_PATTERN = (
    ("missing ), unterminated", "a '(' isn't closed"),
    ("unterminated character set", "a '[' isn't closed"),
    ("unbalanced parenthesis", "a ')' has no '('"),
    ("nothing to repeat", "a repeat has nothing before it"),
    ("multiple repeat", "two repeats stand in a row"),
    ("bad escape (end of pattern)", "a backslash has nothing behind it"),
    ("bad escape", "a backslash has a letter behind it that means nothing"),
    ("bad character range", "a range runs backwards"),
)
_A_KEY = (
    "this looks like a key itself; put it into a file or variable of the box, and name that under "
    "`secrets`"
)


class WrongValue(ValueError):
    """A value that can't be used. `meant`: the value to write; `more`: what is said behind it."""

    def __init__(self, fault: str, meant: object, more: str = "") -> None:
        super().__init__(fault)
        self.meant, self.more = meant, more


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
    """Turn numbers into text as they were written, because YAML reads 1.10 and 8 as numbers."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    try:
        return str(getattr(value, "written", value))
    except ValueError:
        raise ValueError("has more than 4,300 digits; put it into quotes") from None


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
    if fault := _why_no_pattern(text):
        raise WrongValue(fault, _A_PATTERN)
    if _repeats_within(text):
        raise WrongValue(
            "has a repeat within a repeat, which may take for ever on one line", _A_PATTERN
        )
    return text


def _why_no_pattern(text: str) -> str:
    """Return why a text is no pattern of Python's, with the place of the fault; '' if it is one."""
    if len(text) > MOST_OF_A_PATTERN:
        return f"is longer than {MOST_OF_A_PATTERN:,} characters"
    if posix := re.search(r"\[:\w+:\]|\\[<>]", text):
        return f"has {posix[0]} at character {posix.start() + 1}, which isn't of Python's kind"
    why = f"isn't a regular expression of Python's: {{}} at character {{}} of {len(text)}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(text)
            return "" if compile_step_pattern(text) else why.format("it can't be used for bytes", 1)
    except re.error as error:
        words = next(
            (ours for theirs, ours in _IN_A_PATTERN if error.msg.startswith(theirs)), error.msg
        )
        return why.format(words, (error.pos or 0) + 1)
    except (OverflowError, RecursionError):
        return why.format("brackets or numbers are too large", 1)


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
        number = str(getattr(value, "written", value))[:40]
        raise WrongValue(
            f"is {number.lower() if isinstance(value, bool) else f'the number {number}'}, and must "
            "be a list of arguments or one line",
            ["python", "train.py"],
            f', or "{number.lower()}" in quotes for a program of that name',
        )
    if not value and value is not None or isinstance(value, list) and value[0] == "":
        raise WrongValue("is empty, so there is nothing to run", ["python", "train.py"])
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
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise WrongValue("must be a length of time, or a time with its zone", "20h")
    text = str(getattr(value, "written", value)).strip()
    if re.fullmatch(r"at:\d{1,12}", text):
        return text
    if found := _TIME_OF_DAY.fullmatch(text):
        hour, minute, zone, zone_minute = found.groups()
        return f"clock:{int(hour):02}:{minute}{zone or '+00'}:{zone_minute or '00'}"
    seconds = seconds_in(re.sub(r"\Ahours:([\d.]+)\Z", r"\1h", text))
    if seconds is not None:
        hours = seconds / 3600
        if not 1e-6 <= hours <= 24 * 366:
            raise WrongValue("must be over 0 and at most a year", "20h")
        return f"hours:{f'{hours:.6f}'.rstrip('0').rstrip('.')}"
    at = _time_in(text)
    if at is None or at.tzinfo is None:
        raise _why_no_deadline(text, at)
    try:
        return f"at:{int(at.astimezone(timezone.utc).timestamp())}"
    except (OverflowError, ValueError):
        raise WrongValue("is out of the years that can be told", "20h") from None


def _amount(example: str) -> BeforeValidator:
    """Return a check of an amount of money: 'usd 2.5' and '2.5USD' become '2.5 USD', and an amount
    alone stays one. `example` is what a message says to write.
    """

    def check(value: object) -> str:
        written = getattr(value, "written", value)
        if (money := read_money(written)) is not None:
            return str(money)
        if found := re.fullmatch(r"\s*[$€£¥]\s*(\d{1,9}(?:\.\d{1,9})?)\s*", str(written)):
            fault = "has a sign in place of its currency"
            raise WrongValue(fault, f"{found[1]} USD", ", or EUR, CNY")
        raise WrongValue("must be an amount over 0 with its currency", example)

    return BeforeValidator(check)


def read_rented(value: object) -> str:
    """Turn a date with its zone into 'at:EPOCH'; 'now' stays, which is the first start.

    Raises WrongValue.
    """
    text = str(getattr(value, "written", value)).strip()
    if text == "now" or re.fullmatch(r"at:\d{1,12}", text):
        return text
    at = _time_in(text)
    if at is None or at.tzinfo is None:
        raise WrongValue("must be now, or a date and time with its zone", "2026-12-01T08:00Z")
    return f"at:{int(at.timestamp())}"


def _time_in(text: str) -> datetime | None:
    """Return the date and time of a text, None for any other text."""
    text = re.sub(r"\s+(?=[+-]\d\d:?\d\d\Z|Z\Z)", "", text)
    if not re.match(r"\d{4}-\d", text):
        return None
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00").replace("z", "+00:00"))
    except ValueError:
        return None


def _why_no_deadline(text: str, at: datetime | None) -> WrongValue:
    """Return what a deadline lacks, and the one that was meant where that is plain."""
    if at is not None:
        meant = f"{at:%Y-%m-%dT%H:%M}Z"
        return WrongValue("is a time without its zone", meant, f" for UTC, or {meant[:-1]}+02:00")
    if re.fullmatch(r"([01]?\d|2[0-3]):[0-5]\d", text):
        fault = "is a time of day without its zone"
        return WrongValue(fault, f"{text}Z", f" for UTC, or {text}+02:00")
    if re.fullmatch(r"[+-]?\d+(\.\d+)?", text):
        if float(text) <= 0:
            return WrongValue("must be over 0, with a unit", "20h")
        number = text.lstrip("+")[:20]
        return WrongValue(
            "is a number without a unit", f"{number}h", f", or {number}m or {number}d"
        )
    if re.match(r"-\s*\d", text):
        return WrongValue(
            "must be over 0", text.lstrip("- ")[:20] if seconds_in(text[1:]) else "20h"
        )
    if spans := _SPANS.fullmatch(text.lower()):
        minutes = sum(float(size) * _MINUTES[unit[0]] for size, unit in _SPAN.findall(spans[0]))
        if 0 < minutes <= 24 * 60 * 366:
            meant = f"{minutes / 60:g}h" if minutes % 60 == 0 else f"{max(1, round(minutes))}m"
            return WrongValue("must be one number with s, m, h or d behind it", meant)
    if clock := re.fullmatch(r"(\d{1,3}):([0-5]\d):[0-5]\d", text):
        minutes = int(clock[1]) * 60 + int(clock[2])
        fault = "must be one number with s, m, h or d behind it"
        return WrongValue(fault, f"{max(1, minutes)}m")
    if re.match(r"\d{4}-\d", text):
        return WrongValue("is no date and time that there is", "2026-12-01T08:00Z")
    if re.match(r"\d?\d:\d", text):
        return WrongValue("is no time of day with its zone", "18:00Z")
    return WrongValue(
        "must be a length of time, or a time with its zone",
        "20h",
        ", or 90m, 2d, 18:00+02:00, 2026-12-01T08:00Z",
    )


def form(pattern: str, must: str, do: str) -> AfterValidator:
    """Return a check of a text: the pattern matches all of it.

    `must`: what the text must be, `do`: what to do, for the message.
    """

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"must be {must}; {do}")
        return text

    return AfterValidator(check)


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
Budget = Annotated[str, _amount("45 USD")]
Price = Annotated[str, _amount("1.99 USD")]
Rented = Annotated[str, BeforeValidator(read_rented)]


def _takes(annotation: object, *kinds: type) -> bool:
    return bool(set(kinds).intersection(get_args(annotation) or (annotation,)))


class Strict(BaseModel):
    """A part of a job: unknown fields are refused, and no message repeats a value."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, allow_inf_nan=False
    )

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_value(cls, value: object, info: ValidationInfo) -> object:
        """Refuse true where a number is wanted, which would be 1."""
        wanted = cls.model_fields[str(info.field_name)].annotation
        if isinstance(value, bool) and not _takes(wanted, bool) and _takes(wanted, int, float):
            raise PydanticKnownError("float_type" if _takes(wanted, float) else "int_type")
        return value


class OneOf(Strict):
    """A part with several fields, exactly one of which is given."""

    @model_validator(mode="after")
    def _one(self):
        if sum(value is not None for _, value in self) != 1:
            *names, last = type(self).model_fields
            raise ValueError(f"give exactly one of {', '.join(names)} and {last}")
        return self
