"""Runs on a box: send the course of a run, its series.jsonl and events.jsonl, packed.

It is sent to the box's Python with the reader of logs, which finds the folder. It prints one line:
JSON, compressed, in base64.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import zlib

from . import log_reader

MOST = {"series.jsonl": 32 << 20, "events.jsonl": 8 << 20}  # bytes of each that are sent


def main(words):
    """Print the course of the run in a folder."""
    folder, others = log_reader.find_folder(os.path.abspath(words[0]))
    answer = {"folder": folder, "others": others}
    for name, most in MOST.items():
        answer[name] = "" if others else newest(os.path.join(folder, name), most)
    sys.stdout.write(base64.b64encode(zlib.compress(json.dumps(answer).encode())).decode() + "\n")
    return 0


def newest(path, most):
    """Return the newest lines of a file, at most this many bytes; '' where there is none."""
    try:
        with open(path, "rb") as file:
            skipped = max(os.fstat(file.fileno()).st_size - most, 0)
            file.seek(skipped)
            data = file.read(most)
    except OSError:
        return ""
    if skipped:
        data = data[data.find(b"\n") + 1 :]
    return data.decode("utf-8", "replace")
