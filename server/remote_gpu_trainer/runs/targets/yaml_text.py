"""YAML from plain values, so that every reader gets the same value back: PyYAML, the YAML 1.1 of Kubernetes and SkyPilot, and YAML 1.2.

Keys keep their order. A text stands bare only where no version of YAML could read it as something else (`1e3`, `no` and `12:30` get quotes).
A text of several lines is a literal block. It is quoted instead where a block could change it: a control character, a carriage return,
a Unicode line break, a blank at the end of a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import yaml

_BARE = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*\Z")
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"}
# A tab may stand inside a line, but a block must not begin with one, nor with a blank or an empty line.
_BLOCK = re.compile(
    r"[^\n\t ](?:[\t\n\x20-\x7e\u00a1-\u1fff\u2010-\u2027\u2030-\ud7ff\uf900-\ufefe\uff00-\uffef\U00010000-\U0010ffff])*\n\Z"
)
_BLANK_END = re.compile(r"[\t ]\n")


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def analyze_scalar(self, scalar: str) -> yaml.emitter.ScalarAnalysis:
        analysis = super().analyze_scalar(scalar)
        if _is_block(scalar):
            analysis.allow_block = True  # PyYAML refuses blocks with a tab, which its reader and the others take as it is
        return analysis


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
    """The documents, each below its own `---`. The same values give the same bytes."""
    return yaml.dump_all(
        documents,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        explicit_start=True,
        width=10**9,
    )
