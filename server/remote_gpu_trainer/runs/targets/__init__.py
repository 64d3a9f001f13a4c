"""The targets Slurm, Kubernetes and SkyPilot. This module holds what the three share."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

import yaml

from ...runner.core.phases import CODES
from ..run_script import END, SHEBANG

# Of all exit codes of a run, the one of a run that is to be started again.
AGAIN = CODES["preempted"]


def check_script(script: str) -> None:
    """Raises ValueError for what is no run script of ours."""
    if not script.startswith(SHEBANG) or not script.endswith(END):
        raise ValueError(
            f"script: must be one that run_script.packed returns, not {script[-40:]!r}"
        )


_BARE = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*\Z")
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"}


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _represent_text(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    bare = _BARE.match(value) and value.lower() not in _WORDS
    lines = value.split("\n")
    # A block shows what it holds: NEL and its like would end a line there.
    is_block = len(lines) > 2 and all(line.isprintable() for line in lines)
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str",
        value,
        style=None if bare else "|" if is_block else '"',
    )


_Dumper.add_representer(str, _represent_text)


def dump(documents: Callable[[str], list[dict]], block: str) -> str:
    """Return documents as YAML, each after a `---`. The same values give the same bytes.

    `documents`: gives them for the text that stands in the place of `block`, a script: PyYAML would
    write that letter by letter.
    """
    mark = f"block-{hashlib.sha256(block.encode()).hexdigest()}"
    text = yaml.dump_all(
        documents(mark),
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        explicit_start=True,
        width=10**9,
    )
    before, _, after = text.partition(f"{mark}\n")
    key = before.rpartition("\n")[2]
    pad = " " * (len(key) - len(key.lstrip()) + 2)
    lines = [pad + line if line else "" for line in block.split("\n")]
    return f"{before}|\n" + "\n".join(lines) + after
