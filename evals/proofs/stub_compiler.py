"""A compiler that compiles nothing, for the proofs of what torch builds at its first use."""

from __future__ import annotations

from pathlib import Path

_TEXT = """#!/bin/sh
case "$1" in -dump*) echo 12.2.0; exit 0;; -v) echo gcc version 12.2.0 >&2; exit 0;; esac
while [ $# -gt 0 ]; do
  case "$1" in -o) out=$2;; -MF) echo "x.o:" > "$2";; esac
  shift
done
%s
%s > "$out"
"""


def write_compiler(folder: Path, line: str = "", makes: str = "echo") -> None:
    """Write `c++` there: it runs `line` and takes what the command `makes` prints for an object file."""
    (folder / "c++").write_text(_TEXT % (line, makes))
    (folder / "c++").chmod(0o755)
