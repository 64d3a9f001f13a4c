"""Runs on a box: tell which processes use its cards and belong to no run of ours.

A process whose variables can't be read counts as somebody else's.
"""

from __future__ import annotations

import json
import shutil
import sys

from ..runner import child, procs
from ..text.proc import read_words

LIMIT = 20.0  # seconds for nvidia-smi
MOST = 80  # characters of a command line


def main(_words):
    """Print their command lines as JSON. Exit code 1: nvidia-smi doesn't answer."""
    words = ["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"]
    said = child.answer(words, LIMIT) if shutil.which(words[0]) else ""
    if said is None:
        return 1
    pids = [int(line) for line in said.split() if line.isdigit()]
    strangers = [pid for pid in pids if procs.stat(pid) and procs.MARK not in procs.environ(pid)]
    sys.stdout.write(json.dumps([_command_of(pid) for pid in strangers]) + "\n")
    return 0


def _command_of(pid):
    words = read_words(pid)[:MOST]
    return words.replace(b"\0", b" ").decode("utf-8", "replace").strip() or f"process {pid}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
