"""Answers that several processes need, each looked up by one of them.

Where the environment variable SHARED_ANSWERS names a folder, every answer is kept there. The folder
is for one state of the code and the catalogue, and for one day: start each run with an empty one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from remote_gpu_trainer.lookup.answer import answer_for
from remote_gpu_trainer.lookup.state import Answer

try:
    import fcntl
except ImportError:  # Windows: each process looks everything up
    fcntl = None

FOLDER = "SHARED_ANSWERS"


def answers(texts: Iterable[str]) -> dict[str, Answer]:
    """{text: the whole answer of the function that both front ends call, at its default limit}."""
    asked, folder = list(dict.fromkeys(texts)), os.environ.get(FOLDER)
    if not folder or not fcntl:
        return {text: answer_for(text=text) for text in asked}
    found: dict[str, Answer] = {}
    # What another process is just looking up comes last, so that two share a list between them.
    for wait in (False, True):
        for text in asked:
            answer = None if text in found else _kept_or_new(Path(folder), text, wait)
            if answer:
                found[text] = answer
    return found


def _kept_or_new(folder: Path, text: str, wait: bool) -> Answer | None:
    """The answer in the folder, or a new one that is put there.

    None where another process is looking it up and we don't wait for that.
    """
    name = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    with open(folder / name, "a+", encoding="utf-8") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return None
        file.seek(0)
        kept = file.read()
        if kept:
            return Answer(**json.loads(kept))
        answer = answer_for(text=text)
        file.write(json.dumps(answer.as_dict()))
    return answer
