"""The targets Slurm, Kubernetes and SkyPilot. This module holds what the three share.

It checks the values that reach an engine's own files. A `spec` is a job in the fields of
runner/spec.py. Every refusal is a ValueError with the field, what it must be, what it is, and what
to do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import yaml

from ...runner.phases import CODES
from ..run_script import END, SHEBANG

# Of all exit codes of a run, the one of a run that is to be started again.
AGAIN = CODES["preempted"]


def refuse(field: str, value: object, expected: str, do: str) -> ValueError:
    """The error for a field, on one line. A long value is cut."""
    shown = repr(value)
    if len(shown) > 80:
        shown = shown[:77] + "..."
    return ValueError(f"{field}: must be {expected}, not {shown}; {do}")


def matched(field: str, value: object, pattern: str, expected: str, do: str) -> None:
    """Raises ValueError unless the value is a text that the pattern matches from end to end."""
    if not isinstance(value, str) or not re.fullmatch(pattern, value):
        raise refuse(field, value, expected, do)


def whole(field: str, value: object, low: int, high: int, do: str) -> None:
    """Raises ValueError unless the value is a whole number from low to high.

    True and False are no numbers.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise refuse(field, value, f"a whole number from {low} to {high}", do)


def hours(field: str, value: object, do: str) -> None:
    """Raises ValueError unless the value is None or a number of hours.

    A number must be above 0 and at most a year.
    """
    if value is not None and (
        isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 8784
    ):
        raise refuse(field, value, "a number of hours above 0 and up to 8784", do)


def encodable(field: str, value: str) -> int:
    """The value's length in bytes.

    Raises ValueError for a NUL and for half a character, which UTF-8 can't hold.
    """
    try:
        size = len(value.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise refuse(
            field,
            value[error.start : error.end],
            "text that UTF-8 can hold",
            "write the whole character",
        ) from None
    if "\0" in value:
        raise refuse(field, "\0", "text without NUL", "leave it out: no shell can hold it")
    return size


def check_script(script: str) -> None:
    """Raises ValueError for what is no run script of ours, or holds what no text file can."""
    if not script.startswith(SHEBANG) or not script.endswith(END):
        raise refuse(
            "script",
            script[-40:],
            f"a script from {SHEBANG.strip()} to {END.strip()}",
            "give the text that run_script.text returns",
        )
    encodable("script", script)


_BARE = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*\Z")
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"}
# A line may contain a tab, but a block must not begin with a tab, a blank or an empty line.
_BLOCK = re.compile(
    r"[^\n\t ](?:[\t\n\x20-\x7e\u00a1-\u1fff\u2010-\u2027\u2030-\ud7ff"
    r"\uf900-\ufefe\uff00-\uffef\U00010000-\U0010ffff])*\n\Z"
)
_BLANK_END = re.compile(r"[\t ]\n")


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def analyze_scalar(self, scalar: str) -> yaml.emitter.ScalarAnalysis:
        if not _is_block(scalar):
            return super().analyze_scalar(scalar)
        # PyYAML reads a script letter by letter, and writes no block with a tab, although its
        # reader and others accept one.
        return yaml.emitter.ScalarAnalysis(
            scalar=scalar,
            empty=False,
            multiline=True,
            allow_flow_plain=False,
            allow_block_plain=False,
            allow_single_quoted=False,
            allow_double_quoted=True,
            allow_block=True,
        )

    def write_literal(self, text: str) -> None:
        """Write a block; each text that _is_block knows needs no hint behind the indicator."""
        pad = " " * (self.indent or 0)
        lines = text[:-1].split("\n")
        self.write_indicator("|", True)
        self.write_line_break()
        self.stream.write("\n".join(pad + line if line else "" for line in lines))
        self.write_line_break()


def _is_block(value: str) -> bool:
    return (
        value.count("\n") > 1
        and bool(_BLOCK.match(value))
        and not _BLANK_END.search(value)
        and not value.endswith("\n\n")
    )


def _text(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    bare = _BARE.match(value) and value.lower() not in _WORDS
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", value, style=None if bare else "|" if _is_block(value) else '"'
    )


_Dumper.add_representer(str, _text)


def dump(documents: Iterable[dict]) -> str:
    """Return the documents as YAML, each after a `---`. The same values give the same bytes."""
    return yaml.dump_all(
        documents,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        explicit_start=True,
        width=10**9,
    )
